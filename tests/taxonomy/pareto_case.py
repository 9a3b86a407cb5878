"""A store of failed and passed runs of two steps each, and what is said of them."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Header, Outcome
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Diagnosis, Finding
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import migrations
from taxonomy.judgements.tags import Tag, put_tag
from tests.build import call, step, trace

DAY_NS = 86_400 * 10**9
MONDAY_NS = 1_767_571_200 * 10**9
"""2026-01-05 00:00 UTC, the first moment of 2026-W02."""

SPANS = trace(
    [
        step("I look.", call("get_order", "shipped", order_id="1")),
        step("I pay back.", call("refund_order", "done", order_id="1")),
        "Done.",
    ]
).spans
NO_TIME = tuple(structs.replace(span, start_ns=None, end_ns=None) for span in SPANS)


def empty() -> Store:
    return Store.open(":memory:", migrations)


def put(
    store: Store,
    task: str | None,
    *said: Finding,
    status: str = "failed",
    day: int | None = 0,
    **more: Any,
) -> str:
    """A run with what rules suggest of it; `day` counts from that Monday, None has no time."""
    head = Header(
        format="built",
        source_id=f"{task}/{more}/{day}/{status}/{len(said)}",
        task=task,
        outcome=Outcome(status=status),  # type: ignore[arg-type]
        start_ns=None if day is None else MONDAY_NS + day * DAY_NS,
        **more,
    )
    writer = Writer(store)
    spans = SPANS if day is not None else NO_TIME
    key = writer.finish(writer.write(Batch(header=head, spans=spans, last=True))).id
    diagnoses.keep(
        store, Diagnosis(trace=key, shape=None, scores=(), findings=said, candidates=()), {}
    )
    return key


def put_again(store: Store, task: str) -> tuple[str, str]:
    """A failed run whose first recording lacks the first step: (it, the whole one)."""
    keys = []
    for kind, spans in (("built", [SPANS[0], *SPANS[3:]]), ("again", SPANS)):
        head = Header(format=kind, source_id=task, task=task, outcome=Outcome(status="failed"))
        writer = Writer(store)
        batch = Batch(header=head, spans=tuple(spans), last=True)
        keys.append(writer.finish(writer.write(batch)).id)
    return keys[0], keys[1]


def found(
    failure: FailureClass,
    step: int = 0,
    attribution: Attribution | None = None,
    sub: str | None = None,
) -> Finding:
    return Finding(
        failure=failure,
        step=step,
        why=f"{failure} at {step}",
        rule="a rule",
        attribution=attribution,
        sub=sub,
    )


def tag(
    store: Store,
    trace: str,
    failure: FailureClass,
    step: int = 0,
    by: str = "ann",
    attribution: Attribution | None = None,
) -> None:
    span = f"human-{step}"
    put_tag(
        store,
        Tag(trace=trace, span=span, step=step, failure=failure, by=by, attribution=attribution),
    )


LOOP, BAD, WRONG = FailureClass.LOOP, FailureClass.BAD_ARGS, FailureClass.WRONG_TOOL
GAVE_UP, OTHER = FailureClass.GAVE_UP, FailureClass.OTHER
