"""Did a judge change? Its sets of scores side by side, and how each stands today.

Drift as tables of text: the same cells for a screen and the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.tables import Table, counted, estimate, signed
from arc_tui.views.scores import stands
from replay.store.handle import Store
from taxonomy.calibration.approval import Trust, trust
from taxonomy.calibration.class_gate import class_trust
from taxonomy.calibration.drift import Drift, JudgeSet, changed, drifts, judge_sets, people_given
from taxonomy.calibration.labels import Label, place
from taxonomy.judge.classify import RUBRIC
from taxonomy.judge.rubrics import RUBRICS, Mode
from taxonomy.judgements.suggestions import classifications
from taxonomy.metrics.agreement import Estimate


class SetRow(Struct, frozen=True, kw_only=True):
    """A set of a judge's scores: how many steps it scored, how it stands, and whether its rubric
    is the one that `arc judge` asks by today."""

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
        sets=tuple(_row(store, each, sets, now_ns) for each in sets),
        drifts=tuple(drifts(sets, people)),
    )


def _row(store: Store, given: JudgeSet, sets: Sequence[JudgeSet], now_ns: int) -> SetRow:
    identity = given.identity
    in_use = identity.rubric == RUBRICS[identity.mode].version
    if identity.own:  # a file can be changed at any time: the version that was used last
        in_use = identity.rubric == _by_rubric(sets)[_series(given)][-1].identity.rubric
    return SetRow(
        by=given.by,
        mode=identity.mode,
        model=identity.model,
        rubric=identity.rubric,
        in_use=in_use,
        goals=identity.goals,
        steps=len(given.given.scores),
        trust=trust(store, given.by, now_ns),
    )


def unchecked(store: Store, now_ns: int) -> tuple[Unchecked, ...]:
    """Of each mode, and each rubric of a user, the latest set, where it is not known whether it may
    be trusted."""
    by_rubric = _by_rubric(judge_sets(store))
    return tuple(found for sets in by_rubric.values() for found in _unchecked(store, sets, now_ns))


def _by_rubric(sets: Sequence[JudgeSet]) -> dict[tuple[Mode, str], list[JudgeSet]]:
    """The sets of each mode, those under a user's rubric by themselves."""
    found: dict[tuple[Mode, str], list[JudgeSet]] = {}
    for each in sets:
        found.setdefault(_series(each), []).append(each)
    return found


def _series(given: JudgeSet) -> tuple[Mode, str]:
    return given.identity.mode, given.identity.own


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


def latest_judges(store: Store, now_ns: int) -> tuple[Trust, ...]:
    """How the latest set of judges' scores of each mode and each user's rubric stands, and how the
    classes that each model suggests do."""
    latest = {_series(each): each.by for each in judge_sets(store)}
    scores = (trust(store, by, now_ns) for by in latest.values())
    return (*scores, *(class_trust(store, by, now_ns) for by in _class_judges(store)))


def _class_judges(store: Store) -> Sequence[str]:
    """Of each model that suggested classes the name it does so under today, an older one where it
    was not asked since."""
    found: dict[str, str] = {}
    for by in sorted({each.by for each in classifications(store)}):
        model, _, version = by.rpartition(":")
        if model not in found or version == RUBRIC.version:
            found[model] = by
    return tuple(found.values())


NEVER_COMPARED = "modes measure different things and are not compared: {}"
SAME_STEPS = (
    "with people: over the steps that both sets and people scored, so that before and after cover"
    " the same steps"
)


def drift_tables(view: DriftView) -> Iterator[Table]:
    """The sets, then every two of one mode."""
    if not view.sets:
        yield Table(
            title="No judge scores yet. Try: arc judge TRACE --model NAME", columns=(), rows=()
        )
        return
    yield _sets(view)
    for each in view.drifts:
        yield _drift(view, each)
        if each.items:
            yield _items(each)


def _sets(view: DriftView) -> Table:
    notes = []
    if len(view.modes) > 1:
        notes.append(NEVER_COMPARED.format(", ".join(view.modes)))
    if not view.drifts:
        notes.append("no two sets of one mode: nothing to compare")
    return Table(
        title="sets of scores, the latest last",
        columns=("by", "steps", "rubric", "status"),
        rows=tuple(
            (row.by, format.number(row.steps), _rubric(row), stands(row.trust)) for row in view.sets
        ),
        notes=tuple(notes),
    )


def _rubric(row: SetRow) -> str:
    return "in use" if row.in_use else "no longer in use"


def unchecked_line(given: Unchecked) -> str:
    """Why the scores of a judge's latest set are not used."""
    by = given.trust.by
    if given.changed:
        why = f"not calibrated since {_named(given.changed)} changed (before: {given.since})"
        return f"{by}: {why}; its scores are not used (--drift shows the differences)"
    return f"{by}: {stands(given.trust)}; its scores are not used"


def _named(changed: tuple[str, ...]) -> str:
    *first, last = (name if name == "goals" else f"the {name}" for name in changed)
    return f"{', '.join(first)} and {last}" if first else last


def _drift(view: DriftView, found: Drift) -> Table:
    before, after = found.people_before, found.people_after
    n = before.r.n
    stands_now = view.trust(found.after)
    if stands_now.state == "never calibrated":
        note = f"{found.after}: not calibrated since {_named(found.changed)} changed"
    else:
        note = f"{found.after}: {stands(stands_now)}"
    return Table(
        title=f"{_named(found.changed)} changed: {found.before} → {found.after}",
        columns=("", "n", "figure"),
        rows=(
            ("mean difference, after − before", str(found.shift.n), _shift(found.shift)),
            ("scores that crossed .5", str(found.crossed.n), counted(found.crossed)),
            ("r between the two", str(found.r.n), estimate(found.r)),
            ("r with people, before → after", str(n), _turn(before.r, after.r)),
            ("κ of bands with people, before → after", str(n), _turn(before.kappa, after.kappa)),
        ),
        notes=(note, *_what_lacks(found), *((SAME_STEPS,) if n else ())),
    )


def _turn(before: Estimate, after: Estimate) -> str:
    return f"{estimate(before)} → {estimate(after)}"


def _what_lacks(found: Drift) -> Iterator[str]:
    if not found.shift.n:
        yield "no step was scored by both. Try: arc judge TRACE --model NAME, with the new judge"
    elif not found.people_before.r.n:
        yield "people scored none of these steps. Try: arc label TRACE STEP SCORE, or --labels FILE"


def _shift(found: Estimate) -> str:
    if found.value is None:
        return format.UNKNOWN
    return f"{signed(found.value)} ({signed(found.low)}–{signed(found.high)})"


def _items(found: Drift) -> Table:
    return Table(
        title=f"rubric items: {found.before} → {found.after}",
        columns=("item", "changed", "κ between", "labels", "κ with people, before → after"),
        rows=tuple(
            (
                each.item,
                counted(each.turned),
                estimate(each.kappa),
                str(each.people_before.n),
                _turn(each.people_before, each.people_after),
            )
            for each in found.items
        ),
    )
