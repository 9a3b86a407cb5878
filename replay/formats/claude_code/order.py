"""Which lines of a Claude Code session make up one thread, in what order, and which are repeats?

Sessions repeat what was said before, here or in another session; a repeated line is context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.claude_code.lines import Line, first_text, is_line, lines
from replay.formats.common import listed, obj
from replay.formats.source import Source, Tally, decoded
from replay.trace import Json, Message


class Strand(Struct, frozen=True, kw_only=True, eq=False):
    """Lines of one thread in their order. `after`: the line of an earlier strand it goes on from.

    The first strand of a session is its thread, the others are abandoned branches.
    """

    lines: tuple[Line, ...]
    after: Line | None = None


def apart(lines: Iterable[Line]) -> tuple[list[Line], dict[str, list[Line]]]:
    """The lines of the main thread, and those of each sub-agent under a name of its own.

    The name is the agent's id; in a stream, the id of the call that delegated to it, which may
    come back (`functions.Task:0`): once its result is in, the next such lines are another agent's.
    Sidechains of old sessions have no name: they are told apart by their first prompt.
    """
    main: list[Line] = []
    agents: dict[str, list[Line]] = {}
    nameless = _Nameless()
    answered: Counter[str | None] = Counter()
    for line in lines:
        answered.update(r.call_id for r in line.results if r.call_id != line.agent)
        if not line.sidechain:
            main.append(line)
            continue
        name = line.agent or nameless.of(line)
        again = answered[name]
        agents.setdefault(f"{name}#{again + 1}" if again else name, []).append(line)
    return main, agents


class _Nameless:
    """Names for sidechains that have none: the uuid of the prompt each began with."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._latest: str | None = None

    def of(self, line: Line) -> str:
        own = line.uuid or f"line {line.number}"
        known = self._of.get(line.parent or "")
        if known is None and not line.prompt:
            known = self._latest
        self._latest = self._of[own] = known or own
        return self._latest


def strands(lines: list[Line], tally: Tally) -> list[Strand]:
    """The thread and its abandoned branches; a branch comes after what it forked from."""
    uuids = {line.uuid for line in lines if line.uuid}
    if not any(line.parent in uuids for line in lines):
        return [Strand(lines=tuple(lines))]
    nodes = _grown(lines, tally)
    tips = [node for node in nodes if node.speaks and not node.replied]
    tips.sort(key=lambda node: node.lines[-1].number, reverse=True)
    taken: set[int] = set()
    found = [_strand(tip, taken) for tip in tips]
    return found or [Strand(lines=tuple(lines))]  # none of the lines is a message


class Segment(Struct, frozen=True, kw_only=True):
    """Messages that a compaction left as they were, by the uuids of the first and the last of
    them. They follow the line `anchor`: the summary, or the boundary itself."""

    first: str
    last: str
    anchor: str


def segment(boundary: Line) -> Segment | None:
    """What a boundary says that its compaction kept, None where that is nothing."""
    said = obj(boundary.record.get("compactMetadata"))
    kept, named = obj(said.get("preservedSegment")), obj(said.get("preservedMessages"))
    uuids = [each for each in listed(named.get("uuids")) if isinstance(each, str)]
    first = first_text(kept, "headUuid") or (uuids[0] if uuids else None)
    last = first_text(kept, "tailUuid") or (uuids[-1] if uuids else None)
    anchor = first_text(kept, "anchorUuid") or first_text(named, "anchorUuid") or boundary.uuid
    if first is None or last is None or anchor is None:
        return None
    return Segment(first=first, last=last, anchor=anchor)


class _Node:
    """One answer with the results of its calls, or one other line, below what came before.

    It `speaks` where a person or the model does. `spoken` is the nearest node that does, from this
    one up.
    """

    def __init__(self, first: Line, above: _Node | None) -> None:
        self.above = above
        self.lines = [first]
        self.speaks = _is_said(first)
        self.replied = False
        self.spoken: _Node | None = self if self.speaks else above and above.spoken

    def takes(self, line: Line) -> bool:
        """Is this line a further part of the answer here, or the result of one of its calls?"""
        if self.lines[0].kind != "assistant":
            return False
        if line.kind == "assistant":
            return line.answer is not None and line.answer == self.lines[0].answer
        asked = {call for own in self.lines for call in own.call_ids}
        return any(result.call_id in asked for result in line.results)

    def in_order(self) -> list[Line]:
        """The answer first, then the results."""
        return sorted(self.lines, key=lambda line: line.kind != "assistant")


def _grown(lines: list[Line], tally: Tally) -> list[_Node]:
    """The nodes of the tree. Files only grow at their end, so a parent stands before its child.

    Lines that share a uuid are parts of one answer: the later follows the earlier. What follows the
    last message that a compaction kept follows the compaction.
    """
    moved: dict[str, str] = {}
    nodes: list[_Node] = []
    home: dict[str, _Node] = {}
    latest: _Node | None = None
    for line in lines:
        above = home.get(line.uuid or "") or home.get(line.parent or "")
        if above is None and not _is_beginning(line):
            above = latest
            if line.parent is not None and above is not None:
                tally.problem(f"line {line.number}", "its parent does not precede it in the file")
        latest = _placed(line, above, nodes)
        if line.uuid:
            home[line.uuid] = latest
        kept = segment(line) if line.subtype == "compact_boundary" else None
        if kept is not None:
            moved[kept.anchor] = kept.last
            home[kept.last] = latest
        elif line.uuid in moved:
            home[moved.pop(line.uuid)] = latest
    return nodes


def _placed(line: Line, above: _Node | None, nodes: list[_Node]) -> _Node:
    """The node that holds the line: the message above it that it is a part of, or a new one."""
    spoken = above.spoken if above is not None and _is_said(line) else None
    if spoken is not None and spoken.takes(line):
        spoken.lines.append(line)
        return spoken
    if spoken is not None:
        spoken.replied = True
    nodes.append(_Node(line, above))
    return nodes[-1]


def _is_said(line: Line) -> bool:
    """Does a person or the model speak here?"""
    return line.speaks and line.kind in {"user", "assistant"}


def _is_beginning(line: Line) -> bool:
    """A prompt without a parent begins anew; any other line without one goes on."""
    return line.parent is None and bool(line.prompt) and not line.flag("isCompactSummary")


def _strand(tip: _Node, taken: set[int]) -> Strand:
    """The way from a tip up to the root, or to the first node that an earlier strand took."""
    path: list[_Node] = []
    node: _Node | None = tip
    while node is not None and id(node) not in taken:
        taken.add(id(node))
        path.append(node)
        node = node.above
    return Strand(
        lines=tuple(line for each in reversed(path) for line in each.in_order()),
        after=node.in_order()[-1] if node is not None else None,
    )


_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def without_repeats(found: Iterable[Line]) -> list[Line]:
    """The lines without those that say again what a line before said.

    The uuid alone does not tell: an answer that came in one piece is written as several lines of
    one uuid. Under a new uuid, a repeated line has the parent and the time of the first; what
    follows it follows the first.
    """
    kept: list[Line] = []
    same_id: dict[str, list[Line]] = {}
    same_place: dict[tuple[str, int], list[Line]] = {}
    first_of: dict[str, str] = {}
    for line in found:
        if line.parent in first_of:
            line = structs.replace(line, parent=first_of[line.parent])
        before = same_id.setdefault(line.uuid, []) if line.uuid else []
        if any(_same(line, each) for each in before):
            continue
        if line.uuid and line.parent and line.at_ns is not None and line.speaks:
            there = same_place.setdefault((line.parent, line.at_ns), [])
            first = next((each for each in there if _same(line, each)), None)
            if first is not None and first.uuid:
                first_of[line.uuid] = first.uuid
                continue
            there.append(line)
        before.append(line)
        kept.append(line)
    return kept


def _same(line: Line, other: Line) -> bool:
    return line.kind == other.kind and line.message == other.message


def as_shown(found: list[Line]) -> list[Line]:
    """The lines with results as the model saw them: `content-replacement` lines tell which were
    too long for it, and what it was shown instead."""
    shown: dict[str | None, Json] = {}
    for line in found:
        if line.kind == "content-replacement":
            for each in map(obj, listed(line.record.get("replacements"))):
                call, text = first_text(each, "toolUseId"), each.get("replacement")
                if call is not None and isinstance(text, str):
                    shown[call] = text
    if not shown:
        return found
    return [_replaced(line, shown) for line in found]


def _replaced(line: Line, shown: dict[str | None, Json]) -> Line:
    if line.message is None or not any(result.call_id in shown for result in line.results):
        return line
    content = [
        {**block, "content": shown[block["tool_use_id"]]}
        if isinstance(block, dict) and _call_of(block) in shown
        else block
        for block in listed(line.message.body["content"])
    ]
    body = {**line.message.body, "content": content}
    return structs.replace(line, message=Message(dialect="anthropic", body=body))


def _call_of(block: dict[str, Json]) -> str | None:
    return first_text(block, "tool_use_id") if block.get("type") == "tool_result" else None


# --- other sessions


class Session(Struct, frozen=True, kw_only=True, eq=False):
    """The lines of a session, those it has from others among them marked; `goes_on` names these."""

    lines: list[Line]
    goes_on: tuple[str, ...] = ()


def sessions(found: dict[str, list[Line]], source: Source) -> dict[str, Session]:
    """The sessions of a file, each with what it goes on from.

    A session that has a file of its own beside this one is told there.
    """
    own_name = source.name.removesuffix(".jsonl")
    made: dict[str, Session] = {}
    for name, own in found.items():
        if name == own_name or own_name not in found or _file_of(name, source) is None:
            made[name] = _with_history(name, own, found, source)
    return made


def _with_history(
    name: str, own: list[Line], found: dict[str, list[Line]], source: Source
) -> Session:
    forked = (first_text(obj(line.record.get("forkedFrom")), "sessionId") for line in own)
    goes_on = [*dict.fromkeys(session for session in forked if session)]
    before: list[Line] = []
    for other, its in found.items():
        if other != name:
            above = _above(own, its)
            goes_on += [other] if above else []
            before += above
    if before:
        own = sorted([*before, *own], key=lambda line: line.number)
    if source.display != "-" and name == source.name.removesuffix(".jsonl"):
        for other, uuids in _earlier(own, source):
            goes_on.append(other)
            own = [_copied(line) if line.uuid in uuids else line for line in own]
    if not any(line.kind == "assistant" and line.speaks and not line.copied for line in own):
        return Session(lines=[structs.replace(line, copied=False) for line in found[name]])
    return Session(lines=own, goes_on=tuple(goes_on))


def _copied(line: Line) -> Line:
    return structs.replace(line, copied=True)


def _above(own: list[Line], its: list[Line]) -> list[Line]:
    """The lines of another session that these go on from, up to its beginning; with an answer all
    its lines, and the results of its calls."""
    known = {line.uuid for line in own}
    by_id = {line.uuid: line for line in its if line.uuid and line.uuid not in known}
    wanted: set[str] = set()
    for line in own:
        above = line.parent
        while above in by_id and above not in wanted:
            wanted.add(above)
            above = by_id[above].parent
    if not wanted:
        return []
    answers = {by_id[each].answer for each in wanted} - {None}
    asked = {call for line in its if line.answer in answers for call in line.call_ids}
    return [
        _copied(line)
        for line in its
        if line.uuid in wanted
        or line.answer in answers
        or any(result.call_id in asked for result in line.results)
    ]


def _file_of(name: str, source: Source) -> Path | None:
    """The file of a session of that name beside the source."""
    if source.display == "-" or Path(name).name != name:
        return None
    found = (source.path.with_name(f"{name}{suffix}") for suffix in _SUFFIXES)
    return next((path for path in found if path != source.path and path.is_file()), None)


def _earlier(own: list[Line], source: Source) -> list[tuple[str, frozenset[str]]]:
    """The sessions beside this one that begin with its first line and ended before it did, with
    the uuids of their lines."""
    first = next((line.uuid for line in own if line.uuid and not line.sidechain), None)
    folder = source.path.parent
    found = _beginnings(folder, folder.stat().st_mtime_ns)[1].get(first or "", ())
    told = []
    for path in found:
        if path != source.path:
            its, last_ns = _uuids(path)
            if last_ns < _last_ns(own):
                told.append((_stem(path), its))
    return told


@lru_cache(maxsize=8)
def _beginnings(folder: Path, changed_ns: int) -> tuple[int, dict[str, list[Path]]]:
    """The session files of a folder by the uuid of their first line, as of its last change."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.jsonl*")):
        if path.name.endswith(_SUFFIXES) and not path.name.startswith("agent-"):
            first = _first_uuid(path)
            if first is not None:
                found.setdefault(first, []).append(path)
    return changed_ns, found


def _first_uuid(path: Path) -> str | None:
    try:
        head = Source(path).head
    except BadTrace:
        return None
    records = filter(is_line, map(decoded, head.lines()))
    return next((first_text(r, "uuid") for r in records if first_text(r, "uuid")), None)


def _uuids(path: Path) -> tuple[frozenset[str], int]:
    """The uuids of a file's lines, and its last time; what cannot be read has none."""
    tally = Tally()
    uuids, last_ns = set(), 0
    try:
        for line in lines(Source(path).records(tally), tally):
            uuids.add(line.uuid or "")
            last_ns = max(last_ns, line.at_ns or 0)
    except BadTrace:
        pass
    return frozenset(uuids - {""}), last_ns


def _last_ns(own: list[Line]) -> int:
    return max((line.at_ns or 0 for line in own), default=0)


def _stem(path: Path) -> str:
    return next(path.name.removesuffix(end) for end in _SUFFIXES if path.name.endswith(end))
