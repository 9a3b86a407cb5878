"""Which parts of one change broke it? The hunks of a changed text as versions.

A change of a prompt is cut into hunks; a version has the old text with some of them applied. With
the first one, the first two and so on they are versions in an order, and a search finds the hunk
that broke it, in the company of those before it. Then it is tried alone: where it is not enough, it
stays in, and those before it are searched for what it needs beside it. A change whose hunks work
against each other is not in such an order; the search says so then.

About how many samples a search will want is tried on invented versions before anything is asked
(`expected_for_versions`, `expected_for_hunks`). It depends on how noisy the answers are, which
nobody knows yet: it is reckoned for versions that fail in 1 of 10 answers before the change and in
8 of 10 after it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Generator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, structs

from replay.bisection.rounds import USUAL, Found, Outcome, SampleRequest, Settings, Spent, Why
from replay.bisection.search import search

Chosen = frozenset[int]
"""The hunks that are applied, by their numbers."""


class Hunk(Struct, frozen=True, kw_only=True):
    """A run of changed lines. `at` counts the old text's lines before it, from 0."""

    at: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def hunks(old: str, new: str) -> tuple[Hunk, ...]:
    """The changes between two texts, in the order of the text."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Hunk(at=i, old=tuple(before[i:j]), new=tuple(after[k:m]))
        for kind, i, j, k, m in matcher.get_opcodes()
        if kind != "equal"
    )


def applied(old: str, parts: Sequence[Hunk], chosen: Collection[int]) -> str:
    """The old text with some of the hunks."""
    lines = old.splitlines(keepends=True)
    for number in sorted(chosen, reverse=True):
        part = parts[number]
        lines[part.at : part.at + len(part.old)] = part.new
    return "".join(lines)


class HunkSampleRequest(NamedTuple):
    """A sample that is wanted: the `sample`-th of the text with these hunks."""

    chosen: Chosen
    sample: int


class Part(Struct, frozen=True, kw_only=True):
    """One search: over the first hunks of `order`, beside `base`; what it came to."""

    base: Chosen
    order: tuple[int, ...]
    found: Found


class Culprits(Struct, frozen=True, kw_only=True):
    """`hunks` together break it, in the order of the text; () where none can be named.

    `enough`: they do so alone, without the others. `parts` are the searches that led there.
    """

    hunks: tuple[int, ...]
    enough: bool
    parts: tuple[Part, ...]

    @property
    def samples(self) -> int:
        return sum(part.found.samples + part.found.more for part in self.parts)


class HunkRound(Struct, frozen=True, kw_only=True):
    """The samples that are wanted next, and what for. `texts` are those the search under way holds
    against each other, by their hunks."""

    why: Why
    wishes: tuple[HunkSampleRequest, ...]
    texts: tuple[Chosen, ...]


HunkSteps: TypeAlias = Generator[HunkRound, Sequence[Outcome], Culprits]


def search_hunks(many: int, settings: Settings = USUAL) -> HunkSteps:
    """Find the hunks, of so many, that break it. Yields samples wanted, is sent their outcomes."""
    taken: dict[Chosen, int] = {}
    parts: list[Part] = []
    base: Chosen = frozenset()
    order = tuple(range(many))
    while True:
        part = yield from _searched(base, order, _left(settings, parts), taken)
        parts.append(part)
        if part.found.status != "found" or part.found.first_bad is None:
            return _culprits(base, parts)
        place = part.found.first_bad - 1
        base |= {order[place]}
        order = order[:place]
        if not order:
            return _culprits(base, parts, enough=True)
        alone = yield from _alone(base, _left(settings, parts), taken)
        parts.append(alone)
        if alone.found.status == "found":
            return _culprits(base, parts, enough=True)


def _left(settings: Settings, parts: Sequence[Part]) -> Settings:
    """The settings with the samples that are left."""
    spent = sum(part.found.samples + part.found.more for part in parts)
    return structs.replace(settings, max_samples=settings.max_samples - spent)


def _searched(
    base: Chosen, order: tuple[int, ...], settings: Settings, taken: dict[Chosen, int]
) -> Generator[HunkRound, Sequence[Outcome], Part]:
    """A search over `base` with none, one, two … of the hunks of `order`."""
    texts = [base.union(order[:count]) for count in range(len(order) + 1)]
    found = yield from _translated(texts, settings, taken)
    return Part(base=base, order=order, found=found)


def _alone(
    base: Chosen, settings: Settings, taken: dict[Chosen, int]
) -> Generator[HunkRound, Sequence[Outcome], Part]:
    """Are these hunks enough, without any other?"""
    checkless = structs.replace(settings, check=False)
    found = yield from _translated([frozenset(), base], checkless, taken)
    return Part(base=frozenset(), order=tuple(sorted(base)), found=found)


def _translated(
    texts: Sequence[Chosen], settings: Settings, taken: dict[Chosen, int]
) -> Generator[HunkRound, Sequence[Outcome], Found]:
    """A search over texts; every sample of a text is a fresh one, also of one searched before."""
    under_way = search(len(texts), settings)
    try:
        wanted = next(under_way)
        while True:
            wishes = tuple(_fresh(texts[wish.version], taken) for wish in wanted.wishes)
            try:
                outcomes = yield HunkRound(why=wanted.why, wishes=wishes, texts=tuple(texts))
            except Spent as spent:
                wanted = under_way.throw(spent)
            else:
                wanted = under_way.send(outcomes)
    except StopIteration as ended:
        found: Found = ended.value
        return found


def _fresh(chosen: Chosen, taken: dict[Chosen, int]) -> HunkSampleRequest:
    sample = taken.get(chosen, 0)
    taken[chosen] = sample + 1
    return HunkSampleRequest(chosen, sample)


def _culprits(base: Chosen, parts: Sequence[Part], *, enough: bool = False) -> Culprits:
    return Culprits(hunks=tuple(sorted(base)), enough=enough, parts=tuple(parts))


BEFORE, AFTER = 0.1, 0.8
_TRIES = 8
_VERSIONS = 512
"""Of all tries together: one of many versions takes long, and says as much."""


def expected_for_versions(versions: int, settings: Settings) -> int:
    """The mean number of samples over a few places of the change, checks included."""

    tries = max(2, min(_TRIES, _VERSIONS // versions))

    def tried(number: int) -> int:
        first_bad = 1 + number * (versions - 1) // tries

        def bad(wish: SampleRequest) -> bool:
            rate = AFTER if wish.version >= first_bad else BEFORE
            return _drawn(number, wish.version, wish.sample) < rate

        return _wanted(search(versions, settings), bad)

    return _mean(tried, tries)


def expected_for_hunks(many: int, settings: Settings) -> int:
    """The same for one hunk of so many."""

    def tried(number: int) -> int:
        culprit = number * many // _TRIES

        def bad(wish: HunkSampleRequest) -> bool:
            rate = AFTER if culprit in wish.chosen else BEFORE
            return _drawn(number, *sorted(wish.chosen), -1, wish.sample) < rate

        return _wanted(search_hunks(many, settings), bad)

    return _mean(tried)


def _mean(tried: Callable[[int], int], tries: int = _TRIES) -> int:
    return round(sum(map(tried, range(tries))) / tries)


def _drawn(*about: int) -> float:
    """A number in [0, 1) that is always the same for these."""
    return random.Random(" ".join(map(str, about))).random()


def _wanted(going: Generator[Any, Sequence[Outcome], Any], bad: Callable[[Any], bool]) -> int:
    """How many samples a search wants whose samples show this."""
    count = 0
    try:
        wanted = next(going)
        while True:
            count += len(wanted.wishes)
            wanted = going.send([bad(wish) for wish in wanted.wishes])
    except StopIteration:
        return count
