"""Tries of what a request may look like: most are accepted or refused, and that is the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replay.convert import takes_sampling
from replay.doctor import requests
from replay.doctor.desk import Desk
from replay.doctor.found import Found, Probe, fails, holds, tried, unclear, used
from replay.doctor.requests import Body
from replay.errors import RequestRefused


def accepted(check: str, body: Callable[[str], Body]) -> Probe:
    """The assumption that a request is accepted."""

    def run(desk: Desk) -> Iterator[Found]:
        answer = tried(desk, body(desk.model))
        if isinstance(answer, RequestRefused):
            yield fails(check, f"refused: {answer.message}")
        else:
            yield holds(check, f"accepted, answered with `{answer['stop_reason']}`")

    return Probe((check,), run, lambda model: [body(model)])


def _forced(desk: Desk) -> Iterator[Found]:
    answer = tried(desk, requests.forced(desk.model))
    if isinstance(answer, RequestRefused):
        yield fails("forced_choice", f"refused: {answer.message}")
    elif any(block.get("type") == "tool_use" for block in answer["content"]):
        yield holds("forced_choice", "accepted, and the tool was called")
    elif answer["stop_reason"] == "max_tokens":
        yield unclear("forced_choice", "accepted, but the answer was cut before any call")
    else:
        yield fails("forced_choice", "accepted, but the tool was not called")


def _sampling(desk: Desk) -> Iterator[Found]:
    answer = tried(desk, requests.warm(desk.model))
    expected = takes_sampling(desk.model)
    if not isinstance(answer, RequestRefused):
        yield (holds if expected else fails)("sampling", "accepted")
    elif "temperature" in answer.message:
        yield (fails if expected else holds)("sampling", f"refused: {answer.message}")
    else:
        yield unclear("sampling", f"refused, perhaps for another reason: {answer.message}")


def _streamed(desk: Desk) -> Iterator[Found]:
    answer = tried(desk, requests.streamed(desk.model))
    if isinstance(answer, RequestRefused):
        yield fails("stream", f"refused: {answer.message}")
    else:
        yield holds("stream", f"put together whole, {used(answer, 'output_tokens')} tokens out")


FORCED = Probe(("forced_choice",), _forced, lambda model: [requests.forced(model)])
SAMPLING = Probe(("sampling",), _sampling, lambda model: [requests.warm(model)])
STREAMED = Probe(("stream",), _streamed, lambda model: [requests.streamed(model)])
