"""Who scored the steps of a run, and may their scores be believed without a look?

Scores stand side by side and are never mixed. A judge counts only while its calibration stands;
one that does not is shown to who asks for it, and says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from replay.store import Store
from taxonomy.calibration.gate import counts_by_item, kept, standing
from taxonomy.calibration.item_gate import standing_items
from taxonomy.findings import TRUST, Source, StepScore


class Scorer(Struct, frozen=True, kw_only=True):
    """A source of scores by its name. `used`: its scores count without being asked for.

    `model`, `mode` and `rubric` are what makes a judge's scores comparable, `checked` what its
    calibration came to; all are empty for anyone else.
    """

    source: Source
    by: str
    used: bool = True
    model: str = ""
    mode: str = ""
    rubric: str = ""
    checked: str = ""

    @property
    def name(self) -> str:
        """Who says so, short enough for a caption."""
        if self.source == "judge":
            return " · ".join(filter(None, (f"judge {self.model}", self.mode, self.checked)))
        return f"{self.source} · {self.by}"


def scorers(
    store: Store, scores: Iterable[StepScore], trusted: Collection[StepScore], now_ns: int
) -> tuple[Scorer, ...]:
    """Everyone who gave one of `scores`, most trusted first; `trusted` are those that count."""
    used = {(score.source, score.by) for score in trusted}
    found = {(score.source, score.by) for score in scores} | used
    return tuple(
        _scorer(store, source, by, (source, by) in used, now_ns)
        for source, by in sorted(found, key=lambda each: (TRUST.index(each[0]), each[1]))
    )


def _scorer(store: Store, source: Source, by: str, used: bool, now_ns: int) -> Scorer:
    if source != "judge":
        return Scorer(source=source, by=by, used=used)
    from taxonomy.judge.kept import parsed  # imports all that asks a judge: only where one spoke

    checked, judged = _checked(store, by, used, now_ns), parsed(by)
    if judged is None:
        return Scorer(source=source, by=by, used=used, model=by, checked=checked)
    goals = f", goals {judged.goals}" if judged.goals else ""
    return Scorer(
        source=source,
        by=by,
        used=used,
        model=judged.model,
        mode=judged.mode,
        rubric=f"{judged.rubric}{goals}",
        checked=checked,
    )


def _checked(store: Store, by: str, used: bool, now_ns: int) -> str:
    """What the calibration of a judge came to, for runs like this one where it is `used`."""
    if counts_by_item(by):
        items = sorted(standing_items(store, by, now_ns))
        return f"calibrated for {', '.join(items)}" if items else "not calibrated"
    gate = standing(store, by, now_ns)
    if gate is None:
        return "not calibrated" if kept(store, by) is None else "calibration expired"
    if used:
        return f"calibrated, r {gate.r.value or 0.0:.2f} on {gate.r.n} labels"
    return f"not calibrated: {gate.missing[0] if gate.missing else 'not for such tasks'}"
