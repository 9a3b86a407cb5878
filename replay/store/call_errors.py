"""Which stored calls are errors: decided as a span is written, and anew where the rules changed.

A call that only its words show to have failed has the status of an error, so that every query, sum
and screen sees one. What its source said of it stands beside.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from replay import tool_errors
from replay.store.connection import Row, dicts, lenient
from replay.trace import AnySpan, Message, ModelCall, Observation, Response, ToolCall


def judged(span: AnySpan) -> Row:
    """The status of a span, by its words where the source does not say that it failed.

    `source_status` is what the source said then, `said_error` the words; both None where its own
    status stands.
    """
    if span.status != "error" and tool_errors.is_error(span):
        words = tool_errors.result_text(span)
        return {"status": "error", "source_status": span.status, "said_error": words}
    return {"status": span.status, "source_status": None, "said_error": None}


def as_recorded(row: Row) -> Row:
    """The status of a row as the source gave it; a row of an older database has no other."""
    return {"status": row.get("source_status") or row["status"]}


_CALLS = """
SELECT s.id, s.trace, s.kind, s.name, s.status, s.error, s.source_status, s.said_error,
  t.arguments, t.observation_block, m.agent, g.dialect, g.body
FROM span s LEFT JOIN tool_call t ON t.span = s.id LEFT JOIN model_call m ON m.span = s.id
LEFT JOIN message g ON g.id = coalesce(t.observation, m.response)
WHERE s.kind = 'tool' OR m.agent IS NOT NULL
"""


def judge_again(db: sqlite3.Connection) -> None:
    """Decide of every stored call anew whether it is an error; the sums follow.

    For a database that was written under other rules: a migration calls it whenever they change.
    """
    changed: list[tuple[Any, ...]] = []
    traces: set[int] = set()
    with lenient(db):
        for row in dicts(db.execute(_CALLS)):
            try:
                found = judged(_stored(row))
            except msgspec.DecodeError:  # damaged: `arc verify` names it
                continue
            if any(found[name] != row[name] for name in found):
                changed.append((*found.values(), row["id"]))
                traces.add(row["trace"])
    db.executemany(
        "UPDATE span SET (status, source_status, said_error) = (?, ?, ?) WHERE id = ?", changed
    )
    for statement in _SUMS.split(";\n\n"):
        db.executemany(statement, [(trace,) for trace in sorted(traces)])


_SUMS = """
UPDATE step SET errors = (
  SELECT count(*) FROM span s WHERE s.trace = step.trace AND s.step = step.step
    AND s.status = 'error' AND s.kind IN ('tool', 'model'))
WHERE trace = ?;

UPDATE trace SET errors = (
  SELECT count(*) FROM span s WHERE s.trace = trace.id
    AND s.status = 'error' AND s.kind IN ('tool', 'model'))
WHERE id = ?
"""
"""How many calls of each step, and of a trace, ended in an error: counted anew for a database that
was written by other rules."""


def _stored(row: Row) -> ToolCall | ModelCall:
    """What tells of a stored call whether it is an error."""
    own = {"id": "", "name": row["name"], "error": row["error"], **as_recorded(row)}
    message = None
    if row["body"] is not None:
        message = Message(dialect=row["dialect"], body=msgspec.json.decode(row["body"]))
    if row["kind"] == "model":
        return ModelCall(**own, agent=row["agent"], response=Response(message=message))
    given, block = row["arguments"], row["observation_block"]
    return ToolCall(
        **own,
        arguments=None if given is None else msgspec.json.decode(given),
        observation=None if message is None else Observation(message=message, block=block),
    )
