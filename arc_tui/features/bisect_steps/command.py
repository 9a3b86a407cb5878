"""`arc bisect steps`: the first step that contradicts its context, and the test of it."""

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
    examples,
    inconclusive,
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
    DetectorName,
    RunsEstimate,
    estimate_search,
)
from arc_tui.features.bisect_steps.run import run_step_bisection
from arc_tui.features.bisect_steps.view import (
    EMPTY,
    NO_CONTRADICTION,
    ConfirmationView,
    SourceRow,
    StepRow,
    StepsView,
    p_words,
    unusable,
)
from arc_tui.ui import format
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.locked.estimate import Estimate
from replay.statistics import Rate
from replay.store.handle import Store

_WIDTH = 72


@click.command(
    epilog=examples(
        "arc bisect steps shop-many-wishes-v5-0",
        "arc bisect steps shop-many-wishes-v5-0 --confirm --fix prompts/v4.md",
    )
)
@click.argument("trace", type=RUN_NAME)
@click.option(
    "--detector",
    type=click.Choice(get_args(DetectorName)),
    default="contradiction",
    show_default=True,
    help="What decides whether a step is bad: rules (free), the model's belief, a judge, or whether"
    " free runs with --fix recover from it.",
)
@click.option("--question", help="A question about a fact, for the model; with --truth.")
@click.option(
    "--truth", metavar="VALUE|STEP:PATH", help="The true answer, or its place in a tool result."
)
@click.option(
    "--confirm", is_flag=True, help="Test the step: k samples with the fix and k without."
)
@click.option(
    "--fix",
    "fixes",
    multiple=True,
    metavar="FILE|NAME",
    help="The edit to test: a prompt, a TOML file or a saved edit; repeatable.",
)
@click.option(
    "--expect", metavar="E", help="What a recovered run does, such as 'tool=get_order' or gold."
)
@click.option("--allow-stale", is_flag=True, help="A read may get a stale result.")
@click.option("--judge", metavar="NAME", help="The judge of --detector judge.")
@click.option("-k", "samples", type=click.IntRange(1, 100), help="Samples of each arm.")
@click.option("--max-samples", type=click.IntRange(min=2), help="Stop after N samples.")
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
    """Find the first step that contradicts its context. Runs no tool.

    Exit code 0: step found; 1: no step; 2: inconclusive, not replayable or not finished.
    """  # fmt: skip
    with open_store(db) as store:
        request = _request(trace, edit_of(store, fixes), options)
        return bisect_steps(store, request, as_json=as_json, only_estimate=only_estimate)


def _request(trace: str, fix: Edit | None, options: dict[str, Any]) -> BisectStepsRequest:
    """What the options ask for. Raises UsageError for what does not go together."""
    detector: DetectorName = options["detector"]
    recoverable = detector == "recoverable"
    if (options["question"] is None) != (options["truth"] is None):
        raise click.UsageError("--question and --truth go together")
    if options["question"] is not None and detector != "belief":
        raise click.UsageError("--question needs --detector belief")
    if recoverable and (fix is None or options["expect"] is None):
        raise click.UsageError("--detector recoverable needs --fix EDIT and --expect 'tool=…'")
    if options["expect"] is not None and not recoverable:
        raise click.UsageError("--expect needs --detector recoverable")
    if options["allow_stale"] and not recoverable:
        raise click.UsageError("--allow-stale needs --detector recoverable")
    if options["judge"] is not None and detector != "judge":
        raise click.UsageError("--judge needs --detector judge")
    if fix is not None and not recoverable and not options["confirm"]:
        raise click.UsageError("--fix needs --confirm or --detector recoverable")
    return BisectStepsRequest(
        trace=trace,
        detector=detector,
        question=options["question"],
        truth=options["truth"],
        fix=fix,
        confirm=options["confirm"],
        samples=options["samples"] or SAMPLES,
        expect=options["expect"],
        allow_stale=options["allow_stale"],
        judge=options["judge"],
        model=options["model"],
        live=options["live"],
        limits=limits(options),
        max_samples=options["max_samples"],
    )


def bisect_steps(
    store: Store, request: BisectStepsRequest, *, as_json: bool = False, only_estimate: bool = False
) -> int:
    """Find the step and print it. Exit code 0: a step was found; 1: there is none.

    Raises ModelRefused where each request was declined, and ArcError where the search ended
    inconclusive. What was found until then is printed all the same.
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
    except ArcError:  # print what was found until then
        if views and any(row.evaluated for row in views[-1].rows):
            _show(views[-1], as_json=as_json)
        raise
    view = views[-1] if views else EMPTY
    _show(view, as_json=as_json)
    unknown = view.confirmation is not None or any(
        row.evaluated and row.bad is None for row in view.rows
    )
    refuse_unanswered(wanted=view.model is not None and unknown, answers=view.calls + view.cached)
    if not view.named and view.status in ("budget", "censored"):
        raise inconclusive(view.status)
    return 0 if view.named else 1


def _line(view: StepsView) -> str:
    done = sum(row.evaluated for row in view.rows)
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{done} of {format.count(len(view.rows), 'step')} · {usd}"


def _estimate_words(found: BisectStepsEstimate) -> Iterator[str]:
    """The facts to ask about, and the calls to make."""
    yield from (f"fact: {format.one_line(fact)}" for fact in found.facts)
    line = estimate_line(structs.replace(found.estimate, max_calls=0, max_usd=None))
    at_most = "" if found.runs is None else "at most "
    calls = format.count(found.test_calls, "call")
    test = f" · {at_most}{calls} more to confirm" if found.test_calls else ""
    yield f"{line if found.runs is None else _runs_words(found.runs, found.estimate)}{test}"


def _runs_words(runs: RunsEstimate, about: Estimate) -> str:
    """Of free runs: their calls if they take as many steps as the recording, and the limit."""
    price = "price unknown" if about.usd is None else f"about {format.usd(about.usd)}"
    return (
        f"{format.count(runs.each, 'free run')} from each of about {runs.steps} of"
        f" {format.count(runs.of, 'step')}, at most {format.count(runs.max_calls, 'call')} each"
        f" · at the recorded length about {format.count(about.calls, 'call')} ·"
        f" {format.tokens(about.input_tokens)} input tokens · {price}"
    )


def _show(view: StepsView, *, as_json: bool) -> None:
    if view.next:
        view = structs.replace(view, next=with_database(view.next))
    if as_json:
        print_json(view)
    else:
        print_steps(console(), view)


def print_steps(out: Console, view: StepsView) -> None:
    """The sentence, its notices, a row per step, the sources, the confirmation, what is next."""
    out.print(Text(format.plain(view.sentence), "bold"), soft_wrap=True)
    for notice in view.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    print_table(out, ["", "step", "message", "action", "finding"], list(map(_cells, view.rows)))
    if view.facts:
        out.print(Text("\nfacts", "bold"))
        for fact in view.facts:
            out.print(Text(f"  {format.one_line(fact)}"), soft_wrap=True)
    if view.sources:
        heading = "\njudge" if view.about == "judge" else "\ncontradiction"
        out.print(Text(heading, "bold"))
        for source in _sources(view.sources):
            out.print(Text(source), soft_wrap=True)
    if view.fix is not None:
        out.print(Text(f"\nfix {view.fix.name!r}", "bold"))
        for change in view.fix.changes:
            out.print(Text(f"  {format.one_line(change)}"), soft_wrap=True)
    if view.confirmation is not None:
        out.print()
        for line in _confirmation(view.confirmation):
            out.print(line, soft_wrap=True)
    out.print()
    for words in _footer(view):
        out.print(Text(format.plain(words), "dim"), soft_wrap=True)


def _cells(row: StepRow) -> list[Text | str]:
    mark = (
        "◆"
        if row.decisive
        else {True: "✗", False: "✓", None: "?"}[row.bad]
        if row.evaluated
        else ""
    )
    style = "bold" if row.decisive else "dim" if not row.evaluated else ""
    phrase = row.phrase or (NO_CONTRADICTION if row.evaluated and row.bad is False else "")
    message = format.UNKNOWN if row.message is None else str(row.message)
    shown = (format.cut(format.one_line(each), _WIDTH) for each in (row.action, phrase))
    return [Text(cell, style) for cell in (mark, str(row.step), message, *shown)]


def _sources(sources: tuple[SourceRow, ...]) -> Iterator[str]:
    """Each source as role, text and place, the text in one column."""
    roles = max(len(format.one_line(each.role)) for each in sources)
    for each in sources:
        message = f", message {each.message}" if each.message is not None else ""
        where = f"  [{each.where}{message}]" if each.where else ""
        yield f"  {format.one_line(each.role):<{roles}}  {format.one_line(each.text)}{where}"


def _confirmation(given: ConfirmationView) -> Iterator[Text]:
    style = {"confirmed": "bold green", "refuted": "bold red"}.get(given.status, "bold")
    yield Text(format.plain(given.sentence), style)
    for name, arm, lost, why in (
        ("control", given.control, given.control_unusable, given.control_why),
        ("edited", given.edited, given.edited_unusable, given.edited_why),
    ):
        yield Text(f"  {name}: {_rate(arm)}{unusable(lost, why)}", "dim")
    yield Text(f"  Fisher's exact test, two-sided, {p_words(given.p)}", "dim")


def _rate(given: Rate) -> str:
    if given.value is None:
        return "no usable sample"
    return f"failure in {round(given.value * given.n)}/{given.n} ({given.low:.2f}–{given.high:.2f})"


def _footer(view: StepsView) -> Iterator[str]:
    who = f" · model {view.model}" if view.model is not None else ""
    way = "all steps" if view.scanned else "bisected, with spot checks"
    known = f" · fidelity {view.fidelity.value}" if view.fidelity is not None else ""
    yield f"detector: {view.detector}{who} · {way}{known}"
    if view.model is not None:
        spent = format.usd(view.spent_usd, complete=view.spent_complete)
        yield f"{format.count(view.calls, 'call')} · {view.cached} cached · {spent}"
    if view.next:
        yield f"next: {shlex.join(view.next)}"
