"""`arc help`: a command's help, how runs are asked for, or what a list shows of them."""

from __future__ import annotations

import click
from rich.text import Text

from arc_tui.cli import console, print_table
from arc_tui.views import columns
from taxonomy.query import fields

QUERY, COLUMNS = "query", "columns"


@click.command("help")
@click.argument("topic", required=False)
def help_(topic: str | None) -> int:
    """How a command is used, or (`arc help query`) what QUERY may ask of runs."""
    if topic == QUERY:
        _query()
        return 0
    if topic == COLUMNS:
        _columns()
        return 0
    outer = click.get_current_context().find_root()
    if topic is None or not isinstance(outer.command, click.Group):
        click.echo(outer.get_help())
        click.echo(f"\n`arc help {QUERY}` says what QUERY may ask of runs,")
        click.echo(f"`arc help {COLUMNS}` what lists of runs show.")
        return 0
    command = outer.command.get_command(outer, topic)
    if command is None:
        raise click.UsageError(
            f"there is no command {topic!r}, and no help of that name but {QUERY} and {COLUMNS}"
        )
    click.echo(command.get_help(click.Context(command, info_name=topic, parent=outer)))
    return 0


def _query() -> None:
    out = console()
    out.print("QUERY says which runs are meant: outcome:failed tag:loop cost>0.5 (a or not b)")
    out.print("In a shell, quote the whole of it: arc ls 'cost>0.5 tag:\"wrong tool\"'\n")
    print_table(out, ["written", "means"], [[Text(a), Text(b)] for a, b in fields.RULES])
    out.print("")
    print_table(
        out,
        ["field", "for example", "the runs"],
        [[Text(name), Text(example), Text(means)] for name, example, means in fields.described()],
    )


def _columns() -> None:
    out = console()
    out.print("What `arc ls --json` says of a run, and what stands above that in a list\n")
    print_table(out, ["in --json", "in a list", "what it is"], list(columns.described()))
