"""Edits by their content: an edit is stored and named, never the edited prompt alone."""

from __future__ import annotations

import msgspec

from replay import canon
from replay.edit import Edit
from replay.errors import NotFound
from replay.store.handle import Store, now_ns


def save(store: Store, edit: Edit) -> Edit:
    """Keep an edit and return it as kept: its secrets masked, under the name it first had."""
    masked = msgspec.convert(store.redactor.value(msgspec.to_builtins(edit)), Edit)
    digest = masked.digest
    body = canon.encode(msgspec.to_builtins(masked)).decode()
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO edit VALUES (?, ?, ?, ?)", (digest, masked.name, body, now_ns())
        )
    return find(store, digest)


def find(store: Store, name: str) -> Edit:
    """The edit of that digest or name. Raises NotFound where there is none, or several."""
    rows = store.db.execute(
        "SELECT digest, body FROM edit WHERE digest = ? OR name = ?", (name, name)
    ).fetchall()
    if len(rows) != 1:
        raise NotFound("edit", name, [row[0] for row in rows])
    return msgspec.json.decode(rows[0][1], type=Edit)


def names(store: Store) -> list[tuple[str, str]]:
    """(name, digest) of every edit, the latest first."""
    return [
        (row[0], row[1])
        for row in store.db.execute("SELECT name, digest FROM edit ORDER BY added_ns DESC, digest")
    ]
