"""The messages of an opencode session told as spans.

What a call saw is what was said before it, since the last compaction: its summary and the request
for it take the place of everything earlier. An answer that failed is not sent again; one that was
interrupted is. opencode clears old results from its context at times it keeps with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from replay.formats import normal
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Tally
from replay.formats.normal import derived_id
from replay.formats.opencode import messages
from replay.formats.opencode.messages import Step
from replay.formats.opencode.stored import Session, Written
from replay.trace import (
    NO_SYSTEM,
    AnySpan,
    Fidelity,
    Json,
    Message,
    Request,
    Response,
    ToolCall,
)

CLEARED = "old tool results cleared"
WORDED = "some messages not recorded in the words the model saw"
KEPT = "which messages a compaction kept not known"

_INTERRUPTED = "MessageAbortedError"
_STOPS: dict[str, str | None] = {"unknown": None, "other": None}


class Teller:
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

    def tell(self, session: Session) -> None:
        self._cleared_ns = min(_clearings(session), default=None)
        speakers = {speaker(each) for each in session.messages if _answers(each)}
        self._several = len(speakers) > 1
        for written in session.messages:
            self._count(written)
            if _answers(written):
                self._answered(written)
            else:
                self._asked(written)

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
            elif kind not in messages.KNOWN:
                self._tally.unknown[kind] += 1

    def _asked(self, written: Written) -> None:
        message = messages.user(written.parts)
        if message is not None:
            self._thread.heard(message, place=written.place)
            self.unanswered.append(message)
        if messages.words_unknown(written.parts):
            self._thread.weaken(WORDED)
        if any(part.get("type") == "compaction" for part in written.parts):
            self._compaction = message
        self._heard_ns = _ms_ns(obj(written.info.get("time")).get("created")) or self._heard_ns

    def _answered(self, written: Written) -> None:
        info = written.info
        error = _error(info)
        asked_after = self._thread.context
        self._request(info)
        found = messages.steps(written.parts)
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
            start_ns = _ms_ns(obj(info.get("time")).get("created")) or start_ns
        end_ns = _ended_ns(step, info)
        turn = Turn(
            id=self._once(derived_id(self._parent, written.place.span, number)),
            response=_response(info, step),
            usage=messages.usage(figures.get("tokens")),
            cost=messages.cost(figures.get("cost")),
            start_ns=start_ns,
            end_ns=end_ns,
            time_quality="none" if start_ns is None and end_ns is None else "derived",
            place=written.place,
            agent=speaker(written) if self._several else None,
            error=error,
            fidelity=self._known_at(start_ns),
            extra=known(provider=word(info.get("providerID")), agent=speaker(written)),
        )
        self._thread.said(messages.answer(step), turn)
        self._heard_ns = end_ns or self._heard_ns
        for tool in step.tools:
            self._returned(tool, written)

    def _returned(self, tool: dict[str, Json], written: Written) -> None:
        call_id, time = word(tool.get("callID")), obj(obj(tool.get("state")).get("time"))
        start_ns, end_ns = _ms_ns(time.get("start")), _ms_ns(time.get("end"))
        if call_id is not None and start_ns is not None:
            self._began_ns[call_id] = start_ns
        message = messages.result(tool)
        if message is not None:
            self._thread.heard(message, place=written.place, at_ns=end_ns)
        self._heard_ns = max(end_ns or 0, self._heard_ns or 0) or None

    def _compacted(self, written: Written, found: list[Step]) -> None:
        """From here on the summary stands for everything before it."""
        self._signal("compaction", written)
        summary = [message for step in found if (message := messages.answer(step)) is not None]
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
    shape = raw.replace("-", "_") if raw is not None else None
    return Response(
        model=word(info.get("modelID")),
        stop=normal.stop(_STOPS.get(shape or "", shape)),
        stop_raw=raw,
    )


def _ended_ns(step: Step, info: dict[str, Json]) -> int | None:
    """The end of its last text or thought, or the beginning of its first call."""
    times = [obj(part.get("time")).get("end") for part in step.parts]
    calls = [obj(obj(part.get("state")).get("time")).get("start") for part in step.tools]
    told = [each for each in map(_ms_ns, (*times, *calls)) if each is not None]
    if told:
        return max(told)
    return _ms_ns(obj(info.get("time")).get("completed")) if not step.tools else None


def _clearings(session: Session) -> Iterator[int]:
    for written in session.messages:
        for part in written.parts:
            cleared_ns = _ms_ns(obj(obj(part.get("state")).get("time")).get("compacted"))
            if cleared_ns is not None:
                yield cleared_ns


def _ms_ns(ms: Json) -> int | None:
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not 0 < ms < 2**43:
        return None
    return int(ms) * 1_000_000
