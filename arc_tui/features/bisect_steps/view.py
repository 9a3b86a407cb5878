"""The first contradiction of a run as one value: a row per step, the sources, and the confirmation;
the result in sentences, and the notices that limit it.
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
"""Roles of a tool result: its message comes after that of its step."""


class SourceRow(Struct, frozen=True, kw_only=True):
    """One of the things that contradict each other: the statement, and what was in context.

    `where` is in words; `step`, `message` and `span` are None for the system prompt and the like.
    """

    role: str
    text: str
    where: str
    step: int | None = None
    message: int | None = None
    span: str | None = None


class StepRow(Struct, frozen=True, kw_only=True):
    """A step and the detector's result. `bad` is None where that is inconclusive, or the step was
    not `evaluated`. `bad_of` of `n` samples were bad where there are several, `unusable` more gave
    no result.

    `message` is the place of the step's response in the source, `decisive` as in the view;
    `sources` are what the step contradicts, where it does.
    """

    step: int
    message: int | None
    action: str
    evaluated: bool
    bad: bool | None
    phrase: str
    bad_of: int | None = None
    n: int | None = None
    unusable: int = 0
    decisive: bool = False
    sources: tuple[SourceRow, ...] = ()


class FixView(Struct, frozen=True, kw_only=True):
    """The edit to confirm with: its name, and its changes in words."""

    name: str
    changes: tuple[str, ...]


class ConfirmationView(Struct, frozen=True, kw_only=True):
    """The test of the step with new samples, or runs: how many fail in each arm, how many are
    unusable, and why the first is."""

    status: str
    sentence: str
    detector: str
    step: int
    control: Rate
    edited: Rate
    control_unusable: int
    edited_unusable: int
    control_why: str | None
    edited_why: str | None
    p: float


class StepsView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything that `arc bisect steps` prints.

    `status` as `replay.bisection.scan`; `among` are the steps that may be the first bad one.
    `decisive` is the step to look at: the first bad one, or the last recoverable one; `message` is
    its place in the source, `fidelity` that of its request. `facts` are those the model is asked
    about; `model` is None where there is no model call. `running` until it has ended; `next` are
    the words of the command to run next. `about` is the detector's kind.
    """

    trace: str
    task: str | None
    detector: str
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
    confirmation: ConfirmationView | None
    next: tuple[str, ...] = ()
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    running: bool = False
    about: About = "contradiction"

    @property
    def named(self) -> bool:
        """Is a step known, or that the run is recoverable from none?"""
        return self.decisive is not None or (self.first_bad is not None and len(self.among) == 1)


EMPTY = StepsView(
    trace="", task=None, detector="", model=None, status="none", sentence="", notices=(), facts=(),
    rows=(), first_bad=None, decisive=None, message=None, fidelity=None, among=(), scanned=False,
    sources=(), fix=None, confirmation=None,
)  # fmt: skip


def build_steps(
    trace: Trace,
    detector: StepDetector,
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
    running: bool = False,
) -> StepsView:
    """The view of a search so far. `about` is what a bad step is: one that is not recoverable, one
    that a judge scores low, or one that contradicts its context."""
    found = None if located.first_bad is None else answers.get(located.first_bad)
    return StepsView(
        trace=trace.id,
        task=trace.header.task,
        detector=detector.name,
        model=model,
        status=located.status,
        sentence=sentence(trace, located, found, about),
        notices=(*steps_notices(detector, located, about, running=running), *notices),
        facts=tuple(facts),
        rows=tuple(_rows(trace, detector, answers, decisive)),
        first_bad=located.first_bad,
        decisive=decisive,
        message=None if decisive is None else trace.steps[decisive].ask.place.message,
        fidelity=None if decisive is None else trace.steps[decisive].ask.fidelity.level,
        among=located.among,
        scanned=located.scanned,
        sources=tuple(_source(trace, each) for each in found.evidence) if found else (),
        fix=None if fix is None else fix_view(fix),
        confirmation=None
        if trial is None
        else confirmation_view(trial, runs=about == "recoverable"),
        next=tuple(next),
        running=running,
        about=about,
    )


def fix_view(fix: Edit) -> FixView:
    """An edit in words; a constraint with its whole text."""
    changes = (
        f"{describe(each)}: {each.text}" if isinstance(each, InjectConstraint) else describe(each)
        for each in fix.changes
    )
    return FixView(name=fix.name, changes=tuple(changes))


def confirmation_view(trial: Trial, *, runs: bool = False) -> ConfirmationView:
    """The test of one step; of free `runs` from it where those were made."""
    control, edited = trial.control, trial.fixed
    return ConfirmationView(
        status=trial.status,
        sentence=confirmation_sentence(trial, runs=runs),
        detector=trial.by,
        step=trial.step,
        control=rate(control.bad, control.n),
        edited=rate(edited.bad, edited.n),
        control_unusable=control.lost,
        edited_unusable=edited.lost,
        control_why=control.why,
        edited_why=edited.why,
        p=trial.p,
    )


# --- rows

NOT_EVALUATED = "not evaluated"
NO_CONTRADICTION = "no contradiction"


def _rows(
    trace: Trace, detector: StepDetector, answers: Mapping[int, Answer], decisive: int | None
) -> Iterator[StepRow]:
    for step in trace.steps:
        found = answers.get(step.index)
        why = detector.unasked.get(step.index, NOT_EVALUATED)
        yield StepRow(
            step=step.index,
            message=step.ask.place.message,
            action=action_text(step),
            evaluated=found is not None,
            bad=found.bad if found is not None else None,
            phrase=found.phrase if found is not None else why,
            bad_of=found.bad_of if found is not None else None,
            n=found.n if found is not None else None,
            unusable=found.lost if found is not None else 0,
            decisive=step.index == decisive,
            sources=tuple(_source(trace, each) for each in found.evidence) if found else (),
        )


def action_text(step: Step) -> str:
    """A step's action in a phrase: its tool calls, else the beginning of its text."""
    given = action.action(step.ask.response, step.ask.error)
    if given.calls or not given.text:
        return given.phrase
    return f"text: {format.cut(format.one_line(given.text), _QUOTE)}"


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
"""What a bad step is."""


def sentence(trace: Trace, located: Located, found: Answer | None, about: About) -> str:
    """The result of the search, or that no step is known."""
    match about:
        case "recoverable":
            return recoverable_sentence(located)
        case "judge":
            return judged_sentence(trace, located, found)
        case _:
            return contradiction_sentence(trace, located, found)


def judged_sentence(trace: Trace, located: Located, found: Answer | None) -> str:
    """The first step that a judge scores low, or that none is known."""
    if located.status == "none":
        scored = sum(bad is not None for _, bad in located.answers)
        return f"No step scores under {ACHIEVED_SCORE}: {format.count(scored, 'step')} scored."
    if found is None:
        return contradiction_sentence(trace, located, found)
    at = trace.steps[found.step].ask.place.message
    message = f" (message {at})" if at is not None else ""
    bad = sum(bad is True for _, bad in located.answers)
    more = f" {bad} steps in all score under {ACHIEVED_SCORE}." if bad > 1 else ""
    earlier = [step for step in located.among if step != found.step]
    unknown = f" No score for {_steps(earlier)} before it." if earlier else ""
    return (
        f"First step that scores under {ACHIEVED_SCORE}: step {found.step}{message},"
        f" {found.phrase}.{more}{unknown}"
    )


def trust_words(judge: str, stands: Trust) -> str:
    """Whether a judge is approved, by its calibration."""
    match stands.state:
        case "approved" if stands.categories:
            where = ", ".join(stands.categories)
            return f"Judge {judge} is approved for tasks of {where}."
        case "approved":
            return f"Judge {judge} is approved: its scores were compared with people's."
        case "expired":
            return f"The approval of judge {judge} has expired."
        case "not approved":
            why = f" ({'; '.join(stands.missing)})" if stands.missing else ""
            return f"Judge {judge} is not approved{why}."
        case _:
            return f"Judge {judge} is not calibrated: accuracy unknown. Try: arc calibrate"


def contradiction_sentence(trace: Trace, located: Located, found: Answer | None) -> str:
    """The first contradiction, or that none is known."""
    match located.status:
        case "none":
            steps = format.count(len(located.answers), "step")
            return f"No contradiction found: {steps} evaluated."
        case "censored" if not located.answers:
            return "No step can be evaluated; each row gives the reason."
        case "censored":
            return "No usable sample from any step."
        case "budget" if found is None:
            steps = format.count(len(located.answers), "step")
            return f"No contradiction found in {steps}; the others are not evaluated."
    assert found is not None
    at = trace.steps[found.step].ask.place.message
    message = f" (message {at})" if at is not None else ""
    earlier = [step for step in located.among if step != found.step]
    unknown = f" Inconclusive before it: {_steps(earlier)}." if earlier else ""
    return f"First contradiction: step {found.step}{message}: {found.phrase}.{unknown}"


def recoverable_sentence(located: Located) -> str:
    """The last step from which free runs with the fix recover, or that none is known."""
    first = located.first_bad
    if first is None:
        silent = [step for step, bad in located.answers if bad is None]
        if located.status == "none" and silent:
            return (
                "Recoverable from every step with enough usable runs; inconclusive:"
                f" {_steps(silent)}."
            )
        if located.status == "none":
            return "Recoverable from every step tested, including the last."
        return "Inconclusive: no step has enough usable runs."
    before = [step for step, bad in located.answers if bad is False and step < first]
    between = [step for step in located.among if step != first]
    if not before and between:
        return (
            f"Most runs with the fix fail from step {first} on; {_steps(between)}: too few usable"
            " runs."
        )
    if not before:
        return f"Not recoverable from any step: most runs with the fix fail from step {first} on."
    unknown = f" Inconclusive: {_steps(between)}." if between else ""
    return (
        f"Last recoverable step: {before[-1]}. Most runs with the fix recover from step"
        f" {before[-1]}, and do not from step {first}.{unknown}"
    )


def unusable_words(answers: Mapping[int, Answer]) -> Iterator[str]:
    """Why runs were unusable, each reason once, those of most steps first."""
    by_reason: dict[str, list[int]] = {}
    for step, each in sorted(answers.items()):
        if each.lost and not each.n:
            by_reason.setdefault(each.phrase, []).append(step)
    commonest = sorted(by_reason.items(), key=lambda item: -len(item[1]))[:_REASONS]
    yield from (f"From {_steps(steps)}: {reason}" for reason, steps in commonest)


def steps_notices(
    detector: StepDetector, located: Located, about: About, *, running: bool
) -> Iterator[str]:
    """What limits the sentence."""
    if located.status == "non-monotone":
        yield "Not monotonic: all steps tested. The first bad step is named."
    if located.status == "budget" and not running:
        yield "Inconclusive: sample limit reached. Try: --max-samples N"
    bad = [step for step, is_bad in located.answers if is_bad]
    back = [step for step, is_bad in located.answers if is_bad is False and bad and step > bad[0]]
    if back and detector.calls and located.scanned and about != "judge":
        yield f"No contradiction again: {_steps(back)}."


def _steps(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:6]))
    return f"step{'s' if len(steps) > 1 else ''} {shown}{' …' if len(steps) > 6 else ''}"


_CONFIRMATIONS = {
    "confirmed": "Confirmed at step {step}: failure in {edited} edited, {control} control ({p}).",
    "refuted": "Refuted at step {step}: failure in {edited} edited, {control} control. The run did"
    " not break there, or the fix does not address the cause.",
    "inconclusive": "Inconclusive at step {step}: failure in {edited} edited, {control}"
    " control{why}.",
}


_RUN_CONFIRMATIONS = {
    **_CONFIRMATIONS,
    "confirmed": "Confirmed from step {step}: {edited} runs fail edited, {control} control ({p}).",
    "refuted": "Refuted from step {step}: {edited} runs fail edited, {control} control.",
}
_AFTER_STEP = "Outcome not evaluated."
_AFTER_RUNS = "Only the expectation was evaluated, not the outcome."


def confirmation_sentence(trial: Trial, *, runs: bool) -> str:
    """The verdict with its counts; `runs` where whole runs were made."""
    text = (_RUN_CONFIRMATIONS if runs else _CONFIRMATIONS)[trial.status].format(
        step=trial.step,
        edited=_share(trial.fixed),
        control=_share(trial.control),
        p=p_words(trial.p),
        why=_why_inconclusive(trial),
    )
    return f"{text} {_AFTER_RUNS if runs else _AFTER_STEP}"


def p_words(p: float) -> str:
    """A p-value as it is printed."""
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".")


def _why_inconclusive(trial: Trial) -> str:
    if not trial.control.n or not trial.fixed.n:
        return "; an arm has no usable sample"
    if not trial.control.is_mostly_bad:
        return "; control does not fail in most samples"
    return "; more samples (-k) may decide"


def _share(given: Arm) -> str:
    lost = f" ({given.lost} unusable)" if given.lost else ""
    return f"{given.bad}/{given.n}{lost}"


def unusable(lost: int, why: str | None) -> str:
    """How many samples of an arm are unusable, and why the first is; "" for none."""
    reason = f": {format.one_line(why)}" if why else ""
    return f", {lost} unusable{reason}" if lost else ""
