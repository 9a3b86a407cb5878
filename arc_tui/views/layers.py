"""The eval pyramid of two groups of runs, and where its layers point, in words: for `arc stats
--layers` and the failures screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.tables import share, short, signed
from arc_tui.views.gate import points
from arc_tui.views.groups import named_rows, newest_groups, refuse_shared
from replay.errors import ArcError
from replay.store.handle import Store
from taxonomy.held_out import HeldOutNote, hidden, parted
from taxonomy.metrics.layers import ALPHA, FEW, MARGIN, Layer, LayerChange
from taxonomy.query.listing import RunRow
from taxonomy.stats import asserts
from taxonomy.stats.layers import RULES, LayerFigures, layer_figures

NAMES: dict[Layer, str] = {
    "L0": "asserts",
    "L1": "tool calls",
    "L2": "rubric",
    "L3": "outcome",
}

SHOWN = 5
"""Tools or layers that are named in one sentence at most; the others are counted."""


class LayersRequest(Struct, frozen=True, kw_only=True):
    """Which groups, of the runs that `query` means: two queries, or none for the two newest
    variants, prompts or models of several tasks. `asserts` None: the file beside the database, if
    there is one."""

    before: str | None = None
    after: str | None = None
    query: str = ""
    margin: float = MARGIN
    asserts: Path | None = None
    with_held_out: bool = False


class GroupNote(Struct, frozen=True, kw_only=True):
    """A group as it was named, and how many runs it has."""

    query: str
    runs: int


class LayersView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything that is shown of the pyramid. `chosen` says how groups that nobody named were
    chosen; `asserts` is the file of L0, None where there is none."""

    before: GroupNote
    after: GroupNote
    chosen: str | None
    asserts: str | None
    figures: LayerFigures
    held_out: HeldOutNote


class NoGroups(ArcError):
    """There are no two groups to compare, and nobody named any."""


# --- building it


def build_layers(store: Store, request: LayersRequest) -> LayersView:
    """The layers of two groups. Raises NoGroups, BadAsserts, and ArcError where a query cannot be
    read, means no run, or both mean the same one."""
    before, after, chosen = request.before, request.after, None
    if before is None or after is None:
        before, after, chosen = _newest(store, request)
    tasks = hidden(store)
    held = 0
    seen: list[tuple[RunRow, ...]] = []
    for name, query in (("--before", before), ("--after", after)):
        rows = named_rows(store, name, _both(request.query, query))
        visible, kept_out = parted(rows, tasks)
        held += len(kept_out)
        seen.append(rows if request.with_held_out else visible)
        if not seen[-1]:
            hint = "Try: --include-held-out" if kept_out else f"Try: arc ls '{query}'"
            raise ArcError(f"{name}: no run matches '{format.one_line(query)}'", hint)
    refuse_shared("--before", seen[0], "--after", seen[1])
    file = _asserts_file(store, request)
    return LayersView(
        before=GroupNote(query=before, runs=len(seen[0])),
        after=GroupNote(query=after, runs=len(seen[1])),
        chosen=chosen,
        asserts=None if file is None else str(file),
        figures=layer_figures(
            store,
            (seen[0], seen[1]),
            None if file is None else asserts.read(file),
            request.margin,
        ),
        held_out=HeldOutNote(tasks=tasks, runs=held, shown=request.with_held_out),
    )


def _both(query: str, group: str) -> str:
    return f"({query}) ({group})" if query.strip() and group.strip() else query or group


def _asserts_file(store: Store, request: LayersRequest) -> Path | None:
    if request.asserts is not None:
        return request.asserts
    beside = store.path.parent / asserts.NAME if store.path else None
    return beside if beside is not None and beside.is_file() else None


def _newest(store: Store, request: LayersRequest) -> tuple[str, str, str]:
    """The two newest variants, else prompts, else models; else the runs before and since the start
    of the middle one."""
    rows = named_rows(store, "QUERY", request.query)
    for field, column in (("variant", "variant"), ("prompt", "prompt"), ("model", "models")):
        found = newest_groups(rows, field, column)
        several = [each for each in found if len({row.task or row.trace for row in each[1]}) > 1]
        if len(several) > 1:
            (after, _), (before, _), *_ = several
            return before, after, f"the two newest {field}s of several tasks"
    starts = sorted(row.start_ns for row in rows if row.start_ns is not None)
    if starts:
        middle = datetime.fromtimestamp(starts[len(starts) // 2] / 1e9, UTC)
        day = f"{middle:%Y-%m-%dT%H:%M}"
        if starts[0] / 1e9 < middle.replace(second=0, microsecond=0).timestamp():
            return f"before:{day}", f"since:{day}", "the older and the newer half"
    raise NoGroups(
        "no two groups to compare: no two variants, system prompts, models or start times",
        "Try: arc stats --layers --before QUERY --after QUERY",
    )


# --- in words


def sentence(view: LayersView) -> str:
    """Where the layers point, or why that is unclear."""
    found = view.figures.verdict
    if found.down is None:
        return _none_down(view.figures)
    down = _list_layers([found.down])
    match found.suspect:
        case "environment or check":
            held = _list_layers(["L2"])
            return f"{down} is down and {held} held: suspect the environment or the check."
        case "plan":
            held = _list_layers(["L1"])
            return f"{down} is down and {held} held: the plan drifts; look at the context."
        case "tool definitions":
            what = _tools(view.figures)
            return f"{down} is down and tool definitions differ ({what}): the blast radius of that."
        case "unclear":
            return f"Unclear: {down} is down, {_unclear(view)}."


def _none_down(found: LayerFigures) -> str:
    loose = [each.layer for each in found.layers if each.state == "inconclusive"]
    held = [each.layer for each in found.layers if each.state == "held"]
    if loose:
        return f"Unclear: no layer is shown to be down; inconclusive: {_list_layers(loose)}."
    if held:
        return f"No layer is down: {_list_layers(held)} held."
    return "Unclear: no layer was evaluated."


def _unclear(view: LayersView) -> str:
    found = view.figures.verdict
    match found.why:
        case "tools same":
            return "and the tool definitions are the same in both groups"
        case "tools unknown":
            return "and the tool definitions are not recorded in both groups"
        case "not held":
            return f"but it is not shown that {_list_layers(found.layers)} held"
        case "not evaluated":
            return f"but {_list_layers(found.layers)} was not evaluated"
        case _:
            return "and no layer stands below it: see which asserts fail"


def _list_layers(layers: Sequence[Layer]) -> str:
    *first, last = (f"{layer} ({NAMES[layer]})" for layer in layers)
    return f"{', '.join(first)} and {last}" if first else last


def _tools(found: LayerFigures) -> str:
    tools = found.tools or ()
    shown = ", ".join(f"{format.one_line(each.tool)} {each.how}" for each in tools[:SHOWN])
    more = len(tools) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


COLUMNS = ("layer", "before", "after", "change", "", "tasks", "runs")


def cells(each: LayerChange) -> tuple[str, ...]:
    """A row of `COLUMNS`."""
    name = f"{each.layer} {NAMES[each.layer]}"
    return (
        name,
        share(each.before),
        share(each.after),
        change_text(each),
        each.state,
        f"{each.before.n} shared" if each.paired else f"{each.before.n}, {each.after.n}",
        f"{each.runs[0]}, {each.runs[1]}",
    )


def short_lines(view: LayersView) -> list[str]:
    """The layers in columns of less than 72 cells, a line each under a head."""
    rows = [("layer", "", "before → after", "change", "tasks")]
    for each in view.figures.layers:
        name, _, _, change, state, tasks, _ = cells(each)
        known = each.before.n and each.after.n
        rates = f"{short(each.before.value)} → {short(each.after.value)}" if known else ""
        rows.append((name, state, rates, change, tasks))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def change_text(each: LayerChange) -> str:
    """`-.20 (-.29 to -.11)`."""
    if each.change is None or each.low is None or each.high is None:
        return format.UNKNOWN
    return f"{signed(each.change)} ({signed(each.low)} to {signed(each.high)})"


def _missing(view: LayersView, each: LayerChange) -> str:
    """Why a layer was not evaluated."""
    if any(each.runs):
        return "fewer than two tasks in a group have it"
    match each.layer:
        case "L0":
            if view.asserts is None:
                return "no asserts.toml beside the database"
            return "no assert is about a completion of these runs"
        case "L1":
            return "no gold calls. Try: arc gold import FILE"
        case "L2":
            return "no step has a score"
        case "L3":
            return "no run has an outcome"


def groups_line(view: LayersView) -> str:
    """Which groups these are."""
    chosen = f" ({view.chosen})" if view.chosen else ""
    sides = (
        f"{name} '{format.one_line(each.query)}', {format.count(each.runs, 'run')}"
        for name, each in (("before", view.before), ("after", view.after))
    )
    return f"{'; '.join(sides)}{chosen}"


def notices(view: LayersView) -> Iterator[str]:
    """What a reader must know besides the figures."""
    found = view.figures
    for each in found.layers:
        if each.state == "not evaluated":
            yield f"{_list_layers([each.layer])} not evaluated: {_missing(view, each)}."
    if found.rubric is not None:
        by = "arc's rules: what a rule can check, not accuracy"
        by = by if found.rubric == RULES else f"{format.one_line(found.rubric)}, an approved judge"
        yield f"L2: mean score of a run's steps, by {by}."
    if found.judge_left is not None:
        judge, scored = found.judge_left
        yield (
            f"{format.one_line(judge)} is approved, but scored {format.count(scored, 'run')}: fewer"
            " than half of a group."
        )
    if found.tools and found.verdict.suspect != "tool definitions":
        yield f"Tool definitions differ: {_tools(found)}."
    if found.also:
        yield f"The groups also differ in {' and '.join(found.also)}: a change may be due to that."
    apart = [each.layer for each in found.layers if each.change is not None and not each.paired]
    if apart:
        few = _list_layers(apart)
        yield f"Too few tasks in both groups at {few}: all tasks of each are compared."
    yield from _say_needed(found)


def _say_needed(found: LayerFigures) -> Iterator[str]:
    needed = found.needed
    if needed is None:
        return
    known = [each for each in found.layers if each.change is not None]
    paired = all(each.paired for each in known)
    few = any(min(each.before.n, each.after.n) < FEW for each in known)
    tasks = format.count(needed.tasks, "shared task" if paired else "task")
    yield (
        f"To tell a {100 * needed.drop:.0f}-point drop at one layer from none, at these rates and"
        f" in {format.percent(needed.power)} of comparisons, takes"
        f" {'at most' if few else 'about'} {format.count(needed.runs, 'run')} a group"
        f" ({tasks})."
    )


def basis(view: LayersView) -> Iterator[str]:
    """By which rules that is said."""
    found = view.figures
    margin = points(found.margin)
    layers = sum(each.change is not None for each in found.layers)
    if not layers:
        return
    yield (
        f"down: the change is at least -{margin} and its interval below 0;"
        f" held: the interval is above -{margin} (--margin)"
    )
    yield (
        "rates: means over tasks with Wilson's 95 % interval; change: Bonett and Price, by task;"
        f" over {format.count(layers, 'layer')} together, an end of an interval is wrong in at most"
        f" {format.percent(ALPHA)} of comparisons (Bonferroni)"
    )


def assert_cells(view: LayersView) -> list[tuple[str, ...]]:
    """(assert, before, after, completions, unknown) of each assert, the largest drop first."""

    def drop(at: int) -> float:
        each = view.figures.asserts[at]
        return (each.after.value or 0.0) - (each.before.value or 0.0)

    order = sorted(range(len(view.figures.asserts)), key=lambda at: (drop(at), at))
    return [
        (
            format.cut(format.one_line(each.name), 40),
            short(each.before.value),
            short(each.after.value),
            f"{each.checked[0]}, {each.checked[1]}",
            f"{each.unknown} unknown" if each.unknown else "",
        )
        for each in (view.figures.asserts[at] for at in order)
    ]
