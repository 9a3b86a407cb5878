"""Two groups of runs: how their environments differ, what is known of them, how often they passed
in equal and in unequal environments, and what locked replays say of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from replay import kept
from replay.compare.actions import compare as compare_actions
from replay.locked.tally import same_model
from replay.pins import Environment
from replay.statistics import Rate, clustered, rate
from replay.store.environments import environments, tool_definitions
from replay.store.handle import Store
from replay.trace import Tool
from taxonomy.environment.differences import (
    RESULTS,
    Difference,
    Differences,
    Facts,
    Known,
    compare,
    read_facts,
)
from taxonomy.environment.schemas import SchemaChange, schema_changes
from taxonomy.metrics.grounding import gap_between
from taxonomy.query.listing import RunRow


class Passes(Struct, frozen=True, kw_only=True):
    """How often the runs of both groups passed, of those with an outcome: intervals mind that runs
    come in tasks. `change` is the second rate minus the first with its 95 % interval (Newcombe),
    None where either group has no outcome."""

    first: Rate
    second: Rate
    change: tuple[float, float, float] | None


class Probe(Struct, frozen=True, kw_only=True):
    """Recorded requests of a group, sent again unchanged in locked replays by the recorded model:
    `diverge` is how often the answers act unlike the recording, of those that can be compared;
    `noise` how often two answers to one request act unlike each other. `runs` were replayed, the
    last at `last_ns`."""

    runs: int
    diverge: Rate
    noise: Rate
    last_ns: int | None


class Definition(Struct, frozen=True, kw_only=True):
    """What changed in the definition of a tool that both groups offer."""

    tool: str
    changes: tuple[SchemaChange, ...]


class EnvironmentDrift(Struct, frozen=True, kw_only=True):
    """All that is known. `recorded` says of each part in how many runs of either group it is
    recorded; `traces` are the runs of each; `equal` and `unequal` are runs whose environment, as
    far as it is recorded, is or is not that of a run of the other group; `unknown` runs record
    none."""

    runs: tuple[int, int]
    traces: tuple[tuple[str, ...], tuple[str, ...]]
    found: Differences
    definitions: tuple[Definition, ...]
    recorded: dict[str, tuple[int, int]]
    every: Passes
    equal: Passes
    unequal: Passes
    in_equal: tuple[int, int]
    in_unequal: tuple[int, int]
    unknown: tuple[int, int]
    probes: tuple[Probe, Probe]


class _Group(NamedTuple):
    rows: Sequence[RunRow]
    facts: Sequence[Facts]
    found: Mapping[str, tuple[str, Environment]]


def read_drift(store: Store, first: Sequence[RunRow], second: Sequence[RunRow]) -> EnvironmentDrift:
    """How the environments of these runs differ."""
    groups = [_group(store, rows) for rows in (first, second)]
    one, two = groups
    found = compare(one.facts, two.facts)
    sides = _sides(found.held, groups)
    return EnvironmentDrift(
        runs=(len(first), len(second)),
        traces=(tuple(row.trace for row in first), tuple(row.trace for row in second)),
        found=found,
        definitions=tuple(_definitions(store, found)),
        recorded=_count_recorded(groups),
        every=_passes(first, second),
        equal=_passes(*(side["equal"] for side in sides)),
        unequal=_passes(*(side["unequal"] for side in sides)),
        in_equal=(len(sides[0]["equal"]), len(sides[1]["equal"])),
        in_unequal=(len(sides[0]["unequal"]), len(sides[1]["unequal"])),
        unknown=(len(sides[0]["unknown"]), len(sides[1]["unknown"])),
        probes=(_probe(store, one), _probe(store, two)),
    )


def read_facts_of(store: Store, rows: Sequence[RunRow]) -> Sequence[Facts]:
    """What is known of the environment of each of these runs."""
    return _group(store, rows).facts


def _group(store: Store, rows: Sequence[RunRow]) -> _Group:
    found = environments(store.db, [row.trace for row in rows])
    facts = [
        read_facts(
            row.trace,
            row.task,
            msgspec.json.decode(row.labels, type=dict[str, str]),
            found[row.trace][1] if row.trace in found else None,
        )
        for row in rows
    ]
    return _Group(rows, facts, found)


PARTS = {
    "tools": "tool", "definitions of tools": "definition", "answering models": "model",
    "keys of results": "path", "versions": "version", "pins": "pin",
}  # fmt: skip
"""What may be recorded, and what shows that it is."""


def _count_recorded(groups: Sequence[_Group]) -> dict[str, tuple[int, int]]:
    def count(group: _Group, kind: str) -> int:
        return sum(any(place.kind == kind for place in run.known) for run in group.facts)

    return {name: (count(groups[0], kind), count(groups[1], kind)) for name, kind in PARTS.items()}


# --- definitions of tools


def _definitions(store: Store, found: Differences) -> Iterator[Definition]:
    """Of each tool whose definition differs, the change from the definition that most runs of the
    first group had to that of the second."""
    changed = [each for each in (*found.held, *found.seen) if each.item.kind == "definition"]
    digests: dict[str, tuple[list[Difference], list[Difference]]] = {}
    for each in changed:
        digests.setdefault(each.item.known.of, ([], []))[each.came].append(each)
    known = tool_definitions(store.db, {each.item.value for each in changed})
    for tool, (gone, came) in sorted(digests.items()):
        before = _most(gone, known)
        after = _most(came, known)
        if before is not None and after is not None:
            yield Definition(tool=tool, changes=schema_changes(before, after))


def _most(found: Iterable[Difference], known: Mapping[str, Tool]) -> Tool | None:
    ordered = sorted(found, key=lambda each: -max(each.first.hits, each.second.hits))
    return next((known[each.item.value] for each in ordered if each.item.value in known), None)


# --- pass rates


def _sides(
    held: Iterable[Difference], groups: Sequence[_Group]
) -> tuple[dict[str, list[RunRow]], dict[str, list[RunRow]]]:
    """The runs of each group, by whether their environment is one of the other group's."""
    shapes = {each.item.known for each in held if each.item.kind in RESULTS}
    keys = [[_key(run, shapes) for run in group.facts] for group in groups]
    made: list[dict[str, list[RunRow]]] = []
    for at, group in enumerate(groups):
        others = {*keys[1 - at]}
        side: dict[str, list[RunRow]] = {"equal": [], "unequal": [], "unknown": []}
        for row, key in zip(group.rows, keys[at], strict=True):
            name = "unknown" if key is None else "equal" if key in others else "unequal"
            side[name].append(row)
        made.append(side)
    return made[0], made[1]


def _key(run: Facts, shapes: Collection[Known]) -> frozenset[object] | None:
    """What tells the environment of a run from others: all facts, and those results whose shape
    was found to differ. None where nothing is recorded."""
    if not any(place.kind not in RESULTS for place in run.known):
        shown = [place for place in run.known if place in shapes]
        if not shown:
            return None
    return frozenset(
        each for each in run.has if each.kind not in RESULTS or each.known in shapes
    ) | frozenset(place for place in run.known if place.kind not in RESULTS)


def _passes(first: Sequence[RunRow], second: Sequence[RunRow]) -> Passes:
    one, two = _rate(first), _rate(second)
    return Passes(first=one, second=two, change=gap_between(two, one))


def _rate(rows: Sequence[RunRow]) -> Rate:
    return clustered(
        (row.task if row.task is not None else f"\0{row.trace}", row.outcome == "passed")
        for row in rows
        if row.outcome != "unknown"
    ).rate


# --- the model


def _probe(store: Store, group: _Group) -> Probe:
    """What the control arms of kept locked replays of these runs say, each answer once."""
    seen: set[tuple[str, int, str]] = set()
    diverge = decided = apart = pairs = 0
    runs: set[str] = set()
    last: int | None = None
    for ran_ns, core in kept.controls(store, [row.trace for row in group.rows]):
        recorded = group.found.get(core.trace)
        models = (*recorded[1].models, *recorded[1].asked) if recorded is not None else ()
        if not any(same_model(core.model, each) for each in models):
            continue
        for row in core.rows:
            fresh = [a for a in row.control if (core.trace, row.step, a.key) not in seen]
            seen.update((core.trace, row.step, answer.key) for answer in fresh)
            told = [answer for answer in fresh if answer.same is not None]
            decided += len(told)
            diverge += sum(answer.same is False for answer in told)
            for other in fresh[1:]:
                same = compare_actions(fresh[0].action, other.action).same
                pairs += same is not None
                apart += same is False
            if fresh:
                runs.add(core.trace)
                last = max(last or 0, ran_ns)
    return Probe(
        runs=len(runs), diverge=rate(diverge, decided), noise=rate(apart, pairs), last_ns=last
    )
