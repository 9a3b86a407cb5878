"""One thread of a Claude Code recording told as spans: its answers, what each had been shown and
how well that is known, and where a person or the harness stepped in.

A session records a conversation, not requests: what the model saw is rebuilt from what was said.
Three things break the simple "everything before it". A compaction starts a new context at its
summary, to which it may leave the last messages as they were. An answer whose calls were never run
because another answer follows it at once was given up (a broken stream, asked again): the second
was asked what the first was asked, and the token counts of real runs bear this out. An error the
harness wrote in the model's name is a failed call that no later call saw.

One API response is written as several lines, a content block each, that share its message id; the
figures on them grow, so the last line that knows one is right. A response that the harness wrote in
the model's name (`<synthetic>`) is an error or a filler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay.formats import common
from replay.formats.claude_code.lines import Line, first_text
from replay.formats.claude_code.order import Segment, Strand, segment
from replay.formats.common import known, recorded, usd
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Tally
from replay.messages import content_text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AnySpan,
    Context,
    Cost,
    Fidelity,
    Json,
    Level,
    Message,
    Request,
    Response,
    ToolCall,
    extend,
)

SYNTHETIC = "<synthetic>"

Item: TypeAlias = list[Line]
"""The lines of one answer, or one other line."""


def items(lines: Iterable[Line]) -> list[Item]:
    """The lines of one answer together, where the answer begins; every other line alone.

    Results that came in while an answer was still being written follow it.
    """
    found: list[Item] = []
    answer: Item = []
    for line in lines:
        if not (line.speaks and line.kind == "assistant"):
            found.append([line])
        elif answer and line.answer is not None and line.answer == answer[0].answer:
            answer.append(line)
        else:
            answer = [line]
            found.append(answer)
    return found


def given_up(item: Item, follower: Item | None) -> bool:
    """Did another answer follow at once, with the calls of this one not run?"""
    asked = any(line.call_ids for line in item)
    return asked and follower is not None and follower[0].kind == "assistant"


def merged(item: Item) -> Message | None:
    """The lines of an answer as the one message it was, None where its content is not known."""
    contents = [line.message.body["content"] for line in item if line.message is not None]
    if not contents:
        return None
    if len(contents) == 1:
        content = contents[0]
    else:
        content = [block for each in contents for block in _as_blocks(each)]
    return Message(dialect="anthropic", body={"role": "assistant", "content": content})


def _as_blocks(content: Json) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def model_response(item: Item) -> Response:
    """Everything of the response but its message."""
    stop = latest(item, "stop_reason")
    model = first_text(item[0].raw_message, "model")
    return Response(
        id=item[0].answer,
        model=model if model != SYNTHETIC else None,
        stop="error" if error(item) is not None else common.stop(stop),
        stop_raw=stop if isinstance(stop, str) else None,
    )


def is_filler(item: Item) -> bool:
    """Words the harness put into the model's mouth, without an error."""
    return item[0].raw_message.get("model") == SYNTHETIC and error(item) is None


def error(item: Item) -> str | None:
    """What the harness says went wrong with this call, None where nothing did."""
    for line in item:
        word = line.word("error")
        if line.flag("isApiErrorMessage") or word:
            shown = content_text(line.message.body["content"]) if line.message else ""
            return shown or word or "API error"
    return None


def latest(item: Item, name: str) -> Json:
    """A field of the message, from the last line that knows it."""
    found = (line.raw_message.get(name) for line in reversed(item))
    return next((value for value in found if value is not None), None)


def cost(item: Item) -> Cost | None:
    """What old sessions say a call cost, on its last line."""
    for line in reversed(item):
        amount = usd(line.record.get("costUSD"))
        if amount is not None:
            return recorded(amount)
    return None


def extra(item: Item) -> dict[str, Json]:
    """The request's id, and the speed where it is not the usual one (it has its own price)."""
    usage = latest(item, "usage")
    speed = first_text(usage, "speed") if isinstance(usage, dict) else None
    found = {
        "request_id": item[0].word("requestId", "request_id"),
        "speed": speed if speed != "standard" else None,
    }
    return {name: value for name, value in found.items() if value is not None}


NO_PROMPT = "user prompt not recorded"
NO_EARLIER = "earlier messages not recorded"
NO_SUMMARY = "summary after compaction not recorded"
NO_KEPT = "messages kept through a compaction not recorded"
NO_ANSWER = "content of a response not recorded"
ATTACHED = "attachments not recorded as the model saw them"
CLEARED = "old tool results cleared at an unknown point"


class Seen(Struct, frozen=True, kw_only=True, eq=False):
    """What the model had seen behind a line, and how well that is known."""

    context: Context | None = None
    fidelity: Fidelity = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))


NOTHING = Seen()


class Ids:
    """The span ids of one trace: each is given once, a second asker gets it numbered."""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def once(self, wanted: str) -> str:
        self._given[wanted] += 1
        again = self._given[wanted]
        return wanted if again == 1 else self.once(f"{wanted}#{again}")


class ThreadSpans(Struct, frozen=True, kw_only=True, eq=False):
    """What a strand came to.

    `after` is what had been seen behind each line, by its number: a branch begins there.
    `unanswered` are the messages at the end that no call saw. `signals` say where a person or
    the harness stepped in.
    """

    spans: tuple[AnySpan, ...]
    after: dict[int, Seen]
    unanswered: tuple[Message, ...]
    signals: tuple[dict[str, Json], ...]


def thread_spans(
    strand: Strand,
    *,
    parent: str,
    ids: Ids,
    tally: Tally,
    seen: Seen = NOTHING,
    copied: frozenset[str] = frozenset(),
) -> ThreadSpans:
    """The spans of a strand under the agent span `parent`, its first call asked after `seen`.

    `copied` are ids of answers that another thread gave: where this one repeats them they are
    what it was told, not calls of its own.
    """
    request = Request(context=seen.context)
    thread = Thread(parent=parent, request=request, fidelity=seen.fidelity, tally=tally)
    teller = _SpanBuilder(strand, thread, ids, tally, copied)
    found = items(strand.lines)
    spoken = [item for item in found if item[0].speaks]
    followers = dict(zip((item[0].number for item in spoken), spoken[1:], strict=False))
    for item in found:
        teller.build(item, followers.get(item[0].number))
    return teller.finish()


class _SpanBuilder:
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

    def build(self, item: Item, follower: Item | None) -> None:
        """The next item; `follower` is the next that speaks."""
        line, depth = item[0], self._depth
        if not line.speaks:
            self._happened(line)
        elif line.kind != "assistant":
            self._add_input(line)
        elif line.copied or line.answer in self._copied:
            self._repeated(item)
        elif is_filler(item):
            self._overheard(merged(item))
        else:
            self._add_model_call(item, follower)
        if line.speaks or line.at_ns is not None:
            self._before_ns = item[-1].at_ns
        seen = Seen(context=self._thread.context, fidelity=self._thread.fidelity)
        self._after.update((each.number, seen) for each in item)
        self._depths.update((each.uuid, (depth, self._depth)) for each in item if each.uuid)

    def finish(self) -> ThreadSpans:
        for call in self._thread.open_calls():
            if call.asked_by not in self._given_up:
                self._tally.problem(f"line {call.place.line}", f"{call.call_id!r} has no result")
        return ThreadSpans(
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

    def _add_input(self, line: Line) -> None:
        message = line.message
        assert message is not None
        for kind in stepped_in(line):
            self._signal(kind, line)
        if line.flag("isCompactSummary") or (self._compacted and line.prompt):
            self._begin_again(message)
        elif line.results and all(each.call_id in self._copied_calls for each in line.results):
            self._overheard(message)
        else:
            self._thread.add_message(message, place=line.place, at_ns=line.at_ns)
        if line.rich is not None:
            self._rich[id(message)] = line.rich
        if line.kind == "attachment":
            self._thread.weaken(ATTACHED)
        if line.prompt:
            self._prompted = True
            self._unanswered.append(message)

    def _repeated(self, item: Item) -> None:
        """An answer copied from another thread: part of the context, no call of this one."""
        self._copied_calls.update(call for line in item for call in line.call_ids)
        self._overheard(merged(item))
        self._unanswered.clear()

    def _add_model_call(self, item: Item, follower: Item | None) -> None:
        if self._compacted:
            self._begin_again()
            self._thread.weaken(NO_SUMMARY)
        elif not self._prompted:
            self._thread.weaken(NO_PROMPT)
        asked_after = self._thread.context
        turn = self._turn(item)
        message = merged(item) if turn.error is None else None
        if turn.error is not None:
            self._signal("failed_call", item[0])
        elif follower is not None and given_up(item, follower):
            turn = self._abandoned(turn, item, follower)
        elif message is None:
            self._thread.weaken(NO_ANSWER)
        self._thread.add_model_call(message, turn)
        self._unanswered.clear()
        if turn.id in self._given_up:
            self._thread.context = asked_after

    def _turn(self, item: Item) -> Turn:
        first, start, end = item[0], self._before_ns, item[-1].at_ns
        name = self._ids.once(first.answer or first.uuid or f"line-{first.number}")
        self._asked_in[name] = [line for line in item for _ in line.call_ids]
        response = model_response(item)
        if item[-1] is self._end and self._end.streamed:  # more of this answer may be to come
            response = structs.replace(response, stop=None, stop_raw=None)
        return Turn(
            id=name,
            response=response,
            usage=common.anthropic_usage(latest(item, "usage")),
            cost=cost(item),
            start_ns=start,
            end_ns=end,
            time_quality=_derived(start, end),
            place=first.place,
            error=error(item),
            extra=extra(item),
        )

    def _abandoned(self, turn: Turn, item: Item, instead: Item) -> Turn:
        self._given_up.add(turn.id)
        calls = len(self._asked_in[turn.id])
        why = f"superseded by the response at line {instead[0].number}; its calls were not run"
        self._tally.problem(f"line {item[0].number}", f"a response with {calls} calls was {why}")
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


_SIGNALS = {
    "[Request interrupted by user": "interrupt",
    "The user doesn't want to proceed with this tool use": "rejected",
    "The user doesn't want to take this action right now": "rejected",
    "Claude requested permissions": "denied",
}


def stepped_in(line: Line) -> Iterator[str]:
    """The kinds of signal that the words of a line are."""
    for text in [line.prompt, *(each.text for each in line.results if each.is_error)]:
        kind = next((kind for start, kind in _SIGNALS.items() if text.startswith(start)), None)
        if kind is not None:
            yield kind


def signal(kind: str, line: Line) -> dict[str, Json]:
    """A signal with its place: message index and line in the main file, line alone elsewhere."""
    place = {"message": line.place.message, "line": line.place.line}
    return {"kind": kind, **{name: value for name, value in place.items() if value is not None}}
