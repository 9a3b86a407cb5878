"""`arc db encrypt`, `decrypt`, `rekey`: may the file be read without a key?"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Literal, TypeAlias

import click

from arc_tui import format
from arc_tui.cli.common import db_option, open_store
from arc_tui.cli.db.prune import size
from arc_tui.cli.unlocking import ask_for_new_key
from arc_tui.places import database
from replay.errors import ArcError
from replay.store.cipher import crypt, keys, rewriting
from replay.store.cipher.rewriting import Rewritten

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
    file = _file(db)
    if not file.exists():
        open_store(db).close()  # encrypted before anything stands in it
    rewriting.require(file, encrypted=False)
    key = _new_key(file, source, keys.KEY, keys.KEY_FILE)
    _say(rewriting.encrypt(file, key, _keeper(source, key)), "encrypted")
    click.echo(_PLAIN, err=True)
    return 0


@click.command()
@db_option
def decrypt(db: Path | None) -> int:
    """Make an encrypted database plain again."""
    file = _there(db)
    before = crypt.salt_of(file)
    _say(rewriting.decrypt(file), "plain")
    if before is not None:
        keys.drop_from_keyring(before)
    return 0


@click.command()
@key_from
@db_option
def rekey(source: From | None, db: Path | None) -> int:
    """Give an encrypted database another key: from ARC_DB_NEW_KEY, a keyring, or typed.

    The old key is found as by every command.
    """
    file = _there(db)
    before = crypt.salt_of(file)
    rewriting.require(file, encrypted=True)
    key = _new_key(file, source, keys.NEW_KEY, keys.NEW_KEY_FILE)
    _say(rewriting.rekey(file, key, _keeper(source, key)), "encrypted with the new key")
    if before is not None:
        keys.drop_from_keyring(before)
    return 0


def _file(db: Path | None) -> Path:
    return database(db or click.get_current_context().find_root().obj)


def _there(db: Path | None) -> Path:
    file = _file(db)
    if not file.exists():
        raise ArcError(f"{file}: there is no database", "name one with --db or ARC_DB")
    return file


def _new_key(file: Path, source: From | None, name: str, file_name: str) -> str:
    if source == "keyring":
        return secrets.token_urlsafe(32)
    found = keys.given(name, file_name) if source != "prompt" else None
    if found is not None:
        return keys.fit(found.key)
    if source == "env":
        raise ArcError(f"neither {name} nor {file_name} is set")
    return ask_for_new_key(file)


def _keeper(source: From | None, key: str) -> rewriting.Kept | None:
    if source != "keyring":
        return None
    return lambda salt: keys.keep_in_keyring(salt, key)


def _say(done: Rewritten, how: str) -> None:
    rows = f"{format.count(done.rows, 'row')} of {format.count(done.tables, 'table')}"
    click.echo(f"{done.file}: {how}; {rows} compared, {size(done.bytes)}")
    if done.wiped is None:
        click.echo("the old file has another name too: its bytes were left there", err=True)
    elif done.wiped:
        click.echo(
            f"the old file's {size(done.wiped)} were overwritten; an SSD, a snapshot or a backup"
            " may still have them",
            err=True,
        )
    for each in done.left:
        click.echo(f"not encrypted: {format.one_line(str(each))}", err=True)
