"""How SQLite goes about what is asked of it."""

from __future__ import annotations

from collections.abc import Callable

from replay.store.handle import Store


def planned(store: Store, *asked: Callable[[], object]) -> list[tuple[str, list[str]]]:
    """Each statement that is run, and how; without those of virtual tables about themselves."""
    statements: list[str] = []
    store.db.set_trace_callback(statements.append)
    for each in asked:
        each()
    store.db.set_trace_callback(None)
    return [
        (sql, [row[3] for row in store.db.execute(f"EXPLAIN QUERY PLAN {sql}")])
        for sql in statements
        if not sql.startswith("--")
    ]


def ways(store: Store, *asked: Callable[[], object]) -> list[str]:
    """The steps of all those plans."""
    return [step for _, plan in planned(store, *asked) for step in plan]
