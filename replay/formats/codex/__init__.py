"""Codex rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, in the shapes of all releases.

One trace a session. The system prompt is known where the session kept its base instructions (since
the end of 2025); the tools offered never are. A sub-agent that the session spawned has a rollout
of its own in the same folder: it is told as a thread below the call that spawned it. A forked
session begins with a copy of the other's history, which is counted here again and said so.

A conversation is a chain from its first message on, so a session is held whole while it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replay.errors import BadTrace
from replay.formats.beside import FileTally
from replay.formats.chat import cut
from replay.formats.codex import agents
from replay.formats.codex.lines import (
    ITEM,
    META,
    Line,
    decoded,
    is_document,
    is_line,
    is_one_document,
    lines,
)
from replay.formats.codex.thread import Told, told
from replay.formats.fields import known, obj, word
from replay.formats.intake import Head, Source, Tally
from replay.formats.normal import derived_id, ns
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, Message, Place

NAME = "codex"
TITLE = "Codex rollouts"
FILES = "rollout-*.jsonl in ~/.codex/sessions"
FIDELITY = (Level.PARTIAL, Level.NONE)
LACKS = "the tools; before the end of 2025 the system prompt; requests of compactions"

_LONG_LINE = (rb'"type"\s*:\s*"session_meta"', rb'"payload"\s*:\s*\{')
_LABELS = ("cwd", "originator", "cli_version", "model_provider", "forked_from_id")


def sniff(head: Head) -> bool:
    """The first lines may be longer than the head: they hold the base instructions."""
    found = [decoded(line) for line in head.lines()[:20]]
    if any(is_line(record) or is_document(record) for record in found):
        return True
    if is_one_document(head):
        return head.has(rb'"timestamp"\s*:', rb'"instructions"\s*:')
    return head.starts(b"{") and head.has(*_LONG_LINE)


def part_of(path: Path) -> Path | None:
    """The rollout of the session that spawned this one, where it lies beside it and names it."""
    return agents.spawner(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where no item of a conversation is found."""
    own = list(lines(source, tally))
    about = _about(own, tally)
    if not any(line.kind == ITEM for line in own):
        raise BadTrace(source.display, "", "holds no item of a Codex session")
    meta = about.payload if about is not None else {}
    name = word(meta.get("id")) or derived_id(NAME, *(line.payload for line in own[:5]))
    tally.counts["sessions"] += 1
    main = told(own, parent=name, system=_system(meta), tally=tally)
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
    for sub in agents.spawned(source, session):
        if sub.session in seen:
            continue
        seen.add(sub.session)
        inner = FileTally(tally, sub.source.name)
        try:
            own = list(lines(sub.source, inner))
        except BadTrace as error:
            inner.problem(error.where or "start", error.why)
            continue
        talk = told(own, parent=sub.session, system=_system(sub.meta), tally=inner)
        call = agents.sender(sub.session, above)
        start_ns, end_ns = _times(own, sub.meta)
        span = AgentSpan(
            id=sub.session,
            name=agents.role(sub.meta) or "sub-agent",
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
    found["parent"] = agents.parent(meta)
    names = {"cli_version": "version", "forked_from_id": "forked_from"}
    return {names.get(name, name): value for name, value in found.items() if value}


def _title(own: list[Line], main: Told) -> str | None:
    """What the user first asked, as the client says, or as it stands in the conversation."""
    said = (word(line.payload.get("message")) for line in own if line.type == "user_message")
    asked = next((text for text in said if text and text.strip()), None) or main.asked
    lines_ = asked.strip().splitlines() if asked else []
    return cut(lines_[0]) if lines_ else None
