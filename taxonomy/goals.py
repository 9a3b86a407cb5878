"""What was each step for, and how much does it matter? Goals that a person wrote down.

```toml
[[task]]
match = "airline *"            # the task's name, upper and lower case alike

[[task.goal]]
text = "Reads the booking before it says anything of it"
weight = 3                     # 1 stands alone, 2 later steps need it, 3 everything does
owner = "retrieval"
steps = "0-4"                  # these steps, and of them those for which the rest holds:
tool = "get_*"                 # they call a tool of that name
says = "booking"               # their words contain this
agent = "planner"              # this agent took them
```

A goal's score is that of its last matching step. Weights are worth something only when they were
set before anyone looked: each content of such a file is kept with the time it was first seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from replay import digests
from replay.errors import ArcError
from replay.store import answers
from replay.store.handle import Store, now_ns
from replay.trace import Header, Trace
from replay.written import toml_problem

if TYPE_CHECKING:  # to count failures no step is read
    from taxonomy.evidence.reading import Turn

_NOTE = "goals:"
_RANGE = re.compile(r"(\d+)(?:-(\d+)?)?")


class BadGoals(ArcError):
    """A file of goals that cannot be used; the message names the file and the place in it."""


class Goal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something a run should achieve. `steps` is `4`, `0-4` or `3-`; the rest are predicates."""

    text: str
    weight: int = 1
    owner: str | None = None
    steps: str | None = None
    tool: str | None = None
    says: str | None = None
    agent: str | None = None

    def covers(self, turn: Turn) -> bool:
        """Is the step one of those this goal is about?"""
        return (
            (self.steps is None or is_within(self.steps, turn.index))
            and (self.tool is None or any(is_like(act.name, self.tool) for act in turn.acts))
            and (self.says is None or self.says.lower() in turn.said.lower())
            and (self.agent is None or is_like(turn.ask.agent or "", self.agent))
        )


class Task(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The goals of the tasks that `match`; `*` matches any, also one without a name."""

    match: str
    goal: tuple[Goal, ...]


class Goals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of goals."""

    task: tuple[Task, ...]

    @property
    def digest(self) -> str:
        """Of the content: comments and layout are free, a changed weight is another version."""
        return digests.digest("goals", digests.encode(msgspec.to_builtins(self)))

    @property
    def version(self) -> str:
        """The beginning of the digest, as it stands beside scores."""
        return self.digest.partition(":")[2][:8]

    def of(self, header: Header) -> tuple[Goal, ...]:
        """The goals of a run's task, in the order of the file."""
        name = header.task or ""
        return tuple(goal for task in self.task if is_like(name, task.match) for goal in task.goal)


class Seen(Struct, frozen=True, kw_only=True):
    """A version of goals and when it was first seen (ns since the epoch), under which name."""

    digest: str
    first_seen_ns: int
    name: str
    goals: Goals


class GoalScore(Struct, frozen=True, kw_only=True):
    """What a goal came to: its last matching step and that step's score, None where unscored."""

    goal: Goal
    step: int | None
    value: float | None


class Weighted(Struct, frozen=True, kw_only=True):
    """Σ score · weight / Σ weight over the goals with a score; `of` goals in all."""

    value: float | None
    goals: int
    of: int


def read(file: Path) -> Goals:
    """The goals in a file. Raises BadGoals naming the file and the place."""
    try:
        found = msgspec.toml.decode(file.read_bytes(), type=Goals)
    except OSError as error:
        raise BadGoals(f"{file}: cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadGoals(f"{file}: {toml_problem(error)}", _HINT) from error
    for task in found.task:
        for at, goal in enumerate(task.goal, 1):
            wrong = _flaw(goal)
            if wrong is not None:
                raise BadGoals(f"{file}: task {task.match!r}, goal {at}: {wrong}", _HINT)
    return found


_HINT = "a [[task]] has a `match` and [[task.goal]] tables with text, weight 1-3 and steps"


def _flaw(goal: Goal) -> str | None:
    if not goal.text.strip():
        return "its text is empty"
    if goal.weight not in {1, 2, 3}:
        return f"its weight is {goal.weight}; weights are 1, 2 and 3"
    if goal.steps is None and goal.tool is None and goal.says is None and goal.agent is None:
        return "it sets no steps: give `steps`, `tool`, `says` or `agent`"
    return None if goal.steps is None else range_problem(goal.steps)


def range_problem(steps: str) -> str | None:
    """What is wrong with steps as they are written, None where nothing is."""
    found = _RANGE.fullmatch(steps)
    if found is None or (found[2] and int(found[2]) < int(found[1])):
        return f"steps {steps!r} is not a range such as 4, 0-4 or 3-"
    return None


def first_seen(store: Store, goals: Goals, name: str, at_ns: int | None = None) -> Seen:
    """The version as it was first seen; keeps it now where it is new."""
    for seen in answers.found(store, f"{_NOTE}{goals.digest}", Seen):
        return seen
    new = Seen(digest=goals.digest, first_seen_ns=at_ns or now_ns(), name=name, goals=goals)
    answers.keep(store, f"{_NOTE}{goals.digest}", new)
    return new


def kept(store: Store) -> list[Seen]:
    """Every version of every file of goals that was seen, as it was first seen."""
    return answers.found(store, _NOTE, Seen)


def newest(store: Store) -> tuple[Seen, ...]:
    """Of each file of goals the version that was first seen last; by the files' names."""
    last = {seen.name: seen for seen in sorted(kept(store), key=_when)}
    return tuple(last[name] for name in sorted(last))


def _when(seen: Seen) -> tuple[int, str]:
    return seen.first_seen_ns, seen.digest


def hindsight(seen: Seen, trace: Trace) -> bool | None:
    """Were the goals first seen after the run had begun? None where the run has no times."""
    from taxonomy.metrics.change import dated  # configuration is read without metrics

    began = dated(trace.start_ns)
    return None if began is None else seen.first_seen_ns > began


def goal_scores(
    goals: Sequence[Goal], turns: Sequence[Turn], values: Mapping[int, float | None]
) -> tuple[GoalScore, ...]:
    """Each goal with the score of its last matching step. `values` are scores by step."""
    found: list[GoalScore] = []
    for goal in goals:
        step = max((turn.index for turn in turns if goal.covers(turn)), default=None)
        value = None if step is None else values.get(step)
        found.append(GoalScore(goal=goal, step=step, value=value))
    return tuple(found)


def weighted(scores: Sequence[tuple[float | None, int]]) -> Weighted:
    """The weighted mean of (score, weight) pairs.

    A goal without a score is left out of both sums and counted; None where none has one.
    """
    known = [(value, weight) for value, weight in scores if value is not None]
    whole = sum(weight for _, weight in known)
    mean = sum(value * weight for value, weight in known) / whole if whole else None
    return Weighted(value=mean, goals=len(known), of=len(scores))


def is_within(steps: str, index: int) -> bool:
    """Is the step one of a range such as 4, 0-4 or 3-?"""
    found = _RANGE.fullmatch(steps)
    if found is None:
        return False
    low = int(found[1])
    high = int(found[2]) if found[2] else None if "-" in steps else low
    return low <= index and (high is None or index <= high)


def is_like(name: str, pattern: str) -> bool:
    """Does a name match a pattern, where `*` is any text? Upper and lower case are alike."""
    return fnmatchcase(name.lower(), pattern.lower())
