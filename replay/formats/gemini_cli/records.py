"""What happened in a Gemini CLI session, in its order?

Three sources become a list of `Record`: a session as one JSON document, a session as JSON lines
(a message is written again whenever it grows, `$set` changes what is known of the session, and
`$rewindTo` takes messages back), and a checkpoint, which is the bare history of the model.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.fields import listed, obj, word
from replay.formats.intake import Head, Source, Tally, decode
from replay.formats.normal import ns
from replay.trace import Json, Place

HISTORY = "history"
"""The kind of a record that says what the conversation is from here on."""

_KINDS = {"user", "gemini", "info", "error", "warning"}
_ROLES = {"user": "user", "model": "gemini"}


class Record(Struct, kw_only=True, eq=False):
    """A message, or a new history. `after` is the record it follows: going back makes branches.

    `kind` is user, gemini, info, error, warning or HISTORY.
    """

    kind: str
    value: dict[str, Json]
    place: Place
    after: Record | None = None

    @property
    def at_ns(self) -> int | None:
        return ns(self.value.get("timestamp"))


class Session(Struct, frozen=True, kw_only=True, eq=False):
    """What a file holds: what it says of the session, and its records in the order they began.

    `tip` is the last record that was not taken back, `rewinds` where somebody went back.
    """

    about: dict[str, Json]
    records: list[Record]
    tip: Record | None
    rewinds: list[Place]


def session(source: Source, tally: Tally) -> Session:
    """Raises BadTrace where the file holds neither messages nor a history."""
    if is_lines(source.head):
        return _of_lines(source, tally)
    document = source.document()
    about = obj(document)
    if isinstance(about.get("messages"), list):
        return _straight(about, about["messages"], tally)
    contents = checkpoint(document)
    if contents is None:
        raise BadTrace(source.display, "", "holds neither `messages` nor a history")
    messages = [_as_message(content) for content in contents]
    return _straight({}, messages, tally)


def checkpoint(document: Json) -> list[Json] | None:
    """The history of a saved chat: the list itself, or beside what else was saved."""
    saved = obj(document)
    found = saved.get("history", saved.get("clientHistory")) if saved else document
    if isinstance(found, list) and all(isinstance(obj(c).get("parts"), list) for c in found):
        return found or None
    return None


def is_lines(head: Head) -> bool:
    """Does the first line stand alone as what begins a session?"""
    lines = head.lines()
    first = obj(decoded(lines[0])) if lines else {}
    return "sessionId" in first and "projectHash" in first and "messages" not in first


def decoded(line: bytes) -> Json:
    """The JSON value of a line, None where it is none."""
    try:
        return decode(line, "", "")
    except BadTrace:
        return None


def _as_message(content: Json) -> dict[str, Json]:
    return {
        "type": _ROLES.get(word(obj(content).get("role")) or "", "user"),
        "content": obj(content).get("parts"),
    }


def _straight(about: dict[str, Any], messages: list[Json], tally: Tally) -> Session:
    records: list[Record] = []
    for index, message in enumerate(messages):
        place = Place(span=word(obj(message).get("id")), message=index)
        record = _record(message, place, f"message {index}", tally)
        if record is not None:
            record.after = records[-1] if records else None
            records.append(record)
    tip = records[-1] if records else None
    return Session(about=about, records=records, tip=tip, rewinds=[])


def _record(message: Json, place: Place, where: str, tally: Tally) -> Record | None:
    if not isinstance(message, dict):
        tally.problem(where, "is not an object")
        return None
    kind = word(message.get("type")) or ""
    tally.counts["messages"] += 1
    tally.counts["tool_calls"] += len(listed(message.get("toolCalls")))
    if kind not in _KINDS:
        tally.unknown[kind or "message without a type"] += 1
        return None
    return Record(kind=kind, value=message, place=place)


def _of_lines(source: Source, tally: Tally) -> Session:
    """The lines in order; what is written of a message later takes the place of what was."""
    reading = _Reading(tally)
    for number, record in source.records(tally):
        reading.read(number, record)
    return reading.session()


class _Reading:
    """Reads the lines of a session.

    `_live` holds the messages of the conversation as it stands by their ids, each with the record
    that brought it there.
    """

    def __init__(self, tally: Tally) -> None:
        self._about: dict[str, Any] = {}
        self._records: list[Record] = []
        self._rewinds: list[Place] = []
        self._live: dict[str, Record] = {}
        self._latest: Record | None = None
        self._tally = tally

    def session(self) -> Session:
        return Session(
            about=self._about, records=self._records, tip=self._latest, rewinds=self._rewinds
        )

    def read(self, number: int, record: dict[str, Any]) -> None:
        place = Place(span=word(record.get("id")), message=number - 1, line=number)
        back, changed = word(record.get("$rewindTo")), record.get("$set")
        if back is not None:
            self._rewind(back, place)
        elif isinstance(changed, dict):
            self._change(changed, place)
        elif place.span is not None and "type" in record:
            self._message(place.span, record, place)
        elif "sessionId" in record:
            self._about |= record
        else:
            self._tally.unknown[next(iter(record), "empty line")] += 1

    def _message(self, name: str, value: dict[str, Any], place: Place) -> None:
        known = self._live.get(name)
        if known is not None and known.kind == HISTORY:
            return
        if known is not None:
            calls = len(listed(value.get("toolCalls"))) - len(listed(known.value.get("toolCalls")))
            self._tally.counts["tool_calls"] += max(calls, 0)
            known.value = value
            return
        record = _record(value, place, f"line {place.line}", self._tally)
        if record is not None:
            self._append(record)
            self._live[name] = record

    def _change(self, changed: dict[str, Any], place: Place) -> None:
        messages = changed.get("messages")
        self._about |= {name: value for name, value in changed.items() if name != "messages"}
        if not isinstance(messages, list):
            return
        names = [word(obj(message).get("id")) or "" for message in messages]
        if names == list(self._live):  # only what old results look like from here on
            return
        history = Record(kind=HISTORY, value={"messages": messages}, place=place)
        self._append(history)
        self._live = {name: self._live.get(name, history) for name in names}

    def _rewind(self, name: str, place: Place) -> None:
        self._rewinds.append(place)
        first = self._live.get(name)
        names = list(self._live)
        gone = names[names.index(name) :] if first is not None else names
        for each in gone:
            del self._live[each]
        self._latest = first.after if first is not None else None

    def _append(self, record: Record) -> None:
        record.after = self._latest
        self._latest = record
        self._records.append(record)
