"""The monthly review as text: which runs to read by hand, how many are read, what that showed."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.tables import Table, counted
from arc_tui.views.runs import run_rows
from replay.statistics import rate
from replay.store.handle import Store, now_ns
from replay.trace import GOLDEN
from taxonomy.metrics.grounding import APART, FAR_APART, PRODUCTION, Distance
from taxonomy.monthly_review import (
    DAY_NS,
    DAYS,
    FEWEST,
    MOST,
    SHARE,
    Compared,
    Draw,
    Shown,
    compare_reading,
    draw,
    last_draw,
)
from taxonomy.queue import Waiting, queue

REASON = "monthly review"
EVALUATED = f"label:{GOLDEN}"
"""The runs that were measured on a golden set."""


class ReviewRequest(Struct, frozen=True, kw_only=True):
    """What was asked: draw anew (`draw`), from which runs, how many, by which seed; which runs are
    the evaluation (None: those measured on a golden set)."""

    draw: bool = False
    query: str = ""
    size: int | None = None
    seed: str | None = None
    evaluated: str | None = None


class ReviewView(Struct, frozen=True, eq=False, kw_only=True):
    """A draw, what waits of it for a person, and what it showed; `overdue` in days, None where the
    next draw is not due. `new`: drawn just now."""

    draw: Draw
    new: bool
    overdue: int | None
    evaluated: str
    shown: Shown
    waiting: tuple[Waiting, ...]


def build_review(store: Store, request: ReviewRequest, by: str) -> ReviewView:
    """The last draw, or a new one where it is asked for or none was made yet.

    Raises ArcError where no run is left to draw, BadQuery for a query that is none.
    """
    given = None if request.draw else last_draw(store)
    new = given is None
    if given is None:
        evaluated = request.evaluated if request.evaluated is not None else EVALUATED
        known = {row.run for row in run_rows(store, evaluated)}
        given = draw(
            store,
            [row for row in run_rows(store, request.query) if row.run not in known],
            query=request.query,
            evaluated=evaluated,
            size=request.size,
            seed=request.seed,
        )
    evaluated = request.evaluated if request.evaluated is not None else given.evaluated
    drawn = {each.run for each in given.runs}
    others = [row for row in run_rows(store, evaluated) if row.run not in drawn]
    found = queue(store, by)
    return ReviewView(
        draw=given,
        new=new,
        overdue=given.overdue(now_ns()),
        evaluated=evaluated,
        shown=compare_reading(store, given, others),
        waiting=tuple(each for each in found.waiting if each.reason == REASON),
    )


def head(view: ReviewView) -> str:
    """`12 of 50 read · drawn 2026-11-28 · next draw in 18 days`."""
    read = f"{view.shown.read} of {view.shown.of} read"
    return f"{read} · drawn {view.draw.day} · {due(view)}"


def due(view: ReviewView) -> str:
    """When the next draw is due."""
    if view.overdue is None:
        left = DAYS - (now_ns() - view.draw.drawn_ns) // DAY_NS
        return f"next draw due in {format.count(int(left), 'day')}"
    return f"next draw {overdue_text(view.overdue)}. {NEXT}"


NEXT = "Try: arc review --audit --draw"


def overdue_text(days: int) -> str:
    """`due since 12 days`."""
    return f"due since {format.count(days, 'day')}" if days else "due today"


def overdue(store: Store) -> str:
    """What reminds of a draw that is due; "" where none is, or none was ever made."""
    given = last_draw(store)
    days = given.overdue(now_ns()) if given is not None else None
    return "" if days is None else f"monthly review: {overdue_text(days)}. {NEXT}"


def why_so_many(view: ReviewView) -> str:
    """The size of the draw, and why it is that."""
    size, population = len(view.draw.runs), view.draw.population
    seed = format.one_line(view.draw.seed)
    drawn = f"{size} of {format.count(population, 'run')} drawn, seed {seed}"
    if size == population:
        return f"{drawn}: all that no earlier draw had"
    rule = f"default: {SHARE * 100} % of the runs, at least {FEWEST} and at most {MOST}"
    had = {each.stratum for each in view.draw.runs}
    without = [name for name in view.draw.strata if name not in had]
    runs = sum(view.draw.strata[name] for name in without)
    left = f"; {format.count(runs, 'run')} in kinds too rare to be in it" if without else ""
    kinds = "each kind of run (by class, shape, judge's verdict) has its share of all"
    return f"{drawn} ({rule}): {kinds}{left}"


def tables(view: ReviewView) -> Iterator[Table]:
    """What the reading showed: by class, then by shape; nothing before the first run is read."""
    if not view.shown.read:
        return
    yield _table("classes", view, view.shown.classes)
    if view.shown.shapes.read:
        yield _table("shapes", view, view.shown.shapes)


def _table(title: str, view: ReviewView, found: Compared) -> Table:
    every = {*found.read, *found.said, *found.evaluated}
    names = sorted(every, key=lambda name: (-found.read.get(name, 0), name))
    n, evaluated = sum(found.read.values()), sum(found.evaluated.values())
    return Table(
        title=f"{title} · {format.count(n, 'run')} read",
        columns=("", "people", "rules and judges", "evaluation"),
        rows=tuple(
            (
                name,
                counted(rate(found.read.get(name, 0), n)),
                counted(rate(found.said.get(name, 0), n)),
                counted(rate(found.evaluated.get(name, 0), evaluated)),
            )
            for name in names
        ),
        notes=tuple(_notes(title, view, found)),
    )


def _notes(title: str, view: ReviewView, found: Compared) -> Iterator[str]:
    yield f"agreement of people with rules and judges: {counted(found.same)}"
    if title == "shapes":
        yield "a run marked as clean counts as healthy"
    blind = view.shown.blind
    if title == "classes" and blind < view.shown.read:
        yield (
            f"{blind} of {view.shown.read} read blind; whoever sees suggestions agrees with them"
            " too often: this agreement is an upper bound"
        )
    if found.apart is not None:
        yield apart_text(title, found.apart, "people")
    else:
        query = format.one_line(view.evaluated)
        yield f"evaluation: no run matches '{query}'. Try: arc review --audit --evaluation QUERY"


def apart_text(what: str, found: Distance, by: str) -> str:
    """What the distance from the evaluation means, in the article's thresholds."""
    points = found.points[found.widest]
    evaluated, read = found.runs
    than = f"{abs(points):.0f} points {'more' if points > 0 else 'less'} than in the evaluation"
    told = f"{what} by {by}: {found.widest} {than} (n = {read} against {evaluated})"
    if min(read, evaluated) < PRODUCTION:
        return f"{told}; a hint: under {PRODUCTION} runs"
    if found.reading == "alike":
        return f"{told}; within {APART:.0f}: alike"
    if found.reading == "watch":
        return f"{told}; between {APART:.0f} and {FAR_APART:.0f}: watch"
    return (
        f"{told}; over {FAR_APART:.0f}: the evaluation's tasks are not like these runs, or the"
        f" {what} need revision"
    )


def last_lines(view: ReviewView) -> Iterator[str]:
    """What is said below the tables."""
    if view.shown.drawn_apart is not None:
        yield apart_text("shapes", view.shown.drawn_apart, "their scores, all drawn runs")
    if view.waiting:
        yield "Read them with T in the app, or Q to read blind; tag, mark as clean or score each"
        yield "A shape is said with: arc tag add RUN STEP other --sub 'late drift'"
