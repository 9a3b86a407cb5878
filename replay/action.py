"""What does an answer do? Its calls, or, where it calls nothing, what it says.

Read from a recorded answer of any dialect and from a model's reply alike, so that the two can be
compared (`replay.compare`), shown in one line, and hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from replay import messages
from replay.trace import Json, Message, Response, Stop, Tool

_CUT: dict[Stop | None, str] = {
    "length": "cut at the token limit",
    "context": "out of context window",
    "filter": "refused by the provider",
    "pause": "paused by the provider",
    "compaction": "ended by a compaction",
    "error": "failed",
}
_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "filter",
    "pause_turn": "pause",
    "compaction": "compaction",
}
"""The Messages API's words for an answer that is not whole."""


class Act(Struct, frozen=True, kw_only=True):
    """One call of an action. `raw` is what was written where it did not parse."""

    tool: str
    arguments: Json
    raw: str | None = None


class Action(Struct, frozen=True, kw_only=True):
    """What an answer does. `cut` says why it is no whole answer, None where it is one."""

    calls: tuple[Act, ...] = ()
    text: str = ""
    cut: str | None = None

    @property
    def brief(self) -> str:
        """The tools it calls, or that it speaks."""
        return " + ".join(call.tool for call in self.calls) or ("text" if self.text else "nothing")

    @property
    def phrase(self) -> str:
        """The calls with their arguments, or that it speaks."""
        return " + ".join(map(_call_phrase, self.calls)) or self.brief


def action(response: Response, error: str | None = None) -> Action:
    """The action of a recorded answer; `error` is that of its call."""
    if response.message is None:
        return Action(cut=_CUT["error"] if error else "not recorded")
    return _action(response.message, _CUT.get(response.stop))


def answered(body: Mapping[str, Any], names: Callable[[str], str]) -> Action:
    """The action of a Messages API message; `names` gives a tool's recorded name."""
    cut = _CUT.get(_STOPS.get(str(body.get("stop_reason"))))
    return named(_action(Message(dialect="anthropic", body=dict(body)), cut), names)


def named(found: Action, names: Callable[[str], str]) -> Action:
    """The action with its tools called by other names."""
    calls = tuple(msgspec.structs.replace(call, tool=names(call.tool)) for call in found.calls)
    return msgspec.structs.replace(found, calls=calls)


def _action(message: Message, cut: str | None) -> Action:
    calls = tuple(
        Act(tool=call.name, arguments=call.arguments, raw=call.raw)
        for call in messages.calls(message)
    )
    return Action(calls=calls, text=messages.text(message), cut=cut)


def flaws(found: Action, tools: Iterable[Tool]) -> tuple[str, ...]:
    """What is wrong with an action whatever was meant: no such tool, a required argument gone."""
    offered = {tool.name: tool for tool in tools}
    said: list[str] = []
    for call in found.calls:
        tool = offered.get(call.tool)
        if tool is None:
            said.append(f"calls {call.tool}, which is not offered")
            continue
        required = tool.schema.get("required") if isinstance(tool.schema, dict) else None
        given = call.arguments if isinstance(call.arguments, dict) else {}
        said.extend(
            f"calls {call.tool} without {name}"
            for name in (required if isinstance(required, list) else ())
            if name not in given
        )
    return tuple(said)


def defaults(tool: Tool) -> dict[str, Json]:
    """The arguments of a tool whose schema gives a default: left out, they mean that."""
    properties = tool.schema.get("properties") if isinstance(tool.schema, dict) else None
    given = properties.items() if isinstance(properties, dict) else ()
    return {n: each["default"] for n, each in given if isinstance(each, dict) and "default" in each}


# --- phrases


_VALUE_WIDTH = 60


def _call_phrase(call: Act) -> str:
    if call.raw is not None:
        return f"{call.tool}({shown(call.raw)})"
    if not isinstance(call.arguments, dict):
        return f"{call.tool}({shown(call.arguments)})"
    given = (f"{name}={shown(value)}" for name, value in call.arguments.items())
    return f"{call.tool}({', '.join(given)})"


def shown(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 1] + "…"
