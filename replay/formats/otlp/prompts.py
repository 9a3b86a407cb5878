"""What a model span says it was asked and answered, in whichever generation of the conventions.

The newest that is there is read: messages as one attribute, then events of the span, then
attributes with numbers in their names, then what OpenInference and the JavaScript SDK write.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from replay.formats.fields import obj, word
from replay.formats.openinference import exports as openinference
from replay.formats.openinference import messages as counted_messages
from replay.formats.openinference.attributes import flat, parsed
from replay.formats.otlp import names
from replay.formats.otlp.contexts import Before, Conversations, Shown, message_of
from replay.formats.otlp.messages import Body, counted, several, told
from replay.formats.otlp.records import Raw
from replay.trace import Message

_CUT = "anthropic.content.truncated"


class Talk(NamedTuple):
    """`answer` is the model's message, `why` the stop reason it came with; `spread` says that the
    messages lay in several attributes, of which some may have been dropped."""

    shown: Shown
    answer: Message | None = None
    why: str | None = None
    spread: bool = False


def talk(raw: Raw, conversations: Conversations, before: Before) -> Talk:
    """Both sides of a model span, after the calls before it."""
    given = raw.attributes
    if names.INPUT in given or names.OUTPUT in given:
        found = _whole(given, conversations, before)
    else:
        found = _pieces(raw, conversations, before)
    if given.get(_CUT) in (True, "true"):
        return found._replace(shown=found.shown._replace(cut=True))
    return found


def _whole(given: dict[str, Any], conversations: Conversations, before: Before) -> Talk:
    """Messages that stand in one attribute, as JSON text or as a value."""
    system = _instructions(given, conversations)
    asked = given.get(names.INPUT)
    if asked is None:
        shown = Shown(system=system)
    elif isinstance(asked, str) and asked.lstrip()[:1] not in ("[", "{"):
        shown = conversations.bodies(several(asked), system, before)
    else:
        text = asked if isinstance(asked, str) else msgspec.json.encode(asked).decode()
        if text.lstrip().startswith("{"):
            text = f"[{text}]"
        shown = conversations.text(text, system, before)
    entries = parsed(given.get(names.OUTPUT))
    bodies = several(entries, "assistant") if entries is not None else []
    ended = obj(entries[0]).get("finish_reason") if isinstance(entries, list) and entries else None
    return Talk(shown, message_of(bodies[0]) if bodies else None, word(ended))


def _instructions(given: dict[str, Any], conversations: Conversations) -> Message | None:
    parts = given.get(names.SYSTEM)
    return conversations.instructions(parts) if parts else None


def _pieces(raw: Raw, conversations: Conversations, before: Before) -> Talk:
    """Messages of older generations, and of other conventions."""
    given = raw.attributes
    system = _instructions(given, conversations)
    asked, answer, why = told(raw.events)
    spread = False
    if not asked and answer is None:
        asked, answer, spread = _attributes(given)
    if not asked and answer is None:
        asked, answer = _elsewhere(raw)
        spread = raw.cut and any(name.startswith("llm.input_messages.") for name in given)
    return Talk(
        conversations.bodies(asked, system, before),
        message_of(answer) if answer is not None else None,
        why,
        spread,
    )


def _attributes(given: dict[str, Any]) -> tuple[list[Body], Body | None, bool]:
    """`gen_ai.prompt.0.role` and so on; before these, one attribute for all of them."""
    asked, answers = counted(given, "prompt"), counted(given, "completion")
    spread = bool(asked or answers)
    if not asked and "gen_ai.prompt" in given:
        asked = several(parsed(given["gen_ai.prompt"]))
    if not answers and "gen_ai.completion" in given:
        answers = several(parsed(given["gen_ai.completion"]), "assistant")
    return asked, answers[0] if answers else None, spread


def _elsewhere(raw: Raw) -> tuple[list[Body], Body | None]:
    """OpenInference's names, the JavaScript SDK's, and whatever input and output a span has."""
    given = flat(raw.attributes)
    for name, ours in (("input.value", names.GIVEN), ("output.value", names.GAVE)):
        value = names.first(raw.attributes, ours.names)
        if value is not None:
            given[name] = value
    span = openinference.Raw(trace=raw.trace, id=raw.id, attributes=given)
    return counted_messages.asked(span), counted_messages.answered(span)
