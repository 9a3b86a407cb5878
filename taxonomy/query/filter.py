"""Which runs are meant? One value that lists, counts and figures take: a condition in SQL.

Whatever a person may ask for (words, fields, tags, a free text) is made into a `Filter` by
`compile`, its values bound and never written into the condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct


class Filter(Struct, frozen=True):
    """A condition on a row of the view `runs`, and a value for each of its question marks.

    `recorded` says that it asks for columns of `trace_summary` alone: sums are faster then.
    """

    sql: str = "1"
    values: tuple[str | int | float | None, ...] = ()
    recorded: bool = False

    def __and__(self, other: Filter) -> Filter:
        if self == ALL:
            return other
        if other == ALL:
            return self
        return Filter(
            f"({self.sql}) AND ({other.sql})",
            (*self.values, *other.values),
            self.recorded and other.recorded,
        )


ALL = Filter(recorded=True)
"""Every run."""


def among(names: Iterable[str]) -> str:
    """Names as the one value that `json_each` reads them from."""
    return msgspec.json.encode(sorted(names)).decode()


def of_traces(traces: Iterable[str]) -> Filter:
    """The runs with these recordings."""
    return Filter("trace IN (SELECT value FROM json_each(?))", (among(traces),), True)


def without_tasks(tasks: Collection[str]) -> Filter:
    """All runs but those of some tasks; a run without a task is none of them."""
    if not tasks:
        return ALL
    named = "(task IS NULL OR task NOT IN (SELECT value FROM json_each(?)))"
    return Filter(named, (among(tasks),), recorded=True)
