"""What an audit says of the runs that a query means: a rate a probe, and a row a finding."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from arc_tui.features.audit.declared import DeclaredView, exploits_file, find_declared
from arc_tui.importing import Progress, audit_each
from arc_tui.places import author
from arc_tui.ui import format
from arc_tui.views.runs import chosen
from replay.store.handle import Store, now_ns
from replay.store.rows import step_rows
from taxonomy.audit.probes import PROBES, audit_version
from taxonomy.audit.rates import ProbeRate, rate_probe
from taxonomy.classes import FailureClass
from taxonomy.findings import Audited, AuditResult, Evidence, ProbeName
from taxonomy.held_out import HeldOutNote
from taxonomy.judgements.audits import AuditAge, audit_age, date_audits, kept_audits
from taxonomy.judgements.tags import Tag, human_tags, put_tag, remove_tag
from taxonomy.query.failures import RunHead, run_heads
from taxonomy.query.listing import held_out_note


class AuditRequest(Struct, frozen=True, kw_only=True):
    """Which runs are audited, and for what; no `probes` means all of them. `exploits` is a file of
    exploits, None: the one beside the database."""

    query: str = ""
    probes: tuple[str, ...] = ()
    exploits: Path | None = None
    with_held_out: bool = False


class AuditRow(Struct, frozen=True, kw_only=True):
    """A finding of a probe. `quote` is what the agent said or was told, "" where nothing is quoted;
    `is_tagged`: this person has tagged the step `other` with the same sub-label."""

    trace: str
    run: str
    step: int
    span: str | None
    probe: ProbeName
    result: AuditResult
    sub: str
    what: str
    quote: str
    evidence: tuple[Evidence, ...]
    is_tagged: bool = False


class AuditView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything that the command prints and the screen draws.

    `runs` are those that the query means, and `age` how old what is known of them is: rates and
    rows are over those that were audited as they are. `failed` has a sentence for each run that
    could not be audited. What is `held_out` is in none of it unless it is shown. `declared` is what
    was found of the exploits and scores that a file declares, None where there is no file, or where
    `is_declared_due`: it was not looked at yet.
    """

    database: str
    query: str = ""
    runs: int = 0
    audited: int = 0
    age: AuditAge = AuditAge(runs=0, new=0)
    rates: tuple[ProbeRate, ...] = ()
    rows: tuple[AuditRow, ...] = ()
    failed: tuple[str, ...] = ()
    held_out: HeldOutNote = HeldOutNote()
    declared: DeclaredView | None = None
    is_declared_due: bool = False

    @property
    def is_due(self) -> bool:
        """Is there anything that no audit has looked at?"""
        return bool(self.age.new) or self.is_declared_due


EMPTY = AuditView(database="")


def kept_audit(
    store: Store, request: AuditRequest, declared: DeclaredView | None = None
) -> AuditView:
    """What is known without auditing anything; `declared` is kept by whoever looked last."""
    held, heads = runs_audited(store, request)
    found = kept_audits(store, [head.trace for head in heads], audit_version())
    return _view(store, request, held, heads, found, declared)


def run_audit(store: Store, request: AuditRequest) -> Generator[Progress | AuditView, None, None]:
    """Audit the runs that none has seen as they are, then say what is known of all; the first value
    is what was known before. In a database that may only be read nothing is kept."""
    held, heads = runs_audited(store, request)
    traces = [head.trace for head in heads]
    found = kept_audits(store, traces, audit_version())
    yield _view(store, request, held, heads, found)
    seen = tuple(found)
    waiting = [trace for trace in traces if trace not in found]
    failed = yield from audit_each(store, waiting, found)
    if not store.read_only:
        date_audits(store, seen, now_ns())
    declared = yield from _find_declared(store, request, heads)
    yield structs.replace(_view(store, request, held, heads, found, declared), failed=failed)


def _find_declared(
    store: Store, request: AuditRequest, heads: Sequence[RunHead]
) -> Generator[Progress, None, DeclaredView | None]:
    file = exploits_file(store, request.exploits)
    if file is None or not _asks_for_declared(request):
        return None
    return (yield from find_declared(store, heads, file))


def _asks_for_declared(request: AuditRequest) -> bool:
    return not request.probes or bool({"gaming", "feedback"} & {*request.probes})


def runs_audited(store: Store, request: AuditRequest) -> tuple[HeldOutNote, list[RunHead]]:
    """The runs that a query means, and what is held out of them."""
    held = held_out_note(store, shown=request.with_held_out)
    return held, run_heads(store, without=held.hidden, chosen=chosen(store, request.query))


def _view(
    store: Store,
    request: AuditRequest,
    held: HeldOutNote,
    heads: Sequence[RunHead],
    found: Mapping[str, tuple[Audited, ...]],
    declared: DeclaredView | None = None,
) -> AuditView:
    probes = [each for each in PROBES if not request.probes or each.name in request.probes]
    asked = [*(each.name for each in probes), *_DECLARED]
    asked = [name for name in asked if not request.probes or name in request.probes]
    traces = [head.trace for head in heads]
    return AuditView(
        database=store.path.name if store.path else ":memory:",
        query=request.query,
        runs=len(heads),
        audited=len(found),
        age=audit_age(store, traces, audit_version(), now_ns()),
        rates=tuple(rate_probe(each, found) for each in probes),
        rows=tuple(_rows(store, heads, _with_declared(found, declared), asked)),
        held_out=held,
        declared=declared,
        is_declared_due=declared is None
        and _asks_for_declared(request)
        and exploits_file(store, request.exploits) is not None,
    )


_DECLARED: tuple[ProbeName, ...] = ("feedback",)
"""Probes of several runs together, which only a file declares."""


def _with_declared(
    found: Mapping[str, tuple[Audited, ...]], declared: DeclaredView | None
) -> Mapping[str, tuple[Audited, ...]]:
    """What was found by rule, and beside it what was declared."""
    if declared is None:
        return found
    every = {trace: list(said) for trace, said in found.items()}
    for trace, finding in declared.findings:
        probe: ProbeName = "feedback" if finding.result == "shown only" else "gaming"
        said = Audited(probe=probe, checked=1, findings=(finding,))
        every.setdefault(trace, []).append(said)
    return {trace: tuple(said) for trace, said in every.items()}


def _rows(
    store: Store,
    heads: Sequence[RunHead],
    found: Mapping[str, tuple[Audited, ...]],
    probes: Sequence[str],
) -> list[AuditRow]:
    """The findings, by probe, then by run and step."""
    tagged = {
        (tag.trace, tag.step, tag.sub)
        for tag in human_tags(store)
        if tag.by == author() and tag.failure is FailureClass.OTHER
    }
    rows = [
        AuditRow(
            trace=head.trace,
            run=_name(head),
            step=each.finding.step,
            span=each.finding.span,
            probe=said.probe,
            result=each.result,
            sub=each.finding.sub or "",
            what=each.finding.why,
            quote=_quote(each.finding.evidence),
            evidence=each.finding.evidence,
            is_tagged=(head.trace, each.finding.step, each.finding.sub) in tagged,
        )
        for head in heads
        for said in found.get(head.trace, ())
        for each in said.findings
    ]
    order = {name: place for place, name in enumerate(probes)}
    return sorted(
        (row for row in rows if row.probe in order),
        key=lambda row: (order[row.probe], row.run, row.step),
    )


def _name(head: RunHead) -> str:
    """What a run is called: its task and trial, else its title, else the trace's id."""
    if head.task:
        return " · ".join(filter(None, map(format.one_line, (head.task, head.trial))))
    return format.one_line(head.title) or head.trace[:8]


def _quote(evidence: Sequence[Evidence]) -> str:
    """The words that a finding holds the calls against."""
    words = {each.role: each.text for each in reversed(evidence)}
    return words.get("stated", words.get("says", ""))


def tag_of(store: Store, row: AuditRow) -> Tag:
    """The tag that a person gives by a finding: `other`, with its sub-label and its evidence."""
    spans = {each.step: each.span for each in step_rows(store, row.trace)}
    return Tag(
        trace=row.trace,
        span=spans[row.step],
        step=row.step,
        failure=FailureClass.OTHER,
        by=author(),
        sub=row.sub or None,
        note=row.what,
        evidence=row.evidence,
    )


def tag_row(store: Store, row: AuditRow) -> AuditRow:
    """Keep the tag of a finding, or take it back where it is there."""
    tag = tag_of(store, row)
    if row.is_tagged:
        remove_tag(store, tag)
    else:
        put_tag(store, tag)
    return structs.replace(row, is_tagged=not row.is_tagged)
