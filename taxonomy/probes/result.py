"""Does the failure persist under the probe, or is it repaired? Said only where the samples tell.

`repairs`: control mostly shows the failure, the probe mostly does not, and Fisher's exact test
holds at .05. `persists`: both mostly show it, and by the posterior a fall by half or more has a
chance of at most .05. Neither is said of so few samples that the other could not have come out.
Anything else is `undecided`, and no cause is named.

An agent that is given a summary may begin anew and make a call it had made already. Such an answer
does not show the failure and repairs nothing: it is left out of the counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay import canon
from replay.action import Act
from replay.locked.step_result import Reply, StepResult
from replay.locked.tally import BreakTest, break_test
from replay.statistics import ALPHA, effect_probability, fisher
from replay.trace import Trace
from taxonomy.probes.table import Meaning, ProbeEntry

Result: TypeAlias = Literal["persists", "repairs", "undecided"]


class Decided(Struct, frozen=True, kw_only=True):
    """What became of the failure, and the counts that say so.

    `test` counts the answers that could be judged; `anew` were left out, because they only make a
    call again that was made before. `likely` is how likely the two shares differ by half or more.
    """

    result: Result
    why: str
    test: BreakTest | None = None
    anew: int = 0
    p: float | None = None
    likely: float | None = None


def outcome(row: StepResult | None, trace: Trace, cut: int | None) -> Decided:
    """What the probe came to at the step that decides, as far as it is in.

    `cut` is the step whose history a summary stands for, None where nothing was summarised.
    """
    test = break_test(row) if row is not None else None
    if row is None or test is None:
        return decided(None)
    anew = 0
    if cut is not None:
        thread = trace.steps[cut].thread
        made = [a for s in trace.steps[:cut] if s.thread == thread for a in s.acts]
        before = {_identity(act.name, act.arguments) for act in made}
        anew = sum(_begins_anew(row, reply, before) for reply in row.edited)
    return decided(structs.replace(test, edited_n=test.edited_n - anew), anew)


def decided(test: BreakTest | None, anew: int = 0) -> Decided:
    """The result by the answers of both arms that could be judged."""
    again = f"; {anew} more only make a call again that was made before" if anew else ""
    if test is None or not test.control_n or not test.edited_n:
        side = "with" if test is not None and test.control_n else "without"
        why = f"no answer {side} the probe could be judged{again}"
        return Decided(result="undecided", why=why, test=test, anew=anew)
    p = fisher(*test.counts)
    likely = effect_probability(*test.counts)
    counts = (
        f"the failure shows in {test.edited}/{test.edited_n} with the probe, against"
        f" {test.control}/{test.control_n} without{again}"
    )
    numbers = f"Fisher p = {p:.2g}; that the shares differ by half or more, {likely:.2g}"
    result, note = _reading(test, p, likely)
    return Decided(
        result=result, why=f"{counts} ({numbers}){note}", test=test, anew=anew, p=p, likely=likely
    )


def _begins_anew(row: StepResult, reply: Reply, before: Iterable[str]) -> bool:
    """Does an answer without the failure only make calls that were made before the summary?"""
    shows = reply.shows if row.oracle is not None else reply.against.same
    calls = reply.action.calls
    return shows is False and bool(calls) and all(_call(each) in before for each in calls)


def _call(call: Act) -> str:
    return _identity(call.tool, call.arguments)


def _identity(tool: str, arguments: object) -> str:
    return canon.canonical([tool, arguments])


def _reading(test: BreakTest, p: float, likely: float) -> tuple[Result, str]:
    if not test.is_controls:
        return "undecided", ": without it the failure mostly does not show, so nothing can persist"
    if fisher(test.control, test.control_n, 0, test.edited_n) > ALPHA:
        return "undecided", ": too few samples for either to be told (-k)"
    if not test.is_edited and p <= ALPHA:
        return "repairs", ""
    if test.is_edited and likely <= ALPHA:
        return "persists", ""
    return "undecided", ": more samples may tell (-k)"


def meaning(probe: ProbeEntry, result: Result) -> Meaning | None:
    """The cause a result speaks for; None where it is undecided."""
    match result:
        case "persists":
            return probe.persists
        case "repairs":
            return probe.repairs
        case _:
            return None
