"""A judge's audit of whole runs, for what no rule can read: what it costs, and what it saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from itertools import islice

from msgspec import Struct

from arc_tui.experiments.models import ModelPool, Spending
from arc_tui.experiments.request import ExperimentRequest, named_judge
from arc_tui.ui import format
from arc_tui.ui.tables import Table, counted, estimate
from arc_tui.views.scores import stands
from replay.errors import ModelRefused, OfflineMiss, RequestRefused
from replay.locked.estimate import Estimate
from replay.models.cached import Answered, Cached, Outcome
from replay.models.choose import DEMO, label
from replay.store import read
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.audit.judge_gate import JudgedRate, judged_rates
from taxonomy.judge.audits import (
    JudgedAudit,
    State,
    audit_request,
    before_audit,
    name_of,
    read_audit,
)
from taxonomy.judge.requests import JudgeRequest, Unasked, warning
from taxonomy.judge.scores import answers_each, estimate_cost

AT_ONCE = 16
"""Runs that are in memory together, and asked about at once."""


class JudgedRequest(ExperimentRequest, frozen=True, kw_only=True):
    """Which runs a judge audits; `model` is the judge."""

    traces: tuple[str, ...]


class JudgedView(Struct, frozen=True, eq=False, kw_only=True):
    """What a judge says of runs so far. `by` names it with the version of its rubric; `rates` are
    empty until all is in."""

    judge: str
    by: str
    rows: tuple[JudgedAudit, ...] = ()
    rates: tuple[JudgedRate, ...] = ()
    notice: str | None = None
    total: int = 0
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True

    @property
    def done(self) -> int:
        return len(self.rows)

    def count(self, state: State) -> int:
        """How many runs came to that."""
        return sum(row.state == state for row in self.rows)


def estimate_judged(store: Store, request: JudgedRequest) -> Estimate:
    """What `run_judged` would ask and cost. Asks nothing."""
    with ModelPool(store) as models:
        model = _judge(request, models)
        asked = (_request(store, read.load(store, key), model) for key in request.traces)
        return estimate_cost(asked, model, 1)


def run_judged(
    store: Store, request: JudgedRequest, models: ModelPool
) -> Generator[JudgedView, None, None]:
    """Audit runs by a judge; yields the view whenever a run is done. Answers are stored as they
    come, so one that ends early goes on where it stopped. Raises ModelRefused and Stopped."""
    model = _judge(request, models)
    by, before = name_of(model.name), models.spending
    rows: list[JudgedAudit] = []
    agents: dict[str, None] = {}

    def view() -> JudgedView:
        spent: Spending = models.spending.since(before)
        is_done = len(rows) == len(request.traces)
        return JudgedView(
            judge=label(model.name),
            by=by,
            rows=tuple(rows),
            rates=judged_rates(store, by, rows) if is_done else (),
            notice=warning(model.name, agents) if rows else None,
            total=len(request.traces),
            calls=spent.calls,
            cached=spent.cached,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
        )

    waiting = iter(request.traces)
    while keys := list(islice(waiting, AT_ONCE)):  # a run is long: few at a time
        about: list[tuple[Trace, JudgeRequest]] = []
        for trace in (read.load(store, key) for key in keys):
            named = (step.ask.response.model or step.ask.request.model for step in trace.steps)
            agents |= dict.fromkeys(name for name in named if name)
            asked = _request(store, trace, model)
            if isinstance(asked, Unasked):
                rows.append(before_audit(trace, by, asked))
            else:
                about.append((trace, asked))
        for which, (outcome,) in answers_each([asked for _, asked in about], model):
            rows.append(_read(by, *about[which], outcome))
            yield view()
    yield view()


def _judge(request: JudgedRequest, models: ModelPool) -> Cached:
    if request.model == DEMO:
        raise ModelRefused(
            "the demo model audits by rule, as arc audit does without --judge", "Try: arc audit"
        )
    return named_judge(request, models)


def _request(store: Store, trace: Trace, model: Cached) -> JudgeRequest | Unasked:
    return audit_request(trace, model.name, read.scores(store, trace.id))


def _read(by: str, trace: Trace, asked: JudgeRequest, outcome: Outcome) -> JudgedAudit:
    match outcome:
        case Answered():
            return read_audit(trace, by, asked, outcome.body)
        case RequestRefused():
            why = f"the request was declined: {outcome.message}"
            return JudgedAudit(trace=trace.id, by=by, state="refused", why=why)
        case OfflineMiss():
            return before_audit(trace, by, asked)


# --- in words

_TITLES = {"faithfulness": "faithfulness", "claim": "false claim", "gaming": "specification gaming"}

SUGGESTED = (
    "A judge's findings are suggestions; both quotes of each occur in the run where they are cited."
)
GATE = (
    "approved where κ with people's tags is .60 or more, its interval over .40, on 5 runs or more"
    " with the sub-label and 5 without"
)
ROWS = ("id", "step", "probe", "result", "reason", "quote", "against")


def sentence(view: JudgedView) -> str:
    """What to know first."""
    found = sum(bool(row.findings) for row in view.rows)
    of = f"{view.count('read')} of {format.count(view.total, 'run')}"
    return f"{of} audited by {format.plain(view.judge)}, {found} with a finding"


def rate_table(view: JudgedView) -> Table:
    """A row a probe: in how many runs the judge saw a failure, and whether it may be relied on."""
    return Table(
        title="by probe",
        columns=("probe", "runs with a failure", "stopped", "labelled runs", "κ", "judge"),
        rows=tuple(
            (
                _TITLES[each.probe],
                counted(each.seen),
                str(each.stopped),
                str(each.agreement.labels),
                estimate(each.agreement.held.kappa),
                stands(each.trust) if each.trust.state != "approved" else "approved",
            )
            for each in view.rates
        ),
        notes=(GATE,),
    )


def row_cells(view: JudgedView) -> Iterator[tuple[str, ...]]:
    """The findings, by run and step."""
    for row in view.rows:
        for probe, found in row.findings:
            said, against = (each.text for each in found.finding.evidence)
            yield (
                row.trace[:8],
                str(found.finding.step),
                _TITLES[probe],
                found.result,
                format.one_line(found.finding.why),
                format.one_line(said),
                format.one_line(against),
            )


def facts(view: JudgedView) -> str:
    """What came of what was asked, and what it cost."""
    states = Counter(row.state for row in view.rows)
    dropped = sum(len(row.dropped) for row in view.rows)
    cut = sum(row.shown < row.steps for row in view.rows if row.state == "read")
    said = [
        f"judge {view.judge}",
        f"{states['refused']} refused",
        f"{states['missing']} not stored",
        f"{states['unasked']} not asked",
        f"{format.count(dropped, 'finding')} dropped: a quote does not occur there",
        *([f"{format.count(cut, 'run')} not shown whole"] if cut else []),
        f"{view.calls} calls",
        f"{view.cached} cached",
        f"spent {format.usd(view.spent_usd, complete=view.spent_complete)}",
    ]
    return format.plain(" · ".join(said))
