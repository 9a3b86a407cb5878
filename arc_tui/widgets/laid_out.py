"""The rows of a page as far as anyone asked for them: a long text is not laid out to open it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from arc_tui.widgets.document import Row

PIECE = 1000
"""Rows that are made at once: more than a screen shows, too few to be waited for."""


class LaidOut:
    """Rows that are made when they are asked for. `len` counts those that are known."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._known: list[Row] = []
        self._rest = iter(rows)
        self.complete = False
        self.reach(PIECE)

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: int) -> Row:
        self.reach(index + 1)
        return self._known[index]

    def __iter__(self) -> Iterator[Row]:
        at = 0
        while at < len(self) or self.more():
            yield self._known[at]
            at += 1

    def reach(self, count: int) -> None:
        """Make rows until there are so many, or no more."""
        while len(self) < count and self.more():
            pass

    def more(self) -> bool:
        """Make a piece of those that are still to come; False where none is."""
        made = [] if self.complete else list(islice(self._rest, PIECE))
        self._known += made
        self.complete = len(made) < PIECE
        return bool(made)

    def all(self) -> list[Row]:
        """The rows, the last one included."""
        while self.more():
            pass
        return self._known
