"""From which step on does a fix no longer save the run?

The fix is made from the contradiction itself: the model is told what it had been shown. The run
goes on from each step with the fix; whether the fix takes the failure away is tested first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.bisection.change_point import is_majority
from replay.bisection.trials import Ending, Rollout, Rollouts
from replay.edit.changes import Edit, InjectConstraint
from replay.free.recorded_results import BARE, Terms
from replay.free.run import limit_of, recorded_actions
from replay.models.cached import Cached
from replay.statistics import ALPHA, effect_probability, fisher
from replay.trace import Trace
from taxonomy.findings import Evidence, Finding
from taxonomy.first_contradiction.contradictions import Answer, Contradiction
from taxonomy.rules import rule_of


class RecoverableDetector:
    """As `StepDetector`: is the run lost, whatever the fix does from this step on?"""

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
        self.name = f"recoverable: {ending.name}"
        self.model = model
        self.fix = fix
        self._samples = samples
        self._rollouts = Rollouts(trace, ending, model, terms=terms)
        self._fresh = Rollouts(trace, ending, model, terms=terms, range=self.fresh)
        planned = recorded_actions(trace, fix, model.name, None)
        self.steps = tuple(plan.step.index for plan in planned if plan.refusal is None)
        self.calls = samples * limit_of(planned, None)
        refused = {plan.step.index: plan.refusal for plan in planned if plan.refusal is not None}
        others = (step.index for step in trace.steps if step.index not in self.steps)
        self.unasked: Mapping[int, str] = {
            step: refused.get(step, "in another thread than the fix") for step in others
        }

    def at(self, step: int) -> Answer:
        """As `StepDetector.at`. Raises OfflineMiss and ModelRefused as a free run does."""
        found = list(self._rollouts.rollouts(self.fix, step, self._samples))
        counts = _arm_of(found)
        saved = is_majority(counts.n - counts.bad, counts.n)
        return Answer(
            step=step,
            bad=None if saved is None else not saved,
            phrase=_phrase(counts, found),
            bad_of=counts.bad,
            n=counts.n,
            lost=counts.lost,
        )

    def trial(self, step: int, samples: int) -> tuple[Arm, Arm]:
        """Runs from a step without the fix and with it: how many do not come to what was wanted.

        They are fresh: the first ones are why the step was chosen.
        """
        arms = [_arm_of(self._fresh.rollouts(edit, step, samples)) for edit in (None, self.fix)]
        return arms[0], arms[1]


def _phrase(counts: Arm, found: Sequence[Rollout]) -> str:
    why = next((each.why for each in found if each.bad is None and each.why), "")
    if not counts.n:
        return f"no usable run: {why}"
    censored = f", {counts.lost} unusable" if counts.lost else ""
    return f"recovered {counts.n - counts.bad} of {counts.n}{censored}"


Status: TypeAlias = Literal["confirmed", "refuted", "inconclusive"]


class Arm(Struct, frozen=True, kw_only=True):
    """The answers of one arm: `bad` of `n` show the failure, `lost` could not be judged, the first
    of them for the reason `why`."""

    bad: int
    n: int
    lost: int = 0
    why: str | None = None

    @property
    def is_mostly_bad(self) -> bool:
        return 2 * self.bad > self.n


class Trial(Struct, frozen=True, kw_only=True):
    """A hypothesis tested at a step: control beside the fix. `by` names the detector."""

    step: int
    by: str
    fix: Edit
    control: Arm
    fixed: Arm

    @property
    def p(self) -> float:
        """Fisher's exact test, two-sided: one test, so nothing is corrected."""
        return fisher(*self._counts)

    @property
    def status(self) -> Status:
        if not self.control.n or not self.fixed.n or not self.control.is_mostly_bad:
            return "inconclusive"
        if self.p <= ALPHA:
            return "inconclusive" if self.fixed.is_mostly_bad else "confirmed"
        little = effect_probability(*self._counts) <= ALPHA
        return "refuted" if little else "inconclusive"

    @property
    def _counts(self) -> tuple[int, int, int, int]:
        return self.control.bad, self.control.n, self.fixed.bad, self.fixed.n


def arm(shown: Sequence[bool | None], why: str | None = None) -> Arm:
    """The answers of an arm, as a detector judged them, and why the first that it could not judge
    could not be judged."""
    known = [each for each in shown if each is not None]
    return Arm(bad=sum(known), n=len(known), lost=len(shown) - len(known), why=why)


def _arm_of(runs: Sequence[Rollout]) -> Arm:
    why = next((each.why for each in runs if each.bad is None and each.why), None)
    return arm([each.bad for each in runs], why)


_AGREE = "What you say and do next must agree with it."


def fix_of(trace: Trace, found: Contradiction) -> Edit:
    """The edit that tells the model at the step what it contradicts."""
    return instruct_at(trace, found.step, _words(found))


def instruct_at(trace: Trace, step: int, words: str) -> Edit:
    """An instruction in the system's name at a step of a run, in the thread of that step."""
    thread = trace.steps[step].thread
    return Edit(
        name=f"instruction at step {step}",
        changes=(InjectConstraint(words, step),),
        thread=thread if thread != trace.steps[0].thread else None,
    )


def reproached(found: Answer) -> str:
    """What a judge said against a step, as it can be told to the model that takes it again."""
    reasons = " ".join(each.text.rstrip(".") for each in found.evidence)
    return (
        f"A judge faults another answer that was given here: {reasons}."
        " Give one without that fault."
    )


def telling(sources: Iterable[Evidence]) -> str:
    """What sources say, as it can be told to a model."""
    return " ".join(_evidence_sentence(each) for each in sources)


def _words(found: Contradiction) -> str:
    rule = rule_of(found.finding)
    if rule is not None and rule.against == "context":
        return _grounded(found.finding)
    advice = rule.advice if rule is not None else None
    return f"{telling(found.against)} {advice or _AGREE}"


def _grounded(finding: Finding) -> str:
    return (
        f"Never make up a value: {finding.why.partition(' · ')[0]}. Before you change"
        " anything, read what the value is with a tool, or ask; never guess amounts, numbers or"
        " ids."
    )


def _evidence_sentence(source: Evidence) -> str:
    where = f"step {source.step}, {source.place}" if source.step is not None else source.place
    match source.role:
        case "observed":
            return f"Observed ({where}): {source.text}."
        case "error":
            return f"The call failed ({where}): {source.text}."
        case "worked out":
            return f"Worked out: {source.text}."
        case _:
            return f"Stated ({where}): {source.text.rstrip('.')}."
