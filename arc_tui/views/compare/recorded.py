"""A run as one of two that are compared, and the finding of either by its name."""

from __future__ import annotations

from arc_tui.views.compare.replayed import replayed
from arc_tui.views.compare.side import Prompt, Side, Who, did, offered, run_name, told
from arc_tui.views.runs.view import run_row
from arc_tui.views.trace.view import build_tags
from replay import canon, messages
from replay.errors import NotFound
from replay.store import Store, read, replays
from replay.store.rows import trace_row
from replay.trace import Step
from taxonomy.classes import class_label
from taxonomy.query import verdict
from taxonomy.query.listing import RunRow

LEAST_DIGITS = 6
"""Of a digest that is no trace's name."""


def build_side(store: Store, name: str) -> Side:
    """The run of that name (`trace_row`), or the kept replay whose digest begins so.

    Raises NotFound, and ArcError where a task or title means several runs.
    """
    if name.startswith(f"{canon.ALGORITHM}:"):
        return replayed(store, replays.begun(store, name))
    try:
        return _run(store, name)
    except NotFound:
        if len(name) < LEAST_DIGITS or name.strip("0123456789abcdef"):
            raise
        return replayed(store, replays.begun(store, name))


def _run(store: Store, name: str) -> Side:
    found = trace_row(store, name)
    row = run_row(found, verdict(store, found.trace))
    trace = read.load(store, row.trace)
    return Side(
        who=_who(store, row),
        doings=tuple(did(trace, step) for step in trace.steps),
        tools=offered(trace),
        prompt=told(trace.steps[0]) if trace.steps else Prompt(),
        known={
            step.index: tuple(brought)
            for step in trace.steps
            if (brought := _brought(step)) is not None
        },
    )


def _who(store: Store, row: RunRow) -> Who:
    return Who(
        kind="run",
        trace=row.trace,
        name=run_name(row),
        task=row.task,
        trial=row.trial,
        variant=row.variant,
        model=row.models,
        outcome=row.outcome,
        outcome_value=row.outcome_value,
        warned=bool(row.warnings),
        steps=row.steps,
        calls=row.calls,
        errors=row.errors,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        tokens_complete=row.tokens_complete,
        cost_usd=row.cost_usd,
        cost_complete=row.cost_complete,
        duration_ns=row.duration_ns,
        shape=row.shape,
        tags=tuple(
            f"{class_label(tag.failure, tag.sub)} at {tag.step}"
            for tag in build_tags(store, row.trace)
        ),
    )


def _brought(step: Step) -> list[str] | None:
    found = [messages.observed(a.observation).text for a in step.acts if a.observation is not None]
    return found if len(found) == len(step.acts) else None
