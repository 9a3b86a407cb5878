"""Two groups of runs that are held against each other, each named by a query."""

from __future__ import annotations

import re
from collections.abc import Sequence

from arc_tui.ui import format
from arc_tui.views.runs import run_rows
from replay.errors import ArcError
from replay.store.handle import Store
from taxonomy.query.language import BadQuery, quote
from taxonomy.query.listing import RunRow


def named_rows(store: Store, name: str, query: str) -> tuple[RunRow, ...]:
    """The runs of a group; `name` is what it is called. Raises ArcError where the query cannot be
    read."""
    try:
        return run_rows(store, query)
    except BadQuery as error:
        raise ArcError(f"{name}: {error.message}", error.hint) from error


def refuse_shared(name: str, rows: Sequence[RunRow], other: str, others: Sequence[RunRow]) -> None:
    """Raises ArcError where a run is in both groups."""
    shared = {row.trace for row in rows} & {row.trace for row in others}
    if shared:
        runs = format.count(len(shared), "run")
        same = "is" if len(shared) == 1 else "are"
        raise ArcError(
            f"{runs} {same} in both {name} and {other}: a run cannot be held against itself",
            "Try: two queries that exclude each other, such as variant=v4 and variant=v5",
        )


def group_queries(store: Store) -> tuple[tuple[str, str], ...]:
    """(a query, what it means) of each variant, else of each model, that has runs of a task: what
    may be compared, the newest first."""
    rows = [row for row in run_rows(store) if row.task is not None]
    for field, column in (("variant", "variant"), ("model", "models")):
        found = newest_groups(rows, field, column)
        if len(found) > 1:
            return tuple((query, _extent(own)) for query, own in found)
    return ()


def newest_groups(
    rows: Sequence[RunRow], field: str, column: str
) -> tuple[tuple[str, list[RunRow]], ...]:
    """(a query of that field, its runs) of each value of a column, the newest first; runs of
    several models are in none."""
    found: dict[str, list[RunRow]] = {}
    for row in rows:
        name = getattr(row, column)
        if name and (field != "model" or "," not in name):
            found.setdefault(name, []).append(row)
    newest = sorted(found, key=lambda name: max(map(_began, found[name])), reverse=True)
    return tuple((f"{field}={query_value(name)}", found[name]) for name in newest)


def query_value(name: str) -> str:
    """A name as it stands in a query, quoted where it must be."""
    return name if re.fullmatch(r"[\w.-]+", name) else quote(name)


def _began(row: RunRow) -> tuple[int, int]:
    return row.start_ns or 0, row.imported_ns


def _extent(rows: Sequence[RunRow]) -> str:
    tasks = format.count(len({row.task for row in rows}), "task")
    return f"{format.count(len(rows), 'run')} · {tasks}"
