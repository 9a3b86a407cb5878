"""Two sides laid side by side: which steps answer to each other, and where the two diverge. A side
is a run or a kept replay; beside it what a run may be compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, structs

from arc_tui.features.compare.view import (
    CompareRow,
    CompareView,
    Delta,
    Mark,
    Prompt,
    PromptDiff,
    Who,
    action_phrase,
    unknown_prompts,
    what,
    with_sentence,
)
from arc_tui.ui import format
from arc_tui.ui.diff import word_counts
from arc_tui.views.columns import run_name
from arc_tui.views.known import check_lines, gold_lines
from arc_tui.views.runs import run_row
from arc_tui.views.trace import build_tags
from replay import action, digests, messages
from replay.alignment.rows import Doing, Row, agreed_tools, parting, rows, rows_of_pairs
from replay.compare.rules import PLAIN, Rules
from replay.edit.editor import Editor
from replay.errors import ArcError, NotFound
from replay.free.result import FreeCore
from replay.kept import Kept, begun, find, of_trace
from replay.locked.run import Core
from replay.store import answers, edits, read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Step, Tool, Trace
from taxonomy.classes import class_label
from taxonomy.evidence.gold_differences import compare_to_gold
from taxonomy.evidence.reading import Reading
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.golds import with_own_gold
from taxonomy.query.failures import verdict
from taxonomy.query.listing import RunRow, siblings

# --- one of the two

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


def build_side(store: Store, name: str, rules: Rules = PLAIN) -> Side:
    """The run of that name (`trace_row`), or the kept replay whose digest begins so. `rules` say
    what of the arguments counts against gold.

    Raises NotFound, and ArcError where a task or title means several runs.
    """
    if name.startswith(f"{digests.ALGORITHM}:"):
        return replayed(store, begun(store, name))
    try:
        return _run(store, name, rules)
    except NotFound:
        if len(name) < LEAST_DIGITS or name.strip("0123456789abcdef"):
            raise
        return replayed(store, begun(store, name))


def _run(store: Store, name: str, rules: Rules) -> Side:
    found = trace_row(store, name)
    row = run_row(found, verdict(store, found.trace))
    trace = with_own_gold(store, read.load(store, row.trace))
    gold = compare_to_gold(Reading(trace), rules) if trace.header.reference else None
    said = diagnosis(store, row.trace)
    known = (*(gold_lines(gold) if gold else ()), *(check_lines(said.checks) if said else ()))
    return Side(
        who=structs.replace(_who(store, row), known=known),
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
            f"{class_label(tag.failure, tag.sub)} at step {tag.step}"
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
        return _locked(store, trace, kept, find(store, kept.digest))
    return _free(store, trace, kept, find(store, kept.digest, FreeCore))


def _locked(store: Store, trace: Trace, kept: Kept, core: Core) -> Side:
    first = trace.steps[0].thread if trace.steps else ""
    doings, keys = [], []
    lacks = [
        f"step {row.step} not replayed: {row.edited_refused or row.refused}"
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
        lacks.append("only the first sample of each step is shown")
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
    starts = f"the free replay starts at step {core.start}; steps before it are recorded"
    lacks = [starts] if core.start else []
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
        return Prompt(), ("edit not saved",)
    thread = edit.thread or trace.steps[0].thread
    step = next((each for each in trace.steps if each.thread == thread), trace.steps[0])
    try:
        request = Editor(edit, trace).request(step.ask.request, f"step {step.index}", step.index)
    except ArcError as error:
        return Prompt(), (f"prompt after the edit unknown: {error.message}",)
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


# --- both beside each other

FIGURES = ("steps", "calls", "errors", "input_tokens", "output_tokens", "cost_usd", "duration_ns")


def build_compare(store: Store, a: str, b: str, rules: Rules = PLAIN) -> CompareView:
    """Two runs, or a run and a kept replay, by the names of `build_side`. `rules` say what of the
    arguments counts.

    Raises NotFound, and ArcError where a name means several.
    """
    return compared(build_side(store, a, rules), build_side(store, b, rules), rules)


def compared(first: Side, second: Side, rules: Rules = PLAIN) -> CompareView:
    """The view of two sides."""
    is_locked = second.who.kind == "locked" and first.who.key == second.who.trace
    lacks = (*first.who.lacks, *second.who.lacks)
    mine, other = first.doings, second.doings
    followed = {each.main for side in (first, second) for each in _followed(side)}
    if followed and {each.main for each in (*mine, *other)} != followed:
        mine, other = (tuple(d for d in each if d.main in followed) for each in (mine, other))
        lacks = (*lacks, "the free replay covers one thread; steps of other threads are left out")
    tools = agreed_tools(first.tools, second.tools)
    laid = _by_step if is_locked else rows
    made = laid(mine, other, tools, rules)
    shown = tuple(_row(row, first.known, second.known) for row in made)
    parts = parting(row.standing for row in made)
    prompts = _prompts(first.prompt, second.prompt)
    view = CompareView(
        a=first.who,
        b=second.who,
        sentence="",
        same=False,
        rows=shown,
        deltas=_deltas(first.who, second.who),
        prompts=prompts,
        first=parts.first,
        lasting=None if is_locked else parts.lasting,
        again=parts.again,
        is_locked=is_locked,
        rules=rules.lines,
        lacks=(*lacks, *unknown_prompts(prompts)),
    )
    return with_sentence(view)


def _followed(side: Side) -> tuple[Doing, ...]:
    """The steps of a free replay, () of anything else."""
    return side.doings if side.who.kind == "free" else ()


def _by_step(
    mine: Sequence[Doing], other: Sequence[Doing], tools: Sequence[Tool], rules: Rules
) -> list[Row]:
    """The steps that were asked again, each beside itself."""
    by_step = {each.step: each for each in other}
    return [
        rows_of_pairs(each, by_step[each.step], tools, rules)
        for each in mine
        if each.step in by_step
    ]


def _row(row: Row, first: Known, second: Known) -> CompareRow:
    a = row.first.step if row.first is not None else None
    b = row.second.step if row.second is not None else None
    found, mark = row.difference, _mark(row)
    results = None
    if mark == "same" and a is not None and b is not None:
        results = _alike(first.get(a), second.get(b))
    doing = row.first or row.second
    return CompareRow(
        a=a,
        b=b,
        mark=mark,
        action_a=action_phrase(row.first.action) if row.first is not None else "",
        action_b=action_phrase(row.second.action) if row.second is not None else "",
        what=what(mark, found, results),
        kinds=found.kinds if found is not None else (),
        results=results,
        main=doing is None or doing.main,
    )


def _mark(row: Row) -> Mark:
    if row.regrouped:
        return "regrouped"
    if row.difference is None:
        return "only_b" if row.first is None else "only_a"
    if row.difference.same is None:
        return "inconclusive"
    return "same" if row.difference.same else "differs"


def _alike(mine: Sequence[str] | None, other: Sequence[str] | None) -> bool | None:
    """Did the same calls bring the same? None where that of one is not known, or none was made."""
    if not mine or not other:
        return None
    return sorted(mine) == sorted(other)


def _deltas(a: Who, b: Who) -> tuple[Delta, ...]:
    return tuple(_delta(name, a, b) for name in FIGURES)


def _delta(name: str, a: Who, b: Who) -> Delta:
    mine, other = getattr(a, name), getattr(b, name)
    whole = mine is not None and other is not None and a.whole(name) and b.whole(name)
    return Delta(name=name, a=mine, b=other, change=other - mine if whole else None)


def _prompts(a: Prompt, b: Prompt) -> PromptDiff:
    system = None if a.system is None or b.system is None else a.system != b.system
    added, removed = word_counts(a.system or "", b.system or "") if system else (0, 0)
    if a.tools is None or b.tools is None:
        return PromptDiff(a=a, b=b, system=system, words_added=added, words_removed=removed)
    mine, other = ({tool.name: tool for tool in each} for each in (a.tools, b.tools))
    return PromptDiff(
        a=a,
        b=b,
        system=system,
        tools=mine != other,
        words_added=added,
        words_removed=removed,
        tools_added=tuple(name for name in other if name not in mine),
        tools_removed=tuple(name for name in mine if name not in other),
        tools_changed=tuple(n for n in mine if n in other and mine[n] != other[n]),
    )


# --- what a run may be compared with

NONE = """No other run of this task and no saved replay of this run.

Select another run in the list of runs with {mark}, or type its name here."""


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
