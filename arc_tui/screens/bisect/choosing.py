"""What is to be searched, and how it is asked: chosen in dialogs.

Actions of the bisect screen. What cannot be read is asked again, with why and with what was typed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec import structs
from textual.message import Message

from arc_tui import format
from arc_tui.jobs import expecting
from arc_tui.jobs.bisect.plan import Wanted
from arc_tui.screens.bisect.expecting import BisectExpecting, readable
from arc_tui.views.bisect.ways import RANGES, Ground, Way, build_ground, named, spanned
from arc_tui.widgets.ask_box import AskBox, Option
from replay.edit import Edit
from replay.errors import ArcError
from replay.models.choose import DEMO

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
        wanted = structs.replace(
            self._wanted, sources=way.sources, old=way.old, new=way.new, fix=way.fix
        )
        self.settle(way.name, wanted)

    def action_from_here(self) -> None:
        """Leave out the versions before the one under the cursor."""
        later = self.later()
        if later is not None:
            self.settle(spanned(later.sources), later)

    def later(self) -> Wanted | None:
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
        wanted = structs.replace(self._wanted, free=not self._wanted.free)
        if wanted.free or wanted.expect not in (None, expecting.RULE):
            wanted = structs.replace(wanted, expect=None, judge=None)
        self.settle(self.here.way, wanted)

    def action_most(self) -> None:
        words = f"at most {format.count(self._wanted.settings.most, 'answer')} now"
        box = AskBox("how many answers at most?", words, hint="a number, as 200")
        self.app.push_screen(box, self._take_most)

    def _take_most(self, said: str | None) -> None:
        if said is None:
            return
        if not said.isdecimal() or not 2 <= int(said) <= MOST_OF_ALL:
            self.say(f"{said!r} is no number from 2 to {MOST_OF_ALL}", severity="error")
            return
        settings = structs.replace(self._wanted.settings, most=int(said))
        self._again(structs.replace(self._wanted, settings=settings))

    def action_model(self) -> None:
        own = self.here.ground.model if self.here.ground is not None else None
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        if own is not None and own != DEMO:
            choices.insert(0, Option(own, "the trace's own"))
        box = AskBox("which model?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, self._take_model)

    def _take_model(self, said: str | None) -> None:
        if said is not None:
            self._again(structs.replace(self._wanted, model=said))

    def _again(self, wanted: Wanted) -> None:
        """The same search, asked another way; of none, what the next one is asked with."""
        if is_search(wanted):
            self.settle(self.here.way, wanted)
        else:
            self._wanted = wanted


def is_search(wanted: Wanted) -> bool:
    """Is there something to search?"""
    return bool(wanted.sources) or wanted.new is not None or wanted.fix is not None


def _at(place: int) -> str:
    """An answer no person types."""
    return f"\0{place}"
