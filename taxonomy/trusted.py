"""Which scores may be used without asking anyone? People's, and of a judge only what was checked.

A set of a judge's scores counts on its own only while its calibration stands. Of several such sets
of one trace the one that scored most steps is taken: modes, models and rubrics are never mixed.
"""

from __future__ import annotations

from replay.store import Store
from taxonomy import ledger
from taxonomy.calibration.gate import standing
from taxonomy.findings import StepScore


def trusted_scores(
    store: Store, trace: str, now_ns: int, step: int | None = None
) -> tuple[StepScore, ...]:
    """The scores of a trace, or of one step, that screens and measures rest on, by step."""
    sets = ledger.judge_sets(store, trace)
    passed = [by for by in sets if _passed(store, by, now_ns)]
    chosen = max(passed, key=lambda by: (sets[by], by), default=None)
    scores = ledger.all_scores(store, trace, step)
    return tuple(each for each in scores if each.source != "judge" or each.by == chosen)


def _passed(store: Store, by: str, now_ns: int) -> bool:
    gate = standing(store, by, now_ns)
    return gate is not None and gate.passed
