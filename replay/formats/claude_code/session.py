"""One Claude Code session as a tree of spans: its thread, its branches, its sub-agents.

An abandoned branch is an agent span below the agent that took it back; a sub-agent one below the
call that sent it. Messages at the end of a thread that no call has seen yet are in no context: they
are kept on the agent span, because a session that grows may still bring the call.

Sub-agents write files of their own (`<session>/subagents/**/agent-<id>.jsonl` with a `.meta.json`;
before that `agent-<id>.jsonl` beside the session), or their lines stand in the main file. The call
that sent one is named by the sidecar, by a stream's `parent_tool_use_id`, by the call's result, or
it is the call with the same prompt; without any of these the agent hangs off the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.claude_code.lines import Line, first_text, is_line, lines
from replay.formats.claude_code.order import as_shown, strands, without_repeats
from replay.formats.claude_code.thread import Ids, Seen, ThreadSpans, signal, thread_spans
from replay.formats.common import derived_id
from replay.formats.sidecars import FileTally
from replay.formats.source import Source, Tally, decoded
from replay.trace import AgentSpan, AnySpan, Json, TimeQuality, ToolCall

BRANCH = "abandoned branch"
SUB_AGENT = "sub-agent"


class Conversation(Struct, frozen=True, kw_only=True, eq=False):
    """What an agent's lines came to, its own span left out.

    `extra` is what its own span has to keep; `signals` say where somebody stepped in.
    """

    spans: tuple[AnySpan, ...]
    extra: dict[str, Json]
    signals: tuple[dict[str, Json], ...]


class Times(Struct, frozen=True, kw_only=True):
    """The first and the last time that lines tell."""

    start_ns: int | None = None
    end_ns: int | None = None
    quality: TimeQuality = "none"

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Times:
        known = [line.at_ns for line in lines if line.at_ns is not None]
        return cls(start_ns=min(known), end_ns=max(known), quality="derived") if known else cls()


class _Sub(Struct, frozen=True, kw_only=True, eq=False):
    """A sub-agent with the id of its span and what its lines came to."""

    id: str
    agent: Agent
    talk: Conversation


def session(root: str, main: list[Line], agents: list[Agent], tally: Tally) -> Conversation:
    """Everything below the root span `root`, in the order of the main file's lines.

    What stands in the files of sub-agents comes after that.
    """
    ids = Ids()
    ids.once(root)
    thread = conversation(main, root, ids, tally)
    answers = frozenset(line.answer for line in main if line.speaks and line.answer is not None)
    subs = [_sub(agent, ids, answers) for agent in agents]
    senders = _senders(thread, subs, sent_by([*main, *(line for a in agents for line in a.lines)]))
    inline, beside, signals = list(thread.spans), list[AnySpan](), list(thread.signals)
    for sub in subs:
        call = senders.get(sub.id)
        if call is None:
            first = sub.agent.lines[0]
            sub.agent.tally.problem(
                f"line {first.number}", "the call that started this agent was not found"
            )
        place = inline if sub.agent.file is None else beside
        place += [_span(sub, call, root), *sub.talk.spans]
        signals += [{**each, "agent": sub.id} for each in sub.talk.signals]
    inline.sort(key=lambda span: span.place.line or 0)
    return Conversation(spans=(*inline, *beside), extra=thread.extra, signals=tuple(signals))


def conversation(
    lines: list[Line],
    agent: str,
    ids: Ids,
    tally: Tally,
    copied: frozenset[str] = frozenset(),
) -> Conversation:
    """The lines of one agent: its thread below the span `agent`, and its abandoned branches."""
    thread, *branches = strands(lines, tally)
    first = thread_spans(thread, parent=agent, ids=ids, tally=tally, copied=copied)
    spans, signals = list(first.spans), list(first.signals)
    after = dict(first.after)
    for branch in branches:
        begun = branch.lines[0]
        name = ids.once(derived_id(agent, BRANCH, begun.uuid or begun.number))
        seen = after[branch.after.number] if branch.after is not None else Seen()
        part = thread_spans(branch, parent=name, ids=ids, tally=tally, seen=seen, copied=copied)
        after |= part.after
        if not part.spans and all(line.copied for line in branch.lines if line.speaks):
            continue
        times = Times.of(branch.lines)
        span = AgentSpan(
            id=name,
            name=BRANCH,
            parent=agent,
            start_ns=times.start_ns,
            end_ns=times.end_ns,
            time_quality=times.quality,
            status="ok",
            place=begun.place,
            extra={"abandoned": True, **_unanswered(part)},
        )
        spans += [span, *part.spans]
        signals += [signal("rewind", begun), *part.signals]
    return Conversation(spans=tuple(spans), extra=_unanswered(first), signals=tuple(signals))


def _unanswered(part: ThreadSpans) -> dict[str, Json]:
    bodies = [message.body for message in part.unanswered]
    return {"unanswered": bodies} if bodies else {}


def _sub(agent: Agent, ids: Ids, answers: frozenset[str]) -> _Sub:
    name = ids.once(agent.name)
    talk = conversation(agent.lines, name, ids, agent.tally, copied=answers)
    return _Sub(id=name, agent=agent, talk=talk)


def _senders(thread: Conversation, subs: list[_Sub], sent: dict[str, str]) -> dict[str, ToolCall]:
    """The call that sent each sub-agent. Only calls that hang below the root can have sent one."""
    free = _calls(thread)
    found: dict[str, ToolCall] = {}
    waiting = subs
    while waiting:
        left = []
        for sub in waiting:
            call = sender(sub.agent, free, sent)
            if call is None:
                left.append(sub)
                continue
            found[sub.id] = call
            free.remove(call)
            free += _calls(sub.talk)
        if len(left) == len(waiting):
            break
        waiting = left
    return found


def _calls(talk: Conversation) -> list[ToolCall]:
    return [span for span in talk.spans if isinstance(span, ToolCall)]


def _span(sub: _Sub, call: ToolCall | None, root: str) -> AgentSpan:
    times = Times.of(sub.agent.lines)
    given = call.arguments if call is not None and isinstance(call.arguments, dict) else {}
    about = {
        "description": sub.agent.description or first_text(given, "description"),
        "file": sub.agent.file,
    }
    return AgentSpan(
        id=sub.id,
        name=sub.agent.kind or first_text(given, "subagent_type") or SUB_AGENT,
        parent=call.id if call is not None else root,
        start_ns=times.start_ns,
        end_ns=times.end_ns,
        time_quality=times.quality,
        place=sub.agent.lines[0].place,
        extra={name: text for name, text in about.items() if text} | sub.talk.extra,
    )


_RESULT_NAMES = re.compile(r"\bagentId: ([\w-]+)")
_FILE = re.compile(r"agent-.+\.jsonl(\.gz|\.zst)?$")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


class Agent(Struct, frozen=True, kw_only=True, eq=False):
    """A sub-agent and its lines. `call_id` is the call that sent it, where the source says so.

    `file` is the agent's own file, None where its lines stand in the main one.
    """

    name: str
    lines: list[Line]
    tally: Tally
    session: str | None = None
    call_id: str | None = None
    kind: str | None = None
    description: str | None = None
    file: str | None = None


def part_of(path: Path) -> Path | None:
    """The session file that a sub-agent's file belongs to and that is read along with it."""
    if _FILE.match(path.name) is None:
        return None
    for folder in path.parents:
        if folder.name == "subagents":
            return _session_file(folder.parent.parent, folder.parent.name)
    session = _session_of(path)
    return _session_file(path.parent, session) if session else None


def _session_file(folder: Path, session: str) -> Path | None:
    found = (folder / f"{session}{suffix}" for suffix in _SUFFIXES)
    return next((path for path in found if path.is_file()), None)


def _session_of(path: Path) -> str | None:
    """The session that a file beside a session file names in its first lines."""
    try:
        head = Source(path).head
    except BadTrace:
        return None
    records = filter(is_line, map(decoded, head.lines()))
    return next((first_text(record, "sessionId") for record in records), None)


def inline(grouped: dict[str, list[Line]], tally: Tally) -> list[Agent]:
    """The sub-agents whose lines stand in the main file (`order.apart`)."""
    return [
        Agent(name=name, lines=own, tally=tally, call_id=own[0].word("parent_tool_use_id"))
        for name, own in grouped.items()
    ]


def agents_in_folder(source: Source, tally: Tally) -> list[Agent]:
    """The sub-agents whose files belong to a session file, in the order of their names."""
    if source.display == "-":
        return []
    session = source.name.removesuffix(".jsonl")
    own = (source.path.parent / session / "subagents").rglob("agent-*")
    old = (path for path in source.path.parent.glob("agent-*") if _session_of(path) == session)
    paths = {path for path in (*own, *old) if _FILE.match(path.name)} - {source.path}
    found = (_read(path, source, tally) for path in sorted(paths))
    return [agent for agent in found if agent is not None]


def _read(path: Path, source: Source, tally: Tally) -> Agent | None:
    name = path.relative_to(source.path.parent).as_posix()
    part, own = Source(path), FileTally(tally, name)
    stem = part.name.removesuffix(".jsonl")
    try:
        found = as_shown(without_repeats(lines(part.records(own), own, beside=True)))
    except BadTrace as error:
        own.problem(error.where, error.why)
        return None
    if not found:
        own.problem("start", "is empty")
        return None
    meta = _meta(path.with_name(f"{stem}.meta.json"), own)
    return Agent(
        name=next((line.agent for line in found if line.agent), stem.removeprefix("agent-")),
        lines=found,
        tally=own,
        session=next((line.session for line in found if line.session), None),
        call_id=first_text(meta, "toolUseId"),
        kind=first_text(meta, "agentType"),
        description=first_text(meta, "description"),
        file=name,
    )


def _meta(path: Path, tally: Tally) -> dict[str, Json]:
    if not path.is_file():
        return {}
    try:
        value = Source(path).document()
    except BadTrace as error:
        tally.problem(path.name, error.why)
        return {}
    return value if isinstance(value, dict) else {}


def sent_by(results: Iterable[Line]) -> dict[str, str]:
    """The call that each agent's result answered, by the agent's name, as the lines tell it."""
    found: dict[str, str] = {}
    for line in results:
        for result in line.results:
            told = first_text(line.rich or {}, "agentId")
            named = not told and "agentId: " in result.text  # much faster than the expression
            written = _RESULT_NAMES.search(result.text) if named else None
            name = told or (written.group(1) if written else None)
            if name and result.call_id:
                found.setdefault(name, result.call_id)
    return found


def sender(agent: Agent, calls: Iterable[ToolCall], sent: dict[str, str]) -> ToolCall | None:
    """The call that sent the agent: of several that fit, the last before the agent's first line.

    `calls` are those no agent was found for yet; `sent` is what `sent_by` found.
    """
    first = agent.lines[0]
    call_id = agent.call_id or sent.get(agent.name)
    if call_id is not None:
        fits = [call for call in calls if call.call_id == call_id]
    else:
        fits = [call for call in calls if _asked_for(call, first)]
    if agent.file is None:
        fits = [call for call in fits if (call.place.line or 0) < first.number]
    return fits[-1] if fits else None


def _asked_for(call: ToolCall, first: Line) -> bool:
    if first.parent is not None and call.place.span == first.parent:
        return True
    given = call.arguments.get("prompt") if isinstance(call.arguments, dict) else None
    return isinstance(given, str) and bool(given) and given == first.prompt
