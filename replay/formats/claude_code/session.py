"""One Claude Code session as a tree of spans: its thread, its branches, its sub-agents.

An abandoned branch is an agent span below the agent that took it back; a sub-agent one below the
call that sent it. Messages at the end of a thread that no call has seen yet are in no context:
they are kept on the agent span, because a session that grows may still bring the call.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replay.formats.claude_code.agents import Agent, sender, sent_by
from replay.formats.claude_code.line import Line, first_text
from replay.formats.claude_code.order import strands
from replay.formats.claude_code.seen import Seen
from replay.formats.claude_code.signals import signal
from replay.formats.claude_code.thread import Ids, Told, told
from replay.formats.intake import Tally
from replay.formats.normal import derived_id
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
            sub.agent.tally.problem(f"line {first.number}", "no call that sent this agent is known")
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
    first = told(thread, parent=agent, ids=ids, tally=tally, copied=copied)
    spans, signals = list(first.spans), list(first.signals)
    after = dict(first.after)
    for branch in branches:
        begun = branch.lines[0]
        name = ids.once(derived_id(agent, BRANCH, begun.uuid or begun.number))
        seen = after[branch.after.number] if branch.after is not None else Seen()
        part = told(branch, parent=name, ids=ids, tally=tally, seen=seen, copied=copied)
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


def _unanswered(part: Told) -> dict[str, Json]:
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
