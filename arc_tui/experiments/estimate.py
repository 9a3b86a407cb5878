"""What will a run ask, of whom, and for how much? Said before anything is asked."""

from __future__ import annotations

from msgspec import Struct

from arc_tui.experiments.request import is_local
from arc_tui.ui import format
from arc_tui.ui.format import cost
from replay.locked.estimate import Estimate
from replay.models import protocol


class CostEstimate(Struct, frozen=True, eq=False, kw_only=True):
    """What a run will ask, before it asks anything. `calls` is None where that is not known."""

    models: tuple[str, ...] = ()
    calls: Estimate | None = None

    @property
    def is_free(self) -> bool:
        """Is all of it asked on this machine?"""
        return is_local(self.models)

    @property
    def asks(self) -> bool:
        """Is there anything that is not answered already?"""
        return self.calls is None or self.calls.calls > 0

    def question(self) -> str:
        """What a person reads before they say what it may cost. Raises ModelRefused for no
        server."""
        assert self.calls is not None
        return asking_price(self.models, self.calls)


def at_most(estimate: Estimate) -> str:
    """How many calls it may come to where samples disagree, "" where to no more."""
    if estimate.most_calls <= estimate.calls:
        return ""
    return f", at most {format.count(estimate.most_calls, 'call')} where it stays open"


def asking_price(models: tuple[str, ...], estimate: Estimate) -> str:
    """What is to be said before the first live call. Raises ModelRefused for no server."""
    by_size = (
        f" ({format.count(estimate.by_size, 'call')} reckoned from the size of their text)"
        if estimate.by_size
        else ""
    )
    whom = " and ".join(map(format.one_line, models))
    where = protocol.address(protocol.server_url())
    return (
        f"{format.count(estimate.calls, 'call')} to {whom}{at_most(estimate)}:"
        f" {format.tokens(estimate.input_tokens)} tokens in,"
        f" {format.tokens(estimate.output_tokens)} out at first, {cost(estimate)}{by_size}.\n"
        f"They go to {where}. Answers are kept and never paid for twice."
    )
