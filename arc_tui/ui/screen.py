"""What every screen of the app has: the database, the one handler of what goes wrong, its
followers.

Where someone else writes into the database, an open screen follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, TypeVar

from textual.message import Message
from textual.notifications import SeverityLevel
from textual.reactive import reactive
from textual.screen import Screen
from textual.worker import Worker, WorkerState, get_current_worker
from typing_extensions import override

from arc_tui.ui import format
from arc_tui.ui.keys import key_of
from replay.errors import ArcError, StoreUnusable
from replay.stop_order import stop_order
from replay.store.handle import Store, now_ns
from replay.store.rows import next_end_ns
from replay.store.trouble import patiently
from taxonomy.judgements.schema import open_ledger

T = TypeVar("T")

AT_ONCE_S = 0.1
"""Before so long no empty screen is drawn: most are filled sooner, and would only flash up."""

MOMENT_S = 0.5
"""What takes longer is said to be under way."""


class Question(NamedTuple):
    """What a worker was asked, and how it is told that nobody waits for the answer. Of a `quiet`
    one nobody does from the start: where it fails, nothing is said."""

    worker: Worker[None]
    over: Event
    quiet: bool


class ViewSwitch(NamedTuple):
    """One way to show a screen otherwise: the action that does so, its name, and what it shows."""

    action: str
    name: str
    words: str


class ArcScreen(Screen[None], inherit_bindings=False):
    """A screen over one database."""

    reading: reactive[bool] = reactive(False, repaint=False)
    """Has the answer to a question been waited for longer than a moment?"""

    class Missed(Message):
        """What the screen was opened for will not come."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._questions: dict[str, Question] = {}
        self._awaited: set[Worker[None]] = set()
        self._answered = False
        self._undrawn = False

    @property
    def awaits(self) -> bool:
        """Is something about to be shown that the next key is meant for?

        Until the first answer that is what the screen was opened for; later an answer that keys
        are held for, and the dialogs of a worker that asks a person.
        """
        if not self._answered and (self._questions or not self.is_mounted):
            return True
        held = any(question.worker in self._awaited for question in self._questions.values())
        return held or any(
            worker.node is self
            and not (worker.is_finished or worker.is_cancelled or worker._thread_worker)
            for worker in self.workers
        )

    @property
    def expects(self) -> bool:
        """Is something about to be shown that keys pressed before the first answer are for?"""
        return False

    def needs_rest(self, key: str) -> bool:
        """Does a key, by the id of its binding, wait for the rest of what is shown already?"""
        del key
        return False

    def view_switches(self) -> Sequence[ViewSwitch]:
        """What can be shown otherwise; those whose action does nothing now are not offered."""
        return ()

    @property
    def switches_here(self) -> list[ViewSwitch]:
        """The switches of the view that do something now."""
        return [
            each
            for each in self.view_switches()
            if self.check_action(each.action.partition("(")[0], ())
        ]

    def action_view_menu(self) -> None:
        """Have a person choose what is shown otherwise; the only one is switched at once."""
        from arc_tui.ui.dialogs import AskBox, Option

        found = self.switches_here
        if len(found) == 1:
            self.call_later(self.run_action, found[0].action)
            return
        choices = [Option(each.action, each.words, each.name) for each in found]
        self.app.push_screen(AskBox("view", choices=choices), self._switch_view)

    async def _switch_view(self, action: str | None) -> None:
        if action is not None:
            await self.run_action(action)

    @property
    def has_switches(self) -> bool:
        return bool(self.switches_here)

    def find_step(self, typed: str) -> int | None:
        """The step that a typed number means here; None where it means none."""
        del typed
        return None

    def step_hint(self) -> str:
        """Which numbers mean a step here, "" where none does."""
        return ""

    def show_step(self, step: int) -> None:
        """Show a step that was found by its number."""
        raise NotImplementedError

    @property
    def has_job(self) -> bool:
        """Does something run here that a person can stop?"""
        return False

    def on_unmount(self) -> None:
        """Nobody waits for answers any more."""
        for question in self._questions.values():
            question.over.set()
            question.worker.cancel()
        self._questions.clear()

    def hold_keys(self, worker: Worker[None]) -> None:
        """The next key is meant for the answer to a question that was just asked."""
        self._awaited &= {question.worker for question in self._questions.values()}
        self._awaited.add(worker)

    def ask(
        self,
        question: Callable[[Store], T],
        answer: Callable[[T], Message] | None,
        *,
        group: str,
        after_s: float = 0,
    ) -> Worker[None]:
        """Ask the database in a worker and post what it says; without an `answer` nobody waits.

        A newer question of the same group makes the answer to an older one worthless: it is
        dropped, and what it reads ends. Within `after_s` seconds it has not even begun.
        """
        over = Event()
        if not (self._answered or self._questions):
            self._undrawn = True
            self.set_timer(AT_ONCE_S, self._draw)

        def work() -> None:
            worker = get_current_worker()
            if over.wait(after_s) or worker.is_cancelled:
                return

            def read() -> T:
                with open_ledger(self.path) as store:
                    store.stop_when(over.is_set)
                    return question(store)

            found = patiently(read, lambda: not worker.is_cancelled)
            if answer is not None and not worker.is_cancelled:
                self.post_message(answer(found))

        worker = self.run_worker(
            work, group=group, exclusive=True, thread=True, exit_on_error=False
        )
        if (older := self._questions.get(group)) is not None:
            older.over.set()
        self._questions[group] = Question(worker, over, quiet=answer is None)
        if answer is not None:
            self.set_timer(MOMENT_S, partial(self._moment_over, worker))
        return worker

    def _draw(self) -> None:
        """Draw, from now on: the first answer is there, or is worth waiting for no longer."""
        if self._undrawn:
            self._undrawn = False
            self.refresh()

    @override
    def _compositor_refresh(self) -> None:
        if not self._undrawn:
            super()._compositor_refresh()

    def _moment_over(self, worker: Worker[None]) -> None:
        if any(question.worker is worker for question in self._questions.values()):
            self.reading = True

    def watch_reading(self) -> None:
        self.refresh_bindings()

    def stop_reading(self) -> None:
        """Wait no more: what was shown stays."""
        for question in self._questions.values():
            question.over.set()
            question.worker.cancel()
        self._questions.clear()
        self.reading = False
        self.miss()
        self.after_stop()

    def after_stop(self) -> None:
        """Nobody waits any more. A screen that was not told anything yet is left."""
        if not self._answered and len(self.app.screen_stack) > 1:
            self.dismiss()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        asked = self._questions.get(event.worker.group)
        if asked is not None and asked.worker is event.worker and event.worker.is_finished:
            del self._questions[event.worker.group]
            self._draw()
            self._answered = self._answered or event.state is WorkerState.SUCCESS
            self.reading = self.reading and bool(self._questions)
            if not self._questions:
                self.miss()
        error = event.worker.error
        if event.state is not WorkerState.ERROR or error is None:
            return
        if not isinstance(error, ArcError):
            raise error
        if asked is None or not asked.quiet:
            self.show_error(error)

    def miss(self) -> None:
        """Say so where nothing was told: what was typed for it is for nothing else."""
        if not self._answered and self.is_current:
            self.app.post_message(self.Missed())

    def key_of(self, name: str, otherwise: str = "") -> str:
        """How the key of a binding is written, by its id; for a sentence."""
        return key_of(self, name, otherwise)

    def show_error(self, error: ArcError) -> None:
        """Say what went wrong and what to do about it."""
        self.say(f"{error.message}\n{error.hint}".strip(), severity="error")

    def say(self, words: str, *, severity: SeverityLevel = "information") -> None:
        """A toast; whatever stands in it is shown as text."""
        self.notify(format.plain(words), severity=severity, markup=False)


Value = TypeVar("Value")

LOOK_S = 0.4

SECOND_NS = 10**9
"""The database tells whole seconds."""


class Changed(Message):
    """Something in the database is not as it was."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Changed)


class Watching(ArcScreen):
    """A screen that is told when its database changed, or an order to stop its recorders, by
    whoever it was.

    Nothing is read before the watch has begun: what is written between the two would go unseen.
    """

    @cached_property
    def _begun(self) -> Event:
        return Event()

    @cached_property
    def _over(self) -> Event:
        return Event()

    def on_mount(self) -> None:
        watch = Thread(
            target=self._watch, args=(self._begun, self._over), name="arc-watch", daemon=True
        )
        watch.start()

    def on_unmount(self) -> None:
        self._over.set()

    @override
    def ask(
        self,
        question: Callable[[Store], Value],
        answer: Callable[[Value], Message] | None,
        *,
        group: str,
        after_s: float = 0,
    ) -> Worker[None]:
        begun = self._begun

        def wait_for_watch(store: Store) -> Value:
            begun.wait()
            return question(store)

        return super().ask(wait_for_watch, answer, group=group, after_s=after_s)

    def _watch(self, begun: Event, over: Event) -> None:
        try:
            store = open_ledger(self.path)
        except StoreUnusable:  # the screen's own reading of it says so
            begun.set()
            return
        with closing(store):
            seen, end_ns = (store.version(), stop_order(self.path)), next_end_ns(store, now_ns())
            begun.set()
            while not over.wait(LOOK_S):
                now = store.version(), stop_order(self.path)
                if now != seen or (end_ns is not None and now_ns() > end_ns + SECOND_NS):
                    seen, end_ns = now, next_end_ns(store, now_ns())
                    self.post_message(Changed())
