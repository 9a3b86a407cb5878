"""What `arc stats --layers` and `--behaviours` print. Loaded by these alone."""

from __future__ import annotations

from rich.console import Console

from arc_tui.cli import print_line, print_table
from arc_tui.features.stats.behaviours import BehavioursView, notes, table
from arc_tui.ui import format
from arc_tui.views.layers import (
    COLUMNS,
    LayersView,
    assert_cells,
    basis,
    cells,
    groups_line,
    notices,
    sentence,
)
from arc_tui.views.runs import held_out_text


def print_layers(out: Console, view: LayersView) -> None:
    """The sentence, the layers, the asserts where there are any, and what has to be known."""
    print_line(out, format.plain(sentence(view)), "bold")
    print_line(out, format.plain(groups_line(view)))
    out.print()
    print_table(out, COLUMNS, [list(cells(each)) for each in view.figures.layers])
    if view.figures.asserts:
        out.print()
        head = ["assert", "before", "after", "completions", ""]
        print_table(out, head, [list(row) for row in assert_cells(view)])
    out.print()
    for line in notices(view):
        print_line(out, format.plain(line), "yellow")
    held = held_out_text(view.held_out)
    if held:
        print_line(out, f"{held}.", "yellow")
    for line in basis(view):
        print_line(out, line, "dim")


def print_behaviours(out: Console, view: BehavioursView) -> None:
    """A row a behaviour, and what the figures are."""
    print_table(out, *table(view))
    print_line(out, "\n".join(notes(view)), "dim")
