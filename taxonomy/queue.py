"""What should a person look at next? The runs that want a word of theirs, in one order.

The queue of a person: of this month's draw the runs that nobody has read, in its order, then failed
runs that nobody tagged, then runs that passed with warnings and that nobody tagged, then what of
the audit sample this person has not looked at. A run stands in it once, for the first of these
reasons, and all but the draw in the order of import. The blind queue holds the draw too, then the
runs that somebody else has a word on and this person has not: the second look that agreement of
people is counted from. A run without steps has nothing to tag and stands in neither.

A tag is a word on a run, and so is the word that nothing is wrong with it. Runs of held-out tasks
wait for nobody: whoever reads one to tag it has seen it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

from msgspec import Struct

from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow, trace_rows
from taxonomy.held_out import hidden, parted
from taxonomy.judgements.scores import opinions
from taxonomy.judgements.tags import human_words
from taxonomy.monthly_review import last_draw, reads
from taxonomy.query.failures import Verdict, verdicts

Reason = Literal[
    "monthly review", "untagged failure", "passed with warnings", "audit sample", "second look"
]


class Waiting(Struct, frozen=True, kw_only=True):
    """A run that wants a word, why, and the step to open it at.

    That is the first candidate, else the start; always the start for a second look, because where
    a run opens tells what the rules think.
    """

    trace: str
    run: str
    task: str | None
    trial: str | None
    title: str | None
    outcome: str
    reason: Reason
    step: int


class Kind(Struct, frozen=True, kw_only=True):
    """How many runs wait for one reason, of how many that it can be asked of."""

    reason: Reason
    waiting: int
    of: int


class Queue(Struct, frozen=True, kw_only=True):
    """What waits for one person, next first; so many runs of `held_out` tasks are left out."""

    by: str
    blind: bool
    kinds: tuple[Kind, ...]
    waiting: tuple[Waiting, ...]
    held_out: int = 0


def queue(store: Store, by: str, *, blind: bool = False) -> Queue:
    """The queue of a person, or their blind one: the same runs in the same order every time."""
    rows, held = parted(trace_rows(store), hidden(store))
    heard: dict[str, set[str]] = defaultdict(set)
    for word in human_words(store):
        heard[word.run].add(word.by)
    said = {} if blind else verdicts(store)
    asked = _second_look(rows, heard, by) if blind else _first_look(store, rows, heard, said, by)
    kinds: list[Kind] = []
    waiting: dict[str, Waiting] = {}
    for reason, every, wanted in chain(_of_this_month(store, rows), asked):
        new = [row for row in wanted if row.run not in waiting]
        kinds.append(Kind(reason=reason, waiting=len(new), of=len(every)))
        waiting |= {row.run: _waiting(row, reason, said.get(row.trace)) for row in new}
    return Queue(
        by=by, blind=blind, kinds=tuple(kinds), waiting=tuple(waiting.values()), held_out=len(held)
    )


Heard = Mapping[str, set[str]]
"""Who has a word on each run."""

Asked = Iterator[tuple[Reason, list[TraceRow], list[TraceRow]]]
"""A reason, the runs it can be asked of, and those of them that want a word."""


def _of_this_month(store: Store, rows: Sequence[TraceRow]) -> Asked:
    """The draw of this month; none once the next one is due."""
    given = last_draw(store)
    if given is None or given.overdue(now_ns()) is not None:
        return
    known = {row.run: row for row in rows}
    drawn = [known[each.run] for each in given.runs if each.run in known]
    done = reads(store, given)
    yield "monthly review", drawn, [row for row in drawn if row.run not in done]


def _first_look(
    store: Store, rows: Sequence[TraceRow], heard: Heard, said: Mapping[str, Verdict], by: str
) -> Asked:
    from taxonomy.calibration.disagreement import audit_sample  # calibration is large

    warned = {trace for trace, verdict in said.items() if verdict.warnings}
    failed = [row for row in rows if row.steps and row.outcome == "failed"]
    dubious = [row for row in rows if row.steps and row.outcome == "passed" and row.trace in warned]
    yield "untagged failure", failed, [row for row in failed if row.run not in heard]
    yield "passed with warnings", dubious, [row for row in dubious if row.run not in heard]
    drawn = {row.trace: row for row in rows}
    sample = [drawn[key] for key in audit_sample(drawn) if drawn[key].steps]
    scored = {score.trace for score in opinions(store) if score.by == by}
    yield (
        "audit sample",
        sample,
        [row for row in sample if by not in heard.get(row.run, ()) and row.trace not in scored],
    )


def _second_look(rows: Sequence[TraceRow], heard: Heard, by: str) -> Asked:
    others = [row for row in rows if row.steps and heard.get(row.run, set()) - {by}]
    yield "second look", others, [row for row in others if by not in heard[row.run]]


def _waiting(row: TraceRow, reason: Reason, said: Verdict | None) -> Waiting:
    first = said.why_step if said is not None else None
    return Waiting(
        trace=row.trace,
        run=row.run,
        task=row.task,
        trial=row.trial,
        title=row.title,
        outcome=row.outcome,
        reason=reason,
        step=first if first is not None and first < row.steps else 0,
    )
