"""One thread of a Claude Code recording told as spans.

A session records a conversation, not requests: what the model saw is rebuilt from what was said.
Three things break the simple "everything before it". A compaction starts a new context at its
summary, to which it may leave the last messages as they were. An answer whose calls were never run
because another answer follows it at once was given up (a broken stream, asked again): the second
was asked what the first was asked, and the token counts of real runs bear this out. An error the
harness wrote in the model's name is a failed call that no later call saw.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from msgspec import Struct, structs

from replay.formats import normal
from replay.formats.claude_code import answer
from replay.formats.claude_code.answer import Item
from replay.formats.claude_code.line import Line
from replay.formats.claude_code.order import Segment, Strand, segment
from replay.formats.claude_code.seen import (
    ATTACHED,
    CLEARED,
    NO_ANSWER,
    NO_EARLIER,
    NO_KEPT,
    NO_PROMPT,
    NO_SUMMARY,
    NOTHING,
    Seen,
)
from replay.formats.claude_code.signals import signal, stepped_in
from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import known
from replay.formats.intake import Tally
from replay.trace import AnySpan, Json, Message, Request, ToolCall, extend


class Ids:
    """The span ids of one trace: each is given once, a second asker gets it numbered."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def once(self, wanted: str) -> str:
        self._given[wanted] += 1
        again = self._given[wanted]
        return wanted if again == 1 else self.once(f"{wanted}#{again}")


class Told(Struct, frozen=True, kw_only=True, eq=False):
    """What a strand came to.

    `after` is what had been seen behind each line, by its number: a branch begins there.
    `unanswered` are the messages at the end that no call saw. `signals` say where a person or
    the harness stepped in.
    """

    spans: tuple[AnySpan, ...]
    after: dict[int, Seen]
    unanswered: tuple[Message, ...]
    signals: tuple[dict[str, Json], ...]


def told(
    strand: Strand,
    *,
    parent: str,
    ids: Ids,
    tally: Tally,
    seen: Seen = NOTHING,
    copied: frozenset[str] = frozenset(),
) -> Told:
    """The spans of a strand under the agent span `parent`, its first call asked after `seen`.

    `copied` are ids of answers that another thread gave: where this one repeats them they are
    what it was told, not calls of its own.
    """
    request = Request(context=seen.context)
    thread = Thread(parent=parent, request=request, fidelity=seen.fidelity, tally=tally)
    teller = _Teller(strand, thread, ids, tally, copied)
    found = answer.items(strand.lines)
    spoken = [item for item in found if item[0].speaks]
    followers = dict(zip((item[0].number for item in spoken), spoken[1:], strict=False))
    for item in found:
        teller.tell(item, followers.get(item[0].number))
    return teller.told()


class _Teller:
    """Tells a `Thread` item by item, and keeps what a Thread does not know."""

    def __init__(
        self, strand: Strand, thread: Thread, ids: Ids, tally: Tally, copied: frozenset[str]
    ) -> None:
        self._thread = thread
        self._ids = ids
        self._tally = tally
        self._copied = copied
        self._copied_calls: set[str | None] = set()
        self._given_up: set[str] = set()
        self._asked_in: dict[str, list[Line]] = {}
        self._rich: dict[int, dict[str, Json]] = {}
        self._prompted = thread.context is not None
        self._compacted = False
        self._kept: Segment | None = None
        self._depths: dict[str, tuple[int, int]] = {}
        self._before_ns = strand.after.at_ns if strand.after is not None else None
        self._end = strand.lines[-1]
        self._after: dict[int, Seen] = {}
        self._unanswered: list[Message] = []
        self._signals: list[dict[str, Json]] = []
        first = strand.lines[0]
        if strand.after is None and first.parent is not None and not first.sidechain:
            self._thread.weaken(NO_EARLIER)

    def tell(self, item: Item, follower: Item | None) -> None:
        """The next item; `follower` is the next that speaks."""
        line, depth = item[0], self._depth
        if not line.speaks:
            self._happened(line)
        elif line.kind != "assistant":
            self._heard(line)
        elif line.copied or line.answer in self._copied:
            self._repeated(item)
        elif answer.is_filler(item):
            self._overheard(answer.merged(item))
        else:
            self._said(item, follower)
        if line.speaks or line.at_ns is not None:
            self._before_ns = item[-1].at_ns
        seen = Seen(context=self._thread.context, fidelity=self._thread.fidelity)
        self._after.update((each.number, seen) for each in item)
        self._depths.update((each.uuid, (depth, self._depth)) for each in item if each.uuid)

    def told(self) -> Told:
        for call in self._thread.open_calls():
            if call.asked_by not in self._given_up:
                self._tally.problem(f"line {call.place.line}", f"{call.call_id!r} has no result")
        return Told(
            spans=tuple(map(self._timed, self._thread.spans())),
            after=self._after,
            unanswered=tuple(self._unanswered),
            signals=tuple(self._signals),
        )

    @property
    def _depth(self) -> int:
        return self._thread.context.depth if self._thread.context is not None else 0

    def _happened(self, line: Line) -> None:
        """A line beside the conversation that tells what became of it."""
        subtype = line.subtype
        if line.kind == "attachment":
            self._thread.weaken(ATTACHED)
        elif subtype == "init":
            self._prompted = False
            self._before_ns = None
            thread = self._thread
            thread.request = structs.replace(thread.request, model=line.word("model"))
        elif subtype == "compact_boundary":
            self._compacted, self._kept = True, segment(line)
            self._signal("compaction", line)
        elif subtype == "microcompact_boundary":
            self._thread.weaken(CLEARED)
        elif subtype in {"api_retry", "api_error"}:
            self._signal(subtype, line)

    def _heard(self, line: Line) -> None:
        message = line.message
        assert message is not None
        for kind in stepped_in(line):
            self._signal(kind, line)
        if line.flag("isCompactSummary") or (self._compacted and line.prompt):
            self._begin_again(message)
        elif line.results and all(each.call_id in self._copied_calls for each in line.results):
            self._overheard(message)
        else:
            self._thread.heard(message, place=line.place, at_ns=line.at_ns)
        if line.rich is not None:
            self._rich[id(message)] = line.rich
        if line.kind == "attachment":
            self._thread.weaken(ATTACHED)
        if line.prompt:
            self._prompted = True
            self._unanswered.append(message)

    def _repeated(self, item: Item) -> None:
        """An answer copied from another thread: part of the context, no call of this one."""
        self._copied_calls.update(call for line in item for call in line.asked)
        self._overheard(answer.merged(item))
        self._unanswered.clear()

    def _said(self, item: Item, follower: Item | None) -> None:
        if self._compacted:
            self._begin_again()
            self._thread.weaken(NO_SUMMARY)
        elif not self._prompted:
            self._thread.weaken(NO_PROMPT)
        asked_after = self._thread.context
        turn = self._turn(item)
        message = answer.merged(item) if turn.error is None else None
        if turn.error is not None:
            self._signal("failed_call", item[0])
        elif follower is not None and answer.given_up(item, follower):
            turn = self._abandoned(turn, item, follower)
        elif message is None:
            self._thread.weaken(NO_ANSWER)
        self._thread.said(message, turn)
        self._unanswered.clear()
        if turn.id in self._given_up:
            self._thread.context = asked_after

    def _turn(self, item: Item) -> Turn:
        first, start, end = item[0], self._before_ns, item[-1].at_ns
        name = self._ids.once(first.answer or first.uuid or f"line-{first.number}")
        self._asked_in[name] = [line for line in item for _ in line.asked]
        response = answer.response(item)
        if item[-1] is self._end and self._end.streamed:  # more of this answer may be to come
            response = structs.replace(response, stop=None, stop_raw=None)
        return Turn(
            id=name,
            response=response,
            usage=normal.anthropic_usage(answer.latest(item, "usage")),
            cost=answer.cost(item),
            start_ns=start,
            end_ns=end,
            time_quality=_derived(start, end),
            place=first.place,
            error=answer.error(item),
            extra=answer.extra(item),
        )

    def _abandoned(self, turn: Turn, item: Item, instead: Item) -> Turn:
        self._given_up.add(turn.id)
        calls = len(self._asked_in[turn.id])
        why = f"given up for the answer at line {instead[0].number}; its calls were not run"
        self._tally.problem(f"line {item[0].number}", f"an answer with {calls} calls was {why}")
        return structs.replace(turn, extra={**turn.extra, "given_up_for": instead[0].answer})

    def _timed(self, span: AnySpan) -> AnySpan:
        """A tool call begins with the line that asked for it, not with the end of the answer."""
        if not isinstance(span, ToolCall) or span.asked_by is None:
            return span
        line = self._asked_in[span.asked_by].pop(0)
        seen = span.observation
        rich = self._rich.get(id(seen.message)) if seen is not None else None
        return structs.replace(
            span,
            extra=span.extra | (_told_by_tool(rich) if rich else {}),
            start_ns=line.at_ns,
            time_quality=_derived(line.at_ns, span.end_ns),
            place=line.place,
        )

    def _overheard(self, message: Message | None) -> None:
        """What later calls see without anybody having been asked here."""
        self._thread.context = extend(self._thread.context, (message,) if message else ())

    def _begin_again(self, *summary: Message) -> None:
        kept, left = self._kept, self._left()
        first = kept is not None and kept.anchor not in self._depths  # the summary is the anchor
        self._compacted, self._kept = False, None
        self._thread.reset(*(summary + left if first else left + summary))
        self._thread.fidelity = NOTHING.fidelity
        if kept is not None and not left:
            self._thread.weaken(NO_KEPT)

    def _left(self) -> tuple[Message, ...]:
        """The messages that the compaction left as they were."""
        kept, context = self._kept, self._thread.context
        if kept is None or context is None or not {kept.first, kept.last} <= self._depths.keys():
            return ()
        first, last = self._depths[kept.first][0], self._depths[kept.last][1]
        return tuple(context.messages()[first:last])

    def _signal(self, kind: str, line: Line) -> None:
        if not line.copied:
            self._signals.append(signal(kind, line))


def _told_by_tool(rich: dict[str, Json]) -> dict[str, Json]:
    """What the tool itself says of how it ended."""
    code = rich.get("exitCode")
    return known(
        exit_code=code if type(code) is int else None,
        interrupted=True if rich.get("interrupted") is True else None,
    )


def _derived(start: int | None, end: int | None) -> Literal["derived", "none"]:
    return "none" if start is None and end is None else "derived"
