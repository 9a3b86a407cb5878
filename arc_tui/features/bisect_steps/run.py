"""The search for the first contradiction, from a request to its views: `arc bisect steps` prints
the last one, a screen's worker posts each.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.features.bisect_steps.plan import SAMPLES, BisectStepsRequest, StepPlan
from arc_tui.features.bisect_steps.view import StepsView, build_steps, trust_words, unusable_words
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

NOT_CONFIRMED = "Not confirmed yet."

FROM_RECORDING = "Evaluated from the recording: no model call."


def run_step_bisection(
    store: Store, request: BisectStepsRequest, models: ModelPool
) -> Generator[StepsView]:
    """Find the step, and confirm it where that is requested; yields the view as it grows.

    Completed calls are saved: run again, it continues. Raises NotFound, BadEdit, ModelRefused,
    OfflineMiss and Stopped; the last view before holds what was found by then.
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
            yield self._view(running=True)
            raise
        found = self._decisive()
        if found is not None:
            self._fix = self.plan.fix_for(found)
        if found is not None and self.plan.request.confirm:
            yield self._view(running=True)
            self._fix = edits.save(self._store, self.plan.fix_for(found))
            self._trial = self.plan.tried(found.step, self._fix)
            self._take_fresh()
        yield self._view()

    def _search(self) -> Generator[StepsView]:
        detector, shown = self.plan.detector, time.monotonic()
        limit = self.plan.request.max_samples
        search = locate(detector.steps, monotone=detector.monotone, max_steps=limit)
        try:
            step = next(search)
            while True:
                self._answers[step] = detector.at(step)
                if time.monotonic() - shown >= BETWEEN_VIEWS_S:
                    yield self._view(running=True)
                    shown = time.monotonic()
                step = search.send(self._answers[step].bad)
        except StopIteration as ended:
            self._located = ended.value

    def _take_fresh(self) -> None:
        """The runs of a test are new ones: a later `--no-cache` must not be served them."""
        detector, trace = self.plan.detector, self.plan.trace.id
        if isinstance(detector, RecoverableDetector):
            kept.take_range(self._store, trace, detector.model.name, detector.fresh)

    # --- what is known

    def _so_far(self) -> Located:
        """The result before the search has ended."""
        answers = tuple(sorted((step, each.bad) for step, each in self._answers.items()))
        first = next((step for step, bad in answers if bad), None)
        among = () if first is None else (first,)
        return Located(
            status="budget", first_bad=first, among=among, answers=answers, scanned=False
        )

    def _decisive(self) -> Answer | None:
        """The answer at the step to look at: the first bad one, or the last recoverable one."""
        located = self._located or self._so_far()
        if located.first_bad is None:
            return None
        if not isinstance(self.plan.detector, RecoverableDetector):
            return self._answers[located.first_bad]
        good = [step for step, bad in located.answers if bad is False and step < located.first_bad]
        return self._answers[good[-1]] if good else None

    def _view(self, *, running: bool = False) -> StepsView:
        plan, decisive = self.plan, self._decisive()
        view = build_steps(
            plan.trace,
            plan.detector,
            self._answers,
            self._located or self._so_far(),
            None if decisive is None else decisive.step,
            model=self._who,
            facts=shown_words(plan.detector.facts)
            if isinstance(plan.detector, BeliefDetector)
            else (),
            notices=tuple(self._notices(decisive)),
            fix=self._fix,
            trial=self._trial,
            about=plan.request.detector,
            next=() if running else self._next(decisive),
            running=running,
        )
        spent = plan.models.spending
        return structs.replace(
            view,
            cached=spent.cached,
            calls=spent.calls,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
        )

    @property
    def _who(self) -> str | None:
        """The models called, None for none."""
        models = self.plan.models.models
        return ", ".join(label(each.name) for each in models) or None

    def _notices(self, decisive: Answer | None) -> Iterator[str]:
        detector = self.plan.detector
        if isinstance(detector, ContradictionDetector):
            yield FROM_RECORDING
            if self.plan.trace.header.outcome.status == "passed":
                yield "The run passed: most rules do not apply to passed runs."
        if isinstance(detector, BeliefDetector):
            found = decisive is not None and self._trial is None
            again = " --confirm tests the step found." if found else ""
            yield f"1 sample per step: not conclusive.{again}"
        if isinstance(detector, JudgeScoreDetector):
            yield from self._of_judge(detector)
        lowest = (
            detector.lowest
            if isinstance(detector, JudgeScoreDetector) and decisive is None
            else None
        )
        if lowest is not None:
            yield f"Lowest score: step {lowest.step}, {lowest.phrase}."
        if isinstance(detector, RecoverableDetector):
            yield from unusable_words(self._answers)
        if decisive is None and self.plan.request.confirm and self._located is not None:
            yield "No step found, so nothing to confirm."
        if decisive is not None and self._trial is None:
            yield NOT_CONFIRMED

    def _of_judge(self, detector: JudgeScoreDetector) -> Iterator[str]:
        """How reliable the judge is."""
        if detector.judge is None:
            yield f"{scores.NOTICE}."
            return
        yield "1 score per step: not conclusive."
        yield trust_words(detector.judge.name, trust(self._store, detector.by, now_ns()))
        steps = self.plan.trace.steps
        agents = [step.ask.response.model or step.ask.request.model for step in steps]
        warned = requests.warning(detector.judge.name, [name for name in agents if name])
        if warned is not None:
            yield f"{warned}."

    def _next(self, decisive: Answer | None) -> tuple[str, ...]:
        """The words of the command to run next."""
        name = self.plan.request.trace
        if self.plan.lacks_tools(decisive):
            return ("arc", "attach", name, "--infer-tools")
        if decisive is None:
            return self._next_without_step(name)
        if self._trial is None:
            return (*("arc", "bisect", "steps", name), *self._same(), "--confirm")
        if self._trial.status != "confirmed":
            return ("arc", "show", name, str(decisive.step))
        return self._free(decisive.step, self._trial.fix)

    def _next_without_step(self, name: str) -> tuple[str, ...]:
        """Where no step is known: the free run that was unusable, which may need a stub; else the
        break candidates."""
        unusable = [
            step for step, each in sorted(self._answers.items()) if each.lost and not each.n
        ]
        settled = self._located is not None and self._located.status == "none"
        if self._fix is None or not unusable or settled:
            return ("arc", "diagnose", name)
        return self._free(unusable[0], self._fix)

    def _free(self, step: int, fix: Edit) -> tuple[str, ...]:
        name, edit = self.plan.request.trace, edits.short(fix.digest)
        stale = ("--allow-stale",) if self.plan.request.allow_stale else ()
        words = ("arc", "replay", name, "--free", "--step", str(step), "--edit", edit)
        return (*words, *stale, *self.plan.who())

    def _same(self) -> Iterator[str]:
        """The options of this search, for the command that continues it."""
        request = self.plan.request
        yield from ("--detector", request.detector)
        if request.question is not None and request.truth is not None:
            yield from ("--question", request.question, "--truth", request.truth)
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
