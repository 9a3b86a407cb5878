"""The built-in demo model: a small rule-based support agent that really reads what it is sent.

It needs no key and no network, and it is a function of (request, sample): the same request gives
the same bytes in every process. It understands a shop's tools by their names and descriptions
(`request`), the customer's needs by their words (`mind`), and the rules of a system
prompt by ordinary English sentences (`rules`); without those rules it shows the bad habits
that real agents show. It is a stand-in for learning this tool and for testing it, not a language
model, and every figure that comes from it says so.
"""

from __future__ import annotations

from typing import Any

from replay import digests
from replay.errors import ModelRefused
from replay.models.demo import plan, request
from replay.models.demo.mind import Mind
from replay.models.demo.plan import Act
from replay.models.demo.rules import Chance
from replay.trace import Json

CHARACTERS_PER_TOKEN = 4
"""The whole token estimate: characters of canonical JSON, divided by this, rounded up."""


class Demo:
    """`replay.models.protocol.Model` without a model: rule-based, local, free."""

    name = "demo"

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        """The message that answers a Messages API request body.

        `model`, `max_tokens`, `metadata`, `stream` and the ids of calls do not change the answer.
        Raises ModelRefused where none of the offered tools is one it understands.
        """
        asked = request.read(body)
        chance = Chance(asked.fingerprint, sample)
        mind = Mind(asked, chance)
        _refuse_strangers(mind)
        return _message(plan.decide(mind), body, chance)


def _refuse_strangers(mind: Mind) -> None:
    if mind.kit.is_shop():
        return
    first = next(iter(mind.kit.offers), None)
    trouble = f"it does not know `{first}`" if first else "this request offers no tools"
    raise ModelRefused(
        f"the demo model answers only with a shop's tools, and {trouble}",
        "Try: --model NAME, that of this run; `arc demo` has runs for the demo model",
    )


def _message(act: Act, body: dict[str, Any], chance: Chance) -> dict[str, Any]:
    content: list[Json] = [{"type": "text", "text": act.text}]
    for position, use in enumerate(act.uses):
        content.append(
            {
                "type": "tool_use",
                "id": f"toolu_{chance.hex('call', str(position))[:24]}",
                "name": use.tool,
                "input": use.arguments,
            }
        )
    return {
        "id": f"msg_{chance.hex('message')[:24]}",
        "type": "message",
        "role": "assistant",
        "model": Demo.name,
        "content": content,
        "stop_reason": "tool_use" if act.uses else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": _tokens([body.get(part) for part in ("system", "tools", "messages")]),
            "output_tokens": _tokens(content),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _tokens(value: Json) -> int:
    return -(-len(digests.canonical(value)) // CHARACTERS_PER_TOKEN)
