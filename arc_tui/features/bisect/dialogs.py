"""What is to be searched, and what is expected of an answer: asked until it can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import structs

from arc_tui.experiments import expectation
from arc_tui.experiments.expectation import Expected, parse_expectation
from arc_tui.experiments.screen import ExperimentScreen
from arc_tui.features.bisect.candidates import RANGES, BisectOptions, Way, named
from arc_tui.features.bisect.plan import BisectRequest
from arc_tui.features.bisect.versions import BadVersions
from arc_tui.ui.dialogs import AskBox, Option
from replay.errors import ArcError
from replay.models import DEMO
from replay.predicate import BadPredicate
from taxonomy.detectors import NothingExpected

EXAMPLE = "tool=get_order, args.order_id=1039"

T = TypeVar("T")


class ExpectationDialog:
    """Asks a person what a good answer does."""

    def __init__(self, screen: ExperimentScreen[Any]) -> None:
        self._screen = screen

    def ask(
        self,
        options: BisectOptions,
        request: BisectRequest,
        take: Callable[[BisectRequest], None],
        trouble: ArcError | None = None,
        typed: str = "",
    ) -> None:
        """Expectations to choose from; after a slip only the line, with why and what was typed.
        `take` gets the request with the one that is meant."""
        choices = _expectations(options, request) if trouble is None else []
        box = AskBox(
            _question(options, request),
            str(trouble) if trouble is not None else "",
            answer=typed,
            hint=f"{'or ' if choices else ''}{EXAMPLE}",
            choices=choices,
        )

        def read(words: str | None) -> None:
            if words is not None:
                self._screen.read(
                    lambda store: readable(
                        lambda: parse_expectation(store, request.trace, request.at, words)
                    ),
                    lambda found: answer(words, found),
                    group="expected",
                )

        def answer(words: str, found: Expected | ArcError) -> None:
            if isinstance(found, ArcError):
                self.ask(options, request, take, found, words)
            else:
                take(structs.replace(request, expect=found.words, judge=found.judge))

        self._screen.app.push_screen(box, read)


def _question(options: BisectOptions, request: BisectRequest) -> str:
    if request.fix is not None:
        return "what does a run do that is saved?"
    if request.free:
        return "what does a good run do?"
    return f"what does a good answer do at step {options.step}?"


def _expectations(options: BisectOptions, request: BisectRequest) -> list[Option]:
    """What can be expected without a word typed."""
    whole = request.free or request.fix is not None
    choices = []
    if options.by is not None and not whole:
        why = f": {options.why}" if options.why else ""
        choices.append(Option(expectation.RULE, f"{options.by}{why}", "not the rule's finding"))
    if options.gold:
        choices.append(Option(expectation.GOLD, "the gold actions of the run's source"))
    if not whole and (request.model or options.model) == DEMO:
        choices.append(Option(expectation.JUDGE, "scored a half or more; judged by rule here"))
    return choices


class WayDialog:
    """Asks a person what is to be searched; what was typed is kept for the next time."""

    def __init__(self, screen: ExperimentScreen[Any]) -> None:
        self._screen = screen
        self._typed = ""

    def ask(
        self,
        options: BisectOptions | None,
        take: Callable[[Way], None],
        trouble: ArcError | None = None,
    ) -> None:
        """Ways to choose from; after a slip only the line, with why and with what was typed."""
        known = options.ways if options is not None else ()
        ways = known if trouble is None else ()
        box = AskBox(
            "which edit broke it? what is to be searched",
            str(trouble) if trouble is not None else "",
            answer=self._typed,
            hint=f"or files, {RANGES}",
            choices=[Option(_at(place), way.words, way.name) for place, way in enumerate(ways)],
        )

        def read(words: str | None) -> None:
            chosen = {_at(place): way for place, way in enumerate(known)}
            if words is None:
                return
            if words in chosen:
                take(chosen[words])
                return
            self._typed = words
            self._screen.read(lambda _: readable(lambda: named(words)), answer, group="named")

        def answer(found: Way | ArcError) -> None:
            if isinstance(found, ArcError):
                self.ask(options, take, found)
            else:
                take(found)

        self._screen.app.push_screen(box, read)


def _at(place: int) -> str:
    """An answer no person types."""
    return f"\0{place}"


def readable(read: Callable[[], T]) -> T | ArcError:
    """What was read, or what a person can put right by typing something else."""
    try:
        return read()
    except (BadPredicate, NothingExpected, BadVersions) as slip:
        return slip
