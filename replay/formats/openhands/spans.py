"""An OpenHands run told as spans: a model call an answer, a tool call an action.

Each agent's thread keeps its context as events, and how well it is known.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from replay.formats import common
from replay.formats.common import derived_id, known, ns, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.openhands.events import (
    Acted,
    Aside,
    Back,
    Forgot,
    Prompted,
    Received,
    Returned,
    Sent,
)
from replay.formats.openhands.runs import Event, Figures, Run, answer_id, answers, joined
from replay.formats.source import Tally
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Fidelity,
    Level,
    Message,
    OtherSpan,
    Place,
    Request,
    TimeQuality,
    ToolCall,
)

MAX_DEPTH = 32


class SpanBuilder:
    """Tells the events of one run."""

    def __init__(
        self, run: Run, root: str, request: Request, metrics: dict[str, Any], tally: Tally
    ):
        self._run = run
        self._root = root
        self._tally = tally
        self._request = request
        self._talks = [Talk(root, request, tally)]
        self._before_ns: int | None = None
        self._call_of: dict[str, str] = {}
        self._told = [(event, event.happened) for event in run.events]
        self._answers = answers(self._told)
        self._figures = Figures(metrics, [answer_id(group) for group in self._answers.values()])
        self._numbers = {first: number for number, first in enumerate(self._answers)}
        self._began: dict[str, tuple[int | None, Place]] = {}

    def build(self) -> tuple[AnySpan, ...]:
        for event, happened in self._told:
            at_ns = ns(event.raw.get("timestamp"))
            if isinstance(happened, Prompted):
                self._prompted(happened)
            elif isinstance(happened, Received):
                self._add_input(event, happened.message)
            elif isinstance(happened, Acted):
                self._acted(event, happened, at_ns)
            elif isinstance(happened, Returned):
                self._returned(event, happened, at_ns)
            elif isinstance(happened, Sent):
                self._sent(event, happened, at_ns)
            elif isinstance(happened, Back):
                self._back(event, happened, at_ns)
            elif isinstance(happened, Forgot):
                self._talk.forget(happened)
                self._aside(event, Aside(name="condensation", extra=known(text=happened.summary)))
            elif isinstance(happened, Aside):
                self._aside(event, happened)
            self._before_ns = at_ns or self._before_ns
        while len(self._talks) > 1:
            self._close()
        return tuple(map(self._placed, self._talks[0].thread.spans()))

    @property
    def _talk(self) -> Talk:
        return self._talks[-1]

    # --- what an event does to the thread

    def _prompted(self, prompt: Prompted) -> None:
        talk = self._talk
        talk.thread.request = structs.replace(
            talk.thread.request, system=prompt.message, tools=prompt.tools
        )
        lacks = () if prompt.schemas else (NO_SCHEMAS,)
        has = (NO_SYSTEM,) if prompt.tools is None else (NO_SYSTEM, NO_TOOLS)
        talk.know(*lacks, known_now=has)

    def _add_input(self, event: Event, message: Message) -> None:
        self._show(event, message)
        self._talk.thread.add_message(message, place=self._place(event))

    def _show(self, event: Event, message: Message) -> None:
        self._talk.shown.append(Shown(event=_id(event), message=message))

    def _acted(self, event: Event, acted: Acted, at_ns: int | None) -> None:
        talk, place = self._talk, self._place(event)
        if acted.call_id is not None:
            talk.called = acted.call_id
            self._call_of[_id(event)] = acted.call_id
        if event.index in self._answers:
            self._answered(event, acted, at_ns)
        for call in reversed(talk.thread.open_calls()):
            if call.call_id == acted.call_id:
                self._began[call.id] = (at_ns, place)
                break

    def _answered(self, event: Event, acted: Acted, at_ns: int | None) -> None:
        """The model call of an answer, told at the first event that is of it."""
        talk = self._talk
        if acted.recast:
            talk.know(RECAST)
        message = joined(self._answers[event.index])
        number = self._numbers[event.index]
        tokens = self._figures.usage(number, acted.answer)
        latency = self._figures.latency_ns(number)
        start = at_ns - latency if at_ns is not None and latency is not None else self._before_ns
        quality: TimeQuality = "derived" if at_ns is not None else "none"
        response = common.response(acted.answer)
        self._show(event, message)
        talk.thread.add_model_call(
            message,
            Turn(
                id=derived_id(self._root, event.index),
                response=structs.replace(response, id=response.id or acted.answer_id),
                usage=tokens,
                cost=self._figures.cost(number, tokens),
                start_ns=start if at_ns is not None else None,
                end_ns=at_ns,
                time_quality=quality,
                place=self._place(event),
                extra=known(latency_s=latency / 1e9 if latency is not None else None),
            ),
        )
        self._tally.counts["model_calls"] += 1

    def _returned(self, event: Event, returned: Returned, at_ns: int | None) -> None:
        talk = self._talk
        call_id = returned.call_id or self._call_of.get(returned.cause or "") or talk.called
        content = "" if returned.content is None else returned.content
        body = {"role": "tool", "tool_call_id": call_id, "content": content}
        body.update(known(name=returned.name))
        if call_id is None:
            body = {"role": "user", "content": content}
        elif returned.error and all(c.call_id != call_id for c in talk.thread.open_calls()):
            body["is_error"] = True  # there is no call that could be told to have failed
        message = Message(dialect="openai", body=body)
        self._show(event, message)
        errors = {call_id: returned.error} if call_id and returned.error else None
        talk.thread.add_message(message, place=self._place(event), at_ns=at_ns, errors=errors)
        talk.called = None

    def _sent(self, event: Event, sent: Sent, at_ns: int | None) -> None:
        self._acted(event, sent.acted, at_ns)
        if len(self._talks) >= MAX_DEPTH:
            self._tally.problem(f"event {event.index}", f"an agent more than {MAX_DEPTH} deep")
            return
        parent = next((c.id for c in reversed(self._talk.thread.open_calls())), self._talk.agent)
        agent = derived_id(self._root, "agent", event.index)
        self._talk.thread.add_spans(
            AgentSpan(
                id=agent,
                name=sent.agent,
                parent=parent,
                start_ns=at_ns,
                time_quality="derived" if at_ns is not None else "none",
                place=self._place(event),
            )
        )
        request = structs.replace(self._request, system=None, tools=None, context=None)
        self._talks.append(Talk(agent, request, self._tally))
        task = Message(dialect="openai", body={"role": "user", "content": sent.task})
        self._add_input(event, task)

    def _back(self, event: Event, back: Back, at_ns: int | None) -> None:
        if len(self._talks) > 1:
            self._close()
        self._returned(event, back.result, at_ns)

    def _close(self) -> None:
        ended = self._talks.pop()
        self._talk.thread.add_spans(*ended.thread.spans())

    def _aside(self, event: Event, aside: Aside) -> None:
        at_ns = ns(event.raw.get("timestamp"))
        if aside.recalled:
            self._talk.know(RECALLED)
        self._talk.thread.add_spans(
            OtherSpan(
                id=derived_id(self._root, "aside", event.index),
                name=aside.name,
                parent=self._talk.agent,
                start_ns=at_ns,
                end_ns=at_ns,
                time_quality="exact" if at_ns is not None else "none",
                status="error" if aside.error is not None else "unset",
                error=aside.error,
                place=self._place(event),
                operation=aside.name,
                extra=aside.extra,
            )
        )

    def _placed(self, span: AnySpan) -> AnySpan:
        """A call begins with its own action, where one answer made several."""
        if not isinstance(span, ToolCall) or span.id not in self._began:
            return span
        start, place = self._began[span.id]
        if span.start_ns is None or start is None or start < span.start_ns:
            return structs.replace(span, place=place)
        ended = span.end_ns is not None and span.end_ns < start
        return span if ended else structs.replace(span, start_ns=start, place=place)

    def _place(self, event: Event) -> Place:
        return Place(span=word(event.raw.get("id")), message=event.index, line=self._run.line)


def _id(event: Event) -> str:
    return word(event.raw.get("id")) or f"#{event.index}"


UNWORDED = "results recorded before they were put into words for the model"
RECALLED = "what was recalled into the prompt is recorded as facts, not in its words"
RECAST = "calls told from the actions; the model's own words are not recorded"
NO_SCHEMAS = "parameters of the tools not recorded"


class Shown(Struct, frozen=True, kw_only=True, eq=False):
    """A message of the context and the event it came with."""

    event: str | None
    message: Message


class Talk:
    """One agent's thread, and the events that make up its context."""

    def __init__(self, agent: str, request: Request, tally: Tally) -> None:
        self.agent = agent
        self.shown: list[Shown] = []
        self.called: str | None = None
        self.thread = Thread(
            parent=agent,
            request=request,
            fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS, UNWORDED)),
            tally=tally,
        )

    def know(self, *learnt: str, known_now: tuple[str, ...] = ()) -> None:
        """From here on the requests have these reasons too, and no longer those."""
        reasons = dict.fromkeys((*self.thread.fidelity.reasons, *learnt))
        kept = tuple(reason for reason in reasons if reason not in known_now)
        self.thread.fidelity = Fidelity(level=Level.PARTIAL, reasons=kept)

    def forget(self, forgot: Forgot) -> None:
        """The context without the forgotten, the summary in its place."""
        kept = [each for each in self.shown if each.event not in forgot.events]
        if forgot.summary is not None:
            body = {"role": "user", "content": forgot.summary}
            summary = Shown(event=None, message=Message(dialect="openai", body=body))
            place = len(kept) if forgot.offset is None else max(0, forgot.offset - 1)
            kept.insert(place, summary)
        self.shown = kept
        self.thread.reset(*(each.message for each in kept))
