"""SWE-agent trajectories (`.traj`), of 0.7 up to 1.1 and later: one trace a file.

A document is one run and is held whole; `spans` tells its attempts. The instance is the file's
stem, unless the settings name it. How a run ended is its exit status, which says nothing of whether
the patch is right; that is read from the harness's reports beside it (`replay.formats.sidecars`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.formats import sidecars
from replay.formats.common import cost, count, derived_id, known, number, obj, word
from replay.formats.source import Head, Source, Tally
from replay.formats.swe_agent.spans import Attempt, attempts, model, spans
from replay.messages import content_text
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, Outcome, SourceScore

NAME = "swe-agent"
TITLE = "SWE-agent trajectories"
FILES = ".traj"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.PARTIAL)
LACKS = "tools called as functions; in old files, how the history was shortened"
VERIFIED = "real files"

_BEGINS = rb'\A\W*\{\s*(?:"environment"\s*:\s*"[^"]*"\s*,\s*)?'
_STEPS = rb'"(?:trajectory|attempts)"\s*:\s*\[\s*(?:\{|\])'
_HISTORY = rb'"history"\s*:\s*\[\s*\{'
_STEP = rb'"(?:observation|message_type|is_demo|thought|agent)"\s*:'
_TOTALS = ("instance_cost", "tokens_sent", "tokens_received", "api_calls")


def sniff(head: Head) -> bool:
    return head.has(_BEGINS + rb"(?:" + _STEPS + rb"|" + _HISTORY + rb")", _STEP) and head.has(
        rb'"(?:observation|message_type|is_demo|action)"\s*:'
    )


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The one trace of a file. Raises BadTrace where it contains neither trajectory nor history."""
    raw, told = attempts(source, tally)
    info = obj(raw.get("info")) or told[-1].info
    task = _instance(told[0], source)
    verdict = sidecars.verdict_of(source, task)
    totals = obj(info.get("model_stats"))
    _count(told, totals, tally)
    root = derived_id(task, *(each for attempt in told for each in _content(attempt)))
    outcome = verdict.outcome
    yield Batch(
        header=Header(
            format=NAME,
            source_id=root,
            path=source.display,
            title=_title(told[0]) or task,
            task=task,
            variant=verdict.variant or model(told[0]),
            agent=NAME,
            labels=known(version=word(info.get("swe_agent_version"))),
            outcome=outcome if outcome != Outcome() else _ended(info),
            reference=verdict.reference or None,
            reported_cost_usd=_reported(totals),
        ),
        spans=tuple(_spans(told, root, info)),
        scores=tuple(_scores(told, root)),
        last=True,
    )


def _spans(told: list[Attempt], root: str, info: dict[str, Any]) -> Iterator[AnySpan]:
    several = len(told) > 1
    yield _agent(root, None, NAME, told[0], info)
    for attempt in told:
        own = _attempt_id(root, attempt) if several else root
        if several:
            yield _agent(own, root, f"attempt {attempt.number}", attempt, attempt.info)
        yield from spans(attempt, own)


def _agent(
    id: str, parent: str | None, name: str, attempt: Attempt, info: dict[str, Any]
) -> AgentSpan:
    failed = _ended(info).status == "failed"
    kept = {n: value for n, value in info.items() if not n.startswith("edited_files")}
    return AgentSpan(
        id=id,
        name=name,
        parent=parent,
        time_quality="none",
        status="error" if failed else "unset",
        error=word(info.get("exit_status")) if failed else None,
        extra=known(**({"environment": attempt.environment} | kept)),
    )


def _attempt_id(root: str, attempt: Attempt) -> str:
    return derived_id(root, "attempt", attempt.number)


def _scores(told: list[Attempt], root: str) -> Iterator[SourceScore]:
    """What a reviewer thought of each attempt, where several were made and compared."""
    for attempt in told:
        accepted = number(obj(attempt.info.get("review")).get("accept"))
        if accepted is not None:
            yield SourceScore(
                name="review",
                by="swe-agent reviewer",
                span=_attempt_id(root, attempt) if len(told) > 1 else None,
                value=accepted,
            )


def _ended(info: dict[str, Any]) -> Outcome:
    """The exit status. Without a patch nothing was solved; with one, nobody knows yet."""
    status = word(info.get("exit_status"))
    if status is None:
        return Outcome()
    handed_in = status.startswith("submitted") or bool(info.get("submission"))
    return Outcome(status="unknown" if handed_in else "failed", value=status, by="exit status")


def _instance(attempt: Attempt, source: Source) -> str | None:
    stated = word(obj(attempt.config.get("problem_statement")).get("id"))
    if stated is not None or source.display == "-":
        return stated
    return source.name.removesuffix(".json").removesuffix(".traj") or None


def _title(attempt: Attempt) -> str | None:
    """The first line of the task, which the first message asks for that is no demonstration."""
    for entry in attempt.history:
        if entry.get("role") == "user" and not entry.get("is_demo"):
            return sidecars.first_line(content_text(entry.get("content")))
    return None


def _content(attempt: Attempt) -> Iterator[Json]:
    """What an attempt said and saw, for an identity: a file names no run."""
    yield from attempt.history
    for step in attempt.steps:
        yield step.raw.get("response"), step.raw.get("observation")


def _reported(totals: dict[str, Any]) -> float | None:
    """The run's cost; zero of a run that used no tokens is what replays and demos write."""
    spent = totals.get("instance_cost")
    used = count(totals.get("tokens_sent"))
    found = cost(spent, None)
    if found is None and used:
        return 0.0 if spent == 0 else None
    return found.usd if found is not None else None


def _count(told: list[Attempt], totals: dict[str, Json], tally: Tally) -> None:
    tally.counts["traces"] += 1
    tally.counts["steps"] += sum(len(attempt.steps) for attempt in told)
    if len(told) > 1:
        tally.counts["attempts"] += len(told)
    for name in _TOTALS:
        value = totals.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            tally.counts[name] += value
