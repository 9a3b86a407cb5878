"""A candidate held against a baseline: what `arc gate` decides, and what is said of it in words:
the same in the command, the app, a report and for programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from arc_tui.ui import format
from arc_tui.ui.tables import share, short, signed
from arc_tui.views.groups import named_rows, refuse_shared
from arc_tui.views.matrix import trials_text
from arc_tui.views.runs import held_out_text
from replay.errors import ArcError
from replay.locked.verdict import p_value
from replay.statistics import Rate
from replay.store.handle import Store
from taxonomy.gate import (
    DRAWS,
    INTERVAL,
    POWER,
    Bounds,
    Decision,
    Group,
    Limits,
    Paired,
    Reason,
    TaskPair,
    decide,
    fewest_tasks,
    pair_tasks,
    read_group,
)
from taxonomy.golden.sets import BadGolden, GoldenSet, GoldenVersion
from taxonomy.held_out import HeldOutNote, hidden, parted
from taxonomy.metrics.cost import Money
from taxonomy.query.listing import RunRow

Kind: TypeAlias = Literal["outcomes", "decisions"]
"""What is counted: runs that passed, or replayed responses that match what was recorded."""

NONE_HELD_OUT = HeldOutNote()

SHOWN = 20
"""Tasks that are named in one sentence at most; the others are counted."""


class GateRequest(Struct, frozen=True, kw_only=True):
    """Two queries, and what blocks. With `golden` only the tasks of that set count, and all of
    them have to be measured."""

    baseline: str
    candidate: str
    limits: Limits = Limits()
    with_held_out: bool = False
    golden: GoldenSet | None = None


class Side(Struct, frozen=True, kw_only=True):
    """One group as it was named, or of replayed decisions an arm, whose `runs` are steps. `unknown`
    runs have no outcome, `taskless` ones no task; `golden`
    is the golden set they were measured on, None where none is named."""

    query: str
    runs: int
    unknown: int = 0
    taskless: int = 0
    verifiers: tuple[str, ...] = ()
    golden: str | None = None


class GateView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything that is shown of a gate. `rows` are the tasks compared, the largest drop first;
    the tasks that are not compared stand by the reason. `unmeasured` are tasks of the
    `golden` set without outcomes in both groups. `remarks` are further sentences of whoever
    counted."""

    kind: Kind
    limits: Limits
    baseline: Side
    candidate: Side
    decision: Decision
    rows: tuple[TaskPair, ...]
    only_baseline: tuple[str, ...] = ()
    only_candidate: tuple[str, ...] = ()
    no_outcome: tuple[str, ...] = ()
    held_out: HeldOutNote = NONE_HELD_OUT
    golden: GoldenVersion | None = None
    unmeasured: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


# --- building it


def build_gate(store: Store, request: GateRequest) -> GateView:
    """The gate between the runs of two queries.

    Raises ArcError where a query cannot be read or the two cannot be compared: with the reason.
    """
    tasks = hidden(store)
    seen: dict[str, tuple[RunRow, ...]] = {}
    held = 0
    for name, query in (("baseline", request.baseline), ("candidate", request.candidate)):
        found = named_rows(store, name, query)
        if request.golden is not None:
            found = _golden_rows(name, query, found, request.golden)
        visible, kept_out = parted(found, tasks)
        seen[query] = found if request.with_held_out else visible
        held += len(kept_out)
    refuse_shared("baseline", seen[request.baseline], "candidate", seen[request.candidate])
    groups = [read_group(seen[query]) for query in (request.baseline, request.candidate)]
    for name, query, group in zip(
        ("baseline", "candidate"), (request.baseline, request.candidate), groups, strict=True
    ):
        _refuse_empty(name, query, group, held if not request.with_held_out else 0)
    baseline, candidate = groups
    _refuse_golden(baseline, candidate, request.golden)
    return gate_of(
        pair_tasks(baseline, candidate),
        (side(request.baseline, baseline), side(request.candidate, candidate)),
        request.limits,
        held_out=HeldOutNote(tasks=tasks, runs=held, shown=request.with_held_out),
        golden=request.golden,
    )


def gate_of(
    found: Paired,
    sides: tuple[Side, Side],
    limits: Limits,
    *,
    kind: Kind = "outcomes",
    held_out: HeldOutNote = NONE_HELD_OUT,
    golden: GoldenSet | None = None,
    remarks: tuple[str, ...] = (),
) -> GateView:
    """The gate over tasks that were paired. Raises ArcError where none can be compared."""
    if not found.pairs:
        raise ArcError(f"nothing to compare: {_nothing(found)}", "Try: arc ls QUERY, for both")
    decision = decide(found.pairs, limits, whole=kind == "decisions")
    compared = {pair.task for pair in found.pairs}
    tasks = [] if golden is None else [task.task for task in golden.tasks]
    unmeasured = tuple(task for task in tasks if task not in compared)
    if unmeasured and decision.status != "regression":
        decision = structs.replace(decision, status="incomplete")
    return GateView(
        kind=kind,
        limits=limits,
        baseline=sides[0],
        candidate=sides[1],
        decision=decision,
        rows=tuple(sorted(found.pairs, key=lambda pair: (pair.change, pair.task))),
        only_baseline=found.only_baseline,
        only_candidate=found.only_candidate,
        no_outcome=found.no_outcome,
        held_out=held_out,
        golden=None if golden is None else golden.golden,
        unmeasured=unmeasured,
        remarks=remarks,
    )


def _nothing(found: Paired) -> str:
    if found.no_outcome:
        return f"{format.count(len(found.no_outcome), 'task')} in both groups, none with outcomes"
    return (
        f"no task is in both groups ({len(found.only_baseline)} in baseline only,"
        f" {len(found.only_candidate)} in candidate only)"
    )


def side(query: str, group: Group) -> Side:
    """What is said of a group whose runs name at most one golden set."""
    return Side(
        query=query,
        runs=group.runs,
        unknown=group.unknown,
        taskless=group.taskless,
        verifiers=group.verifiers,
        golden=next((name for name in group.golden if name is not None), None),
    )


def _refuse_empty(name: str, query: str, group: Group, held: int) -> None:
    shown = f"'{format.one_line(query)}'"
    if not group.runs:
        hint = f"Try: arc ls {shown}"
        if held:
            hint = f"{held} runs are of held-out tasks. Try: --include-held-out"
        raise ArcError(f"{name}: no run matches {shown}", hint)
    if group.taskless == group.runs:
        raise ArcError(
            f"{name}: none of {format.count(group.runs, 'run')} names its task: nothing to pair by",
            "Runs of one task are paired by its name (arc help columns: task)",
        )
    if group.unknown == group.runs:
        raise ArcError(
            f"{name}: none of {format.count(group.runs, 'run')} has an outcome",
            "An outcome comes with the source, or in a file beside it (docs: guide/checks)",
        )


def _golden_rows(
    name: str, query: str, rows: tuple[RunRow, ...], golden: GoldenSet
) -> tuple[RunRow, ...]:
    """The runs of the tasks of a set, which must be as it was frozen."""
    if not golden.intact:
        raise BadGolden(f"{golden.folder}: not as it was frozen", "Try: arc golden check")
    tasks = {task.task for task in golden.tasks}
    found = tuple(row for row in rows if row.task in tasks)
    if rows and not found:
        raise ArcError(
            f"{name}: none of {format.count(len(rows), 'run')} of '{format.one_line(query)}' is of"
            f" a task of {golden.folder}",
            "Runs are of a golden task by its name (arc golden list)",
        )
    return found


def _refuse_golden(baseline: Group, candidate: Group, golden: GoldenSet | None) -> None:
    wanted = None if golden is None else golden.golden.stamp
    for name, group in (("baseline", baseline), ("candidate", candidate)):
        other = next((each for each in group.golden if each not in (None, wanted)), None)
        if golden is not None and other is not None:
            raise ArcError(
                f"{name}: runs of golden set '{format.one_line(other)}', and {golden.folder} is"
                f" '{wanted}'",
                "Try: run them again on the set as it is now",
            )
    named = sorted({name for name in (*baseline.golden, *candidate.golden) if name is not None})
    if len(named) > 1:
        sets = " and ".join(f"'{format.one_line(name)}'" for name in named[:3])
        raise ArcError(
            f"runs of different golden sets are not compared: {sets}",
            "Try: run the baseline again on the set of the candidate",
        )


# --- in words


def verdict_of(view: GateView) -> str:
    """`regression`, `no regression shown`, or why there is no answer: the head of everything.

    Of replayed decisions neither is said: to act otherwise need not be worse.
    """
    match view.decision.status:
        case "regression":
            return "regression" if view.kind == "outcomes" else "acts otherwise at healthy steps"
        case "green":
            return (
                "no regression shown" if view.kind == "outcomes" else "no difference beyond chance"
            )
        case "too little power":
            return "no answer: too little power"
        case "cost unknown":
            return "no answer: cost unknown"
        case "incomplete":
            return "no answer: golden tasks without outcomes"


def sentence(view: GateView) -> str:
    """The verdict with its figures, in one sentence."""
    found = view.decision
    return (
        f"{verdict_of(view).capitalize()}: {change_words(view)}, {p_value(found.p)};"
        f" {format.count(found.tasks, 'task')}, {found.worse} worse, {found.better} better."
    )


def change_words(view: GateView) -> str:
    """`pass@1 .80 → .62, change -.18 (90 % -.25 to -.11)`."""
    found = view.decision
    return (
        f"{measure(view)} {short(found.baseline.value)} → {short(found.candidate.value)},"
        f" change {signed(found.change)}{_within(found.change_bounds)}"
    )


def _within(bounds: Bounds | None) -> str:
    if bounds is None or bounds.low is None or bounds.high is None:
        return ""
    return f" ({INTERVAL:.0%} {signed(bounds.low)} to {signed(bounds.high)})".replace("%", " %")


def sides(view: GateView) -> tuple[str, str]:
    """What the two groups are called."""
    return ("baseline", "candidate") if view.kind == "outcomes" else ("control", "edited")


def measure(view: GateView) -> str:
    """What the mean over tasks is called."""
    return "pass@1" if view.kind == "outcomes" else "responses that match the recording"


def reasons(view: GateView) -> tuple[str, ...]:
    """What blocks, a sentence each; none where nothing does."""
    return tuple(_reason(view, reason) for reason in view.decision.reasons)


def _reason(view: GateView, reason: Reason) -> str:
    found, limits = view.decision, view.limits
    match reason:
        case "drop":
            return (
                f"Blocked: the drop of {points(-found.change)} is at least the"
                f" {points(limits.min_drop)} that count, and {p_value(found.p)} is below"
                f" {short(limits.alpha)}."
            )
        case "tasks lost":
            return f"Blocked by --strict: {_lost_text(view)}."
        case "cost":
            assert found.cost.rise_bounds is not None
            assert limits.max_cost_rise is not None
            return (
                f"Blocked: cost per resolved task rises by {_rise(found.cost.rise_bounds)}, more"
                f" than {format.percent(limits.max_cost_rise)}."
            )


def power_line(view: GateView) -> str:
    """What a drop must have been to be seen, whatever the verdict; "" of a regression that these
    tasks would not show reliably."""
    found, limits = view.decision, view.limits
    if found.smallest_drop is None and found.status == "regression":
        return ""
    tasks = "this task" if found.tasks == 1 else f"these {format.number(found.tasks)} tasks"
    if found.smallest_drop is None:
        few = fewest_tasks(limits.alpha)
        why = f": that takes {few} tasks that change" if found.tasks < few else ""
        seen = f"No drop would reliably be shown by {tasks}{why}."
    else:
        how = "spread over" if view.kind == "outcomes" else "where tasks change as a whole among"
        seen = (
            f"A drop of {points(found.smallest_drop)}, {how} {tasks}, would be blocked in"
            f" {format.percent(POWER)} of repeats; a smaller one, less often."
        )
    if found.status == "too little power":
        assert limits.power is not None
        return f"{seen} Required: {points(limits.power)}."
    return seen


def points(value: float) -> str:
    """A difference of rates: `12 points`, `2.5 points`."""
    shown = f"{100 * value:.1f}".removesuffix(".0")
    return f"{shown} {'point' if shown == '1' else 'points'}"


def facts(view: GateView) -> tuple[tuple[str, str, str], ...]:
    """(name, baseline, candidate) of the figures of both groups."""
    found = view.decision
    rows = [(measure(view), share(found.baseline), share(found.candidate))]
    if found.all_of_k is not None and view.kind == "outcomes":
        each = found.all_of_k
        rows.append((f"pass^{each.k}", _all(each.baseline), _all(each.candidate)))
    if view.kind == "outcomes":
        rows.append(
            (
                "cost per resolved task",
                _cost(found.cost.baseline, found.cost.baseline_bounds),
                _cost(found.cost.candidate, found.cost.candidate_bounds),
            )
        )
        rows.append(("runs", _runs(view.baseline), _runs(view.candidate)))
    return tuple(rows)


def _all(rate: Rate) -> str:
    return f"{share(rate)}, n = {rate.n}"


def _cost(money: Money, bounds: Bounds | None) -> str:
    shown = format.usd(money.cost_usd, complete=money.cost_complete)
    if bounds is None or bounds.low is None:
        return shown
    high = "no bound" if bounds.high is None else format.usd(bounds.high)
    return f"{shown} ({format.usd(bounds.low)}–{high})"


def _runs(found: Side) -> str:
    unknown = f", {found.unknown} without outcome" if found.unknown else ""
    return f"{format.number(found.runs)}{unknown}"


def notices(view: GateView) -> tuple[str, ...]:
    """What a reader must know besides the figures."""
    return tuple(_notices(view))


def _notices(view: GateView) -> Iterator[str]:
    found = view.decision
    if view.kind == "decisions":
        yield (
            "Decisions at recorded steps, not outcomes: no run was played to its end, and whether"
            " it would have passed is not evaluated."
        )
    yield from view.remarks
    if view.unmeasured:
        yield f"Golden tasks without outcomes in both groups: {_list_names(view.unmeasured)}."
    if found.lost and "tasks lost" not in found.reasons:
        yield f"{_lost_text(view)}."
    if view.only_baseline:
        yield f"In baseline only, not compared: {_list_names(view.only_baseline)}."
    if view.only_candidate:
        yield f"In candidate only, not compared: {_list_names(view.only_candidate)}."
    if view.no_outcome:
        yield f"No outcome in one of the groups, not compared: {_list_names(view.no_outcome)}."
    for name, each in (("baseline", view.baseline), ("candidate", view.candidate)):
        if each.unknown:
            runs = format.count(each.unknown, "run")
            yield f"{name.capitalize()}: {runs} without an outcome, not counted as failed."
        if each.taskless:
            runs = format.count(each.taskless, "run")
            yield f"{name.capitalize()}: {runs} without a task, not compared."
    if view.baseline.verifiers != view.candidate.verifiers:
        yield (
            f"Outcomes are by {_by(view.baseline)} in baseline, by {_by(view.candidate)} in"
            " candidate: a difference may be that of the checks."
        )
    if view.baseline.golden != view.candidate.golden:
        one = "baseline" if view.baseline.golden is None else "candidate"
        yield f"Golden set of {one} not recorded: that it is the same is not known."
    held = held_out_text(view.held_out)
    if held:
        yield f"{held}."


def _by(found: Side) -> str:
    return format.one_line(", ".join(found.verifiers)) or "an unknown check"


def _lost_text(view: GateView) -> str:
    lost = view.decision.lost
    did = "passed" if view.kind == "outcomes" else "matched the recording"
    tasks = format.count(len(lost), "task")
    return f"{tasks} always {did} before and never now: {_list_names(lost)}"


def _list_names(tasks: Sequence[str]) -> str:
    shown = ", ".join(format.cut(format.one_line(task), 40) for task in tasks[:SHOWN])
    more = len(tasks) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _rise(bounds: Bounds) -> str:
    low = "no bound" if bounds.low is None else f"{bounds.low:+.0%}"
    high = "no bound" if bounds.high is None else f"{bounds.high:+.0%}"
    return f"{low} to {high}".replace("%", " %")


def basis(view: GateView) -> tuple[str, ...]:
    """By which rules that is said."""
    return tuple(_basis(view))


def _basis(view: GateView) -> Iterator[str]:
    found, limits = view.decision, view.limits
    how = "exact" if found.draws is None else f"{format.number(DRAWS)} signs drawn by a fixed seed"
    yield (
        "test: one-sided sign-flip permutation of the change of each task"
        f" ({how}); blocks below {short(limits.alpha)} and from a drop of"
        f" {points(limits.min_drop)} on"
    )
    yield (
        "intervals: of rates 95 %, Wilson's at so many tasks; of the change and of costs 90 %,"
        " bootstrap over tasks"
    )


def cells(pair: TaskPair) -> tuple[str, str, str, str]:
    """A row: task, baseline, candidate, change."""
    return (
        format.one_line(pair.task),
        trials_text(pair.baseline),
        trials_text(pair.candidate),
        f"{signed(pair.change)}{' lost' if pair.is_lost else ''}",
    )
