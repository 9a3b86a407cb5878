"""Where did the money of a run go, and what of it brought nothing?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from arc_tui.views.money.wasted import Wasted, wasted
from replay.store import Store, read
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.routing import Predicate, WhatIf, everything, read_only, short, what_if
from taxonomy.waste import (
    CacheBreak,
    LoopCost,
    Redundant,
    Resent,
    Spending,
    StepCost,
    waste,
)

Where = Literal["all", "short", "read-only"]
"""Which steps a what-if routes to another model."""

SHOWN = 5
"""Rows of a list that is printed; `--json` has all of it."""

_WHERE: dict[Where, str] = {
    "all": "every step",
    "short": "steps with a short answer",
    "read-only": "steps that only read",
}


class MoneyView(Struct, frozen=True, eq=False, kw_only=True):
    """What `arc money` says of a trace. `route` None: no what-if was asked for.

    `wasted` is how much of it likely brought nothing; the lists say where.
    """

    trace: str
    name: str
    spending: Spending
    wasted: Wasted
    cache_breaks: tuple[CacheBreak, ...]
    resent: tuple[Resent, ...]
    loops: tuple[LoopCost, ...]
    redundant: Redundant
    route: WhatIf | None = None

    @property
    def dearest(self) -> tuple[StepCost, ...]:
        """The steps that cost most, those of unknown cost left out."""
        priced = [step for step in self.spending.steps if step.cost_usd is not None]
        return tuple(sorted(priced, key=lambda step: -(step.cost_usd or 0))[:SHOWN])


def build_money(
    store: Store, name: str, route: str | None = None, where: Where = "all"
) -> MoneyView:
    """The money of a trace, with what it would cost routed to another model. Raises NotFound."""
    row = trace_row(store, name)
    title = " / ".join(filter(None, (row.task, row.trial))) or row.title or row.source_id
    return money_of(read.load(store, row.trace), title, route, where)


def money_of(
    trace: Trace,
    name: str,
    route: str | None = None,
    where: Where = "all",
) -> MoneyView:
    """The money of a trace that is called `name`."""
    found = waste(trace)
    return MoneyView(
        trace=trace.id,
        name=name,
        spending=found.spending,
        wasted=wasted(found),
        cache_breaks=found.cache_breaks,
        resent=found.resent,
        loops=found.loops,
        redundant=found.redundant,
        route=None if route is None else _routed(trace, route, where),
    )


def _routed(trace: Trace, model: str, where: Where) -> WhatIf:
    wanted: dict[Where, Predicate] = {
        "all": everything,
        "short": short,
        "read-only": read_only(trace),
    }
    return what_if(trace, model, wanted[where], _WHERE[where])
