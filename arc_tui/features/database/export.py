"""`arc db export` and `arc db import`: what a person made or paid for, as a portable file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from arc_tui.cli import db_option, diagnose_new, json_option, open_store, print_json
from arc_tui.features.database.command import existing
from arc_tui.ui import format
from replay.care.export import Exported, Runs
from replay.care.export import export as write_export
from replay.care.merge import Merged, merge
from replay.formats.source import Source
from replay.store import encryption
from taxonomy.judgements.care import EXPORTED

_NOUNS = {
    "recording": "run", "tag": "tag", "clean_mark": "clean mark", "score": "score",
    "suggestion": "suggestion", "edit": "saved edit", "answer": "answer", "replay": "replay",
    "stub": "stub", "supplement": "supplement", "attached": "attachment", "batch": "batch",
    "note": "note",
}  # fmt: skip
"""What records are called, in the order in which they are counted."""

_LEFT_OUT = 3
_NAMED = 5


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--runs",
    type=click.Choice(["missing", "all", "none"]),
    default="missing",
    show_default=True,
    help="Runs to write whole; missing: those of which no file is known to be there.",
)
@json_option
@db_option
def export(file: Path, runs: Runs, as_json: bool, db: Path | None) -> int:
    """Write what cannot be made again from trace files to FILE: `arc db import` reads it.

    Tags, scores, saved edits, answers of models, replays, stubs, goals, held-out tasks; and runs
    whose files may be gone. FILE is private (0600), masked as the database is, and never encrypted.
    """
    path = existing(db)
    with open_store(db, before=True) as store:
        made = write_export(store, file, EXPORTED, runs=runs)
    if as_json:
        print_json(made)
    else:
        counts = {**made.records, "recording": made.recordings}
        words = _counts(counts) or "nothing that imports would not make again"
        click.echo(f"{format.one_line(made.path)}  {format.file_size(made.bytes)}: {words}")
    for line in _export_warnings(made, encrypted=encryption.is_encrypted(path)):
        click.echo(line, err=True)
    return _LEFT_OUT if made.unreadable else 0


def _export_warnings(made: Exported, *, encrypted: bool) -> Iterator[str]:
    if encrypted:
        yield "the database is encrypted; this file is not"
    if made.unreadable:
        yield f"left out, damaged: {_counts(made.unreadable)}. Try: arc db verify"


@click.command("import")
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@json_option
@db_option
def import_(file: Path, as_json: bool, db: Path | None) -> int:
    """Add what stands in an export (`-` is standard input); what is here stays as it is.

    All of it or, where the file is wrong, nothing. What belongs to a run that is not here waits
    until that is imported.
    """
    source = Source.stdin() if file == Path("-") else Source(file)
    with open_store(db) as store:
        merged = merge(store, source, EXPORTED)
        diagnose_new(store)
    if as_json:
        print_json(merged)
    else:
        for line in _lines(merged):
            click.echo(line)
    for line in _import_warnings(merged):
        click.echo(line, err=True)
    return 0 if merged.complete else _LEFT_OUT


def _lines(merged: Merged) -> Iterator[str]:
    yield f"added: {_counts(merged.added) or 'nothing'}"
    if merged.same:
        yield f"already here: {_counts(merged.same)}"
    if merged.waiting:
        runs = format.count(len(merged.missing), "run")
        yield (
            f"waiting: {_counts(merged.waiting)} of {runs} not imported yet:"
            f" {_named(merged.missing)}. Try: arc import PATH"
        )


def _import_warnings(merged: Merged) -> Iterator[str]:
    if merged.left:
        yield f"left out, other ones are here: {_counts(merged.left)}"
    if merged.changed:
        runs = format.count(len(merged.changed), "run")
        yield f"{runs} with other content than when exported: {_named(merged.changed)}"
    if merged.other_key:
        yield (
            "the exported runs were masked with another key: answers to requests with masked values"
            " are not found here. Try: arc db import into a new database, then arc import"
        )


def _counts(records: Mapping[str, int]) -> str:
    plurals = {"batch": "batches"}
    return ", ".join(
        format.count(records[kind], noun, plurals.get(kind))
        for kind, noun in _NOUNS.items()
        if records.get(kind)
    )


def _named(runs: Iterable[str]) -> str:
    names = [run[:8] for run in runs]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
