"""`arc replay`: the model asked again at every recorded step, with and without an edit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json, print_table
from arc_tui.replaying import Wanted, break_and_notice, estimated, replaying
from arc_tui.views.replay import EMPTY, MARKS, ReplayRow, ReplayView
from replay.budget import Estimate, Limits
from replay.compare import RULES
from replay.edit_file import from_files
from replay.errors import ArcError
from replay.store.rows import trace_row

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("trace")
@click.option("--system", type=_FILE, help="A file with the system prompt to try.")
@click.option("--edit", "edits", type=_FILE, multiple=True, help="A TOML file with changes.")
@click.option("--model", help="The model to ask; the trace's own by default.")
@click.option("--live", is_flag=True, help="Allow calls to a server; needs a limit.")
@click.option("--budget", type=float, help="Spend at most this many USD.")
@click.option("--max-calls", type=int, help="Make at most this many calls.")
@click.option("--max-tokens", type=int, help="Use at most this many tokens.")
@click.option("--max-minutes", type=float, help="Take at most this long.")
@click.option(
    "--estimate", "only_estimate", is_flag=True, help="Say what it would ask; ask nothing."
)
@click.option("--rules", is_flag=True, help="Print the rules answers are compared by, too.")
@json_option
@db_option
def replay(
    trace: str,
    system: Path | None,
    edits: tuple[Path, ...],
    model: str | None,
    live: bool,
    budget: float | None,
    max_calls: int | None,
    max_tokens: int | None,
    max_minutes: float | None,
    only_estimate: bool,
    rules: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Ask the model again at every recorded step, as recorded and with your edit. Runs no tool.

    Exit code 0: the edit changes no action; 1: it does.
    """
    limits = Limits(usd=budget, calls=max_calls, tokens=max_tokens, minutes=max_minutes)
    edit = from_files(system, edits)
    wanted = Wanted(trace=trace, edit=edit, model=model, live=live, limits=limits)
    with open_store(db) as store:
        if only_estimate:
            print_json(estimated(store, wanted))
            return 0
        if live:
            click.echo(_foreseen(estimated(store, wanted)), err=True)
        try:
            view = drained(replaying(store, wanted))
        except ArcError:
            _, notice = break_and_notice(store, trace_row(store, trace).trace)
            if notice is not None:  # what speaks against the edit is worth more than the refusal
                click.echo(f"arc: {format.one_line(notice)}", err=True)
            raise
    if as_json:
        print_json(view)
    else:
        print_replay(console(), view)
        if rules:
            click.echo(f"\n{RULES}")
    if not view.verdict.control.of:  # nothing was asked: neither yes nor no
        return 2
    return 1 if view.differs else 0


def _foreseen(estimate: Estimate) -> str:
    """What is about to be asked of a server, in one line."""
    price = f"about {format.usd(estimate.usd)}" if estimate.usd is not None else "price unknown"
    return (
        f"at most {format.count(estimate.calls, 'live call')}, {estimate.stored} answered already; "
        f"{format.tokens(estimate.input_tokens)} tokens in, {price}"
    )


def drained(work: Iterator[ReplayView]) -> ReplayView:
    """Run a replay to its end with a progress line on stderr where that is a terminal."""
    view = EMPTY
    out = console(err=True)
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None)
        for view in work:
            bar.update(task, completed=view.done, total=view.total)
    return view


def print_replay(out: Console, view: ReplayView) -> None:
    """The sentence, a row a step, what stands against it, the digest."""
    out.print(Text(view.verdict.sentence, "bold"), soft_wrap=True)
    for notice in view.verdict.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    print_table(
        out, ["", "step", "recorded", "control", "edited"], [_cells(row) for row in view.rows]
    )
    if any(row.dimmed for row in view.rows):
        out.print("dim: the edited agent would not have been here", style="dim")
    out.print()
    _footer(out, view)


def _cells(row: ReplayRow) -> list[Text | str]:
    style = "dim" if row.dimmed else ""
    name = "" if row.mark is None else MARKS.get(row.mark, "? unclear")
    if row.refused is not None:
        return [
            "– not asked",
            str(row.step),
            _short(row.recorded),
            format.one_line(row.refused),
            "",
        ]
    cells = (
        name,
        f"{row.step}{' ◆' if row.at_break else ''}",
        _short(row.recorded),
        "same" if row.control_same else _short(row.control),
        "same" if row.edited_same else _short(row.edited),
    )
    return [Text(cell, style) for cell in cells]


def _short(phrase: str | None) -> str:
    return format.cut(format.one_line(phrase), 48) or format.UNKNOWN


def _footer(out: Console, view: ReplayView) -> None:
    verdict = view.verdict
    if verdict.collateral is not None:
        each = verdict.collateral
        unclear = f" · unclear {each.unclear}" if each.unclear else ""
        out.print(
            f"fixed {each.fixed} · broke {each.broke} · changed {each.changed}"
            f" · same {each.same}{unclear}"
        )
    for loss in verdict.losses:
        out.print(Text(f"lost on the way: {format.plain(loss)}", "dim"), soft_wrap=True)
    weakest = verdict.weakest.value if verdict.weakest else format.UNKNOWN
    out.print(
        f"model {view.model} · fidelity at worst {weakest} · {view.asked} asked, {view.kept} kept"
        f" · spent {format.usd(view.spent_usd, complete=view.spent_complete)}",
        style="dim",
    )
    out.print(f"digest {view.digest}", style="dim", soft_wrap=True)
