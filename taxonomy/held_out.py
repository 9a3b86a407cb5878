"""Tasks that are kept out of sight while anything is fitted to the others.

Chosen once (`grounding.held_out`), by name, and remembered: a task that has been looked at is no
held-out task any more, so what is held stays held, and tasks that come later only fill the
share. By name, because a prompt tuned on a task of one source is tuned on it wherever else it is
recorded.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from replay.store import answers
from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow

Row = TypeVar("Row", bound=TraceRow)

_NOTE = "held out"


class HeldOutSet(Struct, frozen=True, kw_only=True):
    """The tasks held out: for each its stratum, and since when (ns since the epoch)."""

    strata: dict[str, str] = {}
    since_ns: dict[str, int] = {}

    @property
    def tasks(self) -> frozenset[str]:
        return frozenset(self.strata)

    @property
    def since(self) -> datetime.date | None:
        """The day the first of them was held out, None where none is."""
        first = min(self.since_ns.values(), default=None)
        if first is None:
            return None
        return datetime.datetime.fromtimestamp(first / 1e9, datetime.UTC).date()


class HeldOutNote(Struct, frozen=True, kw_only=True):
    """The tasks held out and how many runs they have; `shown`: these are not left out."""

    tasks: frozenset[str] = frozenset()
    runs: int = 0
    shown: bool = False

    @property
    def hidden(self) -> frozenset[str]:
        """The tasks whose runs are to be left out."""
        return frozenset() if self.shown else self.tasks


def held(store: Store) -> HeldOutSet:
    """What is held out; empty where nothing is."""
    return next(iter(answers.found(store, _NOTE, HeldOutSet)), HeldOutSet())


def hidden(store: Store) -> frozenset[str]:
    """The names of the tasks held out: lists and everything that is fitted leave them out."""
    return held(store).tasks


def hold(store: Store, rows: Iterable[TraceRow]) -> HeldOutSet:
    """Hold out a fifth of the tasks of these runs, spread over their strata, and remember it.

    What was held out before stays so, whether these runs have it or not.
    """
    from taxonomy.metrics.grounding import held_out

    before = held(store)
    known = strata(rows)
    chosen = held_out({**before.strata, **known}, already=before.tasks)
    now = now_ns()
    after = HeldOutSet(
        strata={task: known.get(task, before.strata.get(task, "")) for task in sorted(chosen)},
        since_ns={task: before.since_ns.get(task, now) for task in sorted(chosen)},
    )
    answers.keep(store, _NOTE, after)
    return after


def release(store: Store) -> None:
    """Hold out nothing any more."""
    answers.keep(store, _NOTE, HeldOutSet())


def parted(rows: Sequence[Row], tasks: frozenset[str]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """(the runs to be seen, those of the tasks held out)."""
    shown = tuple(row for row in rows if row.task not in tasks)
    return shown, tuple(row for row in rows if row.task in tasks)


def strata(rows: Iterable[TraceRow]) -> dict[str, str]:
    """Type and difficulty of each task in one word, "" where no run of it says either."""
    found: dict[str, str] = {}
    for row in rows:
        if row.task is not None:
            labels = msgspec.json.decode(row.labels, type=dict[str, str])
            found[row.task] = found.get(row.task) or stratum_of(labels)
    return found


def stratum_of(labels: Mapping[str, str]) -> str:
    """The labels `task_type` and `difficulty`, "" where there is neither."""
    return " · ".join(filter(None, map(labels.get, ("task_type", "difficulty"))))
