"""From which step on does a fix no longer save the run? The run goes on from each, with the fix.

A step is bad where most runs that go on from it under the fix do not come to what was wanted; the
step before the first bad one is the point of no return. Runs that stop where the tape does not
answer are censored and say nothing. A run that can be saved late can mostly be saved earlier too,
so it is asked by halves, and held to that by spots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.bisection.rollouts import Ending, Rollout, Rollouts
from replay.bisection.share import mostly
from replay.edit import Edit
from replay.free.run import limit_of, road
from replay.free.tape import BARE, Terms
from replay.models.cached import Cached
from replay.trace import Trace
from taxonomy.belief.oracle import Answer
from taxonomy.belief.trial import Arm, arm


class SavableOracle:
    """As `StepOracle`: is the run lost, whatever the fix does from this step on?"""

    monotone = True
    fresh = 1
    """The range of samples that a test takes its runs from."""

    def __init__(
        self,
        trace: Trace,
        fix: Edit,
        ending: Ending,
        model: Cached,
        samples: int,
        terms: Terms = BARE,
    ) -> None:
        """Raises BadEdit where the fix does not apply, NotFound where the trace has no step."""
        self.name = f"savable: {ending.name}"
        self.model = model
        self.fix = fix
        self._samples = samples
        self._rollouts = Rollouts(trace, ending, model, terms=terms)
        self._fresh = Rollouts(trace, ending, model, terms=terms, range=self.fresh)
        planned = road(trace, fix, model.name, None)
        self.steps = tuple(plan.step.index for plan in planned if plan.refusal is None)
        self.calls = samples * limit_of(planned, None)
        refused = {plan.step.index: plan.refusal for plan in planned if plan.refusal is not None}
        others = (step.index for step in trace.steps if step.index not in self.steps)
        self.unasked: Mapping[int, str] = {
            step: refused.get(step, "of another thread than the fix") for step in others
        }

    def at(self, step: int) -> Answer:
        """As `StepOracle.at`. Raises OfflineMiss and ModelRefused as a free run does."""
        found = list(self._rollouts.rollouts(self.fix, step, self._samples))
        told = arm([each.bad for each in found])
        saved = mostly(told.n - told.bad, told.n)
        return Answer(
            step=step,
            bad=None if saved is None else not saved,
            phrase=_phrase(told, found),
            bad_of=told.bad,
            n=told.n,
            lost=told.lost,
        )

    def trial(self, step: int, samples: int) -> tuple[Arm, Arm]:
        """Runs from a step without the fix and with it: how many do not come to what was wanted.

        They are fresh: the first ones are why the step was chosen.
        """
        arms = [
            arm([each.bad for each in self._fresh.rollouts(edit, step, samples)])
            for edit in (None, self.fix)
        ]
        return arms[0], arms[1]


def _phrase(told: Arm, found: Sequence[Rollout]) -> str:
    why = next((each.why for each in found if each.bad is None and each.why), "")
    if not told.n:
        return f"no run came far enough: {why}"
    censored = f", {told.lost} censored" if told.lost else ""
    return f"saved {told.n - told.bad} of {told.n}{censored}"
