"""Suggested edits as values and in words: what is changed, what came of it on each half, and what
may be said. The outcome of a run is not evaluated: single steps of it were replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.experiments.progress import NO_LIMITS, spending_line
from arc_tui.experiments.request import ExperimentRequest
from arc_tui.features.edit_test.text import (
    NOT_OUTCOMES,
    counted,
    headline,
    p_words,
    whom,
)
from arc_tui.features.edit_test.view import (
    CONTROLS,
    SAMPLES,
    EditTestView,
    Left,
    Spent,
    TestedRun,
)
from arc_tui.ui import format
from replay.budget import Limits
from replay.edit.changes import Change
from replay.locked.row import Schedule
from replay.statistics import ALPHA
from replay.store.edits import short
from taxonomy.edit_test import FEWEST
from taxonomy.suggestions.trial import FEWEST_TASKS, Score, Tried, score

MOST_EDITS = 3
PROPOSALS = 3


class SuggestRequest(ExperimentRequest, frozen=True, kw_only=True):
    """For what an edit is wanted: `traces`, which `query` then only names, or the runs of a query.

    At most `most` rule-made edits are compared; `reflect` names a model that proposes up to
    `proposals` others, None none. `resample` asks everything afresh.
    """

    query: str = ""
    traces: tuple[str, ...] | None = None
    most: int = MOST_EDITS
    reflect: str | None = None
    proposals: int = PROPOSALS
    samples: int = SAMPLES
    controls: int = CONTROLS
    schedule: Schedule = "cheap"
    resample: bool = False
    with_held_out: bool = False


Verdict: TypeAlias = Literal["fix", "no fix", "not chosen", "look", "not tested"]
"""`fix`: it held on the half that it was not chosen by. `no fix`: it was looked at there and did
not hold. `not chosen`: another one was looked at, or none held when they were compared. `look`:
nothing could be held back, so nothing is claimed. `not tested`: nothing was asked, or not all."""

VERDICTS: dict[Verdict, str] = {
    "fix": "✓ fix",
    "no fix": "✗ no fix",
    "not chosen": "· not chosen",
    "look": "? a look",
    "not tested": "  not tested",
}


class SuggestedEdit(Struct, frozen=True, kw_only=True):
    """One edit. `diff` is what it makes of the run it was written for, `trace` at `step`; `runs` of
    those compared lead to it. `refused` says why it could not be tested, None where it could.

    `compared` is its test on the half on which edits are compared, or on all runs where nothing
    could be held back; `looked` the one look at the other half.
    """

    name: str
    digest: str
    changes: tuple[Change, ...]
    thread: str | None
    targets: tuple[str, ...]
    because: str
    by: str
    runs: int
    trace: str
    step: int
    diff: tuple[str, ...]
    verdict: Verdict = "not tested"
    compared: EditTestView | None = None
    looked: EditTestView | None = None
    refused: str | None = None

    @property
    def short(self) -> str:
        return short(self.digest)


class SuggestView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the screen draws and `arc suggest` prints.

    `runs` failed and broke somewhere; edits are compared on `compared` of them and looked at on
    `held_back`, of so many tasks each. `without` are runs for which no edit is written, by the
    reason. `doing` says what is under way; `done` of `total` steps of that are in. `digest` is over
    all evidence of a finished test, `saved` the name under which an edit was kept.
    """

    query: str
    samples: int
    edits: tuple[SuggestedEdit, ...] = ()
    runs: int = 0
    compared: int = 0
    compared_tasks: int = 0
    held_back: int = 0
    held_back_tasks: int = 0
    proposed: int = 0
    rejected: tuple[str, ...] = ()
    without: tuple[Left, ...] = ()
    left_out: tuple[Left, ...] = ()
    not_applicable: tuple[Left, ...] = ()
    doing: str = ""
    done: int = 0
    total: int = 0
    spent: Spent = Spent()
    ended: str | None = None
    digest: str | None = None
    ran_ns: int | None = None
    saved: str | None = None

    @property
    def fix(self) -> SuggestedEdit | None:
        """The edit that is called a fix."""
        return next((each for each in self.edits if each.verdict == "fix"), None)

    @property
    def best(self) -> SuggestedEdit | None:
        """The one to look at first: the fix, else what was looked at, else the first."""
        looked = (each for each in self.edits if each.looked is not None)
        return self.fix or next(looked, self.edits[0] if self.edits else None)

    @property
    def tested(self) -> bool:
        """Was any edit tested?"""
        return any(each.compared is not None and each.compared.done for each in self.edits)


EMPTY = SuggestView(query="", samples=0)


def tried_of(view: EditTestView) -> Iterator[Tried]:
    """The questions of a test at the breaks, each once, by task."""
    for row in view.runs:
        if row.like is None and row.control is not None and row.edited is not None:
            arms = row.control.hits, row.control.n, row.edited.hits, row.edited.n
            yield Tried(task_of(row), arms)


def task_of(row: TestedRun) -> str:
    """What its answers are alike in: its task; a run without one stands for itself."""
    return row.task or row.trace


def score_of(view: EditTestView) -> Score:
    return score(tried_of(view))


# --- in words


def edit_lines(edit: SuggestedEdit, *, held_back: int) -> tuple[str, ...]:
    """What came of an edit, each half in a line, and what may be said of it."""
    return tuple(_edit_lines(edit, held_back))


def _edit_lines(edit: SuggestedEdit, held_back: int) -> Iterator[str]:
    if edit.refused is not None:
        yield f"not tested: {format.one_line(edit.refused)}"
        return
    if edit.compared is not None and edit.compared.done:
        where = "compared" if held_back else "all runs"
        yield f"{where}: {evidence(edit.compared)}"
    if edit.looked is not None and edit.looked.done:
        yield f"held back: {evidence(edit.looked)}"
    sentence = verdict_sentence(edit)
    if sentence:
        yield sentence


def evidence(view: EditTestView) -> str:
    """`fixed at the recorded break 9/12 (.47–.91), expected by chance 2.1 · broke …`."""
    return headline(view).replace("fixed ", "fixed at the recorded break ", 1)


def verdict_sentence(edit: SuggestedEdit) -> str:
    """What the counts of an edit let one say, and no more."""
    view = edit.looked or edit.compared
    if view is None or not view.done:
        return ""
    found = score_of(view)
    seen = f"failure in {view.edited.words} edited, {view.control.words} control"
    chance = p_words(found.p)
    match edit.verdict:
        case "fix":
            return (
                f"Fix: on {format.count(found.tasks, 'task')} held back, {seen} ({chance})."
                f"{_harm(view)} {NOT_OUTCOMES}"
            )
        case "no fix":
            return f"No fix: on the tasks held back, {seen} ({chance}){_lacking(found)}."
        case "not chosen":
            rarer = "" if found.rarer else ", no rarer with it"
            return f"Not looked at further: {seen} ({chance}){rarer}."
        case "look":
            return (
                f"A look: {seen} ({chance}). Nothing was held back, so nothing is claimed of other"
                f" runs. {NOT_OUTCOMES}"
            )
        case "not tested":
            return "Not finished: nothing is claimed."


def _harm(view: EditTestView) -> str:
    """What an edit does to healthy steps, where that is more than chance."""
    if not view.broke.hits or view.step_p > ALPHA:
        return ""
    steps = format.count(view.broke.rate.n, "healthy step")
    return f" It also broke {view.broke.hits} of {steps}, beyond chance ({p_words(view.step_p)})."


def _lacking(found: Score) -> str:
    """What else an edit lacks to be called a fix."""
    if found.tasks < FEWEST_TASKS:
        judged = f"only {format.count(found.tasks, 'task')}" if found.tasks else "no task"
        return f"; {judged} can be judged, it takes {FEWEST_TASKS}"
    if not 2 * found.halved > found.tasks:
        return f"; more than halved in {found.halved} of {found.tasks} tasks"
    return ""


def headline_of(view: SuggestView) -> str:
    """What came of it all, in a sentence."""
    if not view.edits:
        return "No edit to suggest."
    edits = format.count(len(view.edits), "edit")
    if not view.tested:
        return f"{edits} suggested, not tested."
    best = view.best
    assert best is not None
    if view.fix is not None:
        assert best.looked is not None
        fixed = counted(best.looked.fixed, best.looked.fixed_by_chance)
        return f"{format.one_line(best.name)}: fixed at the recorded break {fixed}."
    if any(each.verdict == "look" for each in view.edits):
        return f"{edits} suggested: a look at {format.count(view.runs, 'run')}, no result."
    if any(each.verdict == "no fix" for each in view.edits):
        return f"{edits} suggested: none tests as a fix on the tasks held back."
    if all(each.verdict == "not tested" for each in view.edits):
        return f"{edits} suggested, not tested to the end."
    return f"{edits} suggested: none makes the failure rarer when compared."


def split_sentence(view: SuggestView) -> str:
    """Which runs the edits are compared on, and which are held back."""
    if not view.runs:
        return "No run can be replayed as recorded, so nothing can be tested." if view.edits else ""
    if not view.held_back:
        runs, tasks = format.count(view.runs, "run"), format.count(view.compared_tasks, "task")
        return f"{runs} of {tasks}: nothing can be held back, so a test is a look."
    return (
        f"Compared on {format.count(view.compared, 'run')} of"
        f" {format.count(view.compared_tasks, 'task')}; {format.count(view.held_back, 'run')} of"
        f" {format.count(view.held_back_tasks, 'other task')} held back for one look."
    )


def notices(view: SuggestView) -> tuple[str, ...]:
    """What a reader must know besides."""
    return tuple(_notices(view))


def _notices(view: SuggestView) -> Iterator[str]:
    if view.ended is not None:
        yield f"stopped: {format.one_line(view.ended)}"
    for left in view.without:
        yield f"no edit for {_runs(left)}: {format.one_line(left.why)}"
    for left in view.left_out:
        yield f"{_runs(left)} left out: {format.one_line(left.why)}"
    for left in view.not_applicable:
        yield f"cannot replay {_runs(left)}: {format.one_line(left.why)}"
    for why in view.rejected:
        yield f"proposal rejected: {format.one_line(why)}"
    if view.edits and 0 < view.samples < FEWEST and view.tested:
        yield (
            f"{format.count(view.samples, 'sample')} an arm cannot be significant for a single run:"
            f" that takes {FEWEST}"
        )


def _runs(left: Left) -> str:
    return format.count(len(left.traces), "run")


def basis(view: SuggestView) -> tuple[str, ...]:
    """By which rules that is said."""
    if not view.tested:
        return ()
    counts = (
        "fixed, broke and expected by chance are those of arc try; intervals mind that runs of one"
        " task are alike"
    )
    if not view.held_back:
        return (counts,)
    return (
        "compared: every edit on one half of the tasks, the tests corrected together (Holm); held"
        " back: one look at the best of them, on tasks and healthy steps that had no part in the"
        " choice",
        "fix: fewer failures beyond chance on the half held back (exact test by break, .05), and"
        f" more than halved in most of its tasks, which must be {FEWEST_TASKS} at least",
        counts,
    )


def spent_line(view: SuggestView, limits: Limits = NO_LIMITS) -> str:
    """Who was asked, and what that cost."""
    tests = (each.compared for each in view.edits if each.compared is not None)
    asked = next((whom(each) for each in tests), "")
    return " · ".join(filter(None, (asked, spending_line(view.spent.spending, limits))))
