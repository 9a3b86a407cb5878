"""Does an answer still show the failure? A question the engine asks and does not answer itself.

The recorded action at the break is one way to fail; the model may fail there in other ways just
as well. Whoever knows what the failure is (a rule, a predicate, a judge) answers by this
protocol.
"""

from __future__ import annotations

from typing import Protocol

from replay.action import Action


class Detector(Protocol):
    """A judge of the answers at one step. `name` says which, and stands beside every figure of it.

    It must be a function of the action: the same answer gets the same verdict.
    """

    name: str
    step: int

    def shows(self, action: Action) -> bool | None:
        """Does this action at that step show the failure? None where that cannot be told."""
        ...
