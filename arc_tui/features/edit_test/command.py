"""`arc try`: an edit tested on every run of a class, and on steps that went well.

A tried edit as `arc try` prints it: the rates, what they mean, a row a run, a row a step.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    held_out_option,
    json_option,
    limits,
    live_options,
    open_store,
    print_json,
    print_table,
    refuse_unanswered,
    refuse_unfinished,
    show_estimate,
    with_database,
)
from arc_tui.cli import estimate_line as words
from arc_tui.experiments.progress import with_bar
from arc_tui.experiments.request import views_of
from arc_tui.features.edit_test.plan import estimate_cost
from arc_tui.features.edit_test.request import CONTROLS, SAMPLES, EditTestRequest
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.text import (
    COUNTED_AT_STEPS,
    arms,
    basis,
    counted_at_breaks,
    effect_words,
    headline,
    mark,
    notices,
    sentence,
    spent,
    whom,
)
from arc_tui.features.edit_test.view import TriedRun, TriedStep, TryView
from arc_tui.ui import format
from replay.compare.rules import rules_from
from replay.edit.changes import Edit
from replay.edit.editor import together
from replay.edit.files import from_files
from replay.errors import ArcError
from replay.locked.row import Schedule
from replay.statistics import Clustered
from replay.store.edits import edit_named
from replay.store.handle import Store

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(name="try")
@click.argument("edit", required=False)
@click.option("--system", type=_FILE, help="A file with the system prompt to try.")
@click.option(
    "--on",
    "query",
    required=True,
    metavar="QUERY",
    help="The runs: a query as in `arc ls`, such as class:loop.",
)
@click.option(
    "-k",
    "samples",
    type=click.IntRange(1, 100),
    default=SAMPLES,
    show_default=True,
    help="Samples of each request, of each arm.",
)
@click.option(
    "--controls",
    type=click.IntRange(min=0),
    default=CONTROLS,
    show_default=True,
    help="Healthy steps to ask at beside the runs, at most.",
)
@click.option(
    "--schedule",
    type=click.Choice(get_args(Schedule)),
    default="cheap",
    help="In turn for the provider's cache, all at once, or as a batch.",
)
@click.option("--resample", is_flag=True, help="Ask afresh; what is kept stays.")
@click.option(
    "--compare",
    "rules",
    multiple=True,
    metavar="PATH=RULE",
    help="How an argument is compared: `refund.reason=ignore`; repeatable.",
)
@click.option("--rows", is_flag=True, help="Every healthy step, not only those that changed.")
@held_out_option
@live_options
@click.option("--estimate", "only_estimate", is_flag=True, help="Say what it would ask; ask none.")
@json_option
@db_option
def try_(
    edit: str | None,
    system: Path | None,
    query: str,
    samples: int,
    controls: int,
    schedule: Schedule,
    resample: bool,
    rules: tuple[str, ...],
    rows: bool,
    with_held_out: bool,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Test an edit on every run of a class: at the step where each broke, and at healthy steps.

    EDIT is a file with a system prompt, a TOML file with changes, or a kept edit by its name. Runs
    no tool. Exit code 0: something was fixed, beyond chance; 1: not; 2: answers are not stored,
    or it can be tried on no run.
    """
    with open_store(db) as store:
        request = EditTestRequest(
            edit=_edit(store, edit, system),
            query=query,
            samples=samples,
            controls=controls,
            schedule=schedule,
            resample=resample,
            model=options["model"],
            live=options["live"],
            limits=limits(options),
            rules=rules_from(rules),
            with_held_out=with_held_out,
        )
        if show_estimate(
            lambda: estimate_cost(store, request).estimate,
            words,
            only=only_estimate,
            live=request.live,
            as_json=as_json,
        ):
            return 0
        views: list[TryView] = []
        try:
            work = views_of(run_edit_test, store, request)
            for view in with_bar(work, _line, console(err=True)):
                views[:] = [view]
        except ArcError:  # what came of it until then is worth its place on the screen
            _show(views, rows=rows, as_json=as_json)
            raise
    _show(views, rows=rows, as_json=as_json)
    (view,) = views
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=view.done > 0, answers=view.spent.asked + view.spent.kept)
    return 0 if view.fixes else 1


def _edit(store: Store, word: str | None, system: Path | None) -> Edit:
    parts = [edit_named(store, word) if word is not None else None, from_files(system, [])]
    edit = together([part for part in parts if part is not None])
    if edit is None:
        raise click.UsageError("what is to be tried? EDIT or --system FILE")
    return edit


def _line(view: TryView) -> str:
    usd = format.usd(view.spent.usd, complete=view.spent.complete)
    rates = f"fixed {_counted(view.fixed)}, broke {_counted(view.broke)}"
    return f"{rates} · {view.spent.asked} asked, {usd}"


def _counted(share: Clustered) -> str:
    return f"{share.hits}/{share.rate.n}"


def _show(views: list[TryView], *, rows: bool, as_json: bool) -> None:
    """The last view; nothing where there is none, or, for a person, nothing in it yet."""
    for view in views:
        if as_json:
            print_json(view)
        elif view.done or view.ended:
            print_try(console(), view, rows=rows)


_RUN, _PHRASE = 28, 48
_NARROW, _NARROW_RUN = 100, 20
"""Cells of a terminal below which a row keeps its sign, and not what was recorded."""


def print_try(out: Console, view: TryView, *, rows: bool = False) -> None:
    """The rates, the sentence, what stands against it, the rows; `rows`: all healthy steps."""
    _say(out, f"{format.one_line(view.edit)}: {headline(view)}", "bold")
    _say(out, sentence(view))
    for notice in notices(view):
        _say(out, notice, "yellow")
    out.print()
    _print_rows(out, "run", view.runs)
    _say(out, f"control, edited: {counted_at_breaks(view)}", "dim")
    _print_steps(out, view, rows=rows)
    out.print()
    for line in (*basis(view), _go_on(), f"{whom(view)} · {spent(view)}"):
        _say(out, line, "dim")


def _say(out: Console, line: str, style: str = "") -> None:
    """A line, wrapped between words on a terminal and whole in a pipe."""
    out.print(Text(format.plain(line), style), soft_wrap=not out.is_terminal)


def _print_steps(out: Console, view: TryView, *, rows: bool) -> None:
    shown = [row for row in view.steps if rows or row.effect not in ("held", None)]
    if shown:
        out.print()
        _print_rows(out, "healthy step of", shown)
        _say(out, f"control, edited: {COUNTED_AT_STEPS}", "dim")
    hidden = len(view.steps) - len(shown)
    if hidden:
        held = format.count(hidden, "more healthy step" if shown else "healthy step")
        _say(out, f"{held} held (--rows shows them)", "dim")


def _print_rows(out: Console, what: str, rows: Sequence[TriedRun | TriedStep]) -> None:
    """A row each; where there is little room, the signs are told once, below."""
    narrow = out.is_terminal and out.width < _NARROW
    head = ["", "id", what, "step", "control", "edited", "recorded", "the edit mostly"]
    if narrow:
        head.remove("recorded")
    print_table(out, head, [_cells(row, narrow=narrow) for row in rows])
    if narrow:
        _say(out, " · ".join(dict.fromkeys(mark(row).strip() for row in rows)), "dim")


def _cells(row: TriedRun | TriedStep, *, narrow: bool) -> list[Text | str]:
    control, edited = arms(row)
    did = format.cut(effect_words(row), _PHRASE) or format.UNKNOWN
    recorded = format.cut(format.one_line(row.recorded), _PHRASE) or format.UNKNOWN
    return [
        mark(row)[0] if narrow else mark(row),
        row.trace[:8],
        format.cut(row.run, _NARROW_RUN if narrow else _RUN),
        str(row.step),
        control,
        edited,
        *([did] if narrow else [recorded, did]),
    ]


def _go_on() -> str:
    words = shlex.join(with_database(("arc", "replay", "ID", "--edit", "NAME")))
    return f"`{words}` asks every step of a run, with --free the run goes on"
