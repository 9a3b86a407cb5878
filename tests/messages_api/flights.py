"""How many requests are under way at once, and where a test can hold their answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 300.0
"""A held answer goes out after this, so that a wrong test fails instead of hanging; a right one,
on however slow a machine, never waits so long."""


class Flights:
    """Counts requests from their arrival until just before the first byte of their answer.

    Answers that are made wait while `gate` is closed, and until `gather` of them wait together.
    """

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.gather = 0
        self.most_at_once = 0
        self._flying = 0
        self._landed = 0
        self._held = 0
        self._most_held = 0
        self._moved = threading.Condition()

    @contextmanager
    def flight(self) -> Iterator[None]:
        with self._moved:
            self._flying += 1
            self.most_at_once = max(self.most_at_once, self._flying)
            self._moved.notify_all()
        try:
            yield
        finally:
            with self._moved:
                self._flying -= 1
                self._landed += 1
                self._moved.notify_all()

    def hold(self) -> None:
        """Wait, with an answer that is made, for whatever a test makes answers wait for."""
        with self._moved:
            self._held += 1
            self._most_held = max(self._most_held, self._held)
            self._moved.notify_all()
            self._moved.wait_for(lambda: self._most_held >= self.gather, PATIENCE_S)
        self.gate.wait(PATIENCE_S)
        with self._moved:
            self._held -= 1

    def reaches(self, count: int, timeout_s: float = PATIENCE_S) -> bool:
        """Wait until so many requests are in flight; False where that does not happen."""
        with self._moved:
            return self._moved.wait_for(lambda: self._flying >= count, timeout_s)

    def holds(self, count: int, timeout_s: float = PATIENCE_S) -> bool:
        """Wait until so many answers are made and held; False where that does not happen."""
        with self._moved:
            return self._moved.wait_for(lambda: self._held >= count, timeout_s)

    def landed(self, count: int, timeout_s: float = PATIENCE_S) -> bool:
        """Wait until so many answers are ready to go; False where that does not happen."""
        with self._moved:
            return self._moved.wait_for(lambda: self._landed >= count, timeout_s)

    def release(self) -> None:
        """Let everything go."""
        self.gate.set()
        with self._moved:
            self.gather = 0
            self._moved.notify_all()
