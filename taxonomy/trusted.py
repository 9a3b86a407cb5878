"""Which scores may be used without asking anyone? People's, those that were brought in, and of a
judge that was asked here only what was checked.

A set of a judge's scores counts on its own only while its calibration stands, and for runs of the
categories it was checked on. In mode `window` that is decided item by item: the score is the share
of yes among the items that passed, None where none of them was decided. Of several such sets of
one trace the one that scored most steps is taken: modes, models and rubrics are never mixed.
"""

from __future__ import annotations

from msgspec import structs

from replay.store import Store
from replay.store.rows import trace_rows
from taxonomy import ledger
from taxonomy.calibration.gate import counts_by_item, own_category, standing
from taxonomy.calibration.item_gate import standing_items
from taxonomy.findings import StepScore


def trusted_scores(
    store: Store, trace: str, now_ns: int, step: int | None = None, *, items: bool = True
) -> tuple[StepScore, ...]:
    """The scores of a trace, or of one step, that screens and measures rest on, by step; their
    values alone where what was answered to each of their `items` is not wanted."""
    sets = ledger.judge_sets(store, trace)
    passed = [by for by in sets if _passed(store, by, trace, now_ns)]
    chosen = max(passed, key=lambda by: (sets[by], by), default=None)
    by_item = chosen is not None and counts_by_item(chosen)
    scores = ledger.all_scores(store, trace, step, items=items or by_item)
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
