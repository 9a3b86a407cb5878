"""`arc bisect`: which of many prompt versions, hunks or steps is the one that broke a run?

A bisection as `arc bisect` prints it: the sentence, a row a version, what was asked and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    edit_of,
    estimate_option,
    json_option,
    limits,
    live_options,
    open_store,
    print_json,
    print_table,
    refuse_unanswered,
    refuse_unfinished,
    show_estimate,
    with_options,
)
from arc_tui.experiments.progress import with_status
from arc_tui.experiments.request import views_of
from arc_tui.features.bisect.plan import BisectEstimate, BisectRequest, estimate_cost
from arc_tui.features.bisect.run import run_bisection
from arc_tui.features.bisect.versions import Source, of_files, of_git
from arc_tui.features.bisect.view import EMPTY, BisectView, VersionRow
from arc_tui.ui import format
from replay.bisection.rounds import SURE, Settings
from replay.errors import ArcError
from replay.store.handle import Store

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_MOST = 200

_SEARCH = (
    click.option("--judge", metavar="NAME", help="The judge of --expect judge; `demo`: by rule."),
    click.option("--max-steps", type=click.IntRange(min=1), help="Free runs: at most N answers."),
    click.option(
        "--confidence",
        "sure",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        default=SURE,
        help="Stop once the first bad one is this likely.",
    ),
    click.option(
        "--max-samples",
        "most",
        type=click.IntRange(min=2),
        default=_MOST,
        show_default=True,
        help="Stop after N samples.",
    ),
    click.option(
        "-m",
        "--at-once",
        type=click.IntRange(1, 20),
        default=4,
        show_default=True,
        help="Samples asked for in one round; 1 needs the fewest.",
    ),
    click.option("--no-check", is_flag=True, help="Leave out the fresh samples at the end."),
    click.option("--no-cache", "resample", is_flag=True, help="Ignore cached responses."),
    live_options,
    estimate_option,
    json_option,
    db_option,
)

_ANSWERS = (
    click.option(
        "--expect",
        metavar="E",
        help="What a good answer does: 'tool=get_order', rule (what was found there), gold, judge.",
    ),
    click.option(
        "--step", "at", type=click.IntRange(min=0), metavar="STEP",
        help="The step; else the break candidate.",
    ),
    click.option("--free", is_flag=True, help="Judge whole free runs, not one answer."),
    click.option("--allow-stale", is_flag=True, help="Free runs: a read may get an older result."),
)  # fmt: skip


@click.command()
@click.argument("trace", type=RUN_NAME)
@click.argument("versions", nargs=-1, type=_FILE, metavar="[VERSION]…")
@click.option(
    "--git",
    "revisions",
    nargs=2,
    metavar="PATH A..B",
    help="The revisions of one file, instead of files; the work tree is not touched.",
)
@with_options(*_ANSWERS, *_SEARCH)
def versions(**options: Any) -> int:
    """Find the prompt version or git revision that broke a step. Runs no tool.

    VERSION… are prompt files (or TOML edits), the oldest first. Completed calls are saved: run
    again, it continues. Exit code 0: one is named; 1: none is; 2: not replayable, or not finished.
    """
    if bool(options["versions"]) == (options["revisions"] is not None):
        raise click.UsageError("name VERSION… files, or --git PATH A..B")
    return _bisect(options)


@click.command()
@click.argument("trace", type=RUN_NAME)
@click.option("--old", type=_FILE, required=True, help="The prompt before the change.")
@click.option("--new", type=_FILE, required=True, help="The prompt after it.")
@with_options(*_ANSWERS, *_SEARCH)
def hunks(**options: Any) -> int:
    """Find the hunk of one prompt change that broke a step. Runs no tool.

    Exit code 0: one is named; 1: none is; 2: not replayable, or not finished.
    """
    return _bisect(options)


@click.command()
@click.argument("trace", type=RUN_NAME)
@click.option(
    "--fix",
    "fixes",
    multiple=True,
    required=True,
    metavar="FILE|NAME",
    help="The edit to apply: a prompt, a TOML file, a saved edit; repeatable.",
)
@click.option(
    "--expect",
    metavar="E",
    required=True,
    help="What a recovered run does: 'tool=get_order', gold.",
)
@click.option("--allow-stale", is_flag=True, help="A read may get an older result.")
@with_options(*_SEARCH)
def recovery(**options: Any) -> int:
    """Find the last step from which an edit still recovers the run. Runs no tool.

    The run continues with the edit from one step after another. Exit code 0: a step is named;
    1: none is; 2: not replayable, or not finished.
    """
    return _bisect(options)


def _bisect(options: dict[str, Any]) -> int:
    if options.get("free") is False and (
        options["allow_stale"] or options["max_steps"] is not None
    ):
        raise click.UsageError("--allow-stale and --max-steps need --free")
    with open_store(options["db"]) as store:
        return bisect_versions(
            store,
            options["trace"],
            options,
            as_json=options["as_json"],
            only_estimate=options["only_estimate"],
        )


def bisect_versions(
    store: Store, trace: str, options: dict[str, Any], *, as_json: bool, only_estimate: bool
) -> int:
    """Search and print. `options` are those of `versions`, `hunks` or `recovery`.

    Exit code 0: one is named; 1: none is; 2: it cannot be asked, or was not finished.
    """
    request = _request(store, trace, options)
    if show_estimate(
        lambda: estimate_cost(store, request),
        _estimate_words,
        only=only_estimate,
        live=request.live,
        as_json=as_json,
    ):
        return 0
    views: list[BisectView] = []
    try:
        with closing(views_of(run_bisection, store, request)) as going:
            views.extend(with_status(going, _line, console(err=True)))
    except ArcError:  # what was judged until then is worth its place on the screen
        if views and views[-1].samples:
            _show(views[-1], as_json=as_json)
        raise
    view = views[-1] if views else EMPTY
    _show(view, as_json=as_json)
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=view.samples > 0, answers=view.asked + view.kept)
    return 0 if view.named else 1


def _request(store: Store, trace: str, options: dict[str, Any]) -> BisectRequest:
    texts = of_files([options["old"], options["new"]]) if "old" in options else [None, None]
    return BisectRequest(
        trace=trace,
        sources=tuple(_sources(options)),
        old=texts[0],
        new=texts[1],
        fix=edit_of(store, options.get("fixes", ())),
        expect=options["expect"],
        judge=options["judge"],
        at=options.get("at"),
        free=options.get("free", False),
        settings=Settings(
            most=options["most"],
            at_once=options["at_once"],
            sure=options["sure"],
            check=not options["no_check"],
        ),
        model=options["model"],
        live=options["live"],
        limits=limits(options),
        resample=options["resample"],
        allow_stale=options["allow_stale"],
        max_steps=options["max_steps"],
    )


def _sources(options: dict[str, Any]) -> list[Source]:
    if options.get("revisions") is not None:
        path, span = options["revisions"]
        return of_git(Path(path), span)
    return of_files(options.get("versions", ()))


def _estimate_words(found: BisectEstimate) -> str:
    """What is about to be asked of a server, in one line."""
    each = "" if found.calls_each == 1 else f" of up to {found.calls_each} calls"
    many = f"about {format.count(found.samples, 'answer')} of {found.model}{each}"
    usd = found.about_usd
    price = "price unknown" if usd is None else f"about {format.usd(usd)}"
    size = f"{format.tokens(found.input_tokens)} tokens in each"
    judge = "" if found.judge is None else f"; each new one judged by a call of {found.judge}"
    return f"{many}, at most {found.most}; {found.stored} there already{judge}; {size}, {price}"


def _line(view: BisectView) -> str:
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{view.samples} in, {format.one_line(view.sentence)} · spent {usd}"


def _show(view: BisectView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_bisect(console(), view)


_BAR, _NOTE = 20, 48


def print_bisect(out: Console, view: BisectView) -> None:
    """The sentence, what speaks against it, the table, the rounds, the diff, what it rests on."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.one_line(notice), "yellow"), soft_wrap=True)
    out.print()
    head = ["", {"prefix": "fix from"}.get(view.kind, "version"), "bad", "first bad?", "", ""]
    print_table(out, head, [_cells(row) for row in view.rows])
    if view.unchanged is not None:
        out.print(f"nothing changed: {view.unchanged:.2f}", style="dim")
    for part in view.parts:
        out.print(Text(format.plain(part)), soft_wrap=True)
    for line in (*_rounds(view), "") if view.rounds else ():
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)
    for line in view.diff:
        out.print(Text(format.plain(line), _diff_style(line)), soft_wrap=True)
    if view.diff:
        out.print()
    for line in (*view.says_not, *_footer(view)):
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)


def _cells(row: VersionRow) -> list[Text | str]:
    mark = "▸" if row.among else "?" if row.misfit else f"+{row.next}" if row.next else ""
    lost = f" · {row.censored} lost" if row.censored else ""
    likely = "" if row.likely is None else f"{row.likely:.2f}"
    return [
        mark,
        format.one_line(row.name),
        f"{row.hits}/{row.bad.n}{lost}",
        likely,
        format.bar(row.likely or 0.0, _BAR) if (row.likely or 0.0) >= 0.005 else "",
        format.cut(format.one_line(row.note), _NOTE),
    ]


def _rounds(view: BisectView) -> Iterator[str]:
    """What was asked, round after round, and why; the reason once where it stays the same."""
    yield ""
    yield "asked"
    why = ""
    for line in view.rounds:
        yield f"  {format.one_line(line.versions)}{'' if line.why == why else f': {line.why}'}"
        why = line.why


def _diff_style(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _footer(view: BisectView) -> Iterator[str]:
    at = (
        ""
        if view.step is None
        else f" at step {view.step}"
        if not view.free
        else (f" from step {view.step} on")
    )
    yield f"bad: {format.one_line(view.oracle)}{at}"
    server = f" at {view.server}" if view.server else ""
    yield (
        f"model {view.model}{server} · {format.fidelity(view.fidelity, view.fidelity_reasons)}"
        f" · {view.samples} + {view.checks} answers · {view.asked} asked, {view.kept} kept"
        f" · spent {format.usd(view.spent_usd, complete=view.spent_complete)}"
    )
    yield f"digest {view.digest}" if view.digest is not None else "not finished: no digest"
