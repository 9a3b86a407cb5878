"""The last line under the money of a run: what the rows leave out, and how they are to be read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.views.money.rows import MoneyRows, used_count
from arc_tui.widgets.few_lines import FewLines
from arc_tui.widgets.replay.foot import packed


class MoneyFoot(FewLines):
    """Facts that hold for all rows."""

    found: reactive[MoneyRows | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        said = packed(_facts(self.found), width) if self.found is not None else [""]
        return [Text(line) for line in said]


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
