"""The last line under the money of a run: what the rows leave out, and how they are to be read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui import format
from arc_tui.views.money.rows import MoneyRows, used_count
from arc_tui.widgets.replay.foot import packed


class MoneyFoot(Widget):
    """Facts that hold for all rows."""

    ALLOW_SELECT = False

    found: reactive[MoneyRows | None] = reactive(None, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        return Text("\n").join(map(Text, self._lines(self.content_size.width)))

    def _lines(self, width: int) -> list[str]:
        return list(packed(_facts(self.found), width)) if self.found is not None else [""]


def _facts(found: MoneyRows) -> Iterator[str]:
    spent = found.money.spending
    if not spent.cached:
        yield "no figures of the cache in the source"
    elif spent.cached < len(spent.steps):
        yield f"cache figures of {spent.cached} of {format.count(len(spent.steps), 'step')}"
    used = used_count(found.money)
    if used:
        yield f"{format.number(used)} re-sent and used: not listed"
    if found.rows:
        yield "rows overlap: they do not add up"
