"""Did a judge change? Its sets of scores side by side, and how each stands today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay.store import Store
from taxonomy.calibration.drift import Drift, JudgeSet, changed, drifts, judge_sets, people_given
from taxonomy.calibration.labels import Label, place
from taxonomy.calibration.trust import Trust, trust
from taxonomy.rubrics import RUBRICS, Mode


class SetRow(Struct, frozen=True, kw_only=True):
    """A set of a judge's scores: how many steps it scored, how it stands, and whether its rubric
    is the one that `arc score` asks by today."""

    by: str
    mode: Mode
    model: str
    rubric: str
    in_use: bool
    goals: str | None
    steps: int
    trust: Trust


class Unchecked(Struct, frozen=True, kw_only=True):
    """The latest set of a mode, where no verdict stands for it.

    `since` is the latest set of the mode that was ever checked, and `changed` what differs from
    it; None and empty where none was.
    """

    trust: Trust
    since: str | None = None
    changed: tuple[str, ...] = ()


class DriftView(Struct, frozen=True, eq=False, kw_only=True):
    """Every set of judges' scores, oldest first, and every two of one mode beside each other.

    `labels` counts the steps that people scored or answered items of.
    """

    source: str
    labels: int
    sets: tuple[SetRow, ...]
    drifts: tuple[Drift, ...]

    @property
    def modes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.mode for row in self.sets))

    def trust(self, by: str) -> Trust:
        """How the set of that name stands."""
        return next(row.trust for row in self.sets if row.by == by)


def build_drift(store: Store, source: str, labels: Sequence[Label], now_ns: int) -> DriftView:
    """The sets of a database beside each other and beside people's labels."""
    placed, _ = place(store, [label for label in labels if label.made_by == "people"])
    people = people_given(placed)
    sets = judge_sets(store)
    return DriftView(
        source=source,
        labels=len(people.scores.keys() | people.items.keys()),
        sets=tuple(_row(store, each, now_ns) for each in sets),
        drifts=tuple(drifts(sets, people)),
    )


def _row(store: Store, given: JudgeSet, now_ns: int) -> SetRow:
    identity = given.identity
    return SetRow(
        by=given.by,
        mode=identity.mode,
        model=identity.model,
        rubric=identity.rubric,
        in_use=identity.rubric == RUBRICS[identity.mode].version,
        goals=identity.goals,
        steps=len(given.given.scores),
        trust=trust(store, given.by, now_ns),
    )


def unchecked(store: Store, now_ns: int) -> tuple[Unchecked, ...]:
    """Of each mode the latest set, where it is not known whether it may be trusted."""
    by_mode: dict[Mode, list[JudgeSet]] = {}
    for each in judge_sets(store):
        by_mode.setdefault(each.identity.mode, []).append(each)
    return tuple(found for sets in by_mode.values() for found in _unchecked(store, sets, now_ns))


def _unchecked(store: Store, sets: Sequence[JudgeSet], now_ns: int) -> Iterator[Unchecked]:
    latest = sets[-1]
    stands = trust(store, latest.by, now_ns)
    if stands.state not in ("never calibrated", "expired"):
        return
    checked = (
        each
        for each in reversed(sets[:-1])
        if trust(store, each.by, now_ns).state != "never calibrated"
    )
    since = None if stands.state == "expired" else next(checked, None)
    yield Unchecked(
        trust=stands,
        since=since.by if since else None,
        changed=changed(since.identity, latest.identity) if since else (),
    )
