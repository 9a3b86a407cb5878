"""Calls of `llm` since 0.36: a message names the one before it, a call the last one it was shown
and the last one it gave.

Messages are shared by conversations; what a call was shown is the way back from its parent to the
first message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from replay.formats.dialogue import Thread
from replay.formats.fields import known, listed, obj, word
from replay.formats.otlp.messages import call
from replay.formats.sqlite.database import Database, Row
from replay.formats.sqlite.llm.pieces import CALL, GONE, REBUILT, Pieces
from replay.trace import Fidelity, Json, Level, Message, Request, Tool

Body = dict[str, Json]


class _Said(NamedTuple):
    """A message of the store; `lost` are the reasons why it is not whole."""

    role: str
    parent: str | None
    bodies: tuple[Message, ...]
    lost: frozenset[str]


class Turns:
    """The calls of one database, by their conversations."""

    def __init__(self, database: Database, pieces: Pieces) -> None:
        self._database = database
        self._pieces = pieces
        self._said: dict[str, _Said | None] = {}
        self._turns_of: defaultdict[str, list[str]] = defaultdict(list)
        columns = ("id", "thread_id")  # which has no index
        for row in database.rows("turns", columns, order=("datetime_utc", "id")):
            if isinstance(row["id"], str) and isinstance(row.get("thread_id"), str):
                self._turns_of[row["thread_id"]].append(row["id"])

    def conversations(self) -> Iterator[str]:
        for row in self._database.rows("threads", ["id"], order=["datetime_utc", "id"]):
            if isinstance(row["id"], str):
                yield row["id"]

    def tell(self, conversation: str, thread: Thread) -> None:
        """Tell the thread the calls of a conversation, in time order."""
        self._said.clear()
        told: list[str] = []
        for name in self._turns_of.get(conversation, ()):
            row = next(self._database.rows("turns", _TURN, id=name), {}) | {"id": name}
            told = self._tell(row, told, thread)

    def _tell(self, row: Row, told: list[str], thread: Thread) -> list[str]:
        """Tell one call after those messages; gives the messages told then."""
        shown = self._chain(row.get("parent_message_hash"))
        gave = self._chain(row.get("tip_message_hash"), until=row.get("parent_message_hash"))
        lost = self._lost(row, [*shown, *gave])
        system = self._system(shown)
        rest = shown[1:] if system is not None else shown
        if told and rest[: len(told)] == told:
            known_ = len(told)
        else:  # a fork, or a conversation that another program kept: only what is last is new
            known_ = 1 + max((at for at, name in enumerate(rest) if self._asks(name)), default=-1)
            thread.reset(*self._messages(rest[:known_]))
        turn = self._pieces.turn(row, _fidelity(lost))
        for message in self._messages(rest[known_:]):
            thread.heard(message, place=turn.place, at_ns=turn.start_ns)
        thread.request = Request(
            model=word(row.get("model")),
            system=system,
            tools=self._tools(turn.id),
            params=self._pieces.params(row),
        )
        thread.said(_joined(self._messages(gave)), turn)
        return [*rest, *gave]

    def _chain(self, tip: Json, until: Json = None) -> list[str]:
        """The messages from the first one to `tip`, or from the one after `until`."""
        found: dict[str, None] = {}
        name = tip
        while isinstance(name, str) and name != until and name not in found:
            found[name] = None
            said = self._message(name)
            name = said.parent if said is not None else None
        return [*reversed(found)]

    def _message(self, name: str) -> _Said | None:
        """A message by its digest, None where it is not in the database."""
        if name not in self._said:
            columns = ["parent_hash", "role"]
            row = next(self._database.rows("messages", columns, hash=name), None)
            self._said[name] = self._read(name, row) if row is not None else None
        return self._said[name]

    def _read(self, name: str, row: Row) -> _Said:
        before, self._pieces.lost = self._pieces.lost, set()
        parts = [*self._database.rows("parts", _PART, order=["position"], message_hash=name)]
        role = word(row.get("role")) or ""
        made = [*_bodies(role, [self._part(part, name) for part in parts], self._pieces)]
        lost, self._pieces.lost = frozenset(self._pieces.lost), before
        parent = row.get("parent_hash")
        return _Said(
            role,
            parent if isinstance(parent, str) else None,
            tuple(Message(dialect="openai", body=body) for body in made),
            lost,
        )

    def _part(self, row: Row, name: str) -> dict[str, Any]:
        """A part whose text is whole: its own, or joined from literals and fragments."""
        part = obj(self._pieces.value(row.get("payload"), f"message {name}"))
        text = row.get("text")
        pieces = part.pop("text_ref", None)
        if pieces is not None:
            text = "".join(
                str(obj(each).get("literal", ""))
                if "fragment" not in obj(each)
                else self._pieces.fragment(obj(each)["fragment"])
                for each in listed(pieces)
            )
        return {**part, "type": word(row.get("type")) or "", **known(text=text)}

    def _messages(self, names: list[str]) -> list[Message]:
        found = (self._message(name) for name in names)
        return [message for said in found if said is not None for message in said.bodies]

    def _system(self, names: list[str]) -> Message | None:
        first = self._message(names[0]) if names else None
        return first.bodies[0] if first and first.role == "system" and first.bodies else None

    def _asks(self, name: str) -> bool:
        said = self._message(name)
        return said is not None and said.role == "assistant"

    def _lost(self, row: Row, names: list[str]) -> set[str]:
        found = [self._message(name) for name in names]
        whole = all(found) and (names or row.get("parent_message_hash") is None)
        reasons = {reason for said in found if said is not None for reason in said.lost}
        return reasons if whole else {GONE, *reasons}

    def _tools(self, turn: str) -> tuple[Tool, ...]:
        rows = self._database.rows("turn_tools", ["tool_id"], turn_id=turn)
        found = (self._pieces.tool(row.get("tool_id")) for row in rows)
        return tuple(each for each in found if each is not None)


_TURN = (*CALL, "parent_message_hash", "tip_message_hash")
_PART = ("type", "text", "payload")


def _fidelity(lost: set[str]) -> Fidelity:
    return Fidelity(level=Level.PARTIAL, reasons=tuple(sorted(lost))) if lost else REBUILT


def _bodies(role: str, parts: list[dict[str, Any]], pieces: Pieces) -> Iterator[Body]:
    """One message, and one for each result in it; what a provider ran itself stays a part."""
    content: list[Body] = []
    calls: list[Body] = []
    for part in parts:
        kind, own = part["type"], part.get("server_executed") is not True
        if kind == "tool_call" and own:
            calls.append(call(part.get("tool_call_id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_result" and own:
            yield _result(part, pieces)
        elif kind == "reasoning":
            shown = {n: v for n, v in part.items() if n != "text"}
            content.append({**shown, "reasoning": word(part.get("text")) or ""})
        elif kind == "attachment":
            content.append(pieces.attachment(obj(part.get("attachment")).get("id")))
        else:
            content.append(part)
    if content or calls:
        yield {"role": role, "content": _simple(content), **known(tool_calls=calls)}


def _result(part: dict[str, Any], pieces: Pieces) -> Body:
    shown: Json = word(part.get("output")) or ""
    files = [pieces.attachment(obj(each).get("id")) for each in listed(part.get("attachments"))]
    if files:
        shown = [{"type": "text", "text": shown}, *files]
    body = {"role": "tool", "tool_call_id": part.get("tool_call_id"), "content": shown}
    failed = {"is_error": True} if part.get("exception") else {}
    return {**body, **known(name=part.get("name")), **failed}


def _simple(content: list[Body]) -> Json:
    """The text alone, where a text is all there is."""
    if not content:
        return None
    alone = len(content) == 1 and content[0].keys() == {"type", "text"}
    return content[0]["text"] if alone and content[0]["type"] == "text" else content


def _joined(messages: list[Message]) -> Message | None:
    """The answer; one that came as several messages is one with all they hold."""
    if len(messages) < 2:
        return messages[0] if messages else None
    content: list[Json] = []
    calls: list[Json] = []
    for message in messages:
        said = message.body.get("content")
        content += said if isinstance(said, list) else [{"type": "text", "text": said}] * bool(said)
        calls += listed(message.body.get("tool_calls"))
    body = {"role": "assistant", "content": content or None, **known(tool_calls=calls)}
    return Message(dialect="openai", body=body)
