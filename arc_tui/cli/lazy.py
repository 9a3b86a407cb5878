"""Commands that are loaded when they are called: `arc ls` imports neither Textual nor the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class Lazy(click.Group):
    """A group whose commands stand in `places`, as `module:name` by their word, in the order of its
    help."""

    def __init__(self, *args: Any, places: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command
