"""Where belief left the world, as one value: a row a step, the sources, and the test of it.

What finding the step comes to in sentences, and what a reader must know beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.ui import format
from replay import action
from replay.bisection.scan import Located
from replay.edit.changes import Edit, InjectConstraint, describe
from replay.statistics import Rate, rate
from replay.trace import Level, Step, Trace
from taxonomy.calibration.approval import Trust
from taxonomy.findings import Evidence
from taxonomy.first_contradiction.contradictions import Answer, StepDetector
from taxonomy.first_contradiction.recoverable import Arm, Trial
from taxonomy.judge.rubrics import ACHIEVED_SCORE

_QUOTE = 60
_CAME_BACK = frozenset({"observed", "error"})
"""Roles of what a call returned: it stands in a message after that of its step."""


class SourceRow(Struct, frozen=True, kw_only=True):
    """One of the things that contradict each other: what is said, and what was observed or told.

    `where` is in words; `step`, `message` and `span` are None for the system prompt and the like.
    """

    role: str
    text: str
    where: str
    step: int | None = None
    message: int | None = None
    span: str | None = None


class StepRow(Struct, frozen=True, kw_only=True):
    """A step and what the oracle said of it. `bad` None where it could not tell, or was not asked
    (`asked`). `bad_of` of `n` trials were bad where it made several, `lost` gave no answer.

    `message` is the place of the step's answer in the source, `decisive` as in the view; `sources`
    are what it is said to contradict, where it is.
    """

    step: int
    message: int | None
    did: str
    asked: bool
    bad: bool | None
    phrase: str
    bad_of: int | None = None
    n: int | None = None
    lost: int = 0
    decisive: bool = False
    sources: tuple[SourceRow, ...] = ()


class FixView(Struct, frozen=True, kw_only=True):
    """The edit that is tried: its name, and its changes in words."""

    name: str
    changes: tuple[str, ...]


class TrialView(Struct, frozen=True, kw_only=True):
    """The hypothesis held against fresh answers, or runs: how many are bad in each arm, which
    `bad` says in words; how many could not be judged, and why the first could not."""

    status: str
    sentence: str
    by: str
    step: int
    control: Rate
    fixed: Rate
    control_lost: int
    fixed_lost: int
    control_why: str | None
    fixed_why: str | None
    p: float
    bad: str


class StepsView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything that finding the step prints.

    `status` as `replay.bisection.scan`; `among` are the steps that may be the first bad one.
    `decisive` is the step to look at: the first bad one, and of runs that go on the last from which
    the fix saves them; `message` is its place in the source, `fidelity` how its request is known.
    `facts` are what a belief was asked about; `model` None where none was asked. `going` while it
    is under way; `next` are the words of the command that goes on from here. `about` is what a bad
    step is, by the oracle's kind.
    """

    trace: str
    task: str | None
    oracle: str
    model: str | None
    status: str
    sentence: str
    notices: tuple[str, ...]
    facts: tuple[str, ...]
    rows: tuple[StepRow, ...]
    first_bad: int | None
    decisive: int | None
    message: int | None
    fidelity: Level | None
    among: tuple[int, ...]
    scanned: bool
    sources: tuple[SourceRow, ...]
    fix: FixView | None
    trial: TrialView | None
    next: tuple[str, ...] = ()
    asked: int = 0
    kept: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    going: bool = False
    about: About = "contradiction"

    @property
    def named(self) -> bool:
        """Is a step known, or that the fix saves the run from none?"""
        return self.decisive is not None or (self.first_bad is not None and len(self.among) == 1)


EMPTY = StepsView(
    trace="", task=None, oracle="", model=None, status="none", sentence="", notices=(), facts=(),
    rows=(), first_bad=None, decisive=None, message=None, fidelity=None, among=(), scanned=False,
    sources=(), fix=None, trial=None,
)  # fmt: skip


def build_steps(
    trace: Trace,
    oracle: StepDetector,
    answers: Mapping[int, Answer],
    located: Located,
    decisive: int | None,
    *,
    model: str | None = None,
    facts: Sequence[str] = (),
    notices: Sequence[str] = (),
    fix: Edit | None = None,
    trial: Trial | None = None,
    about: About = "contradiction",
    next: Sequence[str] = (),
    going: bool = False,
) -> StepsView:
    """The view of a search as far as it is. `about` is what a bad step is: one that cannot be
    saved, one that a judge scores badly, or one that contradicts something."""
    found = None if located.first_bad is None else answers.get(located.first_bad)
    return StepsView(
        trace=trace.id,
        task=trace.header.task,
        oracle=oracle.name,
        model=model,
        status=located.status,
        sentence=sentence(trace, located, found, about),
        notices=(*steps_notices(oracle, located, about, going=going), *notices),
        facts=tuple(facts),
        rows=tuple(_rows(trace, oracle, answers, decisive)),
        first_bad=located.first_bad,
        decisive=decisive,
        message=None if decisive is None else trace.steps[decisive].ask.place.message,
        fidelity=None if decisive is None else trace.steps[decisive].ask.fidelity.level,
        among=located.among,
        scanned=located.scanned,
        sources=tuple(_source(trace, each) for each in found.evidence) if found else (),
        fix=None if fix is None else fix_view(fix),
        trial=None if trial is None else trial_view(trial, runs=about == "recoverable"),
        next=tuple(next),
        going=going,
        about=about,
    )


def fix_view(fix: Edit) -> FixView:
    """An edit in words; what it tells the model stands there in full."""
    told = (
        f"{describe(each)}: {each.text}" if isinstance(each, InjectConstraint) else describe(each)
        for each in fix.changes
    )
    return FixView(name=fix.name, changes=tuple(told))


def trial_view(trial: Trial, *, runs: bool = False) -> TrialView:
    """A test of one step; of whole `runs` where they went on from it."""
    control, fixed = trial.control, trial.fixed
    return TrialView(
        status=trial.status,
        sentence=trial_sentence(trial, runs=runs),
        by=trial.by,
        step=trial.step,
        control=rate(control.bad, control.n),
        fixed=rate(fixed.bad, fixed.n),
        control_lost=control.lost,
        fixed_lost=fixed.lost,
        control_why=control.why,
        fixed_why=fixed.why,
        p=trial.p,
        bad="does not come to it" if runs else "shows it",
    )


# --- rows


def _rows(
    trace: Trace, oracle: StepDetector, answers: Mapping[int, Answer], decisive: int | None
) -> Iterator[StepRow]:
    for step in trace.steps:
        said = answers.get(step.index)
        why = oracle.unasked.get(step.index, "not asked")
        yield StepRow(
            step=step.index,
            message=step.ask.place.message,
            did=did(step),
            asked=said is not None,
            bad=said.bad if said is not None else None,
            phrase=said.phrase if said is not None else why,
            bad_of=said.bad_of if said is not None else None,
            n=said.n if said is not None else None,
            lost=said.lost if said is not None else 0,
            decisive=step.index == decisive,
            sources=tuple(_source(trace, each) for each in said.evidence) if said else (),
        )


def did(step: Step) -> str:
    """What a step did, in a phrase: its calls, or the beginning of its words."""
    given = action.action(step.ask.response, step.ask.error)
    if given.calls or not given.text:
        return given.phrase
    return f"says: {format.cut(format.one_line(given.text), _QUOTE)}"


def _source(trace: Trace, shown: Evidence) -> SourceRow:
    at = trace.steps[shown.step] if shown.step is not None else None
    where = [f"step {shown.step}"] if shown.step is not None else []
    where += [shown.place] if shown.place else []
    return SourceRow(
        role=shown.role,
        text=shown.text,
        where=", ".join(where),
        step=shown.step,
        message=at.ask.place.message if at is not None and shown.role not in _CAME_BACK else None,
        span=shown.span,
    )


_REASONS = 3

About: TypeAlias = Literal["contradiction", "belief", "judge", "recoverable"]
"""What a step is looked at for."""


def sentence(trace: Trace, located: Located, found: Answer | None, about: About) -> str:
    """What the search came to, or that no step is known."""
    match about:
        case "recoverable":
            return lost_sentence(located)
        case "judge":
            return judged_sentence(trace, located, found)
        case _:
            return left_sentence(trace, located, found)


def judged_sentence(trace: Trace, located: Located, found: Answer | None) -> str:
    """The first step that a judge scores badly, or that none is known."""
    if located.status == "none":
        told = sum(bad is not None for _, bad in located.asked)
        return (
            f"The judge scores no step under {ACHIEVED_SCORE}: {format.count(told, 'step')} scored."
        )
    if found is None:
        return left_sentence(trace, located, found)
    at = trace.steps[found.step].ask.place.message
    message = f" (message {at})" if at is not None else ""
    bad = sum(bad is True for _, bad in located.asked)
    first = f"The first of {bad} steps" if bad > 1 else "The one step"
    earlier = [step for step in located.among if step != found.step]
    unsure = f" Of {_steps(earlier)} before it there is no score." if earlier else ""
    return (
        f"{first} that the judge scores under {ACHIEVED_SCORE} is {found.step}{message},"
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


def steps_notices(
    oracle: StepDetector, located: Located, about: About, *, going: bool
) -> Iterator[str]:
    """What speaks against reading the sentence alone."""
    if located.status == "non-monotone":
        yield "It did not stay bad once it was: every step was asked, the first bad one is named."
    if located.status == "budget" and not going:
        yield "Stopped at the limit of samples before it was settled. Try: --max-samples"
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


def not_judged(lost: int, why: str | None) -> str:
    """How many answers of an arm could not be judged, and why the first could not; "" for none."""
    reason = f": {format.one_line(why)}" if why else ""
    return f", {lost} censored{reason}" if lost else ""
