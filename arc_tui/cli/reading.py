"""`arc ls`, `show`, `brief`, `break`: what the database says, printed."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json, print_table
from arc_tui.cli.show import print_step, print_trace
from arc_tui.views.brief import brief_text
from arc_tui.views.runs import RunRow, build_runs, run_rows
from arc_tui.views.step import build_step
from arc_tui.views.trace import build_break, build_trace
from replay.errors import NotFound


@click.command()
@click.argument("query", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every recording of a run, not the fullest.")
@json_option
@db_option
def ls(query: tuple[str, ...], every: bool, as_json: bool, db: Path | None) -> int:
    """List runs; all words of QUERY must occur in a row (`field:word` asks one column)."""
    with open_store(db) as store:
        words = " ".join(query)
        if as_json:
            found = run_rows(store, words, every=every)
            print_json(found)
            return 0 if found else 1
        view = build_runs(store, words, every=every)
    if not view.rows:
        where = f"no run matches {words!r}" if words else "no runs yet"
        click.echo(f"{where}; `arc import PATH` reads some, `arc demo` shows some", err=True)
        return 1
    names = ["", "id", "task", "trial", "outcome", "steps", "tokens", "cost", "time", "why"]
    print_table(console(), names, [_cells(row) for row in view.rows])
    cost = format.usd(view.cost_usd, complete=view.cost_complete)
    click.echo(
        f"{format.count(len(view.rows), 'run')}, {view.failed} failed, "
        f"cost {cost if view.cost_usd is not None else 'unknown'}",
        err=True,
    )
    return 0


def _cells(row: RunRow) -> list[Text | str]:
    return [
        format.outcome_mark(row.outcome, warned=bool(row.warnings)),
        row.trace[:8],
        format.cut(format.one_line(row.task or row.title or row.source_id), 32),
        format.cut(format.one_line(row.trial), 16),
        format.outcome_value(row.outcome_value),
        str(row.steps),
        format.tokens(row.input_tokens),
        format.usd(row.cost_usd, complete=row.cost_complete),
        format.duration(row.duration_ns),
        why(row),
    ]


def why(row: RunRow) -> str:
    """The phrase of a row: the first candidate, or what is wrong with a run that passed."""
    if row.outcome == "passed" and row.warnings:
        return f"passed; {format.one_line(row.warnings[0])}"
    if row.outcome == "passed" or row.why is None:
        return format.UNKNOWN
    return f"{format.one_line(row.why)} · {row.why_step}"


@click.command()
@click.argument("trace")
@click.argument("step", required=False, type=int)
@json_option
@db_option
def show(trace: str, step: int | None, as_json: bool, db: Path | None) -> None:
    """Print a trace, or one step of it. TRACE is an id, a unique prefix, `last` or task/trial."""
    with open_store(db) as store:
        view = build_trace(store, trace)
        if step is None:
            print_json(view) if as_json else print_trace(console(), view)
            return
        try:
            detail = build_step(store, view.run.trace, step)
        except IndexError as error:
            known = f"0 to {view.run.steps - 1}" if view.run.steps else "none"
            raise NotFound("step", f"{step} (there are {known})") from error
        print_json(detail) if as_json else print_step(console(), detail)


@click.command()
@click.argument("trace")
@json_option
@db_option
def brief(trace: str, as_json: bool, db: Path | None) -> None:
    """A summary of at most 1 500 tokens, for a person in a hurry or a coding agent."""
    with open_store(db) as store:
        text = brief_text(store, trace)
    print_json({"brief": text}) if as_json else click.echo(text)


@click.command("break")
@click.argument("trace")
@click.option("--rule", type=click.Choice(["arc"]), help="Only the plain published rule.")
@json_option
@db_option
def break_(trace: str, rule: str | None, as_json: bool, db: Path | None) -> int:
    """Where did it break? Up to three candidates with their signals, or none."""
    with open_store(db) as store:
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
