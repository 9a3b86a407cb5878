"""Runs of any size in the shapes that readers may be slow on, and what each part of `arc` takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from arc_tui import importing
from arc_tui.features.report.html import render
from arc_tui.features.report.run import build_run_page
from arc_tui.features.trace.command import print_trace, print_trace_json
from arc_tui.features.trace.pages import why_page
from arc_tui.features.trace.search import filter_branches, steps_labelled
from arc_tui.views.trace import build_beginning, build_trace
from arc_tui.views.tree import path_to, visible
from replay.store.handle import Store
from replay.store.rows import step_rows
from taxonomy.audit.probes import audit_one
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.query.failures import run_heads
from tests.replay import otlp_case as otlp

Value = dict[str, Any]
Spans = Iterator[Value]


def _agent(name: str = "root", parent: str | None = None) -> Value:
    return otlp.span(
        name, 0, parent,
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"},
    )  # fmt: skip


def _asks(at: int, parent: str = "root", **more: Any) -> Value:
    given = [{"role": "user", "parts": [{"type": "text", "content": "Where is order 7?"}]}]
    said = {"role": "assistant", "parts": [{"type": "text", "content": f"I look at place {at}."}]}
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "model-x",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([said]),
        "gen_ai.usage.input_tokens": 10,
    }
    return otlp.span(f"m{at:07}", at, parent, attributes, **more)


def _calls(at: int, parent: str = "root", order: int = 7) -> Value:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_order",
        "gen_ai.tool.call.id": f"c{at}",
        "gen_ai.tool.call.arguments": json.dumps({"order": order}),
        "gen_ai.tool.call.result": json.dumps({"order": order, "state": "lost"}),
    }
    return otlp.span(f"t{at:07}", at, parent, attributes)


def _nested(size: int) -> Spans:
    """Spans that only group, one in another, and a call below them all."""
    yield _agent()
    above = "root"
    for at in range(size):
        yield otlp.span(f"g{at:07}", at, above)
        above = f"g{at:07}"
    yield _asks(size, above)


def _nested_backwards(size: int) -> Spans:
    yield from reversed([*_nested(size)])


def _nested_calls(size: int) -> Spans:
    """A model call in a model call."""
    yield _agent()
    for at in range(size):
        yield _asks(at, f"m{at - 1:07}" if at else "root")


def _nested_agents(size: int) -> Spans:
    """Agents that delegate by a tool, each below the other."""
    yield _agent()
    above = "root"
    for at in range(size // 3):
        yield _calls(at, above, at)
        yield _agent(f"a{at:07}", f"t{at:07}")
        above = f"a{at:07}"
        yield _asks(at, above)


def _long(size: int) -> Spans:
    yield _agent()
    yield from map(_asks, range(size))


def _repeated(size: int) -> Spans:
    """The same call again and again."""
    yield _agent()
    for at in range(size // 2):
        yield _asks(2 * at)
        yield _calls(2 * at + 1)


def _siblings(size: int) -> Spans:
    yield _agent()
    yield _asks(0)
    for at in range(size):
        yield otlp.span(f"s{at:07}", at + 1, "root")


def _calls_of_one(size: int) -> Spans:
    yield _agent()
    yield _asks(0)
    yield from (_calls(at + 1, "root", at) for at in range(size))


def _events(size: int) -> Spans:
    yield _agent()
    yield _asks(0, events=[otlp.event("note", {"number": at}) for at in range(size)])


SHAPES: dict[str, Callable[[int], Spans]] = {
    "depth": _nested,
    "depth, the deepest first": _nested_backwards,
    "depth of model calls": _nested_calls,
    "depth of agents": _nested_agents,
    "length": _long,
    "repeats": _repeated,
    "siblings": _siblings,
    "calls beside each other": _calls_of_one,
    "events of a span": _events,
}


def put(path: Path, shape: str, size: int) -> Path:
    path.write_text(json.dumps(otlp.spans(*SHAPES[shape](size))) + "\n")
    return path


# --- what is done with it


def _import(store: Store, path: Path) -> None:
    (file,) = importing.run_to_end(importing.take_in(store, [path])).files
    assert file.traces, file.error


def _diagnose(store: Store, _: Path) -> None:
    (key,) = undiagnosed(store)
    importing.diagnose_one(store, key)


def _audit(store: Store, _: Path) -> None:
    (head,) = run_heads(store)
    audit_one(store, head.trace, 1)


def _print(store: Store, _: Path) -> None:
    print_trace(Console(file=StringIO(), width=160), build_trace(store, "last"))


def _print_json(store: Store, _: Path) -> None:
    print_trace_json(build_trace(store, "last"))


def _open(store: Store, _: Path) -> None:
    """What the trace screen asks for as it opens, filters its tree, and goes to its last step."""
    build_beginning(store, "last")
    view = build_trace(store, "last", drawn=True)
    visible(view.tree, (), ())
    last = list(step_rows(store, view.run.trace))[-1]
    assert path_to(view.tree, last.span)
    filter_branches(view.tree, steps_labelled(view.tree, "place"))


def _report(store: Store, _: Path) -> None:
    render(build_run_page(store, "last", why_page), store.redactor)


PARTS: dict[str, Callable[[Store, Path], None]] = {
    "import": _import,
    "diagnosis": _diagnose,
    "audit": _audit,
    "show": _print,
    "show --json": _print_json,
    "trace view": _open,
    "report": _report,
}


# --- what it takes


@contextmanager
def counted(store: Store) -> Iterator[list[int]]:
    """How many calls Python made, and hundreds of steps SQLite's machine took, meanwhile."""
    found = [0]

    def call(*event: object) -> None:
        found[0] += event[1] in ("call", "c_call")

    def step() -> int:
        found[0] += 1
        return 0

    store.db.set_progress_handler(step, 100)
    before = sys.getprofile()
    sys.setprofile(call)
    try:
        yield found
    finally:
        sys.setprofile(before)
        store.db.set_progress_handler(None, 0)
