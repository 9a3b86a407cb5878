"""A calibration from its labels to its view, and the verdicts on judges that come of it.

The rules look at new runs first. A verdict takes effect once it is kept: the candidates of a run
rest on the scores that may be trusted, so the rules look again at the runs concerned.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from arc_tui.features.calibration.view import (
    EMPTY_STATE,
    CalibrationState,
    CalibrationView,
    build_state,
)
from arc_tui.importing import diagnose_new, diagnose_one
from replay.store.handle import Store, now_ns
from taxonomy.calibration import approval
from taxonomy.calibration.approval import trust
from taxonomy.calibration.drift import judge_sets


class Kept(Struct, frozen=True, kw_only=True):
    """How many verdicts were kept, and the runs that the rules looked at again."""

    verdicts: int
    again: tuple[str, ...]


def keep_verdicts(store: Store, view: CalibrationView, now_ns: int) -> Kept:
    """Keep every verdict that people's labels gave, in place of the last on the same thing.

    Labels that a rule made decide nothing.
    """
    parts = [part for part in view.parts if part.figures.made_by == "people"]
    gates = [each for part in parts for each in part.figures.gates]
    items = [each for part in parts for each in part.item_gates]
    checked = {each.by for each in gates} | {each.by for each in items}
    sets = [each for each in judge_sets(store) if each.by in checked]
    before = {each.by: _use(store, each.by, now_ns) for each in sets}
    for verdict in gates:
        approval.keep(store, verdict)
    for answer in items:
        approval.keep_item(store, answer)
    changed = [each for each in sets if _use(store, each.by, now_ns) != before[each.by]]
    runs = sorted({place.trace for each in changed for place in each.given.scores})
    for run in runs:
        diagnose_one(store, run)
    return Kept(verdicts=len(gates) + len(items), again=tuple(runs))


def _use(store: Store, by: str, now_ns: int) -> object:
    """What of a set may be used."""
    stands = trust(store, by, now_ns)
    return stands.state == "trusted", stands.categories, stands.items


def held_against(
    store: Store, labels: Path | None, is_cancelled: Callable[[], bool]
) -> CalibrationState:
    """Judgements against labels, with what the rules say today; `EMPTY_STATE` where cancelled."""
    for _ in diagnose_new(store):
        if is_cancelled():
            return EMPTY_STATE
    return build_state(store, labels, now_ns())
