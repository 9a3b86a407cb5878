"""`arc db recover`: what can still be read of a damaged database, into a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct

from arc_tui import format
from arc_tui.cli.common import db_option, diagnose_new, json_option, print_json
from arc_tui.cli.db.backup import existing, told
from replay.store import Store
from replay.store.beside import name
from replay.store.rescue.recover import Losses, Recovered
from replay.store.rescue.recover import recover as save
from replay.store.rescue.salvage import Lost
from replay.store.rows import step_rows
from taxonomy import ledger
from taxonomy.classes import FailureClass
from taxonomy.ledger import Clearance, Tag, migrations, open_ledger


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


@click.command()
@click.option("--into", type=click.Path(dir_okay=False, path_type=Path),
              help="The new file; else `<name>.recovered.db` beside the damaged one.")  # fmt: skip
@json_option
@db_option
def recover(into: Path | None, as_json: bool, db: Path | None) -> int:
    """Save what can still be read of a damaged database into a new one, and say what is lost.

    The damaged file is only read. A trace that is not all there says so among its problems;
    importing its source again completes it. Exit code 1: something is lost.
    """
    path = existing(db)
    into = into or path.with_name(f"{path.stem}.recovered{path.suffix}")
    done = save(path, into, migrations, follows=follows, without=("diagnosis",))
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
    return lost.table == "diagnosis" or lost.known.get("source") in ("rule", "import")


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
            ledger.clear(store, Clearance(trace=trace, by=by))
            yield f"clearance of trace {trace[:8]} by {by}"
        elif each.table == "tag":
            tag = _tag(store, trace, by, given.get("span"), given.get("class"))
            if tag is not None:
                ledger.tag(store, tag)
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
        click.echo(f"kept without its note: {format.one_line(words)}")
    traces = done.whole + len(losses.traces)
    click.echo(
        f"{format.one_line(str(done.path))}: {told({'trace': traces, **done.rows})};"
        f" {done.whole} of {format.count(traces, 'trace')} whole"
    )


def _gone(losses: Losses) -> Iterator[str]:
    for key in losses.gone:
        yield f"trace {key[:8]}"
    yield from map(lost_row, losses.rows)
    if losses.unplaced:
        yield f"{format.count(losses.unplaced, 'row')} that nothing tells the place of"
