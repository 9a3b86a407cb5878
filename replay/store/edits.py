"""Edits by their content: an edit is stored and named, never the edited prompt alone."""

from __future__ import annotations

from difflib import get_close_matches

import msgspec
from msgspec import Struct, structs

from replay import canon
from replay.edit import Change, Edit
from replay.errors import ArcError, BadEdit, NotFound
from replay.store.handle import Store, now_ns

_SHORT = 8
"""Characters of a digest, after the name of its algorithm, that a list shows."""


class KeptEdit(Struct, frozen=True, kw_only=True):
    """A stored edit, for a list. `replays` counts the kept replays that used it."""

    name: str
    digest: str
    changes: tuple[Change, ...]
    thread: str | None
    added_ns: int
    replays: int

    @property
    def short(self) -> str:
        return short(self.digest)

    @property
    def edit(self) -> Edit:
        return Edit(name=self.name, changes=self.changes, thread=self.thread)


def short(digest: str) -> str:
    """The beginning of a digest, as lists show it and `find` takes it."""
    return digest.partition(":")[2][:_SHORT]


def save(store: Store, edit: Edit) -> Edit:
    """Keep an edit and return it as kept: its secrets masked, under the name it first had."""
    masked = msgspec.convert(store.redactor.value(msgspec.to_builtins(edit)), Edit)
    digest = masked.digest
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO edit VALUES (?, ?, ?, ?)",
            (digest, masked.name, _body(masked), now_ns()),
        )
    return find(store, digest)


def find(store: Store, name: str) -> Edit:
    """The edit of that name, digest, or beginning of a digest, with its algorithm or without.

    A name goes before a beginning of a digest. Raises NotFound where there is none, ArcError
    with their digests where there are several.
    """
    found = _named(store, name) or _begun(store, name)
    if len(found) > 1:
        digests = ", ".join(short(digest) for digest in found)
        raise ArcError(f"{name!r} means {len(found)} edits", f"say which: {digests}")
    if not found:
        near = get_close_matches(name, [each for each, _ in names(store)])
        raise NotFound("edit", name, near, hint="`arc edits` lists those that are kept")
    return next(iter(found.values()))


def _named(store: Store, name: str) -> dict[str, Edit]:
    rows = store.db.execute(
        "SELECT digest, body FROM edit WHERE digest = ? OR name = ? ORDER BY digest", (name, name)
    )
    return {row[0]: msgspec.json.decode(row[1], type=Edit) for row in rows}


def _begun(store: Store, beginning: str) -> dict[str, Edit]:
    if not beginning:
        return {}
    rows = store.db.execute(
        "SELECT digest, body FROM edit WHERE substr(digest, 1, ?) = ?"
        " OR substr(digest, instr(digest, ':') + 1, ?) = ? ORDER BY digest",
        (len(beginning), beginning, len(beginning), beginning),
    )
    return {row[0]: msgspec.json.decode(row[1], type=Edit) for row in rows}


def names(store: Store) -> list[tuple[str, str]]:
    """(name, digest) of every edit, the latest first."""
    return [
        (row[0], row[1])
        for row in store.db.execute("SELECT name, digest FROM edit ORDER BY added_ns DESC, digest")
    ]


def listed(store: Store) -> list[KeptEdit]:
    """Every edit with how often it was tried, the latest first."""
    rows = store.db.execute(
        "SELECT digest, body, added_ns,"
        " (SELECT count(*) FROM replay WHERE replay.edit = edit.digest)"
        " FROM edit ORDER BY added_ns DESC, digest"
    )
    return [_kept(*row) for row in rows]


def _kept(digest: str, body: str, added_ns: int, replays: int) -> KeptEdit:
    edit = msgspec.json.decode(body, type=Edit)
    return KeptEdit(
        name=edit.name,
        digest=digest,
        changes=edit.changes,
        thread=edit.thread,
        added_ns=added_ns,
        replays=replays,
    )


def rename(store: Store, digest: str, name: str) -> Edit:
    """The edit of that digest under another name; what it changes, and its digest, stay.

    Raises NotFound where there is none, BadEdit for a blank name.
    """
    if not name.strip():
        raise BadEdit("an edit needs a name")
    with store.writing() as db:
        row = db.execute("SELECT body FROM edit WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise NotFound("edit", digest)
        edit = msgspec.json.decode(row[0], type=Edit)
        renamed = structs.replace(edit, name=store.redactor.value(name))
        db.execute(
            "UPDATE edit SET name = ?, body = ? WHERE digest = ?",
            (renamed.name, _body(renamed), digest),
        )
    return renamed


def _body(edit: Edit) -> str:
    return canon.encode(msgspec.to_builtins(edit)).decode()
