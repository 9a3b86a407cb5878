"""What every screen of the app has: the database, and the one handler of what goes wrong.

Database work happens in thread workers that open a store of their own and post messages. A worker
that fails ends here: an `ArcError` is told with its hint, anything else is a bug and ends the app
with its traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import Worker, WorkerState, get_current_worker

from arc_tui import format
from replay.errors import ArcError
from replay.store import Store
from replay.store.trouble import patiently
from taxonomy.ledger import open_ledger

T = TypeVar("T")


class ArcScreen(Screen[None], inherit_bindings=False):
    """A screen over one database."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def ask(
        self, question: Callable[[Store], T], answer: Callable[[T], Message], *, group: str
    ) -> Worker[None]:
        """Ask the database in a worker and post what it says.

        A newer question of the same group makes the answer to an older one worthless: it is
        dropped.
        """

        def work() -> None:
            worker = get_current_worker()
            if worker.is_cancelled:
                return

            def read() -> T:
                with open_ledger(self.path) as store:
                    return question(store)

            found = patiently(read, lambda: not worker.is_cancelled)
            if not worker.is_cancelled:
                self.post_message(answer(found))

        return self.run_worker(work, group=group, exclusive=True, thread=True, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        error = event.worker.error
        if event.state is not WorkerState.ERROR or error is None:
            return
        if not isinstance(error, ArcError):
            raise error
        self.tell(error)

    def tell(self, error: ArcError) -> None:
        """Say what went wrong and what to do about it."""
        self.say(f"{error.message}\n{error.hint}".strip(), severity="error")

    def say(self, words: str, *, severity: SeverityLevel = "information") -> None:
        """A toast; whatever stands in it is shown as text."""
        self.notify(format.plain(words), severity=severity, markup=False)
