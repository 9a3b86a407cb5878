"""`arc stats --behaviours`: how often each behaviour appears, where in a run it begins, how the run
got there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from arc_tui.features.stats.text import NOT_INDEPENDENT, interval, share
from arc_tui.ui import format
from arc_tui.views.runs import run_rows
from replay.store.handle import Store
from taxonomy.held_out import hidden, parted
from taxonomy.stats.behaviours import Behaviour, behaviours

HEAD = (
    "behaviour", "elicited", "95 %", "n", "mean",
    "first third", "middle", "last", "unknown", "median step", "shape",
)  # fmt: skip


class BehavioursView(Struct, frozen=True, eq=False, kw_only=True):
    """The behaviours of `runs` runs, `unnamed` of which name none; `held_out` runs are left out."""

    behaviours: tuple[Behaviour, ...]
    runs: int
    unnamed: int
    held_out: int


def build_behaviours(
    store: Store, query: str, by: Sequence[str], *, every: bool = False
) -> BehavioursView:
    """The behaviours of the runs that match, a row for each value of the columns `by`."""
    shown, held = parted(run_rows(store, query), frozenset() if every else hidden(store))
    found = behaviours(store, shown, by)
    named = sum(each.runs for each in found)
    return BehavioursView(
        behaviours=found, runs=len(shown), unnamed=len(shown) - named, held_out=len(held)
    )


def nothing(view: BehavioursView) -> str:
    """What is said where no run names a behaviour."""
    if view.held_out and not view.runs:
        return "All of these runs are of held-out tasks. Try: --include-held-out"
    if not view.runs:
        return "No runs match."
    runs = format.count(view.runs, "run")
    return f"None of {runs} names a behaviour. Try: arc import FOLDER, with a Bloom judgment.json"


def table(view: BehavioursView) -> tuple[list[str], list[list[str]]]:
    """A head and a row a behaviour."""
    columns = list(view.behaviours[0].group)
    return [HEAD[0], *columns, *HEAD[1:]], [_row(each) for each in view.behaviours]


def _row(each: Behaviour) -> list[str]:
    judged, runs = each.elicited.n, format.count(each.runs, "run")
    return [
        format.cut(format.one_line(each.behaviour), 32),
        *(
            format.cut(format.one_line(value), 32) or format.UNKNOWN
            for value in each.group.values()
        ),
        share(each.elicited.value),
        interval(each.elicited),
        runs if judged == each.runs else f"{judged} of {runs}",
        format.UNKNOWN if each.presence is None else f"{each.presence:.1f}",
        *(str(sum(each.thirds.get(third, 0) for third in part)) for part in _PLACES),
        format.UNKNOWN if each.onset_median is None else f"{each.onset_median:g}",
        _counts(each.shapes) or format.UNKNOWN,
    ]


_PLACES = (("first",), ("middle",), ("last",), ("too short", "unknown"))
"""The columns of where a behaviour began: a run of two steps has no thirds."""


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{format.one_line(name)} {count}" for name, count in counted.items())


def notes(view: BehavioursView) -> Iterator[str]:
    """What the figures rest on."""
    elicited = [run for each in view.behaviours for run in each.found]
    yield (
        "elicited: by the source's judge and its threshold (Bloom: presence above 6, of 1 to 10),"
        " of the n runs that it judged; mean: of their presence"
    )
    known = [run for run in elicited if run.onset is not None]
    cited = sum(run.by == "citation" for run in known)
    if elicited:
        scored = len(known) - cited
        by_score = f", in {scored} the first step scored under .5" if scored else ""
        yield (
            "first third to unknown: where in a run's steps the behaviour began; in"
            f" {cited} of {format.count(len(elicited), 'elicited run')} the first answer that the"
            f" judge cites{by_score}, not known in {len(elicited) - len(known)}; a citation may"
            " also speak against the behaviour"
        )
        shaped = sum(run.shape is not None for run in elicited)
        if shaped < len(elicited):
            yield (
                f"shape: of step scores by people, judges or files; {len(elicited) - shaped} of"
                f" {format.count(len(elicited), 'elicited run')} have fewer than 3. Try: arc judge"
                " RUN --live"
            )
    yield NOT_INDEPENDENT
    if view.unnamed:
        yield f"{format.count(view.unnamed, 'run')} without a behaviour left out"
    if view.held_out:
        yield f"{format.count(view.held_out, 'run')} of held-out tasks left out"
