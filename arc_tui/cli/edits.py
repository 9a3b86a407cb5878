"""`arc edits`: the edits that are kept, and one of them as the file that `--edit` reads."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json, print_table
from arc_tui.views.replay.edits import EditRow, build_edits
from arc_tui.views.trying.words import moment, share
from replay.edit import describe
from replay.edit_file import to_toml
from replay.models.choose import label
from replay.store.edits import find

_ON, _NAME = 40, 40


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
            (one,) = (each for each in build_edits(store) if each.digest == edit.digest)
            print_json(one) if as_json else click.echo(to_toml(edit), nl=False)
            return 0
        kept = build_edits(store)
    if as_json:
        print_json(kept)
    elif kept:
        names = ["id", "name", "replays", "kept", "changes"]
        out = console()
        print_table(out, names, [_cells(each) for each in kept])
        tries = [cells for each in kept for cells in _tries(each)]
        if tries:
            out.print()
            names = ["edit", "tried on", "fixed", "broke", "asked", "when"]
            print_table(out, names, tries)
    else:
        click.echo(
            "no edit is kept yet; `arc replay TRACE --edit FILE` keeps what it tries", err=True
        )
    return 0 if kept else 1


def _cells(kept: EditRow) -> list[Text | str]:
    when = datetime.fromtimestamp(kept.added_ns / 1e9)
    return [
        kept.short,
        format.cut(format.one_line(kept.name), _NAME),
        str(kept.replays),
        when.strftime("%Y-%m-%d %H:%M"),
        format.one_line("; ".join(map(describe, kept.changes))),
    ]


def _tries(kept: EditRow) -> list[list[Text | str]]:
    """A row each time it was tried on runs."""
    return [
        [
            format.cut(format.one_line(kept.name), _NAME),
            format.cut(format.one_line(each.query), _ON),
            share(each.fixed),
            share(each.broke),
            f"{', '.join(map(label, each.models))}, k {each.samples}",
            moment(each.ran_ns)[:10],
        ]
        for each in kept.tries
    ]
