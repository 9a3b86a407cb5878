"""opencode sessions: `opencode export`, its storage folder, and its database.

One trace a session that no other sent; the sessions of its sub-agents are threads below the calls
that sent them, where they are at hand (an export holds none). The system prompt is known in early
releases alone, the tools offered never. Rows of the database become the values that the other two
hold; `thread` makes spans of a session's messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats import database
from replay.formats.chat import cut, title_line
from replay.formats.common import derived_id, known, listed, ms_ns, obj, word
from replay.formats.database import MAGIC, Row, tables
from replay.formats.opencode import thread
from replay.formats.opencode.thread import Session, SpanBuilder, Written, speaker
from replay.formats.source import Head, Source, Tally, decode, plain_file
from replay.messages import observed
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, Place, ToolCall

NAME = "opencode"
TITLE = "opencode sessions"
FILES = ".json exports, opencode's storage folder, opencode.db"
FIDELITY = (Level.PARTIAL,)
LACKS = "the tools; usually the system prompt"
VERIFIED = "real files"

_TABLES = ("message", "part", "session")
_ABOUT = (rb'"id"\s*:\s*"ses', rb'"title"\s*:', rb'"time"\s*:\s*\{\s*"created"\s*:\s*\d')
_EXPORT = (rb'\A\W*"info"\s*:\s*\{', rb'"messages"\s*:\s*\[', rb'"sessionID"\s*:')
_UNNAMED = re.compile(r"(New|Child) session - \d{4}-")


def sniff(head: Head) -> bool:
    """A database is opencode's by its tables."""
    found = tables(head)
    if found is not None:
        return found.issuperset(_TABLES)
    if not head.starts(b"{") or not head.has(*_ABOUT):
        return False
    return head.has(*_EXPORT) or (head.has(rb'"version"\s*:') and not head.has(rb'"role"\s*:'))


def part_of(path: Path) -> Path | None:
    """The session file that this file of the storage folder is read with."""
    return main_file(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a session. Raises BadTrace where the source holds none."""
    found = 0
    for session in _sessions(source, tally):
        found += 1
        yield _trace(session, source, tally)
    if not found:
        raise BadTrace(source.display, "", "contains no opencode session with messages")


def _sessions(source: Source, tally: Tally) -> Iterator[Session]:
    """Those with messages; a session that was opened and left holds none."""
    if source.head.data.startswith(MAGIC):
        found = in_database(source, tally)
    else:
        found = iter([_of_document(source, tally)])
    for session in found:
        if session.messages:
            yield session
        else:
            tally.problem(session.id or "session", "has no messages")


def _of_document(source: Source, tally: Tally) -> Session:
    document = source.document()
    if not isinstance(document, dict):
        raise BadTrace(source.display, "", "is not an object")
    if isinstance(document.get("info"), dict):
        return exported(document, tally)
    if is_session(document) and source.display != "-":
        return in_folder(source, document, tally)
    raise BadTrace(source.display, "", "is neither an export nor a session file")


def _trace(session: Session, source: Source, tally: Tally) -> Batch:
    name = session.id or derived_id(NAME, *(each.info for each in session.messages))
    seen = {name}
    root, *spans = _agent(session, name, NAME, None, tally, seen)
    info = session.info
    header = Header(
        format=NAME,
        source_id=name,
        path=source.display,
        title=_title(session),
        agent=NAME,
        labels=_labels(info),
        reported_cost_usd=getattr(thread.cost(info.get("cost")), "usd", None),
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    return Batch(header=header, spans=(root, *spans), last=True)


def _agent(
    session: Session, name: str, title: str, parent: str | None, tally: Tally, seen: set[str]
) -> list[AnySpan]:
    """The agent span of a session, what it did, and the agents it sent."""
    tally.counts["sessions"] += 1
    teller = SpanBuilder(name, tally)
    teller.build(session)
    spans = teller.spans()
    time = obj(session.info.get("time"))
    start_ns, end_ns = ms_ns(time.get("created")), ms_ns(time.get("updated"))
    root = AgentSpan(
        id=name,
        name=title,
        parent=parent,
        start_ns=start_ns,
        end_ns=end_ns,
        time_quality="none" if start_ns is None else "exact",
        status="error" if teller.error is not None else "unset",
        error=teller.error,
        place=Place(span=name),
        extra=known(
            title=word(session.info.get("title")),
            signals=teller.signals,
            unanswered=[message.body for message in teller.unanswered],
            reverted=obj(session.info.get("revert")).get("messageID"),
        ),
    )
    found: list[AnySpan] = [root, *spans]
    for child in session.children:
        if child.id is None or child.id in seen or not child.messages:
            continue
        seen.add(child.id)
        call = _sender(child.id, spans, session)
        kind = next(filter(None, map(speaker, child.messages)), None) or "sub-agent"
        found += _agent(child, child.id, kind, call or name, tally, seen)
    return found


def _sender(child: str, spans: list[AnySpan], session: Session) -> str | None:
    """The call whose metadata or whose result names the session that it sent."""
    named = {
        word(part.get("callID"))
        for written in session.messages
        for part in written.parts
        if obj(obj(part.get("state")).get("metadata")).get("sessionId") == child
    }
    calls = [span for span in spans if isinstance(span, ToolCall)]
    by_name = (call.id for call in calls if call.call_id in named)
    by_result = (
        call.id
        for call in calls
        if call.observation is not None and child in observed(call.observation).text
    )
    return next(by_name, None) or next(by_result, None)


def _title(session: Session) -> str | None:
    """The title opencode gave it, else what the user first asked."""
    given = word(session.info.get("title"))
    if given is not None and not _UNNAMED.match(given):
        return cut(given)
    asked = (
        thread.person_text(each.parts)
        for each in session.messages
        if each.info.get("role") == "user"
    )
    return title_line(next(filter(None, asked), None))


def _labels(info: dict[str, Json]) -> dict[str, str]:
    found = {
        "cwd": word(info.get("directory")),
        "version": word(info.get("version")),
        "parent": word(info.get("parentID")),
    }
    return {name: value for name, value in found.items() if value is not None}


# --- a session as an export has it

_FILE = re.compile(r".+\.json(\.gz|\.zst)?$")
_SESSION = re.compile(rb'"sessionID"\s*:\s*"(\w[\w-]*)"')
_PARENT = re.compile(rb'"parentID"\s*:\s*"(\w[\w-]*)"')
_MOST_DEEP = 20
"""Sub-agents that send sub-agents; a chain of parents that is longer is a ring."""


def is_session(record: Json) -> bool:
    """Is this what opencode keeps of a session as a whole?"""
    about = obj(record)
    named = isinstance(about.get("id"), str) and isinstance(about.get("title"), str)
    return named and "version" in about and "created" in obj(about.get("time"))


def exported(document: dict[str, Any], tally: Tally) -> Session:
    """A session as `opencode export` prints it: its sub-agents' sessions are not in it."""
    messages: list[Written] = []
    for index, message in enumerate(listed(document.get("messages"))):
        info = obj(obj(message).get("info"))
        if not info:
            tally.problem(f"message {index}", "has no `info`")
            continue
        parts = [obj(part) for part in listed(message.get("parts"))]
        place = Place(span=word(info.get("id")), message=index)
        messages.append(Written(info=info, parts=parts, place=place))
    return Session(info=obj(document.get("info")), messages=messages, children=[])


# --- the storage folder


class _Folder(Struct, frozen=True):
    """The layout around a session's file: `session/<project>/<id>.json` with `message/` and
    `part/` beside `session/`, or, in the first releases, `info/<id>.json` with both beside it."""

    sessions: Path
    root: Path
    old: bool

    @classmethod
    def of(cls, session_file: Path) -> _Folder:
        sessions = session_file.parent
        old = sessions.name == "info"
        return cls(sessions, sessions.parent if old else sessions.parent.parent, old)

    def messages(self, session: str) -> Path:
        return self.root / "message" / session

    def parts(self, session: str, message: str) -> Path:
        return self.root / "part" / (f"{session}/{message}" if self.old else message)


def in_folder(source: Source, info: dict[str, Json], tally: Tally, deep: int = 0) -> Session:
    """The session of this file, with what lies in the folders around it."""
    folder = _Folder.of(source.path)
    messages: list[Written] = []
    name = _plain(info.get("id"))
    for number, path in enumerate(_files(folder.messages(name)) if name else []):
        about = _document(path, tally)
        message = _plain(about.get("id")) or path.name.partition(".")[0]
        parts = [_document(part, tally) for part in _files(folder.parts(name or "", message))]
        place = Place(span=message, message=number)
        messages.append(Written(info=about, parts=[p for p in parts if p], place=place))
    parents = _parents(folder.sessions) if name is not None and deep < _MOST_DEEP else {}
    below = [folder.sessions / each for each, parent in parents.items() if parent == name]
    children = [
        in_folder(Source(path), _document(path, tally), tally, deep + 1)
        for path in below
        if path != source.path
    ]
    return Session(info=info, messages=messages, children=children)


def main_file(path: Path) -> Path | None:
    """The file of the session that this message, part or sub-agent's session belongs to."""
    if _FILE.match(path.name) is None:
        return None
    for kind, depth in (("message", 2), ("part", 2), ("part", 3)):
        if len(path.parents) > depth and path.parents[depth - 1].name == kind:
            return _holder(path, path.parents[depth])
    if path.parent.name == "info" or path.parent.parent.name == "session":
        return _topmost(path)
    return None


def _holder(path: Path, root: Path) -> Path | None:
    """The session file of a message or a part, by the session that it names."""
    session = _named(path, _SESSION)
    if session is None:
        return None
    found = [root / "info" / f"{session}.json", *root.glob(f"session/*/{session}.json")]
    return next((each for each in found if each.is_file()), None)


def _topmost(path: Path) -> Path | None:
    """The session at the top of those that sent this one; None where it is the top, or a ring."""
    parents = _parents(path.parent)
    above: str | None = None
    for _ in range(_MOST_DEEP):
        parent = parents.get(f"{above}.json" if above is not None else path.name)
        if parent is None or f"{parent}.json" not in parents:
            return path.parent / f"{above}.json" if above is not None else None
        above = parent
    return None


def _parents(folder: Path) -> dict[str, str | None]:
    """The session that sent each session of a folder, by the file's name."""
    return _parents_at(folder, folder.stat().st_mtime_ns) if folder.is_dir() else {}


@lru_cache(maxsize=2)
def _parents_at(folder: Path, _changed_ns: int) -> dict[str, str | None]:
    """Kept while a folder is walked: every one of its files asks."""
    return {path.name: _named(path, _PARENT) for path in _files(folder)}


def _named(path: Path, field: re.Pattern[bytes]) -> str | None:
    """The id in a field of a small file, without reading more of it than its head."""
    try:
        found = field.search(Source(path).head.data)
    except BadTrace:
        return None
    return found[1].decode() if found is not None else None


def _plain(name: Json) -> str | None:
    """An id that is safe as the name of a file."""
    return name if isinstance(name, str) and re.fullmatch(r"\w[\w-]*", name) else None


def _files(folder: Path) -> list[Path]:
    """In the order of their names: opencode's ids ascend with time."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _FILE.match(path.name))


def _document(path: Path, tally: Tally) -> dict[str, Json]:
    try:
        found = Source(path).document()
    except BadTrace as error:
        tally.problem(path.name, error.why)
        return {}
    if not isinstance(found, dict):
        tally.problem(path.name, "is not an object")
    return obj(found)


# --- the database


def in_database(source: Source, tally: Tally) -> Iterator[Session]:
    """The sessions of a database that no other session sent, each with those it sent.

    Sessions that sent each other in a ring are told one below the other, from the oldest.
    """
    with opened(source, tally) as database:
        known = {word(info.get("id")) or "": info for info in database.sessions()}
        below: dict[str, list[str]] = {}
        for name, info in known.items():
            below.setdefault(word(info.get("parentID")) or "", []).append(name)
        top = [name for name in known if word(known[name].get("parentID")) not in known]
        left = dict(known)
        for name in (*top, *known):
            if name in left:
                yield _from(database, name, left, below)


def _from(
    database: Database, name: str, left: dict[str, dict[str, Json]], below: dict[str, list[str]]
) -> Session:
    info = left.pop(name)
    messages = []
    for number, (about, parts) in enumerate(database.messages(name)):
        place = Place(span=word(about.get("id")), message=number)
        messages.append(Written(info=about, parts=parts, place=place))
    children = [
        _from(database, child, left, below) for child in below.get(name, ()) if child in left
    ]
    return Session(info=info, messages=messages, children=children)


_SESSION_ROW = (
    "id", "parent_id", "project_id", "directory", "title", "version", "cost", "time_created",
    "time_updated",
)  # fmt: skip


class Database:
    """An open database. Its methods raise BadTrace where it turns out to be broken."""

    def __init__(self, tables: database.Database, display: str, tally: Tally) -> None:
        self._tables, self._display, self._tally = tables, display, tally

    def sessions(self) -> list[dict[str, Json]]:
        """What is known of each session, oldest first."""
        rows = self._tables.rows("session", _SESSION_ROW, order=("time_created", "id"))
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
