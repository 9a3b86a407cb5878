"""Tries of thinking: may it be taken out, and must it be, behind an edited prompt?"""

from __future__ import annotations

from collections.abc import Iterator

from replay.doctor import requests
from replay.doctor.desk import Desk
from replay.doctor.found import Found, Probe, fails, holds, input_tokens, tried, unclear
from replay.doctor.requests import Body
from replay.errors import RequestRefused

CHECKS = ("stripped_thinking", "bound_thinking")

KINDS = ("thinking", "redacted_thinking")


def _thinking(desk: Desk) -> Iterator[Found]:
    thought = _thought(desk)
    if isinstance(thought, str):
        yield from (unclear(check, thought) for check in CHECKS)
        return
    asked, answer = thought
    yield _stripped(desk, asked, answer["content"])
    yield _bound(desk, asked, answer["content"])


THINKING = Probe(
    CHECKS,
    _thinking,
    lambda model: [requests.puzzle(model, requests.THINKING[0])] * 3 + [requests.called(model)],
)


def _thought(desk: Desk) -> tuple[Body, Body] | str:
    """A request and an answer to it that thinks before it calls, or why there is none."""
    why = ""
    for setting in requests.THINKING:
        asked = requests.puzzle(desk.model, setting)
        answer = tried(desk, asked)
        if isinstance(answer, RequestRefused):
            why = f"this model cannot be made to think: {answer.message}"
            continue
        kinds = {block.get("type") for block in answer["content"]}
        if not kinds & {*KINDS}:
            return "the model did not think before it answered"
        if answer["stop_reason"] != "tool_use":
            return "the model thought, and then called no tool"
        return asked, answer
    return why


def _stripped(desk: Desk, asked: Body, content: list[Body]) -> Found:
    """The turn as replay sends it: no thinking, ids by their order, thinking not asked for."""
    check = CHECKS[0]
    answer = tried(desk, _without(_answered(asked, _as_replayed(content)), "thinking"))
    if isinstance(answer, RequestRefused):
        return fails(check, f"refused: {answer.message}")
    return holds(check, f"accepted, answered with `{answer['stop_reason']}`")


def _bound(desk: Desk, asked: Body, content: list[Body]) -> Found:
    check = CHECKS[1]
    kept = _answered(asked, content)
    control = tried(desk, kept)
    if isinstance(control, RequestRefused):
        return unclear(check, f"thinking is refused even where nothing changed: {control.message}")
    edited = {"system": requests.EDITED_SYSTEM}
    answer = tried(desk, {**kept, **edited})
    if isinstance(answer, RequestRefused):
        return holds(check, f"refused: {answer.message}")
    bare = tried(desk, {**_answered(asked, _unthinking(content)), **edited})
    if isinstance(bare, RequestRefused):
        return unclear(check, "accepted; whether it was dropped cannot be told")
    more = input_tokens(answer) - input_tokens(bare)
    if more > 0:
        return fails(check, f"accepted and counted: {more} tokens more than without it")
    return holds(check, "dropped without a word: not a token more than without it")


def _answered(asked: Body, content: list[Body]) -> Body:
    """The conversation with that turn of the model and a result for each of its calls."""
    calls = [block["id"] for block in content if block.get("type") == "tool_use"]
    results = [requests.result(call, "2.1 bar") for call in calls]
    turns = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return {**asked, "messages": [*asked["messages"], *turns]}


def _as_replayed(content: list[Body]) -> list[Body]:
    calls = (f"toolu_arc_{at}" for at in range(len(content)))
    return [
        {"type": "tool_use", "id": next(calls), "name": block["name"], "input": block["input"]}
        if block["type"] == "tool_use"
        else block
        for block in _unthinking(content)
    ]


def _unthinking(content: list[Body]) -> list[Body]:
    return [block for block in content if block.get("type") not in KINDS]


def _without(body: Body, field: str) -> Body:
    return {name: value for name, value in body.items() if name != field}
