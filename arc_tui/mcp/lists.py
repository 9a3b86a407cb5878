"""The tools that look over many runs: which there are, which say a text, and why runs fail."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, field

from arc_tui.mcp.answers import Answer, call, line, page, short
from arc_tui.mcp.questions import Arguments, Offset, Query, then
from arc_tui.ui import format
from replay.errors import NotFound
from replay.store.handle import Store
from taxonomy.classes import FailureClass
from taxonomy.query.listing import RunRow, held_out_note, run_order, run_totals, runs_at

if TYPE_CHECKING:
    from arc_tui.views.failures import BarRow, FailuresView
    from taxonomy.failures import RunBehind

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
    asked = f" matching {given.query!r}" if given.query else ""
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
    asked = f" among those matching {given.query!r}" if given.query else ""
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
    asked = f" among runs matching {given.query!r}" if given.query else ""
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
