"""Spans, and the requests that stored answers belong to, under today's rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

import msgspec

from replay import digests
from replay.care.scrub.content import TAPE, Masks, Texts, damaged, ids, move
from replay.convert import Sent
from replay.edit.changes import Edit
from replay.errors import BadEdit
from replay.locked.row import RANGE
from replay.plan import Plan, plans
from replay.store import read, spans
from replay.store.connection import dicts
from replay.store.handle import Store
from replay.store.schema import FILL_LATENCIES
from replay.trace import (
    Dialect,
    Fidelity,
    Level,
    Message,
    ModelCall,
    Request,
    Response,
    ToolCall,
    Trace,
)

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
        db.execute(FILL_LATENCIES)


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
    return digests.digest("trace", *(each[0] for each in found))


def sum_masked(db: sqlite3.Connection) -> None:
    """How much is masked in the steps of a trace, as lists show it."""
    db.execute(
        "UPDATE trace SET masked = (SELECT coalesce(max(m.masked), 0)"
        " FROM step s JOIN model_call m ON m.span = s.ask WHERE s.trace = trace.id)"
        " WHERE id IN (SELECT id FROM moved_trace)"
    )


Edits = Mapping[str, Edit | None]
"""By a name that stays while digests move: the edits under which a step may have been asked."""


class _Place(NamedTuple):
    """One request of a trace under an edit, by one model."""

    step: int
    side: str


def before(store: Store, traces: Iterable[str], edits: Callable[[str], Edits]) -> None:
    """Note which stored answers were to which requests of these traces."""
    db = store.db
    ranges = _ranges(db)
    for key in traces:
        trace = read.load(store, key)
        for name, edit in edits(key).items():
            for model, samples in ranges.items():
                for place, sent in _sent(trace, edit, model):
                    found = _stored(db, sent, samples)
                    rows = ((was, key, name, model, *place, sample) for was, sample in found)
                    db.executemany("INSERT INTO asked VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def after(store: Store, edits: Edits) -> None:
    """Give those answers the keys that the same requests have now.

    Where the same request was answered under both keys, the answer stays that was there.
    """
    db = store.db
    asked = db.execute(
        "SELECT trace, edit, model FROM asked GROUP BY 1, 2, 3 ORDER BY min(rowid)"
    ).fetchall()
    latest: Trace | None = None
    for key, name, model in asked:
        if latest is None or latest.id != key:
            latest = read.load(store, key)
        sent = dict(_sent(latest, edits[name], model))
        of = db.execute(
            "SELECT key, step, side, sample FROM asked WHERE trace = ? AND edit = ? AND model = ?",
            (key, name, model),
        )
        for was, step, side, sample in of.fetchall():
            request = sent.get(_Place(step, side))
            if request is not None:
                rekey(db, was, request.key(sample))


def rekey(db: sqlite3.Connection, was: str, now: str) -> None:
    """An answer's request has another key now; the first word on it counts."""
    if was == now:
        return
    known = db.execute(
        "SELECT 1 FROM moved_digest WHERE was = ?", (was.rpartition(":")[2],)
    ).fetchone()
    if known is None:
        move(db, was, now)
        db.execute("UPDATE OR IGNORE answer SET key = ? WHERE key = ?", (now, was))
        db.execute("DELETE FROM answer WHERE key = ?", (was,))


def _ranges(db: sqlite3.Connection) -> dict[str, dict[int, list[int]]]:
    """By model, the numbers of its samples by their range."""
    found: dict[str, dict[int, list[int]]] = {}
    sql = "SELECT DISTINCT model, sample FROM answer ORDER BY model, sample"
    for model, sample in db.execute(sql):
        found.setdefault(model, {}).setdefault(sample // RANGE, []).append(sample)
    return found


def _stored(
    db: sqlite3.Connection, sent: Sent, samples: dict[int, list[int]]
) -> Iterator[tuple[str, int]]:
    """(key, sample) of the stored answers to a request. A range is begun with its first sample or
    not at all."""
    for numbers in samples.values():
        for sample in numbers:
            key = sent.key(sample)
            if db.execute("SELECT 1 FROM answer WHERE key = ?", (key,)).fetchone() is not None:
                yield key, sample
            elif sample % RANGE == 0:
                break


def _sent(trace: Trace, edit: Edit | None, model: str) -> Iterator[tuple[_Place, Sent]]:
    """Every request of a trace under an edit, with its place."""
    for plan in _plans(trace, edit, model):
        if edit is None:
            yield _Place(plan.step.index, "control"), plan.control.sent
        elif plan.edited is not plan.control:
            yield _Place(plan.step.index, "edited"), plan.edited.sent


def _plans(trace: Trace, edit: Edit | None, model: str) -> Iterator[Plan]:
    """What can be planned: an edit that one step does not take may have been tried on another."""
    try:
        yield from plans(trace, edit, model, None)
    except BadEdit:
        for step in trace.steps:
            with suppress(BadEdit):
                yield from plans(trace, edit, model, {step.index})
