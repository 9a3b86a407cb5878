"""Recorded conversations in every dialect, and edits of them: the ground of edit tests.

A conversation is a list of what happens: `("user", text)`, `("system", text)`, or an answer,
`("model", text, calls)`, whose calls are (tool, result) with None for no result. The model is
asked before each answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from replay import digests, steps
from replay.edit.changes import (
    Change,
    InjectConstraint,
    InsertMessage,
    PatchSystem,
    RemoveTool,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetMessage,
    SetModel,
    SetObservation,
    SetParameter,
    SetSystem,
    SetTool,
    SummariseBefore,
)
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Tally
from replay.trace import (
    AgentSpan,
    Dialect,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Request,
    Tool,
    Trace,
)

Event = tuple[Any, ...]

SYSTEM = "You refund orders.\nRefund at once.\n"
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
TOOLS = (
    Tool(name="get_order", description="Look up.", schema=SCHEMA),
    Tool(name="refund_order", description="Refund.", schema=SCHEMA),
    Tool(name="find_product", description="Find.", schema=SCHEMA),
)
LOOK: tuple[Event, ...] = (
    ("user", "Refund order 7."),
    ("model", "I look.", [("get_order", "shipped")]),
    ("model", "", [("get_order", "shipped"), ("refund_order", "done")]),
    ("model", "It is done.", []),
    ("user", "And order 8?"),
    ("model", "", [("get_order", "lost")]),
    ("model", "It is lost.", []),
)  # fmt: skip


def recorded(events: Sequence[Event], dialect: Dialect = "anthropic", **beside: Any) -> Trace:
    """A trace of one thread in which all this happened; `beside` are fields of its requests."""
    system = Message(dialect=dialect, body={"role": "system", "content": SYSTEM})
    request = Request(**{"model": "tiny", "system": system, "tools": TOOLS, **beside})
    exact = Fidelity(level=Level.EXACT)
    thread = Thread(parent="root", request=request, fidelity=exact, tally=Tally())
    for at, event in enumerate(events):
        if event[0] != "model":
            body = {"role": event[0], "content": event[1]}
            thread.add_message(Message(dialect=dialect, body=body))
            continue
        _, text, calls = event
        named = [(f"call_{at}_{place}", *call) for place, call in enumerate(calls)]
        thread.add_model_call(answer(dialect, text, named), Turn(id=f"step-{at}"))
        for message in results(dialect, named):
            thread.add_message(message)
    spans = (AgentSpan(id="root", name="agent"), *thread.spans())
    made, loose, _ = steps.build(spans)
    return Trace(
        id=digests.trace_id("built", "edit", None),
        run="built",
        header=Header(format="built", source_id="built"),
        spans=spans,
        steps=made,
        loose=loose,
    )


def answer(dialect: Dialect, text: str, calls: Sequence[tuple[str, str, Any]]) -> Message:
    """An answer with its calls (id, tool, result), as the provider shapes it."""
    body: dict[str, Json] = {"role": "assistant", "content": text}
    if dialect == "anthropic":
        used = [{"type": "tool_use", "id": i, "name": n, "input": {"id": 7}} for i, n, _ in calls]
        body["content"] = [{"type": "text", "text": text}, *used] if text else used
    elif calls and dialect == "openai":
        body["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": '{"id": 7}'}}
            for i, n, _ in calls
        ]
    elif calls:
        body["tool_calls"] = [{"id": i, "function": n, "arguments": {"id": 7}} for i, n, _ in calls]
    return Message(dialect=dialect, body=body)


def results(dialect: Dialect, calls: Sequence[tuple[str, str, Any]]) -> list[Message]:
    """What the calls returned: in one message, or one each."""
    known = [(call, name, text) for call, name, text in calls if text is not None]
    if dialect == "anthropic":
        blocks = [{"type": "tool_result", "tool_use_id": i, "content": t} for i, _, t in known]
        bodies: list[Json] = [{"role": "user", "content": blocks}] if blocks else []
    else:
        key = "name" if dialect == "openai" else "function"
        bodies = [
            {"role": "tool", "tool_call_id": call, key: name, "content": text}
            for call, name, text in known
        ]
    return [Message(dialect=dialect, body=body) for body in bodies]


def texts(trace: Trace, step: int) -> list[str]:
    """What a step's request says, message by message, as JSON."""
    context = trace.steps[step].ask.request.context
    return [json.dumps(each.body) for each in context.messages()] if context is not None else []


# --- strategies

_NAMES = [tool.name for tool in TOOLS]
_WORDS = st.sampled_from(["Be kind.", "Never refund.", "ok", "two\nlines"])
_CALLS = st.lists(
    st.tuples(st.sampled_from(_NAMES), st.sampled_from(["ok", "lost", "ok", None])), max_size=3
)
_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.tuples(st.just("user"), _WORDS),
    st.tuples(st.just("model"), st.sampled_from(["", "I see."]), _CALLS),
    st.tuples(st.just("model"), st.just("Done."), st.just([])),
    st.tuples(st.just("system"), _WORDS),
)

traces = st.builds(
    recorded,
    st.lists(_EVENTS, min_size=1, max_size=9).map(lambda rest: [("user", "Go."), *rest]),
    st.sampled_from(["anthropic", "openai", "inspect"]),
)

_MESSAGE = st.integers(0, 12)
_STEP = st.integers(0, 5)

of_steps: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        SetObservation,
        step=_STEP,
        text=_WORDS,
        call=st.none() | st.integers(0, 2),
        is_error=st.none() | st.booleans(),
    ),
    st.builds(InjectConstraint, _WORDS, _STEP),
    st.builds(SummariseBefore, _STEP, _WORDS),
)
"""Changes that name a step."""

of_conversations: st.SearchStrategy[Change] = st.one_of(
    of_steps,
    st.builds(SetMessage, _MESSAGE, _WORDS),
    st.builds(InsertMessage, _MESSAGE, st.sampled_from(["user", "assistant", "system"]), _WORDS),
    st.builds(InsertMessage, st.just(-1), st.sampled_from(["user", "system"]), _WORDS),
    st.builds(
        ReplaceText, st.sampled_from(["Be", "."]), _WORDS, _MESSAGE.map(lambda at: f"message {at}")
    ),
)

changes: st.SearchStrategy[Change] = st.one_of(
    of_conversations,
    st.builds(SetSystem, _WORDS),
    st.builds(ReplaceText, st.just("at once"), _WORDS),
    st.builds(ReplaceText, st.just("Look"), _WORDS, st.just("tool get_order")),
    st.builds(
        PatchSystem, st.just("@@ -1,2 +1,2 @@\n You refund orders.\n-Refund at once.\n+Wait.\n")
    ),
    st.builds(InjectConstraint, _WORDS),
    st.builds(SetTool, st.sampled_from(_NAMES), _WORDS),
    st.builds(RenameTool, st.sampled_from(_NAMES), st.sampled_from(["look", "pay"])),
    st.builds(RemoveTool, st.sampled_from(_NAMES)),
    st.builds(SetModel, st.just("other")),
    st.builds(SetEffort, st.sampled_from(["low", "max"])),
    st.builds(SetParameter, st.just("temperature"), st.sampled_from([None, 0, 0.5])),
)
"""Changes of every kind, many of which fit `recorded` conversations."""
