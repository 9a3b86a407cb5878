"""`arc db`: care of the database. Each of its commands is loaded when it is called."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS: dict[str, str] = {
    "backup": "arc_tui.cli.db.backup:backup",
    "recover": "arc_tui.cli.db.recover:recover",
    "prune": "arc_tui.cli.db.prune:prune",
    "encrypt": "arc_tui.cli.db.encrypting:encrypt",
    "decrypt": "arc_tui.cli.db.encrypting:decrypt",
    "rekey": "arc_tui.cli.db.encrypting:rekey",
}
"""Command by name, in the order of `arc db --help`."""


class Care(click.Group):
    """Loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Care)
def db() -> None:
    """Care of the database: copies, rescue, secrets, retention, encryption."""
