"""`arc replay`: the model asked again at every recorded step, with and without an edit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json
from arc_tui.cli.expecting import (
    ForBisect,
    expect_options,
    refuse_expect_options,
    run_expect,
    there,
)
from arc_tui.cli.free import free_options, free_wanted, refuse_free_options, run_free
from arc_tui.cli.live import foreseen, limits, live_options, refuse_unfinished, said_before
from arc_tui.cli.replay_table import print_replay
from arc_tui.jobs.meeting import Question
from arc_tui.jobs.replaying import Wanted, break_and_notice, estimated, replaying
from arc_tui.views.replay.view import EMPTY, ReplayView
from replay.bisection.share import HALF
from replay.bundle import BadBundle, write
from replay.compare.rules import rules_from
from replay.edit import Edit
from replay.edit.together import together
from replay.edit_file import from_files
from replay.errors import ArcError
from replay.locked.sampling import LEVELS, Sampling, Schedule
from replay.plan import cannot_replay
from replay.store import Store, edits, replays
from replay.store.rows import trace_row

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Samples(click.ParamType[tuple[int, ...]]):
    """`auto`, or a number."""

    name = "samples"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if value == "auto":
            return LEVELS
        if not str(value).isdecimal() or not 1 <= int(value) <= 100:
            self.fail(f"{value!r} is neither a number from 1 to 100 nor auto", param, ctx)
        return (int(value),)


@click.command(cls=ForBisect)
@click.argument("trace")
@click.option("--system", type=_FILE, help="A file with the system prompt to try.")
@click.option(
    "--edit",
    "changes",
    multiple=True,
    metavar="FILE|NAME",
    help="A TOML file with changes, or a stored edit by its name; repeatable.",
)
@click.option(
    "-k",
    "levels",
    type=Samples(),
    default="auto",
    metavar="N|auto",
    help="Samples of each request; auto asks 3, then 8 and 20 where it is open.",
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
    help="How an argument is compared: `search.query=casefold`; repeatable.",
)
@expect_options
@live_options
@free_options
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all of it to this file, for `arc verify --bundle` elsewhere.",
)
@click.option("--estimate", "only_estimate", is_flag=True, help="Say what it would ask; ask none.")
@click.option("--rules", "show_rules", is_flag=True, help="Print the rules of comparing in full.")
@json_option
@db_option
def replay(
    trace: str,
    system: Path | None,
    changes: tuple[str, ...],
    levels: tuple[int, ...],
    schedule: Schedule,
    resample: bool,
    rules: tuple[str, ...],
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
    if options["expect"] is None:
        refuse_expect_options(options)
    else:
        there(changes)
    with open_store(db) as store:
        wanted = Wanted(
            trace=trace,
            edit=named_edit(store, system, changes),
            model=options["model"],
            live=options["live"],
            limits=limits(options),
            sampling=Sampling(levels=levels, schedule=schedule),
            resample=resample,
            rules=rules_from(rules),
        )
        if options["expect"] is not None:
            if bundle is not None:
                raise click.UsageError("--expect asks one question: --bundle holds a whole replay")
            question = _question(wanted, options)
            return run_expect(store, question, as_json=as_json, only_estimate=only_estimate)
        if options["free"]:
            if only_estimate:
                raise click.UsageError("how often a free run asks nobody knows beforehand")
            wish = free_wanted(wanted, options)
            return run_free(store, wish, as_json=as_json, bundle=bundle)
        refuse_free_options(options)
        if said_before(
            lambda: estimated(store, wanted),
            foreseen,
            only=only_estimate,
            live=wanted.live,
            as_json=as_json,
        ):
            return 0
        try:
            view = drained(replaying(store, wanted))
        except ArcError:
            _, notice = break_and_notice(store, trace_row(store, trace).trace)
            if notice is not None:  # what speaks against the edit is worth more than the refusal
                click.echo(f"arc: {format.one_line(notice)}", err=True)
            raise
        if bundle is not None and view.ended is None:
            bundled(store, view, bundle)
    if as_json:
        print_json(view)
    else:
        print_replay(console(), view, rules=show_rules)
    refuse_unfinished(view.ended)
    if not view.verdict.control.of:  # nothing was asked: neither yes nor no
        cannot = cannot_replay([reason for row in view.rows for reason in row.reasons])
        if cannot is not None:
            raise cannot
        return 2
    return 1 if view.differs else 2 if view.unanswered else 0


def _question(wanted: Wanted, options: dict[str, Any]) -> Question:
    """What is expected, of one step or with `--free` of whole runs."""
    if not options["free"]:
        refuse_free_options(options)
    elif options["at"] is not None:
        raise click.UsageError("a free run begins at --from STEP; --at is one step's")
    return Question(
        wanted=wanted,
        expect=options["expect"],
        share=options["share"] or HALF,
        at=options["at"],
        judge=options["judge"],
        free=free_wanted(wanted, options) if options["free"] else None,
    )


def named_edit(store: Store, system: Path | None, changes: tuple[str, ...]) -> Edit | None:
    """The edit that `--system FILE` and every `--edit FILE|NAME` make together, None for none."""
    parts = [from_files(system, [])]
    for each in changes:
        file = Path(each)
        stored = not file.exists() and file.suffix != ".toml"
        parts.append(edits.find(store, each) if stored else from_files(None, [file]))
    return together([part for part in parts if part is not None])


def bundled(store: Store, view: ReplayView, file: Path) -> None:
    """Write a finished replay with all it rests on to a file."""
    if view.digest is None:
        raise BadBundle(f"{file} was not written: the replay was cut short", "run it to its end")
    write(store, replays.find(store, view.digest), file)
    click.echo(f"wrote {file}; `arc verify --bundle {file}` runs it again", err=True)


def drained(work: Iterator[ReplayView]) -> ReplayView:
    """Run a replay to its end with a progress line on stderr where that is a terminal."""
    view = EMPTY
    out = console(err=True)
    spent = TextColumn("{task.fields[spent]}")
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), spent)
    with Bar(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None, spent="")
        for view in work:
            usd = format.usd(view.spent_usd, complete=view.spent_complete)
            said = f"{view.asked} asked, {usd}"
            bar.update(task, completed=view.done, total=view.total, spent=said)
    return view
