"""Runs as a matrix of tasks by variant and model, in words and figures: for `arc ls --matrix` and
the matrix screen.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.tables import csv_text, share, short
from arc_tui.views.runs import chosen
from replay.store.handle import Store
from taxonomy.held_out import HeldOutNote
from taxonomy.metrics.reliability import Trials
from taxonomy.query.filter import without_tasks
from taxonomy.query.listing import held_out_note
from taxonomy.stats.matrix import EMPTY as NO_MATRIX
from taxonomy.stats.matrix import Column, Matrix, Order, Row, matrix

SORTED: dict[Order, str] = {
    "changed": "most changed first",
    "task": "by task",
    "passed": "least passed first",
}
"""What each order is called."""


class MatrixView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the matrix screen draws, of the runs that a query means. What is `held_out`, the
    runs of held-out tasks, is in none of the rest unless it is shown."""

    database: str
    query: str
    matrix: Matrix
    held_out: HeldOutNote = HeldOutNote()


EMPTY = MatrixView(database="", query="", matrix=NO_MATRIX)


def build_matrix(
    store: Store, query: str = "", *, k: int | None = None, with_held_out: bool = False
) -> MatrixView:
    """The matrix of the runs that a query means. Raises BadQuery."""
    held = held_out_note(store, shown=with_held_out)
    return MatrixView(
        database=store.path.name if store.path else ":memory:",
        query=query,
        matrix=matrix(store, chosen(store, query) & without_tasks(held.hidden), k=k),
        held_out=held,
    )


def variant_name(column: Column) -> str:
    return format.one_line(column.variant) or format.UNKNOWN


def model_name(column: Column) -> str:
    """The models that answered in all runs of a column, and how many others in some."""
    more = f" +{len(column.also)}" if column.also else ""
    return (format.one_line(column.models).replace(",", ", ") or format.UNKNOWN) + more


def headings(found: Matrix) -> list[str]:
    """What tells the columns apart, in a line each: the variant, the model, or both."""
    if len(found.columns) == 1:
        return ["passed"]
    variants = {column.variant for column in found.columns}
    models = {column.models for column in found.columns}
    if len(variants) == len(found.columns) and variants != {None}:
        return [variant_name(column) for column in found.columns]
    if len(models) == len(found.columns):
        return [model_name(column) for column in found.columns]
    return [f"{variant_name(column)} · {model_name(column)}" for column in found.columns]


def trials_text(cell: Trials | None) -> str:
    """Passed of the runs of known outcome, then how many are unknown: `3/4`, `3/4 1?`."""
    if cell is None:
        return ""
    known = f"{cell.passed}/{cell.n}" if cell.n else ""
    unknown = f"{cell.unknown}?" if cell.unknown else ""
    return " ".join(filter(None, (known, unknown)))


def change_text(row: Row) -> str:
    """How far its columns differ in the share passed."""
    return short(row.change)


def cost_text(column: Column) -> str:
    """What a resolved task costs, `≥` where not all runs have a known cost."""
    each = column.per_resolved
    return format.amount(each.cost_usd, complete=each.cost_complete)


def column_head(found: Matrix) -> list[str]:
    """The headings of `column_cells`, after variant and model; pass^1 is pass@1."""
    hat = [f"pass^{found.k} (95 %)"] if found.k > 1 else []
    of = ["tasks"] if any(column.short for column in found.columns) and hat else []
    return ["runs", "tasks", "pass@1 (95 %)", *of, *hat, "per resolved"]


def column_cells(found: Matrix, column: Column) -> list[str]:
    """A column in figures; the tasks that a rate is over stand before it."""
    hat = [share(column.pass_hat)] if found.k > 1 else []
    of = [format.number(column.pass_hat.n)] if any(each.short for each in found.columns) else []
    return [
        runs_text(column),
        format.number(column.pass_one.n),
        share(column.pass_one),
        *(of if hat else []),
        *hat,
        cost_text(column),
    ]


def runs_text(column: Column) -> str:
    """How many runs it has, and of how many the outcome is unknown: `12, 1?`."""
    unknown = f", {format.number(column.unknown)}?" if column.unknown else ""
    return format.number(column.runs) + unknown


def golden_text(found: Matrix) -> str:
    """Which golden versions the runs name, where these are several; "" else."""
    if len(found.golden) < 2:
        return ""
    named = [format.one_line(each) or "no version" for each in found.golden]
    return f"runs of several golden versions are not comparable: {', '.join(named)}"


def notes(found: Matrix) -> Iterator[str]:
    """What has to be known to read the matrix, in sentences."""
    marks = "cells: passed/runs of known outcome"
    unknown = any(column.unknown for column in found.columns)
    yield f"{marks}, and runs of unknown outcome as 1?" if unknown else marks
    yield "rates: mean over tasks, 95 % Wilson interval over tasks"
    if found.k > 1 and any(column.short for column in found.columns):
        yield f"pass^{found.k} leaves out tasks of fewer than {found.k} runs of known outcome"
    if golden_text(found):
        yield golden_text(found)
    if found.taskless:
        yield f"{format.count(found.taskless, 'run')} without a task left out"
    also = sorted({model for column in found.columns for model in column.also})
    if also:
        named = ", ".join(map(format.one_line, also))
        yield f"+: other models answered in some of its runs ({named})"


CSV_HEAD = ("task", "variant", "models", "passed", "failed", "unknown", "cost_usd", "cost_complete")


def csv_of(found: Matrix) -> str:
    """A row for each cell that has runs."""
    return csv_text(CSV_HEAD, _csv_rows(found))


def _csv_rows(found: Matrix) -> Iterator[tuple[object, ...]]:
    for row in found.rows:
        for column, cell in zip(found.columns, row.cells, strict=True):
            if cell is not None:
                counts = (cell.passed, cell.n - cell.passed, cell.unknown)
                cost = (cell.cost.cost_usd, cell.cost.cost_complete)
                yield (row.task, column.variant, column.models, *counts, *cost)
