"""What did a run say that it would do, and whom did it give work to? Both against gold.

A run states a plan by a call of a tool that keeps one (`TodoWrite`, `update_plan`, `write_todos`):
the first list that is not empty counts, made before the work was done. A run that calls no such
tool states no plan, whatever it says in words. Steps are compared by their words alone, small words
aside: those of a run and of gold are alike that share most words of the shorter one and name no
other numbers. That is no verdict: other words may say the same.

Work is given to an agent or a person by a call whose tool says so (`transfer_to_billing`), or that
names an agent (`Task` with `subagent_type`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from replay.action import Act
from replay.effects import words_of
from replay.trace import Json
from taxonomy.metrics.calls import Overlap

_KEEPS_PLAN = {"todo", "todos", "plan"}
_READS = {"read", "get", "list", "exit", "show", "clear"}
_LISTS = ("todos", "todo_list", "todoList", "plan", "steps", "tasks", "items")
_TEXTS = ("content", "step", "description", "title", "text", "task", "name")

ALIKE = 0.6
"""Of the words of the shorter of two steps, so many are those of the other where they are alike."""

_SMALL = frozenset(
    "a an and as at by for from in into is it its of on or that the then this to up with".split()
)


def stated_plan(calls: Iterable[Act]) -> tuple[str, ...] | None:
    """The steps of the first plan that these calls state, None where they state none."""
    for call in calls:
        words = set(words_of(call.tool))
        if words & _KEEPS_PLAN and not words & _READS:
            steps = _steps(call.arguments)
            if steps:
                return steps
    return None


def _steps(arguments: Json) -> tuple[str, ...]:
    """The texts of the list that the arguments hold."""
    if not isinstance(arguments, dict):
        return ()
    lists = (arguments[name] for name in _LISTS if isinstance(arguments.get(name), list))
    texts = (_step(each) for each in next(lists, []))
    return tuple(text for text in texts if text)


def _step(entry: Json) -> str:
    if isinstance(entry, dict):
        entry = next((entry[name] for name in _TEXTS if isinstance(entry.get(name), str)), "")
    return entry.strip() if isinstance(entry, str) else ""


def plan_overlap(made: Sequence[str], gold: Sequence[str]) -> Overlap:
    """A stated plan against that of gold: steps that are alike, each used once, in gold's order."""
    mine, theirs = (list(map(_words, steps)) for steps in (made, gold))
    longest = [0] * (len(theirs) + 1)
    for step in mine:
        before = 0
        for place, other in enumerate(theirs, 1):
            above = longest[place]
            longest[place] = (
                before + 1 if _alike(step, other) else max(longest[place], longest[place - 1])
            )
            before = above
    return Overlap(matched=longest[-1], made=len(mine), gold=len(theirs))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold())) - _SMALL


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    mine, theirs = (
        {word for word in words if any(map(str.isdigit, word))} for words in (one, other)
    )
    if mine and theirs and mine != theirs:
        return False
    least = min(len(one - mine), len(other - theirs))
    return least > 0 and len((one - mine) & (other - theirs)) >= ALIKE * least


_GIVES = {"transfer", "handoff", "handover", "hand", "escalate", "delegate", "route"}
_SAYS_NOTHING = {"to", "off", "over", "the", "an", "a", "agent", "agents", "task", "call", "back"}
_NAMES_AGENT = ("subagent_type", "agent_name", "agent_type", "agent", "recipient")


def route(call: Act) -> str | None:
    """Whom a call gives work to, None where it gives none: the agent it names, else what its tool
    is called beside the word for it."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    named = next((given[name] for name in _NAMES_AGENT if isinstance(given.get(name), str)), None)
    words = words_of(call.tool)
    gives = _GIVES & set(words)
    if named is not None and (gives or "subagent_type" in given or "agent" in words):
        return " ".join(words_of(named)) or None
    if not gives:
        return None
    return " ".join(word for word in words if word not in gives | _SAYS_NOTHING) or call.tool


class Routes(Struct, frozen=True, kw_only=True):
    """Whom a run gave work to, and whom it should have, each in order."""

    made: tuple[str, ...]
    gold: tuple[str, ...]

    @property
    def right(self) -> bool | None:
        """Are they the same? None where there was nothing to give to anybody."""
        return self.made == self.gold if self.made or self.gold else None


def routes(made: Iterable[Act], gold: Iterable[Act]) -> Routes:
    """The routes of the calls of a run and of gold."""
    mine, theirs = (
        tuple(found for call in calls if (found := route(call)) is not None)
        for calls in (made, gold)
    )
    return Routes(made=mine, gold=theirs)
