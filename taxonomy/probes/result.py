"""Does the failure persist under the probe, or is it repaired? Said only where the samples tell.

`repairs`: control mostly shows the failure, with the probe it is rarer by Fisher's exact test at
.05, and gone but for a few: of the share that is left, Wilson's 95 % interval ends below a half and
does not begin above a tenth. `partial`: it is rarer by the same test, and more of it is left; what
was changed has a part in it, and is not the whole cause. `persists`: both mostly show it, it is not
rarer by that test, and by the posterior a fall by half or more has a chance of at most .05. None is
said of so few samples that another could not have come out. Anything else is `undecided`; of that
and of a partial effect no cause is named.

An agent that is given a summary may begin anew and make a call it had made already. Such an answer
does not show the failure and repairs nothing: it is left out of the counts.

Kept as the log of the article: date, task, symptom, probe, result, classification, intervention.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay import digests
from replay.action import Act
from replay.locked.tally import BreakTest, Reply, StepResult, break_test
from replay.statistics import ALPHA, Rate, effect_probability, fisher, rate
from replay.store import answers
from replay.store.handle import Store, now_ns
from replay.trace import Trace
from taxonomy.probes.symptoms import Meaning, ProbeEntry

Result: TypeAlias = Literal["persists", "partial", "repairs", "undecided"]

HALF, FEW = 0.5, 0.1
"""Of a share: surely below the one it is not mostly, surely above the other it is not only few."""


class Decided(Struct, frozen=True, kw_only=True):
    """What became of the failure, and the counts that say so.

    `test` counts the answers that could be judged; `anew` were left out, because they only make a
    call again that was made before. `p` is Fisher's; `likely` is how likely the two shares differ
    by half or more; `left` the share of answers that show the failure with the probe.
    """

    result: Result
    why: str
    test: BreakTest | None = None
    anew: int = 0
    p: float | None = None
    likely: float | None = None
    left: Rate | None = None


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
    again = f"; {anew} more only repeat an earlier call" if anew else ""
    if test is None or not test.control_n or not test.edited_n:
        side = "with" if test is not None and test.control_n else "without"
        why = f"no answer {side} the probe could be judged{again}"
        return Decided(result="undecided", why=why, test=test, anew=anew)
    p = fisher(*test.counts)
    likely = effect_probability(*test.counts)
    counts = (
        f"failure in {test.edited}/{test.edited_n} with the probe,"
        f" {test.control}/{test.control_n} without{again}"
    )
    numbers = (
        f"Fisher p = {p:.2g}; probability that the shares differ by half or more: {likely:.2g}"
    )
    left = rate(test.edited, test.edited_n)
    result, note = _reading(test, p, likely, left)
    return Decided(
        result=result,
        why=f"{counts} ({numbers}){note}",
        test=test,
        anew=anew,
        p=p,
        likely=likely,
        left=left,
    )


def _begins_anew(row: StepResult, reply: Reply, before: Iterable[str]) -> bool:
    """Does an answer without the failure only make calls that were made before the summary?"""
    shows = reply.shows if row.detector is not None else reply.against.same
    calls = reply.action.calls
    return shows is False and bool(calls) and all(_call(each) in before for each in calls)


def _call(call: Act) -> str:
    return _identity(call.tool, call.arguments)


def _identity(tool: str, arguments: object) -> str:
    return digests.canonical([tool, arguments])


def _reading(test: BreakTest, p: float, likely: float, left: Rate) -> tuple[Result, str]:
    if not test.is_controls:
        return "undecided", ": without the probe the failure is mostly absent, so it cannot persist"
    if fisher(test.control, test.control_n, 0, test.edited_n) > ALPHA:
        return "undecided", ": too few samples (-k) for either result"
    if p <= ALPHA and test.edited * test.control_n < test.control * test.edited_n:
        return "repairs" if left.high < HALF and left.low <= FEW else "partial", ""
    if test.is_edited and likely <= ALPHA:
        return "persists", ""
    return "undecided", ": more samples (-k) may decide"


def meaning(probe: ProbeEntry, result: Result) -> Meaning | None:
    """The cause a result speaks for; None where it is undecided, or the effect is partial."""
    match result:
        case "persists":
            return probe.persists
        case "repairs":
            return probe.repairs
        case _:
            return None


_NOTE = "probe:"
_NONE = "–"


class LogLine(Struct, frozen=True, kw_only=True):
    """One probe that was run. `classification` and `intervention` are None where it names no cause:
    it is undecided, or its effect partial.

    `assumed` where the user chose the probe though its symptom was not seen. `digest` is that of
    the replay it rests on, `control` and `edited` are (shows the failure, of so many answers).
    """

    trace: str
    task: str | None
    step: int
    symptom: str
    assumed: bool
    probe: str
    result: Result
    classification: str | None
    intervention: str | None
    model: str
    detector: str
    control: tuple[int, int]
    edited: tuple[int, int]
    digest: str
    at_ns: int = 0

    @property
    def date(self) -> str:
        """The day it was run, UTC."""
        return datetime.datetime.fromtimestamp(self.at_ns // 10**9, datetime.UTC).date().isoformat()

    @property
    def columns(self) -> tuple[str, ...]:
        """The seven columns of the log."""
        return (
            self.date,
            self.task or self.trace[:8],
            f"{self.symptom} (assumed)" if self.assumed else self.symptom,
            self.probe,
            self.result,
            self.classification or _NONE,
            self.intervention or _NONE,
        )

    @property
    def line(self) -> str:
        """The columns with bars between them; a bar within one is written `/`."""
        return " | ".join(" ".join(each.replace("|", "/").split()) for each in self.columns)


COLUMNS = ("date", "task_id", "symptom", "probe", "result", "classification", "intervention")


def keep(store: Store, line: LogLine) -> LogLine:
    """Keep a line, with the date it was first run on."""
    name = f"{_NOTE}{line.digest.rpartition(':')[2]}:{line.step}:{line.probe}"
    known = answers.found(store, name, LogLine)
    dated = structs.replace(line, at_ns=known[0].at_ns if known else now_ns())
    answers.keep(store, name, dated)
    return dated


def kept(store: Store) -> list[LogLine]:
    """Every line, oldest first."""
    return sorted(answers.found(store, _NOTE, LogLine), key=lambda each: (each.at_ns, each.digest))
