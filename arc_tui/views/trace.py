"""One trace: its head line, its lanes over steps, its tree, its candidates."""

from __future__ import annotations

from msgspec import Struct

from arc_tui.views.runs import NO_RUN, RunRow, run_row
from arc_tui.views.tree import Branch, branches
from replay.store import Store
from replay.store.handle import now_ns
from replay.store.rows import StepRow, span_rows, step_rows, trace_row
from taxonomy import ledger
from taxonomy.classes import Shape
from taxonomy.findings import Candidate, Diagnosis, Signal, StepScore, most_trusted
from taxonomy.query import TagRow, tag_rows, verdict
from taxonomy.trusted import trusted_scores


class Lane(Struct, frozen=True, eq=False, kw_only=True):
    """A figure over the steps. `values` None where a step has none; `note` says where all lack.

    `worst` is which end of the scale is bad: a bin shows its worst value.
    """

    name: str
    values: tuple[float | None, ...]
    worst: str
    note: str = ""

    @property
    def empty(self) -> bool:
        return all(value is None for value in self.values)


class TraceView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the trace screen draws but the step under the cursor."""

    run: RunRow
    steps: tuple[StepRow, ...]
    lanes: tuple[Lane, ...]
    tree: tuple[Branch, ...]
    diagnosis: Diagnosis | None
    tags: tuple[TagRow, ...]

    @property
    def marked(self) -> tuple[int, ...]:
        """The steps of the candidates, best first."""
        found = self.diagnosis.candidates if self.diagnosis else ()
        return tuple(candidate.step for candidate in found)

    @property
    def errors(self) -> tuple[int, ...]:
        """Steps with an error in the model call or one of its tools."""
        return tuple(row.step for row in self.steps if row.errors)


EMPTY = TraceView(run=NO_RUN, steps=(), lanes=(), tree=(), diagnosis=None, tags=())


def build_trace(store: Store, name: str) -> TraceView:
    """The trace screen of one trace. Raises NotFound."""
    row = trace_row(store, name)
    steps = tuple(step_rows(store, row.trace))
    found = ledger.diagnosis(store, row.trace)
    return TraceView(
        run=run_row(row, verdict(store, row.trace)),
        steps=steps,
        lanes=lanes(steps, trusted_scores(store, row.trace, now_ns())),
        tree=branches(span_rows(store, row.trace)),
        diagnosis=found,
        tags=build_tags(store, row.run),
    )


def build_tags(store: Store, run: str) -> tuple[TagRow, ...]:
    """The tags people gave a run."""
    return tuple(tag_rows(store, "run = ? AND accepted", (run,)))


class BreakView(Struct, frozen=True, eq=False, kw_only=True):
    """Where a trace may have broken. `published` is the step of the plain published rule."""

    trace: str
    outcome: str
    shape: Shape | None
    published_shape: Shape | None
    candidates: tuple[Candidate, ...]
    published: int | None
    published_votes: tuple[Signal, ...]

    @property
    def published_line(self) -> str:
        """The published rule's verdict in one line."""
        shape = self.published_shape.value if self.published_shape else "unknown"
        if self.published is None:
            return f"published rule: no break (no vote); shape {shape}"
        votes = ", ".join(vote.phrase for vote in self.published_votes)
        return f"published rule: step {self.published} ({votes}); shape {shape}"

    def lines(self) -> list[str]:
        """The view as printed."""
        found = [f"shape {self.shape.value if self.shape else 'unknown (no step scores)'}"]
        for place, candidate in enumerate(self.candidates, 1):
            found.append(f"{place}. step {candidate.step}: {candidate.why} · {candidate.accuracy}")
            found += [f"     {each.name}: {each.phrase}" for each in candidate.signals]
        if not self.candidates:
            found.append("no break found")
        return [*found, self.published_line]


def build_break(store: Store, name: str) -> BreakView:
    """The break-point candidates of a trace. Raises NotFound."""
    row = trace_row(store, name)
    said = ledger.diagnosis(store, row.trace)
    return BreakView(
        trace=row.trace,
        outcome=row.outcome,
        shape=said.shape if said else None,
        published_shape=said.published_shape if said else None,
        candidates=said.candidates if said else (),
        published=said.published if said else None,
        published_votes=said.published_votes if said else (),
    )


def lanes(steps: tuple[StepRow, ...], scores: tuple[StepScore, ...]) -> tuple[Lane, ...]:
    """Score, latency, tokens and cost over the steps; the score is the most trusted one."""
    by_step = most_trusted(scores)
    source = next(iter(sorted({score.source for score in by_step.values()})), "")
    return (
        Lane(
            name="score",
            values=tuple(_value(by_step.get(row.step)) for row in steps),
            worst="low",
            note=f"by {source}" if source else "no scores",
        ),
        Lane(
            name="latency",
            values=tuple(_seconds(row.latency_ns) for row in steps),
            worst="high",
            note="not recorded",
        ),
        Lane(
            name="tokens",
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


def _value(score: StepScore | None) -> float | None:
    return None if score is None else score.value


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)
