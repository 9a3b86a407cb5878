"""An event loop behind plain calls: it runs only while somebody waits for what it brings.

Owns how waiting ends early: `stop` from another thread, Ctrl-C, or a kill file. All three raise
Stopped, and each takes effect at once, whatever is being waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from replay.errors import Stopped
from replay.models.kill import POLL_S, killed

T = TypeVar("T")

KEPT = "what was answered is kept; the same command asks only for the rest"


class Loop:
    """`killed` says why nothing may go on, None where it may; asked every `poll_s` seconds."""

    def __init__(self, killed: Callable[[], str | None] = killed, poll_s: float = POLL_S) -> None:
        self._killed = killed
        self._poll_s = poll_s
        self._runner: asyncio.Runner | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._stopped = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end. Raises what it raises, and Stopped; then `work` is cancelled.

        Other tasks of the loop go on meanwhile and rest in between.
        """
        try:
            return self.finish(self._watched(work))
        except (asyncio.CancelledError, KeyboardInterrupt) as error:
            raise Stopped("stopped before the answer came", KEPT) from error

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run what has to be done whoever wants to stop."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)

    def stop(self) -> None:
        """End what is being waited for, and all waiting from now on. From any thread."""
        self._stopped = True
        waiting = self._waiting
        if waiting is not None:
            with suppress(RuntimeError):  # the loop was closed in this very moment
                waiting.get_loop().call_soon_threadsafe(waiting.cancel)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Drop what is under way, run `last`, close. From the thread that ran it."""
        if self._runner is None:
            return
        self.finish(_alone())
        self.finish(last())
        self._runner.close()
        self._runner = None

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._waiting = asyncio.current_task()
        try:
            while not task.done():
                self._refuse_if_stopped()
                await asyncio.wait({task}, timeout=self._poll_s)
            return task.result()
        finally:
            self._waiting = None
            await cancelled(task)

    def _refuse_if_stopped(self) -> None:
        why = "stopped before the answer came" if self._stopped else self._killed()
        if why is not None:
            raise Stopped(why, KEPT)


async def _alone() -> None:
    await cancelled(*(asyncio.all_tasks() - {asyncio.current_task()}))


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they are gone."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
