"""Replays of several traces at once: whose samples are asked together?

Traces do not depend on each other, so a wave of each is asked at the same time. Within a trace
nothing changes: in turn, the first sample of a step goes ahead in both arms and leaves its request
in the provider's cache, then come the others, then the next step. Which answer comes first changes
no result, for a row puts its samples in order.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from itertools import islice

from replay.compare.rules import PLAIN, Rules
from replay.edit import Edit
from replay.errors import ModelRefused, OfflineMiss
from replay.locked.asking import asked
from replay.locked.row import Missing, Models, Row
from replay.locked.sampling import AUTO, Sampling
from replay.locked.step_result import StepResult
from replay.models.cached import Outcome
from replay.oracle import Oracle
from replay.plan import plans
from replay.trace import Trace

AT_ONCE = 8
"""So many traces are under way at a time: what a limit cuts short is a few of them and not all."""


class Lane:
    """One trace of several, replayed as `run.replay` with the same arguments would.

    `miss` is the first answer that is not stored and may not be asked for: a lane ends with it.
    `marked`: other requests go on from one of its own, and read it in a provider's cache.
    """

    def __init__(
        self,
        trace: Trace,
        edit: Edit | None,
        models: Models,
        *,
        sampling: Sampling = AUTO,
        steps: Collection[int] | None = None,
        rules: Rules = PLAIN,
        oracle: Oracle | None = None,
    ) -> None:
        planned = plans(trace, edit, models.control.name, steps, edited_model=models.edited.name)
        self.trace = trace
        self.miss: OfflineMiss | None = None
        self._in_turn = sampling.schedule == "cheap"
        self._rows = [Row(plan, edit, models, sampling, rules, oracle) for plan in planned]
        self._refused = [row.result() for row in self._rows if row.finished]
        self._tests = sum(row.touched for row in self._open)
        again = len(self._rows) > 1 or sampling.levels[-1] > 1
        self.marked = self._in_turn and again
        self._wanted: list[Missing] = []
        self._under_way = 0

    @property
    def _open(self) -> list[Row]:
        return [row for row in self._rows if not row.finished]

    @property
    def over(self) -> bool:
        return self.miss is not None or not self._open

    def refused(self) -> list[StepResult]:
        """The steps of which nothing can be asked, given once."""
        found, self._refused = self._refused, []
        return found

    def wave(self) -> list[Missing]:
        """What is asked next; the answers to all of it are taken before there is another wave."""
        while not self._wanted and not self.over:
            self._wanted = [each for row in self._turn() for each in row.missing()]
            if not self._wanted:  # what is missing was declined
                self._advance()
        first = [each for each in self._wanted if not each.place] if self._in_turn else []
        wave = first or self._wanted
        self._wanted = [each for each in self._wanted if each.place] if first else []
        self._under_way = len(wave)
        return wave

    def _turn(self) -> Sequence[Row]:
        """The rows that are asked now."""
        return self._open[:1] if self._in_turn else self._open

    def take(self, asked: Missing, outcome: Outcome) -> Iterator[StepResult]:
        """What came of one sample; with the last of a level, what is known of its steps."""
        self._under_way -= 1
        if isinstance(outcome, OfflineMiss):
            self.miss = self.miss or outcome
        else:
            asked.row.take(asked, outcome)
        if self._under_way or self._wanted or self.miss is not None:
            return
        yield from self._advance()

    def _advance(self) -> list[StepResult]:
        turn = self._turn()
        for row in turn:
            row.advance(self._tests)
        return [row.result() for row in turn]

    def end(self, why: ModelRefused) -> Iterator[StepResult]:
        """Nothing more will come."""
        for row in self._open:
            row.end(why)
            yield row.result()


def replay_all(
    lanes: Iterable[Lane], *, batch: bool = False
) -> Generator[tuple[Trace, StepResult]]:
    """Ask the lanes, `AT_ONCE` of them at a time, or all in one `batch`; yields as `run.replay`.

    A lane is taken when another is over. A model that declines altogether ends all that are under
    way, and no other is taken. Raises OfflineMiss naming run and step once all that is stored is
    out, and Stopped.
    """
    coming = iter(lanes)
    going: list[Lane] = []
    miss: OfflineMiss | None = None
    try:
        while going := [*going, *islice(coming, None if batch else AT_ONCE - len(going))]:
            yield from _wave(going, batch=batch)
            miss = miss or next((_named(lane) for lane in going if lane.miss is not None), None)
            going = [lane for lane in going if not lane.over]
    except ModelRefused as refused:
        yield from ((lane.trace, row) for lane in going for row in lane.end(refused))
        return
    if miss is not None:
        raise miss


def _wave(lanes: Sequence[Lane], *, batch: bool) -> Iterator[tuple[Trace, StepResult]]:
    """One wave of each."""
    for lane in lanes:
        yield from ((lane.trace, row) for row in lane.refused())
    owners = {each: lane for lane in lanes for each in lane.wave()}
    marked = any(lane.marked for lane in lanes)
    for each, outcome in asked(tuple(owners), marked=marked, batch=batch):
        lane = owners[each]
        yield from ((lane.trace, row) for row in lane.take(each, outcome))


def _named(lane: Lane) -> OfflineMiss:
    assert lane.miss is not None
    name = lane.trace.header.source_id
    return OfflineMiss(f"{name}, {lane.miss.message}", lane.miss.hint)
