"""What does the model believe at a step? It is asked, and held against what it had been shown.

A step is asked with its recorded context and a question after it (`question`), one call a step; a
belief that differs from the world's value, as observations last showed it, has left the world. That
it says it does not know is no false belief, and counts as no answer. Beliefs come back as well as
leave, so every step is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from replay.convert import Sent
from replay.edit import Edit
from replay.errors import OfflineMiss, RequestRefused
from replay.models.cached import Answered, Ask, Cached
from replay.models.choose import label
from replay.plan import Plan, plans
from replay.trace import Level, Trace
from taxonomy.belief import question
from taxonomy.belief.facts import Fact, agrees
from taxonomy.belief.hanging import written
from taxonomy.belief.oracle import Answer
from taxonomy.belief.trial import Arm, arm
from taxonomy.findings import Evidence

NOTHING_SHOWN = "nothing of it had been shown by then"


class Held(Struct, frozen=True, kw_only=True):
    """What is believed of a fact: `holds` None where it says that it does not know."""

    fact: Fact
    belief: question.Belief
    holds: bool | None


class BeliefOracle:
    """As `StepOracle`: is what the model believes at a step what it had been shown?"""

    monotone = False
    calls = 1

    def __init__(self, trace: Trace, facts: Sequence[Fact], model: Cached) -> None:
        self.name = f"belief, asked of {label(model.name)}"
        self.facts = tuple(facts)
        self.model = model
        self._trace = trace
        self._threads = [step.thread for step in trace.steps]
        self._plans = {plan.step.index: plan for plan in plans(trace, None, model.name, None)}
        self.unasked: Mapping[int, str] = {
            step: why for step in range(len(trace.steps)) if (why := self._why_not(step))
        }
        self.steps = tuple(step for step in range(len(trace.steps)) if step not in self.unasked)

    def at(self, step: int) -> Answer:
        """As `StepOracle.at`. Raises OfflineMiss naming the step, ModelRefused, Stopped."""
        (outcome,) = self._outcomes([Ask(self.sent(step), 0)], step)
        held = self._held(step, outcome)
        if isinstance(held, str):
            return Answer(step=step, bad=None, phrase=held)
        return _answer(step, held)

    def sent(self, step: int, plan: Plan | None = None) -> Sent:
        """The request that asks about a step, as recorded or with the fix of a plan."""
        request = (plan or self._plans[step]).edited.request
        return question.sent(request, self._abouts(step), self.model.name)

    def trial(self, step: int, fix: Edit, samples: int) -> tuple[Arm, Arm]:
        """Control and the fix at a step, `samples` beliefs each: how many are false.

        They are fresh: the first sample is why the step was chosen. Raises BadEdit where the fix
        does not apply there.
        """
        (plan,) = plans(self._trace, fix, self.model.name, {step})
        control, fixed = self.sent(step), self.sent(step, plan)
        asks = [Ask(sent, sample) for sent in (control, fixed) for sample in range(1, samples + 1)]
        told = [self._bad(step, outcome) for outcome in self._outcomes(asks, step)]
        return arm(told[:samples]), arm(told[samples:])

    # --- asking

    def _outcomes(self, asks: Sequence[Ask], step: int) -> list[Answered | RequestRefused]:
        found: dict[int, Answered | RequestRefused] = {}
        for place, outcome in self.model.answers(asks, marked=True):
            if isinstance(outcome, OfflineMiss):
                raise OfflineMiss(f"step {step}, belief: {outcome.message}", outcome.hint)
            found[place] = outcome
        return [found[place] for place in range(len(asks))]

    def _held(self, step: int, outcome: Answered | RequestRefused) -> list[Held] | str:
        """What is believed of each fact; a sentence where the answer cannot be read."""
        if isinstance(outcome, RequestRefused):
            return str(outcome)
        beliefs = question.read(outcome.body, self._abouts(step))
        if isinstance(beliefs, str):
            return beliefs
        return [
            Held(fact=fact, belief=belief, holds=self._holds(fact, belief, step))
            for fact, belief in zip(self._known(step), beliefs, strict=True)
        ]

    def _holds(self, fact: Fact, belief: question.Belief, step: int) -> bool | None:
        shown = fact.world(step)
        return agrees(belief.value, shown.value) if belief.known and shown is not None else None

    def _bad(self, step: int, outcome: Answered | RequestRefused) -> bool | None:
        held = self._held(step, outcome)
        return None if isinstance(held, str) else _answer(step, held).bad

    # --- what can be asked

    def _known(self, step: int) -> list[Fact]:
        """The facts whose value the step had been shown."""
        return [fact for fact in self.facts if self._shown(fact, step)]

    def _shown(self, fact: Fact, step: int) -> bool:
        shown = fact.world(step)
        if shown is None:
            return False
        return shown.act is None or self._threads[shown.act.step] == self._threads[step]

    def _abouts(self, step: int) -> list[str]:
        return [fact.about for fact in self._known(step)]

    def _why_not(self, step: int) -> str | None:
        if not self._known(step):
            return NOTHING_SHOWN
        ask = self._trace.steps[step].ask
        if ask.fidelity.level is Level.NONE:
            return "; ".join(ask.fidelity.reasons) or "its request was not recorded"
        return self._plans[step].control.sent.refusal


def _answer(step: int, held: Sequence[Held]) -> Answer:
    wrong = [each for each in held if each.holds is False]
    lost = sum(each.holds is None for each in held)
    if wrong:
        evidence = tuple(_evidence(each, step) for each in wrong)
        return Answer(
            step=step,
            bad=True,
            phrase=" · ".join(map(_believes, wrong)),
            evidence=tuple(each for pair in evidence for each in pair),
        )
    if lost == len(held):
        return Answer(step=step, bad=None, phrase="says that it does not know")
    known = ", ".join(each.belief.value for each in held if each.holds)
    return Answer(step=step, bad=False, phrase=f"believes {known}, as shown")


def _believes(held: Held) -> str:
    return f"believes {held.fact.about} to be {held.belief.value}"


def _evidence(held: Held, step: int) -> Iterator[Evidence]:
    """What it says and what the world showed."""
    where = f" (from {held.belief.source})" if held.belief.source else ""
    yield Evidence(
        role="believes", text=f"{held.fact.about}: {held.belief.value}{where}", step=step
    )
    shown = held.fact.source(step)
    if shown is not None:
        yield shown


def shown_words(facts: Sequence[Fact]) -> tuple[str, ...]:
    """The facts that are asked about, each with the world's values, for a person to look at."""
    return tuple(
        f"{fact.about}: "
        + ", then ".join(
            f"{written(each.value)} from step {each.visible}"
            if each.value is not None
            else f"changed before step {each.visible}, not looked at"
            for each in fact.history
        )
        for fact in facts
    )
