"""Which scores may be used without asking anyone? People's, and of a judge only what was approved.

A set of a judge's scores is trusted, not trusted, expired, or was never checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, structs

from replay.store.handle import Store
from replay.store.rows import trace_rows
from taxonomy.calibration.item_approval import kept_items, standing_items
from taxonomy.calibration.judge_approval import (
    EXPIRES_NS,
    counts_by_item,
    kept,
    own_category,
    standing,
)
from taxonomy.findings import StepScore
from taxonomy.judgements.scores import all_scores, judge_sets

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


def trusted_scores(
    store: Store, trace: str, now_ns: int, step: int | None = None, *, items: bool = True
) -> tuple[StepScore, ...]:
    """The scores of a trace, or of one step, that screens and measures rest on, by step; their
    values alone where what was answered to each of their `items` is not wanted."""
    sets = judge_sets(store, trace)
    passed = [by for by in sets if _passed(store, by, trace, now_ns)]
    chosen = max(passed, key=lambda by: (sets[by], by), default=None)
    by_item = chosen is not None and counts_by_item(chosen)
    scores = all_scores(store, trace, step, items=items or by_item)
    kept = tuple(each for each in scores if each.source != "judge" or each.by == chosen)
    if chosen is None or not by_item:
        return kept
    passed_items = standing_items(store, chosen, now_ns)
    return tuple(over(each, passed_items) if each.by == chosen else each for each in kept)


def over(score: StepScore, trusted: frozenset[str]) -> StepScore:
    """The score over the trusted items alone; the others are not in it."""
    items = tuple(each for each in score.items if each.name in trusted)
    held = [each.held for each in items if each.held is not None]
    return structs.replace(score, items=items, value=sum(held) / len(held) if held else None)


def _passed(store: Store, by: str, trace: str, now_ns: int) -> bool:
    if counts_by_item(by):
        return bool(standing_items(store, by, now_ns))
    gate = standing(store, by, now_ns)
    return gate is not None and gate.covers(_category(store, trace))


def _category(store: Store, trace: str) -> str | None:
    return next(map(own_category, trace_rows(store, "trace = ?", [trace], every=True)), None)
