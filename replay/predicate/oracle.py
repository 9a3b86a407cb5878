"""An expectation as an oracle: an answer that does not meet it is bad."""

from __future__ import annotations

from replay.action import Action
from replay.predicate import Predicate


class Unmet:
    """`replay.oracle.Oracle` of an expectation at a step. An answer that is cut decides nothing."""

    def __init__(self, expected: Predicate, step: int) -> None:
        self.name = f"does not meet {expected.text}"
        self.step = step
        self._expected = expected

    def shows(self, action: Action) -> bool | None:
        met = None if action.cut is not None else self._expected.met(action)
        return None if met is None else not met
