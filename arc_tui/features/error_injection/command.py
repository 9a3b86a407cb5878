"""`arc experiment inject-error`: an error inserted into a run; does the agent correct it?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
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
    show_estimate,
)
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import progress_line, spending_line, with_status
from arc_tui.experiments.request import views_of
from arc_tui.features.error_injection.run import (
    EMPTY,
    ErrorInjectionRequest,
    InjectRow,
    InjectView,
    estimate_cost,
    run_error_injection,
)
from arc_tui.ui import format
from replay.error_injection.values import Kind
from replay.errors import ArcError
from replay.store.edits import combined_edit
from taxonomy.stats.recovery import Injection

_KINDS = [kind for kind in get_args(Kind) if kind != "yours"]
_WIDTH = 64


@click.command(
    epilog=examples(
        "arc experiment inject-error shop-refund-v8-0 shop-cancel-v8-0 --export errors.jsonl",
        "arc experiment inject-error last --kind tool-error -k 5 --estimate",
    )
)
@click.argument("traces", type=RUN_NAME, nargs=-1, required=True, metavar="TRACE…")
@click.option(
    "--step",
    "at",
    type=click.IntRange(min=0),
    metavar="STEP",
    help="The step that gets the error; else step 2 or 3.",
)
@click.option(
    "--kind",
    type=click.Choice(_KINDS),
    default="observation",
    help="Change a value of a result, change a call's argument, or return an error.",
)
@click.option(
    "--edit",
    "change",
    metavar="FILE|NAME",
    help="Your own error: an edit with one set_observation.",
)
@click.option("-k", "samples", type=click.IntRange(1, 100), default=1, help="Samples per error.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the errors as JSON lines for `arc stats --injections`.",
)
@live_options
@estimate_option
@json_option
@db_option
def inject_error(
    traces: tuple[str, ...],
    at: int | None,
    kind: Kind,
    change: str | None,
    samples: int,
    export: Path | None,
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Insert an error into each run and let the agent continue for two steps. Runs no tool.

    Corrected: it checks again or states the true value, and does not act on the error. Exit code 0:
    the outcome of an error is known; 2: of none, or unfinished.
    """
    if change is not None and at is not None:
        raise click.UsageError("--edit sets the step: leave --step out")
    with open_store(db) as store:
        request = ErrorInjectionRequest(
            traces=traces,
            kind=kind,
            at=at,
            edit=combined_edit(store, None, (change,)) if change is not None else None,
            samples=samples,
            model=options["model"],
            live=options["live"],
            limits=limits(options),
        )
        if show_estimate(
            lambda: estimate_cost(store, request),
            estimate_line,
            only=only_estimate,
            live=request.live,
            as_json=as_json,
        ):
            return 0
        views = [EMPTY]
        try:
            work = views_of(run_error_injection, store, request)
            for view in with_status(work, lambda each: _line(each, request), console(err=True)):
                views[0] = view
        except ArcError:  # what is known by then is shown
            if views[0].rows:
                _show(views[0], as_json=as_json)
            raise
    view = views[0]
    _show(view, as_json=as_json)
    if export is not None:
        _export(view, export)
    tried = any(row.tried for row in view.rows)
    refuse_unanswered(wanted=tried, answers=view.calls + view.cached)
    return 0 if view.recovery.n else 2


def _line(view: InjectView, request: ErrorInjectionRequest) -> str:
    started = len(view.rows) + len(view.left_out)
    spent = spending_of(view)
    return progress_line("Injecting into run", started - 1, view.total, spent, request.limits)


def _export(view: InjectView, file: Path) -> None:
    """A line for each sample with a known outcome; the others have no place in the format."""
    told = [
        Injection(run=row.trace, step=row.step, corrected_after=each.after)
        for row in view.rows
        for each in row.tried
        if each.outcome != "unknown"
    ]
    try:
        file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in told))
    except OSError as error:
        raise ArcError(f"cannot write {file}: {error.strerror}", "Try: another file") from error
    unknown = sum(len(row.tried) for row in view.rows) - len(told)
    left = f"; left out: {unknown} unknown" if unknown else ""
    click.echo(
        f"wrote {format.count(len(told), 'error')} to {format.one_line(str(file))}{left}", err=True
    )


def _show(view: InjectView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        _print(console(), view)


def _print(out: Console, view: InjectView) -> None:
    """The sentence, the notices, a row an error, the evidence."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    if view.rows:
        out.print()
        head = ["run", "task", "step", "error", "outcome", "evidence"]
        print_table(out, head, [_cells(row) for row in view.rows])
    for left in view.left_out:
        name = format.one_line(left.task or left.trace[:8])
        said = f"no error inserted in {name} ({left.trace[:8]}): {left.why}"
        out.print(Text(format.plain(said), "yellow"), soft_wrap=True)
    out.print()
    for line in _footer(view):
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)


def _cells(row: InjectRow) -> list[Text | str]:
    return [
        row.trace[:8],
        format.one_line(row.task or format.UNKNOWN),
        str(row.step),
        format.cut(format.one_line(row.what), _WIDTH),
        _outcome(row),
        format.cut(format.one_line(row.tried[0].because if row.tried else ""), _WIDTH),
    ]


_MARKS = {
    "corrected": ("✓ corrected", "green"),
    "acted": ("✗ acted on it", "red"),
    "carried": ("✗ continued", "red"),
    "unknown": ("? unknown", "yellow"),
}


def _outcome(row: InjectRow) -> Text:
    if len(row.tried) == 1:
        (one,) = row.tried
        said, style = _MARKS[one.outcome]
        return Text(f"{said} at +{one.after}" if one.after is not None else said, style)
    if not row.decided:
        return (
            Text(_MARKS["unknown"][0], "yellow")
            if row.tried
            else Text(f"{format.UNKNOWN} not evaluated")
        )
    return Text(f"{row.corrected}/{row.decided} corrected", "green" if row.corrected else "red")


def _footer(view: InjectView) -> Iterator[str]:
    if view.models:
        yield (
            f"model {', '.join(view.models)} · {format.count(view.k, 'sample')} per error ·"
            f" {spending_line(spending_of(view))}"
        )
    if any(row.tried for row in view.rows):
        yield "counted in the recovery rate of `arc stats`; --json shows the agent's input"
    elif view.rows:
        yield "--json shows the agent's input"
