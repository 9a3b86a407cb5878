"""All use of what Textual keeps private: keys typed ahead, and when style sheets are read.

A key is handled once the effect of the one before it is there. Reading and applying sheets is
most of what a screen costs to open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

from textual import events
from textual._queue import Queue
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker
from typing_extensions import override

from arc_tui.ui.list import RowList
from arc_tui.ui.screen import ArcScreen

if TYPE_CHECKING:
    from textual.widgets import TextArea

PATIENCE_S = 60.0
"""So long keys wait for a screen that is told nothing."""

ROUNDS = 24
"""So often everybody in front may find something new to do. The longest way, from a key through a
message up to the app, a screen that it pushes and the focus in it, takes half as many; who is busy
after them is so for another reason than a key, as where an import says how far it is."""

SUSPEND = "suspend_process"
LEAVING = frozenset({"quit", SUSPEND})
STOP_READING = "stop_reading"
BACK = frozenset({"back", "cancel"})
"""Actions that leave a screen, or a line in it."""

Typed: TypeAlias = events.Key | events.Paste


class KeyQueue(App[None]):
    """An app that keeps keys until their turn has come."""

    _last: tuple[Widget | None, Typed] | None = None
    """What was handed over last, and who had the focus."""

    _handing = False
    """Are waiting keys handed over? What comes meanwhile waits behind them."""

    _early = False
    """Were waiting keys pressed before the screen showed anything?"""

    _given_up: Screen[object] | None = None
    """A screen that was waited for in vain."""

    @cached_property
    def _typed(self) -> deque[Typed]:
        return deque()

    @cached_property
    def _turn(self) -> asyncio.Event:
        """Something happened that may end the waiting."""
        return asyncio.Event()

    def on_mount(self) -> None:
        self.screen_change_signal.subscribe(self, lambda _: self._turn.set(), immediate=True)

    @override
    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, Typed) or event.is_forwarded:
            await super().on_event(event)
        elif self._is_due(event):
            await self._hand_over(event)
        else:
            self._early = self._early or self._reads()
            self._typed.append(event)
            if not self._handing:
                self._handing = True
                self._turns: Worker[None] = self.run_worker(
                    self._hand_over_in_turn, group="typed ahead"
                )

    def _is_due(self, event: Typed) -> bool:
        if self._waits(event):
            return self._acts_at_once(event) or (not self._handing and self._follows(event))
        return not self._handing and (not self._busy(at_one=True) or self._follows(event))

    async def _hand_over(self, event: Typed) -> None:
        self._last = self.focused, event
        await super().on_event(event)

    async def _hand_over_in_turn(self) -> None:
        try:
            while self._typed:
                if not self._follows(self._typed[0]):
                    await self._effects()
                if self._typed:
                    await self._hand_over(self._typed.popleft())
        finally:
            self._handing = self._early = False

    async def _effects(self) -> None:
        """Wait until the effects of the last key are there."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                rounds = 0
                while self._typed and rounds < ROUNDS:
                    if self._waits(self._typed[0]):
                        await self._wait_for_screen(self.screen)
                        rounds = 0
                    elif busy := self._busy():
                        await drain_messages(busy)
                        rounds += 1
                    else:
                        return
        except TimeoutError:
            self._given_up = self.screen
            self._forget()
            self.notify(f"no update for {PATIENCE_S:g} s: keys typed ahead were discarded")

    async def _wait_for_screen(self, screen: Screen[object]) -> None:
        """Wait until a screen is told what it reads, is left, or nobody waits any more."""
        screen.message_signal.subscribe(self, lambda _: self._turn.set(), immediate=True)
        try:
            while self.screen is screen and self._typed and self._waits(self._typed[0]):
                self._turn.clear()
                await self._turn.wait()
        finally:
            screen.message_signal.unsubscribe(self)

    def on_arc_screen_missed(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._typed.clear()
        self._turn.set()

    def _reads(self) -> bool:
        """Does the screen in front wait for what keys are meant for?"""
        screen = self._waited_for
        return screen is not None and (screen.awaits or (self._early and screen.expects))

    def _waits(self, event: Typed) -> bool:
        """Is the key meant for something that the screen in front waits for?"""
        return self._reads() or self._needs_rest(event)

    def _needs_rest(self, event: Typed) -> bool:
        """Is it for what comes behind that which is shown already?"""
        screen = self._waited_for
        key = next((binding.id or "" for binding in self._bound(event)), "")
        return screen is not None and screen.needs_rest(key)

    @property
    def _waited_for(self) -> ArcScreen | None:
        """The screen in front, unless it is none of ours or was waited for in vain."""
        screen = self.screen
        return screen if isinstance(screen, ArcScreen) and screen is not self._given_up else None

    def _busy(self, *, at_one: bool = False) -> Sequence[MessagePump]:
        """Who has something to do that may change where keys go: the app, but for the message
        that it is `at_one` with, and the screen in front."""
        pumps = (self, *self.screen.walk_children(with_self=True))
        return [
            pump
            for pump in pumps
            if (has_more(pump) if at_one and pump is self else not is_idle(pump))
        ]

    def _acts_at_once(self, event: Typed) -> bool:
        """Need the key not wait while something is being read?"""
        bound = self._bound(event)
        if self._gives_up(event, bound):
            self._forget()
            return True
        if self._typed:  # it has its turn after them, unless it leaves from anywhere
            bound = [binding for binding in bound if binding.priority or binding.action == SUSPEND]
            return any(binding.action in LEAVING for binding in bound)
        return any(binding.priority for binding in bound) or (
            bool(bound) and bound[0] in self._bound(event, at=self)
        )

    def _gives_up(self, event: Typed, bound: Sequence[Binding]) -> bool:
        """Does the key leave the screen that reads, or stop the reading?"""
        if not isinstance(event, events.Key):
            return False
        widget = self.focused
        if is_editor(widget) and widget.check_consume_key(event.key, event.character):
            return False
        stops = isinstance(self.screen, ArcScreen) and self.screen.reading
        return any(
            binding.action in BACK or (stops and binding.action == STOP_READING)
            for binding in bound
        )

    def _follows(self, event: Typed) -> bool:
        """Is it for the widget that had the key before, which led to nothing outside of it?"""
        if self._last is None or self._needs_rest(event):
            return False
        widget, before = self._last
        return widget is not None and widget is self.focused and all(
            self._stays(each, widget) for each in (before, event)
        )  # fmt: skip

    def _stays(self, event: Typed, widget: Widget) -> bool:
        """Does a key do nothing but in the widget that has the focus?"""
        if is_editor(widget):
            if isinstance(event, events.Paste):
                return True
            typed = widget.check_consume_key(event.key, event.character)
            return typed or any(
                binding.action != "submit" for binding in self._bound(event, at=widget)
            )
        own = self._bound(event, at=widget) if isinstance(widget, RowList) else ()
        return any((binding.id or "").startswith("row.") for binding in own)

    def _bound(self, event: Typed, at: DOMNode | None = None) -> Sequence[Binding]:
        """What a key is bound to in front, or there alone."""
        if isinstance(event, events.Paste):
            return ()
        return [
            binding
            for node, bindings in self.screen._binding_chain
            if at is None or node is at
            for binding in bindings.key_to_bindings.get(event.key, ())
        ]


def is_editor(widget: object) -> TypeGuard[Input | TextArea]:
    """Is it typed in? Told by its name: an app that shows no editor has not loaded one."""
    return any(each.__name__ in ("Input", "TextArea") for each in type(widget).__mro__)


def has_more(pump: MessagePump) -> bool:
    """Has it more to handle than what it is at?"""
    return bool(pump._message_queue.values) or pump._pending_message is not None


def is_idle(pump: MessagePump) -> bool:
    """Does it wait for a message, or for none any more? It is not idle in the middle of one."""
    queue: Queue[Message | None] = pump._message_queue
    return pump._closing or bool(queue.ready_event._waiters and not queue.values)


async def drain_messages(pumps: Sequence[MessagePump]) -> None:
    """Wait until each has handled what it has to handle now."""
    marks = []
    for pump in pumps:
        passed = asyncio.Event()
        if pump.call_later(passed.set):
            marks.append(passed)
    for passed in marks:
        await passed.wait()


SheetedScreen = TypeVar("SheetedScreen", bound=Screen[Any])


class Sheets(App[None]):
    """An app whose screens bring their own sheets, as `CSS_PATH`."""

    _colours: dict[str, str] | None = None
    """What all was styled with."""

    @override
    def refresh_css(self, animate: bool = True) -> None:
        colours = self.get_css_variables()
        if colours == self._colours:
            return
        self._colours = colours
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(colours)

    @override
    def _load_screen_css(self, screen: Screen[Any]) -> None:
        self.stylesheet.apply(self.apply_sheets(screen))

    def apply_sheets(self, screen: SheetedScreen) -> SheetedScreen:
        """A screen that is not composed yet, with its sheets and with the classes of its size."""
        paths = [Path(path).resolve() for path in screen.css_path]
        new = [path for path in paths if not self.stylesheet.has_source(str(path))]
        if new:
            self.stylesheet.read_all(new)
            self.stylesheet.parse()
        size = self.size
        for own, cells in (
            (screen.HORIZONTAL_BREAKPOINTS, size.width), (screen.VERTICAL_BREAKPOINTS, size.height)
        ):  # fmt: skip
            names = sorted(own or (), reverse=True)
            chosen = next((name for least, name in names if cells >= least), None)
            screen.update_classes({each: each == chosen for _, each in names}, update=False)
        return screen
