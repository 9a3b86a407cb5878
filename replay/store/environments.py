"""The environment of each run: tools offered, models, and the shape of what tools returned.

Made when a trace is finished, out of its rows, so that nothing stands in it that was not masked.
It is content-addressed: runs of one environment share a row. What pins a run else are its labels.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from functools import lru_cache

import msgspec

from replay import digests
from replay.messages import observed
from replay.pins import MOST_PATHS, Environment, Shape, add_shape
from replay.trace import Message, Observation, Tool

TABLE = """
CREATE TABLE environment (
  digest TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT"""
COLUMN = "ALTER TABLE trace ADD COLUMN environment TEXT"


def fill(db: sqlite3.Connection, rows: Iterable[int]) -> None:
    """Make the environment of these traces anew."""
    for row in rows:
        body = msgspec.json.encode(environment(db, row), order="deterministic")
        digest = digests.digest("environment", body)
        db.execute("INSERT OR IGNORE INTO environment VALUES (?, ?)", (digest, body.decode()))
        db.execute("UPDATE trace SET environment = ? WHERE id = ?", (digest, row))


def forget_unused(db: sqlite3.Connection) -> None:
    """Drop environments that no trace has any more."""
    db.execute(
        "DELETE FROM environment WHERE digest NOT IN"
        " (SELECT environment FROM trace WHERE environment IS NOT NULL)"
    )


def environment(db: sqlite3.Connection, row: int) -> Environment:
    """What the rows of a trace say of its environment."""
    asked, answered = set[str](), set[str]()
    toolsets = set[int]()
    for model, response_model, toolset in db.execute(
        "SELECT DISTINCT m.model, m.response_model, m.toolset"
        " FROM span s JOIN model_call m ON m.span = s.id WHERE s.trace = ? AND s.kind = 'model'",
        (row,),
    ):
        asked.add(model)
        answered.add(response_model)
        toolsets.add(toolset)
    return Environment(
        tools=_tools(db, row, toolsets - {None}),
        models=tuple(sorted(filter(None, answered))),
        asked=tuple(sorted(filter(None, asked))),
        results=_results(db, row),
    )


def _tools(
    db: sqlite3.Connection, row: int, toolsets: Collection[int]
) -> dict[str, tuple[str, ...]] | None:
    found: dict[str, set[str]] = {}
    for (names,) in db.execute(
        "SELECT json_extract(detail, '$.extra.tool_names') FROM span WHERE trace = ?"
        " AND kind = 'agent' AND instr(detail, '\"tool_names\"') > 0",
        (row,),
    ):
        for name in msgspec.json.decode(names) if names else ():
            found.setdefault(str(name), set())
    for toolset in toolsets:
        (body,) = db.execute("SELECT body FROM toolset WHERE id = ?", (toolset,)).fetchone()
        for name, digest in _definitions(body):
            found.setdefault(name, set()).add(digest)
    if not found and not toolsets:
        return None
    return {name: tuple(sorted(each)) for name, each in found.items()}


def tool_digest(tool: Tool) -> str:
    """Identity of one tool's definition: name, description, schema."""
    return digests.digest("tool", digests.encode_seen(digests.tool_value(tool)))


@lru_cache(maxsize=64)
def _definitions(body: str) -> tuple[tuple[str, str], ...]:
    tools = msgspec.json.decode(body, type=tuple[Tool, ...])
    return tuple((tool.name, tool_digest(tool)) for tool in tools)


def _results(db: sqlite3.Connection, row: int) -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, Shape] = {}
    last: tuple[int, Message] | None = None  # blocks of one message mostly follow each other
    for name, message, block, dialect, body in db.execute(
        "SELECT s.name, m.id, t.observation_block, m.dialect, m.body FROM span s"
        " JOIN tool_call t ON t.span = s.id JOIN message m ON m.id = t.observation"
        " WHERE s.trace = ? AND s.kind = 'tool' AND s.status <> 'error' ORDER BY s.seq",
        (row,),
    ):
        if last is None or last[0] != message:
            last = message, Message(dialect=dialect, body=msgspec.json.decode(body))
        seen = observed(Observation(message=last[1], block=block))
        add_shape(found.setdefault(name, {}), seen.text)
    return {
        name: {path: tuple(sorted(kinds)) for path, kinds in shape.items()}
        if len(shape) <= MOST_PATHS
        else {}
        for name, shape in found.items()
    }


# --- what is read


def environments(
    db: sqlite3.Connection, traces: Collection[str]
) -> dict[str, tuple[str, Environment]]:
    """(digest, environment) of these traces."""
    found = db.execute(
        "SELECT t.key, e.digest, e.body FROM trace t JOIN environment e ON e.digest = t.environment"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(sorted(traces)).decode(),),
    ).fetchall()
    known: dict[str, Environment] = {}
    for _, digest, body in found:
        if digest not in known:
            known[digest] = msgspec.json.decode(body, type=Environment)
    return {key: (digest, known[digest]) for key, digest, _ in found}


def tool_definitions(db: sqlite3.Connection, wanted: Collection[str]) -> dict[str, Tool]:
    """The tools that have these digests, as far as a toolset still holds them."""
    return {
        digest: tool
        for (body,) in db.execute("SELECT body FROM toolset")
        for tool in msgspec.json.decode(body, type=tuple[Tool, ...])
        if (digest := tool_digest(tool)) in wanted
    }
