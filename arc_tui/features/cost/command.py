"""`arc cost`: what the cost of a run consists of, and how much was likely wasted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    examples,
    json_option,
    open_store,
    print_json,
    print_line,
)
from arc_tui.features.cost.text import (
    resolved_lines,
    route_lines,
    sentence,
    spending_tokens,
    used_words,
)
from arc_tui.features.cost.view import (
    SHOWN,
    CostRequest,
    CostView,
    Where,
    build_cost,
    share_of,
    unused,
)
from arc_tui.ui import format
from arc_tui.ui.format import amount, cost_of_sends, percent, sends_usd, size, steps_named
from taxonomy.metrics.cost import spent
from taxonomy.stats.routing import Compared
from taxonomy.waste import CacheBreak, LoopCost, Redundant, Resent, Spending, StepCost

_NUMBER = re.compile(r"[-+.\d]+%?|nan|[-+]?inf", re.I)


class _Resolution(click.ParamType[float | str]):
    """A share of runs that is assumed, or a query of those that it is measured on."""

    name = "share|query"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        share = share_of(value)
        if share is None and _NUMBER.fullmatch(value):
            self.fail(f"{value!r} is not a share over 0 and up to 1, nor a query", param, ctx)
        return str(value) if share is None else share


@click.command(
    epilog=examples("arc cost last", "arc cost last --route claude-haiku-5-5 --where short")
)
@click.argument("trace", type=RUN_NAME)
@click.option("--route", metavar="MODEL", help="Estimate the cost at the prices of this model.")
@click.option(
    "--where",
    type=click.Choice(get_args(Where)),
    default="all",
    show_default=True,
    help="Steps that --route applies to.",
)
@click.option(
    "--resolution",
    type=_Resolution(),
    help="The share of runs resolved, .65, or the runs to measure it on; default: of its variant.",
)
@click.option(
    "--routed-resolution",
    type=_Resolution(),
    help="The same of the routed agent; without it only the break-even is known.",
)
@click.option(
    "--runs-per-month", type=click.IntRange(min=1), help="Also what so many runs cost a month."
)
@json_option
@db_option
def cost(
    trace: str,
    route: str | None,
    where: Where,
    resolution: float | str | None,
    routed_resolution: float | str | None,
    runs_per_month: int | None,
    as_json: bool,
    db: Path | None,
) -> None:
    """Break down a run's cost: expensive steps, cache breaks, resent results, repeated calls.

    --route and --resolution compare agents by what a resolved task costs, not a run.
    """
    if routed_resolution is not None and route is None:
        raise click.UsageError("--routed-resolution needs --route")
    request = CostRequest(
        route=route,
        where=where,
        resolution=resolution,
        routed_resolution=routed_resolution,
        runs_per_month=runs_per_month,
    )
    with open_store(db) as store:
        view = build_cost(store, trace, request)
    if as_json:
        print_json(view)
        return
    out = console()
    for place, (title, lines) in enumerate(sections(view)):
        if place:
            out.print()
        print_line(out, title, "bold")
        for line in lines:
            print_line(out, f"  {line}")


def sections(view: CostView) -> Iterator[tuple[str, list[str]]]:
    """The view as printed: a title and its lines, one section after another."""
    head = [sentence(view), *_figures(view.spending)]
    yield f"{view.trace[:8]}  {format.one_line(view.name)}", head
    if view.expensive_steps:
        yield "expensive steps", [_step_line(step) for step in view.expensive_steps]
    yield "prompt cache", list(_cache_lines(view))
    yield "resent tool results", list(_resent_lines(view.resent))
    yield "loops", [_loop_line(loop) for loop in view.loops] or ["none"]
    yield "redundant calls", list(_redundant_lines(view.redundant))
    if view.route is not None:
        yield f"at the prices of {format.one_line(view.route.model)}", route_lines(view.route)
    if view.resolved is not None:
        yield "a resolved task", [*resolved_lines(view.resolved), *_resolution_hints(view.resolved)]


def _resolution_hints(found: Compared) -> Iterator[str]:
    """What would be known with another option."""
    options = {"--resolution": found.recorded, "--routed-resolution": found.routed}
    lacking = [
        option
        for option, each in options.items()
        if each is not None and each.resolution.value is None
    ]
    if lacking:
        yield f"Try: {', '.join(f'{each} .6' for each in lacking)}, or a QUERY to measure it on"


def _figures(spent: Spending) -> Iterator[str]:
    if spent.reported_usd is not None:
        yield f"reported by the source: {amount(spent.reported_usd)}"
    if spent.counted and spent.priced:
        yield spending_tokens(spent)


def _step_line(step: StepCost) -> str:
    read = f" ({format.tokens(step.cache_read_tokens)} cached)" if step.cache_read_tokens else ""
    calls = f"  {format.one_line(', '.join(step.calls))}" if step.calls else ""
    return (
        f"step {step.step}: {amount(step.cost_usd)}"
        f"  {format.tokens(step.input_tokens)} in{read},"
        f" {format.tokens(step.output_tokens)} out{calls}"
    )


def _cache_lines(view: CostView) -> Iterator[str]:
    spent = view.spending
    if not spent.cached:
        yield "cache reads not recorded"
        return
    whole = spent.cached_input_tokens
    yield (
        f"{percent(spent.cache_read_tokens / max(whole, 1))} of {format.tokens(whole)} tokens in"
        " read from the cache"
        f" (recorded for {spent.cached} of {format.count(len(spent.steps), 'step')})"
    )
    if not view.cache_breaks:
        yield "no cache break"
    for each in view.cache_breaks:
        yield _break_line(each)


def _break_line(each: CacheBreak) -> str:
    why = "; ".join(
        f"{cause.kind.value} ({format.one_line(cause.detail)})" for cause in each.causes
    )
    left = f"{'' if each.left_exact else '≥ '}{format.tokens(each.left_tokens)}"
    extra = "cost unknown" if each.extra_usd is None else f"{amount(each.extra_usd)} more"
    return (
        f"cache read fell {percent(each.fall)} at step {each.step}"
        f" ({left} → {format.tokens(each.read_tokens)}, {extra}): {why}"
    )


def _resent_lines(found: Sequence[Resent]) -> Iterator[str]:
    if not found:
        yield "none"
        return
    yield f"total: {_resent_sum(found)}"
    for each in found[:SHOWN]:
        yield _resent_line(each)
    idle = unused(found)
    if idle:
        yield (
            f"unused (no name, number or new word appears later): {_resent_sum(idle)}:"
            f" {steps_named(each.step for each in idle)}"
        )


def _resent_sum(found: Sequence[Resent]) -> str:
    """How many, how many tokens, what it cost as far as that is known."""
    tokens = sum(each.resent_tokens or 0 for each in found)
    reckoned = any(each.how != "counted" for each in found)
    cost = cost_of_sends(
        spent(each.cost_usd for each in found).cost_usd,
        priced=sum(each.priced for each in found),
        sends=sum(each.resends for each in found),
        at_most=any(each.at_most for each in found),
    )
    noun = format.count(len(found), "tool result")
    return f"{noun}, {'≈ ' if reckoned else ''}{format.tokens(tokens)} tokens, {cost}"


def _resent_line(each: Resent) -> str:
    return (
        f"step {each.step}: {format.one_line(each.tool)} returned {size(each)}, resent"
        f" {each.resends}× up to step {each.last_step}, {sends_usd(each)}; {used_words(each)}"
    )


def _loop_line(loop: LoopCost) -> str:
    cost = amount(loop.cost_usd, complete=loop.cost_complete)
    return f"{steps_named(loop.steps)}: {cost}, {format.one_line(loop.why)}"


def _redundant_lines(found: Redundant) -> Iterator[str]:
    share = found.share
    if share.value is None:
        yield "No call has a recorded result."
        return
    line = f"{len(found.calls)} of {format.count(share.n, 'call')}"
    line += f" ({share.value:.2f}, 95 % {share.low:.2f}–{share.high:.2f})"
    if found.steps:
        cost = amount(found.cost_usd, complete=found.cost_complete)
        line += f"; {steps_named(found.steps)} only repeated calls: {cost}"
    yield line
    for call in found.calls[:SHOWN]:
        tool = format.one_line(call.tool)
        yield f"step {call.step}: {tool}, same result as at step {call.earlier}"
