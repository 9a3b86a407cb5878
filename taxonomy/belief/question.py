"""What is a model asked about its beliefs, and how is its answer read?

A step's own request with one message more: a few facts by name, each to be answered from what
stands above, in JSON of a given schema. Nothing it says goes on into the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay import action
from replay.convert import Converter, Sent
from replay.trace import Message, Request, extend

OPENING = "A check of what you know by now. It is not part of the conversation."

_MANNERS = (
    "Answer from what stands above alone and call no tool. For each of these give `known` (false"
    ' where nothing above tells it), `value` (as it was written, "" where it is not known) and'
    " `from` (where it stands, in a few words):"
)
_PART = {
    "type": "object",
    "properties": {
        "known": {"type": "boolean"},
        "value": {"type": "string"},
        "from": {"type": "string"},
    },
    "required": ["known", "value", "from"],
    "additionalProperties": False,
}
_ABOUT = 400
"""Characters of a fact's name, which a field of the trace may have chosen."""
_ANSWER_TOKENS = 4096
"""Room for an answer, and for the thinking of models that cannot leave it."""


class Belief(Struct, frozen=True, rename={"source": "from"}):
    """What a model says of a fact; `value` "" where it says that it does not know."""

    known: bool
    value: str
    source: str


def words(abouts: Sequence[str]) -> str:
    """The question about facts, in the order of their keys."""
    told = (" ".join(about.split())[:_ABOUT] for about in abouts)
    lines = [f"{key}: {about}" for key, about in zip(keys(abouts), told, strict=True)]
    return "\n".join([OPENING, _MANNERS, *lines])


def keys(abouts: Sequence[str]) -> tuple[str, ...]:
    """The names under which the facts are answered."""
    return tuple(f"fact_{number}" for number in range(1, len(abouts) + 1))


def sent(request: Request, abouts: Sequence[str], model: str) -> Sent:
    """The request of a step with the question after it, as that model gets it."""
    asked = Message(dialect="anthropic", body={"role": "user", "content": words(abouts)})
    shape = {
        "type": "object",
        "properties": dict.fromkeys(keys(abouts), _PART),
        "required": list(keys(abouts)),
        "additionalProperties": False,
    }
    config = request.params.get("output_config")
    kept = config if isinstance(config, dict) else {}
    params: dict[str, Any] = {
        **request.params,
        "max_tokens": _ANSWER_TOKENS,
        "output_config": {**kept, "format": {"type": "json_schema", "schema": shape}},
    }
    if request.tools:
        params["tool_choice"] = {"type": "none"}
    probing = structs.replace(request, params=params, context=extend(request.context, [asked]))
    return Converter(model).sent(probing)


def read(body: Mapping[str, Any], abouts: Sequence[str]) -> tuple[Belief, ...] | str:
    """The beliefs in an answer, in the order of the facts; a sentence where it cannot be read."""
    given = action.answered(body, str)
    if given.cut is not None:
        return f"its answer was {given.cut}"
    try:
        found = msgspec.json.decode(given.text.strip(), type=dict[str, Belief])
    except msgspec.DecodeError:
        return "its answer does not follow the schema"
    if set(found) != set(keys(abouts)):
        return "its answer leaves a fact out"
    return tuple(found[key] for key in keys(abouts))
