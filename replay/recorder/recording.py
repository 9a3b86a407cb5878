"""A recording that is under way in this process: who is recorded, and what becomes of it.

Nothing that goes wrong with a recording may disturb the agent: trouble is logged, once.
"""

from __future__ import annotations

import atexit
import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from replay.errors import ArcError
from replay.recorder.heard import Ear, Heard, api_of
from replay.recorder.keeping import Keeper, keeper
from replay.recorder.log import About, Log

if TYPE_CHECKING:
    from replay.redact import Policy

logger = logging.getLogger("replay.recorder")

NOT_OVER = "the recording ended before the answer"

_current: ContextVar[Recording | None] = ContextVar("recording", default=None)
_under_way: list[Recording] = []


class Hearing:
    """One exchange that a recording listens to; ended once, the first word counts."""

    def __init__(self, ear: Ear, take: Callable[[Hearing, Heard], None]) -> None:
        self.ear = ear
        self._take = take
        self._over = False

    def end(self, broken: str | None = None) -> None:
        if not self._over:
            self._over = True
            self._take(self, self.ear.end(broken))


class Recording:
    """Records into a database or a file until `finish`; as a context manager, what is asked in its
    body. May be used from any thread."""

    def __init__(
        self, into: Path, about: About, *, apart: bool = False, redact: Policy | None = None
    ) -> None:
        self._keeper: Keeper = keeper(into, redact)
        self._log = Log(about, apart=apart)
        self._lock = Lock()
        self._open: set[Hearing] = set()
        self._over = False
        self._troubled = False
        self._token: Token[Recording | None] | None = None
        atexit.register(self.finish)

    @property
    def calls(self) -> int:
        """How many calls were recorded."""
        return len(self._log)

    def hear(self, method: str, path: str, headers: Mapping[str, str]) -> Hearing | None:
        """Listen to a request; None where it calls no model, or the recording is over."""
        api = api_of(method, path)
        if api is None or self._over:
            return None
        hearing = Hearing(Ear(api, path, headers.get("content-encoding", "")), self._take)
        self._open.add(hearing)
        return hearing

    def _take(self, hearing: Hearing, heard: Heard) -> None:
        with self._lock:
            self._open.discard(hearing)
            if self._log.add(heard):
                self._keep(self._keeper.grown)

    def _keep(self, how: Callable[[Log], None]) -> None:
        try:
            how(self._log)
        except (ArcError, sqlite3.Error, OSError) as error:
            if not self._troubled:
                self._troubled = True
                logger.warning("what is recorded cannot be kept: %s", error)

    def finish(self) -> None:
        """The recording is over: what it has is kept, whole or not."""
        if self._over:
            return
        self._over = True
        atexit.unregister(self.finish)
        for hearing in tuple(self._open):
            hearing.end(NOT_OVER)
        with self._lock:
            self._keep(self._keeper.over)

    def __enter__(self) -> Recording:
        self._token = _current.set(self)
        _under_way.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _under_way.remove(self)
        if self._token is not None:
            _current.reset(self._token)
        self.finish()


def current() -> Recording | None:
    """The recording in whose body this runs; in a thread that knows of none, the only one."""
    found = _current.get()
    if found is None and len(_under_way) == 1:
        return _under_way[0]
    return found
