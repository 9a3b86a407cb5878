"""Who scored the steps of a run, and may their scores be believed without a look?

Scores stand side by side and are never mixed. A judge counts only while its calibration stands;
one that does not is shown to who asks for it, and says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct, structs

from replay.store import Store
from taxonomy.calibration.trust import trust
from taxonomy.findings import TRUST, Source, StepScore


class Scorer(Struct, frozen=True, kw_only=True):
    """A source of scores by its name. `used`: its scores count without being asked for.

    `model`, `mode` and `rubric` are what makes a judge's scores comparable, `checked` how its
    calibration stands; all are empty for anyone else.
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
    """How the calibration of a judge stands; a trusted one may not be `used` for this run."""
    from arc_tui.views.calibration.drift_tables import (
        stands,  # compares judges: only where one spoke
    )

    found = trust(store, by, now_ns)
    if len(found.missing) > 1:
        first, *more = found.missing
        found = structs.replace(found, missing=(f"{first}, and {len(more)} more",))
    other = ", not used for this run" if found.state == "trusted" and not used else ""
    return f"{stands(found)}{other}"
