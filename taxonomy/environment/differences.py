"""What of the environment is in the runs of one group and in none of the other?

Everything a run says of its environment is an item: a tool that was offered, its definition, a
model, a version, a pin, a key path of a tool's results. An item is reported where it is in most
runs of one group that could show it and in none of the other, and chance does not explain that:
the exact conditional test within tasks, at Tarone's level. Result shapes vary with the input, so
runs of one task are compared with each other; where the groups share hardly any task, each task
counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay.pins import PIN, Environment, is_version, parent_of
from replay.statistics import ALPHA, Table, all_on_one_side, tarone

Kind: TypeAlias = Literal["tool", "definition", "model", "asked", "version", "pin", "path", "type"]
"""`asked` is a model as it was asked for; `path` a key of a tool's results, `type` its type."""

RESULTS: frozenset[Kind] = frozenset({"path", "type"})
"""What varies with the input. All else is a fact of each run that records it."""

MOST = 0.5
"""An item that fewer runs of a group show says nothing of the group."""


class Known(NamedTuple):
    """What a run must record to show an item or its absence."""

    kind: Kind
    of: str = ""
    path: str = ""


class Item(NamedTuple):
    """Something a run has in its environment: `value` of what `known` names."""

    known: Known
    value: str

    @property
    def kind(self) -> Kind:
        return self.known.kind


class Facts(Struct, frozen=True, kw_only=True):
    """A run, and what its environment is known to be: `has` is what it has, of what is `known`."""

    trace: str
    task: str | None
    known: frozenset[Known]
    has: frozenset[Item]


TOOLS, MODELS, ASKED = Known("tool"), Known("model"), Known("asked")


def read_facts(
    trace: str, task: str | None, labels: Mapping[str, str], found: Environment | None
) -> Facts:
    """The items of a run."""
    found = found or Environment()
    has: set[Item] = set()
    known: set[Known] = set()
    if found.tools is not None:
        known.add(TOOLS)
        for name, definitions in found.tools.items():
            has.add(Item(TOOLS, name))
            if definitions:
                known.add(Known("definition", name))
                has.update(Item(Known("definition", name), each) for each in definitions)
    for place, models in ((MODELS, found.models), (ASKED, found.asked)):
        if models:
            known.add(place)
            has.update(Item(place, name) for name in models)
    for label, value in labels.items():
        kind: Kind | None = "pin" if label.startswith(PIN) else None
        kind = "version" if kind is None and is_version(label) else kind
        if kind is not None:
            place = Known(kind, label.removeprefix(PIN))
            known.add(place)
            has.add(Item(place, value))
    for tool, shape in found.results.items():
        for path, types in shape.items():
            above = parent_of(path)
            if above is not None:
                has.add(Item(Known("path", tool, above[0]), path))
            if "object" in types:
                known.add(Known("path", tool, path))
            kinds = [each for each in types if each != "null"]
            if kinds:
                known.add(Known("type", tool, path))
                has.update(Item(Known("type", tool, path), each) for each in kinds)
    # An entry of a list is no key: a list may be empty.
    has = {each for each in has if each.known in known}
    return Facts(trace=trace, task=task, known=frozenset(known), has=frozenset(has))


class Count(NamedTuple):
    """So many runs have an item, of those that could show it."""

    hits: int
    n: int


class Difference(Struct, frozen=True, kw_only=True):
    """Something that most runs of one group have and none of the other. `came` says that it is the
    second group that has it. `p` is two-sided; `held` that chance does not explain it, among all
    that was tested: otherwise it is only what these runs show. `traces` are the runs that have
    it."""

    item: Item
    came: bool
    first: Count
    second: Count
    p: float
    held: bool
    traces: tuple[str, ...]


class Differences(Struct, frozen=True, kw_only=True):
    """What differs. `held` are beyond chance, `seen` are facts that set all runs that record them
    apart, which are too few to say more; `untold` items of results differ as clearly in too few
    results; `tested` counts the items that some runs have and others have not, `level` is what each
    p was held against.
    `by_task` says that runs were compared within their tasks; otherwise each task counts once."""

    held: tuple[Difference, ...]
    seen: tuple[Difference, ...]
    untold: int
    tested: int
    level: float
    by_task: bool


def compare(first: Sequence[Facts], second: Sequence[Facts], alpha: float = ALPHA) -> Differences:
    """How the environments of two groups of runs differ; `alpha` is the chance of any report that
    only chance made. Facts and results have half of it each."""
    by_task = _share_tasks(first, second)
    tests = [*_tests(first, second, by_task)]
    levels = {
        is_result: tarone((t.least for t in tests if t.is_result == is_result), alpha / 2)
        for is_result in (False, True)
    }
    held, seen, untold = [], [], 0
    for test in tests:
        came = not test.first.hits
        own, other = (test.second, test.first) if came else (test.first, test.second)
        if other.hits or not other.n or own.hits < MOST * own.n:
            continue
        p = min(1.0, 2 * test.chance(came=came))
        holds = p <= levels[test.is_result]
        group, others = (second, first) if came else (first, second)
        found = Difference(
            item=test.item,
            came=came,
            first=test.first,
            second=test.second,
            p=p,
            held=holds,
            traces=tuple(run.trace for run in group if test.item in run.has),
        )
        if holds:
            held.append(found)
        elif test.is_result:
            untold += 1
        elif own.hits == own.n and 2 * own.n >= len(group) and 2 * other.n >= len(others):
            seen.append(found)
    return Differences(
        held=tuple(sorted(held, key=_order)),
        seen=tuple(sorted(seen, key=_order)),
        untold=untold,
        tested=len(tests),
        level=min(levels.values()),
        by_task=by_task,
    )


_KINDS: tuple[Kind, ...] = (
    "tool", "definition", "model", "asked", "version", "pin", "path", "type",
)  # fmt: skip


def _order(found: Difference) -> tuple[int, Item, bool]:
    return _KINDS.index(found.item.kind), found.item, found.came


def _share_tasks(first: Sequence[Facts], second: Sequence[Facts]) -> bool:
    """Have most runs of each group a task that the other has too?"""
    tasks = [{run.task for run in group} - {None} for group in (first, second)]
    shared = tasks[0] & tasks[1]
    return all(
        2 * sum(run.task in shared for run in group) >= len(group) for group in (first, second)
    )


class _Test(NamedTuple):
    """An item that some runs have and others, which could, have not."""

    item: Item
    first: Count
    second: Count
    tables: tuple[Table, ...]

    @property
    def is_result(self) -> bool:
        return self.item.kind in RESULTS

    def chance(self, *, came: bool) -> float:
        """How often chance puts it into one group alone."""
        if not came:
            return all_on_one_side(self.tables)
        return all_on_one_side(Table(t.other_hits, t.other_n, t.hits, t.n) for t in self.tables)

    @property
    def least(self) -> float:
        return 2 * min(self.chance(came=False), self.chance(came=True))


def _tests(first: Sequence[Facts], second: Sequence[Facts], by_task: bool) -> Iterator[_Test]:
    groups = (first, second)
    known: list[dict[Known, set[int]]] = [defaultdict(set), defaultdict(set)]
    has: list[dict[Item, set[int]]] = [defaultdict(set), defaultdict(set)]
    for at, group in enumerate(groups):
        for number, run in enumerate(group):
            for place in run.known:
                known[at][place].add(number)
            for item in run.has:
                has[at][item].add(number)
    tables = _by_task(first, second) if by_task else _once_a_task(first, second)
    for item in sorted(has[0].keys() | has[1].keys()):
        hits = has[0].get(item, set()), has[1].get(item, set())
        able = known[0].get(item.known, set()), known[1].get(item.known, set())
        if len(hits[0]) + len(hits[1]) == len(able[0]) + len(able[1]):
            continue  # all that could have it: there is nothing to test
        yield _Test(
            item,
            Count(len(hits[0]), len(able[0])),
            Count(len(hits[1]), len(able[1])),
            tables(hits, able),
        )


_Pair: TypeAlias = "tuple[set[int], set[int]]"
_Tables: TypeAlias = Callable[[_Pair, _Pair], "tuple[Table, ...]"]


def _by_task(first: Sequence[Facts], second: Sequence[Facts]) -> _Tables:
    """A table a task that runs of both groups have; others can tell nothing."""
    tasks = [[run.task for run in group] for group in (first, second)]
    shared = ({*tasks[0]} & {*tasks[1]}) - {None}

    def tables(hits: _Pair, able: _Pair) -> tuple[Table, ...]:
        counts: dict[str | None, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for at, group in enumerate(tasks):
            for number in able[at]:
                if group[number] in shared:
                    counts[group[number]][2 * at + 1] += 1
                    counts[group[number]][2 * at] += number in hits[at]
        return tuple(Table(*each) for each in counts.values())

    return tables


def _once_a_task(first: Sequence[Facts], second: Sequence[Facts]) -> _Tables:
    """One table of tasks, each of which has an item where any of its runs has; a run without a task
    stands for itself."""
    units = [
        [run.task if run.task is not None else number for number, run in enumerate(group)]
        for group in (first, second)
    ]

    def tables(hits: _Pair, able: _Pair) -> tuple[Table, ...]:
        counts: list[int] = []
        for at, group in enumerate(units):
            counts += [
                len({group[number] for number in hits[at]}),
                len({group[number] for number in able[at]}),
            ]
        return (Table(*counts),)

    return tables


def shares(facts: Iterable[Facts], place: Known) -> int:
    """How many runs record that."""
    return sum(place in run.known for run in facts)
