"""`arc db backup`, `export`, `import`, `encrypt`, `decrypt`, `rekey`, `scrub`: copies, portable
files of what a person made or paid for, keys, and today's rules for secrets.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import click
from msgspec import Struct

from arc_tui.cli import (
    ask_for_new_key,
    console,
    database_path,
    db_option,
    diagnose_new,
    json_option,
    open_store,
    print_json,
    print_table,
)
from arc_tui.ui import format
from replay import written
from replay.care import rewriting
from replay.care.export import Exported, Runs
from replay.care.export import export as write_export
from replay.care.merge import Merged, merge
from replay.care.rewriting import Rewritten
from replay.care.scrub.run import Scrubbed
from replay.care.scrub.run import scrub as apply_rules
from replay.edit.changes import Edit, SetSystem
from replay.edit.files import from_toml
from replay.errors import ArcError, NotFound
from replay.formats.source import Source
from replay.store import encryption
from taxonomy.judgements.care import EXPORTED, JUDGEMENTS


class BackupView(Struct, frozen=True, kw_only=True):
    """A copy: where it is, its size, and how many rows each table has."""

    path: str
    bytes: int
    rows: dict[str, int]


COUNTED = {
    "trace": "trace", "answer": "answer", "replay": "replay", "edit": "edit", "tag": "tag",
    "clearance": "clearance", "score": "score",
}  # fmt: skip
"""What a person asks of a copy: the table, and what one row of it is."""


def contents(rows: dict[str, int]) -> str:
    """How much there is of what a person recorded, paid for or said."""
    return ", ".join(format.count(rows.get(table, 0), name) for table, name in COUNTED.items())


def existing(db: Path | None) -> Path:
    """The database that was asked for. Raises NotFound where there is none."""
    path = database_path(db)
    if not path.exists():
        raise NotFound("database", str(path), hint="--db or ARC_DB names another")
    return path


@click.command()
@click.argument("path", required=False, type=click.Path(dir_okay=False, path_type=Path))
@json_option
@db_option
def backup(path: Path | None, as_json: bool, db: Path | None) -> int:
    """Copy the database to PATH, or to a name with the date beside it.

    Others may go on writing. The copy is private (0600), without what was deleted, and looked
    through before it gets its name; an existing file is never written over.
    """
    existing(db)
    with open_store(db) as store:
        made = store.backup(path)
    if as_json:
        print_json(BackupView(path=str(made.path), bytes=made.bytes, rows=made.rows))
        return 0
    click.echo(
        f"{format.one_line(str(made.path))}  {made.bytes / 1e6:.1f} MB: {contents(made.rows)}"
    )
    return 0


# --- portable files

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
        for line in _merged_lines(merged):
            click.echo(line)
    for line in _import_warnings(merged):
        click.echo(line, err=True)
    return 0 if merged.complete else _LEFT_OUT


def _merged_lines(merged: Merged) -> Iterator[str]:
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


# --- keys

From: TypeAlias = Literal["env", "keyring", "prompt"]

_PLAIN = "bundles, exports and what commands print are not encrypted"

key_from = click.option(
    "--key-from",
    "source",
    type=click.Choice(["env", "keyring", "prompt"]),
    help="Where the new key comes from; else a variable that is set, else you are asked.",
)


@click.command()
@key_from
@db_option
def encrypt(source: From | None, db: Path | None) -> int:
    """Encrypt the database, with a key from ARC_DB_KEY, a keyring, or typed.

    `keyring` makes a key and keeps it there. Needs the extra `crypt`. Whoever loses the key has
    lost the database.
    """
    file = database_path(db)
    if not file.exists():
        open_store(db).close()  # encrypted before anything stands in it
    rewriting.require(file, encrypted=False)
    key = _new_key(file, source, encryption.KEY, encryption.KEY_FILE)
    _say(rewriting.encrypt(file, key, _keeper(source, key)), "encrypted")
    click.echo(_PLAIN, err=True)
    return 0


@click.command()
@db_option
def decrypt(db: Path | None) -> int:
    """Make an encrypted database plain again."""
    file = _there(db)
    before = encryption.salt_of(file)
    _say(rewriting.decrypt(file), "plain")
    if before is not None:
        encryption.drop_from_keyring(before)
    return 0


@click.command()
@key_from
@db_option
def rekey(source: From | None, db: Path | None) -> int:
    """Give an encrypted database another key: from ARC_DB_NEW_KEY, a keyring, or typed.

    The old key is found as by every command.
    """
    file = _there(db)
    before = encryption.salt_of(file)
    rewriting.require(file, encrypted=True)
    key = _new_key(file, source, encryption.NEW_KEY, encryption.NEW_KEY_FILE)
    _say(rewriting.rekey(file, key, _keeper(source, key)), "encrypted with the new key")
    if before is not None:
        encryption.drop_from_keyring(before)
    return 0


def _there(db: Path | None) -> Path:
    file = database_path(db)
    if not file.exists():
        raise ArcError(f"{file}: there is no database", "name one with --db or ARC_DB")
    return file


def _new_key(file: Path, source: From | None, name: str, file_name: str) -> str:
    if source == "keyring":
        return secrets.token_urlsafe(32)
    found = encryption.given(name, file_name) if source != "prompt" else None
    if found is not None:
        return encryption.fit(found.key)
    if source == "env":
        raise ArcError(f"neither {name} nor {file_name} is set")
    return ask_for_new_key(file)


def _keeper(source: From | None, key: str) -> rewriting.Kept | None:
    if source != "keyring":
        return None
    return lambda salt: encryption.keep_in_keyring(salt, key)


def _say(done: Rewritten, how: str) -> None:
    rows = f"{format.count(done.rows, 'row')} of {format.count(done.tables, 'table')}"
    click.echo(f"{done.file}: {how}; {rows} compared, {format.file_size(done.bytes)}")
    if done.wiped is None:
        click.echo("the old file has another name too: its bytes were left there", err=True)
    elif done.wiped:
        click.echo(
            f"the old file's {format.file_size(done.wiped)} were overwritten; an SSD, a snapshot or"
            " a backup may still have them",
            err=True,
        )
    for each in done.left:
        click.echo(f"not encrypted: {format.one_line(str(each))}", err=True)


# --- secrets


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be masked and change nothing.")
@click.option(
    "--bisected",
    "versions",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A prompt or edit that was bisected and is no kept edit: its answers are found again."
    " May be repeated.",
)
@json_option
@db_option
def scrub(dry_run: bool, versions: tuple[Path, ...], as_json: bool, db: Path | None) -> int:
    """Mask by today's rules, and those of [redact] in the config, what is stored already.

    All texts of all tables, in one step: either everything or nothing is changed. Digests follow,
    so replays, tags and labels stay valid; then the old bytes are erased from the file and its log.
    There is no way back, and copies beside the database still hold the old texts.
    """
    existing(db)
    prompts = [_prompt(file) for file in versions]
    with open_store(db) as store:
        found = apply_rules(store, JUDGEMENTS, prompts=prompts, dry=dry_run)
        if found.done and found.masked:
            diagnose_new(store)
    if as_json:
        print_json(found)
        return 0
    _print(found, dry=dry_run)
    return 0


def _prompt(file: Path) -> Edit:
    text, name = written.from_file(file), written.called(file.stem)
    if file.suffix == ".toml":
        return from_toml(text, str(file), name)
    return Edit(name=name, changes=(SetSystem(text),))


def _print(found: Scrubbed, *, dry: bool) -> None:
    out = console()
    if found.masked:
        rows = [(each.rule, each.table, str(each.places)) for each in found.masked]
        print_table(out, ["rule", "table", "places"], sorted(rows))
    for line in _scrubbed_lines(found):
        out.print(line, soft_wrap=True)
    for line in _scrub_warnings(found, dry=dry):
        click.echo(line, err=True)


def _scrubbed_lines(found: Scrubbed) -> Iterable[str]:
    if not found.places:
        yield "nothing is to be masked" if not found.done else "nothing was to be masked"
    else:
        verb = "masked" if found.done else "to be masked"
        yield f"{verb}: {format.count(found.places, 'place')}"
    if found.merged:
        yield f"{format.count(found.merged, 'row')} of content read like others now: stored once"
    if found.rekeyed:
        many = format.count(found.rekeyed, "stored answer")
        yield f"{many} found again under what {_its(found.rekeyed)} now"
    if found.unfinished:
        yield f"{format.count(found.unfinished, 'unfinished import')} dropped"
    if found.erased:
        yield "the old bytes are not in the file or its log any more"


def _its(many: int) -> str:
    return "its request reads" if many == 1 else "their requests read"


def _scrub_warnings(found: Scrubbed, *, dry: bool) -> Iterable[str]:
    if found.untold:
        yield (
            f"{format.count(found.untold, 'stored answer')} (of judges, tests, searches) cannot be"
            " told by request: where that changed, it is asked again;"
            " --bisected FILE names a prompt that was bisected"
        )
    if found.copies:
        shown = ", ".join(format.one_line(each) for each in found.copies)
        yield f"files beside the database still hold the old texts, if they held them: {shown}"
    if found.tables:
        shown = ", ".join(format.one_line(each) for each in found.tables)
        yield f"tables of another program were not looked at: {shown}"
    if dry:
        yield "nothing was changed: without --dry-run it is"
