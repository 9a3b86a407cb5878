"""What finding the step comes to in sentences, and what a reader must know beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from arc_tui import format
from replay.bisection.scan import Located
from replay.trace import Trace
from taxonomy.belief.oracle import Answer, StepOracle
from taxonomy.belief.trial import Arm, Trial
from taxonomy.calibration.trust import Trust
from taxonomy.expectations import ACHIEVED

_REASONS = 3

About: TypeAlias = Literal["contradiction", "belief", "judge", "savable"]
"""What a step is looked at for."""


def sentence(trace: Trace, located: Located, found: Answer | None, about: About) -> str:
    """What the search came to, or that no step is known."""
    match about:
        case "savable":
            return lost_sentence(located)
        case "judge":
            return judged_sentence(trace, located, found)
        case _:
            return left_sentence(trace, located, found)


def judged_sentence(trace: Trace, located: Located, found: Answer | None) -> str:
    """The first step that a judge scores badly, or that none is known."""
    if located.status == "none":
        told = sum(bad is not None for _, bad in located.asked)
        return f"The judge scores no step under {ACHIEVED}: {format.count(told, 'step')} scored."
    if found is None:
        return left_sentence(trace, located, found)
    at = trace.steps[found.step].ask.place.message
    message = f" (message {at})" if at is not None else ""
    bad = sum(bad is True for _, bad in located.asked)
    first = f"The first of {bad} steps" if bad > 1 else "The one step"
    earlier = [step for step in located.among if step != found.step]
    unsure = f" Of {_steps(earlier)} before it there is no score." if earlier else ""
    return (
        f"{first} that the judge scores under {ACHIEVED} is {found.step}{message},"
        f" {found.phrase}.{unsure}"
    )


def trust_words(judge: str, stands: Trust) -> str:
    """How far a judge's scores may be taken, by its calibration."""
    match stands.state:
        case "trusted" if stands.categories:
            where = ", ".join(stands.categories)
            return f"The judge {judge} is calibrated, for tasks of {where}."
        case "trusted":
            return f"The judge {judge} is calibrated: its scores were held against people's."
        case "expired":
            return f"The calibration of the judge {judge} has expired: its scores are not trusted."
        case "not trusted":
            why = f" ({'; '.join(stands.missing)})" if stands.missing else ""
            return f"The judge {judge} did not pass its calibration{why}: do not trust its scores."
        case _:
            return (
                f"The judge {judge} was never calibrated: how well its scores agree with people's"
                " nobody knows (arc calibrate)."
            )


def left_sentence(trace: Trace, located: Located, found: Answer | None) -> str:
    """Where belief left the world, or that no step is known."""
    match located.status:
        case "none":
            steps = format.count(len(located.asked), "step")
            return f"No step is known to contradict what it had been shown ({steps} looked at)."
        case "censored" if not located.asked:
            return "No step can be asked; why stands beside each."
        case "censored":
            return "No step gave an answer that can be judged."
        case "budget" if found is None:
            return f"Nothing found in {format.count(len(located.asked), 'step')}; the rest is open."
    assert found is not None
    at = trace.steps[found.step].ask.place.message
    message = f" (message {at})" if at is not None else ""
    earlier = [str(step) for step in located.among if step != found.step]
    unsure = f" Steps {', '.join(earlier)} before it could not be told." if earlier else ""
    return f"Belief left the world at step {found.step}{message}: {found.phrase}.{unsure}"


def lost_sentence(located: Located) -> str:
    """Of runs that go on with a fix: the last step from which it still saves them."""
    first = located.first_bad
    if first is None:
        silent = [step for step, bad in located.asked if bad is None]
        if located.status == "none" and silent:
            return (
                "The fix saves most runs from every step whose runs came to an end that tells; of"
                f" {_steps(silent)} nobody can tell."
            )
        if located.status == "none":
            return "The fix saves most runs from every step that was asked, the last one too."
        return "From no step did enough runs come to an end that tells."
    before = [step for step, bad in located.asked if bad is False and step < first]
    between = [step for step in located.among if step != first]
    if not before and between:
        return (
            f"From step {first} on most runs are lost; from {_steps(between)} too few came to an"
            " end that tells."
        )
    if not before:
        return f"The fix saves the run from no step: from step {first} on most runs are lost."
    unsure = f"; of {', '.join(map(str, between))} nobody can tell" if between else ""
    return (
        f"The point of no return is step {before[-1]}: from there the fix still saves most runs,"
        f" from step {first} no longer{unsure}."
    )


def lost_words(answers: Mapping[int, Answer]) -> Iterator[str]:
    """Why runs came to no end that tells, each reason once, those of most steps first."""
    by_reason: dict[str, list[int]] = {}
    for step, each in sorted(answers.items()):
        if each.lost and not each.n:
            by_reason.setdefault(each.phrase, []).append(step)
    most = sorted(by_reason.items(), key=lambda item: -len(item[1]))[:_REASONS]
    yield from (f"From {_steps(steps)} {reason}" for reason, steps in most)


def notices(oracle: StepOracle, located: Located, about: About, *, going: bool) -> Iterator[str]:
    """What speaks against reading the sentence alone."""
    if located.status == "non-monotone":
        yield "It did not stay bad once it was: every step was asked, the first bad one is named."
    if located.status == "budget" and not going:
        yield "The questions ran out before it was settled: more of them (--most) go on from here."
    bad = [step for step, is_bad in located.asked if is_bad]
    back = [step for step, is_bad in located.asked if is_bad is False and bad and step > bad[0]]
    if back and oracle.calls and located.scanned and about != "judge":
        yield f"It agrees with the world again at {_steps(back)}."


def _steps(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:6]))
    return f"step{'s' if len(steps) > 1 else ''} {shown}{' …' if len(steps) > 6 else ''}"


_TRIALS = {
    "validated": "Validated: with the fix at step {step} the failure is gone from most answers,"
    " {fixed} against {control} without it ({p}).",
    "refuted": "Refuted: with the fix at step {step} it still shows, {fixed} against {control}"
    " without it: it did not break there, or not for want of what the fix tells.",
    "inconclusive": "Inconclusive at step {step}: {fixed} with the fix against {control} without"
    " it{why}.",
}


_RUN_TRIALS = {
    **_TRIALS,
    "validated": "Validated: with the fix from step {step} on most runs come to it, {fixed} are"
    " lost against {control} without it ({p}).",
    "refuted": "Refuted: with the fix from step {step} on {fixed} are lost, without it {control}.",
}
_AFTER_STEP = "How such a run would have ended is not known."
_AFTER_RUNS = "Whether such a run would have passed is not known: it was held to this alone."


def trial_sentence(trial: Trial, *, runs: bool) -> str:
    """The verdict with its counts; `runs` where whole runs were made."""
    said = (_RUN_TRIALS if runs else _TRIALS)[trial.status].format(
        step=trial.step,
        fixed=_share(trial.fixed),
        control=_share(trial.control),
        p=p_words(trial.p),
        why=_why_open(trial),
    )
    return f"{said} {_AFTER_RUNS if runs else _AFTER_STEP}"


def p_words(p: float) -> str:
    """A p-value as it is printed."""
    return "p < .001" if p < 0.001 else f"p {p:.3f}".replace("0.", ".")


def _why_open(trial: Trial) -> str:
    if not trial.control.n or not trial.fixed.n:
        return "; an arm has no answer that can be judged"
    if not trial.control.mostly:
        return "; asked again as recorded it mostly does not show, so there is little to take away"
    return "; more samples (-k) tell"


def _share(given: Arm) -> str:
    lost = f" and {given.lost} censored" if given.lost else ""
    return f"{given.bad}/{given.n}{lost}"
