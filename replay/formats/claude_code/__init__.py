"""Claude Code sessions: its own files, its `stream-json` output, and that output with a clock; and
sessions exported as one document (`loglines`).

One trace a session. No request is ever recorded, neither system prompt nor tool definitions, and
a stream has not even the user's prompt: each call says so in its fidelity. A session's own file
and the stream of the same session are two recordings of one run.

The wrapper `{"t": seconds, "event": …}` counts from an unknown beginning. Its seconds are taken as
if that were the epoch: durations are right, dates mean nothing, and the trace begins at the `t` of
its first line. In a bare stream only some lines tell their time; the rest stays unknown.

A session's order is known at its end only, so what is read of its lines is held while it is read:
the messages once, and little else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from replay import canon
from replay.errors import BadTrace
from replay.formats.claude_code import about, history
from replay.formats.claude_code import agents as agent_files
from replay.formats.claude_code.agents import Agent
from replay.formats.claude_code.history import Session
from replay.formats.claude_code.line import Line
from replay.formats.claude_code.lines import decoded, is_line, lines
from replay.formats.claude_code.order import apart
from replay.formats.claude_code.session import Times, session
from replay.formats.fields import listed, obj
from replay.formats.intake import HEAD_BYTES, Head, Source, Tally
from replay.formats.normal import derived_id
from replay.trace import AgentSpan, Batch, Header, Json, Level, Place

NAME = "claude-code"
TITLE = "Claude Code sessions"
FILES = ".jsonl in ~/.claude/projects, stream-json output, .json exports"
FIDELITY = (Level.PARTIAL,)
LACKS = "system prompt and tools; in a stream the user's prompt too"

_EXPORT = rb'\A\s*\{\s*"loglines"\s*:\s*\['
_LONG_LINE = (rb'"sessionId"\s*:', rb'"(parentUuid|messageId)"\s*:')


def sniff(head: Head) -> bool:
    """Other lines and noise may come first, and a line may be longer than the head."""
    if head.has(_EXPORT) or any(is_line(decoded(line)) for line in head.lines()):
        return True
    return len(head.data) >= HEAD_BYTES and head.starts(b"{") and head.has(*_LONG_LINE)


def part_of(path: Path) -> Path | None:
    """The session file that is read together with this file of a sub-agent, if it exists."""
    return agent_files.part_of(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a session. Raises BadTrace where no session has a message."""
    exported = source.head.has(_EXPORT)
    found_in = _exported(source, tally) if exported else _in_file(source, tally)
    sessions = history.sessions(found_in, source)
    files = agent_files.beside(source, tally) if sessions else []
    for agent in files:
        if agent.session not in found_in:
            agent.tally.problem("start", f"is of session {agent.session}, which is not here")
    summaries = about.summaries(line for own in found_in.values() for line in own)
    found_in.clear()
    found = 0
    for name in list(sessions):
        own = sessions.pop(name)
        if not any(line.speaks or about.is_init(line) for line in own.lines):
            continue
        found += 1
        agents = [agent for agent in files if agent.session == name]
        yield _trace(name, own, agents, summaries, source, tally)
    if not found:
        raise BadTrace(source.display, "", "holds no message of a Claude Code session")


def _in_file(source: Source, tally: Tally) -> dict[str, list[Line]]:
    return _sessions(lines(source.records(tally), tally))


def _exported(source: Source, tally: Tally) -> dict[str, list[Line]]:
    """The session of an export, `{"loglines": […]}`. Its lines may name no session: it is then
    known by what was said first."""
    listed_lines = listed(obj(source.document()).get("loglines"))
    records = ((at, each) for at, each in enumerate(listed_lines, 1) if isinstance(each, dict))
    found = list(lines(records, tally, listed=True))
    sessions = _sessions(found)
    said = next((line.message for line in found if line.message is not None), None)
    if not sessions and said is not None:
        name = derived_id(found[0].at_ns, canon.message_digest(said))
        sessions = {name: history.as_shown(history.without_repeats(found))}
    return sessions


def _sessions(found: Iterable[Line]) -> dict[str, list[Line]]:
    """The lines of each session; a line that names none belongs to the one around it."""
    sessions: dict[str, list[Line]] = {}
    nameless: list[Line] = []
    latest: str | None = None
    for line in found:
        latest = line.session or latest
        if latest is None:
            nameless.append(line)
        else:
            sessions.setdefault(latest, nameless).append(line)
            nameless = []
    return {name: history.as_shown(history.without_repeats(own)) for name, own in sessions.items()}


def _trace(
    name: str,
    session_: Session,
    files: list[Agent],
    summaries: dict[str, str],
    source: Source,
    tally: Tally,
) -> Batch:
    tally.counts["sessions"] += 1
    own = session_.lines
    main, grouped = apart(own)
    grouped = {name: its for name, its in grouped.items() if not all(e.copied for e in its)}
    item = None
    if grouped and not any(line.speaks for line in main):  # a sub-agent's file read by itself
        item = next(iter(grouped))
        main += grouped.pop(item)
    agents = [*agent_files.inline(grouped, tally), *_unless_inline(files, grouped)]
    root = item or name
    talk = session(root, main, agents, tally)
    of_agents = (line for agent in agents for line in agent.lines)
    times = Times.of(line for line in (*own, *of_agents) if not line.copied)
    ends = [line.record for line in main if line.kind == "result"]
    status, error = about.status(ends)
    signals: dict[str, Json] = {"signals": list(talk.signals)} if talk.signals else {}
    span = AgentSpan(
        id=root,
        name=NAME,
        start_ns=times.start_ns,
        end_ns=times.end_ns,
        time_quality=times.quality,
        status=status,
        error=error,
        place=Place(span=root),
        extra=about.beginning(main) | about.ending(ends) | talk.extra | signals,
    )
    header = Header(
        format=NAME,
        source_id=f"{name} stream" if _is_stream(own) else name,
        run=name,
        item=item,
        path=source.display,
        title=about.title(own, main, summaries),
        agent=NAME,
        labels=about.labels(main) | _goes_on(session_),
        reported_cost_usd=about.reported_cost(ends),
        start_ns=times.start_ns,
        end_ns=times.end_ns,
    )
    return Batch(header=header, spans=(span, *talk.spans), last=True)


def _is_stream(own: list[Line]) -> bool:
    """Is this what Claude Code printed, rather than the file it keeps? The two tell different
    things of one session, so each is a recording of its own."""
    return any(line.streamed for line in own if line.speaks or about.is_init(line))


def _goes_on(session_: Session) -> dict[str, str]:
    """The sessions whose words are this one's context, and no steps of its own."""
    return {"goes_on_from": ", ".join(session_.goes_on)} if session_.goes_on else {}


def _unless_inline(files: list[Agent], grouped: dict[str, list[Line]]) -> Iterator[Agent]:
    for agent in files:
        if agent.name in grouped:
            agent.tally.problem("start", "its agent stands in the session file too; left out")
        else:
            yield agent
