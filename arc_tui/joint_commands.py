"""`arc replay`, of which `--expect` and `--free` belong to other features: each has its options,
and which of them runs is decided here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from arc_tui.cli import db_option, estimate_option, examples, json_option, limit_options, open_store
from arc_tui.experiments.request import ReplayRequest
from arc_tui.features.free.command import free_options, free_request, refuse_free_options, run_free
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
from replay.bisection.change_point import HALF


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
