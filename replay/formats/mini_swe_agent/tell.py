"""A mini-swe-agent run told as spans.

What the model saw at an answer is every message before it, the harness's notes left out. A message
says when it was recorded, so a model call is taken to last from the message before to its own. An
answer that could not be used was paid for and shown to nobody: it stands at the message that says
so, and joins no context.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from replay.formats import litellm
from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import known, word
from replay.formats.intake import Tally
from replay.formats.mini_swe_agent.records import TOOL, Record
from replay.formats.normal import derived_id
from replay.messages import calls, text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AnySpan,
    Fidelity,
    Level,
    Message,
    Observation,
    Place,
    Request,
    TimeQuality,
    Tool,
    ToolCall,
)

NO_REASONING = "reasoning items of the Responses API known by their summary alone"

BASH = Tool(
    name=TOOL,
    description="Execute a bash command",
    schema={
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The bash command to execute"}},
        "required": ["command"],
    },
)
"""The one tool that the agent's own models offer; no file records it."""


def request(records: list[Record], settings: dict[str, Any]) -> Request:
    """What all calls of the run share. `settings` are those of the model."""
    first = records[0].message if records else None
    params = settings.get("model_kwargs")
    names = ("temperature", "top_p", "max_tokens")
    given = params if isinstance(params, dict) else {}
    return Request(
        model=word(settings.get("model_name")),
        system=first if first is not None and first.role == "system" else None,
        tools=_tools(records, word(settings.get("type"))),
        params=known(**{name: given.get(name) for name in names}),
    )


def _tools(records: list[Record], model_type: str | None) -> tuple[Tool, ...] | None:
    """() where the commands are text; the implicit tool where one of the agent's own models calls
    it; None where nobody knows."""
    answers = [record for record in records if record.answers]
    if any(record.is_response or calls(record.message) for record in answers):
        ours = model_type is not None and model_type.startswith("minisweagent.")
        return (BASH,) if ours else None
    return () if any(record.written for record in answers) else None


class Teller:
    """Tells the messages of a run in their order."""

    def __init__(self, root: str, shared: Request, tally: Tally) -> None:
        reasons = [
            reason
            for reason, missing in ((NO_SYSTEM, shared.system), (NO_TOOLS, shared.tools))
            if missing is None
        ]
        self._root = root
        self._tally = tally
        self._before_ns: int | None = None
        self._waiting: list[ToolCall] = []
        self._late: dict[str, dict[str, Any]] = {}
        self._thread = Thread(
            parent=root,
            request=shared,
            fidelity=Fidelity(
                level=Level.PARTIAL if reasons else Level.REBUILT, reasons=tuple(reasons)
            ),
            tally=tally,
        )

    def tell(self, records: Iterable[Record]) -> tuple[AnySpan, ...]:
        for record in records:
            if record.ends:
                self._ended(record)
            elif record.answers:
                self._said(record, record.message)
            elif record.message != self._thread.request.system:
                self._heard(record)
            self._before_ns = record.at_ns or self._before_ns
        self._flush()
        return tuple(map(self._settled, self._thread.spans()))

    def _said(self, record: Record, message: Message) -> None:
        self._flush()
        tokens = litellm.usage(record.answer.get("usage"))
        end = record.at_ns
        start = self._before_ns if _in_order(self._before_ns, end) else None
        quality: TimeQuality = "derived" if end is not None else "none"
        turn = Turn(
            id=derived_id(self._root, record.index),
            response=record.response,
            usage=tokens,
            cost=litellm.cost(record.extra.get("cost"), tokens),
            start_ns=start,
            end_ns=end,
            time_quality=quality,
            place=Place(message=record.index),
            extra=known(interrupt=record.extra.get("interrupt_type")),
        )
        self._tally.counts["model_calls"] += 1
        self._thread.said(message, turn)
        if record.is_response and litellm.reasons(record.raw):
            self._thread.fidelity = Fidelity(
                level=Level.PARTIAL,
                reasons=tuple(dict.fromkeys((*self._thread.fidelity.reasons, NO_REASONING))),
            )
        self._waiting = [
            ToolCall(
                id=derived_id(turn.id, call.position, call.name),
                name=call.name,
                parent=self._root,
                start_ns=end,
                time_quality=quality,
                place=turn.place,
                asked_by=turn.id,
                arguments=call.arguments,
            )
            for call in (record.written if record.answers else ())
        ]

    def _heard(self, record: Record) -> None:
        message, failure, lost = record.message, record.failure, record.unusable
        if lost is not None:
            self._lose(record, lost)
        name = word(message.body.get("tool_call_id"))
        errors = {name: failure} if name is not None and failure is not None else None
        self._thread.heard(
            message, place=Place(message=record.index), at_ns=record.at_ns, errors=errors
        )
        if self._waiting and message.role == "user":
            self._answer(message, record.at_ns, failure)

    def _lose(self, record: Record, lost: Message) -> None:
        """An answer that nobody could use: its calls were not run, and the next answer is asked
        for as if it had not been given."""
        context = self._thread.context
        before = {call.id for call in self._thread.open_calls()}
        self._said(record, lost)
        self._thread.context = context
        why = text(record.message) or "FormatError"
        for call in self._thread.open_calls():
            if call.id not in before:
                self._late[call.id] = {"status": "error", "error": why}

    def _answer(self, message: Message, at_ns: int | None, failure: str | None) -> None:
        """The oldest command written as text that waits for its result has it now."""
        call = self._waiting.pop(0)
        self._thread.beside(
            structs.replace(
                call,
                observation=Observation(message=message),
                end_ns=at_ns if _in_order(call.start_ns, at_ns) else None,
                status="error" if failure is not None else "ok",
                error=failure,
            )
        )

    def _ended(self, record: Record) -> None:
        """What was handed in is the last command's output; any other ending answers nothing."""
        if record.extra.get("exit_status") != "Submitted":
            return
        if self._waiting:
            self._answer(record.message, record.at_ns, None)
        elif opened := self._thread.open_calls():
            seen = Observation(message=record.message)
            self._late[opened[-1].id] = {"observation": seen, "status": "ok"}

    def _flush(self) -> None:
        """Commands that no result answered."""
        self._thread.beside(*self._waiting)
        self._waiting = []

    def _settled(self, span: AnySpan) -> AnySpan:
        """A call with what was learnt of it beside its result."""
        return structs.replace(span, **self._late[span.id]) if span.id in self._late else span


def _in_order(start: int | None, end: int | None) -> bool:
    return start is not None and end is not None and start <= end
