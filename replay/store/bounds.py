"""A connection on which every statement comes to an end.

The pages of a database that somebody else made may list one page many times over, so that a table
of a few kilobytes has more rows than can ever be read. A statement is ended when it takes far more
work than the whole file is worth.

Nothing can be ended within one instruction, and a bare `count(*)` of a table is one: rows are
counted by `count(1)`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from typing_extensions import override

_Values: TypeAlias = Any
"""Of the placeholders of a statement, as SQLite's driver takes them."""

STEPS_BETWEEN_LOOKS = 100_000
"""Instructions of SQLite's machine between two looks at the bound: about a millisecond."""

FREE_STEPS = 10_000_000
STEPS_A_BYTE = 10
"""A statement may take so many instructions, and so many more for each byte of the file. The
greediest of ours, taking old runs away (`arc db prune`), takes a twenty-eighth of it."""


class BoundedConnection(sqlite3.Connection):
    """A connection to the database in one file, bounded once `bound` was called.

    What is over raises sqlite3.OperationalError with the code SQLITE_INTERRUPT, as it does when
    `stop_when` ends a statement that nobody waits for.
    """

    _file: Path | None = None
    _steps = 0
    _most = 0
    _over: Callable[[], bool] | None = None

    def bound(self, file: Path) -> None:
        """From now on each statement has a bound, by the size that `file` has when it is near."""
        self._file = file
        self._measure()
        self.set_progress_handler(self._look, STEPS_BETWEEN_LOOKS)

    def stop_when(self, over: Callable[[], bool]) -> None:
        """From now on a statement also ends soon after it is `over`."""
        self._over = over
        self.set_progress_handler(self._look, STEPS_BETWEEN_LOOKS)

    @override
    def execute(self, sql: str, parameters: _Values = (), /) -> sqlite3.Cursor:
        self._steps = 0
        return super().execute(sql, parameters)

    @override
    def executemany(self, sql: str, parameters: Iterable[_Values], /) -> sqlite3.Cursor:
        return super().executemany(sql, self._each(parameters))

    def _each(self, parameters: Iterable[_Values]) -> Iterator[Any]:
        for each in parameters:
            self._steps = 0
            yield each

    def _look(self) -> bool:
        """True ends the statement."""
        if self._over is not None and self._over():
            return True
        if self._file is None:
            return False
        self._steps += STEPS_BETWEEN_LOOKS
        if self._steps <= self._most:
            return False
        self._measure()  # the file may have grown since
        return self._steps > self._most

    def _measure(self) -> None:
        assert self._file is not None
        size = _size(self._file) + _size(Path(f"{self._file}-wal"))
        self._most = FREE_STEPS + STEPS_A_BYTE * size


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
