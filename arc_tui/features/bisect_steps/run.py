"""Where belief left the world, from options to views: `arc bisect steps` drains them, a screen's
worker posts them.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.features.bisect_steps.plan import SAMPLES, BisectStepsRequest, StepPlan
from arc_tui.features.bisect_steps.view import StepsView, build_steps, lost_words, trust_words
from replay import kept
from replay.bisection.scan import Located, locate
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.models.choose import label
from replay.store import edits
from replay.store.handle import Store, now_ns
from taxonomy.calibration.approval import trust
from taxonomy.first_contradiction.contradictions import Answer, ContradictionDetector
from taxonomy.first_contradiction.judged import JudgeScoreDetector
from taxonomy.first_contradiction.question import BeliefDetector, shown_words
from taxonomy.first_contradiction.recoverable import RecoverableDetector, Trial
from taxonomy.judge import requests, scores

HYPOTHESIS = "What an oracle says is a hypothesis until it is tested."

READ_OFF = "Read off the recording, every step: to find it nobody was asked."


def run_step_bisection(
    store: Store, request: BisectStepsRequest, models: ModelPool
) -> Generator[StepsView]:
    """Find the step, and test it where that is wanted; yields the view whenever more is known.

    What was answered is kept: run again, it asks only what is missing. Raises NotFound, BadEdit,
    ModelRefused and OfflineMiss with sentences, and Stopped; the last view before tells what was
    known by then.
    """
    if request.fix is not None:
        request = structs.replace(request, fix=edits.save(store, request.fix))
    yield from _Work(store, StepPlan(store, request, models)).views()


class _Work:
    """A search under way."""

    def __init__(self, store: Store, plan: StepPlan) -> None:
        self.plan = plan
        self._store = store
        self._answers: dict[int, Answer] = {}
        self._located: Located | None = None
        self._fix: Edit | None = plan.request.fix
        self._trial: Trial | None = None

    def views(self) -> Generator[StepsView]:
        try:
            yield from self._search()
        except ArcError:
            yield self._view(going=True)
            raise
        found = self._decisive()
        if found is not None:
            self._fix = self.plan.fix_for(found)
        if found is not None and self.plan.request.validate:
            yield self._view(going=True)
            self._fix = edits.save(self._store, self.plan.fix_for(found))
            self._trial = self.plan.tried(found.step, self._fix)
            self._take_fresh()
        yield self._view()

    def _search(self) -> Generator[StepsView]:
        oracle, shown = self.plan.oracle, time.monotonic()
        going = locate(oracle.steps, monotone=oracle.monotone, most=self.plan.request.most)
        try:
            step = next(going)
            while True:
                self._answers[step] = oracle.at(step)
                if time.monotonic() - shown >= BETWEEN_VIEWS_S:
                    yield self._view(going=True)
                    shown = time.monotonic()
                step = going.send(self._answers[step].bad)
        except StopIteration as ended:
            self._located = ended.value

    def _take_fresh(self) -> None:
        """The runs of a test are fresh ones: what asks afresh after it must not meet them."""
        oracle, trace = self.plan.oracle, self.plan.trace.id
        if isinstance(oracle, RecoverableDetector):
            kept.take_range(self._store, trace, oracle.model.name, oracle.fresh)

    # --- what is known

    def _so_far(self) -> Located:
        """What the answers say before the search has ended."""
        asked = tuple(sorted((step, each.bad) for step, each in self._answers.items()))
        first = next((step for step, bad in asked if bad), None)
        among = () if first is None else (first,)
        return Located(status="budget", first_bad=first, among=among, asked=asked, scanned=False)

    def _decisive(self) -> Answer | None:
        """The answer at the step to look at: the first bad one; of runs that go on, the last from
        which the fix saves them."""
        located = self._located or self._so_far()
        if located.first_bad is None:
            return None
        if not isinstance(self.plan.oracle, RecoverableDetector):
            return self._answers[located.first_bad]
        saved = [step for step, bad in located.asked if bad is False and step < located.first_bad]
        return self._answers[saved[-1]] if saved else None

    def _view(self, *, going: bool = False) -> StepsView:
        plan, decisive = self.plan, self._decisive()
        view = build_steps(
            plan.trace,
            plan.oracle,
            self._answers,
            self._located or self._so_far(),
            None if decisive is None else decisive.step,
            model=self._who,
            facts=shown_words(plan.oracle.facts) if isinstance(plan.oracle, BeliefDetector) else (),
            notices=tuple(self._notices(decisive)),
            fix=self._fix,
            trial=self._trial,
            about=plan.request.oracle,
            next=() if going else self._next(decisive),
            going=going,
        )
        spent = plan.models.spending
        return structs.replace(
            view,
            kept=spent.kept,
            asked=spent.asked,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
        )

    @property
    def _who(self) -> str | None:
        """Whose words it rests on, None where nobody is asked."""
        models = self.plan.models.models
        return ", ".join(label(each.name) for each in models) or None

    def _notices(self, decisive: Answer | None) -> Iterator[str]:
        oracle = self.plan.oracle
        if isinstance(oracle, ContradictionDetector):
            yield READ_OFF
            if self.plan.trace.header.outcome.status == "passed":
                yield "The run passed: most rules say nothing of a run that did."
        if isinstance(oracle, BeliefDetector):
            found = decisive is not None and self._trial is None
            again = "; --confirm asks the step found again" if found else ""
            yield f"One sample a step: a look{again}."
        if isinstance(oracle, JudgeScoreDetector):
            yield from self._of_judge(oracle)
        lowest = (
            oracle.lowest if isinstance(oracle, JudgeScoreDetector) and decisive is None else None
        )
        if lowest is not None:
            yield f"The lowest score stands at step {lowest.step}, {lowest.phrase}."
        if isinstance(oracle, RecoverableDetector):
            yield from lost_words(self._answers)
        if decisive is None and self.plan.request.validate and self._located is not None:
            yield "No step was found, so there is nothing to test."
        if decisive is not None and self._trial is None:
            yield HYPOTHESIS

    def _of_judge(self, oracle: JudgeScoreDetector) -> Iterator[str]:
        """How far the judge's word may be taken."""
        if oracle.judge is None:
            yield f"{scores.NOTICE}."
            return
        yield "One answer of the judge a step: a look."
        yield trust_words(oracle.judge.name, trust(self._store, oracle.by, now_ns()))
        steps = self.plan.trace.steps
        agents = [step.ask.response.model or step.ask.request.model for step in steps]
        warned = requests.warning(oracle.judge.name, [name for name in agents if name])
        if warned is not None:
            yield f"{warned}."

    def _next(self, decisive: Answer | None) -> tuple[str, ...]:
        """The words of the command that goes on from here."""
        name = self.plan.request.trace
        if self.plan.lacks_tools(decisive):
            return ("arc", "attach", name, "--infer-tools")
        if decisive is None:
            return self._looking_on(name)
        if self._trial is None:
            return (*("arc", "bisect", "steps", name), *self._same(), "--confirm")
        if self._trial.status != "validated":
            return ("arc", "show", name, str(decisive.step))
        return self._free(decisive.step, self._trial.fix)

    def _looking_on(self, name: str) -> tuple[str, ...]:
        """Where no step is known: let a run go on that told nothing, for what no tape answers a
        stub may; else look at what else points at a step."""
        lost = [step for step, each in sorted(self._answers.items()) if each.lost and not each.n]
        settled = self._located is not None and self._located.status == "none"
        if self._fix is None or not lost or settled:
            return ("arc", "diagnose", name)
        return self._free(lost[0], self._fix)

    def _free(self, step: int, fix: Edit) -> tuple[str, ...]:
        name, edit = self.plan.request.trace, edits.short(fix.digest)
        stale = ("--allow-stale",) if self.plan.request.allow_stale else ()
        words = ("arc", "replay", name, "--free", "--step", str(step), "--edit", edit)
        return (*words, *stale, *self.plan.who())

    def _same(self) -> Iterator[str]:
        """The options of this search, for one that goes on from it."""
        request = self.plan.request
        yield from ("--detector", request.oracle)
        if request.ask is not None and request.world is not None:
            yield from ("--question", request.ask, "--truth", request.world)
        if request.fix is not None:
            yield from ("--fix", edits.short(request.fix.digest))
        if request.expect is not None:
            yield from ("--expect", request.expect)
        if request.samples != SAMPLES:
            yield from ("-k", str(request.samples))
        if request.allow_stale:
            yield "--allow-stale"
        if request.judge is not None:
            yield from ("--judge", request.judge)
        yield from self.plan.who()
