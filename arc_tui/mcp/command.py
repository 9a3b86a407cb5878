"""`arc mcp`: coding agents ask arc, over standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from arc_tui.cli import (
    MORE_THAN_NOTHING,
    database_path,
    db_option,
    examples,
    json_option,
    print_line,
    print_view,
    require,
)
from arc_tui.mcp.session import Session
from arc_tui.mcp.tools import Definition, tools_of
from replay.store import encryption


@click.command(epilog=examples("arc mcp --list-tools", "arc mcp --list-tools --allow-spend 0.50"))
@click.option(
    "--allow-spend",
    type=MORE_THAN_NOTHING,
    metavar="USD",
    help="Offer the tool `replay`, which may spend this much in the whole session.",
)
@click.option("--list-tools", is_flag=True, help="Print the tools that are offered, then exit.")
@json_option
@db_option
def mcp(allow_spend: float | None, list_tools: bool, as_json: bool, db: Path | None) -> int:
    """Let a coding agent ask about runs, by the Model Context Protocol over standard input and
    output.

    `claude mcp add arc -- arc mcp` makes it known to Claude Code. The agent reads runs and leaves
    suggested tags; without --allow-spend nothing is sent anywhere. It ends when its input ends.

    Needs the extra `mcp`: pip install 'arc-tui[mcp]'
    """
    session = Session(database_path(db), allow_spend)
    if list_tools:
        print_view([each.definition for each in tools_of(session)], as_json, _print_tools)
        return 0
    if as_json:
        raise click.UsageError("--json needs --list-tools")
    import asyncio

    require("arc mcp", "mcp", extra="mcp")
    from arc_tui.mcp.server import serve

    encryption.ask_with(None)  # standard input is the agent's
    if sys.stdin.isatty():
        click.echo(
            "waiting for a client on standard input · ctrl-c stops · help: arc mcp -h", err=True
        )
    asyncio.run(serve(session))
    return 0


def _print_tools(out: Console, found: list[Definition]) -> None:
    for place, tool in enumerate(found):
        if place:
            out.print()
        print_line(out, f"{tool.name}({', '.join(tool.input_schema['properties'])})", "bold")
        print_line(out, f"  {tool.description}")
