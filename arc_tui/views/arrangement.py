"""Which runs of a list are shown, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from arc_tui.views.runs import chosen
from replay.store import Store
from taxonomy.query.filter import ALL
from taxonomy.query.language import BadQuery
from taxonomy.query.listing import RunRow, run_order

_OUTCOMES = {"failed": 0, "unknown": 1, "passed": 2}


def _most(value: float | None) -> tuple[bool, float]:
    """Largest first, unknown last."""
    return value is None, -(value or 0)


ORDERS: dict[str, Callable[[RunRow], Any]] = {
    "outcome": lambda row: (_OUTCOMES[row.outcome], not row.warnings),
    "task": lambda row: (row.task is None, row.task or row.title or "", row.trial or ""),
    "steps": lambda row: _most(row.steps),
    "cost": lambda row: _most(row.cost_usd),
    "time": lambda row: _most(row.duration_ns),
}
"""Orders by name; none of them is the order of import."""


class Arrangement(Struct, frozen=True, kw_only=True):
    """What a person chose to see. `order` is a name of `ORDERS`, "" the order of import.

    `only` are the traces of one kind, which `kind` names; None is all of them.
    """

    words: str = ""
    only: frozenset[str] | None = None
    kind: str = ""
    failed_only: bool = False
    order: str = ""

    @property
    def everything(self) -> bool:
        return not self.words and not self.failed_only and self.only is None

    def next_order(self) -> str:
        """The order after this one, round and round."""
        names = ["", *ORDERS]
        return names[(names.index(self.order) + 1) % len(names)]

    def apply(self, rows: Iterable[RunRow]) -> tuple[RunRow, ...]:
        """The rows that are wanted, in their order, whatever the words are."""
        wanted = (
            row
            for row in rows
            if (self.only is None or row.trace in self.only)
            and (row.outcome == "failed" or not self.failed_only)
        )
        return tuple(sorted(wanted, key=ORDERS[self.order])) if self.order else tuple(wanted)


class Shown(Struct, frozen=True, eq=False, kw_only=True):
    """The rows that are wanted, in their order; None where `refusal` says why the words cannot be
    read."""

    rows: tuple[RunRow, ...] | None
    refusal: str = ""


def arranged(store: Store, rows: tuple[RunRow, ...], wanted: Arrangement) -> Shown:
    """The rows of a list that a person chose to see; the words are a query, half of it typed."""
    try:
        meant = chosen(store, wanted.words)
    except BadQuery as refused:
        return Shown(rows=None, refusal=str(refused))
    if meant != ALL:
        traces = {*run_order(store, meant)}
        rows = tuple(row for row in rows if row.trace in traces)
    return Shown(rows=wanted.apply(rows))
