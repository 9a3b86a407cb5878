"""What does a version do? Its samples: answers at one step, or whole free runs, each judged.

`Trials` asks one step as in a locked replay: its recorded context, changed by the version's edit. A
sample of a version is an answer with that number, stored like every other, so a search that is run
again pays only for what it had not asked.

`Rollouts` are free replays from a prefix. Everything before the step is as recorded; from there the
edited agent acts, and the recorded results answer it. What such a run came to is judged as a whole:
the calls recorded before the step, then its own. A run that stopped before its end (nothing answers
a call, the user's recorded words would answer other words) is judged only where what it did by then
settles it; else it is censored, and counted apart: it says neither that the run was saved nor that
it was lost. Each version may begin at another step; the runs of one round go on side by side. Who
looks at prefixes one by one asks for `rollouts(edit, start, k)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from replay import action
from replay.action import Act, Action
from replay.bisection.rounds import Outcome, SampleRequest
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.errors import BadEdit, ModelRefused, OfflineMiss, RequestRefused, no_step
from replay.free.recorded_results import BARE, Terms
from replay.free.result import FreeRun
from replay.free.run import FreeRunner, recorded_actions, run_all
from replay.locked.row import RANGE
from replay.models.cached import Answered, Ask, Cached
from replay.plan import Arm, Plan, plans
from replay.predicate import Detector, Predicate
from replay.trace import Fidelity, Trace


class Version(Struct, frozen=True, kw_only=True):
    """One of the versions to be held against each other. `edit` None asks as recorded.

    `start` is the step a free run of it begins at, None for the first of the thread.
    """

    name: str
    edit: Edit | None
    start: int | None = None


class NotReplayable(BadEdit):
    """A step that cannot be asked again, whatever is edited: its request is not known, or cannot
    be sent."""


class Evidence(NamedTuple):
    """One sample of a version: the key of what was stored of it, and whether it was bad."""

    version: int
    sample: int
    key: str | None
    bad: Outcome


def first_reasons(found: Iterable[tuple[int, str | None]]) -> dict[int, str]:
    """By version, the first reason that is given."""
    reasons: dict[int, str] = {}
    for version, why in found:
        if why is not None:
            reasons.setdefault(version, why)
    return reasons


class SampledVersions(Protocol):
    """Versions whose samples can be had: answers at one step (`Trials`), whole runs (`Rollouts`).

    `name` says by whose word a sample is bad.
    """

    model: Cached

    @property
    def name(self) -> str: ...

    @property
    def fidelity(self) -> Fidelity | None:
        """That of the requests that are asked or grown from."""
        ...

    @property
    def evidence(self) -> list[Evidence]: ...

    @property
    def lost(self) -> dict[int, str]:
        """By version, why a first sample could not be judged."""
        ...

    def add(self, version: Version) -> int:
        """One more version; its number. Raises BadEdit where it does not apply."""
        ...

    def outcomes(self, wishes: Sequence[SampleRequest]) -> list[Outcome]:
        """Ask for samples and judge them, in their order."""
        ...


@runtime_checkable
class Considers(Protocol):
    """A detector that asks somebody itself: told of all the answers it will be shown, it asks about
    them at once. Raises OfflineMiss where it may not ask, ModelRefused where that declines."""

    def consider(self, actions: Sequence[Action]) -> None: ...


class Given(Struct, frozen=True, kw_only=True):
    """One judged answer. `bad` None where it could not be judged, `why` says why.

    `key` is the stored answer's, None where the request was refused.
    """

    version: int
    sample: int
    bad: Outcome
    action: Action | None
    key: str | None
    why: str | None = None


class Trials:
    """The answers of some versions at one step. `given` are those judged so far, in order."""

    def __init__(
        self,
        trace: Trace,
        detector: Detector,
        model: Cached,
        versions: Iterable[Version] = (),
        *,
        range: int = 0,
    ) -> None:
        """Raises BadEdit where a version does not apply there, NotReplayable where none could."""
        self.detector = detector
        self.model = model
        self.versions: list[Version] = []
        self.given: list[Given] = []
        self.fidelity: Fidelity | None = None
        self._trace = trace
        self._first = range * RANGE
        self._arms: list[Arm] = []
        for each in versions:
            self.add(each)

    @property
    def name(self) -> str:
        """By whose word an answer is bad."""
        return self.detector.name

    def add(self, version: Version) -> int:
        """One more version; its number. Raises as the constructor does."""
        planned = _planned(self._trace, self.detector.step, version, self.model.name)
        self.fidelity = planned.edited.sent.fidelity(planned.step.ask.fidelity)
        self._arms.append(planned.edited)
        self.versions.append(version)
        return len(self.versions) - 1

    @property
    def evidence(self) -> list[Evidence]:
        """What was judged, in order: an answer by the key it is stored under."""
        return [Evidence(each.version, each.sample, each.key, each.bad) for each in self.given]

    @property
    def lost(self) -> dict[int, str]:
        """By version, why the first answer that could not be judged could not."""
        return first_reasons((each.version, each.why) for each in self.given)

    def asks(self, wishes: Iterable[SampleRequest]) -> list[Ask]:
        """The requests of some samples, as the model gets them."""
        return [Ask(self._arms[each.version].sent, self._first + each.sample) for each in wishes]

    def outcomes(self, wishes: Sequence[SampleRequest]) -> list[Outcome]:
        """Ask for samples and judge them, in their order.

        Raises OfflineMiss naming the version where an answer is not stored and none may be asked
        for, ModelRefused where the model declines altogether, Stopped after `Cached.stop`.
        """
        came: dict[int, Answered | RequestRefused] = {}
        for place, outcome in self.model.answers(self.asks(wishes), marked=len(wishes) > 1):
            wish = wishes[place]
            if isinstance(outcome, OfflineMiss):
                name = self.versions[wish.version].name
                where = f"{name}, sample {wish.sample + 1}"
                raise OfflineMiss(f"{where}: {outcome.message}", outcome.hint)
            came[place] = outcome
        did = {place: self._action(wishes[place], outcome) for place, outcome in came.items()}
        self._consider(each for _, each in sorted(did.items()))
        ordered = [self._judged(wish, came[at], did[at]) for at, wish in enumerate(wishes)]
        self.given += ordered
        return [each.bad for each in ordered]

    def actions(self, wishes: Iterable[SampleRequest]) -> list[Action]:
        """What the stored answers among some samples do."""
        stored = [
            (wish, ask)
            for wish in wishes
            for ask in self.asks([wish])
            if self.model.stored(ask.sent, ask.sample)
        ]
        given = (self._action(wish, self.model.answer(*ask)) for wish, ask in stored)
        return [each for each in given if each is not None]

    def _consider(self, actions: Iterable[Action | None]) -> None:
        if isinstance(self.detector, Considers):
            whole = [each for each in actions if each is not None and each.cut is None]
            self.detector.consider(whole)

    def _judged(
        self, wish: SampleRequest, outcome: Answered | RequestRefused, did: Action | None
    ) -> Given:
        if isinstance(outcome, RequestRefused) or did is None:
            return Given(
                version=wish.version,
                sample=wish.sample,
                bad=None,
                action=None,
                key=None,
                why=str(outcome),
            )
        bad = None if did.cut is not None else self.detector.shows(did)
        unknown = f"{self.detector.name}: inconclusive" if bad is None else None
        return Given(
            version=wish.version,
            sample=wish.sample,
            bad=bad,
            action=did,
            key=outcome.key,
            why=did.cut or unknown,
        )

    def _action(self, wish: SampleRequest, answer: Answered | RequestRefused) -> Action | None:
        """What the answer does, its tools called as in the recording."""
        if isinstance(answer, RequestRefused):
            return None
        arm, edit = self._arms[wish.version], self.versions[wish.version].edit
        did = action.answered(answer.body, arm.sent.recorded_name)
        return did if edit is None else action.named(did, edit.recorded_name)


def _planned(trace: Trace, step: int, version: Version, model: str) -> Plan:
    """The step as the version asks it. Raises BadEdit naming the version where it cannot."""
    try:
        planned = plans(trace, version.edit, model, {step})
    except BadEdit as error:
        raise BadEdit(f"{version.name}: {error.message}", error.hint) from error
    if not planned:
        raise no_step(step, len(trace.steps))
    (plan,) = planned
    refusal = plan.refusal or plan.edited_refusal
    if refusal is not None:
        raise NotReplayable(f"{version.name}: cannot replay step {step}: {refusal}")
    return plan


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
        """Raises BadEdit where a version does not apply, NotReplayable where no step can be."""
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
        return f"runs that do not reach {self.ending.name}"

    def add(self, version: Version) -> int:
        """One more version; its number. Raises as the constructor does."""
        try:
            ahead = recorded_actions(self._trace, version.edit, self.model.name, version.start)
        except BadEdit as error:
            raise BadEdit(f"{version.name}: {error.message}", error.hint) from error
        first = ahead[0]
        if first.refusal is not None:
            where = f"cannot replay step {first.step.index}"
            raise NotReplayable(f"{version.name}: {where}: {first.refusal}")
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
        return [each.bad for each in self._made([(wish, self._begun(wish)) for wish in wishes])]

    def rollouts(self, edit: Edit | None, start: int | None, k: int) -> list[Rollout]:
        """The first k runs from a step on (None: the first of the thread), judged.

        Raises NotFound, BadEdit and OfflineMiss as a free run does, ModelRefused where the model
        declines altogether (a limit, no key).
        """
        wishes = [SampleRequest(0, sample) for sample in range(k)]
        return self._made([(wish, self._going(edit, start, wish.sample)) for wish in wishes])

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

    def _made(self, begun: Sequence[tuple[SampleRequest, FreeRunner]]) -> list[Rollout]:
        """The runs at their ends, side by side until then, judged in the order of the wishes."""
        runs = [run for _, run in begun]
        run_all(runs, self.model)
        for each in runs:
            if each.made.stop is not None and each.made.stop.passing:
                raise ModelRefused(each.made.stop.sentence)
        made = [self._judged(wish, run.made) for wish, run in begun]
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
