"""What was the model shown at a step of a SWE-agent run?

Since 1.1 a step keeps its `query`, the request's messages word for word. Before, they follow from
the history and from the processors that shortened it on its way to the model, where the settings
name them. Tools offered by function calling stand in no file; a model that writes its commands
as text was offered none.
"""

from __future__ import annotations

from typing import Any

from replay.formats.fields import listed, obj, word
from replay.formats.normal import count
from replay.formats.swe_agent.document import Attempt, Step
from replay.messages import content_text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Context,
    Fidelity,
    Json,
    Level,
    Message,
    Request,
    extend,
)

MAYBE_SHORTENED = "how the history was shortened for the model is not recorded"
ASKED_AGAIN = "what the model was told of its unusable answer is not recorded"

_NO_MODEL = {"replay", "human", "human_thought", "instant_empty_submit"}
_FAITHFUL = {"default", "cache_control", "tag_tool_call_observations"}
"""Processors that change nothing a model reads."""

_PARAMS = ("temperature", "top_p")


class Shown:
    """The requests of one attempt, told in their order, so that they share what they have in
    common."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._before: list[Context] = []
        self._asked_again = False
        self._model = model(attempt)
        self._params = _params(obj(attempt.agent().get("model")))

    def request(self, step: Step) -> tuple[Request, Fidelity]:
        query = [entry for entry in map(obj, listed(step.raw.get("query"))) if entry.get("role")]
        reasons: list[str] = []
        if not query:
            query, reasons = self._rebuilt(step)
        exact = bool(step.raw.get("query")) and not reasons
        system = None
        if query and query[0].get("role") == "system":
            system, query = message(query[0]), query[1:]
        else:
            reasons.append(NO_SYSTEM)
        if self._attempt.calls_functions:
            reasons.append(NO_TOOLS)
        request = Request(
            model=self._model,
            system=system,
            tools=None if self._attempt.calls_functions else (),
            params=self._params,
            context=self._chain([message(entry) for entry in query]),
        )
        level = Level.PARTIAL if reasons else Level.EXACT if exact else Level.REBUILT
        return request, Fidelity(level=level, reasons=tuple(reasons))

    def _rebuilt(self, step: Step) -> tuple[list[dict[str, Any]], list[str]]:
        """The messages as the history has them, and what keeps them from being certain."""
        history = self._attempt.history
        end = step.said if step.said is not None else self._next_said(step)
        shown, certain = shortened(history[:end], _processors(self._attempt.agent()))
        reasons = [] if certain else [MAYBE_SHORTENED]
        if self._asked_again:
            reasons.append(ASKED_AGAIN)
        self._asked_again = step.said is None
        return shown, reasons

    def _next_said(self, step: Step) -> int:
        """Where the history stood when an answer was asked for that never joined it."""
        later = (each.said for each in self._attempt.steps if each.index > step.index)
        found = next((place for place in later if place is not None), None)
        return len(self._attempt.history) if found is None else found

    def _chain(self, messages: list[Message]) -> Context | None:
        shared = 0
        for ours, node in zip(messages, self._before, strict=False):
            if ours != node.message:
                break
            shared += 1
        context = self._before[shared - 1] if shared else None
        context = extend(context, messages[shared:])
        self._before = context.nodes() if context is not None else []
        return context


def model(attempt: Attempt) -> str | None:
    """The model asked for, None where a person or a recording stood in for one."""
    name = word(obj(attempt.agent().get("model")).get("name"))
    return None if name in _NO_MODEL else name


def _params(settings: dict[str, Any]) -> dict[str, Json]:
    return {name: settings[name] for name in _PARAMS if settings.get(name) is not None}


def message(entry: dict[str, Any]) -> Message:
    """A history entry as the provider was sent it; the harness's own notes on it are left out."""
    body: dict[str, Json] = {"role": entry.get("role"), "content": entry.get("content")}
    ids = listed(entry.get("tool_call_ids")) or [entry.get("tool_call_id")]
    if entry.get("role") == "tool":
        body["tool_call_id"] = word(ids[0])
    if entry.get("tool_calls"):
        body["tool_calls"] = entry["tool_calls"]
    if thoughts := reasoning(entry):
        body["reasoning_content"] = thoughts
    return Message(dialect="openai", body=body)


def reasoning(entry: dict[str, Any]) -> str | None:
    """What the model thought, where a step or an entry keeps it."""
    blocks = map(obj, listed(entry.get("thinking_blocks")))
    told = word(entry.get("reasoning_content"))
    return told or "\n".join(text for b in blocks if (text := word(b.get("thinking")))) or None


def _processors(agent: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The settings of the processors, None where they are not recorded."""
    if isinstance(agent.get("history_processors"), list):
        return [obj(each) for each in agent["history_processors"]]
    one = agent.get("history_processor")
    return [one] if isinstance(one, dict) else None


def shortened(
    history: list[dict[str, Any]], processors: list[dict[str, Any]] | None
) -> tuple[list[dict[str, Any]], bool]:
    """The history as the processors leave it, and whether that is certain."""
    if processors is None:
        return history, False
    certain = True
    for settings in processors:
        kind = settings.get("type")
        if kind == "last_n_observations" and count(settings.get("n")):
            history = _last_observations(history, settings)
        elif kind not in _FAITHFUL:
            certain = False
    return history, certain


def _last_observations(
    history: list[dict[str, Any]], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """All but the last n observations become a line that counts theirs; the first one, the task
    itself, stays."""
    seen = [
        index
        for index, entry in enumerate(history)
        if entry.get("message_type") == "observation" and not entry.get("is_demo")
    ]
    polling = count(settings.get("polling")) or 1
    last = max(0, len(seen) // polling * polling - (count(settings.get("n")) or 0))
    old = set(seen[1:last])
    removed = _tags(settings, "always_remove_output_for_tags", "remove_output")
    kept = _tags(settings, "always_keep_output_for_tags", "keep_output")
    return [
        _elided(entry)
        if (tags := _words(entry.get("tags"))) & removed or (index in old and not tags & kept)
        else entry
        for index, entry in enumerate(history)
    ]


def _elided(entry: dict[str, Any]) -> dict[str, Any]:
    lines = len(content_text(entry.get("content")).splitlines())
    return {**entry, "content": f"Old environment output: ({lines} lines omitted)"}


def _tags(settings: dict[str, Any], name: str, otherwise: str) -> set[str]:
    return _words(settings[name]) if isinstance(settings.get(name), list) else {otherwise}


def _words(given: Json) -> set[str]:
    return {each for each in listed(given) if isinstance(each, str)}
