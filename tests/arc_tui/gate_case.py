"""Runs of two variants of an agent on the same tasks, so many of which passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from replay.store.write import Writer
from replay.trace import AnySpan, Batch, Cost, Header, ModelCall, Outcome
from taxonomy.judgements.schema import open_ledger
from tests.blank import put_ledger
from tests.build import trace

Counts: TypeAlias = Mapping[Any, tuple[int, ...]]
"""By task, None for none: how many runs passed, how many failed, and how many have no outcome."""

SPANS = trace(["Done."], task="Do it.").spans

WORSE: Counts = {f"task {at:02}": (2, 2) for at in range(12)}
SAME: Counts = {f"task {at:02}": (4, 0) for at in range(12)}


def put_runs(
    path: Path,
    variant: str,
    counts: Counts,
    *,
    usd: float | None = None,
    by: str = "checker",
    recorded: Sequence[AnySpan] = SPANS,
    **more: Any,
) -> None:
    """Runs of a variant, all of them `recorded` alike; each costs `usd`, where that is given."""
    put_ledger(path)
    cost = None if usd is None else Cost(usd=usd, source="recorded")
    spans = tuple(
        structs.replace(span, cost=cost) if isinstance(span, ModelCall) else span
        for span in recorded
    )
    with open_ledger(path) as store:
        writer = Writer(store)
        for task, numbers in counts.items():
            statuses = [
                status
                for status, many in zip(("passed", "failed", "unknown"), numbers, strict=False)
                for _ in range(many)
            ]
            for trial, status in enumerate(statuses):
                outcome = Outcome() if status == "unknown" else Outcome(
                    status=status, value=float(status == "passed"), by=by  # type: ignore[arg-type]
                )  # fmt: skip
                header = Header(
                    format="built",
                    source_id=f"{variant}/{task}/{trial}",
                    task=task,
                    trial=str(trial),
                    variant=variant,
                    outcome=outcome,
                    **more,
                )
                batch = Batch(header=header, spans=spans, last=True)
                writer.finish(writer.write(batch))


def put_both(path: Path, before: Counts = SAME, after: Counts = WORSE, **more: Any) -> Path:
    """A database with a baseline `old` and a candidate `new`: made once, then copied."""
    key = repr((before, after, more))
    if key not in _made:
        put_runs(path, "old", before, **more)
        put_runs(path, "new", after, **more)
        _made[key] = path.read_bytes()
    path.write_bytes(_made[key])
    return path


_made: dict[str, bytes] = {}
