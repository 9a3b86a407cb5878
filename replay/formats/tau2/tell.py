"""A tau2 simulation told as spans: the agent's conversation, and beside it what its user did.

The agent is shown its own messages, the user's words and the results of its own calls. A simulated
user may call tools too; the agent sees neither its calls nor their results, so they stand on a
thread of their own, asked for by no recorded model call. The greeting that opens most simulations
is canned and no call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from replay.formats import litellm
from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Tally
from replay.formats.normal import derived_id, ns, seconds_ns
from replay.messages import calls
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Fidelity,
    Json,
    Level,
    Message,
    Observation,
    Place,
    Request,
    TimeQuality,
    Tool,
    ToolCall,
)

POLICY_ALONE = "system prompt known by its policy alone"
TRUNCATED = "the beginning of the conversation was cut to fit the model"

_PARAMS = ("temperature", "top_p", "max_tokens", "reasoning_effort", "seed")


def request(info: dict[str, Any], simulation: dict[str, Any]) -> Request:
    """What all calls of the agent share."""
    agent, environment = obj(info.get("agent_info")), obj(info.get("environment_info"))
    policy = word(simulation.get("policy")) or word(environment.get("policy"))
    settings = obj(agent.get("llm_args"))
    body = {"role": "system", "content": policy}
    return Request(
        model=word(agent.get("llm")),
        system=Message(dialect="openai", body=body) if policy is not None else None,
        tools=_tools(environment.get("tool_defs")),
        params=known(**{name: settings.get(name) for name in _PARAMS}),
    )


def _tools(given: Json) -> tuple[Tool, ...] | None:
    """Tools by name, as the environment describes them where it was asked to."""
    if not isinstance(given, dict) or not given:
        return None
    return tuple(
        Tool(
            name=str(name),
            description=word(obj(about).get("doc")) or word(obj(about).get("description")),
            schema=obj(about).get("params") or obj(about).get("parameters"),
        )
        for name, about in given.items()
    )


def _fidelity(shared: Request, *more: str) -> Fidelity:
    reasons = [POLICY_ALONE if shared.system is not None else NO_SYSTEM]
    if shared.tools is None:
        reasons.append(NO_TOOLS)
    return Fidelity(level=Level.PARTIAL, reasons=(*reasons, *more))


class Teller:
    """Tells the messages of one simulation. `turns` gives the span that told a turn."""

    def __init__(self, root: str, shared: Request, where: str, tally: Tally) -> None:
        self.turns: dict[int, str] = {}
        self._root, self._where, self._tally = root, where, tally
        self._user = derived_id(root, "user")
        self._shared = shared
        self._thread = Thread(parent=root, request=shared, fidelity=_fidelity(shared), tally=tally)
        self._did: list[ToolCall] = []
        self._before_ns: int | None = None
        self._user_spoke = False

    def tell(self, messages: list[Json]) -> tuple[AnySpan, ...]:
        for index, raw in enumerate(messages):
            if not isinstance(raw, dict):
                self._tally.problem(f"{self._where} message {index}", "is not an object")
                continue
            for each in _flat(raw):
                self._told(each, index)
        return (*self._thread.spans(), *self._users())

    def _told(self, raw: dict[str, Any], index: int) -> None:
        role, at_ns = raw.get("role"), ns(raw.get("timestamp"))
        place = Place(message=index)
        if role == "tool":
            self._returned(raw, place, at_ns)
        elif role == "assistant" and self._is_call(raw):
            self._said(raw, place, at_ns)
        elif role == "user" and listed(raw.get("tool_calls")):
            self._user_acted(raw, index, at_ns)
        else:
            self._user_spoke = self._user_spoke or role == "user"
            self._thread.heard(_message(raw), place=place)
        self._before_ns = at_ns or self._before_ns

    def _is_call(self, raw: dict[str, Any]) -> bool:
        """Words before the user's first are the model's only if something was spent on them."""
        spent = raw.get("raw_data") or raw.get("usage") or raw.get("tool_calls")
        return self._user_spoke or bool(spent)

    def _said(self, raw: dict[str, Any], place: Place, at_ns: int | None) -> None:
        took = seconds_ns(raw.get("generation_time_seconds"))
        start = at_ns - took if at_ns is not None and took is not None else self._before_ns
        answer = obj(raw.get("raw_data"))
        whole = answer if "choices" in answer else {**answer, "choices": [answer]}
        tokens = litellm.usage(raw.get("usage")) or litellm.usage(answer.get("usage"))
        quality: TimeQuality = "derived" if at_ns is not None else "none"
        cut = (TRUNCATED,) if obj(raw.get("context_truncation")) else ()
        turn = Turn(
            id=derived_id(self._root, place.message),
            response=litellm.response(whole),
            usage=tokens,
            cost=litellm.cost(raw.get("cost"), tokens),
            start_ns=start if at_ns is not None else None,
            end_ns=at_ns,
            time_quality=quality,
            place=place,
            fidelity=_fidelity(self._shared, *cut),
        )
        number = raw.get("turn_idx")
        self.turns[number if isinstance(number, int) else place.message or 0] = turn.id
        self._tally.counts["model_calls"] += 1
        self._thread.said(_message(raw), turn)

    def _returned(self, raw: dict[str, Any], place: Place, at_ns: int | None) -> None:
        message = _message(raw)
        name = word(raw.get("id"))
        error = (word(raw.get("content")) or "error") if raw.get("error") else None
        if raw.get("requestor") == "user":
            self._user_saw(message, name, error, at_ns)
            return
        errors = {name: error} if name is not None and error is not None else None
        self._thread.heard(message, place=place, at_ns=at_ns, errors=errors)

    # --- the simulated user

    def _user_acted(self, raw: dict[str, Any], index: int, at_ns: int | None) -> None:
        for call in calls(_message(raw)):
            self._did.append(
                ToolCall(
                    id=derived_id(self._user, index, call.position),
                    name=call.name,
                    parent=self._user,
                    start_ns=at_ns,
                    time_quality="derived" if at_ns is not None else "none",
                    place=Place(message=index),
                    call_id=call.id,
                    arguments=call.arguments,
                    arguments_raw=call.raw,
                )
            )

    def _user_saw(
        self, message: Message, name: str | None, error: str | None, at_ns: int | None
    ) -> None:
        for slot, call in enumerate(self._did):
            if call.observation is None and name in (None, call.call_id):
                self._did[slot] = structs.replace(
                    call,
                    observation=Observation(message=message),
                    end_ns=at_ns,
                    status="error" if error is not None else "ok",
                    error=error,
                )
                return
        self._tally.problem(self._where, f"a result of the user's {name!r} answers no call")

    def _users(self) -> Iterator[AnySpan]:
        if self._did:
            yield AgentSpan(
                id=self._user, name="simulated user", parent=self._root, time_quality="none"
            )
        yield from self._did


def _flat(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message, or the several results that one may hold."""
    several = [each for each in listed(raw.get("tool_messages")) if isinstance(each, dict)]
    yield from several or [raw]


def _message(raw: dict[str, Any]) -> Message:
    """The message as it is sent to a provider; what the simulator notes on it is left out."""
    role = raw.get("role")
    body: dict[str, Json] = {"role": role, "content": raw.get("content")}
    if role == "tool":
        body["tool_call_id"] = word(raw.get("id"))
    if given := listed(raw.get("tool_calls")):
        body["tool_calls"] = [_call(obj(each)) for each in given]
    answer = obj(raw.get("raw_data"))
    told = obj(answer.get("message")) or obj(litellm.choice(answer).get("message"))
    if thoughts := word(told.get("reasoning_content")):
        body["reasoning_content"] = thoughts
    return Message(dialect="openai", body=body)


def _call(raw: dict[str, Any]) -> Json:
    arguments = raw.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": raw.get("name"), "arguments": arguments}
    return {"id": raw.get("id"), "type": "function", "function": function}
