"""SQLite files that other tools keep their runs in, read where they lie: Phoenix's `phoenix.db`,
MLflow's `mlflow.db`, the `logs.db` of `llm`, goose's `sessions.db`, `data.sqlite3` of Amazon Q and
Kiro, Cursor's `state.vscdb`.

The file is opened read-only (`database`); whose it is, its tables say; one module a tool reads its
traces (`openinference.tables`, `mlflow`, `llm_logs`, `goose`, `amazon_q`, `cursor`). A trace is
the same one, under the same id, as in the tool's own export.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from replay.errors import BadTrace
from replay.formats import amazon_q, cursor, goose, llm_logs, mlflow
from replay.formats.database import MAGIC, Database, opened, tables
from replay.formats.openinference import tables as phoenix
from replay.formats.source import Head, Source, Tally, plain_file
from replay.trace import Batch, Level

NAME = "sqlite"
TITLE = "SQLite files of Phoenix, MLflow, llm, goose, Amazon Q, Kiro CLI and Cursor"
FILES = "phoenix.db, mlflow.db, logs.db, sessions.db, data.sqlite3, state.vscdb"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "whatever the tool's own export leaves out"
VERIFIED = (
    "real files; for goose, Amazon Q and Kiro, their source code; for Cursor, public readers of it"
)

_SHOWN = 8


class _Tool(Protocol):
    """What a module of this package offers: the tables it is known by, and its traces."""

    TABLES: frozenset[str]

    def traces(self, database: Database, path: str, tally: Tally) -> Iterator[Batch]: ...


_TOOLS: tuple[_Tool, ...] = (phoenix, mlflow, llm_logs, goose, amazon_q, cursor)
_OLD = ((amazon_q.OLD_TABLES, amazon_q),)
"""Tables that a tool had before."""


def sniff(head: Head) -> bool:
    """A database is a tool's by its tables."""
    found = tables(head)
    return found is not None and _tool(found) is not None


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The traces of the tool whose file it is. Raises BadTrace where it is none's."""
    with plain_file(source, MAGIC) as path, opened(path, source.display) as database:
        before = path.stat()
        tool = _tool(database.tables)
        if tool is None:
            raise BadTrace(source.display, "", _whose(database.tables))
        found = 0
        for batch in tool.traces(database, source.display, tally):
            found += 1
            yield batch
        now = path.stat()
        if (now.st_mtime_ns, now.st_size) != (before.st_mtime_ns, before.st_size):
            tally.problem("file", "was written to while it was read. Try: import it again")
    if not found:
        raise BadTrace(source.display, "", "contains no run with a model call")


def _tool(tables: Collection[str]) -> _Tool | None:
    known: list[tuple[Collection[str], _Tool]] = [(tool.TABLES, tool) for tool in _TOOLS]
    return next((tool for wanted, tool in (*known, *_OLD) if {*tables} >= {*wanted}), None)


def _whose(tables: Collection[str]) -> str:
    shown = ", ".join(sorted(tables)[:_SHOWN]) + (", …" if len(tables) > _SHOWN else "")
    return f"is an SQLite database of an unknown tool (its tables: {shown or 'none'})"
