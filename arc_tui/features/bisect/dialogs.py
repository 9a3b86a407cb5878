"""What is to be searched, how it is asked, and what is expected of an answer: chosen in dialogs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import structs
from textual.message import Message

from arc_tui.experiments import expectation
from arc_tui.experiments.expectation import Expected, parse_expectation
from arc_tui.features.bisect.candidates import RANGES, Ground, Way, build_ground, named, spanned
from arc_tui.features.bisect.plan import BisectRequest
from arc_tui.features.bisect.state import BisectState
from arc_tui.features.bisect.versions import BadVersions
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.screen import ArcScreen
from replay.bisection.rounds import Settings
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.models.choose import DEMO
from replay.predicate import BadPredicate
from replay.store.handle import Store
from taxonomy.expectations import NothingExpected

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
            request: BisectRequest,
            ground: Ground,
        ) -> None:
            super().__init__()
            self.said = said
            self.found = found
            self.way = way
            self.request = request
            self.ground = ground

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path)
        self.trace = trace
        self._request = BisectRequest(trace=trace, settings=Settings(most=MOST))

    @property
    def here(self) -> BisectState:
        """Where it stands."""
        raise NotImplementedError

    def wish(self, way: str, request: BisectRequest, ground: Ground) -> None:
        """Want something else, and see what it would ask."""
        raise NotImplementedError

    def settle(self, way: str, request: BisectRequest, ground: Ground | None = None) -> None:
        """Want it at the step of the ground, or of whole runs; ask first what is expected, where
        that is open."""
        ground = ground or self.here.ground
        assert ground is not None
        at = None if request.free or request.fix is not None else ground.step
        request = structs.replace(request, at=at)
        if self._is_open(request, ground):
            self._ask_expected(way, request, ground)
        else:
            self.wish(way, request, ground)

    def _is_open(self, request: BisectRequest, ground: Ground) -> bool:
        if request.free or request.fix is not None:
            return request.expect in (None, expectation.RULE, expectation.JUDGE)
        return request.expect in (None, expectation.RULE) and ground.by is None

    def action_expect(self) -> None:
        ground = self.here.ground
        if ground is not None:
            self._ask_expected(self.here.way, self._request, ground)

    def _ask_expected(
        self,
        way: str,
        request: BisectRequest,
        ground: Ground,
        trouble: ArcError | None = None,
        said: str = "",
    ) -> None:
        """Expectations to choose from; after a slip only the line, with why and what was typed."""
        choices = _expectations(ground, request) if trouble is None else []
        box = AskBox(
            _question(ground, request),
            str(trouble) if trouble is not None else "",
            answer=said,
            hint=f"{'or ' if choices else ''}{EXAMPLE}",
            choices=choices,
        )

        def take(typed: str | None) -> None:
            if typed is not None:
                self._read_expected(way, request, ground, typed)

        self.app.push_screen(box, take)

    def _read_expected(self, way: str, request: BisectRequest, ground: Ground, said: str) -> None:
        def read(store: Store) -> Expected | ArcError:
            return readable(lambda: parse_expectation(store, self.trace, request.at, said))

        def read_as(found: Expected | ArcError) -> Message:
            return self.Expects(said, found, way, request, ground)

        self.ask(read, read_as, group="expected")

    def on_bisect_expecting_expects(self, event: Expects) -> None:
        found = event.found
        if isinstance(found, ArcError):
            self._ask_expected(event.way, event.request, event.ground, found, event.said)
        else:
            request = structs.replace(event.request, expect=found.words, judge=found.judge)
            self.settle(event.way, request, event.ground)


def _question(ground: Ground, request: BisectRequest) -> str:
    if request.fix is not None:
        return "what does a run do that is saved?"
    if request.free:
        return "what does a good run do?"
    return f"what does a good answer do at step {ground.step}?"


def _expectations(ground: Ground, request: BisectRequest) -> list[Option]:
    """What can be expected without a word typed."""
    whole = request.free or request.fix is not None
    choices = []
    if ground.by is not None and not whole:
        why = f": {ground.why}" if ground.why else ""
        choices.append(Option(expectation.RULE, f"{ground.by}{why}", "not the rule's finding"))
    if ground.gold:
        choices.append(Option(expectation.GOLD, "the gold actions of the run's source"))
    if not whole and (request.model or ground.model) == DEMO:
        choices.append(Option(expectation.JUDGE, "scored a half or more; judged by rule here"))
    return choices


def readable(read: Callable[[], T]) -> T | ArcError:
    """What was read, or what a person can put right by typing something else."""
    try:
        return read()
    except (BadPredicate, NothingExpected, BadVersions) as slip:
        return slip


MOST_OF_ALL = 10_000


class BisectChoosing(BisectExpecting):
    """Turns answers to questions into a wish."""

    class Grounded(Message):
        """What is known of the run at a step was read."""

        def __init__(self, ground: Ground) -> None:
            super().__init__()
            self.ground = ground

    class Named(Message):
        """What a person named was read, or could not be."""

        def __init__(self, said: str, found: Way | ArcError) -> None:
            super().__init__()
            self.said = said
            self.found = found

    def __init__(self, path: Path, trace: str, step: int, edit: Edit | None = None) -> None:
        """An `edit` is what is searched, if it can be; else a person is asked."""
        super().__init__(path, trace)
        self._step = step
        self._edit = edit
        self._typed = ""

    def show(self, way: Way) -> None:
        """Show what an earlier search came to."""
        raise NotImplementedError

    # --- the ground

    def look(self, at: int, *, exactly: bool = False) -> None:
        """Read what is known of the run at a step."""
        self.ask(
            lambda store: build_ground(store, self.trace, at, self._edit, exactly=exactly),
            self.Grounded,
            group="ground",
        )

    # --- what is searched

    def action_choose(self) -> None:
        self._ask_way()

    def _ask_way(self, trouble: ArcError | None = None) -> None:
        """Ways to choose from; after a slip only the line, with why and with what was typed."""
        ground = self.here.ground
        ways = ground.ways if ground is not None and trouble is None else ()
        box = AskBox(
            "which edit broke it? what is to be searched",
            str(trouble) if trouble is not None else "",
            answer=self._typed,
            hint=f"or files, {RANGES}",
            choices=[Option(_at(place), way.words, way.name) for place, way in enumerate(ways)],
        )
        self.app.push_screen(box, self._take_way)

    def _take_way(self, said: str | None) -> None:
        if said is None:
            return
        ways = self.here.ground.ways if self.here.ground is not None else ()
        known = {_at(place): way for place, way in enumerate(ways)}
        if said in known:
            self.took(known[said])
            return
        self._typed = said
        self.ask(lambda _: readable(lambda: named(said)), partial(self.Named, said), group="named")

    def on_bisect_choosing_named(self, event: Named) -> None:
        if isinstance(event.found, ArcError):
            self._ask_way(event.found)
        else:
            self.took(event.found)

    def took(self, way: Way) -> None:
        """Search a way, after what is expected was asked where nothing tells."""
        if way.kept is not None:
            self.show(way)
            return
        request = structs.replace(
            self._request, sources=way.sources, old=way.old, new=way.new, fix=way.fix
        )
        self.settle(way.name, request)

    def action_from_here(self) -> None:
        """Leave out the versions before the one under the cursor."""
        later = self.later()
        if later is not None:
            self.settle(spanned(later.sources), later)

    def later(self) -> BisectRequest | None:
        """The wish from the version under the cursor on, None where that is no search."""
        raise NotImplementedError

    # --- how it is asked

    def action_step(self) -> None:
        ground = self.here.ground
        assert ground is not None
        words = f"{'none' if ground.step is None else f'step {ground.step}'} now"
        box = AskBox("at which step?", words, hint=f"a number, 0 to {ground.steps - 1}")
        self.app.push_screen(box, self._take_step)

    def _take_step(self, said: str | None) -> None:
        ground = self.here.ground
        if said is None or ground is None:
            return
        if said.isdecimal() and int(said) < ground.steps:
            self.look(int(said), exactly=True)
        else:
            self.say(f"{said!r} is no step of this run", severity="error")

    def action_whole(self) -> None:
        """Judge whole free runs, or one answer again."""
        request = structs.replace(self._request, free=not self._request.free)
        if request.free or request.expect not in (None, expectation.RULE):
            request = structs.replace(request, expect=None, judge=None)
        self.settle(self.here.way, request)

    def action_most(self) -> None:
        words = f"at most {format.count(self._request.settings.most, 'answer')} now"
        box = AskBox("how many answers at most?", words, hint="a number, as 200")
        self.app.push_screen(box, self._take_most)

    def _take_most(self, said: str | None) -> None:
        if said is None:
            return
        if not said.isdecimal() or not 2 <= int(said) <= MOST_OF_ALL:
            self.say(f"{said!r} is no number from 2 to {MOST_OF_ALL}", severity="error")
            return
        settings = structs.replace(self._request.settings, most=int(said))
        self._again(structs.replace(self._request, settings=settings))

    def action_model(self) -> None:
        own = self.here.ground.model if self.here.ground is not None else None
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        if own is not None and own != DEMO:
            choices.insert(0, Option(own, "the trace's own"))
        box = AskBox("which model?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, self._take_model)

    def _take_model(self, said: str | None) -> None:
        if said is not None:
            self._again(structs.replace(self._request, model=said))

    def _again(self, request: BisectRequest) -> None:
        """The same search, asked another way; of none, what the next one is asked with."""
        if is_search(request):
            self.settle(self.here.way, request)
        else:
            self._request = request


def is_search(request: BisectRequest) -> bool:
    """Is there something to search?"""
    return bool(request.sources) or request.new is not None or request.fix is not None


def _at(place: int) -> str:
    """An answer no person types."""
    return f"\0{place}"
