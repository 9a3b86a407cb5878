"""`arc show`, `brief`, `diagnose`: one trace, printed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    RUN_NAME,
    console,
    db_option,
    examples,
    json_option,
    open_judged,
    print_json,
    with_database,
)
from arc_tui.ui import format
from arc_tui.ui.document import INDENT, LABEL, Document, Fold, HintBlock
from arc_tui.views.brief import brief_markdown, brief_text, judged_line
from arc_tui.views.columns import caps_text, environment_lines
from arc_tui.views.evidence import candidate_text
from arc_tui.views.trace import TraceView, build_diagnose, build_trace
from arc_tui.views.tree import EveryBranch, TreeRow, indent, limit_depth, visible
from replay.errors import no_step
from replay.store.handle import Store
from taxonomy.classes import class_label

if TYPE_CHECKING:
    from arc_tui.views.code import OutputView
    from arc_tui.views.step import CallView, MessageView, Seen, StepView


@click.command(epilog=examples("arc show last", "arc show shop-many-wishes-v5-0 4"))
@click.argument("trace", type=RUN_NAME)
@click.argument("step", required=False, type=int)
@json_option
@db_option
def show(trace: str, step: int | None, as_json: bool, db: Path | None) -> None:
    """Print a trace, or one step of it. TRACE is an id, a unique prefix, `last` or task/trial."""
    with open_judged(db) as store:
        view = build_trace(store, trace)
        if step is None:
            print_trace_json(view) if as_json else print_trace(console(), view)
            return
        detail = step_in_full(store, view, step)
        print_json(detail) if as_json else print_step(console(), view, detail)


def step_in_full(store: Store, view: TraceView, step: int) -> StepView:
    """A step with what only the whole run tells of it. Raises NotFound where there is none."""
    from arc_tui.features.probes.offers import build_why_probes  # a run's own page needs none
    from arc_tui.views.step import build_step, read_earlier
    from arc_tui.views.value_origins import RunOrigins

    try:
        detail = build_step(store, view.run.trace, step)
    except IndexError as error:
        raise no_step(step, view.run.steps) from error
    whole = read_earlier(store, detail)
    return structs.replace(
        whole,
        earlier=tuple(whole.earlier or ()),
        value_origins=RunOrigins(store, view.run.trace).of_step(step),
        probes=build_why_probes(store, view.run.trace, step),
    )


@click.command(epilog=examples("arc brief last", "arc brief shop-many-wishes-v5-0 --md"))
@click.argument("trace", type=RUN_NAME)
@click.option("--md", "as_markdown", is_flag=True, help="As Markdown for an issue on GitHub.")
@json_option
@db_option
def brief(trace: str, as_markdown: bool, as_json: bool, db: Path | None) -> None:
    """Summarize a run in at most 1 500 tokens, for people and coding agents.

    With `--md` in Markdown for an issue or pull request, of any length: foreign text is shown as
    code, and mentions, links and HTML in it do nothing.
    """
    with open_judged(db) as store:
        text = brief_markdown(store, trace) if as_markdown else brief_text(store, trace)
    print_json({"brief": text}) if as_json else click.echo(text, nl=not as_markdown)


@click.command(epilog=examples("arc diagnose shop-many-wishes-v5-0", "arc diagnose last --json"))
@click.argument("trace", type=RUN_NAME)
@click.option("--rule", type=click.Choice(["arc"]), help="Print the baseline heuristic only.")
@json_option
@db_option
def diagnose(trace: str, rule: str | None, as_json: bool, db: Path | None) -> int:
    """List up to three break candidates with their signals. Exit code 1: there is none."""
    with open_judged(db) as store:
        view = build_diagnose(store, trace)
    if as_json:
        print_json(view)
    elif rule == "arc":
        console().print(Text(view.baseline_line))
    else:
        for line in view.lines():
            console().print(Text(line))
    found = view.published is not None if rule == "arc" else bool(view.candidates)
    return 0 if found else 1


LONG = 2000
"""Characters of one value printed before the rest is only counted; `--json` has all of it."""


def print_trace(out: Console, view: TraceView) -> None:
    """Head, what is known for certain, candidates, the tree with every branch open, tags."""
    row = view.run
    mark = format.outcome_mark(row.outcome, warned=bool(row.warnings))
    name = " · ".join(filter(None, [row.task, row.trial and f"trial {row.trial}"]))
    head = Text(f"{row.trace[:8]}  ").append(format.one_line(name or row.title or row.source_id))
    head.append("  ").append_text(mark).append(f" {row.outcome_value or row.outcome}")
    caps = caps_text(row)
    out.print(head.append(f"  {caps}") if caps else head)
    if name and row.title:
        out.print(Text(format.one_line(row.title)), style="dim")
    out.print(
        f"{format.count(row.steps, 'step')} · {format.count(row.calls, 'call')} · "
        f"{format.count(row.errors, 'error')} · {row.models or 'model unknown'} · "
        f"{format.duration(row.duration_ns)} · "
        f"{format.usd(row.cost_usd, complete=row.cost_complete)} · "
        f"fidelity {row.fidelity or format.UNKNOWN}"
        + (f", {row.masked} masked" if row.masked else ""),
        soft_wrap=True,
    )
    for recorded in environment_lines(row):
        out.print(Text(recorded), style="dim", soft_wrap=True)
    for fact in view.known:
        out.print(Text(format.one_line(fact.line)), soft_wrap=True)
    for candidate in view.diagnosis.candidates if view.diagnosis else ():
        out.print(
            Text(f"candidate: step {candidate.step} · {format.one_line(candidate_text(candidate))}")
        )
    for each in view.judged:
        out.print(Text(judged_line(each)), soft_wrap=True)
    if not view.marked:
        out.print("No break candidates.", style="dim")
    out.print()
    for line in visible(view.tree, opened=EveryBranch(), closed=()):
        out.print(tree_line(line, view.marked), soft_wrap=True)
    for tag in view.tags:
        said = f"{class_label(tag.failure, tag.sub)} · by {tag.by} {tag.why or ''}"
        out.print(Text(f"tag: step {tag.step} · {format.one_line(said)}"))


def print_trace_json(view: TraceView) -> None:
    """The view, its tree no deeper than readers of JSON can bear."""
    print_json(structs.replace(view, tree=limit_depth(view.tree, EveryBranch())))


def tree_line(row: TreeRow, marked: Collection[int]) -> Text:
    """A line of the printed tree; the steps that are `marked` are candidates."""
    branch = row.branch
    number = f"{branch.step:>4} " if branch.role == "step" and branch.step is not None else "     "
    label = format.cut(format.one_line(branch.label), 110)
    line = Text(number, "dim").append(indent(row, "  "))
    if branch.count > 1:
        line.append(f"×{branch.count} ", "bold")
    line.append(label, "red" if branch.status == "error" else "")
    if branch.status == "error":
        line.append(" ✗", "red")
    if branch.role == "step" and branch.step in marked:
        line.append(" ◆", "bold yellow")
    return line


def print_step(out: Console, trace: TraceView, view: StepView) -> None:
    """The reasons, what is new in the request, the response, the tool results."""
    from arc_tui.features.trace.pages import why_page

    row = view.row
    out.print(
        f"step {row.step} · {row.model or 'model unknown'} · {format.duration(row.latency_ns)} · "
        f"{format.tokens(row.input_tokens)} tokens in, {format.tokens(row.output_tokens)} out · "
        f"{format.usd(row.cost_usd)} · fidelity {view.fidelity.value}"
        + (f", {row.masked} masked" if row.masked else "")
    )
    for reason in view.reasons:
        out.print(f"  {reason}", style="dim")
    _head(out, "why")
    _print_document(out, why_page(trace, view))
    _head(out, f"request · {view.earlier_line}")
    for said in view.new:
        _print_said(out, said)
    _head(out, "response")
    if view.response is not None:
        _print_said(out, view.response)
    if view.observations:
        _head(out, "tool results")
    for seen in view.observations:
        _print_seen(out, seen)


def _print_document(out: Console, document: Document) -> None:
    """A page of the app, its folds open, commands in place of keys."""
    for each in document:
        item = each.without_keys(_command) if isinstance(each, HintBlock) else each
        if isinstance(item, Fold):
            _print_document(out, item.inside())
            continue
        text = Text(" " * (item.indent + INDENT))
        text.append(f"{item.label:<{LABEL}}" if item.label else "", "dim")
        text.append(_long(item.text), "bold" if item.style in ("head", "candidate") else "")
        out.print(text.append(f"   {item.aside}" if item.aside else "", "dim"), soft_wrap=True)


def _command(words: Sequence[str]) -> str:
    return shlex.join(with_database(words))


def _head(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, "bold"))


def _pair(name: str, text: str) -> Text:
    return Text(f"  {name:<10} ", "dim").append(format.plain(text))


def _print_said(out: Console, said: MessageView) -> None:
    if said.thinking:
        out.print(_pair("thinking", _long(said.thinking)))
    if said.text:
        out.print(_pair(said.role, _long(said.text)))
    for call in said.calls:
        _print_call(out, call)
    for result in said.results:
        out.print(_pair("result", _long(result)))


def _print_call(out: Console, call: CallView) -> None:
    """A call; what it writes into files as a diff, in place of arguments that say no more."""
    sent = "" if call.only_edits else _long(call.arguments)
    out.print(_pair("calls", f"{call.name} {sent}".rstrip()))
    for edit in call.edits:
        out.print(_pair("", edit.head))
        for line in edit.lines[:DIFF_LINES]:
            out.print(_pair("", line.text), style=_DIFF_STYLES[line.kind], highlight=False)
        rest = len(edit.lines) - DIFF_LINES
        if rest > 0:
            out.print(_pair("", f"… {format.count(rest, 'more line')} (--json has all)"))


DIFF_LINES = 100
"""Lines of one edit printed before the rest is only counted; `--json` has all of it."""

_DIFF_STYLES = {"new": "green", "gone": "red", "place": "cyan", "same": "", "name": "bold"}


def _print_output(out: Console, output: OutputView) -> None:
    """Test output from its first to its last failing check."""
    if output.above.strip():
        out.print(_pair("", f"… {output.above_line} (--json has all)"))
    out.print(_pair("", _long(output.part)))
    if output.below.strip():
        out.print(_pair("", f"… {output.below_line} (--json has all)"))


def _print_seen(out: Console, seen: Seen) -> None:
    from arc_tui.views.code import output_view  # a run without a step shows no output

    took = f" ({format.duration(seen.duration_ns)})" if seen.duration_ns is not None else ""
    output = output_view(seen.result)
    counts = f" · {output.counts}" if output else ""
    out.print(_pair("error" if seen.error else "result", f"{seen.call.name}{took}{counts}"))
    if output is not None:
        _print_output(out, output)
        return
    shown = "not recorded" if seen.result is None else _long(seen.result)
    out.print(_pair("", shown))


def _long(text: str) -> str:
    if len(text) <= LONG:
        return text
    return f"{text[:LONG]}\n… {format.number(len(text) - LONG)} more characters (--json has all)"
