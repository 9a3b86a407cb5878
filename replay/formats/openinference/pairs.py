"""Which model call asked for which tool call, and what it was answered.

The parts of a call turn up apart: the model's message asks for it, a span runs it, a message of a
later request answers it. Where frameworks write calls into messages (`written`), both asking and
answering are read there.
"""

from __future__ import annotations

from msgspec import Struct

from replay.formats.normal import derived_id
from replay.formats.openinference import written
from replay.messages import Call, calls, results, text
from replay.trace import Message, ModelCall, Observation, ToolCall


class Wanted(Struct):
    """A tool call as its parts turn up; `slot` is the place of the span that ran it."""

    asker: ModelCall
    call: Call
    slot: int | None = None
    answer: Message | None = None
    error: str | None = None

    @property
    def observation(self) -> Observation | None:
        return Observation(message=self.answer) if self.answer is not None else None


class Pairs:
    """The tool calls of one trace, told in time order; `wanted` in the order they were asked for.

    A thread is an agent's; a call may be answered in another thread than asked (a handoff).
    """

    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        self.latest: dict[str, ModelCall] = {}
        self._by_id: dict[tuple[str | None, str], list[Wanted]] = {}
        self._said: dict[tuple[str, str], ModelCall] = {}

    def said(self, thread: str, call: ModelCall) -> None:
        """A model call, and what its message asks for."""
        self.latest[thread] = call
        message = call.response.message
        if message is not None:
            self._said[thread, text(message)] = call
            for each in calls(message):
                self._want(thread, call, each)

    def heard(self, thread: str, messages: tuple[Message, ...]) -> None:
        """What a model call was shown that none before it was: it may answer calls, or tell of
        calls, made by the model call whose words stand before them."""
        asker = self.latest.get(thread)
        for message in messages:
            if message.role == "assistant":
                asker = self._said.get((thread, text(message)), asker)
            for result in results(message):
                error = result.text if result.is_error else None
                self._answer(thread, result.call_id, message, error)
            for told in written.calls(message) if asker is not None else ():
                assert asker is not None
                call = Call(id=told.call_id, name=told.name, arguments=told.arguments)
                self._want(thread, asker, call)
            answer = written.answer(message)
            if answer is not None:
                self._answer(thread, answer.call_id, message, answer.error)

    def run(self, thread: str, call_id: str | None, name: str, slot: int) -> Wanted | None:
        """The call that a tool span ran, None where no model call is known to have asked.

        The latest of its id; where the span has none, the first of its name that the thread's
        latest model call asked for.
        """
        if call_id is not None:
            found = [each for each in self._called(thread, call_id) if each.slot is None]
        else:
            latest = self.latest.get(thread)
            open_ = (each for each in self.wanted if each.asker is latest and each.slot is None)
            found = [each for each in open_ if each.call.name == name]
        if not found:
            return None
        found[0].slot = slot
        return found[0]

    def _want(self, thread: str, asker: ModelCall, call: Call) -> None:
        wanted = Wanted(asker=asker, call=call)
        self.wanted.append(wanted)
        if call.id is not None:
            for key in ((thread, call.id), (None, call.id)):
                self._by_id.setdefault(key, []).append(wanted)

    def _called(self, thread: str, call_id: str) -> list[Wanted]:
        """The calls of that id, latest first: the thread's own, else those of any."""
        found = self._by_id.get((thread, call_id)) or self._by_id.get((None, call_id), [])
        return found[::-1]

    def _answer(
        self, thread: str, call_id: str | None, message: Message, error: str | None
    ) -> None:
        known = self._called(thread, call_id) if call_id is not None else []
        if known and known[0].answer is None:
            known[0].answer, known[0].error = message, error


def told_of(wanted: Wanted) -> ToolCall:
    """A call without a span: what the model asked for and was answered."""
    asker, call, observation = wanted.asker, wanted.call, wanted.observation
    ran = observation is not None
    return ToolCall(
        id=derived_id(asker.id, call.position, call.id, call.name),
        name=call.name,
        parent=asker.parent,
        start_ns=asker.end_ns,
        time_quality="derived" if asker.end_ns is not None else "none",
        status="unset" if not ran else "error" if wanted.error is not None else "ok",
        error=wanted.error,
        place=asker.place,
        call_id=call.id,
        asked_by=asker.id,
        arguments=call.arguments,
        arguments_raw=call.raw,
        observation=observation,
    )
