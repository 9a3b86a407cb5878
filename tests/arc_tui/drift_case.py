"""Runs of two variants of a shop agent whose environment changed in known ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from replay.store.write import Writer
from replay.trace import AnySpan, Batch, Header, ModelCall, Outcome, Tool
from taxonomy.judgements.schema import open_ledger
from tests.build import call, step, trace

REFUND = Tool(name="refund_order", description="Pay an order back.", schema={"type": "object"})


def lookup(argument: str) -> Tool:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": "The order's number."}},
        "required": [argument],
    }
    return Tool(name="get_order", description="Look up an order.", schema=schema)


def spans_of(
    result: dict[str, Any], tools: tuple[Tool, ...] | None, model: str | None
) -> tuple[AnySpan, ...]:
    """A run that looks an order up and says what it found."""
    made = trace([step(call("get_order", result, order_id="1099")), "It is on its way."],
                 tools=tools)  # fmt: skip
    return tuple(
        structs.replace(
            span,
            request=structs.replace(span.request, model=model),
            response=structs.replace(span.response, model=model),
        )
        if isinstance(span, ModelCall)
        else span
        for span in made.spans
    )


OLD = spans_of({"id": "1099", "status": "sent"}, (lookup("order_id"), REFUND), "m-2026-01")
NEW = spans_of({"id": "1099", "state": "sent"}, (lookup("number"),), "m-2026-03")


def put_variant(
    path: Path,
    variant: str,
    spans: tuple[AnySpan, ...],
    *,
    tasks: int = 6,
    trials: int = 2,
    passed: int = 1,
    labels: dict[str, str] | None = None,
) -> Path:
    """So many trials of each task, of which `passed` passed."""
    with open_ledger(path) as store:
        writer = Writer(store)
        for task in range(tasks):
            for trial in range(trials):
                header = Header(
                    format="built",
                    source_id=f"{variant}/{task}/{trial}",
                    task=f"task {task}",
                    trial=str(trial),
                    variant=variant,
                    labels=labels or {},
                    outcome=Outcome(status="passed" if trial < passed else "failed", by="checker"),
                )
                writer.finish(writer.write(Batch(header=header, spans=spans, last=True)))
    return path


def put_drift(path: Path, **more: Any) -> Path:
    """Runs `old` and `new`, between which everything changed that can be seen."""
    before = {"version": "1.2", "pin.index": "docs-2026-01"}
    after = {"version": "1.3", "pin.index": "docs-2026-03"}
    put_variant(path, "old", OLD, labels=before, passed=2, **more)
    return put_variant(path, "new", NEW, labels=after, **more)
