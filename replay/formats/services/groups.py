"""Records of traces that are still being read: in memory up to a budget, then in a temporary file.

The records of a trace stand anywhere in a file. The temporary file has no name and is gone with
the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import msgspec

from replay import files

Record = dict[str, Any]

BUDGET_BYTES = 64 * 1024 * 1024


class Groups:
    """Records by the trace they belong to, in the order they were added, as JSON."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._size = 0
        self._near: dict[str, list[bytes]] = {}
        self._far: dict[str, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None

    def add(self, trace: str, record: Record) -> None:
        text = msgspec.json.encode(record)
        self._near.setdefault(trace, []).append(text)
        self._far.setdefault(trace, [])
        self._size += len(text)
        if self._size > self._budget:
            self._move()

    def taken(self) -> Iterator[tuple[str, list[Record]]]:
        """Each trace with its records, in the order of their first ones; nothing is left."""
        try:
            for trace in list(self._far):
                yield trace, [msgspec.json.decode(text) for text in self._texts(trace)]
        finally:
            if self._file is not None:
                self._file.close()

    def _texts(self, trace: str) -> Iterator[bytes]:
        for start, size in self._far.pop(trace):
            assert self._file is not None
            self._file.seek(start)
            yield self._file.read(size)
        yield from self._near.pop(trace, ())

    def _move(self) -> None:
        """All that is in memory to the file."""
        if self._file is None:
            self._file = files.unlinked()
        start = self._file.seek(0, 2)
        for trace, texts in self._near.items():
            for text in texts:
                self._file.write(text)
                self._far[trace].append((start, len(text)))
                start += len(text)
        self._near.clear()
        self._size = 0
