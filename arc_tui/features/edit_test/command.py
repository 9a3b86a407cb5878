"""`arc try`: an edit tested on every run of a class, and on healthy steps. `arc edit list`
and `arc edit show`: the saved edits, what came of each, and one as the file that `--edit` reads.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    estimate_option,
    examples,
    held_out_option,
    json_option,
    limit_option,
    limited,
    limits,
    live_options,
    open_store,
    print_json,
    print_list,
    print_table,
    refuse_unanswered,
    refuse_unfinished,
    resample_option,
    schedule_option,
    show_estimate,
    with_database,
    with_options,
)
from arc_tui.cli import estimate_line as words
from arc_tui.experiments.progress import progress_line, with_bar
from arc_tui.experiments.request import views_of
from arc_tui.features.edit_test.plan import SavedEditTest, estimate_cost, saved_edit_tests
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.text import (
    COUNTED_AT_STEPS,
    arms,
    basis,
    counted,
    counted_at_breaks,
    effect_words,
    headline,
    mark,
    moment,
    notices,
    sentence,
    spent,
    whom,
)
from arc_tui.features.edit_test.view import (
    CONTROLS,
    SAMPLES,
    EditTestRequest,
    EditTestView,
    TestedRun,
    TestedStep,
)
from arc_tui.ui import format
from replay.compare.rules import rules_from
from replay.edit.changes import Change, Edit, describe
from replay.edit.editor import merge_edits
from replay.edit.files import from_files, to_toml
from replay.errors import ArcError
from replay.locked.row import Schedule
from replay.models.choose import label
from replay.statistics import Clustered
from replay.store.edits import edit_named, find, listed, short
from replay.store.handle import Store

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


F = TypeVar("F", bound=Callable[..., Any])


def test_options(healthy: str) -> Callable[[F], F]:
    """How often is asked, and of how many healthy steps (`healthy` says which), as `samples`,
    `controls`, `schedule`, `resample`."""
    return with_options(
        click.option(
            "-k",
            "samples",
            type=click.IntRange(1, 100),
            default=SAMPLES,
            show_default=True,
            help="Samples per request and arm.",
        ),
        click.option(
            "--healthy-steps",
            "controls",
            type=click.IntRange(min=0),
            default=CONTROLS,
            show_default=True,
            help=healthy,
        ),
        schedule_option,
        resample_option,
    )


@click.command(
    name="try",
    epilog=examples(
        "arc try prompt.md --on class:loop",
        "arc try v4 --on 'class:hallucinated variant:v5' --estimate",
    ),
)
@click.argument("edit", required=False)
@click.option("--system", type=_FILE, help="A file with the system prompt to test.")
@click.option(
    "--on",
    "query",
    required=True,
    metavar="QUERY",
    help="The runs: a query as in `arc ls`, such as class:loop.",
)
@test_options("Healthy steps to test besides the runs, at most.")
@click.option(
    "--compare",
    "rules",
    multiple=True,
    metavar="PATH=RULE",
    help="How an argument is compared: `refund.reason=ignore`; repeatable.",
)
@click.option("--rows", is_flag=True, help="Show every healthy step, not only those that changed.")
@held_out_option
@live_options
@estimate_option
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

    EDIT is a file with a system prompt, a TOML file with changes, or a saved edit by its name. Runs
    no tool. Exit code 0: significant fix; 1: none; 2: unfinished, not cached, or no run to test.
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
            batch=request.schedule == "batch",
        ):
            return 0
        views: list[EditTestView] = []
        try:
            work = views_of(run_edit_test, store, request)
            for view in with_bar(work, lambda each: _line(each, request), console(err=True)):
                views[:] = [view]
        except ArcError:  # what is known by then is shown
            _show(views, rows=rows, as_json=as_json)
            raise
    _show(views, rows=rows, as_json=as_json)
    (view,) = views
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=view.done > 0, answers=view.spent.calls + view.spent.cached)
    return 0 if view.fixes else 1


def _edit(store: Store, word: str | None, system: Path | None) -> Edit:
    parts = [edit_named(store, word) if word is not None else None, from_files(system, [])]
    edit = merge_edits([part for part in parts if part is not None])
    if edit is None:
        raise click.UsageError("no edit given. Try: EDIT or --system FILE")
    return edit


def _line(view: EditTestView, request: EditTestRequest) -> str:
    rates = f"fixed {_counted(view.fixed)} · broke {_counted(view.broke)}"
    spending = view.spent.spending
    return progress_line("Testing step", view.done, view.total, spending, request.limits, rates)


def _counted(share: Clustered) -> str:
    return f"{share.hits}/{share.rate.n}"


def _show(views: list[EditTestView], *, rows: bool, as_json: bool) -> None:
    """The last view; nothing where there is none, or, for a person, nothing in it yet."""
    for view in views:
        if as_json:
            print_json(view)
        elif view.done or view.ended:
            print_edit_test(console(), view, rows=rows)


_RUN, _PHRASE = 28, 48
_NARROW, _NARROW_RUN = 100, 20
"""Cells of a terminal below which a row keeps its mark, and not what was recorded."""


def print_edit_test(out: Console, view: EditTestView, *, rows: bool = False) -> None:
    """The rates, the sentence, the notices, the rows; `rows`: all healthy steps."""
    _print_line(out, f"{format.one_line(view.edit)}: {headline(view)}", "bold")
    _print_line(out, sentence(view))
    for notice in notices(view):
        _print_line(out, notice, "yellow")
    out.print()
    _print_rows(out, "run", view.runs)
    _print_line(out, f"control, edited: {counted_at_breaks(view)}", "dim")
    _print_steps(out, view, rows=rows)
    out.print()
    for line in (*basis(view), _next_command(), f"{whom(view)} · {spent(view)}"):
        _print_line(out, line, "dim")


def _print_line(out: Console, line: str, style: str = "") -> None:
    """A line, wrapped between words on a terminal and whole in a pipe."""
    out.print(Text(format.plain(line), style), soft_wrap=not out.is_terminal)


def _print_steps(out: Console, view: EditTestView, *, rows: bool) -> None:
    shown = [row for row in view.steps if rows or row.effect not in ("held", None)]
    if shown:
        out.print()
        _print_rows(out, "healthy step of", shown)
        _print_line(out, f"control, edited: {COUNTED_AT_STEPS}", "dim")
    hidden = len(view.steps) - len(shown)
    if hidden:
        held = format.count(hidden, "more healthy step" if shown else "healthy step")
        _print_line(out, f"{held} unchanged (--rows shows them)", "dim")


def _print_rows(out: Console, what: str, rows: Sequence[TestedRun | TestedStep]) -> None:
    """A row each; where there is little room, the marks are explained once, below."""
    narrow = out.is_terminal and out.width < _NARROW
    head = ["", "id", what, "step", "control", "edited", "recorded", "mostly with the edit"]
    if narrow:
        head.remove("recorded")
    print_table(out, head, [_cells(row, narrow=narrow) for row in rows])
    if narrow:
        _print_line(out, " · ".join(dict.fromkeys(mark(row).strip() for row in rows)), "dim")


def _cells(row: TestedRun | TestedStep, *, narrow: bool) -> list[Text | str]:
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


def _next_command() -> str:
    words = shlex.join(with_database(("arc", "replay", "ID", "--edit", "NAME")))
    return f"Try: {words} (every step of a run; with --free it continues)"


# --- the saved edits

_ON, _NAME = 40, 40


@click.command("list", epilog=examples("arc edit list", "arc edit list --limit 10 --json"))
@limit_option
@json_option
@db_option
def list_edits(limit: int, as_json: bool, db: Path | None) -> int:
    """List the saved edits and their test results."""
    with open_store(db) as store:
        kept = build_edits(store)
    if as_json:
        print_json(kept)
    elif kept:
        names = ["id", "name", "replays", "saved", "changes"]
        out = console()
        print_list(out, names, [_edit_cells(each) for each in limited(kept, limit)])
        tries = [cells for each in kept for cells in _tries(each)]
        if tries:
            out.print()
            names = ["edit", "tested on", "fixed", "broke", "samples", "when"]
            print_table(out, names, tries)
    else:
        click.echo("No edits yet. Try: arc replay TRACE --edit FILE", err=True)
    return 0


@click.command("show", epilog=examples("arc edit show v4", "arc edit show v4 --json"))
@click.argument("name")
@json_option
@db_option
def show_edit(name: str, as_json: bool, db: Path | None) -> int:
    """Print an edit as TOML. NAME may be the beginning of its id.

    `arc edit show NAME > FILE.toml` gives a file that `--edit` reads.
    """
    with open_store(db) as store:
        edit = find(store, name)
        (one,) = (each for each in build_edits(store) if each.digest == edit.digest)
    print_json(one) if as_json else click.echo(to_toml(edit), nl=False)
    return 0


def _edit_cells(kept: EditRow) -> list[Text | str]:
    when = datetime.fromtimestamp(kept.added_ns / 1e9)
    return [
        kept.short,
        format.cut(format.one_line(kept.name), _NAME),
        str(kept.replays),
        when.strftime("%Y-%m-%d %H:%M"),
        format.one_line("; ".join(map(describe, kept.changes))),
    ]


def _tries(kept: EditRow) -> list[list[Text | str]]:
    """A row each time it was tested on runs."""
    return [
        [
            format.cut(format.one_line(kept.name), _NAME),
            format.cut(format.one_line(each.query), _ON),
            counted(each.fixed, each.fixed_by_chance),
            counted(each.broke, each.broke_by_chance),
            f"{', '.join(map(label, each.models))}, k {each.samples}",
            moment(each.ran_ns)[:10],
        ]
        for each in kept.tries
    ]


class EditTestSummary(Struct, frozen=True, kw_only=True):
    """What testing an edit on some runs came to. `query` is how they were named; `fixed` and
    `broke` are shares of breaks and of healthy steps, with what chance alone would give, as
    `arc try` has them."""

    query: str
    models: tuple[str, ...]
    samples: int
    fixed: Clustered
    broke: Clustered
    fixed_by_chance: float | None
    broke_by_chance: float | None
    ran_ns: int
    digest: str | None


class EditRow(Struct, frozen=True, kw_only=True):
    """A saved edit. `replays` counts the finished replays that used it; `tries` are the tests of
    it, the latest first."""

    name: str
    digest: str
    changes: tuple[Change, ...]
    thread: str | None
    added_ns: int
    replays: int
    tries: tuple[EditTestSummary, ...]

    @property
    def short(self) -> str:
        return short(self.digest)


def build_edits(store: Store) -> list[EditRow]:
    """Every saved edit, the latest first."""
    tries: dict[str, list[EditTestSummary]] = {}
    for kept in saved_edit_tests(store):
        tries.setdefault(kept.edit, []).append(_summary_of(kept))
    return [
        EditRow(
            name=each.name,
            digest=each.digest,
            changes=each.changes,
            thread=each.thread,
            added_ns=each.added_ns,
            replays=each.replays,
            tries=tuple(tries.get(each.digest, ())),
        )
        for each in listed(store)
    ]


def _summary_of(kept: SavedEditTest) -> EditTestSummary:
    return EditTestSummary(
        query=kept.view.query,
        models=kept.models,
        samples=kept.view.samples,
        fixed=kept.view.fixed,
        broke=kept.view.broke,
        fixed_by_chance=kept.view.fixed_by_chance,
        broke_by_chance=kept.view.broke_by_chance,
        ran_ns=kept.ran_ns,
        digest=kept.view.digest,
    )
