"""Gemini CLI sessions (`~/.gemini/tmp/*/chats/session-*`) and the checkpoints of `/chat save`; and
the sessions of Qwen Code, a fork of it (`qwen`).

One trace a session. Neither system prompt nor tool definitions are recorded. Sub-agents write
sessions of their own into a folder named for the session (`chats/<session>/<agent>.jsonl`); they
are told as threads below the call that sent them. A checkpoint holds the history alone: no times,
no tokens, no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.common import derived_id, known, listed, ns, obj, word
from replay.formats.gemini_cli.qwen import is_qwen, qwen_session
from replay.formats.gemini_cli.thread import (
    Record,
    Session,
    SpanBuilder,
    is_lines,
    session,
    signal,
    span_name,
)
from replay.formats.sidecars import FileTally
from replay.formats.source import Head, Source, Tally
from replay.trace import AgentSpan, AnySpan, Batch, Context, Header, Json, Level, Place, ToolCall

NAME = "gemini-cli"
TITLE = "Gemini CLI and Qwen Code sessions, Gemini CLI checkpoints"
FILES = ".json, .jsonl in ~/.gemini/tmp; .jsonl in ~/.qwen/projects"
FIDELITY = (Level.PARTIAL,)
LACKS = "the system prompt and the tools"
VERIFIED = "real files"

_FILE = re.compile(r".+\.jsonl?(\.gz|\.zst)?$")
_SESSION = (rb'\A\W*\{?\s*"sessionId"\s*:', rb'"projectHash"\s*:')
_CONTENTS = (rb'"role"\s*:\s*"(user|model)"', rb'"parts"\s*:\s*\[')


def sniff(head: Head) -> bool:
    if is_lines(head) or is_qwen(head):
        return True
    if head.starts(b"{") and head.has(
        rb'"sessionId"\s*:', rb'"projectHash"\s*:', rb'"messages"\s*:'
    ):
        return head.has(rb'"type"\s*:\s*"(user|gemini|info|error|warning)"')
    beginning = rb'\A\W*("history"|"clientHistory")\s*:|\A[^"]*\[\s*\{\s*"(role|parts)"\s*:'
    return head.starts(b"[", b"{") and head.has(beginning, *_CONTENTS)


def part_of(path: Path) -> Path | None:
    """The session whose sub-agent wrote this file, where its file lies above the folder."""
    if _FILE.match(path.name) is None or path.parent.parent.name != "chats":
        return None
    named = path.parent.name
    above = path.parent.parent.glob(f"session-*-{escape(named[:8])}.json*")
    return next((each for each in sorted(above) if _session_of(each) == named), None)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where the file contains no message."""
    own = qwen_session(source, tally) if is_qwen(source.head) else session(source, tally)
    if not any(record.kind in ("user", "gemini") for record in own.records):
        raise BadTrace(
            source.display, "", "contains no message of a Gemini CLI or Qwen Code session"
        )
    name = word(own.about.get("sessionId")) or _content_id(own)
    kind = word(own.about.get("kind"))
    item = source.name.partition(".")[0] if kind == "subagent" else None
    tally.counts["sessions"] += 1
    talk = _batch_of(item or name, own, tally)
    spans = [*talk.spans, *_sub_agents(source, own, talk, tally)]
    root = _agent(item or name, own.agent, None, own, talk)
    header = Header(
        format=NAME,
        source_id=name,
        item=item,
        path=source.display,
        title=_title(own, talk),
        agent=own.agent,
        labels=_labels(own),
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    yield Batch(header=header, spans=(root, *spans), last=True)


class _Talk(Struct, frozen=True, kw_only=True, eq=False):
    """What the records of one agent came to, its own span left out."""

    spans: tuple[AnySpan, ...]
    asked: str | None
    extra: dict[str, Json]


def _batch_of(root: str, own: Session, tally: Tally) -> _Talk:
    """The thread and the branches that were left for it."""
    after: dict[int, Context | None] = {}
    thread = SpanBuilder(root, None, after, tally)
    strands: list[tuple[AgentSpan | None, SpanBuilder]] = [(None, thread)]
    main = set(_line_to(own.tip))
    tips: dict[int, SpanBuilder] = {}
    names: set[str] = set()
    for record in own.records:
        above = id(record.after)
        teller = thread if id(record) in main else tips.pop(above, None)
        if teller is None:
            span = _branch(root, record)
            teller = SpanBuilder(span.id, after.get(above), after, tally)
            strands.append((span, teller))
        if teller is not thread:
            tips[id(record)] = teller
        name = span_name(root, record)
        while name in names:
            name = derived_id(name)
        names.add(name)
        teller.build(record, name)
    spans: list[AnySpan] = []
    for branch, teller in strands:
        inner = teller.spans()
        if branch is not None and inner:
            left = [message.body for message in teller.unanswered]
            spans.append(structs.replace(branch, extra=branch.extra | known(unanswered=left)))
        spans += inner
    signals = [s for _, teller in strands for s in teller.signals]
    signals += [signal("rewind", place) for place in own.rewinds]
    left = [message.body for message in thread.unanswered]
    return _Talk(
        spans=tuple(spans),
        asked=thread.asked,
        extra=known(
            signals=sorted(signals, key=lambda each: each.get("message", 0)), unanswered=left
        ),
    )


def _line_to(record: Record | None) -> list[int]:
    """The records that the last one follows, and itself, by their objects."""
    found: list[int] = []
    while record is not None:
        found.append(id(record))
        record = record.after
    return found


def _branch(root: str, first: Record) -> AgentSpan:
    return AgentSpan(
        id=derived_id(root, "abandoned branch", first.place.message),
        name="abandoned branch",
        parent=root,
        start_ns=first.at_ns,
        time_quality="none" if first.at_ns is None else "derived",
        status="ok",
        place=first.place,
        extra={"abandoned": True},
    )


def _agent(name: str, title: str, parent: str | None, own: Session, talk: _Talk) -> AgentSpan:
    told_ns = [ns(own.about.get("startTime")), ns(own.about.get("lastUpdated"))]
    times = [each for each in (*told_ns, *(r.at_ns for r in own.records)) if each is not None]
    return AgentSpan(
        id=name,
        name=title,
        parent=parent,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality="derived" if times else "none",
        place=Place(span=name),
        extra=talk.extra,
    )


# --- sub-agents


def _sub_agents(source: Source, own: Session, talk: _Talk, tally: Tally) -> Iterator[AnySpan]:
    """The threads of the session's sub-agents, below the calls that sent them."""
    name = word(own.about.get("sessionId"))
    if name is None or "/" in name or name in {".", ".."} or source.display == "-":
        return
    if source.path.parent.name != "chats":
        return
    if part_of(source.path) is not None:
        return
    calls = {span.call_id: span.id for span in talk.spans if isinstance(span, ToolCall)}
    sent = {word(call.get("agentId")): calls.get(word(call.get("id"))) for call in _calls(own)}
    for path in sorted((source.path.parent / name).glob("*.json*")):
        if part_of(path) != source.path:
            continue
        part_tally = FileTally(tally, path.name)
        try:
            inner = session(Source(path), part_tally)
        except BadTrace as error:
            part_tally.problem(error.where or "start", error.why)
            continue
        stem = path.name.partition(".")[0]
        part = _batch_of(stem, inner, part_tally)
        call = sent.get(stem) or sent.get(word(inner.about.get("sessionId")))
        agent = _agent(stem, "sub-agent", call or word(own.about.get("sessionId")), inner, part)
        tally.counts["sub_agents"] += 1
        yield structs.replace(agent, extra=agent.extra | {"file": path.name})
        yield from part.spans


def _calls(own: Session) -> Iterable[dict[str, Json]]:
    return (obj(call) for record in own.records for call in listed(record.value.get("toolCalls")))


def _session_of(path: Path) -> str | None:
    """The session id at the head of a file."""
    try:
        head = Source(path).head
    except BadTrace:
        return None
    found = re.search(rb'"sessionId"\s*:\s*"([^"\\]+)"', head.data)
    return found[1].decode("utf-8", "replace") if found is not None else None


# --- the header


def _content_id(own: Session) -> str:
    return derived_id(NAME, *(record.value for record in own.records))


def _title(own: Session, talk: _Talk) -> str | None:
    shown = word(own.about.get("summary")) or talk.asked
    return title_line(shown)


def _labels(own: Session) -> dict[str, str]:
    found = {
        "project": word(own.about.get("projectHash")),
        "cwd": word(own.about.get("cwd"))
        or word(next(iter(listed(own.about.get("directories"))), None)),
        "version": word(own.about.get("version")),
        "git_branch": word(own.about.get("gitBranch")),
    }
    return {name: value for name, value in found.items() if value is not None}
