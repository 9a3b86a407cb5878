"""Runs that are to go by a rule of retention: which do, what that takes, and doing it.

A run goes with all its recordings or stays with all of them. One that is live stays, and so does
one held out for a test unless it is meant; whatever else is to stay is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypedDict

from msgspec import Struct, structs

from arc_tui.views.pruning import PruneView, Staying, groups
from arc_tui.views.runs.view import run_rows
from replay.store import Store, prune
from replay.store.prune import Weight
from replay.store.rows import TraceRow, trace_rows
from taxonomy.ledger import pruned
from taxonomy.stats.holding import hidden

Rows = tuple[TraceRow, ...]
"""All recordings of a run."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Which runs are to go: those that the `query` means, begun before a moment.

    `keep` are words or queries: `failed`, `passed`, `tagged` (a person said something of it),
    `replayed` (something kept is of it), else as in a list. `sample` is the percentage of what
    would go that stays. With `answers`, stored answers go that no kept replay rests on.
    """

    query: str = ""
    before_ns: int | None = None
    keep: tuple[str, ...] = ()
    sample: float = 0.0
    even_people: bool = False
    answers: bool = False
    with_held_out: bool = False


class _Choice(Struct, frozen=True, kw_only=True):
    going: tuple[Rows, ...]
    staying: tuple[Staying, ...]

    @property
    def keys(self) -> list[str]:
        return [row.trace for rows in self.going for row in rows]


def foresee(store: Store, wanted: Wanted) -> PruneView:
    """What would go; changes nothing. Raises BadQuery."""
    choice = _choose(store, wanted)
    weight = prune.weigh(store, choice.keys, **_asked(wanted))
    return _view(store, wanted, choice, weight, pruned.said_of(store, choice.keys))


def carry_out(store: Store, wanted: Wanted) -> PruneView:
    """Remove it, then its bytes; an earlier pruning that was cut short is finished too.

    Raises BadQuery, and StoreBusy where another process is in the way.
    """
    before = _size(store)
    with prune.removing(store) as db:
        choice = _choose(store, wanted)  # again: what was foreseen may have been tagged since
        said = pruned.said_of(store, choice.keys)
        weight = prune.remove(db, choice.keys, **_asked(wanted))
        pruned.forget(store, choice.keys, even_people=wanted.even_people)
    erased = prune.unerased(store)
    if erased:
        prune.erase(store)
    view = _view(store, wanted, choice, weight, said)
    return structs.replace(
        view, done=True, file_bytes=before, file_bytes_after=_size(store), erased=erased
    )


class _Asked(TypedDict):
    unfinished_before_ns: int | None
    answers: bool


def _asked(wanted: Wanted) -> _Asked:
    # Without a limit of age nothing says that an import will not go on.
    return {"unfinished_before_ns": wanted.before_ns, "answers": wanted.answers}


def _view(
    store: Store, wanted: Wanted, choice: _Choice, weight: Weight, said: pruned.Said
) -> PruneView:
    by_import = (all(_start(row) is None for row in rows) for rows in choice.going)
    return PruneView(
        done=False,
        runs=len(choice.going),
        going=groups(choice.going),
        staying=choice.staying,
        by_import=sum(by_import) if wanted.before_ns is not None else 0,
        weight=weight,
        said=said,
        even_people=wanted.even_people,
        file_bytes=_size(store),
        copies=tuple(map(str, prune.copies_beside(store.path))),
    )


def _size(store: Store) -> int | None:
    """Of the file and its log; None in memory."""
    if store.path is None:
        return None
    log = store.path.with_name(store.path.name + "-wal")
    return store.path.stat().st_size + (log.stat().st_size if log.exists() else 0)


# --- which


def _choose(store: Store, wanted: Wanted) -> _Choice:
    meant = {row.run for row in run_rows(store, wanted.query)}
    runs: dict[str, list[TraceRow]] = {}
    for row in trace_rows(store, every=True):
        if row.run in meant:
            runs.setdefault(row.run, []).append(row)
    stays = _reasons(store, wanted)
    counts = dict.fromkeys((why for why, _ in stays), 0)
    going: list[Rows] = []
    for rows in map(tuple, runs.values()):
        why = next((why for why, stay in stays if stay(rows)), None)
        if why is None:
            going.append(rows)
        else:
            counts[why] += 1
    return _Choice(
        going=tuple(going),
        staying=tuple(Staying(why=why, runs=count) for why, count in counts.items() if count),
    )


Stays = Callable[[Rows], bool]


def _reasons(store: Store, wanted: Wanted) -> list[tuple[str, Stays]]:
    """Why a run stays, the first that holds is the one said."""
    held = frozenset[str]() if wanted.with_held_out else hidden(store)
    found: list[tuple[str, Stays]] = [
        ("live: more of it is expected", lambda rows: any(row.live for row in rows)),
        ("held out for a test", lambda rows: any(row.task in held for row in rows)),
    ]
    limit = wanted.before_ns
    if limit is not None:
        found.append(("younger", lambda rows: max(map(_moment, rows)) >= limit))
    found += [(f"kept: {word}", _kept(store, word)) for word in wanted.keep]
    if wanted.sample:
        share = f"in the sample of {wanted.sample:.3g} %"
        found.append((share, lambda rows: _sampled(rows, wanted.sample)))
    return found


def _kept(store: Store, word: str) -> Stays:
    """The runs that a word or a query keeps."""
    match word:
        case "failed" | "passed":
            return lambda rows: any(row.outcome == word for row in rows)
        case "tagged":
            keys = pruned.spoken_of(store)
        case "replayed":
            keys = prune.replayed(store)
        case _:
            keys = frozenset(row.trace for row in run_rows(store, word, every=True))
    return lambda rows: any(row.trace in keys for row in rows)


def _start(row: TraceRow) -> int | None:
    """When it began, as far as its source had a clock that was set."""
    return row.start_ns if row.start_ns is not None and row.start_ns > 0 else None


def _moment(row: TraceRow) -> int:
    start = _start(row)
    return row.imported_ns if start is None else start


def _sampled(rows: Rows, percent: float) -> bool:
    """Is the run of the share that stays? By its id alone: asked again, the same ones are."""
    digest = hashlib.sha256(b"arc db prune\0" + rows[0].run.encode()).digest()
    return int.from_bytes(digest[:8]) < percent / 100 * 2**64
