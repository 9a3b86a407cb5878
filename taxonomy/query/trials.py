"""Which other runs were there of the same task?"""

from __future__ import annotations

from replay.store import Store
from taxonomy.query.filter import Filter
from taxonomy.query.listing import RunRow, run_rows


def siblings(store: Store, of: RunRow) -> tuple[RunRow, ...]:
    """The other runs of a run's task, those that passed first, then those of its own variant.

    () where it names no task.
    """
    if of.task is None:
        return ()
    found = run_rows(store, Filter("task = ? AND run <> ?", (of.task, of.run), recorded=True))
    return tuple(
        sorted(
            found,
            key=lambda row: (row.outcome != "passed", row.variant != of.variant, row.trial or ""),
        )
    )
