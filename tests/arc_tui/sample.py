"""A database of hand-made runs with hand-made diagnoses, for the screens to draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from replay.store.write import Writer
from replay.trace import AgentSpan, AnySpan, Batch, Header, ModelCall, Outcome, ToolCall, Trace
from taxonomy.classes import Attribution, FailureClass, Shape
from taxonomy.findings import Candidate, Diagnosis, Evidence, Finding, Item, Signal, StepScore
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import open_ledger
from tests.blank import put_ledger
from tests.build import SECOND_NS, Part, call, error, heard, step, tool, trace

SYSTEM = (
    "You are an airline agent. The current time is 2024-05-15 15:00 EST.\n"
    "Cancel a reservation only within 24 hours of its booking, or where the airline cancelled.\n"
    "Look a reservation up before you say anything of it. Ask for a yes before every change.\n"
    "Never make up facts that neither the user nor a tool gave you."
)

BOOKED = {
    "reservation_id": "IFOYYZ", "user_id": "mei_lee_1", "cabin": "economy", "insurance": False,
    "created_at": "2024-05-12T09:14:00", "flights": [{"number": "HAT201", "date": "2024-05-20"}],
}  # fmt: skip

PARTS: tuple[Part, ...] = (
    step("May I have your user id?", tokens=400, usd=0.01),
    heard("It is mei_lee_1. Cancel IFOYYZ and NQNU5R."),
    step(call("get_user", {"name": "Mei Lee"}, user_id="mei_lee_1"), tokens=900, usd=0.01),
    step(call("get_reservation", BOOKED, reservation_id="IFOYYZ"), seconds=2.5, tokens=1300),
    step("IFOYYZ was booked on 12 May, within the 24-hour window. Shall I cancel it?",
         seconds=1.2, tokens=1700, usd=0.01),
    heard("Yes."),
    step(call("cancel_reservation", "cancelled", reservation_id="IFOYYZ"), tokens=1900, usd=0.04),
    *[step(call("get_reservation", error("Error: not found"), reservation_id="NQNUSR"),
           tokens=2000 + 200 * again, usd=0.01) for again in range(3)],
    step(call("ask_specialist", "it is booked in business", about="NQNU5R"),
         call("get_policy", "business is refunded in full", topic="refund"),
         seconds=4.0, tokens=2700, usd=0.01),
    step("Both are cancelled.", seconds=6.0, tokens=2800, usd=0.01),
)  # fmt: skip
"""A belief against the world, an id misread three times, a sub-agent, a false last word."""

SPECIALIST: tuple[Part, ...] = (
    step(call("lookup", "business, 2024-05-14", id="NQNU5R"), tokens=300, usd=0.002),
    step("NQNU5R is in business, booked on 14 May.", tokens=400, usd=0.002),
)


def failed_run() -> Trace:
    """The run above: twelve steps, two of them a specialist's."""
    tools = [tool("get_reservation"), tool("cancel_reservation"), tool("ask_specialist")]
    run = trace(PARTS, task="I want to cancel two bookings.", system=SYSTEM, tools=tools)
    asked = next(s for s in run.spans if isinstance(s, ToolCall) and s.name == "ask_specialist")
    return structs.replace(run, spans=(*run.spans, *_below(asked, SPECIALIST)))


def _below(asked: ToolCall, parts: Sequence[Part]) -> list[AnySpan]:
    """The spans of a sub-agent that a call ran."""
    agent = AgentSpan(id="specialist", name="specialist", parent=asked.id)
    made: list[AnySpan] = [agent]
    for span in trace(parts, task="Look NQNU5R up.").spans[1:]:
        later = (asked.start_ns or 0) - (trace(()).spans[0].start_ns or 0) - 3 * SECOND_NS
        moved: dict[str, Any] = {
            "id": f"s-{span.id}",
            "parent": agent.id,
            "start_ns": (span.start_ns or 0) + later,
            "end_ns": (span.end_ns or 0) + later,
        }
        if isinstance(span, ToolCall):
            moved["asked_by"] = f"s-{span.asked_by}"
        made.append(structs.replace(span, **moved))
    return made


SILENT = Diagnosis(trace="", shape=None, scores=(), findings=(), candidates=())
"""What the rules say of a run of which they can say nothing."""


def put(path: Path, head: Header, spans: Sequence[AnySpan], said: Diagnosis = SILENT) -> str:
    """Write a run, and what the rules say of it; returns the trace's id."""
    put_ledger(path)
    with open_ledger(path) as store:
        writer = Writer(store)
        batch = Batch(header=head, spans=tuple(spans), last=True)
        key = writer.finish(writer.write(batch)).id
        asks = sorted(
            (span for span in spans if isinstance(span, ModelCall)),
            key=lambda span: span.start_ns or 0,
        )
        names = {index: span.id for index, span in enumerate(asks)}
        diagnoses.keep(store, structs.replace(said, trace=key), names)
    return key


def header(task: str | None, trial: str | None, outcome: Outcome, **more: Any) -> Header:
    source_id = f"{task}/{trial}/{more.get('title', '')}"
    return Header(
        format="built", source_id=source_id, task=task, trial=trial, outcome=outcome, **more
    )


def scores(*values: float | None) -> tuple[StepScore, ...]:
    return tuple(
        StepScore(
            step=index,
            value=value,
            source="rule",
            by="rubric",
            items=(
                Item(name="arguments grounded", held=value > 0.5, because="seen before"),
                Item(name="result read", held=None),
            ),
        )
        for index, value in enumerate(values)
        if value is not None
    )


BELIEF = Finding(
    failure=FailureClass.HALLUCINATED_STATE,
    step=3,
    why="falsely claims 12 May is within 24 h of 15 May",
    rule="contradiction",
    attribution=Attribution.AGENT,
    evidence=(
        Evidence(role="says", text="booked on 12 May, within the 24-hour window", step=3),
        Evidence(
            role="observed",
            text='"created_at": "2024-05-12T09:14:00"',
            step=2,
            place="get_reservation",
        ),
        Evidence(role="stated", text="The current time is 2024-05-15 15:00", place="system prompt"),
    ),
)
MISREAD = Finding(
    failure=FailureClass.BAD_ARGS, step=5, why="NQNUSR was never shown", rule="ungrounded"
)
USERS = Finding(
    failure=FailureClass.OTHER,
    sub="premise not checked",
    attribution=Attribution.USER,
    step=0,
    why="the user asked for another trip",
    rule="user",
)

SAID = Diagnosis(
    trace="",
    shape=Shape.EARLY_COLLAPSE,
    scores=scores(1.0, 1.0, 1.0, 0.25, 0.5, 0.25, 0.0, 0.0, None, 1.0, 1.0, 0.25),
    findings=(BELIEF, MISREAD),
    candidates=(
        Candidate(
            step=3,
            weight=2.4,
            why=BELIEF.why,
            signals=(
                Signal(name="contradiction", weight=1.8, phrase="12 May against 15 May"),
                Signal(name="score drop", weight=0.6, phrase="score 1.00 → 0.25"),
            ),
        ),
        Candidate(
            step=5,
            weight=1.1,
            why=MISREAD.why,
            signals=(Signal(name="ungrounded", weight=1.1, phrase="reservation_id NQNUSR"),),
        ),
    ),
)
HEALTHY = structs.replace(SAID, shape=Shape.HEALTHY, findings=(), candidates=())

FAILED, PASSED = Outcome(status="failed", value=0.0), Outcome(status="passed", value=1.0)


def put_failed(path: Path) -> str:
    """The failed run with its diagnosis, alone."""
    return put(path, header("26", "1", FAILED, title="Cancel two"), failed_run().spans, SAID)


def put_runs(path: Path) -> str:
    """Six runs, one of every kind; returns the id of the failed one above."""
    short = trace(PARTS[:4], task="Hi.").spans
    key = put_failed(path)
    bad_args = structs.replace(SAID, findings=(MISREAD,), candidates=SAID.candidates[1:])
    warned = structs.replace(HEALTHY, warnings=("used an id never observed",))
    put(path, header("26", "0", PASSED), trace(PARTS[:7], system=SYSTEM).spans, HEALTHY)
    put(path, header("4", "2", PASSED), short, warned)
    put(path, header("7", "0", FAILED), short, bad_args)
    put(path, header("9", "0", FAILED), short, structs.replace(HEALTHY, findings=(USERS,)))
    put(path, header(None, None, Outcome(), title="Fix the flaky test in the scheduler"), short)
    return key
