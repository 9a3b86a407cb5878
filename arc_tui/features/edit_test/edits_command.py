"""`arc edit list`: the saved edits, and what came of each. `arc edit show`: one as the file that
`--edit` reads.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from msgspec import Struct
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    json_option,
    limit_option,
    limited,
    open_store,
    print_json,
    print_list,
    print_table,
)
from arc_tui.features.edit_test.kept import KeptTry, kept_tries
from arc_tui.features.edit_test.text import counted, moment
from arc_tui.ui import format
from replay.edit.changes import Change, describe
from replay.edit.files import to_toml
from replay.models import label
from replay.statistics import Clustered
from replay.store import edits as edits_store
from replay.store.edits import find, listed
from replay.store.handle import Store

_ON, _NAME = 40, 40


@click.command("list")
@limit_option
@json_option
@db_option
def list_(limit: int, as_json: bool, db: Path | None) -> int:
    """List the edits that were tried, and what came of each."""
    with open_store(db) as store:
        kept = build_edits(store)
    if as_json:
        print_json(kept)
    elif kept:
        names = ["id", "name", "replays", "saved", "changes"]
        out = console()
        print_list(out, names, [_cells(each) for each in limited(kept, limit)])
        tries = [cells for each in kept for cells in _tries(each)]
        if tries:
            out.print()
            names = ["edit", "tried on", "fixed", "broke", "samples", "when"]
            print_table(out, names, tries)
    else:
        click.echo("No edits yet. Try: arc replay TRACE --edit FILE", err=True)
    return 0


@click.command("show")
@click.argument("name")
@json_option
@db_option
def show(name: str, as_json: bool, db: Path | None) -> int:
    """Print an edit as TOML. NAME may be the beginning of its id.

    `arc edit show NAME > FILE.toml` gives a file that `--edit` reads.
    """
    with open_store(db) as store:
        edit = find(store, name)
        (one,) = (each for each in build_edits(store) if each.digest == edit.digest)
    print_json(one) if as_json else click.echo(to_toml(edit), nl=False)
    return 0


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
            counted(each.fixed, each.fixed_by_chance),
            counted(each.broke, each.broke_by_chance),
            f"{', '.join(map(label, each.models))}, k {each.samples}",
            moment(each.ran_ns)[:10],
        ]
        for each in kept.tries
    ]


class TriedOn(Struct, frozen=True, kw_only=True):
    """What trying an edit on some runs came to. `query` is how they were named; `fixed` and `broke`
    are shares of breaks and of healthy steps, and what chance alone would give, as `arc try` has
    them."""

    query: str
    models: tuple[str, ...]
    samples: int
    fixed: Clustered
    broke: Clustered
    fixed_by_chance: float | None
    broke_by_chance: float | None
    ran_ns: int
    digest: str | None


class EditRow(Struct, frozen=True, kw_only=True):
    """A kept edit. `replays` counts the kept replays that used it; `tries` are the latest first."""

    name: str
    digest: str
    changes: tuple[Change, ...]
    thread: str | None
    added_ns: int
    replays: int
    tries: tuple[TriedOn, ...]

    @property
    def short(self) -> str:
        return edits_store.short(self.digest)


def build_edits(store: Store) -> list[EditRow]:
    """Every kept edit, the latest first."""
    tries: dict[str, list[TriedOn]] = {}
    for kept in kept_tries(store):
        tries.setdefault(kept.edit, []).append(_tried_on(kept))
    return [
        EditRow(
            name=each.name,
            digest=each.digest,
            changes=each.changes,
            thread=each.thread,
            added_ns=each.added_ns,
            replays=each.replays,
            tries=tuple(tries.get(each.digest, ())),
        )
        for each in listed(store)
    ]


def _tried_on(kept: KeptTry) -> TriedOn:
    return TriedOn(
        query=kept.view.query,
        models=kept.models,
        samples=kept.view.samples,
        fixed=kept.view.fixed,
        broke=kept.view.broke,
        fixed_by_chance=kept.view.fixed_by_chance,
        broke_by_chance=kept.view.broke_by_chance,
        ran_ns=kept.ran_ns,
        digest=kept.view.digest,
    )
