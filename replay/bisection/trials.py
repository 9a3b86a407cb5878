"""What does a version do at one step? Its answers there, asked and judged.

The step is asked as in a locked replay: its recorded context, changed by the version's edit. A
sample of a version is an answer with that number, stored like every other, so a search that is run
again pays only for what it had not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from replay import action
from replay.action import Action
from replay.bisection.search import Outcome, Wish
from replay.edit import Edit
from replay.errors import BadEdit, OfflineMiss, RequestRefused
from replay.locked.sampling import RANGE
from replay.models.cached import Answered, Ask, Cached
from replay.oracle import Oracle
from replay.plan import Arm, plans
from replay.trace import Trace


class Version(Struct, frozen=True, kw_only=True):
    """One of the versions to be held against each other. `edit` None asks as recorded."""

    name: str
    edit: Edit | None


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
        versions: Sequence[Version],
        model: Cached,
        oracle: Oracle,
        *,
        range: int = 0,
    ) -> None:
        """Raises BadEdit where the step cannot be asked, or a version does not apply there."""
        self.oracle = oracle
        self.versions = tuple(versions)
        self.given: list[Given] = []
        self.model = model
        self._first = range * RANGE
        self._arms = [_arm(trace, oracle.step, each, model.name) for each in self.versions]
        self.fidelity = trace.steps[oracle.step].ask.fidelity

    def asks(self, wishes: Iterable[Wish]) -> list[Ask]:
        """The requests of some samples, as the model gets them."""
        return [Ask(self._arms[each.version].sent, self._first + each.sample) for each in wishes]

    def outcomes(self, wishes: Sequence[Wish]) -> list[Outcome]:
        """Ask for samples and judge them, in their order.

        Raises OfflineMiss naming the version where an answer is not stored and none may be asked
        for, ModelRefused where the model declines altogether, Stopped after `Cached.stop`.
        """
        found: dict[int, Given] = {}
        for place, outcome in self.model.answers(self.asks(wishes), marked=len(wishes) > 1):
            wish = wishes[place]
            if isinstance(outcome, OfflineMiss):
                name = self.versions[wish.version].name
                raise OfflineMiss(f"{name}, sample {wish.sample + 1}: {outcome.message}",
                                  outcome.hint)  # fmt: skip
            found[place] = self._judged(wish, outcome)
        ordered = [found[place] for place in range(len(wishes))]
        self.given += ordered
        return [each.bad for each in ordered]

    def _judged(self, wish: Wish, outcome: Answered | RequestRefused) -> Given:
        if isinstance(outcome, RequestRefused):
            return Given(
                version=wish.version,
                sample=wish.sample,
                bad=None,
                action=None,
                key=None,
                why=str(outcome),
            )
        did = self._action(wish.version, outcome)
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

    def _action(self, version: int, answer: Answered) -> Action:
        """What the answer does, its tools called as in the recording."""
        arm, edit = self._arms[version], self.versions[version].edit
        did = action.answered(answer.body, arm.sent.recorded_name)
        return did if edit is None else action.named(did, edit.recorded_name)


def _arm(trace: Trace, step: int, version: Version, model: str) -> Arm:
    """The request of a version. Raises BadEdit naming the version where there is none."""
    try:
        planned = plans(trace, version.edit, model, {step})
    except BadEdit as error:
        raise BadEdit(f"{version.name}: {error.message}", error.hint) from error
    if not planned:
        raise BadEdit(f"the trace has no step {step}")
    (plan,) = planned
    refusal = plan.refusal or plan.edited_refusal
    if refusal is not None:
        raise BadEdit(f"{version.name}: step {step} cannot be asked: {refusal}")
    return plan.edited
