"""`arc config`: what is set, where it comes from, and the file where a person sets it."""

from __future__ import annotations

import click
from msgspec import structs

from arc_tui.cli import console, examples, json_option, print_json, print_table
from arc_tui.config import config_file
from arc_tui.features.settings.view import SettingsView, build_settings
from arc_tui.ui import format
from replay.errors import ArcError

KEYS = "keys"


@click.command("config", epilog=examples("arc config --init", "arc config keys"))
@click.argument("topic", required=False, type=click.Choice([KEYS]))
@click.option("--init", is_flag=True, help="Create the file, with every setting as a comment.")
@click.option(
    "--edit", "in_editor", is_flag=True, help="Open the file in $VISUAL or $EDITOR, then check it."
)
@json_option
def config(topic: str | None, init: bool, in_editor: bool, as_json: bool) -> int:
    """List every setting, its value and its origin; with `keys`, every key binding.

    --init never overwrites a file. Exit code 2: the file has an error.
    """
    if sum((topic is not None, init, in_editor)) > 1:
        raise click.UsageError("keys, --init and --edit cannot be combined")
    if topic == KEYS:
        _print_keys(as_json)
        return 0
    if init:
        from arc_tui.config import make

        make(config_file())
        click.echo(f"{config_file()} created; every setting is still at its default")
        return 0
    if in_editor:
        _edit()
    _check()
    view = build_settings()
    print_json(view) if as_json else _print(view)
    return 0


def _check() -> None:
    from arc_tui.settings import read_settings  # what there is to choose from is the app's

    read_settings()


def _edit() -> None:
    from arc_tui.ui.editor import editor, start

    file = config_file()
    if not file.exists():
        raise ArcError(f"No settings file yet: {file}", "Try: arc config --init")
    start(editor(), file)


def _print(view: SettingsView) -> None:
    there = "" if view.exists else " (does not exist yet. Try: arc config --init)"
    click.echo(f"{format.plain(view.file)}{there}\n")
    rows = [
        [each.name, format.one_line(each.value), each.origin, each.means] for each in view.settings
    ]
    print_table(console(), ["setting", "value", "origin", "meaning"], rows)


def _print_keys(as_json: bool) -> None:
    from arc_tui.settings import read_settings
    from arc_tui.ui.keymap import bound

    own = {name: tuple(keys.split(",")) for name, keys in read_settings().keymap.items()}
    found = [structs.replace(each, keys=own.get(each.id, each.keys)) for each in bound().values()]
    if as_json:
        print_json(found)
        return
    rows = [[each.id, " ".join(each.keys), each.where, each.does] for each in found]
    print_table(console(), ["id", "keys", "where", "action"], rows)
