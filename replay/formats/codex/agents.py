"""Which rollouts beside a session's own are those of the sub-agents it spawned?

A sub-agent's first line names the session that spawned it, and that session's file names it in
the answer to the call. Both have to hold, so that what is read along with one file is exactly
what is not read by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.codex.lines import META, decoded
from replay.formats.fields import obj, word
from replay.formats.intake import Source
from replay.messages import observed
from replay.trace import AnySpan, Json, ToolCall

_FILE = re.compile(
    r"rollout-.+?-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl(\.gz|\.zst)?$"
)


class Spawned(Struct, frozen=True, kw_only=True, eq=False):
    """A sub-agent's rollout: its session id, its file, its first line."""

    session: str
    source: Source
    meta: dict[str, Json]


def parent(meta: dict[str, Json]) -> str | None:
    """The session that spawned the one with this first line."""
    spawn = obj(obj(obj(meta.get("source")).get("subagent")).get("thread_spawn"))
    return word(meta.get("parent_thread_id")) or word(spawn.get("parent_thread_id"))


def role(meta: dict[str, Json]) -> str | None:
    """What kind of agent it is, or the name it was given."""
    spawn = obj(obj(obj(meta.get("source")).get("subagent")).get("thread_spawn"))
    found = (meta.get("agent_role"), spawn.get("agent_role"), meta.get("agent_nickname"))
    return next(filter(None, map(word, found)), None)


def spawner(path: Path) -> Path | None:
    """The file of the session that spawned this file's, None where it stands alone.

    Files that claim to have spawned each other in a ring stand alone, each of them.
    """
    first = _above(path)
    seen, other = {path}, first
    while other is not None and other not in seen:
        seen.add(other)
        other = _above(other)
    return first if other is None else None


def _above(path: Path) -> Path | None:
    own = _FILE.match(path.name)
    above = parent(_meta(path)) if own is not None else None
    if own is None or above is None or above == own[1]:
        return None
    for other in sorted(path.parent.glob(f"rollout-*-{escape(above)}.jsonl*")):
        if _FILE.match(other.name) and _mentions(other, own[1]):
            return other
    return None


def spawned(source: Source, session: str) -> Iterator[Spawned]:
    """The sub-agents of a session whose rollouts lie beside its own, in their files' order."""
    if source.display == "-" or _FILE.match(source.path.name) is None:
        return
    for other in sorted(source.path.parent.glob("rollout-*.jsonl*")):
        named = _FILE.match(other.name)
        if named is None or not _begins_with(other, session):
            continue
        if spawner(other) == source.path:
            yield Spawned(session=named[1], source=Source(other), meta=_meta(other))


def _begins_with(path: Path, session: str) -> bool:
    """Is the session named in the file's head? Cheaper than to read who spawned it."""
    try:
        return session.encode() in Source(path).head.data
    except BadTrace:
        return False


def sender(session: str, spans: Iterable[AnySpan]) -> AnySpan | None:
    """The call whose result names the session."""
    for span in spans:
        seen = span.observation if isinstance(span, ToolCall) else None
        if seen is not None and session in observed(seen).text:
            return span
    return None


def _meta(path: Path) -> dict[str, Json]:
    """The first line of a rollout, {} where it cannot be read or is longer than a head."""
    try:
        head = Source(path).head.lines()
    except BadTrace:
        return {}
    record = obj(decoded(head[0])) if head else {}
    return obj(record.get("payload")) if record.get("type") == META else {}


def _mentions(path: Path, session: str) -> bool:
    raw = session.encode()
    try:
        return any(raw in line for _, line in Source(path).lines())
    except BadTrace:
        return False
