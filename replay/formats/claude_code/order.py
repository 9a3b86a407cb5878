"""Which lines of a Claude Code session make up one thread, and in what order?

A session file is a tree: each line names its parent, a rewind forks it, and parallel tool calls
fork it too, because each result's parent is its own call's line. Here the lines of one API
response and the results of its calls become one node, so that only real forks are left; the way
from the newest tip to the root is the thread, every other tip an abandoned branch. Recordings
that name no parents are in the order of their lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from replay.formats.claude_code.line import Line, first_text
from replay.formats.fields import listed, obj
from replay.formats.intake import Tally


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
        asked = {call for own in self.lines for call in own.asked}
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
                tally.problem(f"line {line.number}", "its parent is not above it in the file")
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
