"""Who scored which step, and what did they answer? People, judges, files, imports and rules, side
by side.

A person gives one opinion a step: a score, answers to rubric items, a note, each of which may be
missing. Answers and note are kept as items of the score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from replay.store.handle import Store
from taxonomy.findings import Item, StepScore

if TYPE_CHECKING:
    from replay.redact.redactor import Redactor

NOTE = "note"
"""The name of the item that holds a person's note; it decides nothing."""


def keep_scores(store: Store, trace: str, given: Iterable[StepScore]) -> None:
    """Keep scores, each in place of what the same source said of the same step before."""
    insert_scores(store, score_rows(store.redactor, trace, given))


def score_rows(
    redactor: Redactor, trace: str, given: Iterable[StepScore]
) -> tuple[tuple[Any, ...], ...]:
    """Scores as `insert_scores` takes them."""
    return tuple(
        (
            trace,
            score.span or "",
            score.step,
            score.value,
            score.source,
            score.by,
            redactor.encoded(score.items),
        )
        for score in given
    )


def insert_scores(store: Store, rows: Sequence[tuple[Any, ...]]) -> None:
    """Put rows of scores in place of those of the same source and step."""
    with store.writing() as db:
        db.executemany(
            "INSERT OR REPLACE INTO score (trace, span, step, value, source, by, items)"
            " VALUES (?,?,?,?,?,?,?)",
            rows,
        )


def replace_file_scores(store: Store, trace: str, by: str, given: Iterable[StepScore]) -> None:
    """Keep the scores of a trace that a file brings by one name, in place of those of that name.
    What the rules said of the trace ceases to count: it rested on other scores."""
    by = store.redactor.text(by)
    with store.writing() as db:
        db.execute("DELETE FROM score WHERE trace = ? AND by = ? AND source = 'file'", (trace, by))
        keep_scores(store, trace, (structs.replace(score, by=by) for score in given))
        db.execute("UPDATE diagnosis SET until_ns = 0 WHERE trace = ?", (trace,))


def all_scores(
    store: Store, trace: str, step: int | None = None, *, items: bool = True
) -> tuple[StepScore, ...]:
    """Every score of a trace, or of one of its steps, whoever gave it, by step; with what was
    answered to each of its `items` or, where only the values are wanted, without."""
    found = _found(store, "trace = ? AND step = coalesce(?, step)", (trace, step), items=items)
    return tuple(score for _, score in found)


def judge_sets(store: Store, trace: str) -> dict[str, int]:
    """How many steps of a trace each set of judge scores has."""
    found = store.db.execute(
        "SELECT by, count(*) FROM score WHERE trace = ? AND source = 'judge' GROUP BY by", (trace,)
    )
    return dict(found.fetchall())


def judge_scores(store: Store) -> list[tuple[str, StepScore]]:
    """Every score that a judge gave, with its trace, in the order in which they were kept."""
    return list(_found(store, "source = 'judge'", order="rowid"))


def _found(
    store: Store,
    where: str,
    values: tuple[object, ...] = (),
    order: str = "trace, step, source, by",
    *,
    items: bool = True,
) -> Iterator[tuple[str, StepScore]]:
    rows = store.db.execute(
        f"SELECT trace, step, value, source, by, span, {'items' if items else 'NULL'} FROM score"
        f" WHERE {where} ORDER BY {order}",
        values,
    )
    for trace, step, value, source, by, span, answered in rows.fetchall():
        yield (
            trace,
            StepScore(
                step=step,
                value=value,
                source=source,
                by=by,
                span=span or None,
                items=msgspec.json.decode(answered, type=tuple[Item, ...]) if answered else (),
            ),
        )


# --- what people say


class HumanScore(Struct, frozen=True, kw_only=True):
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


def give(store: Store, given: HumanScore) -> None:
    """Keep an opinion, in place of the one the same person gave of the step before."""
    note = store.redactor.text(given.note) if given.note else None
    items = [Item(name=name, held=held) for name, held in given.items.items()]
    if note:
        items.append(Item(name=NOTE, held=None, because=note))
    score = StepScore(
        step=given.step,
        value=given.value,
        source="human",
        by=given.by,
        span=given.span,
        items=tuple(items),
    )
    keep_scores(store, given.trace, [score])


def take_back(store: Store, trace: str, step: int, by: str) -> bool:
    """Take a person's opinion of a step back; was there one?"""
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM score WHERE trace = ? AND step = ? AND by = ? AND source = 'human'",
            (trace, step, by),
        )
    return done.rowcount > 0


def opinion(store: Store, trace: str, step: int, by: str) -> HumanScore | None:
    """What a person said of a step, None where nothing."""
    where = "source = 'human' AND trace = ? AND step = ? AND by = ?"
    return next((_opinion(*each) for each in _found(store, where, (trace, step, by))), None)


def last_opinion(store: Store, by: str) -> HumanScore | None:
    """What a person said last, of whichever step; None where they said nothing."""
    found = _found(store, "source = 'human' AND by = ?", (by,), "rowid DESC LIMIT 1")
    return next((_opinion(*each) for each in found), None)


def opinions(store: Store) -> tuple[HumanScore, ...]:
    """What everyone said, by trace, step and person."""
    return tuple(_opinion(*each) for each in _found(store, "source = 'human'"))


def _opinion(trace: str, said: StepScore) -> HumanScore:
    return HumanScore(
        trace=trace,
        span=said.span or "",
        step=said.step,
        by=said.by,
        value=said.value,
        items={item.name: item.held for item in said.items if item.held is not None},
        note=next((item.because for item in said.items if item.name == NOTE), None),
    )
