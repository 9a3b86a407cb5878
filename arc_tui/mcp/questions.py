"""The tools that read one run: what is known of it, where it broke, what stands at a step, how it
differs from another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from arc_tui.mcp.answers import ROOM, Answer, call, cut, line, page, shares, short, window
from arc_tui.ui import format
from replay import digests
from replay.errors import ArcError, NotFound, no_step
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_row
from taxonomy.query.listing import RunRow, runs_at, siblings

if TYPE_CHECKING:
    from arc_tui.views.step import StepView

Run = Annotated[
    str,
    Meta(
        description="A run: its id or the beginning of it, task/trial, or `last`.",
        min_length=1,
        max_length=200,
    ),
]
Query = Annotated[
    str,
    Meta(
        description="Which runs, as in `arc ls`: outcome:failed tag:loop steps>5 cost>0.5; a plain"
        " word matches task, title, model, class and reason. Empty: all.",
        max_length=300,
    ),
]
Offset = Annotated[int, Meta(description="Begin at this line of the answer.", ge=0)]
StepNumber = Annotated[int, Meta(description="The number of a step, from 0.", ge=0)]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool takes, as its schema says."""


def run_row(store: Store, name: str) -> TraceRow:
    """The run of that name. What a name may have meant is said by ids alone: a task or a title is
    the run's own text, and would stand outside of what is marked as such.

    Raises NotFound, and ArcError where it means several.
    """
    try:
        return trace_row(store, name)
    except NotFound as error:
        near = _IDS.findall(error.hint)
        hint = "" if near else "Try: list_runs()"
        raise NotFound("run", name, near, hint=hint) from None
    except ArcError as error:
        near = _IDS.findall(error.hint)
        raise ArcError(error.message, f"Try: one of {', '.join(near)}") from None


_IDS = re.compile(r"\b([0-9a-f]{8}) \(")


def then(tool: str, **arguments: object) -> str:
    """What says how to read on."""
    return f"Call {call(tool, **arguments)}."


# --- brief and diagnose


class Brief(Arguments, frozen=True, kw_only=True):
    run: Run


def brief(store: Store, given: Brief) -> Answer:
    """What is known of a run. Raises NotFound."""
    from arc_tui.views.brief import brief_text

    row = run_row(store, given.run)
    key = short(row.trace)
    lines = brief_text(store, row.trace, commands=False).splitlines()
    data, left = page(lines, 0, lambda _: then("diagnose", run=key))
    calls = [call("step", run=key, step=_first_candidate(store, row.trace) or 0)]
    calls += [call("diagnose", run=key), call("step", run=key)]
    better = next((each for each in _siblings(store, row.trace) if each.outcome == "passed"), None)
    if row.outcome == "failed" and better is not None:  # of the same task
        calls.append(call("compare", a=key, b=short(better.trace)))
    return Answer(says=f"Run {key}.", data=data, left_out=left, calls=tuple(calls))


def _siblings(store: Store, trace: str) -> tuple[RunRow, ...]:
    (row,) = runs_at(store, [trace]) or (None,)
    return () if row is None else siblings(store, row)


class Diagnose(Arguments, frozen=True, kw_only=True):
    run: Run
    offset: Offset = 0


def diagnose(store: Store, given: Diagnose) -> Answer:
    """The break candidates of a run and what they rest on. Raises NotFound."""
    from arc_tui.views.trace import build_diagnose
    from taxonomy.judgements.diagnoses import undiagnosed

    view = build_diagnose(store, run_row(store, given.run).trace)
    key = short(view.trace)
    everything = f"(`arc diagnose {key} --json` has all)"
    lines = [line(each).replace("(--json has all)", everything) for each in view.lines()]
    data, left = page(lines, given.offset, lambda last: then("diagnose", run=key, offset=last))
    steps = tuple(dict.fromkeys(each.step for each in view.candidates))
    names = format.steps_named(steps) if steps else ""
    says = f"Run {key}: break candidates at {names}." if steps else f"Run {key}: no candidate."
    if steps:
        says += " A candidate is a guess with evidence: read the step before you rely on it."
    if view.trace in undiagnosed(store):
        says += " Not analysed by the current rules yet: `arc ls` does that."
    calls = [call("step", run=key, step=each) for each in steps] or [call("step", run=key)]
    if steps:
        calls.append(_tag_call(key, steps[0]))
    return Answer(says=says, data=data, left_out=left, calls=tuple(calls))


def _first_candidate(store: Store, trace: str) -> int | None:
    from taxonomy.query.failures import break_and_notice

    return break_and_notice(store, trace)[0]


def _tag_call(key: str, step: int) -> str:
    return call(
        "tag", run=key, step=step, class_="…", why="…", quote="words of the step", agent="your name"
    )


# --- step


class Step(Arguments, frozen=True, kw_only=True):
    run: Run
    step: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="The number of a step, from 0. Left out: the list of all steps."),
    ] = None
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="With a step: its whole text from this character on. Without: begin at this"
            " line of the list."
        ),
    ] = None


def step(store: Store, given: Step) -> Answer:
    """A step, its long texts cut; or from a character on; or the list of steps. Raises NotFound."""
    row = run_row(store, given.run)
    if given.step is None:
        return _steps(store, row, given.offset or 0)
    view = step_of(store, row, given.step)
    if given.offset is None:
        return _overview(view, row.steps)
    return _step_text(view, row.steps, given.offset)


def step_of(store: Store, row: TraceRow, number: int) -> StepView:
    """A step of a run. Raises NotFound."""
    from arc_tui.views.step import build_step

    try:
        return build_step(store, row.trace, number)
    except IndexError as error:
        raise no_step(number, row.steps) from error


def step_uri(trace: str, number: int, offset: int = 0) -> str:
    """The resource that holds the whole text of a step."""
    return f"arc://run/{short(trace)}/step/{number}{f'/from/{offset}' if offset else ''}"


def step_document(view: StepView) -> str:
    """The whole text of a step: why, what was new to the model, its answer, what came back, and
    where they are new the system prompt and the tools."""
    from arc_tui.views.step import step_markdown

    parts = [step_markdown(view)]
    if view.system is not None and (view.before is None or view.system_changed):
        parts.append(f"### System prompt\n\n{format.fenced(view.system)}\n")
    if view.tools is not None and view.before is None:
        parts.append(f"### Tools offered\n\n{', '.join(map(format.one_line, view.tools))}\n")
    return format.plain("\n".join(parts))


def _step_text(view: StepView, steps: int, offset: int) -> Answer:
    text = step_document(view)
    part, end = window(text, offset, ROOM)
    key, number = short(view.trace), view.row.step
    if not part:
        raise ArcError(f"step {number} has {len(text)} characters, none from {offset} on")
    says = (
        f"Run {key}, step {number}: characters {format.number(offset)} to {format.number(end)} of"
        f" {format.number(len(text))}."
    )
    if end >= len(text):
        return Answer(says=says, data=part, calls=_step_calls(view, steps))
    following = call("step", run=key, step=number, offset=end)
    return Answer(
        says=says,
        data=part,
        left_out=f"Left out: {format.number(len(text) - end)} characters after these.",
        calls=(following,),
    )


def _overview(view: StepView, steps: int) -> Answer:
    row, key = view.row, short(view.trace)
    pieces = list(_pieces(view))
    most = max(shares([len(text) for _, text in pieces], ROOM - 30 * len(pieces)), _LEAST)
    lines = [f"{label}: {cut(text, most)}" for label, text in pieces]
    kept = list(islice(lines, _fitting(lines)))
    cut_short = len(kept) < len(lines) or any(len(text) > most for _, text in pieces)
    whole = format.number(len(step_document(view)))
    read = call("step", run=key, step=row.step, offset=0)
    left = "Left out: parts of long texts. " if cut_short else ""
    left += f"The step as it was recorded, without what earlier ones saw, has {whole} characters:"
    left += f" call {read} or read {step_uri(view.trace, row.step)}."
    return Answer(
        says=f"Run {key}, step {row.step} of {format.number(steps)} (0 to {steps - 1}):"
        f" {format.tokens(row.input_tokens)} tokens in, {format.tokens(row.output_tokens)} out,"
        f" {format.usd(row.cost_usd)}, {format.duration(row.latency_ns)}, fidelity"
        f" {view.fidelity.value}. {view.earlier_line[:1].upper()}{view.earlier_line[1:]}.",
        data="\n".join(kept),
        left_out=left,
        calls=_step_calls(view, steps),
    )


_LEAST = 120
"""Characters of each text that are shown in any case."""


def _fitting(lines: list[str]) -> int:
    """How many of them an answer holds."""
    used = 0
    for at, each in enumerate(lines):
        used += len(each) + 1
        if used > ROOM:
            return at
    return len(lines)


def _step_calls(view: StepView, steps: int) -> tuple[str, ...]:
    key, number = short(view.trace), view.row.step
    calls = [call("step", run=key, step=number + 1)] if number + 1 < steps else []
    calls += [call("step", run=key, step=view.before)] if view.before is not None else []
    return (*calls, _tag_call(key, number), call("estimate", run=key, system="…"))


def _pieces(view: StepView) -> Iterator[tuple[str, str]]:
    """The texts of a step with what each is, those first that matter most."""
    from arc_tui.views.evidence import finding_kind
    from taxonomy.classes import class_label

    if view.row.model is not None:
        yield "model", format.one_line(view.row.model)
    for finding in view.findings:
        hint = "hint, not counted · " if finding.is_hint else ""
        named = class_label(finding.failure, finding.sub)
        yield "finding", f"{hint}{finding_kind(finding)} · {named} · {format.one_line(finding.why)}"
        for each in finding.evidence[:2]:
            where = each.place or f"step {each.step}"
            yield f"  {format.one_line(each.role)}", f"{format.one_line(each.text)} [{where}]"
    response = view.response
    if response is None:
        yield "response", "not recorded"
    else:
        if response.thinking:
            yield "thinking", response.thinking
        if response.text:
            yield "says", response.text
        for made in response.calls:
            yield f"calls {format.one_line(made.name)}", made.arguments
    for seen in view.observations:
        kind = "error of" if seen.error else "result of"
        yield (
            f"{kind} {format.one_line(seen.call.name)}",
            ("not recorded" if seen.result is None else seen.result),
        )
    for said in view.new:
        label = f"new in the request, {format.one_line(said.role)}"
        if said.text:
            yield label, said.text
        for result in said.results:
            yield f"{label}, a result", result


def _steps(store: Store, run: TraceRow, offset: int) -> Answer:
    """A line a step: what it did."""
    from arc_tui.features.trace.command import tree_line
    from arc_tui.views.tree import EveryBranch, branches, visible
    from replay.store.rows import span_rows
    from taxonomy.judgements.diagnoses import diagnosis

    trace = run.trace
    said = diagnosis(store, trace, scores=False)
    marked = {each.step for each in said.candidates} if said else set()
    key = short(trace)
    tree = visible(branches(span_rows(store, trace)), opened=EveryBranch(), closed=())
    lines = [tree_line(row, marked).plain for row in tree]
    data, left = page(lines, offset, lambda last: then("step", run=key, offset=last))
    at = min(marked, default=0)
    return Answer(
        says=f"Run {key}: {format.count(run.steps, 'step')}. A line: step, what it did; ✗ an"
        " error, ◆ a break candidate.",
        data=data,
        left_out=left,
        calls=(call("step", run=key, step=at),) if run.steps else (),
    )


# --- compare


class Compare(Arguments, frozen=True, kw_only=True):
    a: Run
    b: Annotated[
        str,
        Meta(
            description="Another run, or a saved replay by its digest.",
            min_length=1,
            max_length=200,
        ),
    ]
    offset: Offset = 0


def compare(store: Store, given: Compare) -> Answer:
    """Two runs step by step. Raises NotFound."""
    from arc_tui.features.compare.pair import compare_markdown
    from arc_tui.features.compare.run import build_compare

    a, b = run_row(store, given.a).trace, given.b
    if not b.startswith(f"{digests.ALGORITHM}:"):
        try:
            b = run_row(store, b).trace
        except NotFound:
            if b.strip("0123456789abcdef"):  # else it may be the digits of a digest
                raise
    view = build_compare(store, a, b)
    lines = [
        line(each)
        for each in compare_markdown(view).splitlines()
        if each.strip("`") or not each  # its block of code stands in a mark of its own here
    ]
    data, left = page(
        lines,
        given.offset,
        lambda last: then("compare", a=short(a), b=given.b, offset=last),
    )
    keys = short(view.a.trace), short(view.b.trace)
    says = f"A is run {keys[0]}, B is {'run' if view.b.digest is None else 'a replay of run'}"
    says += f" {keys[1]}: {'the same' if view.same else 'they differ'}. {view.note.capitalize()}."
    at = view.rows[view.divergence] if view.divergence is not None else None
    calls = []
    if at is not None and at.a is not None:
        calls.append(call("step", run=keys[0], step=at.a))
    if at is not None and at.b is not None and view.b.digest is None:
        calls.append(call("step", run=keys[1], step=at.b))
    return Answer(
        says=says, data=data, left_out=left, calls=tuple(calls) or (call("brief", run=keys[0]),)
    )
