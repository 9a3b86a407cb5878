"""`arc calibrate`, `arc label`: how right the judgements are, and what a person says of a step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from arc_tui import format, jobs
from arc_tui.cli.calibration_table import print_audit, print_calibration, print_noise
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json
from arc_tui.jobs import diagnose_one
from arc_tui.places import author
from arc_tui.views.calibration import CalibrationView, build_audit, build_calibration
from replay.errors import no_step
from replay.store import Store
from replay.store.handle import now_ns
from replay.store.rows import step_rows, trace_row
from taxonomy import ledger
from taxonomy.calibration import gate
from taxonomy.calibration.audit import SHARE
from taxonomy.calibration.noise import noise_table


@click.command()
@click.option("--labels", type=click.Path(dir_okay=False, path_type=Path),
              help="A label file; without it, the tags and scores kept here.")  # fmt: skip
@click.option("--noise", is_flag=True, help="How noise and length blur the shape of a run.")
@click.option("--audit", is_flag=True, help="The runs to look at again: a sample nobody chose.")
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), default=SHARE,
              show_default=True, help="The share of runs in the audit sample.")  # fmt: skip
@json_option
@db_option
def calibrate(
    labels: Path | None, noise: bool, audit: bool, share: float, as_json: bool, db: Path | None
) -> int:
    """Hold rules, judge and localiser against labels, beside blind baselines.

    Without --labels the labels are the tags and scores that people gave here. Labels made by a rule
    are shown apart, as conformance. Exit code 1: no label points at a run of the database.
    """
    if sum((labels is not None, noise, audit)) > 1:
        raise click.UsageError("--labels, --noise and --audit are three questions: ask one")
    if noise:
        cells = list(noise_table())
        print_json(cells) if as_json else print_noise(console(), cells)
        return 0
    with open_store(db) as store:
        if audit:
            chosen = build_audit(store, share)
            print_json(chosen) if as_json else print_audit(console(), chosen)
            return 0 if chosen.rows else 1
        view = _calibrated(store, labels)
    print_json(view) if as_json else print_calibration(console(), view)
    return 0 if view.parts else 1


def _calibrated(store: Store, labels: Path | None) -> CalibrationView:
    """The view, with what the rules say today; gates that people's labels decide are kept."""
    _drain(jobs.diagnose_new(store))
    view = build_calibration(store, labels, now_ns())
    for part in view.parts:
        if part.figures.made_by == "people":
            for verdict in part.figures.gates:
                gate.keep(store, verdict)
    return view


def _drain(work: Iterable[object]) -> None:
    for _ in work:
        pass


@click.command()
@click.argument("trace")
@click.argument("step", type=int)
@click.argument("score", type=click.FloatRange(0, 1), required=False)
@click.option("--note", help="A sentence to keep with it.")
@click.option("--remove", is_flag=True, help="Take your score back.")
@db_option
def label(
    trace: str, step: int, score: float | None, note: str | None, remove: bool, db: Path | None
) -> int:
    """Score a step from 0 to 1, for `arc calibrate` to hold the judge against.

    0–.2 not achieved · .3–.5 partial · .6–.8 achieved with caveats · .9–1 fully, verifiably.
    """
    if remove == (score is not None):
        raise click.UsageError("give a SCORE from 0 to 1, or --remove alone")
    with open_store(db) as store:
        row = trace_row(store, trace)
        rows = step_rows(store, row.trace)
        if not 0 <= step < len(rows):
            raise no_step(step, len(rows))
        if score is None:
            removed = ledger.unscore_step(store, row.trace, step, author())
            diagnose_one(store, row.trace)
            return 0 if removed else 1
        given = ledger.HumanScore(
            trace=row.trace,
            span=rows[step].span,
            step=step,
            value=score,
            by=author(),
            note=note,
        )
        ledger.score_step(store, given)
        diagnose_one(store, row.trace)
    click.echo(f"{row.trace[:8]} step {step}: {format.score(score)}")
    return 0
