"""How many answers does it take to name the first bad of n versions, and how often is it right?

A simulation: versions before the change fail at one rate, from it on at another; every method gets
the same coins. Beside ours stand the method of git_bayesect (a Beta-Bernoulli change point under
Jeffreys' prior, the version asked whose answer is expected to leave the least entropy, until one
place has .95; without the answer that nothing changed, and without checks), a scan of all versions
with five answers each, and a bisection that believes every answer. A search that names nobody
is neither right nor wrong. Checks come on top: their answers stand behind the +.

Then whole histories, as the command searches them: broke once; broke, was mended and broke again,
at three places each triple as likely as another; never changed. `named` is the share of which a
version is named without a warning, which is wrong for all but the first kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from replay.bisection.change_point import PRIOR, Rates, Split, Tally, posterior
from replay.bisection.rounds import SURE, USUAL, Found, Settings
from replay.bisection.search import search
from tests.bench.measure import Row

GOAL = "≤ 28 calls at ≥ .97"
HISTORIES = 200
_RATES = ((0.0, 1.0), (0.05, 0.95), (0.1, 0.8), (0.3, 0.8), (0.5, 0.5))
_GOALS = {
    "broke once": "≤ 45 calls in all, no warning in ≥ .95",
    "broke, was mended, broke again": "named in ≤ .05",
}
SCAN = 5
_CASES = ((16, 0.1, 0.8, 400), (16, 0.3, 0.8, 200), (64, 0.1, 0.8, 100), (64, 0.3, 0.8, 60))
"""Versions, their rates before and after the change, and how many searches."""

Bad = Callable[[int, int], bool]
"""Is this answer of this version bad?"""


class Told(NamedTuple):
    """The version a method names, None for none; the answers it took, and its checks."""

    version: int | None
    calls: int
    checks: int = 0


def rows(folder: Path) -> Iterator[Row]:
    """A row for each case and method."""
    for versions, before, after, times in _CASES:
        for name, method in _METHODS.items():
            told = []
            for seed in range(times):
                first_bad = 1 + seed % (versions - 1)
                told.append((method(versions, _coins(first_bad, before, after, seed)), first_bad))
            what = f"first bad of {versions}, {before:g}/{after:g}: {name}"
            goal = GOAL if name == "ours, m=4, checked" and (versions, before) == (16, 0.1) else ""
            yield Row(what, _figure(told), goal)
    for before, after in _RATES:
        for kind, truth in _KINDS.items():
            if before < after or kind == "never changed":
                what = f"16 versions, {before:g}/{after:g}: {kind}"
                goal = _GOALS.get(kind, "") if (before, after) == (0.1, 0.8) else ""
                yield Row(what, _searched(before, after, truth), goal)


History = Callable[[int], tuple[list[bool], int | None]]
"""By seed: which of 16 versions are bad, and the first bad one where there is one change."""


def _once(seed: int) -> tuple[list[bool], int | None]:
    first_bad = 1 + seed % 15
    return [version >= first_bad for version in range(16)], first_bad


def _again(seed: int) -> tuple[list[bool], int | None]:
    broke, mended, again = sorted(random.Random(f"history {seed}").sample(range(1, 16), 3))
    return [broke <= version < mended or version >= again for version in range(16)], None


_KINDS: dict[str, History] = {
    "broke once": _once,
    "broke, was mended, broke again": _again,
    "never changed": lambda seed: ([False] * 16, None),
}


def _searched(before: float, after: float, history: History) -> str:
    """What the searches of a kind of history came to, at the command's own settings."""
    found = [_found(history(seed), before, after, seed) for seed in range(HISTORIES)]
    named = [each for each, _ in found if _is_named(each) and not each.warned]
    warned = sum(_is_named(each) and each.warned for each, _ in found)
    right = sum(_is_named(each) and each.first_bad == truth for each, truth in found)
    mean = sum(each.samples for each, _ in found) / HISTORIES
    checks = sum(each.more for each, _ in found) / HISTORIES
    return (
        f"named {len(named) / HISTORIES:.3f} (with a warning {warned / HISTORIES:.3f}),"
        f" right {right / HISTORIES:.3f}, {mean:.1f} + {checks:.1f} = {mean + checks:.1f} calls"
    )


def _found(
    history: tuple[list[bool], int | None], before: float, after: float, seed: int
) -> tuple[Found, int | None]:
    versions, truth = history

    def bad(version: int, sample: int) -> bool:
        rate = after if versions[version] else before
        return random.Random(f"{seed} {version} {sample}").random() < rate

    return _run(len(versions), bad, USUAL), truth


def _is_named(found: Found) -> bool:
    return found.status == "found" and found.verified is not False


def _coins(first_bad: int, before: float, after: float, seed: int) -> Bad:
    def bad(version: int, sample: int) -> bool:
        rate = after if version >= first_bad else before
        return random.Random(f"{seed} {version} {sample}").random() < rate

    return bad


def _figure(told: list[tuple[Told, int]]) -> str:
    calls = sorted(each.calls for each, _ in told)
    right = sum(each.version == truth for each, truth in told) / len(told)
    wrong = sum(each.version not in {truth, None} for each, truth in told) / len(told)
    checks = sum(each.checks for each, _ in told) / len(told)
    beside = f" (+ {checks:.1f})" if checks else ""
    mean, late = sum(calls) / len(calls), calls[int(0.95 * len(calls))]
    return f"right {right:.3f}, wrong {wrong:.3f}, {mean:.1f} calls{beside}, p95 {late}"


# --- the methods


def _run(versions: int, bad: Bad, settings: Settings) -> Found:
    going = search(versions, settings)
    try:
        wanted = next(going)
        while True:
            wanted = going.send([bad(wish.version, wish.sample) for wish in wanted.wishes])
    except StopIteration as ended:
        found: Found = ended.value
        return found


def _ours(settings: Settings) -> Callable[[int, Bad], Told]:
    def method(versions: int, bad: Bad) -> Told:
        found = _run(versions, bad, settings)
        return Told(found.first_bad if _is_named(found) else None, found.samples, found.more)

    return method


def _git_bayesect(versions: int, bad: Bad) -> Told:
    tally = Tally(versions)
    taken = [0] * versions
    while True:
        likely = posterior(tally)
        likely = [0.0, *(each / (1 - likely[0]) for each in likely[1:])]
        best = max(range(1, versions), key=lambda place: likely[place])
        if likely[best] >= SURE:
            return Told(best, sum(taken))
        version = _least_entropy(tally, likely)
        tally.add(version, bad(version, taken[version]))
        taken[version] += 1


def _least_entropy(tally: Tally, likely: list[float]) -> int:
    rates = [Rates(0.0, 0.0)]  # of the answer that nothing changed, which is none here
    for place in range(1, len(tally)):
        sides = (tally.bad[:place], tally.n[:place]), (tally.bad[place:], tally.n[place:])
        rates.append(Rates(*((PRIOR + sum(b)) / (2 * PRIOR + sum(n)) for b, n in sides)))
    hits = Split(likely, rates)
    misses = Split(likely, [Rates(1 - each.before, 1 - each.after) for each in rates])
    return min(range(len(tally)), key=lambda v: hits.entropy(v) + misses.entropy(v))


def _scan(versions: int, bad: Bad) -> Told:
    """The first version that fails in most of its answers."""
    failing = [sum(bad(v, sample) for sample in range(SCAN)) * 2 > SCAN for v in range(versions)]
    named = next((v for v, fails in enumerate(failing) if fails and v), None)
    return Told(named, versions * SCAN)


def _bisect(versions: int, bad: Bad) -> Told:
    low, high, calls = 0, versions - 1, 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bad(middle, 0) else (middle, high)
        calls += 1
    return Told(high, calls)


_METHODS: dict[str, Callable[[int, Bad], Told]] = {
    "ours, m=1": _ours(Settings(at_once=1, check=False)),
    "ours, m=1, checked": _ours(Settings(at_once=1)),
    "ours, m=4": _ours(Settings(at_once=4, check=False)),
    "ours, m=4, checked": _ours(Settings(at_once=4)),
    "git_bayesect's method": _git_bayesect,
    f"scan, k={SCAN}": _scan,
    "bisect, k=1": _bisect,
}
