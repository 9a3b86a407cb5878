"""OpenHands runs: evaluation output, saved trajectories and conversation folders, of both the
runtime and the SDK that followed it. A trace a run.

The path of a file: its runs and their spans (`runs`), what an event comes to (`events`). An
evaluation is read a line at a time. Keys in the recorded settings stay in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from replay.formats import sidecars
from replay.formats.common import derived_id, known, ns, obj, word
from replay.formats.openhands import runs
from replay.formats.openhands.events import Received
from replay.formats.openhands.runs import Event, Run, SpanBuilder, metrics_of, reported_usd
from replay.formats.sidecars import Verdict
from replay.formats.source import Head, Source, Tally
from replay.messages import text
from replay.trace import AgentSpan, Batch, Header, Json, Level, Outcome, Request, SourceScore

NAME = "openhands"
TITLE = "OpenHands runs and events"
FILES = ".json, .jsonl; a conversation's folder"
FIDELITY = (Level.PARTIAL,)
LACKS = "results and recalled facts as the model saw them; often the tools"
VERIFIED = "real files"

_RUN = {
    "instance_id", "instance", "test_result", "instruction", "metadata", "metrics", "error",
    "history", "issue", "issue_type", "base_commit", "git_patch", "success", "comment_success",
    "result_explanation", "report", "attempt", "base_state", "cost", "status", "runtime_runs",
}  # fmt: skip
_PARAMS = ("temperature", "top_p", "max_output_tokens", "reasoning_effort")
_HISTORY = rb'"history"\s*:\s*\[\s*[\[{]'
_RESULT = (rb'"instance_id"\s*:', rb'"test_result"\s*:', rb'"(?:metadata|history|instruction)"\s*:')
_ISSUE = rb'\A\W*\{\s*"issue"\s*:\s*\{'
_RUNTIME = (
    rb'"(?:action|observation)"\s*:\s*"\w+"',
    rb'"source"\s*:\s*"(?:agent|user|environment)"',
    rb'"timestamp"\s*:',
)
_SDK = rb'"kind"\s*:\s*"(?:SystemPrompt|Message|Action|Observation)Event"'


def sniff(head: Head) -> bool:
    if not head.starts(b"{", b"["):
        return False
    if head.has(_SDK, rb'"source"\s*:') or head.has(_ISSUE, rb'"instruction"\s*:'):
        return True
    if head.has(*_RESULT):
        return True
    return head.has(*_RUNTIME) and head.has(
        _HISTORY + rb'|"(?:args|extras|tool_call_metadata)"\s*:'
    )


def part_of(path: Path) -> Path | None:
    """The first event's file of the folder that an event's file belongs to."""
    return runs.part_of(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """A trace a run. Raises BadTrace where the source contains neither a run nor events."""
    for run in runs.runs(source, tally):
        for name in run.about.keys() - _RUN:
            tally.unknown[name] += 1
        tally.counts["traces"] += 1
        tally.counts["events"] += len(run.events)
        yield _batch(run, source, tally)


def _batch(run: Run, source: Source, tally: Tally) -> Batch:
    about = run.about
    instance = word(about.get("instance_id"))
    metrics = metrics_of(about)
    verdict = _verdict(about, sidecars.verdict_of(source, instance))
    root = derived_id(instance, about.get("attempt"), *map(_identity, run.events))
    request = _request(about)
    spans = SpanBuilder(run, root, request, metrics, tally).build()
    return Batch(
        header=Header(
            format=NAME,
            source_id=root,
            item=instance or (str(run.line) if run.line else None),
            path=source.display,
            title=_title(run) or instance,
            task=instance or _issue(about),
            trial=word(about.get("attempt")),
            variant=verdict.variant or request.model,
            agent=word(obj(about.get("metadata")).get("agent_class")) or NAME,
            outcome=verdict.outcome,
            reference=verdict.reference or None,
            reported_cost_usd=reported_usd(metrics),
        ),
        spans=(_agent(run, root), *spans),
        scores=tuple(_scores(about)),
        last=True,
    )


def _identity(event: Event) -> Json:
    """What tells an event from any other: its time and what it is, else all of it."""
    raw = event.raw
    if raw.get("timestamp") is None:
        return raw
    return [raw.get(name) for name in ("id", "timestamp", "kind", "action", "observation")]


def _request(about: dict[str, Any]) -> Request:
    """The model and its settings, under the names of either generation."""
    metadata = obj(about.get("metadata"))
    agent = obj(obj(about.get("base_state")).get("agent"))
    llm = obj(metadata.get("llm_config")) or obj(metadata.get("llm")) or obj(agent.get("llm"))
    return Request(
        model=word(llm.get("model")),
        params=known(**{name: llm.get(name) for name in _PARAMS}),
    )


def _verdict(about: dict[str, Any], beside: Verdict) -> Verdict:
    """The report in the run itself, else those beside it."""
    for report in (obj(obj(about.get("test_result")).get("report")), obj(about.get("report"))):
        own = sidecars.reported(report, "report")
        if own.outcome != Outcome():
            return Verdict(
                outcome=own.outcome,
                variant=beside.variant,
                reference={**beside.reference, **own.reference},
            )
    return beside


def _scores(about: dict[str, Any]) -> Iterator[SourceScore]:
    """The resolver has a model judge whether the issue was solved: an opinion, no outcome."""
    if isinstance(about.get("success"), bool) and "result_explanation" in about:
        yield SourceScore(
            name="success",
            by="openhands resolver",
            value=float(about["success"]),
            explanation=word(about.get("result_explanation")),
        )


def _issue(about: dict[str, Any]) -> str | None:
    """`owner/repo#5`."""
    issue = obj(about.get("issue"))
    parts = [word(issue.get(name)) for name in ("owner", "repo", "number")]
    return "{}/{}#{}".format(*parts) if all(parts) else None


def _title(run: Run) -> str | None:
    """The issue's title, or the first line that the user wrote."""
    issue = word(obj(run.about.get("issue")).get("title"))
    if issue is not None:
        return sidecars.first_line(issue)
    for event in run.events[:64]:
        happened = event.happened
        if isinstance(happened, Received):
            return sidecars.first_line(text(happened.message))
    return None


def _agent(run: Run, root: str) -> AgentSpan:
    times = [at for event in run.events if (at := ns(event.raw.get("timestamp"))) is not None]
    about = run.about
    error = word(about.get("error"))
    patch = word(about.get("git_patch")) or word(obj(about.get("test_result")).get("git_patch"))
    return AgentSpan(
        id=root,
        name=word(obj(about.get("metadata")).get("agent_class")) or NAME,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality="exact" if times else "none",
        status="error" if error is not None else "unset",
        error=error,
        extra=known(submission=patch, metrics=_totals(obj(about.get("metrics")))),
    )


def _totals(metrics: dict[str, Any]) -> dict[str, Json]:
    return {name: value for name, value in metrics.items() if name.startswith("accumulated")}
