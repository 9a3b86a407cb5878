"""What an oracle of steps answers: has belief left the world by this step, and what says so?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from replay.bisection.scan import Bad
from taxonomy.findings import Evidence


class Answer(Struct, frozen=True, kw_only=True):
    """What an oracle says of one step. `bad` None where it cannot tell; `phrase` says why, or what
    was found, in a few words. `evidence` are the words and values that contradict each other.

    `bad_of` of `n` trials were bad where it tried several times, `lost` others gave no answer.
    """

    step: int
    bad: Bad
    phrase: str
    evidence: tuple[Evidence, ...] = ()
    bad_of: int | None = None
    n: int | None = None
    lost: int = 0


class StepDetector(Protocol):
    """An oracle over the steps of a run.

    `name` stands beside every figure of it. `monotone` says that once bad it stays bad, so that it
    may be asked by halves; `calls` how many answers of a model a question takes, at the most.
    `steps` are those it can be asked about, `unasked` why the others are not.
    """

    name: str
    monotone: bool
    calls: int
    steps: tuple[int, ...]
    unasked: Mapping[int, str]

    def at(self, step: int) -> Answer:
        """Raises OfflineMiss, ModelRefused and Stopped where it asks a model."""
        ...
