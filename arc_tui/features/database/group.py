"""`arc db`: care of the database. Each of its commands is loaded when it is called."""

from __future__ import annotations

import click

from arc_tui.commands import Lazy

COMMANDS: dict[str, str] = {
    "backup": "arc_tui.features.database.command:backup",
    "recover": "arc_tui.features.database.recover:recover",
    "scrub": "arc_tui.features.database.command:scrub",
    "prune": "arc_tui.features.database.prune:prune",
    "encrypt": "arc_tui.features.database.command:encrypt",
    "decrypt": "arc_tui.features.database.command:decrypt",
    "rekey": "arc_tui.features.database.command:rekey",
}
"""Command by name, in the order of `arc db --help`."""


@click.group(cls=Lazy, places=COMMANDS, invoke_without_command=True)
@click.pass_context
def db(ctx: click.Context) -> None:
    """Care of the database: copies, rescue, secrets, retention, encryption."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
