"""Environment drift between two groups of runs: what is shown of it, by command and screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.views.groups import named_rows, refuse_shared
from replay.errors import ArcError
from replay.pins import VERSION, WHOLE
from replay.store.handle import Store
from taxonomy.environment.differences import Difference, Item
from taxonomy.environment.report import Definition, EnvironmentDrift, read_drift
from taxonomy.environment.schemas import SchemaChange
from taxonomy.held_out import HeldOutNote, hidden, parted
from taxonomy.query.listing import RunRow

A, B = "A", "B"


class DriftRequest(Struct, frozen=True, kw_only=True):
    """The queries of two groups: mostly the runs before and after."""

    first: str
    second: str
    with_held_out: bool = False


class DriftRow(Struct, frozen=True, kw_only=True):
    """One difference: `what` it is of (`tool get_order`), the `change`, and how many runs of each
    group show it, of those that could. Where one value took the place of another, A counts the old
    one and B the new one. `held`: beyond chance; else it is only known of these runs. `traces` show
    it."""

    what: str
    change: str
    first: tuple[int, int]
    second: tuple[int, int]
    p: float
    held: bool
    traces: tuple[str, ...]


class DriftView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything that is shown."""

    request: DriftRequest
    rows: tuple[DriftRow, ...]
    drift: EnvironmentDrift
    held_out: HeldOutNote


def build_drift(store: Store, request: DriftRequest) -> DriftView:
    """How the environments of the runs of two queries differ.

    Raises ArcError where a query cannot be read, matches nothing, or both match a run.
    """
    tasks = hidden(store)
    groups: list[tuple[RunRow, ...]] = []
    held = 0
    for name, query in ((A, request.first), (B, request.second)):
        found = named_rows(store, name, query)
        visible, kept_out = parted(found, tasks)
        held += len(kept_out)
        groups.append(found if request.with_held_out else tuple(visible))
        if not groups[-1]:
            hint = "Try: --include-held-out" if kept_out else "Try: arc ls, to see what there is"
            raise ArcError(f"{name}: no run matches '{format.one_line(query)}'", hint)
    refuse_shared(A, groups[0], B, groups[1])
    drift = read_drift(store, *groups)
    return DriftView(
        request=request,
        rows=tuple(rows_of(drift)),
        drift=drift,
        held_out=HeldOutNote(tasks=tasks, runs=held, shown=request.with_held_out),
    )


def rows_of(drift: EnvironmentDrift) -> Iterator[DriftRow]:
    """A row a difference, those beyond chance first; a value that took the place of another stands
    in one row with it."""
    definitions = {each.tool: each for each in drift.definitions}
    for group in (drift.found.held, drift.found.seen):
        by_place: dict[tuple[str, str, str], list[Difference]] = {}
        models = {each.item.value for each in group if each.item.kind == "model"}
        for each in group:
            if each.item.kind == "asked" and each.item.value in models:
                continue  # the model that answered is the one that was asked for
            known = each.item.known
            own = each.item.value if known.kind in ("tool", "path") else ""
            by_place.setdefault((known.kind, known.of, known.path + own), []).append(each)
        for found in by_place.values():
            yield from _rows(found, definitions)


def _rows(found: list[Difference], definitions: dict[str, Definition]) -> Iterator[DriftRow]:
    gone = [each for each in found if not each.came]
    came = [each for each in found if each.came]
    item = found[0].item
    if item.kind == "definition":
        known = definitions.get(item.known.of)
        changes = known.changes if known is not None else ()
        words = [change_words(each) for each in changes] or ["definition changed"]
    elif gone and came:
        words = [f"{_change(item)}{_values(gone)} → {_values(came)}"]
    else:
        words = [f"{_change(item)}{_value(each.item)}{_verb(each)}" for each in found]
    counts = (_count(gone or found, 0), _count(came or found, 1))
    joined = dict.fromkeys(trace for each in found for trace in each.traces)
    for each in words:
        yield DriftRow(
            what=what(item),
            change=each,
            first=counts[0],
            second=counts[1],
            p=min(one.p for one in found),
            held=found[0].held,
            traces=tuple(joined),
        )


def _count(found: Iterable[Difference], side: int) -> tuple[int, int]:
    counts = [(each.first, each.second)[side] for each in found]
    most = max(counts)
    return most.hits, most.n


def _verb(found: Difference) -> str:
    return "added" if found.came else "removed"


def what(item: Item) -> str:
    """What of the environment it is."""
    of = format.one_line(item.known.of)
    match item.kind:
        case "tool":
            return f"tool {format.one_line(item.value)}"
        case "definition":
            return f"tool {of}"
        case "model":
            return "model that answered"
        case "asked":
            return "model asked for"
        case "version":
            if item.known.of == VERSION:
                return "version of the agent"
            return f"MCP server {of[4:]}" if of.startswith("mcp.") else f"version of {of[8:]}"
        case "pin":
            return f"pin {of}"
        case "path" | "type":
            return f"results of {of}"


def _change(item: Item) -> str:
    """The words before a value that changed."""
    if item.kind == "path":
        return "key "
    if item.kind == "type":
        path = format.one_line(item.known.path)
        return "the whole result: " if item.known.path == WHOLE else f"type of {path}: "
    return ""


def _value(item: Item) -> str:
    return "" if item.kind == "tool" else f"{format.one_line(item.value)} "


def _values(found: Iterable[Difference]) -> str:
    return ", ".join(sorted({format.one_line(each.item.value) for each in found}))


def change_words(change: SchemaChange) -> str:
    """A change of a definition: `argument city renamed to town`."""
    name = format.one_line(change.argument)
    before, after = format.one_line(change.before), format.one_line(change.after)
    match change.what:
        case "added":
            return f"argument {name} added ({after})"
        case "removed":
            return f"argument {name} removed ({before})"
        case "renamed":
            return f"argument {name} renamed to {after}"
        case "type":
            return f"argument {name}: type {before} → {after}"
        case "required":
            return f"argument {name}: now required"
        case "optional":
            return f"argument {name}: no longer required"
        case "description":
            return f"argument {name}: description changed"
        case "rules":
            return f"argument {name}: {before} changed"
        case "tool":
            return "description changed"
        case "other":
            return f"{before} of the schema changed"
