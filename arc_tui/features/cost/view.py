"""What does the cost of a run consist of, and how much of it was likely wasted?

A sum of likely waste is marked as a bound where it is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from arc_tui.config import read_config
from arc_tui.ui import format
from arc_tui.views.groups import query_value
from arc_tui.views.runs import run_rows
from replay.errors import ArcError
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.metrics.cost import spent
from taxonomy.stats.routing import (
    UNKNOWN,
    Compared,
    Predicate,
    Resolution,
    WhatIf,
    assume,
    compare_resolved,
    everything,
    measure,
    read_only,
    short,
    what_if,
)
from taxonomy.waste import CacheBreak, LoopCost, Redundant, Resent, Spending, StepCost, Waste, waste

Where = Literal["all", "short", "read-only"]
"""Which steps a what-if routes to another model."""

SHOWN = 5
"""Rows of a list that is printed; `--json` has all of it."""

_WHERE: dict[Where, str] = {
    "all": "every step",
    "short": "steps with a short response",
    "read-only": "read-only steps",
}


class CostView(Struct, frozen=True, eq=False, kw_only=True):
    """What `arc cost` says of a trace. `route` None: no what-if was asked for. `resolved` is what a
    resolved task costs, as recorded and routed, None where that was not asked for or has no price.

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
    resolved: Compared | None = None

    @property
    def expensive_steps(self) -> tuple[StepCost, ...]:
        """The steps that cost most, those of unknown cost left out."""
        priced = [step for step in self.spending.steps if step.cost_usd is not None]
        return tuple(sorted(priced, key=lambda step: -(step.cost_usd or 0))[:SHOWN])


class CostRequest(Struct, frozen=True, kw_only=True):
    """What is asked besides: the steps `where` at the prices of the model `route`, and what a
    resolved task costs at two resolutions, each a share that is assumed or a query of the runs
    that it is measured on. None is measured on the runs of the same variant, or models; that of the
    routed agent is unknown then."""

    route: str | None = None
    where: Where = "all"
    resolution: float | str | None = None
    routed_resolution: float | str | None = None
    runs_per_month: int | None = None

    @property
    def asks_resolved(self) -> bool:
        asked = (self.route, self.resolution, self.routed_resolution, self.runs_per_month)
        return any(each is not None for each in asked)


PLAIN = CostRequest()


def share_of(text: str) -> float | None:
    """A resolution as it is written, None where the text is no share over 0 and up to 1."""
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 < share <= 1 else None


def build_cost(store: Store, name: str, request: CostRequest = PLAIN) -> CostView:
    """The cost of a trace, with what was asked besides. Raises NotFound, and ArcError where a query
    cannot be read or means no run of known outcome."""
    trace, title = load_named(store, name)
    found = cost_of(trace, title)
    if request.route is not None:
        found = structs.replace(found, route=_routed(trace, request.route, request.where))
    if request.asks_resolved:
        found = structs.replace(found, resolved=_compare(store, trace, found, request))
    return found


def _compare(store: Store, trace: Trace, view: CostView, request: CostRequest) -> Compared | None:
    """None where no step has a price."""
    route, spending = view.route, view.spending
    now = spending.cost_usd if route is None else route.now_usd
    if now is None:
        return None
    span = None
    if route is not None and route.cached_usd is not None and route.fresh_usd is not None:
        span = (min(route.cached_usd, route.fresh_usd), max(route.cached_usd, route.fresh_usd))
    return compare_resolved(
        now,
        span,
        (
            _resolution(store, request.resolution, trace),
            _resolution(store, request.routed_resolution, None),
        ),
        runs_per_month=request.runs_per_month,
        complete=not route.unknown if route is not None else spending.cost_complete,
    )


def _resolution(store: Store, given: float | str | None, trace: Trace | None) -> Resolution:
    """The share given, else measured on the runs of a query; of no query on those like `trace`."""
    if isinstance(given, float):
        return assume(given)
    query = given
    if query is None:
        query = None if trace is None else _alike(store, trace)
        if query is None:
            return UNKNOWN
    rows = run_rows(store, query)
    found = measure(rows, query)
    if found.value is None and given is not None:
        shown = f"'{format.one_line(query)}'"
        many = f"{format.count(len(rows), 'run')} of {shown}, none with an outcome"
        raise ArcError(
            f"no resolution to measure: {many if rows else f'no run matches {shown}'}",
            f"Try: arc ls {shown}, or a share such as .65",
        )
    return found


def _alike(store: Store, trace: Trace) -> str | None:
    """A query of the runs of the same variant, else of the same model; None where neither is
    known."""
    row = trace_row(store, trace.id)
    if row.variant:
        return f"variant={query_value(row.variant)}"
    return f"model={query_value(row.models)}" if row.models and "," not in row.models else None


def load_named(store: Store, name: str) -> tuple[Trace, str]:
    """A trace, and what it is called. Raises NotFound."""
    row = trace_row(store, name)
    title = " / ".join(filter(None, (row.task, row.trial))) or row.title or row.source_id
    return read.load(store, row.trace), title


def cost_of(trace: Trace, name: str) -> CostView:
    """The cost of a trace that is called `name`."""
    found = waste(trace)
    return CostView(
        trace=trace.id,
        name=name,
        spending=found.spending,
        wasted=wasted(found),
        cache_breaks=found.cache_breaks,
        resent=found.resent,
        loops=found.loops,
        redundant=found.redundant,
    )


def _routed(trace: Trace, model: str, where: Where) -> WhatIf:
    wanted: dict[Where, Predicate] = {
        "all": everything,
        "short": short,
        "read-only": read_only(trace),
    }
    own = read_config().models.get(model)
    rates = None if own is None else own.prices
    return what_if(trace, model, wanted[where], _WHERE[where], rates)


What = Literal["cache breaks", "repeated calls", "resent, unused"]


class Part(Struct, frozen=True, kw_only=True):
    """One way of wasting: how often, its cost, and its tokens where those were for nothing.

    `cost_usd` None: unknown; `at_most`: no more than that; `counted` False: tokens were reckoned.
    """

    what: What
    times: int
    cost_usd: float | None
    cost_complete: bool
    at_most: bool = False
    tokens: int | None = None
    counted: bool = True


class Wasted(Struct, frozen=True, kw_only=True):
    """What was likely wasted in all. `cost_usd` sums what is known; None where nothing is.

    `cost_complete` False: some of it is unknown. `at_most`: parts may overlap, or are bounds.
    """

    parts: tuple[Part, ...]
    cost_usd: float | None
    cost_complete: bool
    at_most: bool
    tokens: int
    counted: bool


def wasted(found: Waste) -> Wasted:
    """The parts of some waste that has any, and their sum."""
    parts = tuple(part for part in _parts(found) if part.times)
    known = [part.cost_usd for part in parts if part.cost_usd is not None]
    idle = next((part for part in parts if part.what == "resent, unused"), None)
    return Wasted(
        parts=parts,
        cost_usd=sum(known) if known else None,
        cost_complete=all(part.cost_complete for part in parts),
        at_most=any(part.at_most for part in parts) or (idle is not None and len(parts) > 1),
        tokens=sum(part.tokens or 0 for part in parts),
        counted=all(part.counted for part in parts),
    )


def unused(found: Sequence[Resent]) -> tuple[Resent, ...]:
    """The tool results of which nothing later repeats anything."""
    return tuple(each for each in found if each.repeated is False)


def _parts(found: Waste) -> Iterator[Part]:
    again = {*found.redundant.steps, *(step for loop in found.loops for step in loop.steps)}
    breaks = [each for each in found.cache_breaks if each.step not in again]
    extra = spent(each.extra_usd for each in breaks)
    yield Part(
        what="cache breaks",
        times=len(breaks),
        cost_usd=extra.cost_usd,
        cost_complete=extra.cost_complete,
    )
    yield _repeated_part([step for step in found.spending.steps if step.step in again])
    yield _resent_part(unused(found.resent))


def _repeated_part(steps: Sequence[StepCost]) -> Part:
    whole = spent(step.cost_usd for step in steps)
    tokens = [step.input_tokens for step in steps] + [step.output_tokens for step in steps]
    return Part(
        what="repeated calls",
        times=len(steps),
        cost_usd=whole.cost_usd,
        cost_complete=whole.cost_complete,
        tokens=sum(each or 0 for each in tokens) if any(tokens) else None,
    )


def _resent_part(found: Sequence[Resent]) -> Part:
    whole = spent(each.cost_usd for each in found)
    known = [each.resent_tokens for each in found if each.resent_tokens is not None]
    return Part(
        what="resent, unused",
        times=len(found),
        cost_usd=whole.cost_usd,
        cost_complete=whole.cost_complete and all(each.priced == each.resends for each in found),
        at_most=any(each.at_most for each in found),
        tokens=sum(known) if known else None,
        counted=all(each.how == "counted" for each in found),
    )
