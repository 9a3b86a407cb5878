"""Codex rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, in the shapes of all releases;
and what `codex exec --json` prints (`exec`), another recording of the same run.

One trace a session, which is held whole while it is read. The system prompt is known where the
session kept its base instructions (since the end of 2025); the tools offered never are. A forked
session begins with a copy of the other's history, which is counted here again and said so.

A sub-agent that the session spawned has a rollout of its own in the same folder: it is told as a
thread below the call that spawned it. Its first line names the session that spawned it, and that
session's file names it in the answer to the call. Both have to hold, so that what is read along
with one file is exactly what is not read by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.codex.exec import is_exec, read_exec
from replay.formats.codex.lines import (
    ITEM,
    META,
    Line,
    is_document,
    is_line,
    is_one_document,
    read_lines,
)
from replay.formats.codex.thread import ThreadSpans, thread_spans
from replay.formats.common import derived_id, known, ns, obj, word
from replay.formats.sidecars import FileTally
from replay.formats.source import Head, Source, Tally, decoded
from replay.messages import observed
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, Message, Place, ToolCall

NAME = "codex"
TITLE = "Codex rollouts and `codex exec --json`"
FILES = "rollout-*.jsonl in ~/.codex/sessions, .jsonl"
FIDELITY = (Level.PARTIAL, Level.NONE)
LACKS = (
    "the tools; before the end of 2025, the system prompt; requests of compactions; in the output"
    " of `codex exec --json`, the prompts, times, model, tokens of a call, and which calls one"
    " response made"
)
VERIFIED = "real files"

_LONG_LINE = (rb'"type"\s*:\s*"session_meta"', rb'"payload"\s*:\s*\{')
_LABELS = ("cwd", "originator", "cli_version", "model_provider", "forked_from_id")


def sniff(head: Head) -> bool:
    """The first lines may be longer than the head: they hold the base instructions."""
    found = [decoded(line) for line in head.lines()[:20]]
    if is_exec(head):
        return True
    if any(is_line(record) or is_document(record) for record in found):
        return True
    if is_one_document(head):
        return head.has(rb'"timestamp"\s*:', rb'"instructions"\s*:')
    return head.starts(b"{") and head.has(*_LONG_LINE)


def part_of(path: Path) -> Path | None:
    """The rollout of the session that spawned this one, where it lies beside it and names it."""
    return spawner(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace; of what was printed, one a thread. Raises BadTrace where no item of a
    conversation is found."""
    if is_exec(source.head):
        yield from read_exec(source, tally, NAME)
        return
    own = list(read_lines(source, tally))
    about = _about(own, tally)
    if not any(line.kind == ITEM for line in own):
        raise BadTrace(source.display, "", "contains no item of a Codex session")
    meta = about.payload if about is not None else {}
    name = word(meta.get("id")) or derived_id(NAME, *(line.payload for line in own[:5]))
    tally.counts["sessions"] += 1
    main = thread_spans(own, parent=name, system=_system(meta), tally=tally)
    start_ns, end_ns = _times(own, meta)
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=start_ns,
        end_ns=end_ns,
        time_quality="none" if start_ns is None else "derived",
        status=main.status,
        error=main.error,
        place=Place(span=name),
        extra=_kept(meta) | main.extra,
    )
    subs = _sub_agents(source, name, [root, *main.spans], tally, seen={name})
    header = Header(
        format=NAME,
        source_id=name,
        path=source.display,
        title=_title(own, main),
        agent=NAME,
        labels=_labels(meta),
        start_ns=start_ns,
        end_ns=end_ns,
    )
    tally.counts["traces"] += 1
    yield Batch(header=header, spans=(root, *main.spans, *subs), last=True)


def _sub_agents(
    source: Source, session: str, above: list[AnySpan], tally: Tally, seen: set[str]
) -> list[AnySpan]:
    """The threads of sub-agents below the spans of `session`, and theirs below them."""
    found: list[AnySpan] = []
    for sub in spawned(source, session):
        if sub.session in seen:
            continue
        seen.add(sub.session)
        inner = FileTally(tally, sub.source.name)
        try:
            own = list(read_lines(sub.source, inner))
        except BadTrace as error:
            inner.problem(error.where or "start", error.why)
            continue
        talk = thread_spans(own, parent=sub.session, system=_system(sub.meta), tally=inner)
        call = sender(sub.session, above)
        start_ns, end_ns = _times(own, sub.meta)
        span = AgentSpan(
            id=sub.session,
            name=role(sub.meta) or "sub-agent",
            parent=call.id if call is not None else session,
            start_ns=start_ns,
            end_ns=end_ns,
            time_quality="none" if start_ns is None else "derived",
            status=talk.status,
            error=talk.error,
            place=Place(span=sub.session),
            extra=_kept(sub.meta) | talk.extra | {"file": sub.source.name},
        )
        tally.counts["sub_agents"] += 1
        found += [span, *talk.spans]
        found += _sub_agents(sub.source, sub.session, [span, *talk.spans], tally, seen)
    return found


def _about(own: list[Line], tally: Tally) -> Line | None:
    """The session's own first line; a second one tells of a history copied from elsewhere."""
    metas = [line for line in own if line.kind == META]
    first = metas[0] if metas else None
    for other in metas[1:]:
        copied = word(other.payload.get("id"))
        if first is not None and copied != word(first.payload.get("id")):
            tally.problem(other.where, f"history copied from session {copied} is counted here too")
    return first


def _system(meta: dict[str, Json]) -> Message | None:
    text = obj(meta.get("base_instructions")).get("text")
    if not isinstance(text, str) or not text:
        return None
    return Message(dialect="openai", body={"role": "system", "content": text})


def _times(own: list[Line], meta: dict[str, Json]) -> tuple[int | None, int | None]:
    told_ns = [line.at_ns for line in own if line.at_ns is not None]
    begun_ns = ns(meta.get("timestamp"))
    if not told_ns:
        return begun_ns, None
    return min([*told_ns, *([] if begun_ns is None else [begun_ns])]), max(told_ns)


def _kept(meta: dict[str, Json]) -> dict[str, Json]:
    """What the session says of itself and no field holds."""
    return known(
        version=word(meta.get("cli_version")),
        cwd=word(meta.get("cwd")),
        source=meta.get("source"),
        git=meta.get("git"),
        user_instructions=word(meta.get("instructions")),
    )


def _labels(meta: dict[str, Json]) -> dict[str, str]:
    found = {name: word(meta.get(name)) for name in _LABELS}
    found["git_branch"] = word(obj(meta.get("git")).get("branch"))
    found["parent"] = parent(meta)
    names = {"cli_version": "version", "forked_from_id": "forked_from"}
    return {names.get(name, name): value for name, value in found.items() if value}


def _title(own: list[Line], main: ThreadSpans) -> str | None:
    """What the user first asked, as the client says, or as it stands in the conversation."""
    said = (word(line.payload.get("message")) for line in own if line.type == "user_message")
    asked = next((text for text in said if text and text.strip()), None) or main.asked
    return title_line(asked)


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
