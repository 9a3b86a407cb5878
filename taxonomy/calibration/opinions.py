"""What does a person say of a step beside a tag? A score, answers to rubric items, a note.

One opinion a person and step. It stands in the ledger's table of scores, its answers and its note
as items; `value` is None where a person answered items and gave no score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from replay.store import Store
from taxonomy.findings import Item
from taxonomy.ledger import NOTE

_KEY = ("trace", "step", "source", "by")


class Opinion(Struct, frozen=True, kw_only=True):
    """A person's score 0..1 of a step, which items held, and a note; each may be missing."""

    trace: str
    span: str
    step: int
    by: str
    value: float | None = None
    items: dict[str, bool] = {}
    note: str | None = None

    @property
    def empty(self) -> bool:
        """Does it say nothing of the step?"""
        return self.value is None and not self.items


def give(store: Store, given: Opinion) -> None:
    """Keep an opinion, in place of the one the same person gave of the step before."""
    note = store.redactor.text(given.note) if given.note else None
    items = [Item(name=name, held=held) for name, held in given.items.items()]
    if note:
        items.append(Item(name=NOTE, held=None, because=note))
    row = {
        "trace": given.trace,
        "span": given.span,
        "step": given.step,
        "value": given.value,
        "source": "human",
        "by": given.by,
        "items": msgspec.json.encode(items).decode(),
    }
    with store.writing():
        store.db.table("score", pk=_KEY).insert_all([row], replace=True)


def opinion(store: Store, trace: str, step: int, by: str) -> Opinion | None:
    """What a person said of a step, None where nothing."""
    where = "source = 'human' AND trace = ? AND step = ? AND by = ?"
    rows = store.db.table("score").rows_where(where, [trace, step, by])
    return next(map(_opinion, rows), None)


def opinions(store: Store) -> Iterator[Opinion]:
    """What everyone said, by trace, step and person."""
    rows = store.db.table("score").rows_where("source = 'human'", order_by="trace, step, by")
    return map(_opinion, rows)


def _opinion(row: Mapping[str, Any]) -> Opinion:
    items = msgspec.json.decode(row["items"], type=tuple[Item, ...])
    return Opinion(
        trace=row["trace"],
        span=row["span"],
        step=row["step"],
        by=row["by"],
        value=row["value"],
        items={item.name: item.held for item in items if item.held is not None},
        note=next((item.because for item in items if item.name == NOTE), None),
    )
