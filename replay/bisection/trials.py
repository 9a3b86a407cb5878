"""What does a version do at one step? Its answers there, asked and judged.

The step is asked as in a locked replay: its recorded context, changed by the version's edit. A
sample of a version is an answer with that number, stored like every other, so a search that is run
again pays only for what it had not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from replay import action
from replay.action import Action
from replay.bisection.rounds import Outcome, SampleRequest
from replay.bisection.versions import CannotAsk, Evidence, Version, first_reasons
from replay.detector import Detector
from replay.errors import BadEdit, OfflineMiss, RequestRefused, no_step
from replay.locked.row import RANGE
from replay.models.cached import Answered, Ask, Cached
from replay.plan import Arm, Plan, plans
from replay.trace import Fidelity, Trace


@runtime_checkable
class Considers(Protocol):
    """An oracle that asks somebody itself: told of all the answers it will be shown, it asks about
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
        oracle: Detector,
        model: Cached,
        versions: Iterable[Version] = (),
        *,
        range: int = 0,
    ) -> None:
        """Raises BadEdit where a version does not apply there, CannotAsk where none could."""
        self.oracle = oracle
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
        return self.oracle.name

    def add(self, version: Version) -> int:
        """One more version; its number. Raises as the constructor does."""
        planned = _planned(self._trace, self.oracle.step, version, self.model.name)
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
                where = f"{name}, answer {wish.sample + 1}"
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
        if isinstance(self.oracle, Considers):
            whole = [each for each in actions if each is not None and each.cut is None]
            self.oracle.consider(whole)

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
        bad = None if did.cut is not None else self.oracle.shows(did)
        unknown = f"{self.oracle.name} cannot tell" if bad is None else None
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
        raise CannotAsk(f"{version.name}: step {step} cannot be asked: {refusal}")
    return plan
