"""How noise and length blur the shape of a run, as tables of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from arc_tui.views.calibration.tables import Table, counted, short
from taxonomy.calibration.noise import Cell


def noise_tables(cells: Sequence[Cell]) -> Iterator[Table]:
    """A table a rule: by noise and length the share right, unclear and wrong; then confusion."""
    for rule, own in groupby(cells, key=lambda cell: cell.rule):
        found = list(own)
        yield Table(
            title=f"shape by the {rule} rule: made runs of each shape, by noise and length",
            columns=("σ", "steps", "right", "unclear", "wrong"),
            rows=tuple(
                (
                    short(cell.sigma),
                    str(cell.steps),
                    counted(cell.right),
                    counted(cell.unclear),
                    counted(cell.wrong),
                )
                for cell in found
            ),
        )
        yield _confusion(rule, found)


def _confusion(rule: str, cells: Sequence[Cell]) -> Table:
    """Every cell of a rule together: the true shape down, what was said across."""
    first = cells[0].confusion
    sums = [
        [sum(cell.confusion.counts[row][column] for cell in cells)
         for column in range(len(first.columns))]
        for row in range(len(first.rows))
    ]  # fmt: skip
    return Table(
        title=f"true shape (down) and what the {rule} rule says, all of them together",
        columns=("", *first.columns),
        rows=tuple(
            (name, *map(str, counts)) for name, counts in zip(first.rows, sums, strict=True)
        ),
    )
