"""`arc verify`: is what is stored still what was written?"""

from __future__ import annotations

from pathlib import Path

import click

from arc_tui import format
from arc_tui.cli.common import db_option, json_option, open_store, print_json
from replay.store import check, read
from replay.store.rows import trace_row, trace_rows


@click.command()
@click.argument("traces", nargs=-1)
@json_option
@db_option
def verify(traces: tuple[str, ...], as_json: bool, db: Path | None) -> int:
    """Derive every digest again, and check that each tape holds together."""
    with open_store(db) as store:
        chosen = [trace_row(store, name) for name in traces] or trace_rows(store, every=True)
        found = list(check.content(store))
        for row in chosen:
            found += check.trace_digests(store, row.trace)
            found += check.coherence(read.load(store, row.trace))
    damage = [each for each in found if each.severity == "damage"]
    if as_json:
        print_json({"traces": len(chosen), "findings": found})
        return 1 if damage else 0
    for each in found:
        click.echo(f"{each.severity}: {format.one_line(each.where)}: {each.what}")
    notes = len(found) - len(damage)
    click.echo(
        f"{format.count(len(chosen), 'trace')} checked: "
        f"{format.count(len(damage), 'damaged place')}, {format.count(notes, 'note')} on the tapes",
        err=True,
    )
    return 1 if damage else 0
