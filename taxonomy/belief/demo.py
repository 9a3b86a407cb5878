"""The beliefs of the demo model: what its own rules would go by, read off the request it is sent.

It believes what the last result said of a thing, except where it mixes things up: the total of an
order that was read long ago, with much else seen since, it takes for that of the order it read
last, unless its prompt has it read again. That is how it refunds the wrong sum; asked, it says it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from replay import canon
from replay.errors import ModelRefused
from replay.models.demo import Demo, request
from replay.models.demo.chance import Chance
from replay.models.demo.mind import Mind
from replay.trace import Json
from taxonomy.belief.question import OPENING

_LINE = re.compile(r"^(fact_\d+): (?P<field>[\w.]+) of (?P<name>\w+) (?P<value>\S+)$", re.M)
_ANY = re.compile(r"^(fact_\d+): (.*)$", re.M)


class DemoBeliefs:
    """`replay.models.Model` for questions about beliefs: rule-based, local, free."""

    name = Demo.name

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        """Raises ModelRefused where no question about beliefs ends the request, and where its
        tools are not those of a shop."""
        said, asked = _parted(body)
        mind = Mind(said, Chance(said.fingerprint, sample))
        if not mind.kit.is_shop():
            raise ModelRefused(
                "the demo model believes only what a shop's tools showed it",
                "ask the run's own model (--model NAME --live --budget USD)",
            )
        facts = {key: _belief(mind, line) for key, line in _lines(asked)}
        content = [{"type": "text", "text": json.dumps(facts)}]
        return {
            "id": f"msg_{canon.digest('belief', said.fingerprint, asked).partition(':')[2][:24]}",
            "type": "message",
            "role": "assistant",
            "model": self.name,
            "content": content,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": len(canon.canonical(body)) // 4,
                "output_tokens": len(canon.canonical(content)) // 4,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        }


def _parted(body: dict[str, Any]) -> tuple[request.Asked, str]:
    """The conversation without the question that ends it, and the question."""
    *before, last = body["messages"]
    content = last["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    asked = next((b["text"] for b in blocks if str(b.get("text", "")).startswith(OPENING)), None)
    if asked is None:
        raise ModelRefused("the demo model was asked for no belief")
    left = [block for block in blocks if block.get("text") != asked]
    kept = [*before, {**last, "content": left}] if left else before
    return request.read({**body, "messages": kept}), asked


def _lines(asked: str) -> Iterator[tuple[str, str]]:
    for match in _ANY.finditer(asked):
        yield match[1], match[0]


def _belief(mind: Mind, line: str) -> dict[str, Json]:
    """What it believes of a fact of a thing; of any other question it knows nothing."""
    fact = _LINE.match(line)
    if fact is None:
        return _unknown()
    mixes = (fact["name"], fact["field"]) == ("order_id", "total_cents")
    believed = _gone_by(mind, fact["value"]) if mixes else fact["value"]
    for call in reversed(mind.calls):
        record = next(_records(call.value, fact["name"], believed), None)
        value = record.get(fact["field"]) if record is not None and not call.failed else None
        if value is not None:
            shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return {"known": True, "value": shown, "from": f"{call.name} {believed}"}
    return _unknown()


def _unknown() -> dict[str, Json]:
    return {"known": False, "value": "", "from": ""}


def _gone_by(mind: Mind, order: str) -> str:
    """The order whose record it goes by when it thinks of that one."""
    latest = mind.facts.latest_order()
    mixes = latest is not None and mind.facts.stale(order) and not mind.obeys("reread")
    return latest if mixes and latest is not None else order


def _records(value: Json, name: str, identifier: str) -> Iterator[dict[str, Json]]:
    """The objects in a result that are about that thing."""
    if isinstance(value, dict):
        if str(value.get(name)) == identifier:
            yield value
        for each in value.values():
            yield from _records(each, name, identifier)
    elif isinstance(value, list):
        for each in value:
            yield from _records(each, name, identifier)
