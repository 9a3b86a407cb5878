"""Spans and what is said of traces under today's rules, with the digests that follow from them."""

from __future__ import annotations

import sqlite3
from typing import Any, cast

import msgspec

from replay import canon
from replay.store import spans
from replay.store.read import dicts
from replay.store.scrub.content import damaged
from replay.store.scrub.masks import Masks
from replay.store.scrub.moved import ids, move
from replay.store.scrub.places import TAPE, Texts
from replay.store.sums import LATENCIES
from replay.trace import Dialect, Fidelity, Level, Message, ModelCall, Request, Response, ToolCall

Row = dict[str, Any]

_BRIEF = "brief"
"""Cut from other texts: half a key is none to a rule, so it is cut anew."""


def masked(masks: Masks, table: str, places: Texts, row: Row, number: int) -> Row:
    """The columns of a row that are otherwise when masked. Raises StoreDamaged for JSON that is
    none, naming the `number` of the row."""
    found: Row = {}
    for column in places.text:
        value = row.get(column)
        if isinstance(value, str) and column != _BRIEF:
            found[column] = masks.text(table, value)
    for column in places.json:
        value = row.get(column)
        if isinstance(value, str):
            try:
                found[column] = masks.json(table, value)
            except msgspec.DecodeError as error:
                raise damaged(f"{table} row {number}") from error
    return {column: value for column, value in found.items() if value != row[column]}


def write(db: sqlite3.Connection, masks: Masks) -> None:
    """Mask every span and trace, after messages were written and before any is dropped.

    Raises StoreDamaged where a span that changes disagrees with its digest.
    """
    renamed = False
    for row in ids(db, "span"):
        changed = _span(db, masks, row)
        if changed is not None:
            db.execute(
                "INSERT OR IGNORE INTO moved_trace SELECT trace FROM span WHERE id = ?", (row,)
            )
            renamed = renamed or bool(changed & {"name", "model", "response_model"})
    _threads(db, masks)
    _traces(db, masks)
    if renamed:
        db.execute("DELETE FROM latency")
        db.execute(LATENCIES.rpartition(";\n\n")[2])


# --- spans


def _calls(kind: str, references: tuple[tuple[str, str], ...]) -> str:
    """The call of a span, its references as digests, each as it was and as it is."""
    digests = "".join(
        f", coalesce(m{at}.was, d{at}.digest) AS {name}_was,"
        f" coalesce(m{at}.now, d{at}.digest) AS {name}_now"
        for at, (name, _) in enumerate(references)
    )
    joins = "".join(
        f" LEFT JOIN {of} d{at} ON d{at}.id = c.{name} LEFT JOIN moved_{of} m{at}"
        f" ON m{at}.id = c.{name}"
        for at, (name, of) in enumerate(references)
    )
    return f"SELECT c.*{digests} FROM {kind} c{joins} WHERE c.span = ?"


_REFERENCES = {
    "model": (
        ("system", "message"), ("toolset", "toolset"), ("context", "context"),
        ("response", "message"),
    ),
    "tool": (("observation", "message"),),
}  # fmt: skip
_TABLES = {"model": "model_call", "tool": "tool_call"}
_SQL = {kind: _calls(_TABLES[kind], names) for kind, names in _REFERENCES.items()}


def _span(db: sqlite3.Connection, masks: Masks, row: int) -> set[str] | None:
    """Mask a span; the columns that changed, None where it stays as it is, digest and all."""
    span = next(dicts(db.execute("SELECT * FROM span WHERE id = ?", (row,))))
    kind = span["kind"]
    call = next(dicts(db.execute(_SQL[kind], (row,))), {}) if kind in _SQL else {}
    was, now, call = _parted(kind, call)
    of_span = masked(masks, "span", TAPE["span"], span, row)
    of_call = masked(masks, _TABLES[kind], TAPE[_TABLES[kind]], call, row) if call else {}
    if not of_span and not of_call and was == now:
        return None
    if spans.span_digest(span, {**call, **was}) != span["digest"]:
        raise damaged(f"span row {row}")
    digest = spans.span_digest({**span, **of_span}, {**call, **of_call, **now})
    move(db, span["digest"], digest)
    brief = _brief(db, masks, kind, {**call, **of_call}, span["brief"])
    _update(db, "span", "id", row, {**of_span, "brief": brief, "digest": digest})
    if of_call:
        _update(db, _TABLES[kind], "span", row, of_call)
    return {*of_span, *of_call}


def _parted(kind: str, call: Row) -> tuple[Row, Row, Row]:
    """(references as they were, as they are, the row of the call itself)."""
    names = [name for name, _ in _REFERENCES.get(kind, ())] if call else []
    was = {name: call[f"{name}_was"] for name in names}
    now = {name: call[f"{name}_now"] for name in names}
    beside = {f"{name}_{when}" for name in names for when in ("was", "now")}
    return was, now, {name: value for name, value in call.items() if name not in beside}


def _brief(
    db: sqlite3.Connection, masks: Masks, kind: str, call: Row, before: str | None
) -> str | None:
    """The line of a list, cut anew from what is masked."""
    if kind == "tool":
        given = call["arguments"]
        span: ModelCall | ToolCall = ToolCall(
            id="",
            name="",
            arguments=None if given is None else msgspec.json.decode(given),
            arguments_raw=call["arguments_raw"],
        )
    elif kind == "model" and call["response"] is not None:
        # A row that goes into another has its new text beside it.
        dialect, body = db.execute(
            "SELECT m.dialect, coalesce(n.body, m.body) FROM message m"
            " LEFT JOIN moved_message n ON n.id = m.id WHERE m.id = ?",
            (call["response"],),
        ).fetchone()
        said = Message(dialect=cast(Dialect, dialect), body=msgspec.json.decode(body))
        span = ModelCall(
            id="",
            name="",
            request=Request(),
            response=Response(message=said),
            fidelity=Fidelity(level=Level.NONE),
        )
    else:
        return before if before is None else masks.silently(before)
    return spans.shown(masks.silently(spans.brief(span)))


def _update(db: sqlite3.Connection, table: str, key: str, row: int, values: Row) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE {table} SET {names} WHERE {key} = ?", [*values.values(), row])


# --- steps and traces


def _threads(db: sqlite3.Connection, masks: Masks) -> None:
    """A thread is named after spans and agents, whose names are counted already."""
    for (thread,) in db.execute("SELECT DISTINCT thread FROM step").fetchall():
        masked = masks.silently(thread)
        if masked != thread:
            db.execute("UPDATE step SET thread = ? WHERE thread = ?", (masked, thread))


def _traces(db: sqlite3.Connection, masks: Masks) -> None:
    for row in ids(db, "trace"):
        trace = next(dicts(db.execute("SELECT * FROM trace WHERE id = ?", (row,))))
        changed = masked(masks, "trace", TAPE["trace"], trace, row)
        moved = db.execute("SELECT 1 FROM moved_trace WHERE id = ?", (row,)).fetchone()
        if moved is not None:
            changed["content"] = _content(db, row)
            move(db, trace["content"] or "", changed["content"])
        if changed:
            _update(db, "trace", "id", row, changed)
            db.execute("INSERT OR IGNORE INTO moved_trace VALUES (?)", (row,))
    db.execute(
        "UPDATE trace SET prompt = (SELECT now FROM moved_message WHERE was = prompt)"
        " WHERE prompt IN (SELECT was FROM moved_message)"
    )


def _content(db: sqlite3.Connection, row: int) -> str:
    found = db.execute("SELECT digest FROM span WHERE trace = ? ORDER BY span_id", (row,))
    return canon.digest("trace", *(each[0] for each in found))


def sum_masked(db: sqlite3.Connection) -> None:
    """How much is masked in the steps of a trace, as lists show it."""
    db.execute(
        "UPDATE trace SET masked = (SELECT coalesce(max(m.masked), 0)"
        " FROM step s JOIN model_call m ON m.span = s.ask WHERE s.trace = trace.id)"
        " WHERE id IN (SELECT id FROM moved_trace)"
    )
