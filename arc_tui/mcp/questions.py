"""The tools that read: which runs there are, what is known of one, where it broke, what stands at a
step, which runs say a text, how two differ, and why runs fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct, field

from arc_tui.mcp.answers import ROOM, Answer, call, cut, line, page, shares, short, window
from arc_tui.ui import format
from replay import digests
from replay.errors import ArcError, NotFound, no_step
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_row
from taxonomy.classes import FailureClass
from taxonomy.query.listing import RunRow, held_out_note, run_order, run_totals, runs_at, siblings

if TYPE_CHECKING:
    from arc_tui.views.failures import BarRow, FailuresView
    from arc_tui.views.step import StepView
    from taxonomy.failures import RunBehind

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


# --- list_runs


class ListRuns(Arguments, frozen=True, kw_only=True):
    query: Query = ""
    sort: Annotated[
        Literal["newest", "outcome", "task", "steps", "cost", "time"],
        Meta(description="Failed first for outcome, most first for steps, cost and time."),
    ] = "newest"
    limit: Annotated[int, Meta(ge=1, le=50)] = 20
    offset: Annotated[int, Meta(description="Begin at this run of the list.", ge=0)] = 0


_ORDERED_BY = {"steps": "steps", "cost": "cost_usd", "time": "duration_ns"}


def list_runs(store: Store, given: ListRuns) -> Answer:
    """A line a run. Raises BadQuery."""
    from arc_tui.views.columns import BY_ID
    from arc_tui.views.runs import chosen
    from taxonomy.query.filter import without_tasks

    held = held_out_note(store)
    picked = without_tasks(held.hidden) & chosen(store, given.query)
    order = () if given.sort == "newest" else BY_ID[_ORDERED_BY.get(given.sort, given.sort)].order
    traces = run_order(store, picked, order=order)
    if given.sort == "newest":
        traces.reverse()
    totals = run_totals(store, picked)
    rows = runs_at(store, traces[given.offset : given.offset + given.limit])
    data, _ = page([_run_line(row) for row in rows], 0, str)
    shown = len(data.splitlines())
    more = len(traces) - given.offset - shown
    asked = f" that match {given.query!r}" if given.query else ""
    says = f"{format.count(totals.runs, 'run')}{asked}, {format.number(totals.failed)} failed."
    if rows:
        says += (
            f" Shown: {given.offset + 1} to {given.offset + shown}, {given.sort} first. A line: id,"
            " outcome, name, variant, steps, input tokens, cost, time, first reason."
        )
    elif not totals.runs and not asked:
        says += " Runs come in by `arc import PATH` or `arc record -- COMMAND`."
    left = f"Left out: {format.count(more, 'more run')}." if rows and more > 0 else ""
    if held.runs:
        left += f" {format.count(held.runs, 'run')} of held-out tasks hidden: a person shows them."
    following = given.offset + shown
    again = call(
        "list_runs",
        query=given.query or None,
        sort=None if given.sort == "newest" else given.sort,
        offset=following,
    )
    first = next((row for row in rows if row.outcome == "failed"), rows[0] if rows else None)
    calls = [] if first is None else [call("brief", run=short(first.trace))]
    calls += [again] if rows and more > 0 else []
    calls += [call("list_runs")] if not rows and asked else []
    return Answer(says=says, data=data, left_out=left.strip(), calls=tuple(calls))


def _run_line(row: RunRow) -> str:
    """`3f2a… · failed · task · trial · v5 · 8 steps · 12k tokens · $0.01 · 4 s · step 4 · why`."""
    from arc_tui.views.columns import BY_ID, run_name

    outcome, variant, tokens, cost, time, why = (
        BY_ID[each].text_of(row)
        for each in ("outcome", "variant", "input_tokens", "cost_usd", "duration_ns", "why")
    )
    facts = [
        f"{row.outcome} ({outcome})" if outcome != row.outcome else outcome,
        format.cut(run_name(row), 80),
        variant,
        format.count(row.steps, "step"),
        "" if row.input_tokens is None else f"{tokens} tokens",
        cost,
        time,
        format.cut(why, 120),
    ]
    said = (each for each in facts if each not in ("", format.UNKNOWN))
    return line(" · ".join((short(row.trace), *said)))


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


# --- search


class Search(Arguments, frozen=True, kw_only=True):
    text: Annotated[
        str,
        Meta(
            description="Words that stand together, from the start of a word on; case is ignored.",
            min_length=1,
            max_length=300,
        ),
    ]
    query: Query = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 20


def search(store: Store, given: Search) -> Answer:
    """The runs that contain a text, and where. Raises BadQuery."""
    from arc_tui.features.runs.command import build_found
    from arc_tui.views.columns import run_name

    found = build_found(store, given.text, given.limit, query=given.query)
    lines = []
    for each in found.runs:
        at = "no step" if each.step is None else f"step {each.step}"
        name = format.cut(run_name(each.row), 60)
        facts = (short(each.row.trace), each.row.outcome, name, at, each.excerpt)
        lines.append(line(" · ".join(map(format.one_line, facts))))
    data, _ = page(lines, 0, str)
    shown = len(data.splitlines())
    asked = f" among those that match {given.query!r}" if given.query else ""
    if not found.runs:
        return Answer(says=f"No run contains {given.text!r}{asked}.", calls=(call("list_runs"),))
    held = held_out_note(store)
    left = f"Left out: {len(lines) - shown} of these." if shown < len(lines) else ""
    if found.more:
        left += f" There are more than {given.limit}: narrow them by query, or raise limit."
    if held.runs:
        left += " Runs of held-out tasks are not searched."
    calls = [
        call("step", run=short(each.row.trace), step=each.step)
        for each in found.runs[:2]
        if each.step is not None
    ]
    return Answer(
        says=f"{format.count(shown, 'run')} with {given.text!r}{asked}, the latest messages first."
        " A line: id, outcome, name, the first step that has it, the text around.",
        data=data,
        left_out=left.strip(),
        calls=tuple(calls) or (call("brief", run=short(found.runs[0].row.trace)),),
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


# --- failures


class Failures(Arguments, frozen=True, kw_only=True):
    query: Query = ""
    class_: Annotated[
        str,
        Meta(
            description=f"The runs behind one class: {', '.join(FailureClass)}; or untagged.",
            max_length=100,
        ),
    ] = field(default="", name="class")
    offset: Offset = 0


UNTAGGED = "untagged"
"""The class of the runs that nobody says anything of."""


def failures(store: Store, given: Failures) -> Answer:
    """How many failed runs show each class; or the runs behind one. Raises BadQuery, NotFound."""
    from arc_tui.config import read_owners
    from arc_tui.ui.tables import counted
    from arc_tui.views.failures import FailuresRequest, build_failures, owner, rows_named

    if given.class_ and given.class_ not in (*FailureClass, UNTAGGED):
        near = get_close_matches(given.class_, [*FailureClass, UNTAGGED], n=1)
        raise NotFound("failure class", given.class_, near or [*FailureClass, UNTAGGED])
    view = build_failures(store, FailuresRequest(query=given.query), read_owners())
    query = given.query or None
    held = view.held_out.runs
    hidden = f" {format.count(held, 'run')} of held-out tasks not counted." if held else ""
    asked = f" among runs that match {given.query!r}" if given.query else ""
    if given.class_:
        return _behind(view, rows_named(view, given.class_), given, f"{asked}.{hidden}")
    lines = []
    for row in view.rows:
        if row.of == "heading":
            lines.append(f"{row.label}:")
            continue
        whose = owner(row.bar) if row.bar is not None else ""
        said = f" ({row.tagged} tagged by a person)" if row.bar is not None else ""
        first = row.runs[0] if row.runs else None
        at = "" if first is None or first.step is None else f" step {first.step}"
        example = "" if first is None else f", such as run {short(first.trace)}{at}"
        owned = f", owner {whose}" if whose else ""
        lines.append(line(f"{row.label}: {counted(view.share(row))}{said}{owned}{example}"))
    data, left = page(lines, given.offset, lambda last: then("failures", query=query, offset=last))
    classes = dict.fromkeys(
        row.bar.failure.value if row.bar is not None else UNTAGGED
        for row in view.rows
        if row.of != "heading"
    )
    says = f"{format.count(view.pareto.failed, 'failed run')} of {format.number(view.runs)}{asked}."
    unknown = view.pareto.unknown
    says += f" {format.count(unknown, 'run')} of unknown outcome not counted." if unknown else ""
    if lines:
        says += (
            " Share of the failed runs by class, with its 95 % interval; untagged ones go by what"
        )
        says += " a rule or a judge suggests."
    return Answer(
        says=f"{says}{hidden}",
        data=data,
        left_out=left,
        calls=tuple(call("failures", class_=each, query=query) for each in [*classes][:3])
        or (call("list_runs", query=query),),
    )


def _behind(view: FailuresView, rows: tuple[BarRow, ...], given: Failures, around: str) -> Answer:
    """The runs behind the bars of a class."""
    runs = [run for row in rows for run in row.runs]
    lines = [line(_behind_line(view, run)) for run in runs]
    query = given.query or None
    data, left = page(
        lines,
        given.offset,
        lambda last: then("failures", class_=given.class_, query=query, offset=last),
        "run",
    )
    says = f"{format.count(len(runs), 'failed run')} with {given.class_!r}{around}"
    first = runs[given.offset : given.offset + 2]
    calls = [
        call("brief", run=short(run.trace))
        if run.step is None
        else call("step", run=short(run.trace), step=run.step)
        for run in first
    ]
    return Answer(
        says=says, data=data, left_out=left, calls=tuple(calls) or (call("failures", query=query),)
    )


def _behind_line(view: FailuresView, run: RunBehind) -> str:
    from arc_tui.views.failures import source_name

    at = "no step" if run.step is None else f"step {run.step}"
    said = "tag" if run.accepted else "suggested"
    whose = f"{said} · {source_name(run)}" if run.source is not None else "not tagged"
    facts = (short(run.trace), format.cut(view.name(run), 60), at, whose, run.why or "")
    return " · ".join(filter(None, facts))
