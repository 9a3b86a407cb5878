"""The first and the last lines of an experiment's screen: what is known and what stands against it;
how far a run is, and what it may cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.state import ExperimentState
from arc_tui.ui import format
from arc_tui.ui.format import spread
from arc_tui.ui.key_names import stops, write_keys
from arc_tui.ui.styles import (
    BAR,
    MOST,
    TALL,
    StyledWidget,
    SummaryLines,
    fold_sentence,
    notice_lines,
    progress_bar,
)
from replay.budget import Limits

S = TypeVar("S", bound=ExperimentState)


class ExperimentHead(SummaryLines, Generic[S]):
    """What is asked, the first sentence in bold, what it means, and what stands against it."""

    STYLES = {
        "title": "$quiet",
        "first": "bold",
        "trouble": "bold $bad",
        "notice": "$warning",
        "basis": "$quiet",
    }
    TYPING: ClassVar[bool] = False
    """Are letters typed on this screen? Then sentences name keys that are none."""

    TITLE_LINES: ClassVar[int] = MOST
    """Lines that the title may take."""

    state: reactive[S]

    @override
    def lines(self, width: int) -> list[Text]:
        return self.styled_lines(self.parts(width))

    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        """Lines by the name of their ink, from above."""
        yield from self.sentences(width)
        yield self.warnings(width)

    def sentences(self, width: int) -> Iterator[tuple[str, list[str]]]:
        """The title, the first sentence, and those after it."""
        if self.state.title:
            yield "title", fold_sentence(self.state.title, width)[: self.TITLE_LINES]
        first, *more = map(self.with_keys, self.state.lines)
        yield "first" if self.state.trouble is None else "trouble", fold_sentence(first, width)
        for each in more:
            yield "", fold_sentence(each, width)

    def warnings(self, width: int) -> tuple[str, list[str]]:
        """What stands against it."""
        return "notice", notice_lines(map(self.with_keys, self.state.notices), width)

    def with_keys(self, words: str) -> str:
        """Words with the keys that they name."""
        return write_keys(self.screen, words, typing=self.TYPING)

    @property
    def is_tall(self) -> bool:
        """Is there a place for what the sentences rest on?"""
        return self.app.size.height >= TALL


class ExperimentFooter(StyledWidget, Generic[S]):
    """How far a run is and the key that stops it; figures while none goes on."""

    ALLOW_SELECT = False
    STYLES = {"done": "$primary", "left": "$line", "figures": "$quiet"}
    STOP: ClassVar[str]
    """The binding that stops the run."""

    state: reactive[S]

    def render(self) -> Text:
        state, width = self.state, self.content_size.width
        if not state.running:
            return self.figures(width)
        ends = stops(self.screen, self.STOP, stopping=state.phase == "stopping")
        return spread(self.progress(width), Text(ends), width)

    def progress(self, width: int) -> Text:
        """How far the run is."""
        raise NotImplementedError

    def figures(self, width: int) -> Text:
        """Who was asked and what that cost."""
        raise NotImplementedError

    def bar(self, done: int, total: int, words: str, cells: int = BAR) -> Text:
        """A bar, and the words beside it."""
        drawn = progress_bar(done, total, self.style_of("done"), self.style_of("left"), cells)
        return drawn.append(f"  {words}")


def limit_words(limits: Limits) -> str:
    """What may be spent in all, after what was: ` of $0.50`; "" without a limit."""
    if limits.usd is not None:
        return f" of {format.usd(limits.usd)}"
    return f" of {format.count(limits.calls, 'call')}" if limits.calls is not None else ""
