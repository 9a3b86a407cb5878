"""What can be done from a run: copy a step, see what it rests on, run a probe, go to other
screens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs
from textual.app import App
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.trace.copies import Copy, copies
from arc_tui.features.trace.detail import NAMES
from arc_tui.features.trace.navigation import Finding
from arc_tui.navigation import (
    OpenBisect,
    OpenBisectSteps,
    OpenCompare,
    OpenCost,
    OpenFreeReplay,
    OpenProbes,
    OpenReplay,
)
from arc_tui.ui import format
from arc_tui.views import step as steps
from arc_tui.views.probe_offers import WhyProbes
from arc_tui.views.step import EMPTY, StepView, step_markdown
from replay.errors import ArcError

if TYPE_CHECKING:
    from arc_tui.views.value_origins import RunOrigins, StepOrigins
    from replay.store.handle import Store


class Copying(Finding):
    """Takes what is shown elsewhere."""

    def action_copy(self) -> None:
        if self.detail is not steps.EMPTY:
            text = step_markdown(self.detail)
            self._copied(Copy(name=f"step {self.detail.row.step} as Markdown", text=text))

    def action_copy_part(self) -> None:
        self._choose("copy what?", self._copied)

    def action_open(self) -> None:
        """A step is read from its beginning first, so that stands on top."""
        from arc_tui.ui.editor import paged

        def show(copy: Copy) -> None:
            self._lend(paged, copy)

        self._choose("open what in a pager?", show, whole_first=True)

    def action_view(self) -> None:
        from arc_tui.ui.editor import viewed

        if self.detail is not steps.EMPTY:
            here = self._copies()
            own = [copy for copy in here if copy.name == "the text under the cursor"]
            whole = [copy for copy in here if copy.suffix == ".md"]
            self._lend(viewed, (own or whole)[0])

    def _copies(self) -> list[Copy]:
        """What can be taken of the step; of the line under the cursor where that is in sight."""
        looking = self.focused is self.page
        block = self.page.block if looking else None
        return copies(
            self.detail, block.text if block is not None else None,
            self.page.value if looking else None,
        )  # fmt: skip

    def _choose(
        self, question: str, then: Callable[[Copy], None], *, whole_first: bool = False
    ) -> None:
        from arc_tui.ui.dialogs import AskBox, Option

        if self.detail is steps.EMPTY:
            return
        found = self._copies()
        if whole_first:
            found.sort(key=lambda copy: not copy.name.startswith("the step"))

        def chosen(answer: str | None) -> None:
            if answer is not None:
                then(found[int(answer)])

        options = [
            Option(str(place), format.cut(format.one_line(copy.text[:200]), 60), copy.name)
            for place, copy in enumerate(found)
        ]
        self.app.push_screen(AskBox(question, choices=options), chosen)

    def _copied(self, copy: Copy) -> None:
        text, left_out = format.pasted(copy.text)
        self.app.copy_to_clipboard(text)
        said = f"{copy.name} copied, {format.count(len(text), 'character')}"
        if left_out:
            lost = format.count(left_out, "character")
            said = f"{said}; {lost} left out that a terminal would obey or not show"
        self.say(said)

    def _lend(self, program: Callable[[App[None], str, str], None], copy: Copy) -> None:
        """Give the terminal to a program that shows a text in which nothing is obeyed."""
        try:
            program(self.app, format.plain(copy.text), copy.suffix)
        except ArcError as error:
            self.show_error(error)


class Leaving(Copying):
    """Actions of the trace screen."""

    def action_edit(self) -> None:
        self.post_message(OpenReplay(self.trace, self.spans.step, edit=True))

    def action_replay(self) -> None:
        self.post_message(OpenReplay(self.trace, self.spans.step))

    def action_free(self) -> None:
        self.post_message(OpenFreeReplay(self.trace, self.spans.step))

    def action_bisect(self) -> None:
        self.post_message(OpenBisect(self.trace, self.spans.step))

    def action_bisect_steps(self) -> None:
        self.post_message(OpenBisectSteps(self.trace, self.spans.step))

    def action_compare(self) -> None:
        self.post_message(OpenCompare(self.trace))

    def action_money(self) -> None:
        self.post_message(OpenCost(self.trace))


class Probed(Finding):
    """Looks for the probes of a step, and leaves for them."""

    detail: reactive[StepView]

    class ProbesKnown(Message):
        """What can be probed at a step was found."""

        def __init__(self, probes: WhyProbes) -> None:
            super().__init__()
            self.probes = probes

    _probes: WhyProbes | None = None
    """Those found last."""

    _away = False
    """Is a person at the probes?"""

    def look_for_probes(self) -> None:
        """Ask what can be probed at the step that is shown, where that is not known."""
        if self.detail is EMPTY:
            return
        step = self.detail.row.step
        if self._probes is not None and self._probes.step == step:
            self._show_probes(self._probes)
            return

        def find(store: Store) -> WhyProbes:
            from arc_tui.features.probes.offers import build_why_probes

            return build_why_probes(store, self.trace, step)

        self.ask(find, self.ProbesKnown, group="probes")

    def on_probed_probes_known(self, event: ProbesKnown) -> None:
        self._probes = event.probes
        self._show_probes(event.probes)

    def _show_probes(self, probes: WhyProbes) -> None:
        detail = self.detail
        if detail.row.step == probes.step and detail.probes is not probes:
            self.detail = structs.replace(detail, probes=probes)

    def action_probes(self) -> None:
        self._away = True
        self.post_message(OpenProbes(self.trace, self.spans.step))

    def on_screen_resume(self) -> None:
        """What came of a probe is read anew."""
        if self._away:
            self._away, self._probes = False, None
            self._look_deeper()

    def _look_deeper(self) -> None:
        """Look for what only the whole run tells of the step, where that is to be seen."""
        raise NotImplementedError


WHY = NAMES.index("Why")


class Looking(Probed):
    """Looks deeper into a step. Actions of the trace screen."""

    tab: reactive[int] = reactive(0, repaint=False)

    _ground: RunOrigins | None = None

    class GroundsKnown(Message):
        """What a step rests on was found; `asked`: a person wants to see where values came from."""

        def __init__(self, grounds: StepOrigins, *, asked: bool) -> None:
            super().__init__()
            self.grounds = grounds
            self.asked = asked

    def watch_tab(self) -> None:
        self._look_deeper()

    @override
    def _look_deeper(self) -> None:
        """Ask what the step rests on, where its reasons are looked at and it is not known."""
        if self.tab != WHY or self.detail is steps.EMPTY or self.view.blind:
            return
        if self.detail.grounds is None:
            self._find_grounds(asked=False)
        self.look_for_probes()

    def forget_grounds(self) -> None:
        """The run is another one than was read."""
        self._ground = None

    def _find_grounds(self, *, asked: bool) -> None:
        step = self.spans.step

        def find(store: Store) -> StepOrigins:
            from arc_tui.views.value_origins import RunOrigins

            if self._ground is None:
                self._ground = RunOrigins(store, self.trace)
            return self._ground.of_step(step)

        finding = self.ask(
            find,
            lambda found: self.GroundsKnown(found, asked=asked),
            group="asked grounds" if asked else "grounds",
        )
        if asked:
            self.hold_keys(finding)

    def on_looking_grounds_known(self, event: GroundsKnown) -> None:
        if event.asked:
            self._show_origins(event.grounds)
        elif event.grounds.step == self.detail.row.step:
            self.detail = structs.replace(self.detail, grounds=event.grounds)

    def action_origins(self) -> None:
        self._find_grounds(asked=True)

    def _show_origins(self, grounds: StepOrigins) -> None:
        from arc_tui.features.trace.detail import OriginsBox

        if not grounds.values:
            self.say(f"step {grounds.step} calls nothing with a value")
            return
        self.app.push_screen(OriginsBox(grounds, self.page.value), self.go_to)
