"""How well people agree with each other: a figure a pair of people, and where they part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.tables import Table, counted, estimate
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.calibration.disagreement import (
    Agreement,
    RaterPair,
    agreement,
    opinions,
    pairs,
    rater_disagreements,
)
from taxonomy.judgements.tags import human_words

IN_SIGHT = (
    "independent: the later of the two is a blind review; the others may have been seen"
    " first, so their agreement is an upper bound (--blind leaves them out)"
)


class RaterDisagreement(Struct, frozen=True, kw_only=True):
    """A run that two people see differently; `apart` in steps, None where there is no distance."""

    trace: str
    task: str | None
    trial: str | None
    one: str
    one_says: str
    one_step: int | None
    other: str
    other_says: str
    other_step: int | None
    apart: int | None
    independent: bool


class RatersView(Struct, frozen=True, eq=False, kw_only=True):
    """The agreement of people: `blind` counts only runs whose later word was given blind.

    `people` says how many runs each person has a word on.
    """

    blind: bool
    people: dict[str, int]
    pairs: tuple[Agreement, ...]
    partings: tuple[RaterDisagreement, ...]


EMPTY: RatersView = RatersView(blind=False, people={}, pairs=(), partings=())


def build_raters(store: Store, *, blind: bool = False) -> RatersView:
    """What people said of the runs of a database, two by two."""
    known = list(opinions(human_words(store)))
    rows = {row.trace: row for row in trace_rows(store, every=True)}
    chosen = {
        names: [pair for pair in found if pair.independent or not blind]
        for names, found in pairs(known).items()
    }
    parted = rater_disagreements(pair for found in chosen.values() for pair in found)
    return RatersView(
        blind=blind,
        people=dict(sorted(Counter(each.by for each in known).items())),
        pairs=tuple(agreement(*names, found) for names, found in chosen.items() if found),
        partings=tuple(_disagreement(rows[pair.one.trace], pair) for pair in parted),
    )


def _disagreement(row: TraceRow, pair: RaterPair) -> RaterDisagreement:
    return RaterDisagreement(
        trace=row.trace,
        task=row.task,
        trial=row.trial,
        one=pair.one.by,
        one_says=pair.one.label,
        one_step=pair.one.step,
        other=pair.other.by,
        other_says=pair.other.label,
        other_step=pair.other.step,
        apart=pair.apart,
        independent=pair.independent,
    )


def head(view: RatersView) -> str:
    """The first thing to know, in one sentence."""
    if not view.people:
        return "No tags yet. Try: arc review"
    if not view.pairs:
        blind = " with a blind second review" if view.blind else ""
        people = ", ".join(f"{name} {runs}" for name, runs in view.people.items())
        return f"no two people tagged the same run{blind} ({people}). Try: arc review --blind"
    widest = max(view.pairs, key=lambda each: each.n)
    agreed = f"the same class in {counted(widest.same)} of their runs, κ {estimate(widest.kappa)}"
    blind = f"{widest.independent} of {widest.n} independent"
    return f"{_names(widest)} say {agreed}; {blind}"


def tables(view: RatersView) -> Iterator[Table]:
    """The figures of each two people, then of each class, then where they part."""
    if not view.pairs:
        return
    yield Table(
        title="agreement of people: the first class of each run and its step",
        columns=("", "runs", "independent", "same class", "κ", "steps", "exact", "±1", "±3"),
        rows=tuple(map(_pair_row, view.pairs)),
        notes=(IN_SIGHT,),
    )
    for each in view.pairs:
        yield _per_class(each)
    if view.partings:
        yield Table(
            title=f"disagreements: {format.count(len(view.partings), 'run')}, worst first",
            columns=("id", "task", "trial", "first", "second", "steps apart"),
            rows=tuple(map(_disagreement_row, view.partings)),
        )


def _pair_row(each: Agreement) -> tuple[str, ...]:
    return (
        _names(each),
        str(each.n),
        str(each.independent),
        counted(each.same),
        estimate(each.kappa),
        str(each.exact.n),
        *map(counted, (each.exact, each.within_1, each.within_3)),
    )


def _per_class(each: Agreement) -> Table:
    rows = [
        (row.name, *map(str, (row.both, row.only_one, row.only_other)), estimate(row.kappa))
        for row in each.classes
        if row.neither < each.n
    ]
    one, other = format.one_line(each.one), format.one_line(each.other)
    return Table(
        title=f"each class anywhere in the run: {_names(each)}, {format.count(each.n, 'run')}",
        columns=("", "both", f"only {one}", f"only {other}", "κ"),
        rows=tuple(rows),
    )


def _disagreement_row(each: RaterDisagreement) -> tuple[str, ...]:
    return (
        each.trace[:8],
        format.one_line(each.task),
        format.one_line(each.trial),
        _says(each.one, each.one_says, each.one_step),
        _says(each.other, each.other_says, each.other_step),
        format.UNKNOWN if each.apart is None else str(each.apart),
    )


def _names(each: Agreement) -> str:
    return f"{format.one_line(each.one)} and {format.one_line(each.other)}"


def _says(by: str, label: str, step: int | None) -> str:
    words = f"{format.one_line(by)}: {format.one_line(label)}"
    return words if step is None else f"{words} at step {step}"
