"""What the scripted model says, and what that costs.

One agent of a small shop. It looks two orders up in parallel, asks a refund for an order that was
never observed, which fails, and claims that all is done. The number of tool results in a request
says which turn it is, however a framework packs them into messages. Turn r takes 100·(r+1) tokens,
64 of them cached from turn 1 on, and answers with 20+r.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from replay.trace import Json

FINAL = "Order 1039 was refunded, all done."

PRICES = {
    "gpt-4o-mini": (0.15, 0.075, 0.60),
    "claude-haiku-4-5": (1.00, 0.10, 5.00),
    "gemini-2.5-flash": (0.30, 0.03, 2.50),
}
"""USD a million tokens as published: in, in from the cache, out."""


class ScriptedCall(Struct, frozen=True, kw_only=True):
    """One call of a turn; `id` is without what a wire puts before it."""

    id: str
    name: str
    arguments: dict[str, Json]


class Turn(Struct, frozen=True, kw_only=True):
    """An answer of the model: `calls`, or the `text` that ends the run. Calls with a text stand
    in that text."""

    number: int
    calls: tuple[ScriptedCall, ...] = ()
    text: str | None = None

    @property
    def input_tokens(self) -> int:
        """The total, cached tokens included."""
        return 100 * (self.number + 1)

    @property
    def cache_read_tokens(self) -> int:
        return 64 if self.number else 0

    @property
    def output_tokens(self) -> int:
        return 20 + self.number


TURNS = (
    Turn(
        number=0,
        calls=(
            ScriptedCall(id="0_0", name="get_order", arguments={"order_id": "1049"}),
            ScriptedCall(id="0_1", name="get_order", arguments={"order_id": "1050"}),
        ),
    ),
    Turn(
        number=1,
        calls=(
            ScriptedCall(
                id="1_0", name="refund_order", arguments={"order_id": "1039", "amount": 7500}
            ),
        ),
    ),
    Turn(number=2, text=FINAL),
)


def prose_turn_after(results: int, fields: Sequence[str]) -> Turn:
    """As `turn_after`, for a program that is offered no tools and reads calls out of texts: one
    call a turn, in the form in which DSPy asks for the `fields` of an answer."""
    calls = [call for turn in TURNS for call in turn.calls][results : results + 1]
    values = {"next_thought": "The next one.", "reasoning": "All is done.", "answer": FINAL}
    if "next_tool_name" not in fields:
        calls = []
    for call in calls:
        values |= {"next_tool_name": call.name, "next_tool_args": json.dumps(call.arguments)}
    said = [f"[[ ## {name} ## ]]\n{values[name]}\n" for name in fields]
    text = "\n".join([*said, "[[ ## completed ## ]]"])
    return Turn(number=results, calls=tuple(calls), text=text)


def turn_after(results: int, offered: Sequence[str]) -> Turn:
    """The turn that so many tool results lead to, its calls by the names of the tools on offer,
    which a framework may have put words before."""
    turn = TURNS[0 if results == 0 else 1 if results < 3 else 2]
    calls = tuple(replace(call, name=_offered(call.name, offered)) for call in turn.calls)
    return replace(turn, calls=calls)


def _offered(name: str, offered: Sequence[str]) -> str:
    return next((each for each in offered if each.endswith(name)), name)


def cost_usd(model: str, turn: Turn) -> float | None:
    """What the turn costs at `PRICES`, None for a model that is not there."""
    rates = PRICES.get(model)
    if rates is None:
        return None
    fresh = turn.input_tokens - turn.cache_read_tokens
    tokens = (fresh, turn.cache_read_tokens, turn.output_tokens)
    return sum(rate * count for rate, count in zip(rates, tokens, strict=True)) / 1e6
