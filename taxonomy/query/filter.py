"""Which runs are meant? One value that lists, counts and figures take: a condition in SQL.

Whatever a person may ask for (words, fields, tags, a free text) is made into a `Filter` by
`compile`, its values bound and never written into the condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec import Struct, structs

from replay.store.handle import Store


class Filter(Struct, frozen=True):
    """A condition on a row of the view `runs`, and a value for each of its question marks.

    `recorded` says that it asks for columns of `trace_summary` alone: sums are faster then. `few`
    runs are named by it one by one: to look these up takes less than to walk a list.
    """

    sql: str = "1"
    values: tuple[str | int | float | None, ...] = ()
    recorded: bool = False
    few: bool = False

    def __and__(self, other: Filter) -> Filter:
        if self == ALL:
            return other
        if other == ALL:
            return self
        return Filter(
            f"({self.sql}) AND ({other.sql})",
            (*self.values, *other.values),
            self.recorded and other.recorded,
            self.few or other.few,
        )


ALL = Filter(recorded=True)
"""Every run."""


def among(names: Iterable[str]) -> str:
    """Names as the one value that `json_each` reads them from."""
    return msgspec.json.encode(sorted(names)).decode()


def of_traces(traces: Iterable[str]) -> Filter:
    """The runs with these recordings."""
    keys = frozenset(traces)
    return structs.replace(of_values("trace", keys), few=len(keys) <= FEW)


def without_tasks(tasks: Collection[str]) -> Filter:
    """All runs but those of some tasks; a run without a task is none of them."""
    if not tasks:
        return ALL
    named = "(task IS NULL OR task NOT IN (SELECT value FROM json_each(?)))"
    return Filter(named, (among(tasks),), recorded=True)


FEW = 2_000
"""What at most so many rows say is looked up once, and the runs that they say it of are named."""


def few(store: Store, selects: Iterable[Filter]) -> frozenset[str | int] | None:
    """What is in the one column of all these questions, None where they find more than `FEW`."""
    found: list[str | int] = []
    for each in selects:
        limit = FEW + 1 - len(found)
        rows = store.db.execute(f"SELECT * FROM ({each.sql}) LIMIT {limit}", list(each.values))
        found += [row[0] for row in rows]
        if len(found) > FEW:
            return None
    return frozenset(found)


def of_values(column: str, values: Collection[str | int]) -> Filter:
    """The few runs whose `column` is one of these values."""
    one = f"{column} IN (SELECT value FROM json_each(?))"
    return Filter(one, (msgspec.json.encode(sorted(values)).decode(),), recorded=True, few=True)


def found_in(
    store: Store, column: str, selects: Sequence[Filter], *, of_each: Filter | None
) -> Filter:
    """The runs whose `column` is among what these questions find.

    `of_each` asks the same of one run: where many are found it is asked of each run of a list until
    its page is full. Without it all that are found are looked up: sooner where all of the list is
    wanted.
    """
    found = few(store, selects)
    if found is not None:
        return of_values(column, found)
    if of_each is not None:
        return of_each
    # By the sign a list is walked in its order: to sort the runs of a common word takes longer.
    sql = " UNION ALL ".join(each.sql for each in selects)
    values = tuple(value for each in selects for value in each.values)
    return Filter(f"+{column} IN ({sql})", values, recorded=True)


PREFERRED = (
    "(SELECT {} FROM (SELECT id, key, run AS its FROM trace WHERE preferred) WHERE its = run)"
)
"""The `id` or the `key` of the recording of a run that lists show."""
