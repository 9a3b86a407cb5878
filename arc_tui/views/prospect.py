"""What would a replay ask, of whom, and for how much? Said before anything is asked."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from arc_tui import format
from arc_tui.replaying import Wanted, estimated
from arc_tui.views.draft import Draft, edit_of
from replay.budget import Estimate, Limits
from replay.errors import BadEdit
from replay.models.choose import DEMO, label
from replay.store import Store


class Prospect(Struct, frozen=True, eq=False, kw_only=True):
    """The most a replay can ask of a model. `model` None: which one is not known.

    `arms` is 1 where nothing can be edited that every step has.
    """

    model: str | None
    steps: int
    arms: int
    estimate: Estimate | None

    @property
    def local(self) -> bool:
        return self.model == DEMO

    @property
    def sentence(self) -> str:
        """The prospect in one line."""
        estimate = self.estimate
        if self.model is None or estimate is None:
            return "Which model answered was not recorded: f3 chooses one to ask."
        most, all_ = estimate.calls + estimate.stored, self.steps * self.arms
        arms = f" × {self.arms} arms" if self.arms > 1 else ", control alone"
        said = f"{format.count(self.steps, 'step')}{arms}{' =' if most == all_ else ':'}"
        said += f" at most {format.count(most, 'call')} to {format.one_line(label(self.model))}"
        if not estimate.calls:
            return f"{said}, all answered already; free"
        if estimate.stored:
            said += f", {format.number(estimate.stored)} of them answered already"
        if self.local:
            return f"{said}; free"
        return f"{said}; {cost(estimate)}; live calls need a budget, asked for first"


def build_prospect(store: Store, draft: Draft, model: str | None) -> Prospect:
    """The prospect of an edit that reaches every step of its thread. Asks nothing."""
    name = model or draft.model
    edit = edit_of(draft, _everywhere(draft), "any")
    wanted = Wanted(trace=draft.trace, edit=edit, model=name)
    return Prospect(
        model=name,
        steps=len(draft.rows),
        arms=2 if edit is not None else 1,
        estimate=estimated(store, wanted) if name is not None else None,
    )


def _everywhere(draft: Draft) -> dict[str, str]:
    """Another system prompt, else another first message: either is in every request."""
    first = [target for target in draft.targets if target.kind != "tool"][:1]
    return {target.label: f"{target.text}\n." for target in first}


def cost(estimate: Estimate) -> str:
    """What the calls of an estimate come to."""
    if estimate.usd is None:
        return "no price is known for it"
    return f"about {format.usd(estimate.usd)}"


def destination() -> str:
    """Where live calls go."""
    from replay.models.claude import OFFICIAL

    return os.environ.get("ANTHROPIC_BASE_URL") or OFFICIAL


def asking_price(model: str, estimate: Estimate) -> str:
    """What is to be said before the first live call."""
    by_size = (
        f" ({format.count(estimate.by_size, 'call')} reckoned from the size of their text)"
        if estimate.by_size
        else ""
    )
    return (
        f"{format.count(estimate.calls, 'call')} to {format.one_line(model)},"
        f" {format.tokens(estimate.input_tokens)} tokens in,"
        f" {format.tokens(estimate.output_tokens)} out: {cost(estimate)}{by_size}.\n"
        f"They go to {format.one_line(destination())}. Answers are kept and never paid for twice."
    )


_CALLS = re.compile(r"(\d+)\s*calls?")
_USD = re.compile(r"\$?\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:USD|\$)?", re.IGNORECASE)


def limits_of(words: str) -> Limits:
    """What a person allows: `0.50`, `$2`, or `20 calls`. Raises BadEdit for anything else."""
    said = words.strip()
    if found := _CALLS.fullmatch(said):
        return Limits(calls=int(found[1]))
    if found := _USD.fullmatch(said):
        return Limits(usd=float(found[1]))
    raise BadEdit(
        f"{said!r} is no limit",
        "write an amount in USD, as 0.50, or a number of calls, as 20 calls",
    )
