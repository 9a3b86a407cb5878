"""Do a person, the judge and the rules name the same failure of a run, at the same step?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store.handle import Store
from taxonomy.classes import FailureClass
from taxonomy.findings import Source
from taxonomy.judgements.tags import TagRow
from taxonomy.metrics.agreement import Confusion, Estimate, confusion, kappa
from taxonomy.query.failures import NONE, rows_beside_rules
from taxonomy.query.filter import ALL, Filter

SOURCES: tuple[Source, ...] = ("human", "judge", "rule")


class Differ(Struct, frozen=True, kw_only=True):
    """Two classes named for the same runs, the first source's first; `traces` are those runs."""

    first: FailureClass
    second: FailureClass
    traces: tuple[str, ...]


class SourcesAgree(Struct, frozen=True, kw_only=True):
    """Two sources over the runs of which both said something.

    `same` is the share of runs with the same class, `step` the share with the same step, `kappa`
    Cohen's over the classes. The confusion has `first` in its rows; `differ` are the pairs of
    classes that are not the same, the most frequent first.
    """

    first: Source
    second: Source
    same: Rate
    step: Rate
    kappa: Estimate
    confusion: Confusion
    differ: tuple[Differ, ...]


def sources_agree(
    store: Store, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> tuple[SourcesAgree, ...]:
    """Each pair of sources over the `chosen` runs, passed ones too, those of the tasks `without`
    left out."""
    return compare(rows_beside_rules(store, without=without, chosen=chosen))


def compare(rows: Sequence[TagRow]) -> tuple[SourcesAgree, ...]:
    """Each pair of sources; one without a run in common has n = 0."""
    words = {source: _words(rows, source) for source in SOURCES}
    return tuple(
        _pair(one, other, words[one], words[other]) for one, other in combinations(SOURCES, 2)
    )


def _words(rows: Sequence[TagRow], source: Source) -> dict[str, TagRow]:
    """The word of a source for each run, by its trace."""
    found: dict[str, TagRow] = {}
    for row in rows:
        held = found.get(row.trace)
        if row.source == source and (held is None or _place(row) < _place(held)):
            found[row.trace] = row
    return found


def _place(row: TagRow) -> tuple[int, bool, str, str]:
    """A tag goes before a suggestion for the same step."""
    return row.step, not row.accepted, row.failure, row.by


def _pair(
    one: Source, other: Source, first: dict[str, TagRow], second: dict[str, TagRow]
) -> SourcesAgree:
    both = sorted(first.keys() & second.keys())
    pairs = [(first[trace].failure, second[trace].failure) for trace in both]
    same_recording = [t for t in both if first[t].recording == second[t].recording]
    unlike: dict[tuple[FailureClass, FailureClass], list[str]] = {}
    for trace, pair in zip(both, pairs, strict=True):
        if pair[0] is not pair[1]:
            unlike.setdefault(pair, []).append(trace)
    return SourcesAgree(
        first=one,
        second=other,
        same=rate(sum(a is b for a, b in pairs), len(pairs)),
        step=rate(
            sum(first[each].step == second[each].step for each in same_recording),
            len(same_recording),
        ),
        kappa=kappa(pairs),
        confusion=confusion(
            [(a.value, b.value) for a, b in pairs],
            _named([a for a, _ in pairs]),
            _named([b for _, b in pairs]),
        ),
        differ=tuple(
            Differ(first=pair[0], second=pair[1], traces=tuple(traces))
            for pair, traces in sorted(unlike.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
    )


def _named(said: Sequence[FailureClass]) -> tuple[str, ...]:
    """The classes that were said, in the order of the table of classes."""
    return tuple(each.value for each in FailureClass if each in said)
