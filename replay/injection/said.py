"""What does a run say, as far as an error at one of its steps must know?"""

from __future__ import annotations

import json
from collections.abc import Iterator

from replay import messages
from replay.action import Act, Action, action
from replay.injection import values
from replay.injection.values import Sort
from replay.trace import Json, Step, Trace


class Said:
    """What a run says, as far as an error at a step must know: all its texts, and what the agent
    did after the step."""

    def __init__(self, trace: Trace, step: Step) -> None:
        self.trace = trace
        self.step = step
        self._later = [
            action(each.ask.response, each.ask.error)
            for each in trace.steps
            if each.thread == step.thread and each.index > step.index
        ]
        self._texts = tuple(_texts(trace))

    def used(self, value: Json) -> bool:
        """Does the recorded agent say or pass the value later?"""
        return any(carries(each, value) for each in self._later)

    def fresh(self, value: Json, sort: Sort) -> bool:
        """Is the value nowhere in the recording, so that an agent has it from the error alone?

        A status is a common word: it is enough that the recorded agent does not say it later.
        """
        if sort == "status":
            return not self.used(value)
        return not any(values.stands_in(value, text) for text in self._texts)


def carries(given: Action, value: Json) -> bool:
    """Does an answer say the value, or pass it to a tool?"""
    calls = any(values.held_by(value, call.arguments) or _in_raw(call, value)
                for call in given.calls)  # fmt: skip
    return calls or values.stands_in(value, given.text)


def _in_raw(call: Act, value: Json) -> bool:
    return call.raw is not None and values.stands_in(value, call.raw)


def _texts(trace: Trace) -> Iterator[str]:
    """Everything that stands in a run, each message once."""
    seen: set[int] = set()
    for step in trace.steps:
        answer = step.ask.response.message
        said = [*messages.conversation(step.ask.request), *([answer] if answer else [])]
        for message in said:
            if id(message) not in seen:
                seen.add(id(message))
                yield messages.text(message)
        for call in step.acts:
            yield json.dumps(call.arguments, ensure_ascii=False)
