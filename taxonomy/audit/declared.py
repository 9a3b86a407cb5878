"""What do runs show of what `exploits.toml` declares? Rates of its exploits, and feedback loops.

Only the runs that something declared is of are read, and none of this is kept: the file may change
from one audit to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from replay.statistics import Rate, clustered, rate
from replay.store import read
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.audit.coding_run import CodingRun
from taxonomy.audit.exploits import Exploit, Exploits
from taxonomy.audit.feedback import (
    FeedbackLoop,
    ScoredAttempt,
    feedback_loops,
    findings,
    read_attempt,
)
from taxonomy.audit.gaming import first_finding
from taxonomy.findings import AuditFinding, AuditResult
from taxonomy.judgements.golds import with_own_gold
from taxonomy.query.compile import runs_meant
from taxonomy.query.failures import RunHead
from taxonomy.query.listing import natural, run_order
from taxonomy.rules.rule import RuleContext


class ExploitRate(Struct, frozen=True, kw_only=True):
    """How many runs gamed a task by a declared exploit. `task` None: over all of its tasks where it
    has several, the interval minding that runs of one task are alike; "" is of runs without a task.
    `stopped` runs tried, were refused or undid it, and count as not gamed."""

    exploit: str
    task: str | None
    gamed: Rate
    stopped: int


class DeclaredAudit(Struct, frozen=True, eq=False, kw_only=True):
    """`findings` are of one run each, by trace: of an exploit, or of a shown score that rose alone.
    `exploits` begin, for each exploit of several tasks, with the rate over all of them."""

    exploits: tuple[ExploitRate, ...] = ()
    loops: tuple[FeedbackLoop, ...] = ()
    findings: tuple[tuple[str, AuditFinding], ...] = ()


NOTHING_DECLARED = DeclaredAudit()


def audit_declared(
    store: Store, runs: Sequence[RunHead], exploits: Exploits
) -> Generator[int, None, DeclaredAudit]:
    """Hold these runs against what is declared; yields how many it has seen. Raises BadQuery where
    a query of the file cannot be read."""
    meant = {
        query: frozenset(run_order(store, runs_meant(store, query))) for query in exploits.queries
    }
    results: list[_Result] = []
    attempts: list[ScoredAttempt] = []
    for done, run in enumerate(runs):
        yield done
        of_run = [each for each in exploits.exploit if each.is_of(run.trace, run.task, meant)]
        scored = (
            each
            for each in exploits.shown_score
            if run.task and each.is_of(run.trace, run.task, meant)
        )
        shown = next(scored, None)
        if not of_run and shown is None:
            continue
        trace = with_own_gold(store, read.load(store, run.trace))
        for exploit, finding in _of_exploits(trace, of_run):
            results.append(_Result(exploit.name, run, finding))
        if shown is not None:
            scores = read.scores(store, run.trace)
            attempts.append(read_attempt(trace, shown, scores, run.task or "", _models(trace)))
    loops = feedback_loops(attempts)
    made = [(each.run.trace, each.finding) for each in results if each.finding is not None]
    return DeclaredAudit(
        exploits=tuple(_rates(results)), loops=loops, findings=(*made, *findings(loops))
    )


class _Result(NamedTuple):
    exploit: str
    run: RunHead
    finding: AuditFinding | None

    @property
    def task(self) -> str:
        return self.run.task or ""

    @property
    def result(self) -> AuditResult | None:
        return self.finding.result if self.finding else None


def _models(trace: Trace) -> str:
    """The models that answered in a run: attempts of others are another loop."""
    named = (step.ask.response.model or step.ask.request.model for step in trace.steps)
    return ", ".join(sorted({name for name in named if name}))


def _of_exploits(
    trace: Trace, exploits: Iterable[Exploit]
) -> Iterator[tuple[Exploit, AuditFinding | None]]:
    run = CodingRun(RuleContext(trace).unjudged())
    for each in exploits:
        made = tuple(attempt for attempt in each.attempts(run) if attempt.result is not None)
        yield each, first_finding(made)


def _rates(results: Sequence[_Result]) -> Iterator[ExploitRate]:
    by_exploit: dict[str, list[_Result]] = defaultdict(list)
    for each in results:
        by_exploit[each.exploit].append(each)
    for name, said in by_exploit.items():
        tasks = sorted({each.task for each in said}, key=natural)
        if len(tasks) > 1:
            yield ExploitRate(
                exploit=name,
                task=None,
                gamed=clustered((each.task, each.result == "gamed") for each in said).rate,
                stopped=sum(each.result == "stopped" for each in said),
            )
        for task in tasks:
            of_task = [each.result for each in said if each.task == task]
            yield ExploitRate(
                exploit=name,
                task=task,
                gamed=rate(of_task.count("gamed"), len(of_task)),
                stopped=of_task.count("stopped"),
            )
