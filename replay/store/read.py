"""Whole traces out of the database, as the values importers made.

Content that several steps share is one object again. Supplements (`arc attach`) are put in where
the source was silent, and lower the fidelity to what they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import msgspec

from replay import steps
from replay.errors import NotFound
from replay.store.connection import Row, dicts
from replay.store.edits import Supplement, supplement_of, supplied
from replay.store.handle import Store
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Cost,
    Dialect,
    Fidelity,
    Header,
    Level,
    Message,
    ModelCall,
    Observation,
    OtherSpan,
    Outcome,
    Place,
    Request,
    Response,
    Retrieval,
    SourceScore,
    Step,
    Tool,
    ToolCall,
    Trace,
    Usage,
)


def _json(body: str, kind: Any = Any) -> Any:
    """A stored text. Raises what SQLite raises of damage where it is none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, TypeError) as error:
        raise sqlite3.DatabaseError(f"malformed text: {error}") from error


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _at_once(read: Callable[Concatenate[Store, _P], _T]) -> Callable[Concatenate[Store, _P], _T]:
    """Let all that a function reads be of one moment."""

    @wraps(read)
    def reading(store: Store, /, *given: _P.args, **named: _P.kwargs) -> _T:
        with store.reading():
            return read(store, *given, **named)

    return reading


@_at_once
def load(store: Store, key: str) -> Trace:
    """The whole trace. Raises NotFound where there is none of that id."""
    head = _one(store, "SELECT * FROM trace WHERE key = ? AND complete", (key,))
    if head is None:
        raise NotFound("trace", key)
    added = supplement_of(store, key)
    content = _Content(store.db, head["id"], None)
    spans = tuple(_span(row, content, added) for row in _span_rows(store, head["id"], None))
    made, loose, _ = steps.build(spans)
    return Trace(
        id=key,
        run=head["run"],
        header=_header(head),
        spans=spans,
        steps=made,
        loose=loose,
        prompt=head["prompt"],
        problems=tuple(_json(head["problems"])),
    )


@_at_once
def recorded(store: Store, key: str) -> Batch:
    """The whole trace as its importer gave it, masked, without what was attached or judged since.

    Raises NotFound where there is none of that id.
    """
    head = _one(store, "SELECT * FROM trace WHERE key = ? AND complete", (key,))
    if head is None:
        raise NotFound("trace", key)
    content = _Content(store.db, head["id"], None)
    rows = (
        {**row, "status": row["source_status"] or row["status"], "said_error": None}
        for row in _span_rows(store, head["id"], None)
    )
    spans = tuple(_span(row, content, None) for row in rows)
    return Batch(header=_header(head), spans=spans, scores=scores(store, key), last=True)


def content_digest(store: Store, key: str) -> str:
    """The digest over all spans of a trace as they are kept. Raises NotFound as `load`."""
    head = _one(store, "SELECT content FROM trace WHERE key = ? AND complete", (key,))
    if head is None:
        raise NotFound("trace", key)
    return str(head["content"])


def span_digests(store: Store, key: str) -> dict[str, str]:
    """The digest of each span of a trace, by its id, in the order of the recording."""
    found = store.db.execute(
        "SELECT s.span_id, s.digest FROM span s JOIN trace t ON t.id = s.trace"
        " WHERE t.key = ? AND t.complete ORDER BY s.seq",
        (key,),
    )
    return dict(found.fetchall())


@_at_once
def part(store: Store, key: str, indexes: Collection[int]) -> dict[int, Step]:
    """Some steps of a trace by their number, without loading the rest of it."""
    return _part(store, key, _id_of(store, key), indexes, None)


class StepSince(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A step with what is `new` in its context since the step before it; `shared` is how many
    messages stand before those, which were not read: its own context lacks them too."""

    step: Step
    shared: int
    new: tuple[Message, ...]
    system_changed: bool

    @property
    def depth(self) -> int:
        """How many messages its context has."""
        return self.shared + len(self.new)


@_at_once
def step_since(store: Store, key: str, index: int, before: int | None) -> StepSince | None:
    """A step of a trace, and what is new in it since step `before`: what is read costs the same at
    the end of a long run as at its start. None where the trace has no such step."""
    trace = _id_of(store, key)
    ours = _request_ids(store, trace, index)
    theirs = _request_ids(store, trace, before) if before is not None else None
    base, shared = None, 0
    if ours and theirs and ours.context is not None and theirs.context is not None:
        base, shared = _shared_node(store.db, ours.context, theirs.context)
    step = _part(store, key, trace, (index,), base).get(index)
    if step is None:
        return None
    changed = False
    if before is not None and theirs and ours and theirs.system != ours.system:
        earlier = _part(store, key, trace, (before,), theirs.context).get(before)
        changed = earlier is not None and earlier.ask.request.system != step.ask.request.system
    context = step.ask.request.context
    new = tuple(context.messages()) if context is not None else ()
    return StepSince(step=step, shared=shared, new=new, system_changed=changed)


class _RequestIds(NamedTuple):
    """The rows that the request of a step refers to."""

    system: int | None
    context: int | None


def _request_ids(store: Store, trace: int, step: int) -> _RequestIds | None:
    found = store.db.execute(
        "SELECT system, context FROM span JOIN model_call ON span = id"
        " WHERE trace = ? AND step = ? ORDER BY +seq DESC LIMIT 1",
        (trace, step),
    ).fetchone()
    return None if found is None else _RequestIds(*found)


_CLIMB = """
WITH RECURSIVE up(id, depth, parent) AS (
  SELECT id, depth, parent FROM context WHERE id = :node
  UNION ALL
  SELECT c.id, c.depth, c.parent FROM context c JOIN up ON c.id = up.parent
  WHERE up.depth > :depth)
SELECT id FROM up WHERE depth = :depth
"""
_MEET = """
WITH RECURSIVE pair(one, other) AS (
  SELECT :one, :other
  UNION ALL
  SELECT a.parent, b.parent FROM pair
  JOIN context a ON a.id = one JOIN context b ON b.id = other
  WHERE one <> other)
SELECT one FROM pair WHERE one = other
"""
"""Nodes are stored once, so two contexts that begin alike have the nodes of that in common."""


def _shared_node(db: sqlite3.Connection, one: int, other: int) -> tuple[int | None, int]:
    """The last node that two contexts have in common, and its depth; (None, 0) where none is."""
    depths = dict(
        db.execute("SELECT id, depth FROM context WHERE id IN (?, ?)", (one, other)).fetchall()
    )
    least = min(depths.values())
    level = [
        db.execute(_CLIMB, {"node": node, "depth": least}).fetchone()[0] for node in (one, other)
    ]
    met = db.execute(_MEET, {"one": level[0], "other": level[1]}).fetchone()
    if met is None:
        return None, 0
    return met[0], db.execute("SELECT depth FROM context WHERE id = ?", met).fetchone()[0]


def _id_of(store: Store, key: str) -> int:
    row = store.db.execute("SELECT id FROM trace WHERE key = ? AND complete", (key,)).fetchone()
    if row is None:
        raise NotFound("trace", key)
    return int(row[0])


def _part(
    store: Store, key: str, trace: int, indexes: Collection[int], base: int | None
) -> dict[int, Step]:
    """Some steps by their number; nothing of their contexts is read up to node `base`."""
    wanted = msgspec.json.encode(sorted(indexes)).decode()
    content = _Content(store.db, trace, wanted, base)
    added = supplement_of(store, key)
    asks: dict[int, ModelCall] = {}
    acts: dict[int, list[ToolCall]] = {}
    for each in _span_rows(store, trace, wanted):
        span = _span(each, content, added)
        if isinstance(span, ModelCall):
            asks[each["step"]] = span
        elif isinstance(span, ToolCall):
            acts.setdefault(each["step"], []).append(span)
    threads = dict(
        store.db.execute(
            "SELECT step, thread FROM step WHERE trace = ?"
            " AND step IN (SELECT value FROM json_each(?))",
            (trace, wanted),
        ).fetchall()
    )
    return {
        index: Step(
            index=index, thread=threads[index], ask=ask,
            acts=tuple(act for act in acts.get(index, ()) if act.asked_by == ask.id),
        )
        for index, ask in asks.items()
    }  # fmt: skip


def scores(store: Store, key: str) -> tuple[SourceScore, ...]:
    """Scores and annotations found in the source of a trace."""
    found = dicts(
        store.db.execute(
            "SELECT name, source AS by, span_id AS span, value, label, explanation"
            " FROM source_score WHERE trace = (SELECT id FROM trace WHERE key = ? AND complete)",
            (key,),
        )
    )
    return tuple(SourceScore(**row) for row in found)


def _one(store: Store, sql: str, values: tuple[Any, ...]) -> Row | None:
    return next(dicts(store.db.execute(sql, values)), None)


def _span_rows(store: Store, trace: int, some: str | None) -> Iterator[Row]:
    # the plus: SQLite would read all spans in their order rather than sort those of some steps
    order = "s.seq" if some is None else "+s.seq"
    return dicts(
        store.db.execute(
            "SELECT s.*, m.*, t.*, s.id AS id, s.trace AS trace"
            " FROM span s LEFT JOIN model_call m ON m.span = s.id"
            f" LEFT JOIN tool_call t ON t.span = s.id WHERE {_spans_of(some)}"
            f" ORDER BY {order}",
            {"trace": trace, "some": some},
        )
    )


def _spans_of(some: str | None) -> str:
    """The condition on spans, two and not one with an OR: SQLite takes no index for that."""
    of_steps = " AND step IN (SELECT value FROM json_each(:some))"
    return "trace = :trace" + (of_steps if some is not None else "")


_CHAIN = """
WITH RECURSIVE chain(id, parent, message, depth) AS (
  SELECT id, parent, message, depth FROM context
  WHERE id IN (SELECT context FROM model_call WHERE span IN {spans}) AND id IS NOT :base
  UNION
  SELECT c.id, c.parent, c.message, c.depth FROM context c JOIN chain ON c.id = chain.parent
  WHERE c.id IS NOT :base)
SELECT chain.id, parent, message, depth, dialect, body
FROM chain JOIN message ON message.id = message
ORDER BY chain.id
"""


class _Content:
    """The messages, contexts and toolsets of one trace (or `some` of its steps), built once;
    contexts as far as they go on behind node `base`."""

    def __init__(
        self, db: sqlite3.Connection, trace: int, some: str | None, base: int | None = None
    ) -> None:
        mine = {"trace": trace, "some": some, "base": base}
        spans = f"(SELECT id FROM span WHERE {_spans_of(some)})"
        self._base = base
        self._messages: dict[int, Message] = {}
        self._contexts: dict[int, Context] = {}
        self._toolsets: dict[int, tuple[Tool, ...]] = {}
        named = " UNION ".join(
            f"SELECT {column} FROM {table} WHERE span IN {spans}"
            for table, column in (
                ("model_call", "system"), ("model_call", "response"), ("tool_call", "observation"),
            )
        )  # fmt: skip
        for row, dialect, body in db.execute(
            f"SELECT id, dialect, body FROM message WHERE id IN ({named})", mine
        ):
            self._add(row, dialect, body)
        # A parent is always written before its child, so ascending ids build the chains.
        for row, parent, message, depth, *said in db.execute(_CHAIN.format(spans=spans), mine):
            self._add(message, *said)
            above = None if parent in (None, base) else self._contexts[parent]
            own = self._messages[message]
            self._contexts[row] = Context(message=own, parent=above, depth=depth)
        sets = f"SELECT toolset FROM model_call WHERE span IN {spans}"
        for row, body in db.execute(f"SELECT id, body FROM toolset WHERE id IN ({sets})", mine):
            self._toolsets[row] = _json(body, tuple[Tool, ...])

    def _add(self, row: int, dialect: str, body: str) -> None:
        """Once: what stands in two places is one message."""
        if row not in self._messages:
            self._messages[row] = Message(dialect=cast(Dialect, dialect), body=_json(body))

    def message(self, row: int | None) -> Message | None:
        return None if row is None else self._messages[row]

    def context(self, row: int | None) -> Context | None:
        return None if row is None or row == self._base else self._contexts[row]

    def tools(self, row: int | None) -> tuple[Tool, ...] | None:
        return None if row is None else self._toolsets[row]


def _span(row: Row, content: _Content, added: Supplement | None) -> AnySpan:
    detail = _json(row["detail"]) if row["detail"] else {}
    common = {
        "id": row["span_id"],
        "name": row["name"],
        "parent": row["parent"],
        "start_ns": row["start_ns"],
        "end_ns": row["end_ns"],
        "time_quality": row["time_quality"],
        "status": row["status"],
        "error": row["said_error"] if row["error"] is None else row["error"],
        "place": Place(
            span=row["place_span"], message=row["place_message"], line=row["place_line"]
        ),
        "extra": detail.get("extra", {}),
    }
    match row["kind"]:
        case "model":
            call = _model(common, row, content)
            return call if added is None else supplied(call, added)
        case "tool":
            return _tool(common, row, content)
        case "agent":
            return AgentSpan(**common)
        case "retriever":
            return Retrieval(**common, query=detail.get("query"), documents=detail.get("documents"))
        case _:
            return OtherSpan(**common, operation=detail.get("operation", ""))


def _model(common: Row, row: Row, content: _Content) -> ModelCall:
    counts = {name: row[name] for name in Usage.__struct_fields__}
    known = any(value is not None for value in counts.values())
    cost = None
    if row["cost_usd"] is not None:
        cost = Cost(usd=row["cost_usd"], source=row["cost_source"], prices=row["prices"])
    return ModelCall(
        **common,
        request=Request(
            model=row["model"],
            system=content.message(row["system"]),
            tools=content.tools(row["toolset"]),
            params=_json(row["params"]) if row["params"] else {},
            context=content.context(row["context"]),
        ),
        response=Response(
            message=content.message(row["response"]),
            id=row["response_id"],
            model=row["response_model"],
            stop=row["stop"],
            stop_raw=row["stop_raw"],
        ),
        usage=Usage(**counts) if known else None,
        cost=cost,
        fidelity=Fidelity(
            level=Level(row["fidelity"]),
            reasons=tuple(_json(row["fidelity_reasons"])) if row["fidelity_reasons"] else (),
        ),
        agent=row["agent"],
    )


def _tool(common: Row, row: Row, content: _Content) -> ToolCall:
    message = content.message(row["observation"])
    return ToolCall(
        **common,
        call_id=row["call_id"],
        asked_by=row["asked_by"],
        arguments=None if row["arguments"] is None else _json(row["arguments"]),
        arguments_raw=row["arguments_raw"],
        observation=None
        if message is None
        else Observation(message=message, block=row["observation_block"]),
        effect=row["effect"],
    )


def _header(row: Row) -> Header:
    return Header(
        format=row["format"],
        source_id=row["source_id"],
        item=row["item"],
        path=row["path"],
        title=row["title"],
        task=row["task"],
        trial=row["trial"],
        variant=row["variant"],
        agent=row["agent"],
        outcome=Outcome(
            status=row["outcome"], value=_value(row["outcome_value"]), by=row["outcome_by"]
        ),
        labels=_json(row["labels"]),
        reference=_json(row["reference"]) if row["reference"] else None,
        reported_cost_usd=row["reported_cost_usd"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
    )


def _value(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
