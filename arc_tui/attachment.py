"""What a source did not record, put beside its traces: from files, from other runs that hold it, or
inferred from calls; and what of that is offered, with the command that accepts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from arc_tui.ui.format import count, number, one_line
from arc_tui.views.runs import run_rows
from replay import written
from replay.errors import ArcError, BadEdit, NotFound
from replay.formats.chat import tool
from replay.plan import NotRecorded, cannot_replay
from replay.store import gaps
from replay.store import offers as found
from replay.store.edits import Supplement, attach, supplement_of
from replay.store.gaps import Lack
from replay.store.handle import Store
from replay.store.offers import Offer
from replay.store.rows import step_rows, trace_row
from replay.trace import NO_SYSTEM, NO_TOOLS, Tool
from taxonomy.query.language import BadQuery
from taxonomy.query.listing import RunRow

_COMMANDS = {
    "claude-code": "claude",
    "codex": 'codex exec "…"',
    "qwen-code": "qwen",
}
"""How those agents are started that find a proxy by the variables `arc record` sets."""

_IN_PYTHON = frozenset(
    {"langfuse", "langsmith", "mlflow", "openai-agents", "openinference", "otlp", "weave"}
)
_OUT_OF_REACH = frozenset({"gemini-cli"})
"""Agents that heed neither variable."""


class OfferView(Struct, frozen=True, kw_only=True):
    """An offer as it is listed: what it attaches, from where, why, and the command for it."""

    match: str
    what: str
    source: str | None
    title: str | None
    system_characters: int | None
    tools: int | None
    inferred: bool
    runs: int
    evidence: tuple[str, ...]
    against: tuple[str, ...]
    command: str


class RunOffers(Struct, frozen=True, kw_only=True):
    """What a run lacks, in `steps` of its steps, what is offered for it, and how the next run of
    its agent is recorded whole (None: not known to be possible)."""

    trace: str
    title: str
    lacks: tuple[str, ...]
    steps: int
    of: int
    offers: tuple[OfferView, ...]
    record: str | None


class Attached(Struct, frozen=True, kw_only=True):
    """What was attached to a run and why; `what` None: nothing, for the reason in `note`."""

    trace: str
    title: str
    what: str | None
    source: str | None = None
    evidence: tuple[str, ...] = ()
    note: str | None = None


# --- what is offered


def list_offers(store: Store, query: str) -> list[RunOffers]:
    """What each run that is named lacks, and the offers for it; of runs that lack nothing too."""
    return [_run_offers(*each) for each in _find_offers(store, query)]


def _find_offers(store: Store, query: str) -> list[tuple[RunRow, Lack | None, tuple[Offer, ...]]]:
    rows = runs_named(store, query)
    lacking = gaps.lacks(store, [row.trace for row in rows])
    offers = found.offers(store, list(lacking))
    return [(row, lacking.get(row.trace), offers.get(row.trace, ())) for row in rows]


def offers_for(store: Store, name: str) -> tuple[Offer, ...]:
    """The offers for the trace of that name, the best first."""
    trace = trace_row(store, name).trace
    return found.offers(store, [trace]).get(trace, ())


def _run_offers(row: RunRow, lack: Lack | None, offers: Collection[Offer]) -> RunOffers:
    return RunOffers(
        trace=row.trace,
        title=one_line(row.title or row.source_id),
        lacks=lack.reasons if lack is not None else (),
        steps=lack.steps if lack is not None else 0,
        of=row.steps,
        offers=tuple(_view(row.trace, each) for each in offers),
        record=record_command(row.agent, row.format),
    )


def _view(trace: str, offer: Offer) -> OfferView:
    return OfferView(
        match=offer.match,
        what=what_of(offer),
        source=offer.source,
        title=offer.title,
        system_characters=offer.system_characters,
        tools=offer.tools,
        inferred=offer.is_inferred,
        runs=offer.runs,
        evidence=offer.evidence,
        against=offer.against,
        command=_command(trace, offer),
    )


def what_of(offer: Offer) -> str:
    """What an offer attaches."""
    parts = []
    if offer.system_characters is not None:
        parts.append(f"a system prompt of {number(offer.system_characters)} characters")
    if offer.tools is not None:
        parts.append(_tool_count(offer.tools, inferred=offer.is_inferred))
    return ", ".join(parts)


def why_of(offer: Offer) -> str:
    """The first evidence for an offer, and all that speaks against it."""
    doubts = () if offer.is_inferred else offer.against
    return one_line("; ".join((offer.evidence[0], *(f"but {each}" for each in doubts))))


def summary_of(offer: Offer) -> str:
    """What an offer attaches, and why."""
    if offer.is_inferred:
        return f"{count(offer.tools or 0, 'tool')} {why_of(offer)}"
    return f"{what_of(offer)}: {why_of(offer)}"


def _tool_count(tools: int, *, inferred: bool) -> str:
    return count(tools, "tool") + (" (inferred)" if inferred else "")


def _command(trace: str, offer: Offer) -> str:
    option = f"--from {offer.source[:8]}" if offer.source is not None else "--infer-tools"
    return f"arc attach {trace[:8]} {option}"


def record_command(agent: str | None, format: str) -> str | None:
    """How the next run of an agent is recorded with all that its models are sent, None where its
    client is known not to find the proxy."""
    if agent in _OUT_OF_REACH or format in _OUT_OF_REACH:
        return None
    command = _COMMANDS.get(agent or "") or _COMMANDS.get(format)
    if command is None:
        command = "python agent.py" if format in _IN_PYTHON else "COMMAND"
    return f"arc record -- {command}"


def with_offer(store: Store, trace: str, error: ArcError) -> ArcError:
    """An error; where it says what was not recorded, with the best offer for that."""
    if not isinstance(error, NotRecorded):
        return error
    row = trace_row(store, trace)
    offers = offers_for(store, row.trace)
    best = None
    if offers:
        best = f"{_command(row.trace, offers[0])} ({summary_of(offers[0])})"
    record = record_command(row.agent, row.format)
    return cannot_replay(error.lacks, attach=best, record=record) or error


# --- what is attached


def attach_best(store: Store, query: str, *, inferred: bool) -> Iterator[Attached]:
    """Accept the best offer for each run that is named, and for what that leaves open the next.

    One that something speaks against is left to a person; inferred tools are taken only where
    `inferred` is set and nothing else holds tools.
    """
    for row, lack, offers in _find_offers(store, query):
        run = Attached(trace=row.trace, title=one_line(row.title or row.source_id), what=None)
        if lack is None:
            yield structs.replace(run, note="nothing is missing")
            continue
        done = False
        for offer in offers:
            if not inferred if offer.is_inferred else offer.against:
                continue
            what = accept(store, row.trace, offer)
            if what is not None:
                done = True
                yield structs.replace(run, what=what, source=offer.source, evidence=offer.evidence)
        if not done:
            yield structs.replace(run, note=_why_none(lack, offers))


def _why_none(lack: Lack, offers: Sequence[Offer]) -> str:
    """Why nothing was attached to a run."""
    if not offers:
        return f"no offers: {' and '.join(lack.reasons)}"
    if offers[0].is_inferred:
        return "only inferred tools: add --infer-tools"
    return f"not accepted: {summary_of(offers[0])}. Try: {_command(lack.trace, offers[0])}"


def accept(store: Store, trace: str, offer: Offer) -> str | None:
    """Attach the part of an offer that a run still lacks; what that was, None for nothing."""
    lack = gaps.lacks(store, [trace]).get(trace)
    made = found.content(store, offer)
    return _put(
        store,
        trace,
        structs.replace(
            made,
            system=made.system if lack is not None and lack.system else None,
            tools=made.tools if lack is not None and lack.tools else None,
        ),
    )


def supplement(system: Path | None, tools: Path | None) -> Supplement:
    """What the files hold. Raises BadTrace or BadEdit where one is not what it should be."""
    names = [written.called(each.name) for each in (system, tools) if each is not None]
    return Supplement(
        name=", ".join(names),
        system=None if system is None else written.from_file(system),
        tools=None if tools is None else _tools(tools),
    )


def _tools(path: Path) -> tuple[Tool, ...]:
    try:
        declared = written.from_json(written.from_file(path))
    except ValueError as error:
        raise BadEdit(f"{path}: is not JSON: {error}") from error
    if not isinstance(declared, list):
        raise BadEdit(f"{path}: is not a JSON list of tools", "Each tool is an object with a name")
    return tuple(map(tool, declared))


def attach_to(
    store: Store,
    query: str,
    given: Supplement,
    *,
    other: str | None = None,
    inferred: bool = False,
) -> Iterator[Attached]:
    """Attach to every run that is named what it lacks of what is given, then of what stands in the
    run `other`, then inferred tools. What the source recorded is never attached over.

    Tools of which a run calls others and none are not attached to it. Raises NotFound where `other`
    holds nothing, BadEdit where the tools fit no run that is named.
    """
    rows = runs_named(store, query)
    source = None if other is None else trace_row(store, other).trace
    fits = {row.trace: _fit(store, row, given) for row in rows}
    if not any(fitting for fitting, _ in fits.values()):
        more = f", and {count(len(rows) - 1, 'more run')}" if len(rows) > 1 else ""
        raise BadEdit(
            f"{fits[rows[0].trace][1]}{more}",
            f"Try: arc attach {rows[0].trace[:8]}, which lists what fits",
        )
    for row in rows:
        fitting, note = fits[row.trace]
        made = given if fitting else structs.replace(given, tools=None)
        if source is not None:
            made = _with(made, found.fitting(store, row.trace, source), other or source)
        made = _lacking(store, row.trace, made)
        if inferred and made.tools is None and _lacks(store, row.trace, NO_TOOLS):
            made = _with(made, _infer(store, row.trace), "")
        what = _put(store, row.trace, made)
        if what is None and note is None and gaps.lacks(store, [row.trace]):
            note = "nothing of what it lacks is given"
        yield Attached(
            trace=row.trace,
            title=one_line(row.title or row.source_id),
            what=what,
            source=source,
            note=note,
        )


def _with(made: Supplement, more: Supplement | None, name: str) -> Supplement:
    """What is given, and what more there is where that has nothing."""
    if more is None:
        raise NotFound("system prompt or tools in trace", name)
    tools = made.tools is None and more.tools is not None
    return Supplement(
        name=", ".join(filter(None, (made.name, more.name))),
        system=more.system if made.system is None else made.system,
        tools=more.tools if tools else made.tools,
        sketched=more.sketched if tools else made.sketched,
    )


def _infer(store: Store, trace: str) -> Supplement:
    return found.to_supplement(gaps.infer_tools(store, trace))


def _fit(store: Store, row: RunRow, given: Supplement) -> tuple[bool, str | None]:
    """May tools that are given be those of a run, and what does it call that they lack?"""
    if given.tools is None:
        return True, None
    called, missing = found.contradictions(store, row.trace, given.tools)
    if not missing:
        return True, None
    if len(missing) < called:
        return True, f"not there, but called: {gaps.few(missing)}"
    words = f"{row.trace[:8]} calls {gaps.few(missing)}"
    return False, f"{given.name} has none of the tools that the run calls: {words}"


def _put(store: Store, trace: str, made: Supplement) -> str | None:
    """Attach what is not empty, over what was attached before; what that was."""
    if made.system is None and made.tools is None:
        return None
    attach(store, trace, _over(supplement_of(store, trace), made))
    parts = ["a system prompt"] if made.system is not None else []
    if made.tools is not None:
        parts.append(_tool_count(len(made.tools), inferred=made.sketched))
    return ", ".join(parts)


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


def runs_named(store: Store, query: str) -> list[RunRow]:
    """The run of that name, else all that a query matches."""
    try:
        wanted = trace_row(store, query).trace
    except NotFound as none:
        try:
            rows = list(run_rows(store, query, every=True))
        except BadQuery:  # it was meant as a name
            raise none from None
        if not rows:
            raise
        return rows
    return [row for row in run_rows(store, every=True) if row.trace == wanted]
