"""Which request was a stored answer to? Asked before the content changes, and again after.

The key of an answer is a hash, and tells nothing of its request. But whatever a replay, a try or a
bisection asked of a recorded step can be asked again: as it was recorded, under each kept edit and
under prompts that are given. A request whose key is there before has another key after, and its
answers get it. Answers to other requests (of judges; of runs that left the road and were not kept)
cannot be told, and keep the key they have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from replay.convert import Sent
from replay.edit import Edit
from replay.errors import BadEdit
from replay.locked.sampling import RANGE
from replay.plan import Plan, plans
from replay.store import Store, read
from replay.store.scrub.moved import move
from replay.trace import Trace

Edits = Mapping[str, Edit | None]
"""By a name that stays while digests move: the edits under which a step may have been asked."""


class _Place(NamedTuple):
    """One request of a trace under an edit, by one model."""

    step: int
    side: str


def before(store: Store, traces: Iterable[str], edits: Callable[[str], Edits]) -> None:
    """Note which stored answers were to which requests of these traces."""
    db = store.db
    ranges = _ranges(db)
    for key in traces:
        trace = read.load(store, key)
        for name, edit in edits(key).items():
            for model, samples in ranges.items():
                for place, sent in _sent(trace, edit, model):
                    found = _stored(db, sent, samples)
                    rows = ((was, key, name, model, *place, sample) for was, sample in found)
                    db.executemany("INSERT INTO asked VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def after(store: Store, edits: Edits) -> None:
    """Give those answers the keys that the same requests have now.

    Where the same request was answered under both keys, the answer stays that was there.
    """
    db = store.db
    asked = db.execute(
        "SELECT trace, edit, model FROM asked GROUP BY 1, 2, 3 ORDER BY min(rowid)"
    ).fetchall()
    latest: Trace | None = None
    for key, name, model in asked:
        if latest is None or latest.id != key:
            latest = read.load(store, key)
        sent = dict(_sent(latest, edits[name], model))
        of = db.execute(
            "SELECT key, step, side, sample FROM asked WHERE trace = ? AND edit = ? AND model = ?",
            (key, name, model),
        )
        for was, step, side, sample in of.fetchall():
            request = sent.get(_Place(step, side))
            if request is not None:
                rekey(db, was, request.key(sample))


def rekey(db: sqlite3.Connection, was: str, now: str) -> None:
    """An answer's request has another key now; the first word on it counts."""
    if was == now:
        return
    known = db.execute(
        "SELECT 1 FROM moved_digest WHERE was = ?", (was.rpartition(":")[2],)
    ).fetchone()
    if known is None:
        move(db, was, now)
        db.execute("UPDATE OR IGNORE answer SET key = ? WHERE key = ?", (now, was))
        db.execute("DELETE FROM answer WHERE key = ?", (was,))


def _ranges(db: sqlite3.Connection) -> dict[str, dict[int, list[int]]]:
    """By model, the numbers of its samples by their range."""
    found: dict[str, dict[int, list[int]]] = {}
    sql = "SELECT DISTINCT model, sample FROM answer ORDER BY model, sample"
    for model, sample in db.execute(sql):
        found.setdefault(model, {}).setdefault(sample // RANGE, []).append(sample)
    return found


def _stored(
    db: sqlite3.Connection, sent: Sent, samples: dict[int, list[int]]
) -> Iterator[tuple[str, int]]:
    """(key, sample) of the stored answers to a request. A range is begun with its first sample or
    not at all."""
    for numbers in samples.values():
        for sample in numbers:
            key = sent.key(sample)
            if db.execute("SELECT 1 FROM answer WHERE key = ?", (key,)).fetchone() is not None:
                yield key, sample
            elif sample % RANGE == 0:
                break


def _sent(trace: Trace, edit: Edit | None, model: str) -> Iterator[tuple[_Place, Sent]]:
    """Every request of a trace under an edit, with its place."""
    for plan in _plans(trace, edit, model):
        if edit is None:
            yield _Place(plan.step.index, "control"), plan.control.sent
        elif plan.edited is not plan.control:
            yield _Place(plan.step.index, "edited"), plan.edited.sent


def _plans(trace: Trace, edit: Edit | None, model: str) -> Iterator[Plan]:
    """What can be planned: an edit that one step does not take may have been tried on another."""
    try:
        yield from plans(trace, edit, model, None)
    except BadEdit:
        for step in trace.steps:
            with suppress(BadEdit):
                yield from plans(trace, edit, model, {step.index})
