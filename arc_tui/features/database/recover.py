"""`arc db recover`: what can still be read of a damaged database. `arc db verify`: is it what was
written? `arc bundle verify`: does a replay in a file come to the same again?
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct, structs

from arc_tui.cli import (
    RUN_NAME,
    database_path,
    db_option,
    diagnose_new,
    examples,
    json_option,
    open_store,
    print_json,
)
from arc_tui.features.database.command import contents, existing
from arc_tui.ui import format
from replay.bundle import Verified
from replay.bundle import verify as verify_bundle
from replay.care import check
from replay.care.check import Finding, damage, name
from replay.care.recover import Losses, Recovered
from replay.care.recover import recover as save
from replay.care.salvage import Lost
from replay.errors import NotFound
from replay.models.choose import label
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row, trace_rows
from replay.store.trouble import StoreDamaged
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import migrations, open_ledger
from taxonomy.judgements.tags import CleanMark, Tag, mark_clean, put_tag


class PartialView(Struct, frozen=True, kw_only=True):
    """A trace that is not all there, and what it lost, with how often."""

    trace: str
    lost: dict[str, int]


class RecoverView(Struct, frozen=True, kw_only=True):
    """A rescue: the new file, what is whole, what is not, and what is gone."""

    path: str
    whole: int
    incomplete: tuple[PartialView, ...]
    gone: tuple[str, ...]
    lost_rows: tuple[str, ...]
    unplaced_rows: int
    said_again: tuple[str, ...]
    rows: dict[str, int]


@click.command(epilog=examples("arc db recover", "arc db recover --into saved.db"))
@click.option("--into", type=click.Path(dir_okay=False, path_type=Path),
              help="The new file; default `<name>.recovered.db` in the same folder.")  # fmt: skip
@json_option
@db_option
def recover(into: Path | None, as_json: bool, db: Path | None) -> int:
    """Save what is readable in a damaged database into a new one, and list what is lost.

    The damaged file is only read. An incomplete trace is marked in its problems; importing its
    source again completes it. Exit code 1: something is lost.
    """
    path = existing(db)
    into = into or path.with_name(f"{path.stem}.recovered{path.suffix}")
    done = save(path, into, migrations, follows=follows, without=("diagnosis", "audit"))
    with open_ledger(into) as store:
        again = tuple(_said_again(store, done.losses.rows))
        diagnose_new(store)
    if as_json:
        print_json(_view(done, again))
    else:
        _print(done, again)
    return 1 if done.losses.any else 0


def follows(lost: Lost) -> bool:
    """Was it said by the rules, which say it again?"""
    return lost.table in ("diagnosis", "audit") or lost.known.get("source") in ("rule", "import")


def lost_row(lost: Lost) -> str:
    """A row that is lost, in words."""
    known = {name: value for name, value in lost.known.items() if name in _TELLING}
    return name(lost.table, known, lost.id)


_TELLING = frozenset({
    "trace", "trace_key", "span", "step", "class", "by", "source", "digest", "name", "key",
    "server", "tool", "id",
})  # fmt: skip
"""The columns of an index that tell a person which row it was."""


def _said_again(store: Store, lost: tuple[Lost, ...]) -> Iterator[str]:
    """Tags and clearances whose index is left: said again, without their notes."""
    for each in lost:
        given = each.known
        trace, by = given.get("trace"), given.get("by")
        if not isinstance(trace, str) or not isinstance(by, str):
            continue
        if each.table == "clearance":
            mark_clean(store, CleanMark(trace=trace, by=by))
            yield f"clean mark of trace {trace[:8]} by {by}"
        elif each.table == "tag":
            tag = _tag(store, trace, by, given.get("span"), given.get("class"))
            if tag is not None:
                put_tag(store, tag)
                yield f"tag {tag.failure.value} of trace {trace[:8]} step {tag.step} by {by}"


def _tag(store: Store, trace: str, by: str, span: object, failure: object) -> Tag | None:
    """The tag that an index names, None where its step or its class is not known any more."""
    step = next((row.step for row in step_rows(store, trace) if row.span == span), None)
    if step is None or failure not in {each.value for each in FailureClass}:
        return None
    return Tag(trace=trace, span=str(span), step=step, failure=FailureClass(failure), by=by)


def _view(done: Recovered, again: tuple[str, ...]) -> RecoverView:
    losses = done.losses
    return RecoverView(
        path=str(done.path),
        whole=done.whole,
        incomplete=tuple(PartialView(trace=p.trace, lost=p.lost) for p in losses.traces),
        gone=losses.gone,
        lost_rows=tuple(map(lost_row, losses.rows)),
        unplaced_rows=losses.unplaced,
        said_again=again,
        rows=done.rows,
    )


def _print(done: Recovered, again: tuple[str, ...]) -> None:
    losses = done.losses
    for each in losses.traces:
        called = format.one_line(f"{each.trace[:8]} {each.task or each.title or ''}".rstrip())
        click.echo(f"incomplete: trace {called}: lost {each.words}")
    for line in _gone(losses):
        click.echo(f"lost: {format.one_line(line)}")
    for words in again:
        click.echo(f"saved without its note: {format.one_line(words)}")
    traces = done.whole + len(losses.traces)
    click.echo(
        f"{format.one_line(str(done.path))}: {contents({'trace': traces, **done.rows})};"
        f" {done.whole} of {format.count(traces, 'trace')} whole"
    )


def _gone(losses: Losses) -> Iterator[str]:
    for key in losses.gone:
        yield f"trace {key[:8]}"
    yield from map(lost_row, losses.rows)
    if losses.unplaced:
        yield f"{format.count(losses.unplaced, 'row')} of unknown position"


_DIFFERENCES = 5
"""Of many places where a result differs, the first few are said."""


@click.command(
    "verify", epilog=examples("arc bundle verify case.zip", "arc bundle verify case.zip --json")
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def verify_replay(file: Path, as_json: bool) -> int:
    """Run the replay in a bundle again, offline; reads no database.

    Exit code 0: same result; 1: it differs.
    """
    return _print_verified(verify_bundle(file), as_json=as_json)


@click.command(epilog=examples("arc db verify", "arc db verify last --json"))
@click.argument("traces", type=RUN_NAME, nargs=-1)
@json_option
@db_option
def verify(traces: tuple[str, ...], as_json: bool, db: Path | None) -> int:
    """Recompute every digest, and check that each recording is complete.

    Exit code 1: something is damaged.
    """
    path = database_path(db)
    if not path.exists():
        raise NotFound("database", str(path), hint="Try: arc import PATH, or another --db")
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
        f" {format.count(notes, 'note')} on the recordings",
        err=True,
    )
    if damaged:
        click.echo("Try: arc db recover, to save the rest into a new file", err=True)
    return 1 if damaged else 0


def _checked(path: Path, names: tuple[str, ...]) -> tuple[int, list[Finding]]:
    """How many traces were looked at, and what was found; where pages are damaged, what is lost."""
    try:
        with open_store(path) as store:
            chosen = [trace_row(store, name) for name in names] or trace_rows(store, every=True)
            found = [*check.pages(store), *check.content(store), *check.kept(store)]
            sound = not found
            for row in chosen:
                broken = list(check.trace_digests(store, row.trace))
                found += broken
                if sound and not broken:
                    found += check.coherence(read.load(store, row.trace))
    except StoreDamaged as error:
        message = error.message.removeprefix(f"{path}: ")
        return 0, [damage("file", message), *_lost(path)]
    if not sound:
        found += (each for each in _lost(path) if each not in found)
    return len(chosen), found


def _lost(path: Path) -> Iterator[Finding]:
    """What a damaged file has lost, by the names of what it was."""
    from replay.care.recover import survey
    from taxonomy.judgements.schema import migrations

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
        what = "unassigned rows"
        yield damage(format.count(losses.unplaced, "row"), what)
    if not losses.any:
        nothing_lost = "readable"
        yield Finding(
            severity="note",
            where="recordings, cached responses, tags and scores",
            what=nothing_lost,
        )


def _print_verified(found: Verified, *, as_json: bool) -> int:
    if as_json:
        print_json({"same": found.same, **structs.asdict(found)})
        return 0 if found.same else 1
    for place, value in _lines(found).items():
        if value is not None:
            click.echo(f"{place:<9} {format.one_line(value)}")
    if found.same:
        many = "same results" if found.others else "same result"
        click.echo(f"reproduced from the bundle alone: {many}")
        return 0
    for arm in found.arms:
        _print_differing(arm, f"arm {arm.edit}: " if found.others else "")
    return 1


def _print_differing(found: Verified, whose: str) -> None:
    """In what a result that was run again is another one."""
    if found.digest == found.found:
        return
    click.echo(format.one_line(f"{whose}reproduced from the bundle alone: {found.found}"))
    for place in found.differs[:_DIFFERENCES]:
        click.echo(format.one_line(f"{whose}differs: {place}"))
    more = len(found.differs) - _DIFFERENCES
    if more > 0:
        click.echo(format.one_line(f"{whose}differs: {format.count(more, 'more place')}"))


def _lines(found: Verified) -> dict[str, str | None]:
    """What was verified, a line each; None where there is nothing to say."""
    models = [found.model, *([found.edited_model] if found.edited_model else [])]
    refused = sum(arm.declined for arm in found.arms)
    declined = format.count(refused, "request")
    arms = {f"arm {place}": arm for place, arm in enumerate(found.others, 2)}
    return {
        "trace": f"{found.trace}  {found.title or ''}".rstrip(),
        "replay": found.kind,
        "edit": found.edit,
        "model": ", edited arm ".join(map(label, models)),
        "server": found.server or None,
        "samples": ", then ".join(map(str, found.levels)),
        "answers": str(found.answers),
        "declined": f"{declined}, as the result states" if refused else None,
        "digest": found.digest,
        **{place: f"{arm.edit}  {arm.digest}" for place, arm in arms.items()},
    }
