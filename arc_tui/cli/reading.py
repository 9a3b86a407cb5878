"""`arc show`, `brief`, `break`: what the database says of one trace, printed."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs
from rich.text import Text

from arc_tui.cli.common import console, db_option, json_option, open_judged, print_json
from arc_tui.cli.show import print_step, print_trace, print_trace_json
from arc_tui.views.trace.brief import brief_text
from arc_tui.views.trace.step import StepView, build_step
from arc_tui.views.trace.view import TraceView, build_break, build_trace
from replay.errors import no_step
from replay.store import Store


@click.command()
@click.argument("trace")
@click.argument("step", required=False, type=int)
@json_option
@db_option
def show(trace: str, step: int | None, as_json: bool, db: Path | None) -> None:
    """Print a trace, or one step of it. TRACE is an id, a unique prefix, `last` or task/trial."""
    with open_judged(db) as store:
        view = build_trace(store, trace)
        if step is None:
            print_trace_json(view) if as_json else print_trace(console(), view)
            return
        detail = step_in_full(store, view, step)
        print_json(detail) if as_json else print_step(console(), view, detail)


def step_in_full(store: Store, view: TraceView, step: int) -> StepView:
    """A step with what only the whole run tells of it. Raises NotFound where there is none."""
    try:
        detail = build_step(store, view.run.trace, step)
    except IndexError as error:
        raise no_step(step, view.run.steps) from error
    from arc_tui.views.probing.offers import build_why_probes
    from arc_tui.views.trace.origins import Ground  # reads values: not for a look at a whole trace

    return structs.replace(
        detail,
        earlier=tuple(detail.earlier),
        grounds=Ground(store, view.run.trace).under(step),
        probes=build_why_probes(store, view.run.trace, step),
    )


@click.command()
@click.argument("trace")
@json_option
@db_option
def brief(trace: str, as_json: bool, db: Path | None) -> None:
    """A summary of at most 1 500 tokens, for a person in a hurry or a coding agent."""
    with open_judged(db) as store:
        text = brief_text(store, trace)
    print_json({"brief": text}) if as_json else click.echo(text)


@click.command("break")
@click.argument("trace")
@click.option("--rule", type=click.Choice(["arc"]), help="Only the plain published rule.")
@json_option
@db_option
def break_(trace: str, rule: str | None, as_json: bool, db: Path | None) -> int:
    """Where did it break? Up to three candidates with their signals, or none."""
    with open_judged(db) as store:
        view = build_break(store, trace)
    if as_json:
        print_json(view)
    elif rule == "arc":
        console().print(Text(view.published_line))
    else:
        for line in view.lines():
            console().print(Text(line))
    found = view.published is not None if rule == "arc" else bool(view.candidates)
    return 0 if found else 1
