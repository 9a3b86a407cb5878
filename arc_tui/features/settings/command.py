"""`arc config`: what is set, where it comes from, and the file where a person sets it."""

from __future__ import annotations

import click
from msgspec import structs

from arc_tui.cli import console, json_option, print_json, print_table
from arc_tui.config import config_file
from arc_tui.features.settings.view import SettingsView, build_settings
from arc_tui.ui import format
from replay.errors import ArcError

KEYS = "keys"


@click.command("config")
@click.argument("topic", required=False, type=click.Choice([KEYS]))
@click.option("--init", is_flag=True, help="Make the file, with all it may say as comments.")
@click.option(
    "--edit", "in_editor", is_flag=True, help="Open the file in $VISUAL or $EDITOR, and check it."
)
@json_option
def config(topic: str | None, init: bool, in_editor: bool, as_json: bool) -> int:
    """Every setting, its value, and where that comes from; with `keys`, what can be put on a key.

    Only --init writes, and never over a file that is there. Exit code 2: the file cannot be used.
    """
    if sum((topic is not None, init, in_editor)) > 1:
        raise click.UsageError("keys, --init and --edit: ask one of them")
    if topic == KEYS:
        _print_keys(as_json)
        return 0
    if init:
        from arc_tui.config import make

        make(config_file())
        click.echo(f"{config_file()} was made; nothing in it is set yet")
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
        raise ArcError(f"there is no file of settings yet: {file}", "`arc config --init` makes it")
    start(editor(), file)


def _print(view: SettingsView) -> None:
    there = "" if view.exists else " (is not there; `arc config --init` makes it)"
    click.echo(f"{format.plain(view.file)}{there}\n")
    rows = [
        [each.name, format.one_line(each.value), each.origin, each.means] for each in view.settings
    ]
    print_table(console(), ["setting", "value", "from", "what it is"], rows)


def _print_keys(as_json: bool) -> None:
    from arc_tui.settings import read_settings
    from arc_tui.ui.keymap import bound

    own = {name: tuple(keys.split(",")) for name, keys in read_settings().keymap.items()}
    found = [structs.replace(each, keys=own.get(each.id, each.keys)) for each in bound().values()]
    if as_json:
        print_json(found)
        return
    rows = [[each.id, " ".join(each.keys), each.where, each.does] for each in found]
    print_table(console(), ["id", "keys", "where", "does"], rows)
