"""The requests of a check-up: our own texts, nothing of any run.

All of them talk about one boiler room, are small but for the prefix that must be worth caching,
and are made of the shapes that replay sends.
"""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]

SYSTEM = "You keep the log of a boiler room. Answer in one short sentence."
EDITED_SYSTEM = "You keep the log of an engine room. Answer in one short sentence."

ROOM_TOKENS = 256
"""Room for an answer; some models think first, and that counts."""

THINKING_TOKENS = 2048
STREAMED_TOKENS = 16_001
LOG_LINES = 400
"""Well over 4 096 tokens, the highest floor of a cache that is known."""

GAUGE: Body = {
    "name": "read_gauge",
    "description": "Reads a gauge of the boiler room. The pressure comes back in bar.",
    "input_schema": {
        "type": "object",
        "properties": {"gauge": {"type": "string", "description": "A letter, like A."}},
        "required": ["gauge"],
    },
}
CLOCK: Body = {
    "name": "read_clock",
    "description": "Reads the clock of the boiler room.",
    "input_schema": {"type": "object", "properties": {}},
}

THINKING: tuple[Body, ...] = ({"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1024})
"""How thinking is turned on: on newer models, on older ones."""


def plain(model: str, text: str = "Say: all is well.", **beside: Any) -> Body:
    """One question."""
    return _body(model, [_user(text)], **beside)


def called(model: str, *after: Body, **beside: Any) -> Body:
    """Two calls in one turn and their results, as replay sends them; blocks `after` the results."""
    asked = [_call(0, "A"), _call(1, "B")]
    answered = [result("toolu_arc_0", "2.1 bar"), result("toolu_arc_1", "1.9 bar"), *after]
    messages = [
        _user("What do gauges A and B show?"),
        {"role": "assistant", "content": asked},
        {"role": "user", "content": answered},
    ]
    return _body(model, messages, **{"tools": [GAUGE], **beside})


def results_then_text(model: str) -> Body:
    return called(model, text_block("Which of the two is higher?"))


def tool_gone(model: str) -> Body:
    return called(model, tools=[CLOCK])


def system_after_user(model: str) -> Body:
    said = [_user("Is all well?"), _said("All is well."), _user("Are you sure?")]
    return _body(model, [*said, _system("The night shift has begun.")])


def system_after_answer(model: str) -> Body:
    said = [_user("Is all well?"), _said("All is well.")]
    return _body(model, [*said, _system("The night shift has begun."), _user("Are you sure?")])


def forced(model: str) -> Body:
    choice = {"type": "tool", "name": GAUGE["name"]}
    return plain(model, "Is all well with gauge A?", tools=[GAUGE], tool_choice=choice)


def warm(model: str) -> Body:
    return plain(model, temperature=0.5)


def streamed(model: str) -> Body:
    return plain(model, max_tokens=STREAMED_TOKENS)


def puzzle(model: str, thinking: Body) -> Body:
    """A question that is worth a thought and ends in a call."""
    text = (
        "One of the gauges A, B and C is broken. If A is broken, so is B. C is broken only if A"
        " is. Think about which one it must be, then read that gauge before you say anything."
    )
    beside = {"tools": [GAUGE], "thinking": thinking, "max_tokens": THINKING_TOKENS}
    return plain(model, text, **beside)


def log(model: str, stamp: int) -> Body:
    """A prompt long enough for every known cache; `stamp` makes it one that no cache has seen."""
    lines = (
        f"{at // 60:02d}:{at % 60:02d} valve {at * 7 % 90:02d} stood open by {at * 13 % 97} %."
        for at in range(LOG_LINES)
    )
    system = "\n".join([SYSTEM, f"The log of watch {stamp}:", *lines])
    return plain(model, "At what did the last valve stand?", system=system)


def log_extended(model: str, stamp: int) -> Body:
    first = log(model, stamp)
    more = [_said("At 10 %."), _user("And the one before it?")]
    return {**first, "messages": [*first["messages"], *more]}


def batched(model: str) -> dict[str, Body]:
    """Two requests of a batch by their ids."""
    return {f"arc-doctor-{at}": plain(model, f"Say: all is well in room {at}.") for at in (1, 2)}


def text_block(text: str) -> Body:
    return {"type": "text", "text": text}


def result(call_id: str, text: str) -> Body:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def _body(model: str, messages: list[Body], **beside: Any) -> Body:
    known = {"model": model, "max_tokens": ROOM_TOKENS, "system": SYSTEM, **beside}
    return {**known, "messages": messages}


def _user(text: str) -> Body:
    return {"role": "user", "content": text}


def _said(text: str) -> Body:
    return {"role": "assistant", "content": text}


def _system(text: str) -> Body:
    return {"role": "system", "content": text}


def _call(at: int, gauge: str) -> Body:
    known = {"type": "tool_use", "id": f"toolu_arc_{at}", "name": GAUGE["name"]}
    return {**known, "input": {"gauge": gauge}}
