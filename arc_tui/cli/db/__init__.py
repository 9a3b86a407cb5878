"""`arc db`: care of the database. Each of its commands is loaded when it is called."""

from __future__ import annotations

import click

from arc_tui.cli.lazy import Lazy

COMMANDS: dict[str, str] = {
    "backup": "arc_tui.cli.db.backup:backup",
    "recover": "arc_tui.cli.db.recover:recover",
    "scrub": "arc_tui.cli.db.scrub:scrub",
    "prune": "arc_tui.cli.db.prune:prune",
    "encrypt": "arc_tui.cli.db.encrypting:encrypt",
    "decrypt": "arc_tui.cli.db.encrypting:decrypt",
    "rekey": "arc_tui.cli.db.encrypting:rekey",
}
"""Command by name, in the order of `arc db --help`."""


@click.group(cls=Lazy, places=COMMANDS, invoke_without_command=True)
@click.pass_context
def db(ctx: click.Context) -> None:
    """Care of the database: copies, rescue, secrets, retention, encryption."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
