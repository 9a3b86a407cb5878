"""`arc verify`: is what is stored still what was written? And does a bundle hold?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import structs

from arc_tui import format
from arc_tui.cli.common import db_option, json_option, open_store, print_json
from arc_tui.places import database
from replay.bundle import Verified
from replay.bundle import verify as verify_bundle
from replay.errors import NotFound
from replay.models.choose import label
from replay.store import beside, check, health, read
from replay.store.check import Finding, damage
from replay.store.rows import trace_row, trace_rows
from replay.store.trouble import StoreDamaged

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
    path = database(db or click.get_current_context().find_root().obj)
    if not path.exists():
        raise NotFound("database", str(path), hint="the first import makes it; --db names another")
    count, found = _checked(path, traces)
    damaged = [each for each in found if each.severity == "damage"]
    if as_json:
        print_json({"traces": count, "findings": found})
        return 1 if damaged else 0
    for each in found:
        click.echo(f"{each.severity}: {format.one_line(each.where)}: {format.one_line(each.what)}")
    notes = len(found) - len(damaged)
    click.echo(
        f"{format.count(count, 'trace')} checked: {format.count(len(damaged), 'damaged place')},"
        f" {format.count(notes, 'note')} on the tapes",
        err=True,
    )
    if damaged:
        click.echo("`arc db recover` saves what is left into a new file", err=True)
    return 1 if damaged else 0


def _checked(path: Path, names: tuple[str, ...]) -> tuple[int, list[Finding]]:
    """How many traces were looked at, and what was found; where pages are damaged, what is lost."""
    try:
        with open_store(path) as store:
            chosen = [trace_row(store, name) for name in names] or trace_rows(store, every=True)
            found = [*health.pages(store), *check.content(store), *beside.kept(store)]
            sound = not found
            for row in chosen:
                broken = list(check.trace_digests(store, row.trace))
                found += broken
                if sound and not broken:
                    found += check.coherence(read.load(store, row.trace))
    except StoreDamaged as error:
        said = error.message.removeprefix(f"{path}: ")
        return 0, [damage("file", said), *_lost(path)]
    if not sound:
        found += (each for each in _lost(path) if each not in found)
    return len(chosen), found


def _lost(path: Path) -> Iterator[Finding]:
    """What a damaged file has lost, by the names of what it was."""
    from arc_tui.cli.db.recover import follows, lost_row  # only damage needs all this
    from replay.store.rescue.recover import survey
    from taxonomy.ledger import migrations

    losses = survey(path, migrations, follows=follows)
    for place, (many, first) in losses.damaged.items():
        what = f"{first} ({format.count(many, 'place')})" if many > 1 else first
        yield damage(place, what)
    for trace in losses.traces:
        name = f"trace {trace.trace[:8]} {trace.task or trace.title or ''}".rstrip()
        yield damage(name, f"lost: {trace.words}")
    for key in losses.gone:
        yield damage(f"trace {key[:8]}", "lost")
    for row in losses.rows:
        yield damage(lost_row(row), "lost")
    if losses.unplaced:
        what = "left over: nothing tells what they belong to"
        yield damage(format.count(losses.unplaced, "row"), what)
    if not losses.any:
        said = "can still be read"
        yield Finding(severity="note", where="what was recorded, paid for and said", what=said)


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
