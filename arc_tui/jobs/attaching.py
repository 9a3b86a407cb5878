"""From files and traces to a supplement, and onto the traces that lack it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from arc_tui.views.runs.view import run_rows
from replay import written
from replay.errors import BadEdit, NotFound
from replay.formats.chat import tool
from replay.messages import text
from replay.store import Store, read
from replay.store.rows import step_rows, trace_row
from replay.store.supplements import Supplement, attach, sketch, supplement_of
from replay.trace import NO_SYSTEM, NO_TOOLS, Tool
from taxonomy.query.language import BadQuery
from taxonomy.query.listing import RunRow


def supplement(
    store: Store, system: Path | None, tools: Path | None, other: str | None
) -> Supplement:
    """What the options name. Raises BadTrace or BadEdit where a file is not what it should be."""
    made = Supplement(name="nothing")
    if other is not None:
        made = _from_trace(store, other)
    if system is not None:
        made = structs.replace(
            made, name=written.called(system.name), system=written.from_file(system)
        )
    if tools is not None:
        names = [written.called(each.name) for each in (system, tools) if each is not None]
        made = structs.replace(made, name=", ".join(names), tools=_tools(tools))
    return made


def _tools(path: Path) -> tuple[Tool, ...]:
    try:
        declared = written.from_json(written.from_file(path))
    except ValueError as error:
        raise BadEdit(f"{path}: is not JSON: {error}") from error
    if not isinstance(declared, list):
        raise BadEdit(f"{path}: is no JSON list of tools", "one object a tool, with a name")
    return tuple(map(tool, declared))


def _from_trace(store: Store, name: str) -> Supplement:
    trace = read.load(store, trace_row(store, name).trace)
    for step in trace.steps:
        request = step.ask.request
        if request.system is not None or request.tools is not None:
            return Supplement(
                name=f"trace {trace.id[:8]}",
                system=text(request.system) if request.system is not None else None,
                tools=request.tools,
            )
    raise NotFound("system prompt or tools in trace", name)


def attach_to(
    store: Store, query: str, given: Supplement, sketched: bool
) -> Iterator[tuple[RunRow, str | None]]:
    """Attach to every trace the query names what it lacks of what is given.

    Yields each with what was attached, None where nothing of it was lacking.
    """
    for row in _named(store, query):
        made = _lacking(store, row.trace, given)
        if sketched and given.tools is None and _lacks(store, row.trace, NO_TOOLS):
            tools = sketch(read.load(store, row.trace))
            made = structs.replace(made, name=f"{made.name} + sketch", tools=tools, sketched=True)
        if made.system is None and made.tools is None:
            yield row, None
            continue
        attach(store, row.trace, _over(supplement_of(store, row.trace), made))
        parts = (
            [f"{len(made.tools)} tools{' (sketched)' if made.sketched else ''}"]
            if made.tools
            else []
        )
        yield row, ", ".join((["a system prompt"] if made.system else []) + parts)


def _lacking(store: Store, trace: str, given: Supplement) -> Supplement:
    """The part of a supplement that the source of a trace did not record itself."""
    return structs.replace(
        given,
        system=given.system if _lacks(store, trace, NO_SYSTEM) else None,
        tools=given.tools if _lacks(store, trace, NO_TOOLS) else None,
    )


def _over(earlier: Supplement | None, made: Supplement) -> Supplement:
    """What was attached before stays where nothing new is given."""
    if earlier is None or (made.system is not None and made.tools is not None):
        return made
    kept = made.tools is None and earlier.tools is not None
    return Supplement(
        name=f"{earlier.name}, {made.name}",
        system=earlier.system if made.system is None else made.system,
        tools=earlier.tools if kept else made.tools,
        sketched=earlier.sketched if kept else made.sketched,
    )


def _lacks(store: Store, trace: str, reason: str) -> bool:
    return any(reason in (row.fidelity_reasons or "") for row in step_rows(store, trace))


def _named(store: Store, query: str) -> list[RunRow]:
    try:
        wanted = trace_row(store, query).trace
    except NotFound as none:
        try:
            found = list(run_rows(store, query, every=True))
        except BadQuery:  # it was meant as a name
            raise none from None
        if not found:
            raise
        return found
    return [row for row in run_rows(store, every=True) if row.trace == wanted]
