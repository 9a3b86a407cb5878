"""One of two that are compared: a run or a kept replay, and what a run may be compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from arc_tui.features.compare.view import (
    Prompt,
    Who,
)
from arc_tui.ui import format
from arc_tui.views.columns import run_name
from arc_tui.views.runs import run_row
from arc_tui.views.trace import build_tags
from replay import action, digests, kept, messages
from replay import kept as replays
from replay.alignment import Doing
from replay.edit.editor import Editor
from replay.errors import ArcError, NotFound
from replay.free.result import FreeCore
from replay.kept import Kept, of_trace
from replay.locked.run import Core
from replay.store import answers, edits, read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Step, Tool, Trace
from taxonomy.classes import class_label
from taxonomy.query.failures import verdict
from taxonomy.query.listing import RunRow, siblings

Known: TypeAlias = Mapping[int, tuple[str, ...]]
"""By step, what its calls brought; a step is left out where that of one is not known."""


class Side(Struct, frozen=True, eq=False, kw_only=True):
    """One of the two, with all that is compared of it."""

    who: Who
    doings: tuple[Doing, ...]
    tools: tuple[Tool, ...]
    prompt: Prompt
    known: Known = {}


def doing_of(trace: Trace, step: Step) -> Doing:
    """What a recorded step did."""
    return Doing(
        step=step.index,
        action=action.action(step.ask.response, step.ask.error),
        main=step.thread == trace.steps[0].thread,
    )


def offered(trace: Trace) -> tuple[Tool, ...]:
    """Every tool that was offered, as it was first."""
    found: dict[str, Tool] = {}
    for step in trace.steps:
        for tool in step.ask.request.tools or ():
            found.setdefault(tool.name, tool)
    return tuple(found.values())


def prompt_of(step: Step) -> Prompt:
    """What the model was told before a step, beside the conversation."""
    request = step.ask.request
    system = messages.text(request.system) if request.system is not None else None
    return Prompt(system=system, tools=request.tools)


LEAST_DIGITS = 6
"""Of a digest that is no trace's name."""


def build_side(store: Store, name: str) -> Side:
    """The run of that name (`trace_row`), or the kept replay whose digest begins so.

    Raises NotFound, and ArcError where a task or title means several runs.
    """
    if name.startswith(f"{digests.ALGORITHM}:"):
        return replayed(store, kept.begun(store, name))
    try:
        return _run(store, name)
    except NotFound:
        if len(name) < LEAST_DIGITS or name.strip("0123456789abcdef"):
            raise
        return replayed(store, kept.begun(store, name))


def _run(store: Store, name: str) -> Side:
    found = trace_row(store, name)
    row = run_row(found, verdict(store, found.trace))
    trace = read.load(store, row.trace)
    return Side(
        who=_who(store, row),
        doings=tuple(doing_of(trace, step) for step in trace.steps),
        tools=offered(trace),
        prompt=prompt_of(trace.steps[0]) if trace.steps else Prompt(),
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
        name=run_name(row, "/"),
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


def replayed(store: Store, kept: Kept) -> Side:
    """The side of a kept replay."""
    trace = read.load(store, kept.trace)
    if kept.kind == "locked":
        return _locked(store, trace, kept, replays.find(store, kept.digest))
    return _free(store, trace, kept, replays.find(store, kept.digest, FreeCore))


def _locked(store: Store, trace: Trace, kept: Kept, core: Core) -> Side:
    first = trace.steps[0].thread if trace.steps else ""
    doings, keys = [], []
    lacks = [
        f"step {row.step} was not asked again: {row.edited_refused or row.refused}"
        for row in core.rows
        if row.refused or row.edited_refused
    ]
    several = 1
    for row in core.rows:
        given = row.edited if core.edit is not None else row.control
        if given:
            doings.append(Doing(step=row.step, action=given[0].action, main=row.thread == first))
            keys.append(given[0].key)
            several = max(several, len(given))
    if several > 1:
        lacks.append("of the samples of a step the first is shown")
    server = core.edited_server if core.edited_model is not None else core.server
    return _side(store, trace, kept, doings, keys, server, lacks, core.edited_model or core.model)


def _free(store: Store, trace: Trace, kept: Kept, core: FreeCore) -> Side:
    first = trace.steps[0].thread if trace.steps else ""
    before = [
        doing_of(trace, step)
        for step in trace.steps
        if step.thread == core.thread and step.index < core.start
    ]
    own = [
        Doing(step=core.start + place, action=step.action, main=core.thread == first)
        for place, step in enumerate(core.steps)
        if step.action is not None
    ]
    lacks = [f"up to step {core.start} the free replay is the recording"] if core.start else []
    keys = [step.key for step in core.steps if step.key is not None]
    return _side(
        store, trace, kept, [*before, *own], keys, core.server, lacks, core.model, core.start
    )


def _side(
    store: Store,
    trace: Trace,
    kept: Kept,
    doings: Sequence[Doing],
    keys: Sequence[str],
    server: str,
    lacks: Sequence[str],
    model: str,
    start: int = 0,
) -> Side:
    row = run_row(trace_row(store, kept.trace), None)
    spent = _spent(store, keys, server)
    prompt, missing = _edited(store, trace, kept)
    return Side(
        who=Who(
            kind=kept.kind,
            trace=kept.trace,
            digest=kept.digest,
            name=f"{kept.kind} replay of {run_name(row, '/')}",
            task=row.task,
            edit=_edit_name(store, kept),
            model=model,
            steps=len(doings),
            calls=sum(len(each.action.calls) for each in doings),
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            tokens_complete=spent.tokens_complete,
            cost_usd=spent.cost_usd,
            cost_complete=spent.cost_complete,
            lacks=(*lacks, *missing),
            start=start,
        ),
        doings=tuple(doings),
        tools=offered(trace),
        prompt=prompt,
    )


def _edit_name(store: Store, kept: Kept) -> str | None:
    if kept.edit is None:
        return None
    return next((each.name for each in edits.listed(store) if each.digest == kept.edit), kept.edit)


def _edited(store: Store, trace: Trace, kept: Kept) -> tuple[Prompt, tuple[str, ...]]:
    """What a replay was told at the first step of its thread; why that is not known."""
    if not trace.steps:
        return Prompt(), ()
    if kept.edit is None:
        return prompt_of(trace.steps[0]), ()
    edit = next((each.edit for each in edits.listed(store) if each.digest == kept.edit), None)
    if edit is None:
        return Prompt(), ("its edit is not kept",)
    thread = edit.thread or trace.steps[0].thread
    step = next((each for each in trace.steps if each.thread == thread), trace.steps[0])
    try:
        request = Editor(edit, trace).request(step.ask.request, f"step {step.index}", step.index)
    except ArcError as error:
        return Prompt(), (f"what the edit makes of the prompt is not known: {error.message}",)
    system = messages.text(request.system) if request.system is not None else None
    return Prompt(system=system, tools=request.tools), ()


class _Spent(Struct, frozen=True, kw_only=True):
    input_tokens: int | None
    output_tokens: int | None
    tokens_complete: bool
    cost_usd: float | None
    cost_complete: bool


def _spent(store: Store, keys: Sequence[str], server: str) -> _Spent:
    """What the answers under some keys took, as far as they are kept."""
    kept = answers.get_all(store, keys, server)
    found = [kept[key] for key in keys if key in kept]
    usages = [u for each in found if isinstance(u := each.body.get("usage"), dict)]
    costs = [each.cost_usd for each in found if each.cost_usd is not None]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    read_in = [sum(int(usage.get(name) or 0) for name in names) for usage in usages]
    out = [int(usage.get("output_tokens") or 0) for usage in usages]
    return _Spent(
        input_tokens=sum(read_in) if usages else None,
        output_tokens=sum(out) if usages else None,
        tokens_complete=len(usages) == len(keys),
        cost_usd=sum(costs) if costs else None,
        cost_complete=len(costs) == len(keys),
    )


NONE = """no other run of this task, and no kept replay of this one

mark another run in the list of runs with {mark}, then come back; or name one here"""


MOST = 200
"""Choices; whoever has more names one."""


class Sibling(Struct, frozen=True, kw_only=True):
    """Something to compare with: a `name` that finds it, what it is called, what is known of it."""

    name: str
    called: str
    about: str


class Siblings(Struct, frozen=True, eq=False, kw_only=True):
    """The choices of a run, best first: trials of its task that passed, the other trials, then the
    replays of it, the latest first."""

    trace: str
    called: str
    choices: tuple[Sibling, ...]


def build_siblings(store: Store, name: str) -> Siblings:
    """What a run may be compared with. Raises NotFound."""
    row = run_row(trace_row(store, name), None)
    trials = [_trial(each) for each in siblings(store, row)]
    named = {each.digest: each.name for each in edits.listed(store)}
    again = [
        Sibling(
            name=kept.digest,
            called=f"{kept.kind} replay",
            about=" · ".join(
                [
                    f"edit {format.one_line(named.get(kept.edit, kept.edit))}"
                    if kept.edit is not None
                    else "no edit",
                    format.one_line(kept.model),
                    edits.short(kept.digest),
                ]
            ),
        )
        for kept in of_trace(store, row.trace)
    ]
    return Siblings(
        trace=row.trace, called=run_name(row, "/"), choices=tuple([*trials, *again][:MOST])
    )


def _trial(row: RunRow) -> Sibling:
    mark = format.outcome_mark(row.outcome, warned=bool(row.warnings)).plain
    variant = f"variant {format.one_line(row.variant)}" if row.variant else ""
    facts = [
        format.one_line(row.outcome_value) or row.outcome,
        variant,
        format.count(row.steps, "step"),
        format.one_line(row.models),
        row.trace[:8],
    ]
    return Sibling(
        name=row.trace,
        called=f"{mark} {run_name(row, '/')}",
        about=" · ".join(each for each in facts if each),
    )
