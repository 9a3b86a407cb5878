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
    examples,
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
        raise NotFound("database", str(path), hint="Try: another --db or ARC_DB")
    return path


@click.command(epilog=examples("arc db backup", "arc db backup before-upgrade.db"))
@click.argument("path", required=False, type=click.Path(dir_okay=False, path_type=Path))
@json_option
@db_option
def backup(path: Path | None, as_json: bool, db: Path | None) -> int:
    """Copy the database to PATH; by default to a dated name next to it.

    Works while other processes write. The copy is private (0600), contains no deleted data, and is
    checked before it gets its name. An existing file is never overwritten.
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
    "gold": "gold line", "stub": "stub", "supplement": "supplement", "attached": "attachment",
    "batch": "batch", "note": "note",
}  # fmt: skip
"""What records are called, in the order in which they are counted."""

_LEFT_OUT = 1
_NAMED = 5


@click.command(
    epilog=examples(
        "arc db export labels.jsonl --runs none", "arc db export everything.jsonl --runs all"
    )
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--runs",
    type=click.Choice(["missing", "all", "none"]),
    default="missing",
    show_default=True,
    help="Runs to export in full; missing: runs whose source file is not known to exist.",
)
@json_option
@db_option
def export(file: Path, runs: Runs, as_json: bool, db: Path | None) -> int:
    """Export to FILE what cannot be recreated from trace files; `arc db import` reads it.

    Tags, scores, saved edits, model responses, replays, stubs, gold, goals, held-out tasks; and
    runs whose source files may be gone. FILE is private (0600), masked like the database, and
    never encrypted.
    """
    path = existing(db)
    with open_store(db, before=True) as store:
        made = write_export(store, file, EXPORTED, runs=runs)
    if as_json:
        print_json(made)
    else:
        counts = {**made.records, "recording": made.recordings}
        words = _counts(counts) or "only what arc import can recreate"
        click.echo(f"{format.one_line(made.path)}  {format.file_size(made.bytes)}: {words}")
    for line in _export_warnings(made, encrypted=encryption.is_encrypted(path)):
        click.echo(line, err=True)
    return _LEFT_OUT if made.unreadable else 0


def _export_warnings(made: Exported, *, encrypted: bool) -> Iterator[str]:
    if encrypted:
        yield "the database is encrypted; this file is not"
    if made.unreadable:
        yield f"left out, damaged: {_counts(made.unreadable)}. Try: arc db verify"


@click.command(
    "import",
    epilog=examples("arc db import export.jsonl", "arc db import export.jsonl --db merged.db"),
)
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@json_option
@db_option
def import_(file: Path, as_json: bool, db: Path | None) -> int:
    """Add the contents of an export (`-`: standard input); existing data is not changed.

    All or nothing: an invalid file changes nothing. Data of a run that is not here yet is held
    until that run is imported.
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
        yield f"skipped, different ones already here: {_counts(merged.left)}"
    if merged.changed:
        runs = format.count(len(merged.changed), "run")
        yield f"{runs} changed since the export: {_named(merged.changed)}"
    if merged.other_key:
        yield (
            "the exported runs were masked with another key: cached responses with masked values"
            " do not match here. Try: arc db import FILE --db NEW.db, then arc import PATH"
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
    help="Source of the new key; by default a variable that is set, else a prompt.",
)


@click.command(epilog=examples("arc db encrypt", "arc db encrypt --key-from env"))
@key_from
@db_option
def encrypt(source: From | None, db: Path | None) -> int:
    """Encrypt the database, with a key from ARC_DB_KEY, a keyring, or typed.

    `keyring` generates a key and stores it in the keyring. Needs the extra `crypt`. Without the
    key, the database cannot be read.
    """
    file = database_path(db)
    if not file.exists():
        open_store(db).close()  # encrypted before anything stands in it
    rewriting.require(file, encrypted=False)
    key = _new_key(file, source, encryption.KEY, encryption.KEY_FILE)
    _say(rewriting.encrypt(file, key, _keeper(source, key)), "encrypted")
    click.echo(_PLAIN, err=True)
    return 0


@click.command(epilog=examples("arc db decrypt", "arc db decrypt --db data/demo.db"))
@db_option
def decrypt(db: Path | None) -> int:
    """Decrypt the database."""
    file = _there(db)
    before = encryption.salt_of(file)
    _say(rewriting.decrypt(file), "plain")
    if before is not None:
        encryption.drop_from_keyring(before)
    return 0


@click.command(epilog=examples("arc db rekey", "arc db rekey --key-from env"))
@key_from
@db_option
def rekey(source: From | None, db: Path | None) -> int:
    """Change the key of an encrypted database: from ARC_DB_NEW_KEY, a keyring, or typed.

    The old key comes from the usual place.
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
        raise ArcError(f"{file}: no database", "Try: --db FILE or ARC_DB")
    return file


def _new_key(file: Path, source: From | None, name: str, file_name: str) -> str:
    if source == "keyring":
        return secrets.token_urlsafe(32)
    found = encryption.given(name, file_name) if source != "prompt" else None
    if found is not None:
        return encryption.fit(found.key)
    if source == "env":
        raise ArcError(f"{name} and {file_name} not set")
    return ask_for_new_key(file)


def _keeper(source: From | None, key: str) -> rewriting.Kept | None:
    if source != "keyring":
        return None
    return lambda salt: encryption.keep_in_keyring(salt, key)


def _say(done: Rewritten, how: str) -> None:
    rows = f"{format.count(done.rows, 'row')} of {format.count(done.tables, 'table')}"
    click.echo(f"{done.file}: {how}; {rows} compared, {format.file_size(done.bytes)}")
    if done.wiped is None:
        click.echo("the old file has a second hard link: its bytes were not erased", err=True)
    elif done.wiped:
        click.echo(
            f"the old file's {format.file_size(done.wiped)} were overwritten; an SSD, a snapshot or"
            " a backup may still have them",
            err=True,
        )
    for each in done.left:
        click.echo(f"not encrypted: {format.one_line(str(each))}", err=True)


# --- secrets


@click.command(epilog=examples("arc db scrub --dry-run", "arc db scrub --bisected prompt.md"))
@click.option("--dry-run", is_flag=True, help="Show what would be masked; change nothing.")
@click.option(
    "--bisected",
    "versions",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A prompt or edit that was bisected and is not saved: keeps its cached responses valid."
    " Repeatable.",
)
@json_option
@db_option
def scrub(dry_run: bool, versions: tuple[Path, ...], as_json: bool, db: Path | None) -> int:
    """Mask stored data by the current rules, including [redact] in the config.

    Covers all texts of all tables; all or nothing. Digests are updated, so replays, tags and labels
    stay valid; then the old bytes are erased from the file and its log. This cannot be undone.
    Copies next to the database keep the old texts.
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
        yield "nothing to mask"
    else:
        verb = "masked" if found.done else "to be masked"
        yield f"{verb}: {format.count(found.places, 'place')}"
    if found.merged:
        yield f"{format.count(found.merged, 'row')} now equal to another: stored once"
    if found.rekeyed:
        many = format.count(found.rekeyed, "cached response")
        yield f"{many} stored under the masked text of {_its(found.rekeyed)}"
    if found.unfinished:
        yield f"{format.count(found.unfinished, 'unfinished import')} dropped"
    if found.erased:
        yield "the old bytes were erased from the file and its log"


def _its(many: int) -> str:
    return "its request" if many == 1 else "their requests"


def _scrub_warnings(found: Scrubbed, *, dry: bool) -> Iterable[str]:
    if found.untold:
        yield (
            f"{format.count(found.untold, 'cached response')} (of judges, tests, bisections) cannot"
            " be matched to a request: where that changed, the call is repeated."
            " Try: --bisected FILE, for a prompt that was bisected"
        )
    if found.copies:
        shown = ", ".join(format.one_line(each) for each in found.copies)
        yield f"files next to the database may contain the old texts: {shown}"
    if found.tables:
        shown = ", ".join(format.one_line(each) for each in found.tables)
        yield f"tables of another program, not checked: {shown}"
    if dry:
        yield "Nothing was changed. Run without --dry-run to mask"
