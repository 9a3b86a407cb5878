"""`arc replay`, of which `--expect` and `--free` belong to other features, and `arc gate`, whose
`--locked` does: each has its options, and which of them runs is decided here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from arc_tui.cli import (
    console,
    db_option,
    edit_of,
    estimate_line,
    estimate_option,
    examples,
    held_out_option,
    json_option,
    limit_options,
    limits,
    live_options,
    open_store,
    refuse_unanswered,
    refuse_unfinished,
    show_estimate,
)
from arc_tui.experiments.progress import progress_line, with_bar
from arc_tui.experiments.request import ReplayRequest, views_of
from arc_tui.features.edit_test.command import test_options
from arc_tui.features.edit_test.plan import estimate_cost
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.text import counted, spent, whom
from arc_tui.features.edit_test.view import EditTestRequest, EditTestView
from arc_tui.features.free.command import free_options, free_request, refuse_free_options, run_free
from arc_tui.features.gate.command import finish, gate_options, limits_of, run_gate
from arc_tui.features.replay.command import replay_locked, replay_options, replay_request
from arc_tui.features.replay.expect_command import (
    NO_ESTIMATE,
    ForBisect,
    expect_options,
    refuse_expect_options,
    run_expect,
    there,
)
from arc_tui.features.replay.expectation import Question
from arc_tui.ui import format
from arc_tui.views.gate import GateView, Side, gate_of
from arc_tui.views.runs import run_rows
from replay.bisection.change_point import HALF
from replay.errors import ArcError
from replay.store.handle import Store
from taxonomy.gate import Paired, task_pair
from taxonomy.metrics.reliability import Trials


@click.command(
    cls=ForBisect,
    epilog=examples(
        "arc replay shop-many-wishes-v5-0 --system prompts/v4.md",
        "arc replay last --system prompt.md --live --budget 2",
        "arc replay last --arm prompts/v4.md --arm prompts/v5.md --csv",
    ),
)
@replay_options
@expect_options
@limit_options
@free_options
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a bundle to this file, for `arc bundle verify` elsewhere.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 where the edit changes an action.")
@estimate_option
@click.option("--rules", "show_rules", is_flag=True, help="Print the comparison rules in full.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a row for each step and arm.")
@json_option
@db_option
def replay(
    trace: str,
    only_estimate: bool,
    show_rules: bool,
    exit_code: bool,
    bundle: Path | None,
    as_json: bool,
    as_csv: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Call the model again at every recorded step, as recorded and with your edit. Runs no tool.

    Exit code 0: finished, whatever diverged; 2: unfinished, or a step was not answered; with
    --free, a run stopped early. With --exit-code 1: the edit changes an action; with --free, a run
    diverged. With --expect 0: met; 1: not met; 125: inconclusive; 128: bad input. For git bisect:
    `git bisect run arc replay TRACE --system FILE --expect E`.
    """
    if options["step"] is not None and options["expect"] is None and not options["free"]:
        raise click.UsageError("--step needs --expect or --free: a locked replay covers all steps")
    if as_csv and as_json:
        raise click.UsageError("--csv or --json, not both")
    if options["expect"] is None:
        refuse_expect_options(options)
    else:
        there(options["changes"])
    with open_store(db) as store:
        request = replay_request(store, trace, options)
        if (options["expect"] is not None or options["free"]) and (request.others or as_csv):
            raise click.UsageError("several arms and --csv: leave --expect and --free out")
        if options["expect"] is not None:
            if bundle is not None:
                raise click.UsageError("--bundle holds a whole replay: leave --expect out")
            question = _question(request, options)
            return run_expect(store, question, as_json=as_json, only_estimate=only_estimate)
        if options["free"]:
            if only_estimate:
                raise click.UsageError(NO_ESTIMATE)
            free = free_request(request, options)
            return run_free(store, free, as_json=as_json, exit_code=exit_code, bundle=bundle)
        refuse_free_options(options)
        return replay_locked(
            store,
            request,
            as_json=as_json,
            as_csv=as_csv,
            only_estimate=only_estimate,
            show_rules=show_rules,
            exit_code=exit_code,
            bundle=bundle,
        )


def _question(request: ReplayRequest, options: dict[str, Any]) -> Question:
    """What is expected, of one step or with `--free` of whole runs."""
    if not options["free"]:
        refuse_free_options(options)
    return Question(
        request=request,
        expect=options["expect"],
        share=options["share"] or HALF,
        at=None if options["free"] else options["step"],
        judge=options["judge"],
        free=free_request(request, options) if options["free"] else None,
    )


@click.command(
    epilog=examples(
        "arc gate --baseline variant=v4 --candidate variant=v5",
        "arc gate --baseline variant=v8 --locked prompts/v5.md -k 3 --healthy-steps 8",
    )
)
@click.option("--baseline", required=True, metavar="QUERY", help="The runs to hold against.")
@click.option("--candidate", metavar="QUERY", help="The runs of the change.")
@click.option(
    "--locked",
    metavar="EDIT",
    help="In place of a candidate: an edit, replayed at recorded steps of the baseline.",
)
@gate_options
@test_options("With --locked: healthy steps to replay, at most.")
@live_options
@estimate_option
@held_out_option
@json_option
@db_option
def gate(
    baseline: str,
    candidate: str | None,
    locked: str | None,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Block a change whose pass rate drops, beyond chance, on the same tasks.

    QUERY means runs as in `arc ls`; runs are paired by their task. With --locked no run is made:
    recorded steps are replayed with the edit, which says how it decides there and not whether runs
    would pass. Exit code 0: no regression shown; 1: a regression; 2: nothing to compare, or too
    little power with --require-power.
    """
    if (candidate is None) == (locked is None):
        raise click.UsageError("name either --candidate QUERY or --locked EDIT")
    with open_store(db) as store:
        if candidate is not None:
            _refuse_replay_options(options, only_estimate=only_estimate)
            view = run_gate(store, baseline, candidate, options)
        else:
            assert locked is not None
            for name in ("max_cost_rise", "golden"):
                if options[name] is not None:
                    option = f"--{name.replace('_', '-')}"
                    raise click.UsageError(f"{option} needs runs: leave --locked out")
            request = _locked_request(store, baseline, locked, options)
            if show_estimate(
                lambda: estimate_cost(store, request).estimate,
                estimate_line,
                only=only_estimate,
                live=request.live,
                as_json=as_json,
            ):
                return 0
            view = _gate_locked(store, request, options)
    return finish(view, options, as_json=as_json)


def _refuse_replay_options(options: dict[str, Any], *, only_estimate: bool) -> None:
    """Raises UsageError for what only a replay has."""
    given = [f"--{name}" for name in ("model", "live") if options[name]]
    given += ["--estimate"] if only_estimate else []
    if given:
        raise click.UsageError(f"{given[0]} needs --locked: runs of a candidate are not replayed")


def _locked_request(
    store: Store, baseline: str, edit: str, options: dict[str, Any]
) -> EditTestRequest:
    """The edit at the breaks and at healthy steps of the baseline runs."""
    rows = run_rows(store, baseline)
    return EditTestRequest(
        edit=edit_of(store, (edit,)),
        query=baseline,
        samples=options["samples"],
        controls=options["controls"],
        schedule=options["schedule"],
        resample=options["resample"],
        model=options["model"],
        live=options["live"],
        limits=limits(options),
        with_held_out=options["with_held_out"],
        healthy=frozenset(row.trace for row in rows if row.outcome == "passed"),
        keeps=False,
        needs_break=False,
    )


def _gate_locked(store: Store, request: EditTestRequest, options: dict[str, Any]) -> GateView:
    """Replay, then decide by the responses at healthy steps that match the recording."""

    def line(view: EditTestView) -> str:
        spending = view.spent.spending
        return progress_line("Replaying step", view.done, view.total, spending, request.limits)

    *_, view = with_bar(views_of(run_edit_test, store, request), line, console(err=True))
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=view.done > 0, answers=view.spent.calls + view.spent.cached)
    counts: dict[str, list[tuple[int, int, int, int]]] = {}
    traces: dict[str, list[str]] = {}
    for row in view.steps:
        if row.control is not None and row.edited is not None and row.control.n and row.edited.n:
            task = row.task or row.run
            arms = (row.control.hits, row.control.n, row.edited.hits, row.edited.n)
            counts.setdefault(task, []).append(arms)
            traces.setdefault(task, []).append(row.trace)
    if not counts:
        raise ArcError("nothing to compare: no healthy step got responses of both arms")
    pairs = tuple(
        task_pair(task, _matching(arms, 0, traces[task]), _matching(arms, 2, traces[task]))
        for task, arms in sorted(counts.items())
    )
    steps = sum(map(len, counts.values()))
    return gate_of(
        Paired(pairs=pairs, only_baseline=(), only_candidate=(), no_outcome=()),
        (Side(query=request.query, runs=steps), Side(query=view.edit or "", runs=steps)),
        limits_of(options),
        kind="decisions",
        remarks=tuple(_remarks(view, steps)),
    )


def _matching(arms: list[tuple[int, int, int, int]], at: int, traces: list[str]) -> Trials:
    """The responses of an arm that match the recording, over the steps of a task."""
    n = sum(each[at + 1] for each in arms)
    diverge = sum(each[at] for each in arms)
    return Trials(n=n, passed=n - diverge, traces=tuple(dict.fromkeys(traces)))


def _remarks(view: EditTestView, steps: int) -> list[str]:
    asked = f"{format.count(steps, 'healthy step')} × {format.count(view.samples, 'sample')} an arm"
    found = [f"{asked}, by {whom(view)}; {spent(view)}."]
    if view.fixed.rate.n:
        found.append(f"At recorded breaks: fixed {counted(view.fixed, view.fixed_by_chance)}.")
    return found
