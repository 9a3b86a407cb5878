"""How do runs end that go on from a step under an edit? Free replays from a prefix, each judged.

Everything before the step is as recorded; from there the edited agent acts, and the tape answers
it. What such a run came to is judged as a whole: the calls recorded before the step, then its own.
A run that stopped before its end (nothing answers a call, the user's recorded words would answer
other words) is judged only where what it did by then settles it; else it is censored, and counted
apart: it says neither that the run was saved nor that it was lost.

`Rollouts` answers the wishes of a search over versions, each of which may begin at another step;
the runs of one round go on side by side. Who looks at prefixes one by one (`savable`) asks for
`rollouts(edit, start, k)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from replay import action
from replay.action import Act, Action
from replay.bisection.rounds import Outcome, SampleRequest
from replay.bisection.versions import CannotAsk, Evidence, Version, first_reasons
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.errors import BadEdit, ModelRefused, NotFound
from replay.free.recorded_results import BARE, Terms
from replay.free.result import FreeRun
from replay.free.run import FreeRunner, recorded_actions, run_all
from replay.locked.row import RANGE
from replay.models.cached import Cached
from replay.predicate import Predicate
from replay.trace import Fidelity, Trace


class Ending(Protocol):
    """Whether a run came to what was wanted, by a name that stands beside every figure of it."""

    name: str

    def met(self, trace: Trace, run: FreeRun) -> bool | None:
        """None where the run stopped before that could be told."""
        ...


class Reaches:
    """A run that meets an expectation, taken as one action: all its calls, and its last words."""

    def __init__(self, expected: Predicate) -> None:
        self.name = expected.text
        self._expected = expected

    def met(self, trace: Trace, run: FreeRun) -> bool | None:
        return self._expected.met(as_one(trace, run), whole=run.status == "finished")


class Rollout(Struct, frozen=True, eq=False, kw_only=True):
    """One run from `start` on. `bad` where it did not come to what was wanted, None where it was
    censored, and `why` then says why."""

    start: int
    sample: int
    bad: Outcome
    run: FreeRun
    version: int = 0
    why: str | None = None


class Rollouts:
    """Runs of one model over one trace. `given` are those judged so far, in order."""

    def __init__(
        self,
        trace: Trace,
        ending: Ending,
        model: Cached,
        versions: Iterable[Version] = (),
        *,
        terms: Terms = BARE,
        rules: Rules = PLAIN,
        max_steps: int | None = None,
        range: int = 0,
    ) -> None:
        """Raises BadEdit where a version does not apply, CannotAsk where nothing can be asked."""
        self.ending = ending
        self.model = model
        self.given: list[Rollout] = []
        self.versions: list[Version] = []
        self.fidelity: Fidelity | None = None
        self._trace = trace
        self._terms = terms
        self._rules = rules
        self._max_steps = max_steps
        self._first = range * RANGE
        for each in versions:
            self.add(each)

    @property
    def name(self) -> str:
        """By whose word a run is bad."""
        return f"runs that do not come to {self.ending.name}"

    def add(self, version: Version) -> int:
        """One more version; its number. Raises as the constructor does."""
        try:
            ahead = recorded_actions(self._trace, version.edit, self.model.name, version.start)
        except BadEdit as error:
            raise BadEdit(f"{version.name}: {error.message}", error.hint) from error
        if not ahead:
            raise NotFound("step", str(version.start))
        if ahead[0].refusal is not None:
            where = f"step {ahead[0].step.index} cannot be asked"
            raise CannotAsk(f"{version.name}: {where}: {ahead[0].refusal}")
        first = ahead[0]
        self.fidelity = self.fidelity or first.edited.sent.fidelity(first.step.ask.fidelity)
        self.versions.append(version)
        return len(self.versions) - 1

    @property
    def evidence(self) -> list[Evidence]:
        """What was judged, in order: a run by its digest."""
        return [
            Evidence(each.version, each.sample, each.run.digest, each.bad) for each in self.given
        ]

    @property
    def guessed(self) -> int:
        """How many of those that were judged rest on a guess of what tools do."""
        return sum(1 for each in self.given if each.bad is not None and each.run.guessed)

    @property
    def lost(self) -> dict[int, str]:
        """By version, why the first run that could not be judged could not."""
        return first_reasons((each.version, each.why) for each in self.given)

    def outcomes(self, wishes: Sequence[SampleRequest]) -> list[Outcome]:
        """Make the runs and judge them, in their order.

        Raises OfflineMiss naming the step, ModelRefused where the model declines altogether; then
        none of them is judged, and what was answered is stored.
        """
        return [each.bad for each in self._made(wishes, list(map(self._begun, wishes)))]

    def rollouts(self, edit: Edit | None, start: int | None, k: int) -> list[Rollout]:
        """The first k runs from a step on (None: the first of the thread), judged.

        Raises NotFound, BadEdit and OfflineMiss as a free run does, ModelRefused where the model
        declines altogether (a limit, no key).
        """
        wishes = [SampleRequest(0, sample) for sample in range(k)]
        return self._made(wishes, [self._going(edit, start, sample) for sample in range(k)])

    def _begun(self, wish: SampleRequest) -> FreeRunner:
        version = self.versions[wish.version]
        try:
            return self._going(version.edit, version.start, wish.sample)
        except BadEdit as error:
            raise BadEdit(f"{version.name}: {error.message}", error.hint) from error

    def _going(self, edit: Edit | None, start: int | None, sample: int) -> FreeRunner:
        return FreeRunner(
            self._trace,
            edit,
            self.model,
            self._terms,
            start=start,
            sample=self._first + sample,
            max_steps=self._max_steps,
            rules=self._rules,
        )

    def _made(self, wishes: Sequence[SampleRequest], runs: Sequence[FreeRunner]) -> list[Rollout]:
        """The runs at their ends, side by side until then, judged in the order of the wishes."""
        run_all(runs, self.model)
        for each in runs:
            if each.made.stop is not None and each.made.stop.passing:
                raise ModelRefused(each.made.stop.sentence)
        made = [self._judged(wish, each.made) for wish, each in zip(wishes, runs, strict=True)]
        self.given += made
        return made

    def _judged(self, wish: SampleRequest, run: FreeRun) -> Rollout:
        met = self.ending.met(self._trace, run)
        return Rollout(
            start=run.start,
            sample=wish.sample,
            bad=None if met is None else not met,
            run=run,
            version=wish.version,
            why=None if met is not None else run.stop.sentence if run.stop else None,
        )


def as_one(trace: Trace, run: FreeRun) -> Action:
    """A run as one action: the calls recorded before its start, then its own; its last words."""
    before = [
        call
        for step in trace.steps
        if step.thread == run.thread and step.index < run.start
        for call in action.action(step.ask.response, step.ask.error).calls
    ]
    return Action(calls=(*before, *_own(run)), text=run.text or "")


def _own(run: FreeRun) -> Iterator[Act]:
    """The calls of a run; those of an answer that is not whole may be half a call."""
    for step in run.steps:
        if step.action is not None and step.action.cut is None:
            yield from step.action.calls
