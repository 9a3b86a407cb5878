"""`arc probe`: which of two causes is it? One change, asked again, one line in the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json
from arc_tui.cli.live import (
    foreseen,
    limits,
    live_options,
    refuse_unanswered,
    refuse_unfinished,
    said_before,
)
from arc_tui.cli.probe_table import print_offers, print_probe
from arc_tui.jobs.probe.plan import SAMPLES, Wanted
from arc_tui.jobs.probe.probing import estimated, offered, probing
from arc_tui.views.probing.view import ProbeView
from replay import written
from replay.locked.sampling import Schedule
from replay.store import Store
from taxonomy.probes import log
from taxonomy.probes.table import BY_NAME

ASK = "ask"
"""For a summary: the model writes it."""


@click.command()
@click.argument("trace", required=False)
@click.option("--step", type=click.IntRange(min=0), help="The step that broke; else where it did.")
@click.option("--probe", type=click.Choice(list(BY_NAME)), help="Run this one; else list them.")
@click.option("--constraint", metavar="TEXT", help="What would have been right, in your words.")
@click.option(
    "--summary",
    metavar=f"FILE|{ASK}",
    help="The summary to give, or to be asked of the model; else it is made by rule.",
)
@click.option(
    "-k",
    "samples",
    type=click.IntRange(1, 100),
    default=SAMPLES,
    help="Samples of each arm at the step that decides.",
)
@click.option(
    "--schedule",
    type=click.Choice(get_args(Schedule)),
    default="cheap",
    help="In turn for the provider's cache, all at once, or as a batch.",
)
@click.option("--log", "show_log", is_flag=True, help="Print the probes that were run.")
@live_options
@click.option("--estimate", "only_estimate", is_flag=True, help="Say what it would ask; ask none.")
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
    """Tell two causes of a failure apart by one change, asked again. Runs no tool.

    Without --probe it says the symptom, the probes for it and what they cost. Exit code 0: a probe
    fits, or was decided; 1: none fits, or it is undecided; 2: it was not finished.
    """
    with open_store(db) as store:
        if show_log:
            return _show_log(store, trace, as_json=as_json)
        if trace is None:
            raise click.UsageError("name a TRACE, or --log for the probes that were run")
        _refuse_strays(probe, constraint, summary, only_estimate=only_estimate)
        wanted = Wanted(
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
            listed = offered(store, wanted)
            if as_json:
                print_json(listed)
            else:
                print_offers(console(), listed)
            return 0 if listed.ready else 1
        if said_before(
            lambda: estimated(store, wanted),
            foreseen,
            only=only_estimate,
            live=wanted.live,
            as_json=as_json,
        ):
            return 0
        view = _drained(probing(store, wanted))
    if as_json:
        print_json(view)
    else:
        print_probe(console(), view)
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=True, answers=view.asked + view.kept)
    return 0 if view.classification is not None else 1


def _refuse_strays(
    probe: str | None, constraint: str | None, summary: str | None, *, only_estimate: bool
) -> None:
    """Raises UsageError for a text that the probe has no place for."""
    if constraint is not None and probe not in (None, "constraint"):
        raise click.UsageError(f"--constraint is said by the probe constraint, not by {probe}")
    if summary is not None and probe not in (None, "summary", "midpoint"):
        raise click.UsageError(f"--summary is given by summary and midpoint, not by {probe}")
    if only_estimate and probe is None:
        raise click.UsageError("the list has the estimates; --estimate needs --probe")


def _written(given: str | None) -> str | None:
    if given is None or given == ASK:
        return None
    return written.from_file(Path(given))


def _drained(work: Iterator[ProbeView]) -> ProbeView:
    """The probe to its end, with a status line where stderr is a terminal."""
    out = console(err=True)
    last: ProbeView | None = None
    with out.status("asking") as status:
        for view in work:
            last = view
            usd = format.usd(view.spent_usd, complete=view.spent_complete)
            status.update(f"{view.probe} at step {view.step}, {view.asked} asked, {usd}")
    assert last is not None
    return last


# --- the log


def _show_log(store: Store, trace: str | None, *, as_json: bool) -> int:
    lines = log.kept(store)
    if trace is not None:
        lines = [each for each in lines if trace in (each.task, each.trace[: len(trace)])]
    if as_json:
        print_json([_as_json(each) for each in lines])
    elif lines:
        click.echo(" | ".join(log.COLUMNS))
        for each in lines:
            click.echo(format.one_line(each.line))
    else:
        click.echo("no probe was run yet", err=True)
    return 0 if lines else 1


def _as_json(line: log.LogLine) -> dict[str, Any]:
    """The columns by name, unknown as null, with what they rest on."""
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
        "oracle": line.oracle,
        "control": list(line.control),
        "edited": list(line.edited),
        "digest": line.digest,
        "at_ns": line.at_ns,
    }
