"""`arc edits`: the edits that are kept, and one of them as the file that `--edit` reads."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json, print_table
from replay.edit import describe
from replay.edit_file import to_toml
from replay.store.edits import KeptEdit, find, listed


@click.command()
@click.argument("name", required=False)
@json_option
@db_option
def edits(name: str | None, as_json: bool, db: Path | None) -> int:
    """List the edits you tried. With NAME (or the beginning of an id), print one as TOML.

    `arc edits NAME > FILE.toml` gives a file that `--edit` reads.
    """
    with open_store(db) as store:
        if name is not None:
            edit = find(store, name)
            (one,) = (each for each in listed(store) if each.digest == edit.digest)
            print_json(one) if as_json else click.echo(to_toml(edit), nl=False)
            return 0
        kept = listed(store)
    if as_json:
        print_json(kept)
    elif kept:
        names = ["id", "name", "replays", "kept", "changes"]
        print_table(console(), names, [_cells(each) for each in kept])
    else:
        click.echo(
            "no edit is kept yet; `arc replay TRACE --edit FILE` keeps what it tries", err=True
        )
    return 0 if kept else 1


def _cells(kept: KeptEdit) -> list[Text | str]:
    when = datetime.fromtimestamp(kept.added_ns / 1e9)
    return [
        kept.short,
        format.cut(format.one_line(kept.name), 40),
        str(kept.replays),
        when.strftime("%Y-%m-%d %H:%M"),
        format.one_line("; ".join(map(describe, kept.changes))),
    ]
