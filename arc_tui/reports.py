"""`arc report`: what is asked for, and who makes it; the page of a gate, and post-mortems."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    examples,
    held_out_option,
    json_option,
    open_judged,
)
from arc_tui.config import find_playbook, read_owners
from arc_tui.experiments.locked_view import (
    sentences,
)
from arc_tui.features.free.view import UNCHECKED
from arc_tui.features.gate.command import gate_limits, limits_of
from arc_tui.features.report.command import output_option, put_page, put_text
from arc_tui.features.report.run import build_run_page
from arc_tui.features.report.view import (
    Page,
    Table,
    write_line,
)
from arc_tui.features.trace.pages import why_page
from arc_tui.report_pages import LAST, bundle_page, compare_page, kept_page
from arc_tui.ui import format
from arc_tui.ui.document import Document
from arc_tui.views import gate
from arc_tui.views.gate import GateRequest, GateView, build_gate
from arc_tui.views.step import StepView
from arc_tui.views.trace import TraceView
from replay import kept
from replay.errors import ArcError
from replay.store import edits
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_row, trace_rows
from taxonomy.golden.sets import FOLDER, MANIFEST, read_set
from taxonomy.judgements.schema import open_ledger

if TYPE_CHECKING:
    from arc_tui.features.report.postmortem import GoldenLine, Tried


@click.command(
    epilog=examples(
        "arc report shop-many-wishes-v5-0 -o run.html",
        "arc report --compare shop-many-wishes-v5-0 shop-many-wishes-v4-0",
        "arc report shop-many-wishes-v5-0 --replay last",
        "arc report --gate --baseline variant=v4 --candidate variant=v5",
        "arc report --postmortem shop-many-wishes-v5-0",
    )
)
@click.argument("runs", type=RUN_NAME, nargs=-1, metavar="[RUN]...")
@click.option("--compare", "is_pair", is_flag=True, help="Two runs, A and B, side by side.")
@click.option(
    "--replay",
    "again",
    metavar="DIGEST|FILE",
    help="A saved replay: its digest, a unique prefix, last of RUN, or a bundle.",
)
@click.option("--gate", "is_gate", is_flag=True, help="A change, as arc gate decides on it.")
@click.option("--baseline", metavar="QUERY", help="With --gate: the runs to hold against.")
@click.option("--candidate", metavar="QUERY", help="With --gate: the runs of the change.")
@gate_limits
@held_out_option
@click.option(
    "--postmortem",
    "is_postmortem",
    is_flag=True,
    help="The post-mortem of a run as Markdown, for a person to finish; printed without -o.",
)
@output_option
@json_option
@db_option
def report(
    runs: tuple[str, ...],
    is_pair: bool,
    again: str | None,
    is_gate: bool,
    is_postmortem: bool,
    output: Path | None,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> None:
    """Write a run into one HTML file that anybody can open: no server, no request, no install.

    `arc import FILE` of the report brings its runs back. Secrets are masked again.
    """
    kinds = {
        "--compare": is_pair,
        "--replay": again is not None,
        "--gate": is_gate,
        "--postmortem": is_postmortem,
    }
    _refuse(runs, [name for name, is_wanted in kinds.items() if is_wanted], again, options)
    gc.disable()  # all that is made stays until the page is written: looking through it is a fifth
    with ExitStack() as stack:
        if again is not None and Path(again).is_file():
            store = stack.enter_context(open_ledger(":memory:"))
            page = bundle_page(store, Path(again))
        else:
            store = stack.enter_context(open_judged(db))
            if is_postmortem:
                put_text(_write_postmortem(store, runs[0]), output, as_json=as_json)
                return
            if again is not None:
                page = kept_page(store, runs, again)
            elif is_pair:
                page = compare_page(store, *runs)
            elif is_gate:
                page = gate_page(build_gate(store, _gate_request(options)))
            else:
                page = _run_page(store, runs[0])
        put_page(page, store.redactor, output, as_json=as_json)


def _run_page(store: Store, name: str) -> Page:
    """The page of one run; of a long one it is said on a terminal how far it is."""
    with console(err=True).status("Masking the recording") as status:

        def why(view: TraceView, step: StepView) -> Document:
            status.update(f"Writing step {step.row.step + 1} of {len(view.steps)}")
            return why_page(view, step)

        return build_run_page(store, name, why)


def _refuse(
    runs: Sequence[str], kinds: Sequence[str], again: str | None, options: dict[str, Any]
) -> None:
    """Raises UsageError for what does not fit together."""
    if len(kinds) > 1:
        raise click.UsageError(f"{' or '.join(kinds)}: a report is of one kind")
    kind = kinds[0] if kinds else ""
    given = click.get_current_context().get_parameter_source
    own = [name for name in options if given(name) is ParameterSource.COMMANDLINE]
    if own and kind != "--gate":
        shown = own[0].replace("_", "-").replace("with-held-out", "include-held-out")
        raise click.UsageError(f"--{shown} needs --gate")
    if kind == "--gate" and runs:
        raise click.UsageError("--gate takes queries, not runs. Try: --baseline Q --candidate Q")
    if kind == "--gate" and None in (options["baseline"], options["candidate"]):
        raise click.UsageError("--gate needs --baseline QUERY and --candidate QUERY")
    if kind == "--compare" and len(runs) != 2:
        raise click.UsageError("--compare takes two runs. Try: arc report --compare A B")
    if again == LAST and len(runs) != 1:
        raise click.UsageError("--replay last needs a run. Try: arc report RUN --replay last")
    if again is not None and again != LAST and runs:
        raise click.UsageError("--replay DIGEST names its run itself: leave RUN out")
    if kind in ("", "--postmortem") and len(runs) != 1:
        raise click.UsageError("name one run. Try: arc report last")


# --- a gate


def _gate_request(options: dict[str, Any]) -> GateRequest:
    return GateRequest(
        baseline=options["baseline"],
        candidate=options["candidate"],
        limits=limits_of(options),
        with_held_out=options["with_held_out"],
    )


def gate_page(view: GateView) -> Page:
    """What a gate decided and on which tasks. It holds no run."""
    names = ("baseline", "candidate")
    heads = [gate.sentence(view), *gate.reasons(view)]
    rest = [*filter(None, (gate.power_line(view),)), *gate.notices(view)]
    figures = tuple(gate.facts(view))
    tasks = tuple(map(gate.cells, view.rows))
    queries = (view.baseline.query, view.candidate.query)
    shown = [f"{name}: {query}" for name, query in zip(names, queries, strict=True)]
    return Page(
        kind="gate",
        title=f"Gate: {gate.verdict_of(view)}",
        outcome="failed" if view.decision.status == "regression" else None,
        facts=tuple(map(format.one_line, shown)),
        summary=(
            write_line("Decision", "title"),
            *map(write_line, heads),
            *map(write_line, rest),
            *(write_line(line, "quiet") for line in gate.basis(view)),
        ),
        tables=(
            Table(title="Figures", columns=("", *names), rows=figures),
            Table(
                title="Tasks, the largest drop first",
                columns=("task", *names, "change"),
                rows=tasks,
            ),
        ),
        list=None,
        runs=(),
        brief="\n".join([*shown, *heads, *rest, "", *map(" · ".join, (*figures, *tasks))]),
    )


# --- a post-mortem


def _write_postmortem(store: Store, run: str) -> str:
    """The post-mortem of a run, with the replays and edit tests of it that are saved."""
    from arc_tui.features.report.postmortem import markdown

    playbook = find_playbook()
    row = trace_row(store, run)
    golden, problem = _golden_tasks(store, row)
    return markdown(
        store,
        run,
        tried=tuple(_past_experiments(store, row.trace)),
        golden=golden,
        golden_problem=problem,
        owners=read_owners(playbook=playbook),
        playbook=playbook,
    )


def _golden_tasks(store: Store, row: TraceRow) -> tuple[tuple[GoldenLine, ...], str]:
    """The tasks of the golden set here that were made from a run, by any recording of it, and why
    the set cannot be read, "" where it can."""
    from arc_tui.features.report.postmortem import GoldenLine

    folder = Path(FOLDER)
    if not (folder / MANIFEST).exists():
        return (), ""
    try:
        tasks = read_set(folder).tasks
    except ArcError as error:
        return (), error.message
    recordings = {each.trace for each in trace_rows(store, "run = ?", (row.run,), every=True)}
    made = (each for each in tasks if each.origin and each.origin.run in recordings)
    return tuple(GoldenLine(id=each.id, folder=str(folder)) for each in made), ""


def _past_experiments(store: Store, trace: str) -> Iterator[Tried]:
    """What was tried on a run and is saved, the latest first."""
    from arc_tui.features.edit_test.plan import saved_edit_tests
    from arc_tui.features.edit_test.text import headline, notices, sentence
    from arc_tui.features.report.postmortem import Tried

    found = [_tried_replay(store, each) for each in kept.of_trace(store, trace)]
    found += [
        Tried(
            what="Edit test",
            digest=each.view.digest or "",
            ran_ns=each.ran_ns,
            model=", ".join(each.models),
            edit=each.view.edit,
            lines=(headline(each.view), sentence(each.view), *notices(each.view)),
        )
        for each in saved_edit_tests(store)
        if trace in each.traces
    ]
    return iter(sorted(found, key=lambda each: -each.ran_ns))


def _tried_replay(store: Store, replay: kept.Kept) -> Tried:
    """A saved replay in sentences; of one that cannot be run again, why."""
    from arc_tui.features.free.run import show_kept_run
    from arc_tui.features.replay.run import show_kept
    from arc_tui.features.report.postmortem import Tried

    lines: tuple[str, ...]
    try:
        if replay.kind == "free":
            free = show_kept_run(store, replay.digest)
            lines = (free.sentence, UNCHECKED, *free.notices)
        else:
            locked = show_kept(store, kept.find(store, replay.digest))
            lines = (*sentences(locked), *locked.verdict.notices)
    except ArcError as error:
        lines = (error.message,)
    return Tried(
        what="Free replay" if replay.kind == "free" else "Locked replay",
        digest=replay.digest,
        ran_ns=replay.ran_ns,
        model=replay.model,
        edit=None if replay.edit is None else edits.find(store, replay.edit).name,
        lines=lines,
    )
