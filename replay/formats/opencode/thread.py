"""An opencode session, and its messages told as spans; its parts become messages of Anthropic's
shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from replay.formats import common
from replay.formats.common import (
    count,
    derived_id,
    known,
    listed,
    ms_ns,
    obj,
    recorded,
    total_usage,
    usd,
    word,
)
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Tally
from replay.trace import (
    NO_SYSTEM,
    AnySpan,
    Cost,
    Fidelity,
    Json,
    Message,
    Place,
    Request,
    Response,
    ToolCall,
    Usage,
)

CLEARED = "old tool results cleared"
WORDED = "some messages not recorded as the model saw them"
KEPT = "messages kept through a compaction not known"

_INTERRUPTED = "MessageAbortedError"


class Written(Struct, frozen=True, kw_only=True, eq=False):
    """A message with its parts, in their order."""

    info: dict[str, Json]
    parts: list[dict[str, Json]]
    place: Place


class Session(Struct, frozen=True, kw_only=True, eq=False):
    """A session, its messages, and the sessions of the sub-agents it sent."""

    info: dict[str, Json]
    messages: list[Written]
    children: list[Session]

    @property
    def id(self) -> str | None:
        return word(self.info.get("id"))


class SpanBuilder:
    """Tells the messages of one session, below the agent span `parent`."""

    def __init__(self, parent: str, tally: Tally) -> None:
        self.signals: list[dict[str, Json]] = []
        self.unanswered: list[Message] = []
        self.error: str | None = None
        self._parent, self._tally = parent, tally
        self._thread = Thread(
            parent=parent, request=Request(), fidelity=without_tools(None), tally=tally
        )
        self._began_ns: dict[str, int] = {}
        self._names: set[str] = set()
        self._cleared_ns: int | None = None
        self._heard_ns: int | None = None
        self._compaction: Message | None = None
        self._several = False

    def build(self, session: Session) -> None:
        self._cleared_ns = min(_clearings(session), default=None)
        speakers = {speaker(each) for each in session.messages if _answers(each)}
        self._several = len(speakers) > 1
        for written in session.messages:
            self._count(written)
            if _answers(written):
                self._answered(written)
            else:
                self._add_user_message(written)

    def spans(self) -> list[AnySpan]:
        for call in self._thread.open_calls():
            self._tally.problem(f"message {call.place.message}", f"{call.call_id!r} has no result")
        return [self._timed(span) for span in self._thread.spans()]

    def _count(self, written: Written) -> None:
        self._tally.counts["messages"] += 1
        for part in written.parts:
            kind = word(part.get("type")) or "part without a type"
            self._tally.counts["parts"] += 1
            if kind == "retry":
                self._signal("api_retry", written)
            elif kind not in KNOWN:
                self._tally.unknown[kind] += 1

    def _add_user_message(self, written: Written) -> None:
        message = user(written.parts)
        if message is not None:
            self._thread.add_message(message, place=written.place)
            self.unanswered.append(message)
        if words_unknown(written.parts):
            self._thread.weaken(WORDED)
        if any(part.get("type") == "compaction" for part in written.parts):
            self._compaction = message
        self._heard_ns = ms_ns(obj(written.info.get("time")).get("created")) or self._heard_ns

    def _answered(self, written: Written) -> None:
        info = written.info
        error = _error(info)
        asked_after = self._thread.context
        self._request(info)
        found = steps(written.parts)
        for number, step in enumerate(found):
            last = step is found[-1]
            self._step(written, step, number, alone=len(found) == 1, error=error if last else None)
        self.error = error
        self.unanswered.clear()
        if error is not None:
            interrupted = obj(info.get("error")).get("name") == _INTERRUPTED
            self._signal("interrupt" if interrupted else "failed_call", written)
            if not interrupted or not any(step.parts for step in found):
                self._thread.context = asked_after
        elif info.get("summary") is True:
            self._compacted(written, found)

    def _request(self, info: dict[str, Json]) -> None:
        """The model, and in early releases the system prompt."""
        thread = self._thread
        texts = [text for text in listed(info.get("system")) if isinstance(text, str) and text]
        content = [{"type": "text", "text": text} for text in texts]
        told = Message(dialect="anthropic", body={"role": "system", "content": content})
        if texts and told != thread.request.system:
            thread.request = structs.replace(thread.request, system=told)
            reasons = tuple(each for each in thread.fidelity.reasons if each != NO_SYSTEM)
            thread.fidelity = structs.replace(thread.fidelity, reasons=reasons)
        thread.request = structs.replace(thread.request, model=word(info.get("modelID")))

    def _step(
        self, written: Written, step: Step, number: int, *, alone: bool, error: str | None
    ) -> None:
        info = written.info
        figures = step.finish or (info if alone else {})
        start_ns = self._heard_ns
        if number == 0:
            start_ns = ms_ns(obj(info.get("time")).get("created")) or start_ns
        end_ns = _ended_ns(step, info)
        turn = Turn(
            id=self._once(derived_id(self._parent, written.place.span, number)),
            response=_response(info, step),
            usage=usage(figures.get("tokens")),
            cost=cost(figures.get("cost")),
            start_ns=start_ns,
            end_ns=end_ns,
            time_quality="none" if start_ns is None and end_ns is None else "derived",
            place=written.place,
            agent=speaker(written) if self._several else None,
            error=error,
            fidelity=self._known_at(start_ns),
            extra=known(provider=word(info.get("providerID")), agent=speaker(written)),
        )
        self._thread.add_model_call(answer(step), turn)
        self._heard_ns = end_ns or self._heard_ns
        for tool in step.tools:
            self._returned(tool, written)

    def _returned(self, tool: dict[str, Json], written: Written) -> None:
        call_id, time = word(tool.get("callID")), obj(obj(tool.get("state")).get("time"))
        start_ns, end_ns = ms_ns(time.get("start")), ms_ns(time.get("end"))
        if call_id is not None and start_ns is not None:
            self._began_ns[call_id] = start_ns
        message = result(tool)
        if message is not None:
            self._thread.add_message(message, place=written.place, at_ns=end_ns)
        self._heard_ns = max(end_ns or 0, self._heard_ns or 0) or None

    def _compacted(self, written: Written, found: list[Step]) -> None:
        """From here on the summary stands for everything before it."""
        self._signal("compaction", written)
        summary = [message for step in found if (message := answer(step)) is not None]
        request = [self._compaction] if self._compaction is not None else []
        self._thread.reset(*request, *summary)
        self._thread.fidelity = without_tools(self._thread.request.system)
        self._thread.weaken(WORDED)
        self._thread.weaken(KEPT)
        self._compaction = None

    def _known_at(self, start_ns: int | None) -> Fidelity:
        known_ = self._thread.fidelity
        if self._cleared_ns is None or start_ns is None or start_ns < self._cleared_ns:
            return known_
        return structs.replace(known_, reasons=(*known_.reasons, CLEARED))

    def _timed(self, span: AnySpan) -> AnySpan:
        """A call with the time at which it began to run."""
        if not isinstance(span, ToolCall) or span.call_id not in self._began_ns:
            return span
        quality = "exact" if span.end_ns is not None else "derived"
        return structs.replace(span, start_ns=self._began_ns[span.call_id], time_quality=quality)

    def _once(self, name: str) -> str:
        while name in self._names:
            name = derived_id(name)
        self._names.add(name)
        return name

    def _signal(self, kind: str, written: Written) -> None:
        self.signals.append({"kind": kind, **known(message=written.place.message)})


def _answers(written: Written) -> bool:
    return written.info.get("role") == "assistant"


def speaker(written: Written) -> str | None:
    """The agent that answers, None in a message of the user's."""
    if not _answers(written):
        return None
    return word(written.info.get("agent")) or word(written.info.get("mode"))


def _error(info: dict[str, Json]) -> str | None:
    error = obj(info.get("error"))
    if not error:
        return None
    return word(obj(error.get("data")).get("message")) or word(error.get("name")) or "error"


def _response(info: dict[str, Json], step: Step) -> Response:
    raw = word(step.finish.get("reason")) or word(info.get("finish"))
    return Response(
        model=word(info.get("modelID")),
        stop=common.stop(raw),
        stop_raw=raw,
    )


def _ended_ns(step: Step, info: dict[str, Json]) -> int | None:
    """The end of its last text or thought, or the beginning of its first call."""
    times = [obj(part.get("time")).get("end") for part in step.parts]
    calls = [obj(obj(part.get("state")).get("time")).get("start") for part in step.tools]
    told = [each for each in map(ms_ns, (*times, *calls)) if each is not None]
    if told:
        return max(told)
    return ms_ns(obj(info.get("time")).get("completed")) if not step.tools else None


def _clearings(session: Session) -> Iterator[int]:
    for written in session.messages:
        for part in written.parts:
            cleared_ns = ms_ns(obj(obj(part.get("state")).get("time")).get("compacted"))
            if cleared_ns is not None:
                yield cleared_ns


_UNSENT = ("text/plain", "application/x-directory")
"""Files whose content opencode puts into a text of its own."""

KNOWN = {
    "agent", "compaction", "file", "patch", "reasoning", "retry", "snapshot", "step-finish",
    "step-start", "subtask", "text", "tool",
}  # fmt: skip
_WORDED = ("compaction", "subtask")


class Step(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of one call of the model, and the mark at its end ({} where there is none)."""

    parts: list[dict[str, Json]]
    finish: dict[str, Json]

    @property
    def tools(self) -> list[dict[str, Json]]:
        return [part for part in self.parts if part.get("type") == "tool"]


def steps(parts: list[dict[str, Json]]) -> list[Step]:
    """The steps of an answer; one without marks is a single step."""
    found: list[Step] = []
    current: list[dict[str, Json]] = []
    finish: dict[str, Json] = {}
    for part in parts:
        kind = part.get("type")
        if kind == "step-start" and (current or finish):
            found.append(Step(parts=current, finish=finish))
            current, finish = [], {}
        if kind == "step-finish":
            finish = part
        elif kind in ("text", "reasoning", "tool", "file"):
            current.append(part)
    if current or finish or not found:
        found.append(Step(parts=current, finish=finish))
    return found


def user(parts: list[dict[str, Json]]) -> Message | None:
    """What the user said, with what opencode added to it; None for nothing."""
    blocks: list[Json] = []
    for part in parts:
        text = part.get("text")
        if part.get("type") == "text" and isinstance(text, str) and part.get("ignored") is not True:
            blocks.append({"type": "text", "text": text})
        elif part.get("type") == "file" and part.get("mime") not in _UNSENT:
            blocks.append(_file(part))
    return _message("user", blocks) if blocks else None


def words_unknown(parts: list[dict[str, Json]]) -> bool:
    """Does opencode send something for these parts whose words are not in them?"""
    return any(part.get("type") in _WORDED for part in parts)


def person_text(parts: list[dict[str, Json]]) -> str | None:
    """What a person wrote, without what opencode added."""
    for part in parts:
        if part.get("type") == "text" and part.get("synthetic") is not True:
            text = word(part.get("text"))
            if text is not None and text.strip():
                return text
    return None


def answer(step: Step) -> Message | None:
    """A step as the message it was, None where nothing of it was recorded."""
    blocks = [block for part in step.parts for block in _text_parts(part)]
    return _message("assistant", blocks) if blocks else None


def result(tool: dict[str, Json]) -> Message | None:
    """What a call gave back, None while it has not come back."""
    state = obj(tool.get("state"))
    status = state.get("status")
    if status not in ("completed", "error"):
        return None
    text = word(state.get("output" if status == "completed" else "error")) or ""
    attached = [_file(obj(each)) for each in listed(state.get("attachments"))]
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": word(tool.get("callID")),
        "content": [{"type": "text", "text": text}, *attached] if attached else text,
    }
    if status == "error":
        block["is_error"] = True
    return _message("user", [block])


def usage(tokens: Json) -> Usage | None:
    """The figures of a step. `input` leaves the cache out.

    Later releases leave reasoning out of `output`, early ones do not, and only some tell the
    total that shows which: without it, `output` is taken to hold the reasoning unless it is too
    small to.
    """
    figures, cache = obj(tokens), obj(obj(tokens).get("cache"))
    fresh, out = count(figures.get("input")), count(figures.get("output"))
    read, write = count(cache.get("read")), count(cache.get("write"))
    thought, total = count(figures.get("reasoning")), count(figures.get("total"))
    given = None if fresh is None else fresh + (read or 0) + (write or 0)
    if out is not None and thought:
        apart = thought > out
        if total is not None and given is not None:
            apart = abs(given + out + thought - total) <= abs(given + out - total)
        out += thought if apart else 0
    return total_usage(given, out, reasoning=thought, read=read, write=write)


def cost(amount: Json) -> Cost | None:
    """opencode's own figure. Zero is what it writes where it has no price."""
    return recorded(usd(amount) or None)


def _text_parts(part: dict[str, Json]) -> list[Json]:
    kind, text = part.get("type"), part.get("text")
    if kind == "tool":
        given = obj(part.get("state")).get("input")
        return [
            {
                "type": "tool_use",
                "id": word(part.get("callID")),
                "name": word(part.get("tool")) or "",
                "input": {} if given is None else given,
            }
        ]
    if kind == "file":
        return [_file(part)]
    if not isinstance(text, str) or not text:
        return []
    if kind == "reasoning":
        return [{"type": "thinking", "thinking": text}]
    return [{"type": "text", "text": text}]


def _file(part: dict[str, Json]) -> Json:
    return {"type": "image_url", "image_url": {"url": word(part.get("url")) or ""}}


def _message(role: str, blocks: list[Any]) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": blocks})
