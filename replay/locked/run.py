"""Would the model, asked again at every recorded step, act as it did? And under an edit?

Samples that are missing are asked together, those of several traces too. `Result` is the value that
the digest is taken over. Only what follows from the trace, the edit, the rules, the samples and the
stored answers stands in it: no clock, no id of a provider, no cost, no order of completion, no
schedule. Two runs over the same answers give the same bytes on any machine. It proves which
evidence was seen; it says nothing about a model.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice

from msgspec import Struct

from replay import convert, digests
from replay.action import Action
from replay.compare import actions
from replay.compare.actions import DifferenceKind, PathChange
from replay.compare.rules import PLAIN, PathRule, Rules
from replay.convert import API
from replay.edit.changes import Edit
from replay.errors import ModelRefused, OfflineMiss
from replay.locked.row import AUTO, Missing, Models, Row, Sampling
from replay.locked.tally import Reply, StepResult
from replay.models.cached import Outcome
from replay.plan import naming_arm, plans
from replay.predicate import Detector
from replay.trace import Level, Trace

FORMAT = "arc-replay/2"


class CoreAnswer(Struct, frozen=True, kw_only=True):
    """One answer: the key it is stored under, what it does, how that differs from the recording."""

    key: str
    action: Action
    same: bool | None
    kinds: tuple[DifferenceKind, ...] = ()
    changes: tuple[PathChange, ...] = ()


class CoreRow(Struct, frozen=True, kw_only=True):
    """One step. `refused` says why it was not asked, `edited_refused` why only the edit was not."""

    step: int
    thread: str
    fidelity: Level
    recorded: Action
    control: tuple[CoreAnswer, ...] = ()
    edited: tuple[CoreAnswer, ...] = ()
    losses: tuple[str, ...] = ()
    refused: str | None = None
    edited_refused: str | None = None


class Core(Struct, frozen=True, kw_only=True):
    """A whole replay, and all that is needed to run it again.

    `edit` is the digest of the edit, None for the control arm alone; a `server` is "" for the
    official API and for models of this machine; `steps` None stands for all of them. How many
    samples a step got stands in its row: what decided that is no part of the evidence.
    """

    trace: str
    edit: str | None
    model: str
    rows: tuple[CoreRow, ...]
    edited_model: str | None = None
    server: str = ""
    edited_server: str = ""
    levels: tuple[int, ...] = (1,)
    range: int = 0
    steps: tuple[int, ...] | None = None
    paths: tuple[PathRule, ...] = ()
    format: str = FORMAT
    api: str = API
    convert: int = convert.VERSION
    rules: int = actions.VERSION

    @property
    def digest(self) -> str:
        return digests.digest("replay", self.encoded())

    def encoded(self) -> bytes:
        """The canonical bytes."""
        return digests.encode(self)


def core(
    trace: Trace,
    edit: Edit | None,
    models: Models,
    results: Collection[StepResult],
    *,
    sampling: Sampling,
    steps: Collection[int] | None,
    rules: Rules,
) -> Core:
    """What the replay came to, in the order of its steps."""
    other = models.edited.name
    return Core(
        trace=trace.id,
        edit=edit.digest if edit is not None else None,
        model=models.control.name,
        edited_model=other if other != models.control.name else None,
        server=models.control.server,
        edited_server=models.edited.server,
        levels=sampling.levels,
        range=sampling.range,
        steps=None if steps is None else tuple(sorted(steps)),
        paths=rules.paths,
        rows=tuple(_row(row) for row in sorted(results, key=lambda row: row.step)),
    )


def _row(row: StepResult) -> CoreRow:
    return CoreRow(
        step=row.step,
        thread=row.thread,
        fidelity=row.fidelity.level,
        recorded=row.recorded,
        control=tuple(map(_answer, row.control)),
        edited=tuple(map(_answer, row.edited)),
        losses=row.losses,
        refused=row.refused,
        edited_refused=row.edited_refused,
    )


def _answer(reply: Reply) -> CoreAnswer:
    return CoreAnswer(
        key=reply.key,
        action=reply.action,
        same=reply.against.same,
        kinds=reply.against.kinds,
        changes=reply.against.changes,
    )


def replay(
    trace: Trace,
    edit: Edit | None,
    models: Models,
    *,
    sampling: Sampling = AUTO,
    steps: Collection[int] | None = None,
    rules: Rules = PLAIN,
    detector: Detector | None = None,
) -> Generator[StepResult]:
    """Ask the steps of a trace again (all, or those of `steps`), control beside the edit.

    A step is yielded whenever more of it is known: a later value takes the place of an earlier
    one. `detector` tells which answers at its step still show the failure. The edit is tried on
    every step before the first is asked. A request that the model declines gives its arm a
    sentence; a model that declines altogether ends the replay with one. Closing the iterator stops
    it; what was answered is kept, and asked for by nobody again.

    Raises BadEdit naming the step where the edit does not apply, OfflineMiss naming it where an
    answer is not stored and none may be asked for.
    """
    going = replay_arms(
        trace, [(edit, models)], sampling=sampling, steps=steps, rules=rules, detector=detector
    )
    for _, result in going:
        yield result


def replay_arms(
    trace: Trace,
    arms: Sequence[tuple[Edit | None, Models]],
    *,
    sampling: Sampling = AUTO,
    steps: Collection[int] | None = None,
    rules: Rules = PLAIN,
    detector: Detector | None = None,
) -> Generator[tuple[int, StepResult]]:
    """Ask the steps of a trace again under each edit; yields the place of an arm, and a step of it
    as `replay` does. Control's requests are the same in all, so each of its samples is asked once.
    Raises as `replay` does, naming the arm too where there are several."""
    lanes = []
    for edit, models in arms:
        name = edit.name if edit is not None and len(arms) > 1 else ""
        with naming_arm(edit, len(arms)):
            lane = Lane(
                trace,
                edit,
                models,
                sampling=sampling,
                steps=steps,
                rules=rules,
                detector=detector,
                name=name and f"arm {name}",
            )
        lanes.append(lane)
    tests = sum(lane.tests for lane in lanes)
    for lane in lanes:
        lane.tests, lane.breaks = tests, len(lanes)
    places = {lane: place for place, lane in enumerate(lanes)}
    for lane, result in replay_all(lanes, batch=sampling.schedule == "batch"):
        yield places[lane], result


def run_again(
    saved: Core, trace: Trace, edit: Edit | None, models: Models, *, least: int = 0
) -> Core:
    """The replay that a result tells of, under its terms: of each step as many samples as it has,
    and at the least so many. Raises OfflineMiss where one cannot be had."""
    counts = {row.step: max(len(row.control), len(row.edited), least) for row in saved.rows}
    sampling = Sampling(levels=saved.levels, range=saved.range, counts=counts)
    rules = Rules(saved.paths)
    going = replay(trace, edit, models, sampling=sampling, steps=saved.steps, rules=rules)
    found = {result.step: result for result in going}
    return core(
        trace, edit, models, found.values(), sampling=sampling, steps=saved.steps, rules=rules
    )


AT_ONCE = 8
"""So many traces are under way at a time: what a limit cuts short is a few of them and not all."""


class Lane:
    """One trace under one edit, beside others. In turn, a step goes through all its levels before
    the next, and the first sample of an arm goes ahead: it leaves its request in the provider's
    cache, and the other samples, and the next step, read it there.

    `tests` is how many steps the edits of a replay touch, `breaks` how many of them meet the break,
    those of its other arms too. `name` stands before what is said of an answer that is not stored.
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
        detector: Detector | None = None,
        name: str | None = None,
    ) -> None:
        planned = plans(trace, edit, models.control.name, steps, edited_model=models.edited.name)
        self.trace = trace
        self.name = trace.header.source_id if name is None else name
        self.miss: OfflineMiss | None = None
        self._in_turn = sampling.schedule == "cheap"
        self._rows = [Row(plan, edit, models, sampling, rules, detector) for plan in planned]
        self._refused = [row.result() for row in self._rows if row.finished]
        self.tests = sum(row.touched for row in self._open)
        self.breaks = 1
        again = len(self._rows) > 1 or sampling.levels[-1] > 1
        self.marked = self._in_turn and again
        self._wanted: list[Missing] = []

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

    def take(self, missing: Missing, outcome: Outcome) -> Iterator[StepResult]:
        """What came of one sample; with the last of a level, what is known of its steps."""
        self._under_way -= 1
        if isinstance(outcome, OfflineMiss):
            self.miss = self.miss or outcome
        else:
            missing.row.take(missing, outcome)
        if self._under_way or self._wanted or self.miss is not None:
            return
        yield from self._advance()

    def _advance(self) -> list[StepResult]:
        turn = self._turn()
        for row in turn:
            row.advance(self.tests, self.breaks)
        return [row.result() for row in turn]

    def end(self, why: ModelRefused) -> Iterator[StepResult]:
        """Nothing more will come."""
        for row in self._open:
            row.end(why)
            yield row.result()


def replay_all(lanes: Iterable[Lane], *, batch: bool = False) -> Generator[tuple[Lane, StepResult]]:
    """Ask the lanes, `AT_ONCE` of them at a time, or all in one `batch`; yields as `replay`.

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
            miss = miss or next((_name_lane(lane) for lane in going if lane.miss is not None), None)
            going = [lane for lane in going if not lane.over]
    except ModelRefused as refused:
        yield from ((lane, row) for lane in going for row in lane.end(refused))
        return
    if miss is not None:
        raise miss


def _wave(lanes: Sequence[Lane], *, batch: bool) -> Iterator[tuple[Lane, StepResult]]:
    """One wave of each."""
    for lane in lanes:
        yield from ((lane, row) for row in lane.refused())
    owners = {each: lane for lane in lanes for each in lane.wave()}
    marked = any(lane.marked for lane in lanes)
    for each, outcome in answers_of(tuple(owners), marked=marked, batch=batch):
        lane = owners[each]
        yield from ((lane, row) for row in lane.take(each, outcome))


def _name_lane(lane: Lane) -> OfflineMiss:
    assert lane.miss is not None
    said = ", ".join(filter(None, (lane.name, lane.miss.message)))
    return OfflineMiss(said, lane.miss.hint)


def answers_of(
    missing: Sequence[Missing], *, marked: bool = False, batch: bool = False
) -> Iterator[tuple[Missing, Outcome]]:
    """What each sample comes to, as it comes; each model answers its own at once.

    A miss names its step. Raises ModelRefused where a model declines altogether, and Stopped.
    """
    for model in dict.fromkeys(each.model for each in missing):
        wanted = [each for each in missing if each.model is model]
        asks = [each.ask for each in wanted]
        with closing(model.answers(asks, marked=marked, batch=batch)) as answers:
            for place, outcome in answers:
                each = wanted[place]
                yield (
                    each,
                    _asking_named(outcome, each) if isinstance(outcome, OfflineMiss) else outcome,
                )


def _asking_named(miss: OfflineMiss, wanted: Missing) -> OfflineMiss:
    """The miss with its step, and what can be had without asking."""
    where = f"step {wanted.row.plan.step.index}"
    if not wanted.place:
        return OfflineMiss(f"{where}: {miss.message}", miss.hint)
    which = f"{where}, {wanted.side}, sample {wanted.place + 1}"
    return OfflineMiss(f"{which}: {miss.message}", f"{miss.hint}; fewer samples: -k {wanted.place}")
