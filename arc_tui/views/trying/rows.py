"""A run at its break and a step that went well, as rows of a tried edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from arc_tui import format
from arc_tui.jobs.tryout.plan import Case, Control
from replay.cluster import Table
from replay.locked.step_result import Reply, StepResult
from replay.locked.tally import BreakTest, Counts
from taxonomy.query.listing import RunRow
from taxonomy.tried import Effect, Ruling, held, judged


class Share(Struct, frozen=True, kw_only=True):
    """So many answers of an arm, of those that can be told."""

    hits: int
    n: int

    @property
    def words(self) -> str:
        return f"{self.hits}/{self.n}"


class TriedRun(Struct, frozen=True, kw_only=True):
    """A run at its break: how many answers of each arm still show the failure, by whose word;
    `unjudged` ones are in neither count.

    `by` says why this is its break. `ruling` None: not asked yet; `why`, where nothing can be
    said, says why, and `lacks` why there are fewer answers than were wanted. `did` is what the
    edited arm mostly does there. `like` is another run that asks the very same: together they are
    one question.
    """

    trace: str
    run: str
    task: str | None
    step: int
    by: str
    ruling: Ruling | None = None
    oracle: str | None = None
    control: Share | None = None
    edited: Share | None = None
    unjudged: int = 0
    recorded: str = ""
    did: str = ""
    why: str = ""
    lacks: str | None = None
    like: str | None = None


class TriedStep(Struct, frozen=True, kw_only=True):
    """A step that went well: how many answers of each arm depart from what was recorded.

    `passed` tells a step of a run that passed from one before a break. `flawed` answers of the
    edited arm are wrong whatever was meant. `effect` None: not asked yet.
    """

    trace: str
    run: str
    task: str | None
    step: int
    passed: bool
    effect: Effect | None = None
    control: Share | None = None
    edited: Share | None = None
    flawed: int = 0
    recorded: str = ""
    did: str = ""
    why: str = ""
    lacks: str | None = None


def run_row(case: Case, result: StepResult | None, like: str | None) -> TriedRun:
    """A run as far as it is known; `like` names an earlier one that asks the same."""
    row, broke = case.row, case.broke
    known = TriedRun(
        trace=broke.trace, run=run_name(row), task=row.task, step=broke.step, by=broke.by, like=like
    )
    if result is None:
        return known
    found = judged(result)
    test = found.test
    return TriedRun(
        trace=known.trace,
        run=known.run,
        task=known.task,
        step=known.step,
        by=known.by,
        ruling=found.ruling,
        oracle=test.oracle if test is not None else None,
        control=Share(hits=test.control, n=test.control_n) if test is not None else None,
        edited=Share(hits=test.edited, n=test.edited_n) if test is not None else None,
        unjudged=_unjudged(result, test),
        recorded=result.recorded.phrase,
        did=_mostly(result.edited),
        why=found.why,
        lacks=result.lacks,
        like=like,
    )


def step_row(control: Control, result: StepResult | None) -> TriedStep:
    """A step that went well as far as it is known."""
    row, spot = control.row, control.spot
    known = TriedStep(
        trace=spot.trace,
        run=run_name(row),
        task=row.task,
        step=spot.step,
        passed=row.outcome == "passed",
    )
    if result is None:
        return known
    found = held(result)
    return TriedStep(
        trace=known.trace,
        run=known.run,
        task=known.task,
        step=known.step,
        passed=known.passed,
        effect=found.effect,
        control=_departs(found.control),
        edited=_departs(found.edited),
        flawed=found.flawed,
        recorded=result.recorded.phrase,
        did=_mostly(result.edited),
        why=found.why,
        lacks=result.lacks,
    )


def table(row: TriedRun | TriedStep) -> Table | None:
    """The counts of a row, edited against control; None without answers of both."""
    if row.control is None or row.edited is None or not row.control.n or not row.edited.n:
        return None
    return Table(row.edited.hits, row.edited.n, row.control.hits, row.control.n)


def run_name(row: RunRow) -> str:
    """What a run is called: its task and trial, else its title, else where it is from."""
    if row.task:
        return " · ".join(filter(None, map(format.one_line, (row.task, row.trial))))
    return format.one_line(row.title or row.source_id) or row.trace[:8]


def _unjudged(result: StepResult, test: BreakTest | None) -> int:
    """Answers of either arm of which the oracle cannot tell."""
    judged_n = test.control_n + test.edited_n if test is not None else 0
    return len(result.control) + len(result.edited) - judged_n


def _departs(counts: Counts) -> Share:
    return Share(hits=counts.departs, n=counts.decided)


def _mostly(replies: Sequence[Reply]) -> str:
    """What most answers do, the first of equals."""
    did = Counter(reply.action.phrase for reply in replies)
    return did.most_common(1)[0][0] if did else ""
