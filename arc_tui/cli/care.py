"""`arc verify`: is what is stored still what was written? And does a bundle hold?"""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs

from arc_tui import format
from arc_tui.cli.common import db_option, json_option, open_store, print_json
from replay.bundle import Verified
from replay.bundle import verify as verify_bundle
from replay.models.choose import label
from replay.store import check, read
from replay.store.rows import trace_row, trace_rows

_DIFFERENCES = 5
"""Of many places where a result differs, the first few are said."""


@click.command()
@click.argument("traces", nargs=-1)
@click.option("--bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Run the replay in this file again, offline; reads no database.")  # fmt: skip
@json_option
@db_option
def verify(traces: tuple[str, ...], bundle: Path | None, as_json: bool, db: Path | None) -> int:
    """Derive every digest again, and check that each tape holds together.

    With --bundle, run a bundled replay again: exit code 0 if it comes to the same, 1 if not.
    """
    if bundle is not None:
        if traces:
            raise click.UsageError("--bundle holds its own trace: name no other")
        return _print_verified(verify_bundle(bundle), as_json=as_json)
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


def _print_verified(found: Verified, *, as_json: bool) -> int:
    if as_json:
        print_json({"same": found.same, **structs.asdict(found)})
        return 0 if found.same else 1
    for name, said in _lines(found).items():
        if said is not None:
            click.echo(f"{name:<9} {format.one_line(said)}")
    if found.same:
        click.echo("run again from the bundle alone: the same")
        return 0
    click.echo(f"run again from the bundle alone: {format.one_line(found.found)}")
    for place in found.differs[:_DIFFERENCES]:
        click.echo(f"differs: {format.one_line(place)}")
    more = len(found.differs) - _DIFFERENCES
    if more > 0:
        click.echo(f"differs: {format.count(more, 'more place')}")
    return 1


def _lines(found: Verified) -> dict[str, str | None]:
    """What was verified, a line each; None where there is nothing to say."""
    models = [found.model, *([found.edited_model] if found.edited_model else [])]
    declined = format.count(found.declined, "request")
    return {
        "trace": f"{found.trace}  {found.title or ''}".rstrip(),
        "replay": found.kind,
        "edit": found.edit,
        "model": ", edited arm ".join(map(label, models)),
        "server": found.server or None,
        "samples": ", then ".join(map(str, found.levels)),
        "answers": str(found.answers),
        "declined": f"{declined}, on the word of the result" if found.declined else None,
        "digest": found.digest,
    }
