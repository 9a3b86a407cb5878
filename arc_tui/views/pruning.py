"""What a pruning takes and what it leaves: for `arc db prune`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replay.store.prune import Weight
from replay.store.rows import TraceRow
from taxonomy.ledger.pruned import Said

MOST_GROUPS = 12


class Going(Struct, frozen=True, kw_only=True):
    """The runs of one outcome and task that go, with all their recordings. `task` None: of all
    the tasks that are not named."""

    outcome: str
    task: str | None
    runs: int
    recordings: int
    spans: int


class Staying(Struct, frozen=True, kw_only=True):
    """How many runs stay, and why, in words."""

    why: str
    runs: int


class PruneView(Struct, frozen=True, kw_only=True):
    """A pruning. `done` False: nothing was changed yet.

    `by_import` counts runs among those going whose start is not known, judged by when they were
    imported. `said` is what is said of them, `even_people` that people's words go too. `copies`
    are files beside the database that may hold what goes. `erased`: old bytes were taken out of
    the file.
    """

    done: bool
    runs: int
    going: tuple[Going, ...]
    staying: tuple[Staying, ...]
    by_import: int
    weight: Weight
    said: Said
    even_people: bool
    file_bytes: int | None
    file_bytes_after: int | None = None
    copies: tuple[str, ...] = ()
    erased: bool = False


def groups(runs: Iterable[tuple[TraceRow, ...]]) -> tuple[Going, ...]:
    """The recordings of each run, counted by the outcome and task of the preferred one; the
    largest first, the small ones of an outcome together."""
    found: dict[tuple[str, str], list[tuple[TraceRow, ...]]] = {}
    for rows in runs:
        head = next((row for row in rows if row.preferred), rows[0])
        found.setdefault((head.outcome, head.task or head.title or ""), []).append(rows)
    order = sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))
    shown = [_going(*name, own) for name, own in order[:MOST_GROUPS]]
    rest: dict[str, list[tuple[TraceRow, ...]]] = {}
    for (outcome, _), own in order[MOST_GROUPS:]:
        rest.setdefault(outcome, []).extend(own)
    return (*shown, *(_going(outcome, None, own) for outcome, own in sorted(rest.items())))


def _going(outcome: str, task: str | None, runs: list[tuple[TraceRow, ...]]) -> Going:
    return Going(
        outcome=outcome,
        task=task,
        runs=len(runs),
        recordings=sum(map(len, runs)),
        spans=sum(row.spans for rows in runs for row in rows),
    )
