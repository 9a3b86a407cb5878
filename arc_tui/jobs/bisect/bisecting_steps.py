"""Where belief left the world, from options to views: `arc bisect --steps` drains them, a screen's
worker posts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator

from msgspec import Struct, structs

from arc_tui.jobs.bisect.step_plan import StepPlan, StepsWanted
from arc_tui.views.bisect_steps import StepsView, build_steps
from replay.bisection.scan import Located, locate
from replay.edit import Edit
from replay.errors import ArcError
from replay.locked.estimate import Estimate
from replay.models.cached import Cached
from replay.models.choose import label
from replay.store import Store, edits
from taxonomy.belief.contradictions import ContradictionOracle
from taxonomy.belief.foreseen import NOTHING, foreseen
from taxonomy.belief.oracle import Answer
from taxonomy.belief.probe import BeliefOracle, shown_words
from taxonomy.belief.savable import SavableOracle
from taxonomy.belief.trial import Trial

BETWEEN_VIEWS_S = 0.1
"""Stored answers come faster than anyone reads views of them."""


def bisecting_steps(
    store: Store, wanted: StepsWanted, *, hold: Callable[[Cached], object] | None = None
) -> Generator[StepsView]:
    """Find the step, and test it where that is wanted; yields the view whenever more is known.

    What was answered is kept: run again, it asks only what is missing. `hold` is given the model,
    where one is asked, for another thread to stop. Raises NotFound, BadEdit, ModelRefused and
    OfflineMiss with sentences, and Stopped; the last view before tells what was known by then.
    """
    if wanted.fix is not None:
        wanted = structs.replace(wanted, fix=edits.save(store, wanted.fix))
    work = _Work(store, StepPlan(store, wanted))
    model = work.plan.model
    if model is None:
        yield from work.views()
        return
    with model:
        if hold is not None:
            hold(model)
        yield from work.views()


class StepsOutlook(Struct, frozen=True, kw_only=True):
    """What is to be asked before the first call: the steps, and `test_calls` for the test, if a
    step is found. `facts` are those a belief is asked about."""

    estimate: Estimate
    test_calls: int
    facts: tuple[str, ...]


def outlook(store: Store, wanted: StepsWanted) -> StepsOutlook:
    """What `bisecting_steps` with the same wish would ask, of an oracle other than `savable`.

    Asks nothing. Raises as `bisecting_steps` does before it asks.
    """
    plan = StepPlan(store, structs.replace(wanted, live=False))
    beliefs = plan.oracle if isinstance(plan.oracle, BeliefOracle) else None
    return StepsOutlook(
        estimate=NOTHING if beliefs is None else foreseen(plan.trace, beliefs),
        test_calls=2 * wanted.samples if wanted.validate else 0,
        facts=() if beliefs is None else shown_words(beliefs.facts),
    )


class _Work:
    """A search under way."""

    def __init__(self, store: Store, plan: StepPlan) -> None:
        self.plan = plan
        self._store = store
        self._before = self._meter()
        self._answers: dict[int, Answer] = {}
        self._located: Located | None = None
        self._fix: Edit | None = plan.wanted.fix
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
        if found is not None and self.plan.wanted.validate:
            yield self._view(going=True)
            self._fix = edits.save(self._store, self.plan.fix_for(found))
            self._trial = self.plan.tried(found.step, self._fix)
        yield self._view()

    def _search(self) -> Generator[StepsView]:
        oracle, shown = self.plan.oracle, time.monotonic()
        going = locate(oracle.steps, monotone=oracle.monotone, most=self.plan.wanted.most)
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
        if not isinstance(self.plan.oracle, SavableOracle):
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
            model=None if plan.model is None else label(plan.model.name),
            facts=shown_words(plan.oracle.facts) if isinstance(plan.oracle, BeliefOracle) else (),
            notices=tuple(self._notices(decisive)),
            fix=self._fix,
            trial=self._trial,
            lost=isinstance(plan.oracle, SavableOracle),
            next=() if going else self._next(decisive),
            going=going,
        )
        if plan.model is None:
            return view
        hits, asks, usd = self._meter()
        return structs.replace(
            view,
            kept=int(hits - self._before[0]),
            asked=int(asks - self._before[1]),
            spent_usd=usd - self._before[2],
            spent_complete=plan.model.usd_complete,
        )

    def _meter(self) -> tuple[float, float, float]:
        model = self.plan.model
        return (0, 0, 0.0) if model is None else (model.hits, model.asks, model.usd)

    def _notices(self, decisive: Answer | None) -> Iterator[str]:
        oracle = self.plan.oracle
        if isinstance(oracle, ContradictionOracle):
            yield "Read off the recording, every step: to find it nobody was asked."
            if self.plan.trace.header.outcome.status == "passed":
                yield "The run passed: most rules say nothing of a run that did."
        if isinstance(oracle, BeliefOracle):
            yield "One sample a step: a look; --validate asks the step found again."
        if decisive is not None and self._trial is None:
            yield "What an oracle says is a hypothesis until it is tested."

    def _next(self, decisive: Answer | None) -> tuple[str, ...]:
        """The words of the command that goes on from here."""
        name = self.plan.wanted.trace
        if self.plan.lacks_tools(decisive):
            return ("arc", "attach", name, "--sketch-tools")
        if decisive is None:
            return ("arc", "break", name)
        if self._trial is None:
            return (*("arc", "bisect", name, "--steps"), *self._same(), "--validate")
        at = str(decisive.step)
        if self._trial.status != "validated":
            return ("arc", "show", name, at)
        edit = edits.short(self._trial.fix.digest)
        return ("arc", "replay", name, "--free", "--from", at, "--edit", edit, *self.plan.who())

    def _same(self) -> Iterator[str]:
        """The options of this search, for one that goes on from it."""
        wanted = self.plan.wanted
        yield from ("--oracle", wanted.oracle)
        if wanted.ask is not None and wanted.world is not None:
            yield from ("--ask", wanted.ask, "--world", wanted.world)
        if wanted.fix is not None:
            yield from ("--fix", edits.short(wanted.fix.digest))
        if wanted.expect is not None:
            yield from ("--expect", wanted.expect)
        if wanted.allow_stale:
            yield "--allow-stale"
        yield from self.plan.who()
