"""Files that grow while they are followed: sessions read as they are written.

A file that has changed is read anew from its start, because what a line means may depend on one
that comes later, and its traces take the place of what was read of them before. A session counts
as live for a while after its file was last written; when that is over, and when following ends,
the rules look at it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from arc_tui import importing
from arc_tui.importing import FileReport, ImportReport, Progress, run_to_end
from replay import formats
from replay.store.handle import Store, now_ns
from replay.store.rows import keep_live

LIVE_FOR_NS = 5 * 60 * 10**9
"""An agent that waits for a tool writes nothing for minutes."""

LEAST_PAUSE_S = 0.5

Pause = Callable[[float], bool]
"""Waits so many seconds; False when following is to end."""


class Stamp(NamedTuple):
    """When a session last changed and how large it was, its parts included."""

    changed_ns: int = 0
    size: int = 0

    def and_(self, other: Stamp) -> Stamp:
        return Stamp(max(self.changed_ns, other.changed_ns), self.size + other.size)


def follow(
    store: Store,
    paths: Sequence[Path],
    pause: Pause,
    *,
    format: str | None = None,
    task_from: str | None = None,
    pins: Mapping[str, str] | None = None,
    replace: bool = False,
) -> Iterator[FileReport]:
    """Import files and all that folders hold, then again whatever has changed, until `pause` says
    to end.

    Yields a report each time a file was read. A file of a folder that no format claims is passed
    over until it changes.
    """
    following = _Following(
        store,
        paths,
        partial(
            importing.take_in, store, format=format, task_from=task_from, pins=pins, replace=replace
        ),
    )
    goes_on = True
    while goes_on:
        began_s = time.monotonic()
        yield from following.look()
        yield from following.settle(now_ns())
        goes_on = pause(max(LEAST_PAUSE_S, time.monotonic() - began_s))
    yield from following.look()
    yield from following.settle(None)


class _Following:
    """What was seen of each session, and which of their traces are live until when."""

    def __init__(
        self,
        store: Store,
        paths: Sequence[Path],
        take_in: Callable[..., Generator[Progress, None, ImportReport]],
    ) -> None:
        self._store = store
        self._paths = paths
        self._take_in = take_in
        self._seen: dict[Path, Stamp] = {}
        self._mains: dict[Path, Path] = {}
        self._live: dict[str, int] = {}

    def look(self) -> Iterator[FileReport]:
        """Read what has changed since the last look."""
        for path, stamp in self._stamps().items():
            if self._seen.get(path) == stamp:
                continue
            self._seen[path] = stamp
            yield from self._read(path, stamp)

    def _read(self, path: Path, stamp: Stamp) -> Iterator[FileReport]:
        until_ns = stamp.changed_ns + LIVE_FOR_NS
        live = until_ns > now_ns()
        report = run_to_end(
            self._take_in(
                [path],
                live_until_ns=until_ns if live else None,
                all_named=path in self._paths,
            )
        )
        for each in report.files:
            self._live.update({trace.id: until_ns for trace in each.traces})
            yield each

    def settle(self, at_ns: int | None) -> Iterator[FileReport]:
        """The rules look at what is live no longer (None: at everything that was read); a report of
        each trace they failed on."""
        over = [key for key, until in self._live.items() if at_ns is None or until <= at_ns]
        keep_live(self._store, over, None)
        for key in over:
            del self._live[key]
        for error in run_to_end(importing.diagnose_each(self._store, over)):
            yield FileReport(path="diagnosis", error=error, bug=True)

    def _stamps(self) -> dict[Path, Stamp]:
        """Every session as it stands now; what cannot be looked at is not there."""
        found: dict[Path, Stamp] = {}
        for path in self._files():
            main = self._mains.get(path)
            if main is None:
                main = self._mains[path] = formats.part_of(path) or path
            try:
                state = path.stat()
            except OSError:
                continue
            stamp = Stamp(state.st_mtime_ns, state.st_size)
            found[main] = found.get(main, Stamp()).and_(stamp)
        return found

    def _files(self) -> Iterator[Path]:
        """What was named, what named folders hold, and what stands in the folder of a session."""
        for path in self._paths:
            if path.is_dir():
                yield from _within(path)
                continue
            yield path
            for each in _within(path.with_suffix("")):
                if formats.part_of(each) == path:
                    yield each


def _within(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(where, name)
