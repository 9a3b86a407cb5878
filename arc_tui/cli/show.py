"""A trace and a step as printed text: what the screens show, top to bottom."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import structs
from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_json, with_database
from arc_tui.views.trace.step import Said, Seen, StepView
from arc_tui.views.trace.tree import TreeRow, indent, levelled, visible
from arc_tui.views.trace.view import TraceView
from arc_tui.widgets.document import INDENT, LABEL, Document, Fold, Keyed
from arc_tui.widgets.trace.why_page import why_page
from taxonomy.classes import class_label

LONG = 2000
"""Characters of one value printed before the rest is only counted; `--json` has all of it."""


def print_trace(out: Console, view: TraceView) -> None:
    """Head, candidates, the tree with every branch open, tags."""
    row = view.run
    mark = format.outcome_mark(row.outcome, warned=bool(row.warnings))
    name = " · ".join(filter(None, [row.task, row.trial and f"trial {row.trial}"]))
    head = Text(f"{row.trace[:8]}  ").append(format.one_line(name or row.title or row.source_id))
    out.print(head.append("  ").append_text(mark).append(f" {row.outcome_value or row.outcome}"))
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
    for candidate in view.diagnosis.candidates if view.diagnosis else ():
        out.print(Text(f"break? step {candidate.step}: {format.one_line(candidate.why)}"))
    if not view.marked:
        out.print("no break found", style="dim")
    out.print()
    for line in visible(view.tree, opened=_All(), closed=()):
        out.print(_tree_line(line, view), soft_wrap=True)
    for tag in view.tags:
        said = f"{class_label(tag.failure, tag.sub)} by {tag.by} {tag.why or ''}"
        out.print(Text(f"tag  step {tag.step}: {format.one_line(said)}"))


def print_trace_json(view: TraceView) -> None:
    """The view, its tree no deeper than readers of JSON can bear."""
    print_json(structs.replace(view, tree=levelled(view.tree, _All())))


class _All(frozenset[str]):
    """Every branch is open."""

    def __contains__(self, _: object) -> bool:
        return True


def _tree_line(row: TreeRow, view: TraceView) -> Text:
    branch = row.branch
    number = f"{branch.step:>4} " if branch.role == "step" and branch.step is not None else "     "
    label = format.cut(format.one_line(branch.label), 110)
    line = Text(number, "dim").append(indent(row, "  "))
    if branch.count > 1:
        line.append(f"×{branch.count} ", "bold")
    line.append(label, "red" if branch.status == "error" else "")
    if branch.status == "error":
        line.append(" ✗", "red")
    if branch.role == "step" and branch.step in view.marked:
        line.append(" ◆", "bold yellow")
    return line


def print_step(out: Console, trace: TraceView, view: StepView) -> None:
    """Why, what was new in the request, what was said, what came back."""
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
        _head(out, "observations")
    for seen in view.observations:
        _print_seen(out, seen)


def _print_document(out: Console, document: Document) -> None:
    """A page of the app, its folds open, commands in place of keys."""
    for each in document:
        item = each.without_keys(_command) if isinstance(each, Keyed) else each
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


def _print_said(out: Console, said: Said) -> None:
    if said.thinking:
        out.print(_pair("thinking", _long(said.thinking)))
    if said.text:
        out.print(_pair(said.role, _long(said.text)))
    for call in said.calls:
        out.print(_pair("calls", f"{call.name} {_long(call.arguments)}"))
    for result in said.results:
        out.print(_pair("result", _long(result)))


def _print_seen(out: Console, seen: Seen) -> None:
    took = f" ({format.duration(seen.duration_ns)})" if seen.duration_ns is not None else ""
    out.print(_pair("error" if seen.error else "result", f"{seen.call.name}{took}"))
    shown = "not recorded" if seen.result is None else _long(seen.result)
    out.print(_pair("", shown))


def _long(text: str) -> str:
    if len(text) <= LONG:
        return text
    return f"{text[:LONG]}\n… {format.number(len(text) - LONG)} more characters (--json has all)"
