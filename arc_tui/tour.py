"""The guided tour: a line on the screen in front names the next key, and goes on once it was
pressed.

The stops are a table. Inside the tour `esc` goes back as everywhere; the key that starts it ends
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.text import Text
from textual.actions import ActionParseResult
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen
from typing_extensions import override

from arc_tui.routes import Navigation
from arc_tui.ui.bindings import bind
from arc_tui.ui.format import spread
from arc_tui.ui.keys import KeyBar, key_of
from arc_tui.ui.styles import StyledWidget
from arc_tui.ui.textual_private import is_editor

if TYPE_CHECKING:
    from arc_tui.features.trace.tagging import Tagging


class Move(Struct, frozen=True, kw_only=True):
    """One thing to do: on the screen of that name, the key of that id, the words after it, and
    the words where the key does nothing.

    `kept`: it is done once a tag is saved, not when the key is pressed.
    """

    place: str
    key: str
    words: str
    otherwise: str = ""
    kept: bool = False


RUNS, RUN, REPLAY = "runs", "a run", "a replay"
"""The names of the screens (`HELP`)."""

START = "task:many-wishes variant:v5 trial:0"
"""The run the tour is about: its context contradicts its break."""

SOUND = "No break candidates here. Go back and open a run marked ✗"

STOPS: tuple[tuple[Move, ...], ...] = (
    (
        Move(place=RUNS, key="runs.failed", words="shows failed runs only"),
        Move(place=RUNS, key="runs.open", words="opens the run under the cursor"),
    ),
    (
        Move(place=RUN, key="trace.candidate_next", otherwise=SOUND,
             words="goes to the next break candidate, marked ◆"),
        Move(place=RUN, key="trace.candidate_before", otherwise=SOUND,
             words="goes back to the first candidate, the most likely one"),
    ),
    (
        Move(place=RUN, key="trace.tab_2",
             words="shows the request: the whole context of the model"),
        Move(place=RUN, key="trace.tab_1", words="shows why: the evidence for this candidate"),
    ),
    (
        Move(place=RUN, key="trace.edit", words="edits the system prompt of the run"),
        Move(place=REPLAY, key="replay.run",
             words="replays on the demo model; change a line first"),
    ),
    (
        Move(place=RUN, key="trace.tag", kept=True,
             words="and a letter tag the failure class"),
    ),
    (
        Move(place=RUNS, key="runs.failures",
             words="counts the failure classes, most frequent first"),
    ),
)  # fmt: skip
"""Six stops: runs, candidate, why, edit and replay, tag, Pareto. The moves of one stop follow each
other."""


MOVES = tuple((number, move) for number, stop in enumerate(STOPS, 1) for move in stop)

DONE = "done: break, cause, edit, replay, tag"


class GuidedTour(Navigation):
    """An app that can show a person round."""

    BINDINGS = [
        bind("^g", "tour", id="app.tour", show=False,
             tooltip="Six stops over the bundled runs: what to press, and why; again ends it"),
        bind("x", "stop_reading", id="app.stop_reading", label="stop reading…", priority=True,
             tooltip="Stop reading the database; what was shown stays"),
    ]  # fmt: skip

    _at: int | None = None
    """The move that is next; None where there is no tour, the number of moves after the last."""

    _strip: TourStrip | None = None
    _under: Screen[object] | None = None
    """The screen that has the line."""

    def on_mount(self) -> None:
        self.screen_change_signal.subscribe(self, lambda _: self.call_later(self._follow_screen))

    @override
    def begin_tour(self) -> None:
        self._at = 0
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        from arc_tui.features.runs.screen import RunsScreen

        lists = [screen for screen in self.screen_stack if isinstance(screen, RunsScreen)]
        lists[-1].cursor_target.set(START)
        self._show_next()

    def action_tour(self) -> None:
        """Begin the tour, or end it."""
        if self._at is not None:
            self._end_tour()
            return
        if not self.demo:
            self.on_open_demo()
        self.begin_tour()

    def _end_tour(self) -> None:
        self._at = None
        self._show_next()
        self.notify(f"Tour ended. {self.key_of('app.tour')} starts it again.")

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "stop_reading":
            typing = is_editor(self.screen.focused)
            return self.is_reading and not typing
        return super().check_action(action, parameters)

    @property
    def _stop(self) -> int:
        """The stop of what is to be done next, counted from 1; 0 without one."""
        return MOVES[self._at][0] if self._at is not None and self._at < len(MOVES) else 0

    @property
    def _move(self) -> Move | None:
        """What is to be done next; None after the last."""
        return MOVES[self._at][1] if self._at is not None and self._at < len(MOVES) else None

    @override
    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        place = self.screen.HELP
        done = await super().run_action(action, default_namespace, namespaces)
        move = self._move
        if done and move is not None and not move.kept and place == move.place:
            if default_namespace is not None and _is(action, default_namespace, move.key):
                self._go_on()
            else:
                self.call_later(self._show_next)
        return done

    def on_tagging_tagged(self, event: Tagging.Tagged) -> None:
        move = self._move
        if event.kept and move is not None and move.kept:
            self._go_on()

    def _go_on(self) -> None:
        assert self._at is not None
        self._at += 1
        self.call_later(self._show_next)
        self.refresh_bindings()

    def _show_next(self) -> None:
        """The line on the screen in front; behind a dialog it stays as it is."""
        screen = self.screen
        if isinstance(screen, ModalScreen):
            return
        if self._strip is not None and (self._at is None or self._under is not screen):
            self._strip.remove()
            self._strip = None
        if self._at is None:
            return
        if self._strip is None:
            self._strip, self._under = TourStrip(), screen
            screen.mount(self._strip, before=_last(screen))
            screen.bindings_updated_signal.subscribe(self, self._bindings_updated)
        self._say(self._strip)

    def _bindings_updated(self, screen: Screen[object]) -> None:
        """Keys do something now that did nothing, or the other way."""
        if self._at is not None and screen is self._under:
            self._show_next()

    def _follow_screen(self) -> None:
        """Another screen is in front: for who left in the middle of a stop, the line goes back to
        the move of that stop that is made here."""
        earlier = self._earlier
        if earlier is not None:
            self._at = earlier
        self._show_next()

    @property
    def _earlier(self) -> int | None:
        """A move of the same stop that is made on the screen in front, where the next one is made
        on another."""
        move = self._move
        if move is None or self._at is None or move.place == self.screen.HELP:
            return None
        found = (
            at
            for at, (number, earlier) in enumerate(MOVES[: self._at])
            if number == self._stop and earlier.place == self.screen.HELP
        )
        return next(found, None)

    def _say(self, strip: TourStrip) -> None:
        move = self._move
        if move is None:
            strip.stop, strip.key, strip.words = "tour", "", DONE
            strip.end = f"{self.key_of('app.help')} all keys  {self._end}"
            return
        if self._earlier is not None:  # the screen that comes has not come yet
            return
        strip.stop = f"tour {self._stop}/{len(STOPS)}"
        strip.end = self._end
        if move.place != RUNS and self.screen.HELP == RUNS:
            strip.key, strip.words = self.key_of("runs.open"), "opens the run again"
        elif move.place != self.screen.HELP:
            strip.key, strip.words = self._key_back, f"goes back to {_place_name(move.place)}"
        elif not (key := self.key_of(move.key)) and move.otherwise:
            strip.key, strip.words = "", move.otherwise
        else:
            strip.key, strip.words = key, move.words

    @property
    def _end(self) -> str:
        """How the tour is ended, where there is room to say so: at its beginning and its end."""
        at_an_end = self._move is None or (self._stop == 1 and self.screen.HELP == RUNS)
        return f"{self.key_of('app.tour')} ends the tour" if at_an_end else ""

    @property
    def _key_back(self) -> str:
        """The key that leaves the screen in front, as it is written."""
        named = (
            binding.id for _, bindings in self.screen._binding_chain for _, binding in bindings
        )
        back = next((name for name in named if name and name.endswith(".back")), "")
        return key_of(self.screen, back)

    def key_of(self, name: str) -> str:
        """How the key of a binding that does something now is written, by the binding's id."""
        for active in self.screen.active_bindings.values():
            if active.binding.id == name and active.enabled:
                typing = is_editor(self.screen.focused)
                return key_of(self.screen, name, typing=typing)
        return ""


def _place_name(place: str) -> str:
    return "the run" if place.startswith("a ") else f"the {place}"


def _last(screen: Screen[object]) -> KeyBar | None:
    """The line of keys, which stays the last one."""
    try:
        return screen.query_one(KeyBar)
    except NoMatches:
        return None


def _is(action: str | ActionParseResult, node: DOMNode, name: str) -> bool:
    """Is this what the binding of that id does there?"""
    return any(
        binding.id == name and binding.action == action
        for base in type(node).__mro__
        for binding in vars(base).get("BINDINGS", ())
    )


class TourStrip(StyledWidget):
    """The stop, the key and its words at the left; how the tour ends at the right."""

    ALLOW_SELECT = False
    STYLES = {"stop": "$quiet", "key": "bold $primary", "quiet": "$quiet"}

    stop: reactive[str] = reactive("")
    key: reactive[str] = reactive("")
    words: reactive[str] = reactive("")
    end: reactive[str] = reactive("")

    def render(self) -> Text:
        left = Text.assemble(
            (f"{self.stop}  ", self.style_of("stop")),
            (self.key, self.style_of("key")),
            f" {self.words}",
        )
        return spread(left, Text(self.end, self.style_of("quiet")), self.content_size.width)
