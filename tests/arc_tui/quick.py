"""What makes an app under Pilot cheap to open and to press: nothing here changes what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual import app, pilot, screen
from textual._context import active_app
from textual._wait import wait_for_idle
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from textual.screen import Screen

from tests.screen import due_in_s

SOON_S = 1 / 25
"""What is due within it belongs to what a key set going: an animation moves sixty times a second,
and a tick that comes late may leave one out."""


def read_sheets_once(patched: pytest.MonkeyPatch) -> None:
    """An app parses eighty style sheets twice as it starts, a fourth of what opening it takes:
    what came out for a sheet under the same variables is handed out again. Its rules are looked up
    by who they are, ninety thousand times, which takes a tenth where Python need not be asked."""
    patched.setattr(Stylesheet, "_parse_rules", _once(Stylesheet._parse_rules))
    patched.setattr(RuleSet, "__hash__", object.__hash__)


def _once(parse: Callable[..., list[RuleSet]]) -> Callable[..., list[RuleSet]]:
    read: dict[tuple[object, ...], list[RuleSet]] = {}

    def parsed(
        self: Stylesheet,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        place = (css, read_from, is_default_rules, tie_breaker, scope)
        key = (*place, frozenset(self._variables.items()))
        if key not in read:
            read[key] = parse(self, *place)
        return read[key]

    return parsed


def draw_when_still(patched: pytest.MonkeyPatch) -> None:
    """Draw a frame when nothing else is to be done, and read off the loop whether anything is.

    Textual draws sixty times a second, each step of a change on its own, and takes an app for idle
    that used no processor for a fiftieth of one: it waits that long twice for every key.
    """
    frames = Frames(Screen._compositor_refresh)
    patched.setattr(screen, "UPDATE_PERIOD", 1.0)
    patched.setattr(Screen, "_compositor_refresh", frames.put_off)
    for module in (app, pilot):
        patched.setattr(module, "wait_for_idle", frames.until_still)


class Frames:
    """The frames that are due. `draw` is how a screen draws one."""

    def __init__(self, draw: Callable[[Screen[Any]], None]) -> None:
        self._draw = draw
        self._due: set[Screen[Any]] = set()

    @property
    def put_off(self) -> Callable[[Screen[Any]], None]:
        """In the place of drawing: the screen in front is drawn later, once for all changes."""

        def put_off(screen: Screen[Any]) -> None:
            if screen is screen.app.screen:
                screen._dirty_widgets.clear()  # the compositor knows which regions are dirty
                self._due.add(screen)
            else:
                self._draw(screen)

        return put_off

    async def until_still(self, min_sleep: float = 0, max_sleep: float = 1.0) -> None:
        """Wait until nothing happens any more and it is drawn, for `max_sleep` seconds at most.

        While a worker is at it, only the processor tells: then Textual's own way is taken.
        """
        loop, running = asyncio.get_running_loop(), active_app.get()
        end = loop.time() + max_sleep
        patient = False
        await asyncio.sleep(0)
        while loop.time() < end:
            if not patient and any(not worker.is_finished for worker in running.workers):
                await wait_for_idle(min_sleep, end - loop.time())
                patient = True
            due = due_in_s(loop)
            if due is not None and due <= SOON_S:
                await asyncio.sleep(due)
            elif not (self._laid_out(running) or self._drawn(running)):
                return

    def _laid_out(self, running: App[Any]) -> bool:
        """Let the screens that changed take in what did: were there any?"""
        waiting = [each for each in running.screen_stack if each._update_timer._active.is_set()]
        for each in waiting:
            each._on_timer_update()
        return bool(waiting)

    def _drawn(self, running: App[Any]) -> bool:
        """Draw the screen in front, if it is due."""
        due = running.screen in self._due
        self._due.clear()
        if due:
            self._draw(running.screen)
        return due
