"""`arc bisect steps`: the first step that contradicts the context, and the test of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
from msgspec import structs
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    edit_of,
    estimate_line,
    estimate_option,
    json_option,
    limits,
    live_options,
    open_store,
    print_json,
    print_table,
    refuse_keyless,
    refuse_unanswered,
    show_estimate,
    with_database,
)
from arc_tui.experiments.progress import with_status
from arc_tui.experiments.request import views_of
from arc_tui.features.bisect_steps.plan import (
    SAMPLES,
    BisectStepsEstimate,
    BisectStepsRequest,
    OracleName,
    RunsEstimate,
    estimate_search,
)
from arc_tui.features.bisect_steps.run import run_step_bisection
from arc_tui.features.bisect_steps.view import (
    EMPTY,
    SourceRow,
    StepRow,
    StepsView,
    TrialView,
    not_judged,
    p_words,
)
from arc_tui.ui import format
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.locked.estimate import Estimate
from replay.statistics import Rate
from replay.store.handle import Store

_WIDTH = 72


@click.command()
@click.argument("trace", type=RUN_NAME)
@click.option(
    "--detector",
    "oracle",
    type=click.Choice(get_args(OracleName)),
    default="contradiction",
    show_default=True,
    help="What decides: contradictions found by rules (free), the model when asked, a judge of each"
    " step, or whether the run recovers with --fix.",
)
@click.option("--question", "ask", help="A fact to ask the model about; with --truth.")
@click.option(
    "--truth", "world", metavar="VALUE|STEP:PATH", help="The true answer, or where it was shown."
)
@click.option(
    "--confirm", "validate", is_flag=True, help="Test the step: k samples with the fix, k without."
)
@click.option(
    "--fix",
    "fixes",
    multiple=True,
    metavar="FILE|NAME",
    help="The edit to test: a prompt, a TOML file, a saved edit; repeatable.",
)
@click.option("--expect", metavar="E", help="What a recovered run does: 'tool=get_order', gold.")
@click.option("--allow-stale", is_flag=True, help="A read may get an older result.")
@click.option("--judge", metavar="NAME", help="The judge of --detector judge.")
@click.option("-k", "samples", type=click.IntRange(1, 100), help="Samples of each arm.")
@click.option("--max-samples", "most", type=click.IntRange(min=2), help="Stop after N samples.")
@live_options
@estimate_option
@json_option
@db_option
def steps(
    trace: str,
    fixes: tuple[str, ...],
    only_estimate: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """Find the first step that contradicts the context. Runs no tool.

    Exit code 0: a step is named; 1: none is; 2: not replayable, or not finished.
    """  # fmt: skip
    with open_store(db) as store:
        request = _request(trace, edit_of(store, fixes), options)
        return bisect_steps(store, request, as_json=as_json, only_estimate=only_estimate)


def _request(trace: str, fix: Edit | None, options: dict[str, Any]) -> BisectStepsRequest:
    """What the options ask for. Raises UsageError for what does not go together."""
    oracle: OracleName = options["oracle"]
    recoverable = oracle == "recoverable"
    if (options["ask"] is None) != (options["world"] is None):
        raise click.UsageError("--question and --truth go together")
    if options["ask"] is not None and oracle != "belief":
        raise click.UsageError("--question needs --detector belief: only a model answers it")
    if recoverable and (fix is None or options["expect"] is None):
        raise click.UsageError("--detector recoverable needs --fix EDIT and --expect 'tool=…'")
    if options["expect"] is not None and not recoverable:
        raise click.UsageError("--expect needs --detector recoverable")
    if options["allow_stale"] and not recoverable:
        raise click.UsageError("--allow-stale needs --detector recoverable")
    if options["judge"] is not None and oracle != "judge":
        raise click.UsageError("--judge needs --detector judge")
    if fix is not None and not recoverable and not options["validate"]:
        raise click.UsageError("--fix needs --confirm or --detector recoverable")
    return BisectStepsRequest(
        trace=trace,
        oracle=oracle,
        ask=options["ask"],
        world=options["world"],
        fix=fix,
        validate=options["validate"],
        samples=options["samples"] or SAMPLES,
        expect=options["expect"],
        allow_stale=options["allow_stale"],
        judge=options["judge"],
        model=options["model"],
        live=options["live"],
        limits=limits(options),
        most=options["most"],
    )


def bisect_steps(
    store: Store, request: BisectStepsRequest, *, as_json: bool = False, only_estimate: bool = False
) -> int:
    """Find the step and print it. Exit code 0: a step was found; 1: none was.
    Raises ModelRefused where each request was declined.

    What was known before a model declined, or an answer was missing, is printed all the same.
    """
    if request.live and not only_estimate:
        quiet = structs.replace(request, live=False)
        refuse_keyless(lambda: list(views_of(run_step_bisection, store, quiet)))
    if show_estimate(
        lambda: estimate_search(store, request),
        lambda found: "\n".join(_estimate_words(found)),
        only=only_estimate,
        live=request.live,
        as_json=as_json,
    ):
        return 0
    views: list[StepsView] = []
    try:
        for view in with_status(
            views_of(run_step_bisection, store, request), _line, console(err=True)
        ):
            views[:] = [view]
    except ArcError:  # the answers until then are worth their place on the screen
        if views and any(row.asked for row in views[-1].rows):
            _show(views[-1], as_json=as_json)
        raise
    view = views[-1] if views else EMPTY
    _show(view, as_json=as_json)
    unknown = view.trial is not None or any(row.asked and row.bad is None for row in view.rows)
    refuse_unanswered(wanted=view.model is not None and unknown, answers=view.asked + view.kept)
    return 0 if view.named else 1


def _line(view: StepsView) -> str:
    done = sum(row.asked for row in view.rows)
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{done} of {format.count(len(view.rows), 'step')}, spent {usd}"


def _estimate_words(found: BisectStepsEstimate) -> Iterator[str]:
    """What is about to be asked of a server, and about what."""
    yield from (f"asked about {format.one_line(fact)}" for fact in found.facts)
    said = estimate_line(structs.replace(found.estimate, most_calls=0, most_usd=None))
    up_to = "" if found.runs is None else "up to "
    calls = format.count(found.test_calls, "call")
    test = f"; {up_to}{calls} more for the test" if found.test_calls else ""
    yield f"{said if found.runs is None else _runs_words(found.runs, found.estimate)}{test}"


def _runs_words(runs: RunsEstimate, about: Estimate) -> str:
    """Of runs that go on: how often they ask nobody knows, what the recorded steps asked is."""
    price = "price unknown" if about.usd is None else f"about {format.usd(about.usd)}"
    return (
        f"about {runs.steps} of {format.count(runs.of, 'step')}, {format.count(runs.each, 'run')}"
        f" from each, of at most {format.count(runs.most_calls, 'call')}; going as the recorded"
        f" steps went they ask about {format.count(about.calls, 'call')},"
        f" {format.tokens(about.input_tokens)} tokens in, {price}"
    )


def _show(view: StepsView, *, as_json: bool) -> None:
    if view.next:
        view = structs.replace(view, next=with_database(view.next))
    if as_json:
        print_json(view)
    else:
        print_steps(console(), view)


def print_steps(out: Console, view: StepsView) -> None:
    """The sentence, what speaks against it, a row a step, the sources, the test, what is next."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    print_table(out, ["", "step", "message", "did", "found"], list(map(_cells, view.rows)))
    if view.facts:
        out.print(Text("\nasked about", "bold"))
        for fact in view.facts:
            out.print(Text(f"  {format.one_line(fact)}"), soft_wrap=True)
    if view.sources:
        heading = "\nwhat the judge says" if view.about == "judge" else "\nbelief against world"
        out.print(Text(heading, "bold"))
        for source in _sources(view.sources):
            out.print(Text(source), soft_wrap=True)
    if view.fix is not None:
        out.print(Text(f"\nfix {view.fix.name!r}", "bold"))
        for change in view.fix.changes:
            out.print(Text(f"  {format.one_line(change)}"), soft_wrap=True)
    if view.trial is not None:
        out.print()
        for line in _trial(view.trial):
            out.print(line, soft_wrap=True)
    out.print()
    for words in _footer(view):
        out.print(Text(format.plain(words), "dim"), soft_wrap=True)


def _cells(row: StepRow) -> list[Text | str]:
    mark = "◆" if row.decisive else {True: "✗", False: "✓", None: "?"}[row.bad] if row.asked else ""
    style = "bold" if row.decisive else "dim" if not row.asked else ""
    phrase = row.phrase or ("nothing against it" if row.asked and row.bad is False else "")
    message = format.UNKNOWN if row.message is None else str(row.message)
    shown = (format.cut(format.one_line(each), _WIDTH) for each in (row.did, phrase))
    return [Text(cell, style) for cell in (mark, str(row.step), message, *shown)]


def _sources(sources: tuple[SourceRow, ...]) -> Iterator[str]:
    """Each source as role, words and place, the words in one column."""
    roles = max(len(each.role) for each in sources)
    for each in sources:
        message = f", message {each.message}" if each.message is not None else ""
        where = f"{each.where}{message}"
        yield f"  {each.role:<{roles}}  {format.one_line(each.text)}  [{where}]"


def _trial(trial: TrialView) -> Iterator[Text]:
    style = {"validated": "bold green", "refuted": "bold red"}.get(trial.status, "bold")
    yield Text(format.plain(trial.sentence), style)
    for name, arm, lost, why in (
        ("control", trial.control, trial.control_lost, trial.control_why),
        ("with the fix", trial.fixed, trial.fixed_lost, trial.fixed_why),
    ):
        yield Text(f"  {name}: {trial.bad} {_rate(arm)}{not_judged(lost, why)}", "dim")
    yield Text(f"  by {trial.by}; Fisher's exact test, two-sided, {p_words(trial.p)}", "dim")


def _rate(given: Rate) -> str:
    if given.value is None:
        return "in no answer that can be judged"
    return f"{round(given.value * given.n)}/{given.n} ({given.low:.2f}–{given.high:.2f})"


def _footer(view: StepsView) -> Iterator[str]:
    who = f" · model {view.model}" if view.model is not None else ""
    way = "every step" if view.scanned else "by halves, with spots"
    known = f" · fidelity there {view.fidelity.value}" if view.fidelity is not None else ""
    yield f"oracle {view.oracle}{who} · {way}{known}"
    if view.model is not None:
        spent = format.usd(view.spent_usd, complete=view.spent_complete)
        yield f"{view.asked} asked, {view.kept} kept · spent {spent}"
    if view.next:
        yield f"next: {shlex.join(view.next)}"
