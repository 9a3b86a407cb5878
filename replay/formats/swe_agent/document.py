"""Which steps does a SWE-agent run have, and where in its history does each stand?

A run holds a `trajectory`, a step an answer of the model, and a `history` of what became part of
the conversation. Answers that could not be used and were asked for again stand in the trajectory
alone; so does, in older files, the last step. Demonstrations may hold only a history. A run of
several attempts holds each whole, and repeats the one it handed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.fields import listed, obj, word
from replay.formats.intake import Source, Tally
from replay.messages import content_text
from replay.trace import Json

_FIELDS = {"trajectory", "history", "info", "replay_config", "environment", "attempts"}
_STEP = {
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
                yield Step(index=answer, raw=_told(self.history, answer), said=answer)
            return
        waiting = iter(answers)
        place: int | None = next(waiting, None)
        for index, raw in enumerate(trajectory):
            if not isinstance(raw, dict):
                tally.problem(f"{where}step {index}", "is not an object")
                continue
            for name in raw.keys() - _STEP:
                tally.unknown[f"step {name}"] += 1
            found = place if place is not None and _same(raw, self.history[place]) else None
            if found is not None:
                place = next(waiting, None)
            yield Step(index=index, raw=raw, said=found)
        if place is not None:
            tally.problem(f"{where}history {place}", "holds an answer that no step tells")


def attempts(source: Source, tally: Tally) -> tuple[dict[str, Any], list[Attempt]]:
    """The document and the attempts it holds, mostly one. Raises BadTrace where it holds none."""
    raw = source.document()
    if not isinstance(raw, dict) or not any(
        isinstance(raw.get(name), list) for name in ("trajectory", "history", "attempts")
    ):
        raise BadTrace(source.display, "", "holds no trajectory and no history")
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


def _told(history: list[dict[str, Any]], place: int) -> dict[str, Any]:
    """A step as a history alone tells it."""
    entry = history[place]
    return {"response": entry.get("content"), "action": entry.get("action")}
