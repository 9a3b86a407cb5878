"""Two variants of an agent on the same tasks that differ at one layer of the eval pyramid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replay.trace import Trace
from tests.arc_tui.gate_case import Counts, put_runs
from tests.build import call, step, tool, trace

TASKS = 48
GOLD = {"actions": [{"name": "get_order", "arguments": {"id": 7}}]}


def run(order: int = 7, says: str = "Order 7 is on its way.", description: str = "Reads.") -> Trace:
    """It looks an order up and says what came of it."""
    result = f"Order {order} is on its way."
    return trace(
        [step("I look.", call("get_order", result, id=order)), says],
        task="Where is order 7?",
        system="You help.",
        tools=[tool("get_order", description, id={"type": "integer"})],
    )


def put_pyramid(
    path: Path, new: Trace | None = None, *, lost: int = 0, tasks: int = TASKS, **more: Any
) -> Path:
    """`old` passes every task; `new` is recorded as given, and fails the first `lost` of them."""
    names = [f"task {at:02}" for at in range(tasks)]
    passed: Counts = dict.fromkeys(names, (1, 0))
    failed: Counts = dict.fromkeys(names[:lost], (0, 1))
    put_runs(path, "old", passed, recorded=run().spans, reference=GOLD, **more)
    put_runs(
        path, "new", {**passed, **failed}, recorded=(new or run()).spans, reference=GOLD, **more
    )
    return path
