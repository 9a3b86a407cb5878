"""The lines of a rollout told as spans: who was asked what, and what came back.

A rollout is the conversation as Codex keeps it to resume from, so what a call saw is everything
before it: the items since the last compaction, which keeps what took their place. Items of the
model up to the next thing it hears are one answer. The tools offered are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from replay.formats.codex.lines import (
    CALLS,
    COMPACTED,
    EVENT,
    ITEM,
    META,
    OUTPUTS,
    SERVED,
    TURN,
    Figures,
    Line,
    answer_message,
    called,
    failure,
    history,
    input_message,
    result,
    served,
    speaks,
    summary,
    summary_call,
)
from replay.formats.common import derived_id, known, word
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Tally
from replay.messages import text
from replay.trace import (
    AnySpan,
    Context,
    Json,
    Message,
    Request,
    Response,
    Status,
    ToolCall,
    Usage,
)

ENCRYPTED = "reasoning encrypted by the provider"
NO_HISTORY = "conversation after a compaction not recorded"

_HARNESS = ("<", "# AGENTS.md instructions")
"""How messages begin that the harness writes in the user's name."""

_SIGNALS = {"turn_aborted": "interrupt", "stream_error": "api_retry", "error": "failed_call"}
_ENDS: dict[str, Status] = {"task_complete": "ok", "turn_complete": "ok", "turn_aborted": "unset"}


class ThreadSpans(Struct, frozen=True, kw_only=True, eq=False):
    """What a rollout came to below its agent span; `extra` is what that span has to keep."""

    spans: tuple[AnySpan, ...]
    status: Status
    error: str | None
    asked: str | None
    extra: dict[str, Json]


def thread_spans(
    lines: Iterable[Line], *, parent: str, system: Message | None, tally: Tally
) -> ThreadSpans:
    """The spans of a rollout under the agent span `parent`."""
    teller = _SpanBuilder(parent, system, tally)
    for line in lines:
        teller.build(line)
    return teller.finish()


class _SpanBuilder:
    """Tells a `Thread` line by line; `_answer` are the items of the answer being written."""

    def __init__(self, parent: str, system: Message | None, tally: Tally) -> None:
        self._parent, self._tally, self._system = parent, tally, system
        self._thread = Thread(
            parent=parent,
            request=Request(system=system),
            fidelity=without_tools(system),
            tally=tally,
        )
        self._figures = Figures()
        self._answer: list[Line] = []
        self._usage: Usage | None = None
        self._unmeasured: str | None = None
        self._late: dict[str, Usage] = {}
        self._names: dict[str | None, str] = {}
        self._heard_ns: int | None = None
        self._turns: list[Context | None] = []
        self._unanswered: list[Message] = []
        self._signals: list[dict[str, Json]] = []
        self._asked: str | None = None
        self._status: Status = "unset"
        self._error: str | None = None

    def build(self, line: Line) -> None:
        if line.kind == ITEM:
            self._item(line)
        elif line.kind == EVENT:
            self._event(line)
        elif line.kind == TURN:
            self._begin_turn(line)
        elif line.kind == COMPACTED:
            self._compacted(line)
        elif line.kind == META:
            self._heard_ns = line.at_ns

    def finish(self) -> ThreadSpans:
        self._close()
        for call in self._thread.open_calls():
            where = f"message {call.place.message}"
            self._tally.problem(where, f"{call.call_id!r} has no result")
        return ThreadSpans(
            spans=tuple(map(self._measured, self._thread.spans())),
            status=self._status,
            error=self._error,
            asked=self._asked,
            extra=known(
                signals=self._signals,
                unanswered=[message.body for message in self._unanswered],
            ),
        )

    # --- items

    def _item(self, line: Line) -> None:
        if line.type in CALLS | SERVED | {"reasoning"} or speaks(line):
            if not self._answer:
                self._begin_answer(line)
            self._answer.append(line)
            return
        if line.type in OUTPUTS:
            self._close()
            self._returned(line)
        elif line.type in ("message", "agent_message"):
            self._close()
            self._add_input(line)
        self._heard_ns = line.at_ns or self._heard_ns

    def _returned(self, line: Line) -> None:
        call_id = word(line.payload.get("call_id"))
        why = failure(line)
        self._thread.add_message(
            result(line, self._names.get(call_id)),
            place=line.place,
            at_ns=line.at_ns,
            errors={call_id: why} if why is not None and call_id is not None else None,
        )

    def _add_input(self, line: Line) -> None:
        message = input_message(line)
        before = self._thread.context
        self._thread.add_message(message, place=line.place)
        shown = text(message)
        if message.role == "user" and not shown.startswith(_HARNESS):
            self._turns.append(before)
            self._unanswered.append(message)
            self._asked = self._asked or shown

    # --- answers

    def _begin_answer(self, line: Line) -> None:
        self._usage = self._figures.lead(answer=True)
        lost, self._figures.leading = self._figures.leading, None
        if lost is not None:
            self._tally.problem(
                line.where, f"{_tokens(lost)} tokens before it belong to no recorded call"
            )

    def _close(self) -> None:
        """The answer being written has ended."""
        written, self._answer = self._answer, []
        if not written:
            return
        first, last = written[0], written[-1]
        name = derived_id(self._parent, "answer", first.place.message)
        turn = Turn(
            id=name,
            response=Response(id=word(first.payload.get("id")), model=self._thread.request.model),
            usage=self._usage,
            start_ns=self._heard_ns,
            end_ns=last.at_ns,
            time_quality="none" if last.at_ns is None else "derived",
            place=first.place,
        )
        self._unmeasured = name if self._usage is None else None
        self._thread.add_model_call(answer_message(written), turn)
        self._thread.add_spans(*(self._served(line, name) for line in written if _served(line)))
        self._names.update({c[0]: c[1] for c in map(called, filter(_calls, written))})
        self._unanswered.clear()
        self._heard_ns = last.at_ns or self._heard_ns
        if any(item.payload.get("encrypted_content") for item in written):
            self._thread.weaken(ENCRYPTED)

    def _served(self, line: Line, answer: str) -> ToolCall:
        call_id, name, _ = called(line)
        return ToolCall(
            id=derived_id(answer, name, line.place.message),
            name=name,
            parent=self._parent,
            start_ns=line.at_ns,
            end_ns=line.at_ns,
            time_quality="none" if line.at_ns is None else "derived",
            status="ok" if line.payload.get("status") == "completed" else "unset",
            place=line.place,
            call_id=call_id,
            asked_by=answer,
            arguments=served(line).get("action"),
            extra={"run_by": "provider"},
        )

    def _measured(self, span: AnySpan) -> AnySpan:
        """The span with a count that came after its answer had ended."""
        usage = self._late.get(span.id)
        return span if usage is None else structs.replace(span, usage=usage)

    # --- events

    def _event(self, line: Line) -> None:
        kind = line.type
        self._tally.counts["events"] += 1
        if kind == "token_count":
            self._counted(line)
        elif kind in ("task_started", "turn_started"):
            self._heard_ns = line.at_ns or self._heard_ns
        elif kind == "thread_rolled_back":
            self._rolled_back(line)
        if kind in _SIGNALS and line.payload.get("reason") in (None, "interrupted"):
            self._signals.append(_signal(_SIGNALS[kind], line))
        if kind in _ENDS:
            self._close()
            self._status, self._error = _ENDS[kind], None
        elif kind == "error":
            self._close()
            self._status, self._error = "error", word(line.payload.get("message")) or "error"

    def _counted(self, line: Line) -> None:
        usage = self._figures.next_usage(line.payload.get("info"))
        if usage is None:
            return
        answering = bool(self._answer) and self._usage is None
        if self._figures.stands_before(answering=answering or self._unmeasured is not None):
            self._close()
            self._figures.leading = usage
        elif answering:
            self._usage = usage
            self._close()
        elif self._unmeasured is not None:
            self._late[self._unmeasured] = usage
            self._unmeasured = None
        else:  # of a call that left no item: kept for a compaction that may follow
            self._close()
            self._figures.leading = usage

    def _rolled_back(self, line: Line) -> None:
        self._close()
        turns = line.payload.get("num_turns")
        gone = min(turns, len(self._turns)) if isinstance(turns, int) and turns > 0 else 0
        if gone:
            self._thread.context = self._turns[-gone]
            del self._turns[-gone:]
        self._signals.append(_signal("rewind", line))

    # --- turns and compactions

    def _begin_turn(self, line: Line) -> None:
        self._close()
        effort = word(line.payload.get("effort"))
        self._thread.request = structs.replace(
            self._thread.request,
            model=word(line.payload.get("model")) or self._thread.request.model,
            params={"reasoning": {"effort": effort}} if effort else {},
        )

    def _compacted(self, line: Line) -> None:
        self._close()
        self._summarized(line)
        self._signals.append(_signal("compaction", line))
        kept = line.payload.get("replacement_history")
        self._thread.fidelity = without_tools(self._system)
        self._turns.clear()
        if isinstance(kept, list):
            self._thread.reset(*history(kept, line))
            return
        self._thread.reset(*summary(line))
        self._thread.weaken(NO_HISTORY)

    def _summarized(self, line: Line) -> None:
        """The call that wrote the summary, where its tokens or its words are known."""
        turn, said = summary_call(
            line,
            derived_id(self._parent, "compaction", line.place.message),
            model=self._thread.request.model,
            usage=self._figures.lead(answer=False),
            start_ns=self._heard_ns,
        )
        if turn.usage is not None or said is not None:
            self._thread.add_model_call(said, turn)


def _served(line: Line) -> bool:
    return line.type in SERVED


def _calls(line: Line) -> bool:
    return line.type in CALLS


def _tokens(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _signal(kind: str, line: Line) -> dict[str, Json]:
    return {"kind": kind, **known(message=line.place.message, line=line.place.line)}
