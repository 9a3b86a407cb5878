"""Small values by name that are neither tape nor judgement: what is remembered between commands."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from replay.store.handle import Store

T = TypeVar("T", bound=msgspec.Struct)


def keep(store: Store, name: str, value: msgspec.Struct) -> None:
    """Remember a value under a name, in place of what was there; its secrets are masked."""
    body = msgspec.json.encode(store.redactor.value(msgspec.to_builtins(value)))
    with store.writing() as db:
        db.execute(
            "INSERT INTO setting (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, body.decode()),
        )


def found(store: Store, prefix: str, shape: type[T]) -> list[T]:
    """The values whose names begin so, in the order of their names.

    One that another version wrote in another shape is left out.
    """
    rows = store.db.execute(
        "SELECT value FROM setting WHERE substr(name, 1, length(?)) = ? ORDER BY name",
        (prefix, prefix),
    )
    values = []
    for (body,) in rows.fetchall():
        try:
            values.append(msgspec.json.decode(body, type=shape))
        except msgspec.DecodeError:
            continue
    return values
