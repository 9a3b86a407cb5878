"""What is expected of an answer, or of a whole run: chosen or typed in a dialog.

Actions of the bisect screen. What cannot be read is asked again, with why and with what was typed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import structs
from textual.message import Message

from arc_tui.jobs import expecting
from arc_tui.jobs.bisect.plan import Wanted
from arc_tui.screens.base import ArcScreen
from arc_tui.views.bisect.expected import READABLE, Expected, expected
from arc_tui.views.bisect.stage import BisectStage
from arc_tui.views.bisect.ways import Ground
from arc_tui.widgets.ask_box import AskBox, Option
from replay.bisection.rounds import Settings
from replay.errors import ArcError
from replay.models.choose import DEMO
from replay.store import Store

MOST = 200
"""Answers before a search of the screen gives up, until a person says otherwise."""

EXAMPLE = "tool=get_order, args.order_id=1039"

T = TypeVar("T")


class BisectExpecting(ArcScreen):
    """Turns a wish into one that can be searched: with something to hold an answer against."""

    class Expects(Message):
        """What a person expects was read, or could not be; `wanted` is to be searched with it."""

        def __init__(
            self,
            said: str,
            found: Expected | ArcError,
            way: str,
            wanted: Wanted,
            ground: Ground,
        ) -> None:
            super().__init__()
            self.said = said
            self.found = found
            self.way = way
            self.wanted = wanted
            self.ground = ground

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path)
        self.trace = trace
        self._wanted = Wanted(trace=trace, settings=Settings(most=MOST))

    @property
    def here(self) -> BisectStage:
        """Where it stands."""
        raise NotImplementedError

    def wish(self, way: str, wanted: Wanted, ground: Ground) -> None:
        """Want something else, and see what it would ask."""
        raise NotImplementedError

    def settle(self, way: str, wanted: Wanted, ground: Ground | None = None) -> None:
        """Want it at the step of the ground, or of whole runs; ask first what is expected, where
        that is open."""
        ground = ground or self.here.ground
        assert ground is not None
        at = None if wanted.free or wanted.fix is not None else ground.step
        wanted = structs.replace(wanted, at=at)
        if self._is_open(wanted, ground):
            self._ask_expected(way, wanted, ground)
        else:
            self.wish(way, wanted, ground)

    def _is_open(self, wanted: Wanted, ground: Ground) -> bool:
        if wanted.free or wanted.fix is not None:
            return wanted.expect in (None, expecting.RULE, expecting.JUDGE)
        return wanted.expect in (None, expecting.RULE) and ground.by is None

    def action_expect(self) -> None:
        ground = self.here.ground
        if ground is not None:
            self._ask_expected(self.here.way, self._wanted, ground)

    def _ask_expected(
        self,
        way: str,
        wanted: Wanted,
        ground: Ground,
        trouble: ArcError | None = None,
        said: str = "",
    ) -> None:
        """Expectations to choose from; after a slip only the line, with why and what was typed."""
        choices = _expectations(ground, wanted) if trouble is None else []
        box = AskBox(
            _question(ground, wanted),
            str(trouble) if trouble is not None else "",
            answer=said,
            hint=f"{'or ' if choices else ''}{EXAMPLE}",
            choices=choices,
        )

        def take(typed: str | None) -> None:
            if typed is not None:
                self._read_expected(way, wanted, ground, typed)

        self.app.push_screen(box, take)

    def _read_expected(self, way: str, wanted: Wanted, ground: Ground, said: str) -> None:
        def read(store: Store) -> Expected | ArcError:
            return readable(lambda: expected(store, self.trace, wanted.at, said))

        def read_as(found: Expected | ArcError) -> Message:
            return self.Expects(said, found, way, wanted, ground)

        self.ask(read, read_as, group="expected")

    def on_bisect_expecting_expects(self, event: Expects) -> None:
        found = event.found
        if isinstance(found, ArcError):
            self._ask_expected(event.way, event.wanted, event.ground, found, event.said)
        else:
            wanted = structs.replace(event.wanted, expect=found.words, judge=found.judge)
            self.settle(event.way, wanted, event.ground)


def _question(ground: Ground, wanted: Wanted) -> str:
    if wanted.fix is not None:
        return "what does a run do that is saved?"
    if wanted.free:
        return "what does a good run do?"
    return f"what does a good answer do at step {ground.step}?"


def _expectations(ground: Ground, wanted: Wanted) -> list[Option]:
    """What can be expected without a word typed."""
    whole = wanted.free or wanted.fix is not None
    choices = []
    if ground.by is not None and not whole:
        why = f": {ground.why}" if ground.why else ""
        choices.append(Option(expecting.RULE, f"{ground.by}{why}", "not the rule's finding"))
    if ground.gold:
        choices.append(Option(expecting.GOLD, "the gold actions of the run's source"))
    if not whole and (wanted.model or ground.model) == DEMO:
        choices.append(Option(expecting.JUDGE, "scored a half or more; judged by rule here"))
    return choices


def readable(read: Callable[[], T]) -> T | ArcError:
    """What was read, or what a person can put right by typing something else."""
    try:
        return read()
    except READABLE as slip:
        return slip
