"""Which runs are meant? One value that lists, counts and figures take: a condition in SQL.

Whatever a person may ask for (words, fields, tags, a free text) is made into a `Filter`, its values
bound and never written into the condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct

from replay.store import Store
from replay.store.search import traces_saying


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


def saying(store: Store, text: str) -> Filter:
    """The runs that say a text, somewhere in what was said, called or returned."""
    return of_traces(traces_saying(store, text))


SEARCHED = ("title", "task", "trial", "variant", "agent", "models", "outcome", "why", "source_id",
            "format", "path", "shape")  # fmt: skip
"""The columns that a plain word is looked for in."""


def worded(words: str) -> Filter:
    """The runs in whose row all words occur, case aside.

    `field:text` asks one column; a word may also be the beginning of the trace's id. SQLite knows
    the case of ASCII letters alone: a word with others chooses every run, to be looked at again.
    """
    found = ALL
    for word in filter(str.isascii, words.split()):
        field, _, text = word.partition(":")
        if text and field.lower() in SEARCHED:
            found &= Filter(f"{field.lower()} LIKE ? ESCAPE '\\'", (_like(text),))
        else:
            found &= Filter(
                f"({_ANYWHERE} OR substr(trace, 1, ?) = ?)",
                (*[_like(word)] * len(SEARCHED), len(word), word.lower()),
            )
    return found


_ANYWHERE = " OR ".join(f"{name} LIKE ? ESCAPE '\\'" for name in SEARCHED)
"""Column by column: to join their texts first takes twice the time."""


def _like(text: str) -> str:
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return f"%{text}%"
