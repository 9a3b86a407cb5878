"""The rows of opencode's database as the values that its other places hold.

Ids, parents and times stand in columns, everything else is JSON in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replay.errors import BadTrace
from replay.formats.fields import known, obj, word
from replay.formats.intake import Source, Tally, decode
from replay.formats.onfile import plain_file
from replay.formats.sqlite import database
from replay.formats.sqlite.database import MAGIC, Row
from replay.trace import Json

_TABLES = ("message", "part", "session")
_SESSION = (
    "id", "parent_id", "project_id", "directory", "title", "version", "cost", "time_created",
    "time_updated",
)  # fmt: skip


class Database:
    """An open database. Its methods raise BadTrace where it turns out to be broken."""

    def __init__(self, tables: database.Database, display: str, tally: Tally) -> None:
        self._tables, self._display, self._tally = tables, display, tally

    def sessions(self) -> list[dict[str, Json]]:
        """What is known of each session, oldest first."""
        rows = self._tables.rows("session", _SESSION, order=("time_created", "id"))
        return [_session(row) for row in rows]

    def messages(self, session: str) -> Iterator[tuple[dict[str, Json], list[dict[str, Json]]]]:
        """(message, parts) of a session in their order."""
        order = ("time_created", "id")
        for row in self._tables.rows("message", ("id", "data"), order=order, session_id=session):
            name = word(row.get("id")) or ""
            parts = self._tables.rows("part", ("id", "data"), order=("id",), message_id=name)
            yield self._value(row, "message"), [self._value(part, "part") for part in parts]

    def _value(self, row: Row, table: str) -> dict[str, Json]:
        """The JSON of a row with the id that stands in its column."""
        data, name = row.get("data"), word(row.get("id"))
        raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
        try:
            value = decode(raw if isinstance(raw, bytes) else b"", self._display, f"{table} {name}")
        except BadTrace as error:
            self._tally.problem(error.where, error.why)
            value = {}
        return {**obj(value), "id": name}


@contextmanager
def opened(source: Source, tally: Tally) -> Iterator[Database]:
    """The database of a source. Raises BadTrace where it is none of opencode's."""
    with plain_file(source, MAGIC) as path, database.opened(path, source.display) as tables:
        for table in _TABLES:
            if table not in tables.tables:
                raise BadTrace(source.display, "", f"has no table {table!r} of opencode's")
        yield Database(tables, source.display, tally)


def _session(row: Row) -> dict[str, Json]:
    return known(
        id=word(row.get("id")),
        parentID=word(row.get("parent_id")),
        projectID=word(row.get("project_id")),
        directory=word(row.get("directory")),
        title=word(row.get("title")),
        version=word(row.get("version")),
        cost=row.get("cost"),
        time=known(created=row.get("time_created"), updated=row.get("time_updated")),
    )
