"""A server as replay assumes it, and ways in which one may be otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from replay.doctor.assumptions import ASSUMPTIONS
from tests.messages_api import (
    BATCHES,
    MESSAGES,
    Body,
    MessagesApi,
    Received,
    message,
    text,
    thinking,
    tool_use,
)
from tests.messages_api import faults as wording
from tests.messages_api.handler import Reply

MODEL = "claude-haiku-5-5"
COUNT = f"{MESSAGES}/count_tokens"

TRIED = tuple(each.id for each in ASSUMPTIONS if each.untried is None)
"""The assumptions that a check can try, in the order of the list."""

Otherwise = Callable[[Received], Received | Reply]
"""What another server makes of a request: another one, or a reply at once."""


def keeper(body: Body) -> Body:
    """Thinks when it is told to, calls when it is made to, and else finds all well."""
    if body.get("thinking") and len(body["messages"]) == 1:
        thought = thinking("Were C broken, A would be, and B with it.")
        return message(thought, tool_use("read_gauge", gauge="B"), model=body["model"])
    if body.get("tool_choice"):
        return message(tool_use("read_gauge", gauge="A"), model=body["model"])
    return message(text("All is well."), model=body["model"])


class Odd(MessagesApi):
    """The strict server, but for one thing."""

    def __init__(self, otherwise: Otherwise = lambda received: received, **beside: Any) -> None:
        super().__init__(keeper, reckons=True, **beside)
        self.otherwise = otherwise

    def __enter__(self) -> Odd:
        super().__enter__()
        return self

    def reply(self, received: Received) -> Reply:
        found = self.otherwise(received)
        return found if isinstance(found, Reply) else super().reply(found)


def refusing(met: Callable[[Body], bool], path: str = MESSAGES) -> Otherwise:
    """Declines the requests that are met."""

    def otherwise(received: Received) -> Received | Reply:
        if received.path == path and met(received.body):
            return Reply(status=400, body=wording.error("invalid_request_error", "not here"))
        return received

    return otherwise


def instead(path: str, reply: Reply, method: str = "POST") -> Otherwise:
    """Says that to whatever comes to a path."""
    return lambda got: reply if (got.method, got.path) == (method, path) else got


def changing(change: Callable[[Body], Body]) -> Otherwise:
    """Reads requests for messages as if they were others."""

    def otherwise(received: Received) -> Received:
        if received.path != MESSAGES:
            return received
        return msgspec.structs.replace(received, body=change(received.body))

    return otherwise


def without(body: Body, *fields: str) -> Body:
    return {name: value for name, value in body.items() if name not in fields}


def unmarked(value: Any) -> Any:
    """A body without any marker for a cache."""
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    if isinstance(value, dict):
        return {n: unmarked(v) for n, v in value.items() if n != "cache_control"}
    return value


def rethought(body: Body, change: Callable[[Body], list[Body]]) -> Body:
    """A body whose blocks of thinking are replaced."""
    return {**body, "messages": [_rethought(each, change) for each in body["messages"]]}


def _rethought(said: Body, change: Callable[[Body], list[Body]]) -> Body:
    if isinstance(said["content"], str):
        return said
    blocks = [change(each) if each["type"] == "thinking" else [each] for each in said["content"]]
    return {**said, "content": [block for each in blocks for block in each]}


def blocks(body: Body, kind: str, at: int = -1) -> list[Body]:
    """The blocks of that kind in a message, the last by default."""
    said = body["messages"]
    content = said[at]["content"] if len(said) >= abs(at) else []
    return [] if isinstance(content, str) else [each for each in content if each["type"] == kind]


def roles(body: Body) -> list[str]:
    return [each["role"] for each in body["messages"]]


NOT_FOUND = Reply(status=404, body=wording.error("not_found_error", "no such path"))

OTHERWISE: dict[str, tuple[str, Otherwise]] = {
    "our ids are refused": (
        "tool_ids",
        refusing(
            lambda body: (
                len(blocks(body, "tool_result")) == 2
                and not blocks(body, "text")
                and body["tools"][0]["name"] == "read_gauge"
            )
        ),
    ),
    "text after results is refused": (
        "results_then_text",
        refusing(lambda body: bool(blocks(body, "tool_result") and blocks(body, "text"))),
    ),
    "every called tool must be offered": (
        "tool_gone",
        refusing(
            lambda body: (
                not (
                    {each["name"] for each in blocks(body, "tool_use", -2)}
                    <= {each["name"] for each in body.get("tools", [])}
                )
            )
        ),
    ),
    "no system message may be last": (
        "system_after_user",
        refusing(lambda body: roles(body)[-1] == "system"),
    ),
    "no system message may follow an answer": (
        "system_after_answer",
        refusing(lambda body: roles(body)[-3:] == ["assistant", "system", "user"]),
    ),
    "no tool can be forced": ("forced_choice", refusing(lambda body: "tool_choice" in body)),
    "a forced tool is ignored": (
        "forced_choice",
        changing(lambda body: without(body, "tool_choice")),
    ),
    "temperature is obeyed": ("sampling", changing(lambda body: without(body, "temperature"))),
    "a pending turn must have its thinking": (
        "stripped_thinking",
        refusing(
            lambda body: len(blocks(body, "tool_use", -2)) == 1 and not blocks(body, "thinking", -2)
        ),
    ),
    "thinking is read wherever it stands": (
        "bound_thinking",
        changing(lambda body: rethought(body, lambda block: [text(block["thinking"])])),
    ),
    "tokens are counted otherwise": (
        "token_count",
        instead(COUNT, Reply(body=json.dumps({"input_tokens": 12}))),
    ),
    "tokens are not counted": ("token_count", instead(COUNT, NOT_FOUND)),
    "nothing is cached": ("prefix_cache", changing(unmarked)),
    "an extension is not read from the cache": (
        "prefix_cache",
        changing(
            lambda body: (
                unmarked(body) if len(body["messages"]) == 3 and len(str(body)) > 9000 else body
            )
        ),
    ),
    "there are no batches": ("batch", instead(BATCHES, NOT_FOUND)),
    "batches are refused": ("batch", refusing(lambda _: True, BATCHES)),
    "a batch is lost": ("batch", instead(f"{BATCHES}/msgbatch_1", NOT_FOUND, "GET")),
    "answers are short": ("stream", refusing(lambda body: body["max_tokens"] > 16_000)),
}
"""How a server may be, with the assumption that does not hold there."""
