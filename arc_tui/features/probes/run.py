"""Probes of one run: which there are, and one of them from its options to its views.

`arc experiment probe` drains the views, the screen's worker posts them.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

from msgspec import Struct, structs

from arc_tui.experiments.locked_view import ReplayRow, edit_diff, replay_rows
from arc_tui.experiments.models import ModelPool, spending_of
from arc_tui.experiments.progress import BETWEEN_VIEWS_S, spending_line
from arc_tui.features.probes.plan import (
    Case,
    ProbeRequest,
    asked_for,
    case_of,
    chosen,
    command_of,
    cost_of,
    known_model,
    other_symptom,
    preset_of,
    sampling_of,
    trace_of,
)
from arc_tui.ui import format
from arc_tui.views.probe_offers import ProbeOffer, ProbesView, in_order, offer
from replay.compare.rules import PLAIN
from replay.errors import BadEdit
from replay.kept import keep
from replay.locked.estimate import Estimate
from replay.locked.row import Models
from replay.locked.run import core, replay
from replay.locked.tally import BreakTest, StepResult
from replay.locked.verdict import summary
from replay.models.cached import Cached
from replay.models.choose import default_name, label
from replay.statistics import Rate, rate
from replay.store import edits
from replay.store.handle import Store
from replay.store.rows import step_rows
from taxonomy.detectors import detector_at
from taxonomy.probes import result
from taxonomy.probes.presets import Preset, Unfit, cut_of
from taxonomy.probes.result import Decided, LogLine, Result, meaning, outcome
from taxonomy.probes.symptoms import ProbeEntry, unfit

# --- what a probe came to


class ProbeView(Struct, frozen=True, eq=False, kw_only=True):
    """A probe under way or at its end; everything `arc experiment probe --probe` prints.

    `text` was inserted, from `by`; `diff` shows the edit. `test` counts the samples at the step
    that still show the failure, by which detector, `left` is their share with the probe.
    `classification` and `intervention` are None until the probe is done, and where it is
    inconclusive or its effect partial. `rows` are the steps replayed: those after the divergence
    have a context that the edited agent would not have had. `line` is the line of the log,
    there when `done`; `ended` is why it was cut short.
    """

    trace: str
    step: int
    probe: str
    symptom: str
    assumed: bool
    candidates: tuple[str, str]
    change: str
    text: str
    by: str
    diff: tuple[str, ...]
    model: str
    sentence: str
    result: Result
    why: str
    test: BreakTest | None
    p: float | None
    likely: float | None
    left: Rate | None
    classification: str | None
    intervention: str | None
    rows: tuple[ReplayRow, ...]
    notices: tuple[str, ...]
    line: LogLine | None = None
    k: int = 1
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    done: bool = False
    ended: str | None = None
    digest: str | None = None


def sentence(probe: ProbeEntry, found: Decided, *, done: bool, ended: str | None = None) -> str:
    """What the probe came to, and the likely cause; no cause before it is done."""
    first, second = probe.candidates
    if ended is not None:
        return f"Unfinished: {first} or {second}. {ended}."
    if not done:
        return f"Probing: {first} or {second}? Change: {probe.change}."
    if found.result == "partial":
        return (
            f"Partial effect: with the probe ({probe.change}) the failure is rarer but still there."
            f" Neither {first} nor {second} alone: {found.why}."
        )
    means = meaning(probe, found.result)
    if means is None:
        return f"Inconclusive: {first} or {second}. {found.why}."
    return (
        f"Likely cause: {means.classification}, not {_other(probe, means.classification)}. The"
        f" failure {_VERBS[found.result]} with the probe ({probe.change})."
        f" Try: {means.intervention}."
    )


def _other(probe: ProbeEntry, classification: str) -> str:
    """The other candidate."""
    return next(each for each in probe.candidates if each != classification)


_VERBS: dict[Result, str] = {
    "persists": "persists",
    "partial": "is rarer",
    "repairs": "is fixed",
    "undecided": "is inconclusive",
}


def arms(view: ProbeView) -> Iterator[tuple[str, str]]:
    """(arm, how often the failure shows) of what was judged so far."""
    test = view.test
    if test is None:
        return
    yield "control", _share(test.control, test.control_n)
    yield "probe", _share(test.edited, test.edited_n)


def _share(hits: int, n: int) -> str:
    if not n:
        return "no usable sample"
    return f"failure in {hits} of {n} ({format.interval(rate(hits, n))})"


def spent(view: ProbeView) -> str:
    """The model, how many samples, and what they cost."""
    samples = f"{format.count(view.k, 'sample')} an arm"
    return f"{format.one_line(view.model)} · {samples} · {spending_line(spending_of(view))}"


# --- which probes


def offered(store: Store, request: ProbeRequest, *, fitting: bool = False) -> ProbesView:
    """The symptom and the probes with what each would cost; only the `fitting` ones where so asked.

    Asks nothing. Where no model is known, nor is what it would cost. Raises NotFound where there is
    no such run or step.
    """
    trace = trace_of(store, request)
    case, notice = case_of(store, request, trace)
    model, refused = known_model(store, request, trace)
    name = model.name if model is not None else request.model or default_name(trace)
    named = None if name is None else label(name)
    if case is None:
        return ProbesView(
            trace=trace.id,
            task=trace.header.task,
            step=None,
            symptoms=(),
            unfit="no break candidate (--step N sets the step)",
            offers=(),
            model=named,
            k=request.samples,
            notice=notice,
        )
    probes = in_order(case.noted)
    if fitting:
        probes = probes[: len(case.noted)]
    return ProbesView(
        trace=case.trace.id,
        task=case.trace.header.task,
        step=case.step,
        symptoms=case.noted,
        unfit=None if case.noted else unfit(case.said, case.trace, case.step),
        offers=tuple(_offer(case, probe, request, model, refused) for probe in probes),
        model=named,
        k=request.samples,
        notice=case.notice,
        broke=case.broke,
    )


def _offer(
    case: Case, probe: ProbeEntry, request: ProbeRequest, model: Cached | None, refused: str | None
) -> ProbeOffer:
    """One probe, with the summary a model would write left open until it is written. `refused`
    says why no model can be asked."""
    made = preset_of(case, probe, request, None)
    if refused is not None and not isinstance(made, Unfit):
        made = Unfit(probe=probe, why=refused)
    cost = None
    if not isinstance(made, Unfit) and model is not None:
        cost = cost_of(case, made, request, model)
    shown = offer(made, case.noted, cost, command_of(case, probe, request))
    if request.ask_summary and shown.text and cut_of(probe, case.trace, case.step) is not None:
        writer = "the model" if model is None else label(model.name)
        return structs.replace(shown, text="", by=f"{writer} writes it: 1 call")
    return shown


def estimate_cost(store: Store, request: ProbeRequest) -> Estimate:
    """What the probe would ask and cost. Asks nothing. Raises as `run_probe` does."""
    case, probe = chosen(store, request)
    model = ModelPool(store).named(request.model or default_name(case.trace))
    made = preset_of(case, probe, request, None)
    if isinstance(made, Unfit):
        raise BadEdit(f"probe {probe.name}: {made.why}")
    return cost_of(case, made, request, model)


# --- one probe


def run_probe(store: Store, request: ProbeRequest, models: ModelPool) -> Generator[ProbeView]:
    """Run the probe: the view whenever more is known, the last one with the line of the log.

    What was answered is kept: run again, it asks only what is missing. A probe that was cut short
    leaves no line. Raises NotFound, BadEdit where the probe cannot be made of this run,
    ModelRefused, OfflineMiss and Stopped.
    """
    case, probe = chosen(store, request)
    model = models.named(request.model or default_name(case.trace))
    written = asked_for(case, probe, request, model)
    made = preset_of(case, probe, request, written)
    if isinstance(made, Unfit):
        raise BadEdit(f"probe {probe.name}: {made.why}", other_symptom(case, probe))
    made = structs.replace(made, edit=edits.save(store, made.edit))
    yield from _Work(store, case, made, request, model).views()


class _Work:
    """A probe under way: what is in so far, as a view."""

    def __init__(
        self, store: Store, case: Case, made: Preset, request: ProbeRequest, model: Cached
    ) -> None:
        self._store = store
        self._case = case
        self._made = made
        self._request = request
        self._model = model
        self._results: dict[int, StepResult] = {}
        self._sampling = sampling_of(made, request)
        self._masked = {
            row.step: row.masked for row in step_rows(store, case.trace.id) if row.masked
        }
        self._diff = edit_diff(case.trace, made.edit, {made.step})

    def views(self) -> Generator[ProbeView]:
        models = Models.one(self._model)
        shown = 0.0
        going = replay(
            self._case.trace,
            self._made.edit,
            models,
            sampling=self._sampling,
            steps=self._made.steps,
            detector=detector_at(self._case.trace, self._case.said.findings, self._made.step),
        )
        for found in going:
            self._results[found.step] = found
            if time.monotonic() - shown >= BETWEEN_VIEWS_S:
                yield self._view()
                shown = time.monotonic()
        results = list(self._results.values())
        ended = next((each.ended for each in results if each.ended is not None), None)
        if ended is not None:
            yield self._view(ended=ended)
            return
        kept = core(
            self._case.trace,
            self._made.edit,
            models,
            results,
            sampling=self._sampling,
            steps=self._made.steps,
            rules=PLAIN,
        )
        digest = keep(self._store, kept)
        yield self._view(line=result.keep(self._store, self._line(digest)))

    def _found(self) -> Decided:
        row = self._results.get(self._made.step)
        cut = cut_of(self._made.probe, self._case.trace, self._made.step)
        return outcome(row, self._case.trace, cut)

    def _line(self, digest: str) -> LogLine:
        probe, found = self._made.probe, self._found()
        test = found.test
        means = meaning(probe, found.result)
        return LogLine(
            trace=self._case.trace.id,
            task=self._case.trace.header.task,
            step=self._made.step,
            symptom=probe.symptom.value,
            assumed=self._assumed,
            probe=probe.name,
            result=found.result,
            classification=means.classification if means is not None else None,
            intervention=means.intervention if means is not None else None,
            model=self._model.name,
            detector=test.detector if test is not None else "",
            control=(test.control, test.control_n) if test is not None else (0, 0),
            edited=(test.edited, test.edited_n) if test is not None else (0, 0),
            digest=digest,
        )

    @property
    def _assumed(self) -> bool:
        return self._made.probe.symptom not in {each.symptom for each in self._case.noted}

    def _view(self, *, line: LogLine | None = None, ended: str | None = None) -> ProbeView:
        made, probe = self._made, self._made.probe
        results = list(self._results.values())
        verdict = summary(results, made.step, notice=self._case.notice, masked=self._masked)
        found = self._found()
        done = line is not None
        return ProbeView(
            trace=self._case.trace.id,
            step=made.step,
            probe=probe.name,
            symptom=probe.symptom.value,
            assumed=self._assumed,
            candidates=probe.candidates,
            change=probe.change,
            text=made.text,
            by=made.by,
            diff=self._diff,
            model=label(self._model.name),
            sentence=sentence(probe, found, done=done, ended=ended),
            result=found.result if done else "undecided",
            why=found.why,
            test=found.test,
            p=found.p,
            likely=found.likely,
            left=found.left,
            classification=line.classification if line is not None else None,
            intervention=line.intervention if line is not None else None,
            rows=replay_rows(results, verdict, self._masked),
            notices=(*made.notices, *self._notices(), *verdict.notices),
            line=line,
            k=self._request.samples,
            calls=self._model.asks,
            cached=self._model.hits,
            spent_usd=self._model.usd,
            spent_complete=self._model.usd_complete,
            done=done,
            ended=ended,
            digest=line.digest if line is not None else None,
        )

    def _notices(self) -> Generator[str]:
        if self._assumed:
            yield (
                f"symptom “{self._made.probe.symptom}” not detected in this run: the result holds"
                " only if you observed it"
            )
