"""How does a set of a judge's scores stand today? Trusted, not trusted, expired, or never checked.

A set of mode `step` or `run` stands by the verdict on its scores, one of mode `window` by those on
its rubric items.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from replay.store import Store
from taxonomy.calibration.gate import EXPIRES_NS, counts_by_item, kept
from taxonomy.calibration.item_gate import kept_items
from taxonomy.findings import StepScore

State = Literal["trusted", "not trusted", "expired", "never calibrated"]


class Trust(Struct, frozen=True, kw_only=True):
    """How a set stands. `until_ns` is when its verdict expires or did, None without one.

    `categories` are those of tasks that passed, `items` the rubric items; of scores that passed
    everywhere the first is empty. `missing` says what failed.
    """

    by: str
    state: State
    until_ns: int | None = None
    categories: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def trust(store: Store, by: str, now_ns: int) -> Trust:
    """How the scores of that name stand."""
    return _by_items(store, by, now_ns) if counts_by_item(by) else _by_scores(store, by, now_ns)


def counts_until(store: Store, given: Iterable[StepScore], now_ns: int) -> int | None:
    """When the first of the judges behind scores ceases to be trusted, None without a judge."""
    judges = {score.by for score in given if score.source == "judge"}
    ends = (trust(store, by, now_ns).until_ns for by in judges)
    return min((end for end in ends if end is not None), default=None)


def _by_scores(store: Store, by: str, now_ns: int) -> Trust:
    verdict = kept(store, by)
    if verdict is None:
        return Trust(by=by, state="never calibrated")
    until = verdict.checked_ns + EXPIRES_NS
    passed = tuple(each.category for each in verdict.categories if each.passed)
    if now_ns >= until:
        return Trust(by=by, state="expired", until_ns=until)
    return Trust(
        by=by,
        state="trusted" if verdict.passed_somewhere else "not trusted",
        until_ns=until,
        categories=() if verdict.passed else passed,
        missing=verdict.missing,
    )


def _by_items(store: Store, by: str, now_ns: int) -> Trust:
    verdicts = kept_items(store, by)
    if not verdicts:
        return Trust(by=by, state="never calibrated")
    fresh = [each for each in verdicts if now_ns < each.checked_ns + EXPIRES_NS]
    if not fresh:
        last = max(each.checked_ns for each in verdicts)
        return Trust(by=by, state="expired", until_ns=last + EXPIRES_NS)
    passed = [each for each in fresh if each.passed]
    return Trust(
        by=by,
        state="trusted" if passed else "not trusted",
        until_ns=min(each.checked_ns for each in passed or fresh) + EXPIRES_NS,
        items=tuple(each.item for each in passed),
        missing=tuple(f"{each.item}: {why}" for each in fresh for why in each.missing),
    )
