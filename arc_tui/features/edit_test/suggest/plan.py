"""Which runs edits are compared on, which are held back, and which edits there are; and what the
same came to before.

The edits are written for the runs of the half on which they are compared; the other half is not
read before the one look at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from arc_tui.cli import require
from arc_tui.experiments.models import ModelPool
from arc_tui.features.edit_test.plan import (
    list_breaks,
)
from arc_tui.features.edit_test.suggest.view import (
    SuggestRequest,
    SuggestView,
)
from arc_tui.features.edit_test.view import (
    EditTestRequest,
)
from arc_tui.views.columns import run_name
from arc_tui.views.runs import run_rows
from replay import digests
from replay.edit.changes import Edit
from replay.errors import BadEdit
from replay.store import answers, edits, read
from replay.store.handle import Store
from taxonomy.edit_test import Break, LeftOut
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.listing import RunRow
from taxonomy.suggestions.edits import (
    NoSuggestion,
    Passed,
    Suggestion,
    most_frequent,
    restore_prompt,
    suggest_edits,
)
from taxonomy.suggestions.trial import Halves, halves


class Half(NamedTuple):
    """The failing runs of a half, and the passed ones that its healthy steps are drawn from."""

    traces: tuple[str, ...]
    healthy: frozenset[str]
    tasks: int


class Origin(NamedTuple):
    """An edit, and the run at whose break it was written."""

    made: Suggestion
    trace: str
    step: int


class Plan(Struct, frozen=True, eq=False, kw_only=True):
    """The two halves of the runs that can be replayed, the edits of the first, and of which runs
    nothing is asked. Where none can be, edits are written for all and nothing is tested."""

    compared: Half
    held_back: Half
    origins: tuple[Origin, ...]
    without: tuple[LeftOut, ...]
    left_out: tuple[LeftOut, ...]
    not_applicable: tuple[LeftOut, ...]

    @property
    def runs(self) -> int:
        return len(self.compared.traces) + len(self.held_back.traces)


def plan_suggestions(store: Store, request: SuggestRequest, models: ModelPool) -> Plan:
    """The plan. Asks nothing, and is the same whenever the database is.

    Raises NotFound where no run is meant, BadEdit where none of them broke anywhere, ArcError where
    a model is to propose edits and the optimiser is not installed.
    """
    if request.reflect is not None:
        require("arc suggest --reflect", "gepa", extra="suggest")
    whole = half_test(request, None, None)
    found, groups, left_out, not_applicable = list_breaks(store, whole, models)
    if not found:
        whys = Counter(left.why for left in left_out)
        raise BadEdit(f"no edit to suggest: {'; '.join(why for why, _ in whys.most_common(3))}")
    if request.reflect is not None:
        models.named(request.reflect)
    tasks = {row.trace: groups.get(row.trace, row.task or row.trace) for row, _ in found}
    split = halves(Counter(tasks[trace] for trace in groups))
    sides: tuple[list[tuple[RunRow, Break]], list[tuple[RunRow, Break]]] = ([], [])
    silent: list[tuple[RunRow, Break]] = []
    for row, broke in found:
        if row.trace not in groups:  # an edit may be written for it, none is tested on it
            if not split.is_held_back(tasks[row.trace]):
                silent.append((row, broke))
        else:
            sides[split.is_held_back(tasks[row.trace])].append((row, broke))
    healthy = _healthy(store, split)
    origins, without = _origins(store, [*sides[0], *silent], request.most)
    return Plan(
        compared=_half(sides[0], tasks, healthy[0]),
        held_back=_half(sides[1], tasks, healthy[1]),
        origins=origins,
        without=without,
        left_out=tuple(left_out),
        not_applicable=tuple(not_applicable),
    )


def _healthy(store: Store, split: Halves) -> tuple[frozenset[str], frozenset[str]]:
    """The passed runs by half: a task's are in the half of its failing ones."""
    sides: tuple[set[str], set[str]] = (set(), set())
    for row in run_rows(store):
        if row.outcome == "passed":
            sides[split.is_held_back(row.task or row.trace)].add(row.trace)
    return frozenset(sides[0]), frozenset(sides[1])


def _half(
    found: Sequence[tuple[RunRow, Break]], tasks: dict[str, str], healthy: frozenset[str]
) -> Half:
    traces = tuple(row.trace for row, _ in found)
    return Half(traces, healthy, len({tasks[trace] for trace in traces}))


def _origins(
    store: Store, found: Iterable[tuple[RunRow, Break]], most: int
) -> tuple[tuple[Origin, ...], tuple[LeftOut, ...]]:
    """The edits that most runs lead to, each with the first of them; and the runs without one."""
    made: list[Suggestion] = []
    first: dict[str, tuple[str, int]] = {}
    without: list[LeftOut] = []
    passed = _Passed(store)
    for row, broke in found:
        said = diagnosis(store, broke.trace)
        trace = read.load(store, broke.trace)
        suggested = suggest_edits(trace, broke, said.findings if said else ())
        other = passed.of(row)
        restored = restore_prompt(trace, broke, other) if other is not None else None
        more = () if restored is None else (restored,)
        if isinstance(suggested, NoSuggestion):
            if not more:
                without.append(LeftOut(trace=row.trace, why=suggested.why))
            suggested = ()
        for each in (*suggested[:1], *more, *suggested[1:]):
            masked = structs.replace(each, edit=edits.mask(store, each.edit))
            made.append(masked)
            first.setdefault(masked.edit.digest, (broke.trace, broke.step))
    chosen = most_frequent(made, most)
    return tuple(Origin(each, *first[each.edit.digest]) for each in chosen), tuple(without)


class _Passed:
    """The runs that passed, by task: the latest under each prompt."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_task: dict[str, list[RunRow]] = {}
        for row in sorted(run_rows(store), key=lambda row: (row.start_ns or 0, row.trace)):
            if row.outcome == "passed" and row.task and row.prompt and row.steps:
                self._by_task.setdefault(row.task, []).append(row)

    def of(self, row: RunRow) -> Passed | None:
        """The latest run of the same task by the same agent that passed under another prompt."""
        others = [
            each
            for each in self._by_task.get(row.task or "", ())
            if each.prompt != row.prompt and (each.format, each.agent) == (row.format, row.agent)
        ]
        if not others:
            return None
        other = others[-1]
        named = other.variant or f"the prompt of {run_name(other)}"
        return Passed(read.load(self._store, other.trace), named)


def half_test(request: SuggestRequest, edit: Edit | None, half: Half | None) -> EditTestRequest:
    """The test of an edit on one half; None: on all runs that are meant."""
    return EditTestRequest(
        edit=edit,
        query=request.query,
        traces=request.traces if half is None else half.traces,
        samples=request.samples,
        controls=request.controls,
        schedule=request.schedule,
        resample=request.resample,
        with_held_out=request.with_held_out,
        model=request.model,
        live=request.live,
        limits=request.limits,
        healthy=None if half is None else half.healthy,
        keeps=False,
    )


# --- what is kept of it

KEPT = "suggest/"
"""Before the names under which finished tests are remembered."""


class SavedSuggestions(Struct, frozen=True, eq=False, kw_only=True):
    """A finished test of suggested edits."""

    view: SuggestView


def keep(
    store: Store, request: SuggestRequest, plan: Plan, models: tuple[str, ...], view: SuggestView
) -> None:
    """Remember what a finished test came to."""
    name = f"{KEPT}{_key(request, plan, models)}"
    answers.keep(store, name, SavedSuggestions(view=structs.replace(view, doing="")))


def suggested_before(
    store: Store, request: SuggestRequest, plan: Plan, models: tuple[str, ...]
) -> SuggestView | None:
    """What the same edits came to on the same runs by the same models, None where that is not
    known to the end."""
    name = f"{KEPT}{_key(request, plan, models)}"
    found = answers.found(store, name, SavedSuggestions)
    return found[-1].view if found else None


def _key(request: SuggestRequest, plan: Plan, models: tuple[str, ...]) -> str:
    """What was asked: the edits, the runs of both halves, the models, how often."""
    return digests.digest(
        "suggest",
        digests.encode([origin.made.edit.digest for origin in plan.origins]),
        digests.encode([*plan.compared.traces, "", *plan.held_back.traces]),
        digests.encode([*sorted(plan.compared.healthy), "", *sorted(plan.held_back.healthy)]),
        digests.encode([*models, request.reflect or "", str(request.proposals)]),
        digests.encode([request.samples, request.controls]),
    )
