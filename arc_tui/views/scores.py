"""Who scored the steps of a run, what did each say, and may it be believed without a look?

Of a judge: its scores step by step, what stands behind them, what was not asked. Scores stand side
by side and are never mixed. A judge counts only while its calibration stands; one that does not is
shown to who asks for it, and says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from arc_tui.ui import format
from replay.statistics import Rate, rate
from replay.store.handle import Store
from taxonomy.calibration.approval import Trust, trust
from taxonomy.findings import TRUST, Item, Source, StepScore
from taxonomy.goals import GoalScore, Weighted

if TYPE_CHECKING:
    from taxonomy.judge.rubrics import Mode
    from taxonomy.judge.scores import Judged


class ScoreRow(Struct, frozen=True, kw_only=True):
    """A step, or the whole run where `step` is None.

    `value` is the mean of `samples`, None where nothing was scored (`note` says why). `goal` is
    what the step was held to; `derived` where no person wrote it down.
    """

    step: int | None
    value: float | None
    samples: tuple[float, ...]
    spread: float | None
    items: tuple[Item, ...]
    goal: str | None
    derived: bool
    refused: tuple[str, ...]
    missing: int
    note: str


class GoalRow(Struct, frozen=True, kw_only=True):
    """A goal with the score of its last matching step."""

    text: str
    weight: int
    owner: str | None
    step: int | None
    value: float | None


class ScoresView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything `arc judge` prints of one trace.

    `judge` is the model as it is to be named, `by` the name its scores are kept under, `k` the
    samples of each answer (0: rules have none). `overall` is what the judge says of the run (mode
    `run`), `mean` the mean of its scored steps, `yes` the share of yes among all decided items,
    `weighted` the mean over goals. `hindsight`: the goals were first seen after the run began,
    None where that is not known.
    """

    trace: str
    judge: str
    server: str
    mode: Mode
    rubric: str
    by: str
    k: int
    rows: tuple[ScoreRow, ...]
    overall: ScoreRow | None = None
    mean: float | None = None
    yes: Rate | None = None
    goals: str | None = None
    hindsight: bool | None = None
    goal_rows: tuple[GoalRow, ...] = ()
    weighted: Weighted | None = None
    notices: tuple[str, ...] = ()
    done: int = 0
    total: int = 0
    scored: int = 0
    refused: int = 0
    missing: int = 0
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True


def score_row(given: Judged) -> ScoreRow:
    """A step as it is shown."""
    return ScoreRow(
        step=given.step,
        value=given.value,
        samples=given.samples,
        spread=given.spread,
        items=given.items,
        goal=given.goal.text if given.goal else None,
        derived=given.goal.derived if given.goal else False,
        refused=given.refused,
        missing=given.missing,
        note=_note(given),
    )


def _note(given: Judged) -> str:
    """What stands beside a score, or in its place."""
    if given.unasked is not None:
        return given.unasked
    if given.refused:
        return f"{format.count(len(given.refused), 'answer')} refused: {given.refused[0]}"
    if given.missing:
        return f"{format.count(given.missing, 'answer')} not stored"
    return "" if given.samples else "no item applies"


def share_of_yes(rows: Sequence[ScoreRow]) -> Rate | None:
    """Yes among the items that were decided, None where the rubric has no such items."""
    held = [item.held for row in rows for item in row.items if item.held is not None]
    return rate(held.count(True), len(held)) if held else None


def mean(rows: Sequence[ScoreRow]) -> float | None:
    """The mean of the steps that have a score."""
    known = [row.value for row in rows if row.value is not None]
    return sum(known) / len(known) if known else None


def goal_row(given: GoalScore) -> GoalRow:
    goal = given.goal
    return GoalRow(
        text=goal.text, weight=goal.weight, owner=goal.owner, step=given.step, value=given.value
    )


def shown_notices(given: Sequence[Judged], k: int) -> Iterator[str]:
    """What a reader must know of how the scores came about."""
    scored = [each for each in given if each.samples]
    if scored and k == 1:
        yield "1 sample per step: not conclusive (-k 3 takes three)"
    derived = sum(each.goal is not None and each.goal.derived for each in scored)
    if derived:
        yield (
            f"the sub-goal of {format.count(derived, 'step')} is derived from the last user"
            " request; --goals FILE gives explicit ones"
        )
    withheld = sum(each.withheld for each in given)
    if withheld:
        yield f"{format.count(withheld, 'text')} that reveal the outcome withheld from the judge"
    cut = sum(each.cut for each in given)
    if cut:
        yield f"{format.count(cut, 'long text')} shown to the judge without the middle"


class Scorer(Struct, frozen=True, kw_only=True):
    """A source of scores by its name. `used`: its scores count without being asked for.

    `model`, `mode` and `rubric` are what makes a judge's scores comparable, `checked` how its
    calibration stands; all are empty for anyone else.
    """

    source: Source
    by: str
    used: bool = True
    model: str = ""
    mode: str = ""
    rubric: str = ""
    checked: str = ""

    @property
    def name(self) -> str:
        """Who says so, short enough for a caption."""
        if self.source == "judge":
            return " · ".join(filter(None, (f"judge {self.model}", self.mode, self.checked)))
        return f"{self.source} · {self.by}"


def scorers(
    store: Store, scores: Iterable[StepScore], trusted: Collection[StepScore], now_ns: int
) -> tuple[Scorer, ...]:
    """Everyone who gave one of `scores`, most trusted first; `trusted` are those that count."""
    used = {(score.source, score.by) for score in trusted}
    found = {(score.source, score.by) for score in scores} | used
    return tuple(
        _scorer(store, source, by, (source, by) in used, now_ns)
        for source, by in sorted(found, key=lambda each: (TRUST.index(each[0]), each[1]))
    )


def _scorer(store: Store, source: Source, by: str, used: bool, now_ns: int) -> Scorer:
    if source != "judge":
        return Scorer(source=source, by=by, used=used)
    from taxonomy.judge.scores import parsed

    checked, judged = _checked(store, by, used, now_ns), parsed(by)
    if judged is None:
        return Scorer(source=source, by=by, used=used, model=by, checked=checked)
    goals = f", goals {judged.goals}" if judged.goals else ""
    return Scorer(
        source=source,
        by=by,
        used=used,
        model=judged.model,
        mode=judged.mode,
        rubric=f"{judged.rubric}{goals}",
        checked=checked,
    )


def _checked(store: Store, by: str, used: bool, now_ns: int) -> str:
    """How the calibration of a judge stands; a trusted one may not be `used` for this run."""

    found = trust(store, by, now_ns)
    if len(found.missing) > 1:
        first, *more = found.missing
        found = structs.replace(found, missing=(f"{first}, and {len(more)} more",))
    other = ", not used for this run" if found.state == "approved" and not used else ""
    return f"{stands(found)}{other}"


def stands(given: Trust) -> str:
    """How a set stands, in a phrase."""
    match given.state:
        case "approved":
            what = ", ".join(given.items or given.categories)
            until = f"until {_day(given.until_ns)}"
            return f"approved {until}{f': {what}' if what else ''}"
        case "not approved":
            return f"not approved: {'; '.join(given.missing)}"
        case "expired":
            return f"calibration expired on {_day(given.until_ns)}"
        case "never calibrated":
            return "never calibrated"


def _day(ns: int | None) -> str:
    if ns is None:
        return format.UNKNOWN
    day = datetime.fromtimestamp(ns / 1e9, tz=UTC)
    return f"{day.day} {day:%b %Y}"
