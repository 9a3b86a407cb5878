"""Where belief left the world, as one value: a row a step, the sources, and the test of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from arc_tui import format
from arc_tui.views.steps import sentences as words
from arc_tui.views.steps.sentences import About
from replay import action
from replay.bisection.scan import Located
from replay.edit import Edit, InjectConstraint, describe
from replay.statistics import Rate, rate
from replay.trace import Level, Step, Trace
from taxonomy.belief.oracle import Answer, StepOracle
from taxonomy.belief.trial import Trial
from taxonomy.findings import Evidence

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
    `bad` says in words."""

    status: str
    sentence: str
    by: str
    step: int
    control: Rate
    fixed: Rate
    control_lost: int
    fixed_lost: int
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
    oracle: StepOracle,
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
        sentence=words.sentence(trace, located, found, about),
        notices=(*words.notices(oracle, located, about, going=going), *notices),
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
        trial=None if trial is None else trial_view(trial, runs=about == "savable"),
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
        sentence=words.trial_sentence(trial, runs=runs),
        by=trial.by,
        step=trial.step,
        control=rate(control.bad, control.n),
        fixed=rate(fixed.bad, fixed.n),
        control_lost=control.lost,
        fixed_lost=fixed.lost,
        p=trial.p,
        bad="does not come to it" if runs else "shows it",
    )


# --- rows


def _rows(
    trace: Trace, oracle: StepOracle, answers: Mapping[int, Answer], decisive: int | None
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
