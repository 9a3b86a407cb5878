"""A step, or a part of it, to the clipboard, to a pager or to an editor. Actions of the trace
screen.

The clipboard is the terminal's own (OSC 52), so it works over ssh. What a terminal would obey
when it is pasted is left out of what is copied, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App

from arc_tui import format
from arc_tui.screens.trace.finding import Finding
from arc_tui.views.trace import step as steps
from arc_tui.views.trace.copies import Copy, copies
from arc_tui.views.trace.markdown import step_markdown
from replay.errors import ArcError


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
        from arc_tui.screens.editing import paged

        def show(copy: Copy) -> None:
            self._lend(paged, copy)

        self._choose("open what in a pager?", show, whole_first=True)

    def action_view(self) -> None:
        from arc_tui.screens.editing import viewed

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
        from arc_tui.widgets.ask_box import AskBox, Option

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
            self.tell(error)
