"""Which steps of a trace say something? Over everything the store holds of it.

A text counts for the step that said it, called with it or got it back; a prompt or a user's
message for the first step that was shown it.
"""

from __future__ import annotations

import msgspec

from replay.messages import calls, content_text, text, thinking
from replay.store.handle import Store
from replay.trace import Message

_SAID = """
SELECT s.step, g.id FROM span s
JOIN model_call m ON m.span = s.id JOIN message g ON g.id = m.response
WHERE s.trace = :trace AND s.step IS NOT NULL AND g.body LIKE :like ESCAPE '\\'
UNION ALL
SELECT s.step, g.id FROM span s
JOIN tool_call t ON t.span = s.id JOIN message g ON g.id = t.observation
WHERE s.trace = :trace AND s.step IS NOT NULL AND g.body LIKE :like ESCAPE '\\'
"""

_CALLED = """
SELECT s.step FROM span s JOIN tool_call t ON t.span = s.id
WHERE s.trace = :trace AND s.step IS NOT NULL
  AND (t.arguments LIKE :like ESCAPE '\\' OR t.arguments_raw LIKE :like ESCAPE '\\'
    OR s.name LIKE :like ESCAPE '\\' OR s.error LIKE :like ESCAPE '\\')
"""

_SYSTEM = """
SELECT min(s.step), g.id FROM span s
JOIN model_call m ON m.span = s.id JOIN message g ON g.id = m.system
WHERE s.trace = :trace AND g.body LIKE :like ESCAPE '\\' GROUP BY g.id
"""

_CHAIN = """
WITH RECURSIVE node(id) AS (
  SELECT m.context FROM span s JOIN model_call m ON m.span = s.id
  WHERE s.trace = :trace AND m.context IS NOT NULL
  UNION
  SELECT c.parent FROM context c JOIN node ON c.id = node.id WHERE c.parent IS NOT NULL)
SELECT c.id, c.parent, g.id, g.body LIKE :like ESCAPE '\\'
FROM node JOIN context c ON c.id = node.id JOIN message g ON g.id = c.message
"""

_CONTEXTS = """
SELECT s.step, m.context FROM span s JOIN model_call m ON m.span = s.id
WHERE s.trace = :trace AND s.step IS NOT NULL AND m.context IS NOT NULL ORDER BY s.step
"""


def steps_saying(store: Store, trace: str, wanted: str) -> frozenset[int]:
    """The steps of a trace in whose text `wanted` occurs, case aside."""
    row = store.db.execute("SELECT id FROM trace WHERE key = ? AND complete", (trace,)).fetchone()
    if row is None or not wanted:
        return frozenset()
    given = {"trace": row[0], "like": _like(wanted)}
    said = [(step, message) for step, message in store.db.execute(_SAID, given)]
    told = [(step, message) for step, message in store.db.execute(_SYSTEM, given)]
    known = {message for _, message in said}
    told += [(step, message) for step, message in _shown(store, given) if message not in known]
    holds = _holding(store, {message for _, message in said + told}, wanted)
    called = {int(step) for (step,) in store.db.execute(_CALLED, given)}
    return frozenset({step for step, message in said + told if message in holds} | called)


def _like(wanted: str) -> str:
    """The pattern that finds a text inside a body, which is JSON."""
    inside = msgspec.json.encode(wanted).decode()[1:-1]
    for special in "\\%_":
        inside = inside.replace(special, "\\" + special)
    return f"%{inside}%"


def _shown(store: Store, given: dict[str, object]) -> list[tuple[int, int]]:
    """(step, message) of matching context messages, by the first step whose context has them."""
    nodes = {
        node: (parent, message, bool(hit))
        for node, parent, message, hit in store.db.execute(_CHAIN, given)
    }
    if not any(hit for _, _, hit in nodes.values()):
        return []
    found: list[tuple[int, int]] = []
    seen: set[int] = set()
    for step, node in store.db.execute(_CONTEXTS, given):
        while node is not None and node not in seen:
            seen.add(node)
            node, message, hit = nodes[node]
            if hit:
                found.append((step, message))
    return found


def _holding(store: Store, messages: set[int], wanted: str) -> set[int]:
    """Of these messages, those that say it to a reader, and not only in the names of their keys."""
    chosen = msgspec.json.encode(sorted(messages)).decode()
    rows = store.db.execute(
        "SELECT id, dialect, body FROM message WHERE id IN (SELECT value FROM json_each(?))",
        (chosen,),
    )
    return {
        row
        for row, dialect, body in rows
        if wanted.lower() in _words(Message(dialect=dialect, body=msgspec.json.decode(body)))
    }


def _words(message: Message) -> str:
    """Everything a reader of the message sees, in lower case."""
    called = (f"{call.name} {content_text(call.arguments)}" for call in calls(message))
    return "\n".join((text(message), thinking(message), *called)).lower()
