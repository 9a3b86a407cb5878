"""One trace: its head line, its lanes over steps, its tree, its candidates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct, structs

from arc_tui.ui import format
from arc_tui.views.evidence import (
    by_strength,
    candidate_kind,
    candidate_phrase,
    candidate_text,
    finding_kind,
    judge_findings,
    reasons,
)
from arc_tui.views.known import KnownLine, known_of, source_lines
from arc_tui.views.runs import NO_RUN, run_row
from arc_tui.views.scores import Scorer, scorers
from arc_tui.views.tree import Branch, branches
from replay.store import read
from replay.store.handle import Store, now_ns
from replay.store.rows import StepRow, TraceRow, span_rows, step_rows, trace_row
from replay.trace import PRESENCE_LABEL
from taxonomy.calibration.approval import trusted_scores
from taxonomy.classes import Shape, class_label
from taxonomy.findings import (
    NO_CHECKS,
    TRUST,
    Candidate,
    CheckReport,
    Diagnosis,
    Finding,
    GoldComparison,
    Signal,
    StepScore,
    most_trusted,
)
from taxonomy.judgements import diagnoses
from taxonomy.judgements.scores import all_scores, judge_sets
from taxonomy.judgements.tags import TagRow
from taxonomy.query.failures import tags_of, verdict
from taxonomy.query.listing import RunRow

AHEAD = 250
"""Steps behind the one that a screen opens at which are read with it: more than it has lines."""


class Lane(Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A figure over the steps. `values` None where a step has none.

    `note` says whose the figure is, or why all steps lack it.
    `worst` is which end of the scale is bad.
    """

    name: str
    values: tuple[float | None, ...]
    worst: str
    note: str = ""

    @property
    def empty(self) -> bool:
        return all(value is None for value in self.values)

    def worst_of(self, values: Iterable[float | None]) -> float | None:
        """The worst of some of its values, None where none is known."""
        known = [value for value in values if value is not None]
        return (min if self.worst == "low" else max)(known, default=None)


class TraceView(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """Everything the trace screen draws but the step under the cursor.

    `lanes` begin with the best known score; `scored` has a lane for each of the `scorers` alone.
    `called` are the calls of tools: span, step, name of the tool. `known` is what is known for
    certain, before any rule, `judged` what judges suggest. `blind`: judgements are left out.
    """

    run: RunRow
    steps: tuple[StepRow, ...]
    lanes: tuple[Lane, ...]
    tree: tuple[Branch, ...]
    diagnosis: Diagnosis | None
    tags: tuple[TagRow, ...]
    scorers: tuple[Scorer, ...] = ()
    scored: tuple[Lane, ...] = ()
    blind: bool = False
    called: tuple[tuple[str, int, str], ...] = ()
    known: tuple[KnownLine, ...] = ()
    judged: tuple[Finding, ...] = ()

    @property
    def partial(self) -> bool:
        """Is there more of the run than was read?"""
        return len(self.steps) < self.run.steps

    @property
    def opens_at(self) -> int:
        """The step that is shown first: the first candidate, else a judge's, else the start."""
        suggested = (found.step for found in self.judged)
        return self.marked[0] if self.marked else next(suggested, 0)

    @cached_property
    def marked(self) -> tuple[int, ...]:
        """The steps of the candidates, the likeliest first, as everywhere."""
        found = self.diagnosis.candidates if self.diagnosis else ()
        return tuple(candidate.step for candidate in found)

    @cached_property
    def errors(self) -> tuple[int, ...]:
        """Steps with an error in the model call or one of its tools."""
        return tuple(row.step for row in self.steps if row.errors)

    def lanes_by(self, scorer: int) -> tuple[Lane, ...]:
        """The lanes with the scores of one of the `scorers`; 0 are the best known of all."""
        return (self.scored[scorer - 1], *self.lanes[1:]) if scorer else self.lanes


EMPTY_TRACE = TraceView(run=NO_RUN, steps=(), lanes=(), tree=(), diagnosis=None, tags=())


def build_trace(store: Store, name: str, *, drawn: bool = False) -> TraceView:
    """The trace screen of one trace. Raises NotFound.

    `drawn`: without the scores of the diagnosis, which no screen draws from there.
    """
    return _with_scores(store, _read(store, _without_steps(store, name, drawn=drawn)))


def build_beginning(store: Store, name: str, at: int | None = None) -> TraceView:
    """As much of the trace screen as it takes to open at step `at`, else where it opens by itself.

    A long run is `partial`: the steps far behind are missing, and so are all scores. Raises
    NotFound.
    """
    view = _without_steps(store, name, drawn=True)
    first = (view.opens_at if at is None else at) + AHEAD
    if view.run.steps <= 2 * first:
        return _with_scores(store, _read(store, view))
    return _read(store, view, first)


def _without_steps(store: Store, name: str, *, drawn: bool) -> TraceView:
    """What is said of the run as a whole, none of its steps."""
    row = trace_row(store, name)
    said = diagnoses.diagnosis(store, row.trace, scores=not drawn)
    return TraceView(
        run=run_row(row, verdict(store, row.trace)),
        steps=(),
        lanes=(),
        tree=(),
        diagnosis=said,
        tags=build_tags(store, row.trace),
        known=_known_lines(store, row, said),
        judged=judge_findings(store, row.trace),
    )


def _known_lines(store: Store, row: TraceRow, said: Diagnosis | None) -> tuple[KnownLine, ...]:
    """What is known of a run, and of one made to bring a behaviour out what its judge said."""
    known = known_of(said, row.outcome)
    if PRESENCE_LABEL not in row.labels:
        return known
    steps = {step.span: step.step for step in step_rows(store, row.trace)}
    elicited = row.outcome_value or "elicited or not is unknown"
    return (*known, *source_lines(read.scores(store, row.trace), steps, elicited))


def _read(store: Store, view: TraceView, first: int | None = None) -> TraceView:
    """The view with its steps, or those before step `first`; nobody has scored them yet."""
    steps = tuple(step_rows(store, view.run.trace, first))
    spans = span_rows(store, view.run.trace, first)
    return structs.replace(
        view,
        steps=steps,
        lanes=lanes(steps, ()),
        tree=branches(spans),
        called=tuple(
            (span.span_id, span.step, span.name)
            for span in spans
            if span.kind == "tool" and span.step is not None
        ),
    )


def _with_scores(store: Store, view: TraceView) -> TraceView:
    """The view with everyone's scores of its steps."""
    trace, now = view.run.trace, now_ns()
    trusted = trusted_scores(store, trace, now, items=False)
    judged = judge_sets(store, trace)  # nobody else's scores are ever set aside
    every = all_scores(store, trace, items=False) if judged else trusted
    by = scorers(store, every, trusted, now)
    return structs.replace(
        view,
        lanes=(_best_lane(view.steps, trusted), *view.lanes[1:]),
        scorers=by,
        scored=tuple(_lane_of(each, view.steps, every) for each in by),
    )


def hide_judgements(view: TraceView) -> TraceView:
    """The view as someone sees it who is to judge for themselves: without what was said of it."""
    return structs.replace(
        view,
        run=structs.replace(view.run, shape=None, why=None, why_step=None, warnings=()),
        lanes=lanes(view.steps, ()),
        diagnosis=None,
        tags=(),
        scorers=(),
        scored=(),
        known=(),
        judged=(),
        blind=True,
    )


def build_tags(store: Store, trace: str) -> tuple[TagRow, ...]:
    """The tags people gave a recording; those of another one of the run name its steps."""
    return tuple(tags_of(store, trace))


class DiagnoseView(Struct, frozen=True, eq=False, kw_only=True):
    """What is known of a trace for certain, what rules find in it, and where it may have broken.
    `published` is the step of the plain published rule."""

    trace: str
    outcome: str
    known: tuple[KnownLine, ...]
    findings: tuple[Finding, ...]
    shape: Shape | None
    published_shape: Shape | None
    candidates: tuple[Candidate, ...]
    published: int | None
    published_votes: tuple[Signal, ...]
    gold: GoldComparison | None
    checks: CheckReport

    @property
    def baseline_line(self) -> str:
        """The verdict of the baseline heuristic in one line."""
        shape = self.published_shape.value if self.published_shape else "unknown"
        if self.published is None:
            return f"baseline heuristic: no step (no vote); shape {shape}"
        votes = ", ".join(vote.phrase for vote in self.published_votes)
        return f"baseline heuristic: step {self.published} ({votes}); shape {shape}"

    def lines(self) -> list[str]:
        """The view as printed: what is certain, findings, candidates."""
        found = [each.line for each in self.known]
        for finding in by_strength(self.findings):
            if not finding.is_hint:
                found += _finding_lines(finding)
        shown = [finding.why for finding in self.findings if not finding.is_hint]
        for place, candidate in enumerate(self.candidates, 1):
            text = candidate_text(candidate)
            found.append(f"{place}. step {candidate.step} · {text} · {candidate.accuracy}")
            found += [
                f"     {each.names}" if each.known else f"     {each.names}: {each.phrase}"
                for each in reasons(candidate, [*shown, candidate_phrase(candidate)])
                if not each.known or each.names != candidate_kind(candidate)
            ]
        if not self.candidates:
            found.append("No break candidates.")
        found.append(f"shape {self.shape.value if self.shape else 'unknown (no step scores)'}")
        return [*found, self.baseline_line]


def _finding_lines(finding: Finding) -> Iterator[str]:
    """A finding with what it rests on."""
    name = class_label(finding.failure, finding.sub)
    kind = finding_kind(finding)
    yield f"finding: step {finding.step} · {kind} · {name}: {finding.why}"
    for each in finding.evidence[:EVIDENCE]:
        quoted = format.cut(format.one_line(each.text), QUOTED)
        yield f"     {each.role}: {quoted} [{each.place or f'step {each.step}'}]"
    more = len(finding.evidence) - EVIDENCE
    if more > 0:
        yield f"     and {format.number(more)} more (--json has all)"


EVIDENCE = 2
"""So much of what a finding rests on is printed, the rest counted."""

QUOTED = 160
"""Characters of what a finding quotes; `--json` has all of it."""


def build_diagnose(store: Store, name: str) -> DiagnoseView:
    """The break-point candidates of a trace. Raises NotFound."""
    row = trace_row(store, name)
    said = diagnoses.diagnosis(store, row.trace, scores=False)
    return DiagnoseView(
        trace=row.trace,
        outcome=row.outcome,
        known=_known_lines(store, row, said),
        findings=said.findings if said else (),
        shape=said.shape if said else None,
        published_shape=said.published_shape if said else None,
        candidates=said.candidates if said else (),
        published=said.published if said else None,
        published_votes=said.published_votes if said else (),
        gold=said.gold if said else None,
        checks=said.checks if said else NO_CHECKS,
    )


def lanes(steps: Sequence[StepRow], scores: Sequence[StepScore]) -> tuple[Lane, ...]:
    """Score, latency, context (the tokens of the request) and cost over the steps; the score is the
    most trusted one."""
    return (
        _best_lane(steps, scores),
        Lane(
            name="latency",
            values=tuple(_seconds(row.latency_ns) for row in steps),
            worst="high",
            note="not recorded",
        ),
        Lane(
            name="context",
            values=tuple(_float(row.input_tokens) for row in steps),
            worst="high",
            note="not recorded",
        ),
        Lane(
            name="cost",
            values=tuple(row.cost_usd for row in steps),
            worst="high",
            note="unknown",
        ),
    )


def _best_lane(steps: Sequence[StepRow], scores: Sequence[StepScore]) -> Lane:
    best = most_trusted(scores)
    sources = sorted({score.source for score in best.values()}, key=TRUST.index)
    return _score_lane(steps, best.values(), f"by {', else '.join(sources)}")


def _lane_of(who: Scorer, steps: Sequence[StepRow], scores: Sequence[StepScore]) -> Lane:
    own = [each for each in scores if (each.source, each.by) == (who.source, who.by)]
    return _score_lane(steps, own, f"by {who.name}")


def _score_lane(steps: Sequence[StepRow], scores: Iterable[StepScore], by: str) -> Lane:
    values = {score.step: score.value for score in scores}
    known = any(value is not None for value in values.values())
    return Lane(
        name="score",
        values=tuple(values.get(row.step) for row in steps),
        worst="low",
        note=by if known else "no scores",
    )


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
