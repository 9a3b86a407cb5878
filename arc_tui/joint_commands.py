"""`arc replay`, of which `--expect` and `--free` ask other features: each says its options and
answers them, and which of them is asked is decided here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from arc_tui.cli import db_option, estimate_option, json_option, live_options, open_store
from arc_tui.experiments.request import ReplayRequest
from arc_tui.features.free.command import free_options, free_request, refuse_free_options, run_free
from arc_tui.features.replay.command import replay_locked, replay_options, replay_request
from arc_tui.features.replay.expect_command import (
    ForBisect,
    expect_options,
    refuse_expect_options,
    run_expect,
    there,
)
from arc_tui.features.replay.expectation import Question
from replay.bisection.change_point import HALF


@click.command(cls=ForBisect)
@replay_options
@expect_options
@live_options
@free_options
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all of it to this file, for `arc bundle verify` elsewhere.",
)
@estimate_option
@click.option("--rules", "show_rules", is_flag=True, help="Print the rules of comparing in full.")
@json_option
@db_option
def replay(
    trace: str,
    only_estimate: bool,
    show_rules: bool,
    bundle: Path | None,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Ask the model again at every recorded step, as recorded and with your edit. Runs no tool.

    Exit code 0: the edit changes no action; 1: it does; 2: it was not finished, or no action
    changed but not every step was answered. With --free 0: every run finished its turn; 1: one
    stopped before that; 2: one was not finished. With --expect 0: met; 1: not; 125: nobody can
    tell; 128: said wrongly: `git bisect run arc replay TRACE --system FILE --expect E`.
    """
    if options["step"] is not None and options["expect"] is None and not options["free"]:
        raise click.UsageError("--step needs --expect or --free: a locked replay is of all steps")
    if options["expect"] is None:
        refuse_expect_options(options)
    else:
        there(options["changes"])
    with open_store(db) as store:
        request = replay_request(store, trace, options)
        if options["expect"] is not None:
            if bundle is not None:
                raise click.UsageError("--expect asks one question: --bundle holds a whole replay")
            question = _question(request, options)
            return run_expect(store, question, as_json=as_json, only_estimate=only_estimate)
        if options["free"]:
            if only_estimate:
                raise click.UsageError("how often a free run asks nobody knows beforehand")
            free = free_request(request, options)
            return run_free(store, free, as_json=as_json, bundle=bundle)
        refuse_free_options(options)
        return replay_locked(
            store,
            request,
            as_json=as_json,
            only_estimate=only_estimate,
            show_rules=show_rules,
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
