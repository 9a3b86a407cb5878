"""What a replay would ask, in words of its screen. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.experiments.request import at_most
from arc_tui.features.replay.plan import ReplayEstimate
from arc_tui.ui import format
from arc_tui.ui.format import cost
from replay.locked.estimate import Estimate
from replay.models.choose import label
from replay.models.wire import KEY_HINT, NO_KEY


def sentence(found: ReplayEstimate) -> str:
    """All of it in one line."""
    if found.calls is None:
        return "Which model answered was not recorded: ‹replay.model› chooses one to ask."
    return f"{_extent(found)}: {'; '.join(_clauses(found, found.calls))}"


def _extent(found: ReplayEstimate) -> str:
    """What is multiplied: steps, arms, samples."""
    left = found.steps - sum(count for _, count in found.refused)
    steps = format.count(found.steps, "step")
    if left < found.steps:
        steps = f"{format.number(left)} of {steps}"
    arms = f"{found.arms} arms" if found.arms > 1 else "control alone"
    samples = format.count(found.sampling.levels[0], "sample")
    return f"{steps} × {arms} × {samples}{', asked afresh' if found.resample else ''}"


def notices(found: ReplayEstimate) -> tuple[str, ...]:
    """That there is no key, and why the steps that drop out cannot be asked."""
    calls = found.calls is not None and found.calls.calls > 0
    keyless = (f"{NO_KEY}: {KEY_HINT}",) if found.keyless and calls and not found.is_free else ()
    return keyless + tuple(
        f"{format.count(count, 'step')} cannot be asked{whom}: {format.one_line(why)}"
        for whom, reasons in (("", found.refused), (" with the edit", found.edit_refused))
        for why, count in reasons
    )


def _clauses(found: ReplayEstimate, estimate: Estimate) -> Iterator[str]:
    yield f"{_at_first(found, estimate)}{at_most(estimate)}"
    if found.sampling.schedule == "batch":
        yield "as a batch, within a day"
    if found.is_free or not estimate.most_calls:
        yield "free"
    else:
        yield f"{cost(estimate)}, within a limit asked for first"


def _at_first(found: ReplayEstimate, estimate: Estimate) -> str:
    """The calls that are sure to come, and of whom."""
    if not estimate.calls:
        return "all answered already" if estimate.stored else "nothing to ask"
    whom = ", the edit to ".join(format.one_line(label(name)) for name in found.models)
    said = f"{format.count(estimate.calls, 'call')} to {whom}"
    if estimate.stored:
        said += f", {format.number(estimate.stored)} more answered already"
    return said
