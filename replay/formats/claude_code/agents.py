"""Which agents speak in a Claude Code session besides the main one, and who sent them?

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
from replay.formats.beside import FileTally
from replay.formats.claude_code.history import as_shown, without_repeats
from replay.formats.claude_code.line import Line, first_text
from replay.formats.claude_code.lines import decoded, is_line, lines
from replay.formats.intake import Source, Tally
from replay.trace import Json, ToolCall

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


def beside(source: Source, tally: Tally) -> list[Agent]:
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
        own.problem("start", "holds no line")
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
