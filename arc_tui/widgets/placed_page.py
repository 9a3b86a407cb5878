"""A page of text from several steps: enter on a line goes to the step that it is from."""

from __future__ import annotations

from textual.binding import Binding
from textual.message import Message
from typing_extensions import override

from arc_tui.widgets.document import Document
from arc_tui.widgets.page import Page
from arc_tui.widgets.placed import Placed
from arc_tui.widgets.rows import RowList


class PlacedPage(Page):
    """A page whose lines lead to the steps they are from."""

    BINDINGS = [
        Binding("enter", "follow", "open", id="page.follow",
                tooltip="Go to the step that the line is from, or unfold a long value"),
    ]  # fmt: skip

    _offered = False

    class Followed(Message):
        """The step that a line is from is to be shown."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    @property
    def leads_to(self) -> int | None:
        """The other step that the cursor's row is from."""
        row = self._rows[self.cursor] if self._rows else None
        if row is None or row.rest or not isinstance(row.item, Placed):
            return None
        return row.item.goes

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offered where there is somewhere to go; enter unfolds all the same."""
        del parameters
        return None if action == "follow" and not self._leads else True

    @property
    def _leads(self) -> bool:
        return self.leads_to is not None or bool(self._rows and self._rows[self.cursor].key)

    def on_row_list_moved(self, _: RowList.Moved) -> None:
        self._offer()

    @override
    def _lay_out(self) -> None:
        super()._lay_out()
        self._offer()

    def _offer(self) -> None:
        """The key bar is drawn again only where what it offers is another thing."""
        if self._leads != self._offered:
            self._offered = self._leads
            self.refresh_bindings()

    def action_follow(self) -> None:
        step = self.leads_to
        if step is None:
            self.action_unfold()
        else:
            self.post_message(self.Followed(step))

    def show(self, document: Document, *, again: bool) -> None:
        """Show a document; `again`: of the same step, so that the place in it is kept."""
        cursor, top = self.cursor, self.scroll_offset.y
        self.document = document
        if again:
            self.cursor = cursor
            self.scroll_to(y=top, animate=False)
