"""A kept replay as one of two that are compared, as far as the database keeps it.

A replay is kept as what was done at each step, with the key of each answer. What the tools said to
a free replay is kept as a digest alone; what a replay cost is that of its answers, as long as they
are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from arc_tui.views.compare.side import Prompt, Side, Who, did, offered, run_name, told
from arc_tui.views.runs.view import run_row
from replay import messages
from replay.alignment import Doing
from replay.edit import Editor
from replay.errors import ArcError
from replay.free.result import FreeCore
from replay.locked.result import Core
from replay.store import Store, answers, edits, read, replays
from replay.store.replays import Kept
from replay.store.rows import trace_row
from replay.trace import Trace


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
        did(trace, step)
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
            name=f"{kept.kind} replay of {run_name(row)}",
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
        return told(trace.steps[0]), ()
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
