"""Where a recording is kept: a database, as it grows, or a file, when it is over.

Either way every text goes through a store, which masks secrets before anything is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from replay.formats import arc
from replay.recorder.log import Log
from replay.store import Store, read
from replay.store.handle import now_ns
from replay.store.masking import masked_by
from replay.store.write import Writer
from replay.trace import Batch

if TYPE_CHECKING:
    from replay.redact import Policy

LIVE_FOR_NS = 60 * 10**9
"""How long the word that more is expected holds unless something more is written."""


class Keeper(Protocol):
    """Keeps what a log holds."""

    def grown(self, log: Log) -> None:
        """The log holds more."""
        ...

    def over(self, log: Log) -> None:
        """The log is whole."""
        ...


class InDatabase:
    """Writes the runs of a log into a database: at once where that is quick, and never for more
    than half of the time."""

    def __init__(self, path: Path, policy: Policy | None) -> None:
        self._path = path
        self._policy = policy
        self._rest_until_s = 0.0
        Store.open(path).close()  # that it cannot be used is said before anything is asked

    def grown(self, log: Log) -> None:
        began_s = time.monotonic()
        if began_s < self._rest_until_s:
            return
        self._write(log.changed(), now_ns() + LIVE_FOR_NS)
        ended_s = time.monotonic()
        self._rest_until_s = ended_s + (ended_s - began_s)

    def over(self, log: Log) -> None:
        self._write(log.every(), None)

    def _write(self, batches: list[Batch], live_until_ns: int | None) -> None:
        # A store never crosses threads, and calls end in any.
        with _opened(self._path, self._policy) as store:
            writer = Writer(store, live_until_ns=live_until_ns)
            for batch in batches:
                writer.finish(writer.write(batch))


class InFile:
    """Appends the runs of a log to an `arc/1` file when it is over, in one piece."""

    def __init__(self, path: Path, policy: Policy | None) -> None:
        self._path = path
        self._policy = policy
        path.parent.mkdir(parents=True, exist_ok=True)
        self._append(b"")  # that it cannot be written is said before anything is asked

    def grown(self, log: Log) -> None:
        pass

    def over(self, log: Log) -> None:
        with _opened(":memory:", self._policy) as store:
            writer = Writer(store)
            keys = [writer.finish(writer.write(batch)).id for batch in log.every()]
            lines = b"".join(arc.write(read.recorded(store, key) for key in keys))
        self._append(lines)

    def _append(self, lines: bytes) -> None:
        with open(self._path, "ab", buffering=0, opener=_private) as file:
            file.write(lines)


@contextmanager
def _opened(path: Path | str, policy: Policy | None) -> Iterator[Store]:
    """A store that masks by that policy, by the program's where there is none."""
    with masked_by(policy), Store.open(path) as store:
        yield store


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def keeper(into: Path, policy: Policy | None = None) -> Keeper:
    """The keeper for a path: an `arc/1` file where it ends in .jsonl, else a database.

    Raises StoreUnusable or OSError where nothing can be written there.
    """
    made = InFile if into.suffix == ".jsonl" else InDatabase
    return made(into, policy)
