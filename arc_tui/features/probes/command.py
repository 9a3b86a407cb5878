"""`arc experiment probe`: which of two causes is it? One change, replayed, one line in the log.

Probes as text: those that fit a run with their cost, and the result of one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    estimate_line,
    estimate_option,
    examples,
    json_option,
    limits,
    live_options,
    open_store,
    print_json,
    print_table,
    refuse_unanswered,
    refuse_unfinished,
    schedule_option,
    show_estimate,
    with_database,
)
from arc_tui.experiments.locked_view import ReplayRow
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import spending_line, spent_so_far, with_status
from arc_tui.experiments.request import views_of
from arc_tui.features.probes.plan import SAMPLES, ProbeRequest
from arc_tui.features.probes.run import ProbeView, estimate_cost, offered, run_probe
from arc_tui.ui import format
from arc_tui.views.probe_offers import ProbeOffer, ProbesView
from replay import written
from replay.locked.estimate import Estimate
from replay.locked.row import Schedule
from replay.models.choose import DEMO, label
from replay.store.handle import Store
from taxonomy.probes import result
from taxonomy.probes.symptoms import BY_NAME

ASK = "ask"
"""For a summary: the model writes it."""


@click.command(
    epilog=examples(
        "arc experiment probe shop-many-wishes-v5-0",
        "arc experiment probe shop-many-wishes-v5-0 --probe constraint",
    )
)
@click.argument("trace", type=RUN_NAME, required=False)
@click.option("--step", type=click.IntRange(min=0), help="The step; else the break candidate.")
@click.option("--probe", type=click.Choice(list(BY_NAME)), help="The probe to run; else list them.")
@click.option("--constraint", metavar="TEXT", help="The right action, in your words.")
@click.option(
    "--summary",
    metavar=f"FILE|{ASK}",
    help="The summary to use, or `ask`: the model writes one; else a rule makes it.",
)
@click.option(
    "-k",
    "samples",
    type=click.IntRange(1, 100),
    default=SAMPLES,
    help="Samples of each arm at the probed step.",
)
@schedule_option
@click.option("--log", "show_log", is_flag=True, help="Print the log of probes.")
@live_options
@estimate_option
@json_option
@db_option
def probe(
    trace: str | None,
    step: int | None,
    probe: str | None,
    constraint: str | None,
    summary: str | None,
    samples: int,
    schedule: Schedule,
    show_log: bool,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Tell two causes of a failure apart by replaying one change. Runs no tool.

    Without --probe it lists the symptom, the probes for it and what they cost. Exit code 0: listed,
    or a likely cause was found; 1: inconclusive, or a partial effect; 2: unfinished.
    """
    with open_store(db) as store:
        if show_log:
            return _show_log(store, trace, as_json=as_json)
        if trace is None:
            raise click.UsageError("no TRACE given. Try: --log, for the log of probes")
        _refuse_strays(probe, constraint, summary, only_estimate=only_estimate)
        request = ProbeRequest(
            trace=trace,
            step=step,
            probe=probe,
            constraint=constraint,
            written=_written(summary),
            file=summary or "",
            ask_summary=summary == ASK,
            samples=samples,
            schedule=schedule,
            model=options["model"],
            live=options["live"],
            limits=limits(options),
        )
        if probe is None:
            listed = offered(store, request)
            if as_json:
                print_json(listed)
            else:
                print_offers(console(), listed)
            return 0
        if show_estimate(
            lambda: estimate_cost(store, request),
            estimate_line,
            only=only_estimate,
            live=request.live,
            as_json=as_json,
        ):
            return 0
        views = views_of(run_probe, store, request)
        *_, view = with_status(views, lambda view: _line(view, request), console(err=True))
    if as_json:
        print_json(view)
    else:
        print_probe(console(), view)
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=True, answers=view.calls + view.cached)
    return 0 if view.classification is not None else 1


def _refuse_strays(
    probe: str | None, constraint: str | None, summary: str | None, *, only_estimate: bool
) -> None:
    """Raises UsageError for a text that the probe does not take."""
    if constraint is not None and probe not in (None, "constraint"):
        raise click.UsageError(f"--constraint needs --probe constraint, not {probe}")
    if summary is not None and probe not in (None, "summary", "midpoint"):
        raise click.UsageError(f"--summary needs --probe summary or midpoint, not {probe}")
    if only_estimate and probe is None:
        raise click.UsageError("--estimate needs --probe; the list has the estimates")


def _written(given: str | None) -> str | None:
    if given is None or given == ASK:
        return None
    return written.from_file(Path(given))


def _line(view: ProbeView, request: ProbeRequest) -> str:
    spent = spent_so_far(spending_of(view), request.limits)
    return f"Probing step {view.step} · {view.probe} · {spent}"


# --- the log


def _show_log(store: Store, trace: str | None, *, as_json: bool) -> int:
    lines = result.kept(store)
    if trace is not None:
        lines = [each for each in lines if trace in (each.task, each.trace[: len(trace)])]
    if as_json:
        print_json([_as_json(each) for each in lines])
    elif lines:
        click.echo(" | ".join(result.COLUMNS))
        for each in lines:
            click.echo(format.one_line(each.line))
    else:
        click.echo("No probes yet. Try: arc experiment probe TRACE", err=True)
    return 0


def _as_json(line: result.LogLine) -> dict[str, Any]:
    """The columns by name, unknown as null, with their evidence."""
    return {
        "date": line.date,
        "task_id": line.task,
        "symptom": line.symptom,
        "assumed": line.assumed,
        "probe": line.probe,
        "result": line.result,
        "classification": line.classification,
        "intervention": line.intervention,
        "trace": line.trace,
        "step": line.step,
        "model": line.model,
        "detector": line.detector,
        "control": list(line.control),
        "edited": list(line.edited),
        "digest": line.digest,
        "at_ns": line.at_ns,
    }


_WIDTH = 60
_LINES = 12


# --- which probes


def print_offers(out: Console, view: ProbesView) -> None:
    """The symptom, every probe with its cost, and what those that fit would insert."""
    name = format.one_line(view.task or view.trace[:8])
    for line in _heading(view, name):
        out.print(Text(format.plain(line), "bold"), soft_wrap=True)
    if view.notice is not None:
        out.print(Text(format.plain(view.notice), "yellow"), soft_wrap=True)
    if not view.offers:
        return
    out.print()
    head = ["", "probe", "causes", "change", "calls", "cost"]
    print_table(out, head, [_offer_cells(each, view) for each in view.offers])
    out.print()
    for each in view.offers:
        if each.fits:
            _print_offer(out, each)
    samples = f"{format.count(view.k, 'sample')} an arm"
    if view.model is None:
        out.print(Text(f"{samples} · model unknown. Try: --model NAME", "yellow"), soft_wrap=True)
    else:
        out.print(Text(f"{samples} · {view.model}", "dim"))


def _heading(view: ProbesView, name: str) -> Iterator[str]:
    if view.unfit is not None:
        yield f"{name}: {view.unfit}"
    for noted in view.symptoms:
        yield f"{name}: {noted.symptom} (step {view.step}): {noted.why}"


def _offer_cells(offer: ProbeOffer, view: ProbesView) -> list[Text | str]:
    mark = "▸" if offer.fits and offer.why_not is None else " "
    style = "" if offer.fits else "dim"
    apart = " or ".join(offer.candidates)
    calls, cost = _price(offer.estimate, local=view.model == label(DEMO))
    cells = [mark, offer.name, apart, offer.why_not or offer.change, calls, cost]
    return [Text(format.cut(format.one_line(cell), _WIDTH), style) for cell in cells]


def _price(found: Estimate | None, *, local: bool) -> tuple[str, str]:
    if found is None:
        return format.UNKNOWN, format.UNKNOWN
    stored = f" ({found.stored} cached)" if found.stored else ""
    return f"{found.calls}{stored}", "free" if local else format.usd(found.usd)


def _print_offer(out: Console, offer: ProbeOffer) -> None:
    """What a probe that fits would insert, and the command that runs it."""
    if offer.why_not is not None:
        out.print(Text(format.plain(f"{offer.name}: {offer.why_not}"), "yellow"), soft_wrap=True)
        return
    out.print(Text(f"{offer.name} inserts ({format.one_line(offer.by)}):", "dim"), soft_wrap=True)
    _print_text(out, offer.text)
    out.print(Text(shlex.join(with_database(offer.command))), soft_wrap=True)
    out.print()


def _print_text(out: Console, text: str) -> None:
    lines = format.plain(text).splitlines()
    for line in lines[:_LINES]:
        out.print(Text(f"  {line}"), soft_wrap=True)
    if len(lines) > _LINES:
        more = format.count(len(lines) - _LINES, "more line")
        out.print(Text(f"  … {more} (--json)", "dim"), soft_wrap=True)


# --- one probe


def print_probe(out: Console, view: ProbeView) -> None:
    """The sentence, why, what was inserted, the steps, the line of the log."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    if view.classification is not None:
        out.print(Text(format.plain(view.why)), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    out.print(Text(f"inserted ({format.one_line(view.by)}):", "dim"), soft_wrap=True)
    _print_text(out, view.text)
    out.print()
    print_table(out, ["step", "", "control", "probe"], [_step(r) for r in view.rows])
    out.print()
    if view.line is not None:
        out.print(Text(format.plain(view.line.line)), soft_wrap=True)
    judged = f", judged by {view.test.detector}" if view.test is not None else ""
    foot = (
        f"model {view.model}{judged} · {format.count(view.k, 'sample')} an arm at step"
        f" {view.step} · {spending_line(spending_of(view))}"
    )
    out.print(Text(format.plain(foot), "dim"), soft_wrap=True)


def _step(row: ReplayRow) -> list[Text | str]:
    style = "dim" if row.dimmed else ""
    control = row.control.usual.phrase if row.control else row.refused or format.UNKNOWN
    edited = row.edited.usual.phrase if row.edited else row.edited_refused or format.UNKNOWN
    cells = [str(row.step), "◆" if row.at_break else "", control, edited]
    return [Text(format.cut(format.one_line(cell), _WIDTH), style) for cell in cells]
