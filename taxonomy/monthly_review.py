"""Which runs should a person read this month, which were read, and what did the reading show?

The ARC article (000), "Behavioral grounding": each month one reads 50 to 100 production runs by
hand, names their failures, and compares how often each occurs with what the evaluation says. A draw
is a sample of runs, spread over what the rules and judges say of them and proportional to it, so
that shares of the sample are shares of all; it is kept, with what was said of each run at the time.
A run is read once somebody tags it, marks it as clean or scores a step of it after the draw.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from replay import digests
from replay.errors import ArcError
from replay.statistics import Rate, rate
from replay.store import answers
from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow
from taxonomy.classes import FailureClass, Shape
from taxonomy.held_out import hidden, parted
from taxonomy.judgements.scores import HumanScore, judge_scores, opinions
from taxonomy.judgements.tags import Word, human_words
from taxonomy.metrics.grounding import Distance, distance, quotas
from taxonomy.query.failures import tag_rows, verdicts
from taxonomy.query.filter import among
from taxonomy.shapes import classify

FEWEST, MOST = 50, 100
"""The article's 50 to 100 runs a month."""

SHARE = Fraction(1, 20)
"""Between those, the spot check of judged runs: at least 5 % of them."""

DAYS = 30
DAY_NS = 86_400 * 10**9
_NOTE = "monthly review "

CLEAN = "clean"
"""What stands in place of a class where nothing is wrong, or nothing was found."""


class Drawn(Struct, frozen=True, kw_only=True):
    """A run of a draw, and what was said of it then: the class that rules and judges suggest first
    (`clean` where they suggest none) and the shape of its scores. `scored` steps had a score of a
    person already."""

    run: str
    trace: str
    stratum: str
    said: str
    shape: str | None = None
    scored: int = 0


class Draw(Struct, frozen=True, kw_only=True):
    """The runs to be read, in the order to read them: any first part of it is a sample too.

    The runs that could be drawn, those of `query` that no earlier draw had, are counted by stratum
    in `strata`. `evaluated` is the query of the runs to compare with, which are never drawn.
    """

    drawn_ns: int
    seed: str
    query: str
    evaluated: str
    strata: dict[str, int]
    runs: tuple[Drawn, ...]

    @property
    def population(self) -> int:
        """How many runs could be drawn."""
        return sum(self.strata.values())

    @property
    def day(self) -> datetime.date:
        """The day of the draw (UTC)."""
        return _day(self.drawn_ns)

    def overdue(self, now: int) -> int | None:
        """For how many days the next draw is due, None where it is not yet."""
        days = (now - self.drawn_ns) // DAY_NS - DAYS
        return days if days >= 0 else None


def _day(at_ns: int) -> datetime.date:
    return datetime.datetime.fromtimestamp(at_ns / 1e9, datetime.UTC).date()


class Read(Struct, frozen=True, kw_only=True):
    """What a person said of a drawn run: the class of their earliest tagged step, `clean`, or None
    where they only scored steps. `blind`: said without seeing what others and rules say."""

    run: str
    by: str
    said: str | None
    shape: str | None
    blind: bool


def draws(store: Store) -> list[Draw]:
    """Every draw, the oldest first."""
    return sorted(answers.found(store, _NOTE, Draw), key=lambda each: each.drawn_ns)


def last_draw(store: Store) -> Draw | None:
    """The latest draw, None before the first."""
    return next(reversed(draws(store)), None)


def size_for(population: int) -> int:
    """How many of so many runs to read: 5 % of them, but at least 50 and at most 100."""
    return min(population, max(FEWEST, min(MOST, math.ceil(population * SHARE))))


def draw(
    store: Store,
    rows: Sequence[TraceRow],
    *,
    query: str = "",
    evaluated: str = "",
    size: int | None = None,
    seed: str | None = None,
) -> Draw:
    """Draw from these runs and keep it. The same runs and seed draw the same.

    Left out are runs without steps, of held-out tasks, and of earlier draws. `seed` None: the day.
    Raises ArcError where no run is left.
    """
    before = {each.run for past in draws(store) for each in past.runs}
    shown, _ = parted([row for row in rows if row.steps], hidden(store))
    left = [row for row in shown if row.run not in before]
    if not left:
        raise ArcError(f"No run to draw: {_why_none(rows, shown)}", "Try: arc import PATH")
    now = now_ns()
    known = seed if seed is not None else _day(now).isoformat()
    strata = _strata(store, left)
    wanted = min(size, len(left)) if size is not None else size_for(len(left))
    sizes = Counter(each.stratum for each in strata)
    quota = quotas(sizes, Fraction(wanted, len(left)))
    ordered = sorted(strata, key=lambda each: digests.digest("monthly review", known, each.run))
    taken: Counter[str] = Counter()
    chosen: list[Drawn] = []
    for each in ordered:
        taken[each.stratum] += 1
        if taken[each.stratum] <= quota[each.stratum]:
            chosen.append(each)
    made = Draw(
        drawn_ns=now,
        seed=known,
        query=query,
        evaluated=evaluated,
        strata=dict(sizes),
        runs=tuple(chosen),
    )
    answers.keep(store, f"{_NOTE}{now:020d}", made)
    return made


def _why_none(rows: Sequence[TraceRow], shown: Sequence[TraceRow]) -> str:
    if shown:
        return f"all {len(shown)} that match were drawn before"
    return "those that match have no steps, or held-out tasks" if rows else "none matches"


def _strata(store: Store, rows: Sequence[TraceRow]) -> list[Drawn]:
    """Each run with its stratum: what it is suggested to have failed by, its shape, its judge."""
    traces = [row.trace for row in rows]
    said, shapes = first_classes(store, traces), verdicts(store)
    judged: dict[str, list[float]] = defaultdict(list)
    for trace, score in judge_scores(store):
        if score.value is not None:
            judged[trace].append(score.value)
    scored = Counter(each.trace for each in opinions(store))
    found = []
    for row in rows:
        verdict = shapes.get(row.trace)
        shape = verdict.shape.value if verdict is not None and verdict.shape is not None else None
        word = said.get(row.trace, CLEAN)
        parts = (word, shape or "no shape", _judge_word(judged.get(row.trace, ())))
        found.append(
            Drawn(
                run=row.run,
                trace=row.trace,
                stratum=" · ".join(parts),
                said=word,
                shape=shape,
                scored=scored[row.trace],
            )
        )
    return found


def _judge_word(values: Sequence[float]) -> str:
    if not values:
        return "not judged"
    return "judged .5 or more" if sum(values) / len(values) >= 0.5 else "judged under .5"


def first_classes(store: Store, traces: Iterable[str], *, people: bool = False) -> dict[str, str]:
    """The class that comes first of each trace, of rules and judges alone or, with `people`, of
    whoever is trusted most; traces of which nothing is said are left out."""
    found: dict[str, str] = {}
    where = "trace IN (SELECT value FROM json_each(?))"
    for row in tag_rows(store, where, (among(traces),)):
        if people or row.source in ("rule", "judge"):
            found.setdefault(row.trace, row.failure.value)
    return found


# --- what was read


def reads(store: Store, given: Draw) -> dict[str, Read]:
    """The runs of a draw that somebody has read since, each with the first reader's word."""
    drawn = {each.run: each for each in given.runs}
    words: dict[str, list[Word]] = defaultdict(list)
    for word in human_words(store):
        if word.run in drawn and word.said_ns >= given.drawn_ns:
            words[word.run].append(word)
    scores: dict[str, list[HumanScore]] = defaultdict(list)
    for score in opinions(store):
        scores[score.trace].append(score)
    found = {}
    for run, each in drawn.items():
        own, scored = words.get(run, []), scores.get(each.trace, [])
        if own or len(scored) > each.scored:
            found[run] = _read(run, own, scored)
    return found


def _read(run: str, words: Sequence[Word], scored: Sequence[HumanScore]) -> Read:
    if not words:
        by = scored[-1].by
        return Read(run=run, by=by, said=None, shape=_scored_shape(scored, by), blind=False)
    by = min(words, key=lambda word: word.said_ns).by
    own = [word for word in words if word.by == by]
    tags = sorted(
        (word for word in own if word.failure is not None and not _names_shape(word)),
        key=lambda word: word.step or 0,
    )
    clean = any(word.failure is None for word in own)
    named = next((word.sub for word in own if _names_shape(word)), None)
    said = tags[0].failure.value if tags and tags[0].failure is not None else None
    return Read(
        run=run,
        by=by,
        said=CLEAN if clean else said,
        shape=named or _scored_shape(scored, by) or (Shape.HEALTHY.value if clean else None),
        blind=all(word.blind for word in own),
    )


_SHAPES = frozenset(shape.value for shape in Shape)


def _names_shape(word: Word) -> bool:
    """A tag `other` with the name of a shape says the shape, and no class."""
    return word.failure is FailureClass.OTHER and word.sub in _SHAPES


def _scored_shape(scored: Sequence[HumanScore], by: str) -> str | None:
    values = {each.step: each.value for each in scored if each.by == by and each.value is not None}
    shape = classify([values[step] for step in sorted(values)])
    return None if shape is None else shape.value


# --- what the reading showed


class Compared(Struct, frozen=True, kw_only=True):
    """One thing (classes or shapes) as people read it, as rules and judges said it of the same
    runs, and as it stands in the evaluation. `same` counts the runs where people and rules agree.

    `apart` is people against the evaluation, in points; None where either counts nothing.
    """

    read: dict[str, int]
    said: dict[str, int]
    evaluated: dict[str, int]
    same: Rate
    apart: Distance | None


class Shown(Struct, frozen=True, kw_only=True):
    """What reading the runs of a draw showed so far; `read` of them, `blind` of those blind.

    `drawn_apart` is the shapes of all drawn runs by their scores, read or not, against those of the
    evaluation.
    """

    read: int
    of: int
    blind: int
    classes: Compared
    shapes: Compared
    drawn_apart: Distance | None


def compare_reading(store: Store, given: Draw, evaluated: Sequence[TraceRow] = ()) -> Shown:
    """What people found in the runs they read, against the rules and the evaluation's runs."""
    found = reads(store, given)
    drawn = {each.run: each for each in given.runs}
    own = {row.trace: row for row in evaluated if row.steps}
    words = first_classes(store, own, people=True)
    verdict_of = verdicts(store) if own else {}
    shapes = [
        verdict.shape.value
        for trace in own
        if (verdict := verdict_of.get(trace)) is not None and verdict.shape is not None
    ]
    return Shown(
        read=len(found),
        of=len(given.runs),
        blind=sum(each.blind for each in found.values()),
        classes=_compare(
            {run: (each.said, drawn[run].said) for run, each in found.items()},
            [words.get(trace, CLEAN) for trace in own],
        ),
        shapes=_compare(
            {run: (each.shape, drawn[run].shape) for run, each in found.items()}, shapes
        ),
        drawn_apart=distance(
            Counter(shapes), Counter(each.shape for each in given.runs if each.shape is not None)
        ),
    )


def _compare(
    pairs: Mapping[str, tuple[str | None, str | None]], evaluated: Sequence[str]
) -> Compared:
    """Of the runs that people and rules both have a word on."""
    both = [(read, said) for read, said in pairs.values() if read is not None and said is not None]
    read = Counter(each for each, _ in both)
    return Compared(
        read=dict(read),
        said=dict(Counter(each for _, each in both)),
        evaluated=dict(Counter(evaluated)),
        same=rate(sum(one == other for one, other in both), len(both)),
        apart=distance(Counter(evaluated), read),
    )
