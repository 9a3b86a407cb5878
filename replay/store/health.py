"""What a database says of itself: its size, its mode, whether its pages hold together."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replay.errors import StoreUnusable
from replay.store.check import Finding, damage
from replay.store.handle import Store
from replay.store.trouble import database_errors


class Health(Struct, frozen=True, kw_only=True):
    """`damage` are the first sentences of the quick check, () for none.

    `migrations` are those applied, as `set/name`, oldest first. `batches` were sent and not
    fetched yet.
    """

    damage: tuple[str, ...]
    journal: str
    migrations: tuple[str, ...]
    traces: int
    answers: int
    replays: int
    batches: int


MOST_DAMAGE = 5


def health(store: Store) -> Health:
    """Look through the whole file once.

    Raises StoreUnusable where it is too broken to be looked through.
    """
    try:
        return _looked_through(store)
    except database_errors() as error:
        raise StoreUnusable(
            f"{store.path}: is damaged: {error}",
            "`arc verify` says what is lost, `arc db recover` saves the rest",
        ) from error


def pages(store: Store) -> Iterator[Finding]:
    """The first things that SQLite finds wrong with the pages of a file, and its indices.

    Raises an error of SQLite where it gives up.
    """
    for (said,) in store.db.execute(f"PRAGMA integrity_check({MOST_DAMAGE})").fetchall():
        if said != "ok":
            yield damage("file", " ".join(said.split()))


def _looked_through(store: Store) -> Health:
    said = store.db.execute(f"PRAGMA quick_check({MOST_DAMAGE})").fetchall()
    applied = store.db.execute(
        'SELECT migration_set, name FROM "_sqlite_migrations" ORDER BY applied_at, name'
    )
    return Health(
        damage=tuple(row[0] for row in said if row[0] != "ok"),
        journal=str(store.db.execute("PRAGMA journal_mode").fetchone()[0]),
        migrations=tuple(f"{row[0]}/{row[1]}" for row in applied),
        traces=_count(store, "SELECT count(*) FROM trace WHERE complete"),
        answers=_count(store, "SELECT count(*) FROM answer"),
        replays=_count(store, "SELECT count(*) FROM replay"),
        batches=_count(store, "SELECT count(*) FROM batch WHERE NOT fetched"),
    )


def _count(store: Store, sql: str) -> int:
    return int(store.db.execute(sql).fetchone()[0])
