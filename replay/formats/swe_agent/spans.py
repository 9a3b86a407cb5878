"""An attempt of SWE-agent told as spans: a model call a step with what it was shown, and its
command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.common import count, derived_id, known, listed, number, obj, reasoning, word
from replay.formats.source import Source, Tally
from replay.messages import Call, calls, content_text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AnySpan,
    Context,
    Fidelity,
    Json,
    Level,
    Message,
    ModelCall,
    Observation,
    OtherSpan,
    Place,
    Request,
    Response,
    ToolCall,
    extend,
)

_NAME = re.compile(r"\s*([A-Za-z_][\w.+-]*)(?=\s|$)")
SHELL = "bash"
"""What a command is named that begins with no plain word."""


def spans(attempt: Attempt, agent: str) -> Iterator[AnySpan]:
    """The spans below the agent span of that id, in the order of the steps."""
    shown = Shown(attempt)
    for step in attempt.steps:
        if step.ended_by_harness:
            yield _ending(step, attempt, agent)
            continue
        request, fidelity = shown.request(step)
        answer = _answer(attempt, step)
        asked = derived_id(agent, step.index)
        yield ModelCall(
            id=asked,
            name="chat",
            parent=agent,
            time_quality="none",
            status="ok",
            place=Place(message=step.index),
            extra=known(
                state=step.raw.get("state"),
                extra_info=step.raw.get("extra_info"),
                unused=(step.said is None and step is not attempt.steps[-1]) or None,
            ),
            request=request,
            response=Response(message=answer),
            fidelity=fidelity,
        )
        yield from _commands(attempt, step, agent, asked, answer)


def _answer(attempt: Attempt, step: Step) -> Message:
    """The answer as the history keeps it, with its calls; else its words alone."""
    entry = {"role": "assistant", "content": step.response}
    if step.said is not None:
        entry = attempt.history[step.said]
    thoughts = known(reasoning_content=reasoning(step.raw) or reasoning(entry))
    return message({**entry, **thoughts})


def _commands(
    attempt: Attempt, step: Step, agent: str, asked: str, answer: Message
) -> Iterator[ToolCall]:
    found = calls(answer) or _written(step.action)
    observation = _observed(attempt, step, found[0].id if found else None)
    seconds = step.raw.get("execution_time")
    for call in found:
        first = call.position == 0
        yield ToolCall(
            id=derived_id(asked, call.position, call.name),
            name=call.name,
            parent=agent,
            time_quality="none",
            status="ok" if first and observation is not None else "unset",
            place=Place(message=step.index),
            call_id=call.id,
            asked_by=asked,
            arguments=call.arguments,
            arguments_raw=call.raw,
            observation=observation if first else None,
            extra=known(execution_s=_positive(seconds)) if first else {},
        )


def _written(action: str) -> tuple[Call, ...]:
    """The call that a command written as text comes to."""
    command = action.strip()
    if not command:
        return ()
    word = _NAME.match(command)
    return (Call(id=None, name=word[1] if word else SHELL, arguments={"command": command}),)


def _observed(attempt: Attempt, step: Step, call_id: str | None) -> Observation | None:
    """What came back, as the model read it; else as the environment gave it."""
    if step.said is not None and step.said + 1 < len(attempt.history):
        entry = attempt.history[step.said + 1]
        if entry.get("role") in ("tool", "user"):
            return Observation(message=message(entry))
    given = step.raw.get("observation")
    if not isinstance(given, str) or (not given and step.said is None):
        return None
    role = {"role": "tool", "tool_call_id": call_id} if call_id is not None else {"role": "user"}
    return Observation(message=Message(dialect="openai", body={**role, "content": given}))


def _positive(seconds: Json) -> float | None:
    found = None if isinstance(seconds, bool) else number(seconds)
    return found if found is not None and found > 0 else None


def _ending(step: Step, attempt: Attempt, agent: str) -> OtherSpan:
    """The harness's own last step: why it ended the run, and whether it handed a patch in."""
    return OtherSpan(
        id=derived_id(agent, step.index),
        name="ended by the harness",
        parent=agent,
        time_quality="none",
        status="error",
        error=step.response or None,
        place=Place(message=step.index),
        operation="exit",
        extra=known(
            exit_status=word(attempt.info.get("exit_status")),
            observation=step.raw.get("observation"),
        ),
    )


_FIELDS = {"trajectory", "history", "info", "replay_config", "environment", "attempts"}
_STEP_MARK = {
    "action", "observation", "response", "thought", "execution_time", "state", "query", "messages",
    "extra_info", "reasoning_content",
}  # fmt: skip
_ENDED = re.compile(r"Exit(?:ing)? due to |exit_\w+$")
"""What the harness writes in place of an answer when it ends a run itself."""


class Step(Struct, frozen=True, kw_only=True, eq=False):
    """One step. `said` is the index of its answer in the history, None where it is not there."""

    index: int
    raw: dict[str, Any]
    said: int | None

    @property
    def response(self) -> str:
        return content_text(self.raw.get("response"))

    @property
    def action(self) -> str:
        return content_text(self.raw.get("action"))

    @property
    def ended_by_harness(self) -> bool:
        """Is this no answer of the model's, but the harness closing the run?"""
        action = self.action.strip()
        if action:
            return re.fullmatch(r"exit_\w+", action) is not None and action != "exit_forfeit"
        return _ENDED.match(self.response) is not None


class Attempt:
    """One try at the task: its own steps, history, info and settings."""

    def __init__(self, raw: dict[str, Any], number: int, where: str, tally: Tally) -> None:
        self.number = number
        self.info = obj(raw.get("info"))
        self.config = _config(raw.get("replay_config"))
        self.environment = word(raw.get("environment"))
        self.history = _history(listed(raw.get("history")), where, tally)
        self.steps = [*self._steps(listed(raw.get("trajectory")), where, tally)]
        self.calls_functions = self._parser() == "function_calling" or any(
            entry.get("tool_calls") for entry in self.history
        )

    def agent(self) -> dict[str, Any]:
        """The settings of the agent that made this attempt."""
        agent = obj(self.config.get("agent"))
        several = [obj(each) for each in listed(agent.get("agent_configs"))]
        return several[self.number % len(several)] if several else agent

    def _parser(self) -> str | None:
        tools = obj(self.agent().get("tools"))
        return word(obj(tools.get("parse_function")).get("type"))

    def _steps(self, trajectory: list[Json], where: str, tally: Tally) -> Iterator[Step]:
        answers = [i for i, entry in enumerate(self.history) if _answers(entry)]
        if not trajectory:
            for answer in answers:
                yield Step(index=answer, raw=_history_index(self.history, answer), said=answer)
            return
        waiting = iter(answers)
        place: int | None = next(waiting, None)
        for index, raw in enumerate(trajectory):
            if not isinstance(raw, dict):
                tally.problem(f"{where}step {index}", "is not an object")
                continue
            for name in raw.keys() - _STEP_MARK:
                tally.unknown[f"step {name}"] += 1
            found = place if place is not None and _same(raw, self.history[place]) else None
            if found is not None:
                place = next(waiting, None)
            yield Step(index=index, raw=raw, said=found)
        if place is not None:
            tally.problem(f"{where}history {place}", "contains a response that is in no step")


def attempts(source: Source, tally: Tally) -> tuple[dict[str, Any], list[Attempt]]:
    """The document and the attempts it holds, mostly one. Raises BadTrace where it holds none."""
    raw = source.document()
    if not isinstance(raw, dict) or not any(
        isinstance(raw.get(name), list) for name in ("trajectory", "history", "attempts")
    ):
        raise BadTrace(source.display, "", "contains no trajectory and no history")
    for name in raw.keys() - _FIELDS:
        tally.unknown[name] += 1
    several = [each for each in listed(raw.get("attempts")) if isinstance(each, dict)]
    if not several:
        return raw, [Attempt(raw, 0, "", tally)]
    told = [
        Attempt(each, number, f"attempt {number} ", tally) for number, each in enumerate(several)
    ]
    return raw, told


def _config(given: Json) -> dict[str, Any]:
    """The settings of a run: an object, or its JSON text in newer files."""
    if not isinstance(given, str):
        return obj(given)
    try:
        return obj(from_text(given))
    except msgspec.DecodeError:
        return {}


def _history(entries: list[Json], where: str, tally: Tally) -> list[dict[str, Any]]:
    """The entries of the agent that began; another one's were never shown to its model."""
    found: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            tally.problem(f"{where}history {index}", "is not an object")
        elif found and entry.get("agent", found[0].get("agent")) != found[0].get("agent"):
            tally.problem(f"{where}history {index}", "is of another agent")
        else:
            found.append(entry)
    return found


def _answers(entry: dict[str, Any]) -> bool:
    return entry.get("role") == "assistant" and not entry.get("is_demo")


def _same(raw: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Is the entry the step's answer? The command tells, the words where there is none: in files
    mended by hand the words may differ."""
    ours, theirs = (content_text(each.get("action")).strip() for each in (raw, entry))
    if ours and theirs:
        return ours == theirs
    return content_text(raw.get("response")) == content_text(entry.get("content"))


def _history_index(history: list[dict[str, Any]], place: int) -> dict[str, Any]:
    """A step as a history alone tells it."""
    entry = history[place]
    return {"response": entry.get("content"), "action": entry.get("action")}


MAYBE_SHORTENED = "how the history was shortened for the model is not recorded"
ASKED_AGAIN = "the reply to an unusable response is not recorded"

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
        kind = word(settings.get("type"))
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
