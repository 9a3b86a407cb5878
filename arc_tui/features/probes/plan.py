"""What a probe will call: on which run and step, with which change, and for about how much."""

from __future__ import annotations

from typing import NamedTuple

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import ExperimentRequest
from replay.errors import ModelRefused, NotFound, no_step
from replay.locked.estimate import Estimate, estimate, price_of, total_estimate
from replay.locked.row import Models, Sampling, Schedule
from replay.models.cached import Cached
from replay.models.choose import default_name, label
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace, Usage
from taxonomy.findings import Diagnosis
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.probes import presets
from taxonomy.probes.presets import Given, Preset, Unfit, cut_of, preset
from taxonomy.probes.symptoms import BY_NAME, Noted, ProbeEntry, symptoms
from taxonomy.query.failures import break_and_notice, tags_of

SAMPLES = 8
"""Of each arm at the step that decides: enough for a failure that is mostly there, or gone."""

TAIL = 1
"""Of each arm at the other steps, which show how it goes on and decide nothing: a look."""


class ProbeRequest(ExperimentRequest, frozen=True, kw_only=True):
    """Which run, and which probe of it; `step` None is where it broke.

    `constraint` and `written` (a summary, from the file `file`) are the user's own words;
    `ask_summary` has the model write the summary.
    """

    trace: str
    step: int | None = None
    probe: str | None = None
    constraint: str | None = None
    written: str | None = None
    file: str = ""
    ask_summary: bool = False
    samples: int = SAMPLES
    schedule: Schedule = "cheap"


class Case(NamedTuple):
    """A run at a step; `notice` is why a prompt edit may not help, `broke` where the run is
    taken to have broken, which may be another step."""

    trace: Trace
    step: int
    said: Diagnosis
    noted: tuple[Noted, ...]
    notice: str | None
    broke: int | None


# --- the run


def trace_of(store: Store, request: ProbeRequest) -> Trace:
    """The trace that is meant."""
    return read.load(store, trace_row(store, request.trace).trace)


def case_of(store: Store, request: ProbeRequest, trace: Trace) -> tuple[Case | None, str | None]:
    """The run at its break, None where no break is known; and why a prompt edit may not help."""
    at, notice = break_and_notice(store, trace.id)
    step = request.step if request.step is not None else at
    if step is None:
        return None, notice
    if not 0 <= step < len(trace.steps):
        raise no_step(step, len(trace.steps))
    said = diagnosis(store, trace.id)
    if said is None:
        said = Diagnosis(trace=trace.id, shape=None, scores=(), findings=(), candidates=())
    tags = tags_of(store, trace.id)
    classes = {row.failure for row in tags if row.step == step}
    return Case(trace, step, said, symptoms(said, trace, step, classes), notice, at), notice


def chosen(store: Store, request: ProbeRequest) -> tuple[Case, ProbeEntry]:
    """The run and the probe that are meant. Raises NotFound where either is not there."""
    case, _ = case_of(store, request, trace_of(store, request))
    if case is None:
        raise NotFound("break candidate in", request.trace, hint="Try: --step N")
    probe = BY_NAME.get(request.probe or "")
    if probe is None:
        raise NotFound("probe", str(request.probe), tuple(BY_NAME))
    return case, probe


def preset_of(
    case: Case, probe: ProbeEntry, request: ProbeRequest, written: Given | None
) -> Preset | Unfit:
    """The probe at the break; `written` is a summary the model was asked for."""
    if written is None and request.written is not None:
        written = Given(text=request.written)
    return preset(probe, case.trace, case.step, constraint=request.constraint, written=written)


def asked_for(case: Case, probe: ProbeEntry, request: ProbeRequest, model: Cached) -> Given | None:
    """The summary the model was asked to write, None where it was not."""
    cut = cut_of(probe, case.trace, case.step)
    if not request.ask_summary or cut is None:
        return None
    try:
        text = presets.request_summary(case.trace, cut, model)
    except ModelRefused as refused:
        raise ModelRefused(
            f"no summary: {refused.message}",
            "Try: --summary FILE, or leave --summary out",
        ) from refused
    return Given(text=text, by=f"written by {label(model.name)}")


def known_model(
    store: Store, request: ProbeRequest, trace: Trace
) -> tuple[Cached | None, str | None]:
    """Who would be asked, with live calls off; and why nobody can be though somebody is named."""
    if (request.model or default_name(trace)) is None:
        return None, None
    try:
        return ModelPool(store).named(request.model or default_name(trace)), None
    except ModelRefused as error:  # what the environment names is no server
        return None, str(error)


def other_symptom(case: Case, probe: ProbeEntry) -> str:
    """A hint at another symptom that was seen, "" where none was."""
    others = [each.symptom for each in case.noted if each.symptom != probe.symptom]
    return f"also seen: {others[0]}" if others else ""


def command_of(case: Case, probe: ProbeEntry, request: ProbeRequest) -> list[str]:
    """The words of the command that runs the probe."""
    words = ["arc", "experiment", "probe", request.trace, "--probe", probe.name]
    if request.step is not None:
        words += ["--step", str(case.step)]
    if request.constraint is not None and probe.name == "constraint":
        words += ["--constraint", request.constraint]
    given = "ask" if request.ask_summary else request.file
    if given and cut_of(probe, case.trace, case.step) is not None:
        words += ["--summary", given]
    if request.model is not None:
        words += ["--model", request.model]
    return words


# --- the price


def sampling_of(made: Preset, request: ProbeRequest) -> Sampling:
    """The step that decides with all samples, the others with one sample."""
    return Sampling(
        levels=(request.samples,),
        counts={at: request.samples if at == made.step else TAIL for at in made.steps},
        schedule=request.schedule,
    )


def cost_of(case: Case, made: Preset, request: ProbeRequest, model: Cached) -> Estimate:
    """What is asked at the steps of the probe, and the summary if the model is to write it."""
    sampling = sampling_of(made, request)
    models = Models.one(model)
    parts = [estimate(case.trace, made.edit, models, sampling=sampling, steps=made.steps)]
    cut = cut_of(made.probe, case.trace, made.step)
    if request.ask_summary and cut is not None:
        parts.append(_of_writing(case.trace, cut, model, made.text))
    return total_estimate(parts)


def _of_writing(trace: Trace, cut: int, model: Cached, like: str) -> Estimate:
    """One request for a summary of about the size of one by rule."""
    sent = presets.summary_request(trace, cut, model.name)
    if model.stored(sent, 0):
        return Estimate(calls=0, stored=1, input_tokens=0, output_tokens=0, usd=0.0)
    size = sum(len(str(each)) for each in sent.conversation.messages()) // 4 + 1
    usage = Usage(input_tokens=size, output_tokens=len(like) // 4 + 1)
    cost = price_of(model, usage)
    return Estimate(
        calls=1,
        stored=0,
        input_tokens=size,
        output_tokens=usage.output_tokens or 0,
        by_size=1,
        usd=None if cost is None else cost.usd,
    )
