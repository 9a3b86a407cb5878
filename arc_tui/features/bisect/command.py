"""`arc bisect versions`, `hunks` and `recovery`: the version or hunk that broke a run, or the last
step from which a fix recovers it; and the result as text.
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
    FiniteRange,
    console,
    db_option,
    edit_of,
    estimate_option,
    examples,
    inconclusive,
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
_MAX_SAMPLES = 200

_SEARCH = (
    click.option("--judge", metavar="NAME", help="The judge of --expect judge; or demo (rules)."),
    click.option("--max-steps", type=click.IntRange(min=1), help="Free runs: at most N steps."),
    click.option(
        "--confidence",
        type=FiniteRange(0.5, 1, min_open=True, max_open=True),
        default=SURE,
        help="Stop at this probability of the first bad one.",
    ),
    click.option(
        "--max-samples",
        type=click.IntRange(min=2),
        default=_MAX_SAMPLES,
        show_default=True,
        help="Stop after N samples.",
    ),
    click.option(
        "-m",
        "--at-once",
        type=click.IntRange(1, 20),
        default=4,
        show_default=True,
        help="Samples per round; 1 needs the fewest calls.",
    ),
    click.option("--no-check", is_flag=True, help="Skip the new samples that confirm the result."),
    click.option("--no-cache", is_flag=True, help="Ignore cached responses."),
    live_options,
    estimate_option,
    json_option,
    db_option,
)

_ANSWERS = (
    click.option(
        "--expect",
        metavar="E",
        help="What a good answer does: 'tool=get_order', rule (no finding), gold or judge.",
    ),
    click.option(
        "--step", "at", type=click.IntRange(min=0), metavar="STEP",
        help="The step; else the break candidate.",
    ),
    click.option("--free", is_flag=True, help="Test whole free runs, not one step."),
    click.option("--allow-stale", is_flag=True, help="Free runs: a read may get a stale result."),
)  # fmt: skip


@click.command(
    epilog=examples(
        "arc bisect versions shop-many-wishes-v5-0 prompts/v4.md prompts/v5.md",
        "arc bisect versions shop-many-wishes-v5-0 --git prompt.md v1.0..HEAD",
    )
)
@click.argument("trace", type=RUN_NAME)
@click.argument("versions", nargs=-1, type=_FILE, metavar="[VERSION]…")
@click.option(
    "--git",
    "revisions",
    nargs=2,
    metavar="PATH A..B",
    help="Revisions of one file, instead of files; the work tree is not touched.",
)
@with_options(*_ANSWERS, *_SEARCH)
def versions(**options: Any) -> int:
    """Find the prompt version or git revision that broke a step. Runs no tool.

    VERSION… are prompt files or TOML edits, the oldest first. Completed calls are saved: run
    again, it continues.

    Exit code 0: first bad found; 1: none; 2: inconclusive, not replayable or not finished.
    """
    if bool(options["versions"]) == (options["revisions"] is not None):
        raise click.UsageError("needs VERSION… files, or --git PATH A..B")
    return _bisect(options)


@click.command(
    epilog=examples(
        "arc bisect hunks shop-many-wishes-v5-0 --old prompts/v4.md --new prompts/v5.md",
        "arc bisect hunks shop-many-wishes-v5-0 --old prompts/v4.md --new prompts/v5.md -m 1",
    )
)
@click.argument("trace", type=RUN_NAME)
@click.option("--old", type=_FILE, required=True, help="The prompt before the change.")
@click.option("--new", type=_FILE, required=True, help="The prompt after it.")
@with_options(*_ANSWERS, *_SEARCH)
def hunks(**options: Any) -> int:
    """Find the hunk of one prompt change that broke a step. Runs no tool.

    Exit code 0: first bad found; 1: none; 2: inconclusive, not replayable or not finished.
    """
    return _bisect(options)


@click.command(
    epilog=examples(
        "arc bisect recovery shop-find-and-refund-v1-0 --fix prompt.md --expect tool=find_orders",
        "arc bisect recovery last --fix v4 --expect tool=get_order --max-samples 60 --estimate",
    )
)
@click.argument("trace", type=RUN_NAME)
@click.option(
    "--fix",
    "fixes",
    multiple=True,
    required=True,
    metavar="FILE|NAME",
    help="The edit to apply: a prompt, a TOML file or a saved edit; repeatable.",
)
@click.option(
    "--expect",
    metavar="E",
    required=True,
    help="What a recovered run does, such as 'tool=get_order' or gold.",
)
@click.option("--allow-stale", is_flag=True, help="A read may get a stale result.")
@with_options(*_SEARCH)
def recovery(**options: Any) -> int:
    """Find the last step from which an edit still recovers the run. Runs no tool.

    The run continues with the edit from one step after another; tools are mocked.

    Exit code 0: step found; 1: none; 2: inconclusive, not replayable or not finished.
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

    Exit code 0: one is named; 1: none is; 2: inconclusive, not replayable, or not finished.
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
    except ArcError:  # print what was found until then
        if views and views[-1].samples:
            _show(views[-1], as_json=as_json)
        raise
    view = views[-1] if views else EMPTY
    _show(view, as_json=as_json)
    refuse_unfinished(view.ended)
    refuse_unanswered(wanted=view.samples > 0, answers=view.calls + view.cached)
    if not view.named and view.status in ("budget", "censored"):
        raise inconclusive(view.status)
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
            max_samples=options["max_samples"],
            at_once=options["at_once"],
            confidence=options["confidence"],
            check=not options["no_check"],
        ),
        model=options["model"],
        live=options["live"],
        limits=limits(options),
        no_cache=options["no_cache"],
        allow_stale=options["allow_stale"],
        max_steps=options["max_steps"],
    )


def _sources(options: dict[str, Any]) -> list[Source]:
    if options.get("revisions") is not None:
        path, span = options["revisions"]
        return of_git(Path(path), span)
    return of_files(options.get("versions", ()))


def _estimate_words(found: BisectEstimate) -> str:
    """The calls to make, in one line."""
    each = "" if found.calls_each == 1 else f" of up to {found.calls_each} calls"
    many = f"about {format.count(found.samples, 'sample')} of {found.model}{each}"
    usd = found.about_usd
    price = "price unknown" if usd is None else f"about {format.usd(usd)}"
    size = f"{format.tokens(found.input_tokens)} input tokens each"
    judge = "" if found.judge is None else f" · plus one call of {found.judge} for each new one"
    return f"{many}, at most {found.max_samples} · {found.stored} cached{judge} · {size} · {price}"


def _line(view: BisectView) -> str:
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{format.count(view.samples, 'sample')} · {format.one_line(view.sentence)} · {usd}"


def _show(view: BisectView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_bisect(console(), view)


_BAR, _NOTE = 20, 48


def print_bisect(out: Console, view: BisectView) -> None:
    """The sentence, its notices, the table, the rounds, the diff, the bounds, the figures."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.one_line(notice), "yellow"), soft_wrap=True)
    out.print()
    head = ["", {"prefix": "fix from"}.get(view.kind, "version"), "bad", "first bad?", "", ""]
    print_table(out, head, [_cells(row) for row in view.rows])
    if view.unchanged is not None:
        out.print(f"no change: {view.unchanged:.2f}", style="dim")
    for part in view.parts:
        out.print(Text(format.plain(part)), soft_wrap=True)
    for line in (*_rounds(view), "") if view.rounds else ():
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)
    for line in view.diff:
        out.print(Text(format.plain(line), _diff_style(line)), soft_wrap=True)
    if view.diff:
        out.print()
    for line in (*view.bounds, *_footer(view)):
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)


def _cells(row: VersionRow) -> list[Text | str]:
    mark = "▸" if row.among else "?" if row.misfit else f"+{row.next}" if row.next else ""
    unusable = f" · {row.unusable} unusable" if row.unusable else ""
    likely = "" if row.likely is None else f"{row.likely:.2f}"
    return [
        mark,
        format.one_line(row.name),
        f"{row.hits}/{row.bad.n}{unusable}",
        likely,
        format.bar(row.likely or 0.0, _BAR) if (row.likely or 0.0) >= 0.005 else "",
        format.cut(format.one_line(row.note), _NOTE),
    ]


def _rounds(view: BisectView) -> Iterator[str]:
    """The samples of each round, and why; the reason once where it stays the same."""
    yield ""
    yield "rounds"
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
    yield f"bad: {format.one_line(view.detector)}{at}"
    server = f" at {view.server}" if view.server else ""
    yield (
        f"model {view.model}{server} · {format.fidelity(view.fidelity, view.fidelity_reasons)}"
        f" · {view.samples} + {view.checks} samples · {format.count(view.calls, 'call')}"
        f" · {view.cached} cached · {format.usd(view.spent_usd, complete=view.spent_complete)}"
    )
    yield f"digest {view.digest}" if view.digest is not None else "not finished: no digest"
