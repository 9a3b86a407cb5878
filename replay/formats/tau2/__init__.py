"""tau2-bench results: simulations of a task, with reward and the criteria it was judged by.

The path of a file: its simulations (`results`), and their spans (`tell`). The criteria, the gold
actions among them, and what the simulated user was told are kept as reference, where no judge
looks. Runs by voice, recorded as ticks without messages, are named and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from replay.formats.chat import user_label
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Head, Source, Tally
from replay.formats.litellm import cost
from replay.formats.normal import derived_id, ns, number
from replay.formats.sidecar import rewarded
from replay.formats.tau2 import results
from replay.formats.tau2.results import Setting, Simulation
from replay.formats.tau2.tell import Teller, request
from replay.trace import AgentSpan, Batch, Header, Json, Level, Outcome, SourceScore

NAME = "tau2"
TITLE = "tau2-bench results"
FILES = ".json"
FIDELITY = (Level.PARTIAL,)
LACKS = "what stands around the policy in the system prompt; mostly the tools"

_INFO = (rb'"num_trials"\s*:', rb'"(?:user_info|agent_info)"\s*:', rb'"max_steps"\s*:')
_ALONE = (rb'"task_id"\s*:', rb'"termination_reason"\s*:', rb'"start_time"\s*:')
_FIELDS = {
    "id", "task_id", "timestamp", "start_time", "end_time", "duration", "termination_reason",
    "agent_cost", "user_cost", "agent_usage", "reward_info", "messages", "ticks", "trial", "seed",
    "mode", "speech_environment", "review", "user_only_review", "info", "auth_classification",
    "hallucination_retries_used", "hallucination_check", "provider_session_id", "policy",
    "effect_timeline",
}  # fmt: skip
_STOPPED = {"user_stop", "agent_stop"}
_NOT_JUDGED = {"infrastructure_error", "context_window_exceeded"}
"""Endings that the benchmark itself leaves out of its figures."""


def sniff(head: Head) -> bool:
    return head.starts(b"{") and (head.has(*_INFO) or head.has(*_ALONE))


def part_of(path: Path) -> Path | None:
    """The results that a simulation's file belongs to."""
    return results.part_of(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """A trace a simulation. Raises BadTrace where the source holds none."""
    setting, found = results.simulations(source, tally)
    for simulation in found:
        raw = simulation.raw
        for name in raw.keys() - _FIELDS:
            tally.unknown[name] += 1
        if not listed(raw.get("messages")) and listed(raw.get("ticks")):
            tally.problem(simulation.where, "is a run by voice, recorded as ticks alone")
            continue
        tally.counts["traces"] += 1
        yield _batch(simulation, setting, source, tally)


def _batch(simulation: Simulation, setting: Setting, source: Source, tally: Tally) -> Batch:
    raw = simulation.raw
    messages = listed(raw.get("messages"))
    tally.counts["messages"] += len(messages)
    task, trial = word(raw.get("task_id")), word(raw.get("trial"))
    root = word(raw.get("id")) or derived_id(task, trial, *messages)
    shared = request(setting.info, raw)
    teller = Teller(root, shared, simulation.where, tally)
    spans = teller.tell(messages)
    agent = obj(setting.info.get("agent_info"))
    spent = cost(raw.get("agent_cost"), None)
    return Batch(
        header=Header(
            format=NAME,
            source_id=root,
            item="/".join(filter(None, (task, trial))) or None,
            path=source.display,
            title=user_label(messages),
            task=task,
            trial=trial,
            variant=shared.model,
            agent=word(agent.get("implementation")),
            outcome=_outcome(raw),
            labels=known(domain=word(obj(setting.info.get("environment_info")).get("domain_name"))),
            reference=_reference(raw, setting.tasks.get(task or "", {})),
            reported_cost_usd=spent.usd if spent is not None else None,
        ),
        spans=(_agent(raw, root, word(agent.get("implementation"))), *spans),
        scores=tuple(_scores(raw, teller.turns)),
        last=True,
    )


def _agent(raw: dict[str, Any], root: str, name: str | None) -> AgentSpan:
    start, end = ns(raw.get("start_time")), ns(raw.get("end_time"))
    ended = word(raw.get("termination_reason"))
    failed = ended is not None and ended not in _STOPPED
    return AgentSpan(
        id=root,
        name=name or NAME,
        start_ns=start,
        end_ns=end,
        time_quality="exact" if start is not None and end is not None else "none",
        status="error" if failed else "unset",
        error=ended if failed else None,
        extra=known(
            termination_reason=ended,
            user_cost_usd=raw.get("user_cost"),
            seed=raw.get("seed"),
            info=raw.get("info"),
        ),
    )


def _outcome(raw: dict[str, Any]) -> Outcome:
    ended = word(raw.get("termination_reason"))
    if ended in _NOT_JUDGED:
        return Outcome(value=ended, by="termination reason")
    return rewarded(obj(raw.get("reward_info")).get("reward"), "tau2 reward")


def _reference(raw: dict[str, Any], task: dict[str, Any]) -> dict[str, Json] | None:
    kept = known(
        evaluation_criteria=task.get("evaluation_criteria"),
        user_scenario=task.get("user_scenario"),
        reward_info=raw.get("reward_info"),
    )
    return kept or None


def _scores(raw: dict[str, Any], turns: dict[int, str]) -> Iterator[SourceScore]:
    """The parts of the reward, and what a reviewing model found, at the turns it names."""
    for name, value in obj(obj(raw.get("reward_info")).get("reward_breakdown")).items():
        found = None if isinstance(value, bool) else number(value)
        if found is not None:
            yield SourceScore(name=f"reward {name}", by="tau2", value=found)
    for review in (obj(raw.get("review")), obj(raw.get("user_only_review"))):
        for error in map(obj, listed(review.get("errors"))):
            yield _reviewed(error, turns)
    status = word(obj(raw.get("auth_classification")).get("status"))
    if status is not None:
        yield SourceScore(name="authentication", by="tau2 reviewer", label=status)


def _reviewed(error: dict[str, Any], turns: dict[int, str]) -> SourceScore:
    turn = error.get("turn_idx")
    tags = (word(each) for each in listed(error.get("error_tags")))
    parts = (word(error.get("source")), word(error.get("severity")), *tags)
    return SourceScore(
        name="review",
        by="tau2 reviewer",
        span=turns.get(turn) if isinstance(turn, int) else None,
        label=", ".join(part for part in parts if part) or "error",
        explanation=word(error.get("reasoning")),
    )
