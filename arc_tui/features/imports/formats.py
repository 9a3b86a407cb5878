"""`arc formats`: what can be read, and how well it can be replayed.

The formats that are read: one table, for `arc formats` and the README.
"""

from __future__ import annotations

import click
from msgspec import Struct
from rich.table import Table

from arc_tui.cli import console, json_option, print_json, print_table
from replay.formats import formats
from replay.trace import Level

MEANS: dict[Level, str] = {
    Level.EXACT: "the request as it was sent",
    Level.REBUILT: "all of it, put together from the conversation",
    Level.SUPPLIED: "its system prompt or tools given with `arc attach`",
    Level.PARTIAL: "something of it was not recorded; `arc attach` adds system prompt and tools",
    Level.NONE: "the step cannot be asked again",
}
"""What is known of a request at each level."""


@click.command()
@json_option
def formats_command(as_json: bool) -> None:
    """List the formats that are read: their files, and how well each can be replayed."""
    rows = build_formats()
    if as_json:
        print_json(rows)
        return
    out = console()
    if out.is_terminal:
        table = Table(*HEAD, box=None, header_style="dim", padding=(0, 2, 0, 0))
        table.columns[0].no_wrap = True
        for row in rows:
            table.add_row(*row.cells)
        out.print(table)
    else:
        print_table(out, HEAD, [row.cells for row in rows])
    for level, means in MEANS.items():
        click.echo(f"{level:<9} {means}", err=True)


HEAD = ("format", "reads", "files", "replayed from", "not recorded")


class FormatRow(Struct, frozen=True, kw_only=True):
    """One format: its word in `--format`, what it reads, kinds of files, how completely the
    requests read from them can be known (best first), and what keeps them from being better."""

    name: str
    reads: str
    files: str
    fidelity: tuple[Level, ...]
    lacks: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, under `HEAD`."""
        return self.name, self.reads, self.files, ", ".join(self.fidelity), self.lacks


def build_formats() -> tuple[FormatRow, ...]:
    """Every format, in the order they are asked whether a file is theirs."""
    return tuple(
        FormatRow(
            name=each.NAME,
            reads=each.TITLE,
            files=each.FILES,
            fidelity=each.FIDELITY,
            lacks=each.LACKS,
        )
        for each in formats()
    )
