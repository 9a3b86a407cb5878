"""Claude Code sessions: its own files, its `stream-json` output, that output with a clock, or as
messages of the Agent SDK (`sdk`); and sessions exported as one document (`loglines`).

One trace a session. No request is ever recorded, neither system prompt nor tool definitions, and a
stream has not even the user's prompt: each call says so in its fidelity. A session's own file and
the stream of the same session are two recordings of one run. Nothing that a session says of itself
is an outcome: a run that ends with `success` has ended, not succeeded.

The wrapper `{"t": seconds, "event": …}` counts from an unknown beginning. Its seconds are taken as
if that were the epoch: durations are right, dates mean nothing, and the trace begins at the `t` of
its first line. In a bare stream only some lines tell their time; the rest stays unknown.

A session's order is known at its end only, so what is read of its lines is held while it is read:
the messages once, and little else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from msgspec import structs

from replay import digests
from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.claude_code import order
from replay.formats.claude_code import session as agent_files
from replay.formats.claude_code.lines import Line, first_text, is_line, is_noise, lines
from replay.formats.claude_code.order import Session, apart
from replay.formats.claude_code.sdk import as_streamed, is_sdk
from replay.formats.claude_code.session import Agent, Times, session
from replay.formats.common import count, derived_id, listed, obj, usd, word
from replay.formats.source import HEAD_BYTES, Head, Source, Tally, decoded
from replay.pins import version_labels
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, ModelCall, Place, Status

NAME = "claude-code"
TITLE = "Claude Code sessions, Claude Agent SDK messages"
FILES = ".jsonl in ~/.claude/projects, stream-json output, .json exports"
FIDELITY = (Level.PARTIAL,)
LACKS = "the system prompt and the tools; in a stream, the user's prompt too"
VERIFIED = "real files"

_EXPORT = rb'\A\s*\{\s*"loglines"\s*:\s*\['
_LONG_LINE = (rb'"sessionId"\s*:', rb'"(parentUuid|messageId)"\s*:')


def sniff(head: Head) -> bool:
    """Other lines and noise may come first, and a line may be longer than the head."""
    found = map(decoded, head.lines())
    if head.has(_EXPORT) or any(is_line(each) or is_sdk(each) for each in found):
        return True
    return len(head.data) >= HEAD_BYTES and head.starts(b"{") and head.has(*_LONG_LINE)


def part_of(path: Path) -> Path | None:
    """The session file that is read together with this file of a sub-agent, if it exists."""
    return agent_files.part_of(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a session. Raises BadTrace where no session has a message."""
    exported = source.head.has(_EXPORT)
    found_in = _exported(source, tally) if exported else _in_file(source, tally)
    sessions = order.sessions(found_in, source)
    files = agent_files.agents_in_folder(source, tally) if sessions else []
    for agent in files:
        if agent.session not in found_in:
            agent.tally.problem(
                "start", f"belongs to session {agent.session}, which is not in these files"
            )
    summaries = session_summaries(line for own in found_in.values() for line in own)
    found_in.clear()
    found = 0
    for name in list(sessions):
        own = sessions.pop(name)
        if not any(line.speaks or is_init(line) for line in own.lines):
            continue
        found += 1
        agents = [agent for agent in files if agent.session == name]
        yield _trace(name, own, agents, summaries, source, tally)
    if not found:
        raise BadTrace(source.display, "", "contains no message of a Claude Code session")


def _in_file(source: Source, tally: Tally) -> dict[str, list[Line]]:
    return _sessions(lines(as_streamed(source.records(tally)), tally))


def _exported(source: Source, tally: Tally) -> dict[str, list[Line]]:
    """The session of an export, `{"loglines": […]}`. Its lines may name no session: it is then
    known by what was said first."""
    listed_lines = listed(obj(source.document()).get("loglines"))
    records = ((at, each) for at, each in enumerate(listed_lines, 1) if isinstance(each, dict))
    found = list(lines(records, tally, listed=True))
    sessions = _sessions(found)
    said = next((line.message for line in found if line.message is not None), None)
    if not sessions and said is not None:
        name = derived_id(found[0].at_ns, digests.message_digest(said))
        sessions = {name: order.as_shown(order.without_repeats(found))}
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
    return {name: order.as_shown(order.without_repeats(own)) for name, own in sessions.items()}


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
    status, error = outcome_status(ends)
    agent = _agent(main)
    signals: dict[str, Json] = {"signals": list(talk.signals)} if talk.signals else {}
    span = AgentSpan(
        id=root,
        name=agent,
        start_ns=times.start_ns,
        end_ns=times.end_ns,
        time_quality=times.quality,
        status=status,
        error=error,
        place=Place(span=root),
        extra=beginning(main) | ending(ends) | talk.extra | signals,
    )
    header = Header(
        format=NAME,
        source_id=f"{name} stream" if _is_stream(own) else name,
        run=name,
        item=item,
        path=source.display,
        title=title(own, main, summaries),
        agent=agent,
        labels=labels(main) | _goes_on(session_),
        reported_cost_usd=reported_cost(ends),
        start_ns=times.start_ns,
        end_ns=times.end_ns,
    )
    spans = _without_begun_counts(talk.spans, ends) if _is_stream(own) else talk.spans
    return Batch(header=header, spans=(span, *spans), last=True)


def _without_begun_counts(
    spans: Iterable[AnySpan], ends: list[dict[str, Json]]
) -> tuple[AnySpan, ...]:
    """The spans, output tokens left out where they are those that the answers began with: a stream
    shows no others, and its end says how many there were in all."""
    found = tuple(spans)
    counts = [obj(end.get("usage")).get("output_tokens") for end in ends]
    whole = max((number for each in counts if (number := count(each)) is not None), default=0)
    known = [each.usage for each in found if isinstance(each, ModelCall) and each.usage is not None]
    if sum(usage.output_tokens or 0 for usage in known) >= whole:
        return found
    return tuple(
        structs.replace(each, usage=structs.replace(each.usage, output_tokens=None))
        if isinstance(each, ModelCall) and each.usage is not None
        else each
        for each in found
    )


def _agent(main: list[Line]) -> str:
    """Qwen Code prints what Claude Code prints, and says that it is Qwen Code."""
    return "qwen-code" if any("qwen_code_version" in line.record for line in main) else NAME


def _is_stream(own: list[Line]) -> bool:
    """Is this what Claude Code printed, rather than the file it keeps? The two tell different
    things of one session, so each is a recording of its own."""
    return any(line.streamed for line in own if line.speaks or is_init(line))


def _goes_on(session_: Session) -> dict[str, str]:
    """The sessions whose words are this one's context, and no steps of its own."""
    return {"goes_on_from": ", ".join(session_.goes_on)} if session_.goes_on else {}


def _unless_inline(files: list[Agent], grouped: dict[str, list[Line]]) -> Iterator[Agent]:
    for agent in files:
        if agent.name in grouped:
            agent.tally.problem("start", "left out: the session file has this agent too")
        else:
            yield agent


_RESULT = ("is_error", "terminal_reason", "num_turns", "duration_ms", "duration_api_ms")


def is_init(line: Line) -> bool:
    """Is this the line a stream begins a run with?"""
    return line.subtype == "init"


def beginning(main: list[Line]) -> dict[str, Json]:
    """What the last beginning of a stream says; of the tools it gives the names alone."""
    record = next((line.record for line in reversed(main) if is_init(line)), {})
    tools = record.get("tools")
    names = [tool for tool in tools if isinstance(tool, str)] if isinstance(tools, list) else []
    found = {
        "model": record.get("model"),
        "cwd": record.get("cwd"),
        "version": record.get("claude_code_version"),
    }
    return ({"tool_names": names} if names else {}) | _plain(found)


def ending(ends: list[dict[str, Json]]) -> dict[str, Json]:
    """What the result lines of a stream say, the last one first; none of it is an outcome."""
    told = [
        _plain({"result_subtype": end.get("subtype"), **{name: end.get(name) for name in _RESULT}})
        for end in ends
    ]
    if not told:
        return {}
    return told[-1] | ({"earlier_results": told[:-1]} if told[1:] else {})


def outcome_status(ends: list[dict[str, Json]]) -> tuple[Status, str | None]:
    if not ends:
        return "unset", None
    subtype = first_text(ends[-1], "subtype") or ""
    if ends[-1].get("is_error") is True or subtype.startswith("error"):
        return "error", first_text(ends[-1], "result") or subtype or "error"
    return "ok", None


def reported_cost(ends: list[dict[str, Json]]) -> float | None:
    """The last total: it counts on from one result line to the next."""
    return usd(ends[-1].get("total_cost_usd")) if ends else None


def labels(main: list[Line]) -> dict[str, str]:
    fields = {
        "cwd": ("cwd",),
        "version": ("version", "claude_code_version", "qwen_code_version"),
        "git_branch": ("gitBranch",),
    }
    found = {
        label: next((word for line in main if (word := line.word(*names))), None)
        for label, names in fields.items()
    }
    known = {label: word for label, word in found.items() if word is not None}
    return known | _servers(main)


def _servers(main: list[Line]) -> dict[str, str]:
    """What a stream says of each MCP server when it begins: its version, else whether it
    connected."""
    record = next((line.record for line in reversed(main) if is_init(line)), {})
    servers = record.get("mcp_servers")
    named = [obj(each) for each in servers] if isinstance(servers, list) else []
    said = {
        str(each.get("name")): word(obj(each.get("serverInfo")).get("version"))
        or word(each.get("version"))
        or word(each.get("status"))
        for each in named
        if each.get("name")
    }
    return version_labels(said, "mcp.")


def session_summaries(found: Iterable[Line]) -> dict[str, str]:
    """Summaries by the line they end at: they stand in any session's file."""
    summaries = (line for line in found if line.kind == "summary")
    return {line.word("leafUuid") or "": line.word("summary") or "" for line in summaries}


def title(own: list[Line], main: list[Line], summaries: dict[str, str]) -> str | None:
    """The title a person or the model gave, else the summary, else what the user first asked."""
    candidates = chain(
        (line.word("customTitle") for line in reversed(own) if line.kind == "custom-title"),
        (line.word("aiTitle") for line in reversed(own) if line.kind == "ai-title"),
        (summaries.get(line.uuid) for line in reversed(own) if line.uuid),
        (line.prompt for line in main if _is_asked(line)),
    )
    return next(filter(None, map(title_line, candidates)), None)


def _is_asked(line: Line) -> bool:
    """Did a person write this prompt?"""
    if line.flag("isMeta") or line.flag("isCompactSummary"):
        return False
    return bool(line.prompt) and not is_noise(line.prompt)


def _plain(found: dict[str, Json]) -> dict[str, Json]:
    """The fields that are known and no containers."""
    return {name: value for name, value in found.items() if isinstance(value, (str, int, float))}
