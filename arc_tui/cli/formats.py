"""`arc formats`: what can be read, and how well it can be replayed."""

from __future__ import annotations

import click
from rich.table import Table

from arc_tui.cli.common import console, json_option, print_json, print_table
from arc_tui.views.formats import HEAD, build_formats
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
def formats(as_json: bool) -> None:
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
