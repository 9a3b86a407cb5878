"""Which scores and answers may be used without a person looking at each?

People's may; of a judge only what was approved. A judge is approved for its scores, everywhere or
for a category of tasks, where its agreement with people is high enough; the answers to one rubric
item are approved by themselves. Approval ends after 30 days: a set of a judge's scores is trusted,
not trusted, expired, or was never checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from replay.statistics import Rate, rate
from replay.store import answers
from replay.store.handle import Store
from replay.store.rows import trace_rows
from taxonomy.calibration.labelled import Labelled, own_category
from taxonomy.calibration.labels import item_names
from taxonomy.findings import Source, StepScore
from taxonomy.judgements.scores import all_scores, judge_sets
from taxonomy.metrics.agreement import Detection, Estimate, detection, pearson

LEAST_R = 0.80
LEAST_LABELS = 5
"""Labels of each task category."""

LEAST_BANDS = 3
"""Bands of the scale that the labels of each category fall in."""

EXPIRES_NS = 30 * 24 * 3600 * 1_000_000_000

BANDS = ("not achieved", "partial", "with caveats", "achieved")
BAND_EDGES = (0.25, 0.55, 0.85)
"""The judge's four bands; the edges are in the middle of the gaps between them."""

NO_CATEGORY = "all"

BY_ITEM = "rubric items are approved one by one"

_ITEMS_COUNT = "judge:window:"


class Pair(Struct, frozen=True):
    """People's score of a step (or run) and another source's, 0..1, and the task's category."""

    human: float
    other: float
    category: str | None = None


class CategoryGate(Struct, frozen=True, kw_only=True):
    """The verdict on the scores of one category of tasks: passed, or every reason why not.

    `enough`: were there labels enough to say either?
    """

    category: str
    r: Estimate
    missing: tuple[str, ...]
    enough: bool = True

    @property
    def passed(self) -> bool:
        return not self.missing


class JudgeApproval(Struct, frozen=True, kw_only=True):
    """The verdict on one source of scores: passed everywhere, or every reason why not."""

    by: str
    r: Estimate
    missing: tuple[str, ...]
    checked_ns: int = 0
    categories: tuple[CategoryGate, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.missing

    @property
    def passed_somewhere(self) -> bool:
        return self.passed or any(each.passed for each in self.categories)

    @property
    def enough(self) -> bool:
        """Were there labels enough of every category to say either?"""
        return all(each.enough for each in self.categories)

    def covers(self, category: str | None) -> bool:
        """May scores of a run of that category be used? Of a run without one, where such runs or
        else all categories passed."""
        own = [each for each in self.categories if each.category == (category or NO_CATEGORY)]
        if own:
            return own[0].passed
        return self.passed and (category is None or not self.categories)


def band(score: float) -> str:
    """The word for a score."""
    return BANDS[sum(score >= edge for edge in BAND_EDGES)]


def achieved(score: float) -> bool:
    """Is a score in the upper two bands?"""
    return score >= BAND_EDGES[1]


def gate(by: str, pairs: Iterable[Pair], checked_ns: int = 0) -> JudgeApproval:
    """Hold pairs against the gate. Pairs without a category count as one category."""
    known = list(pairs)
    r = _follows(known)
    categories = tuple(_of_category(name, own) for name, own in by_category(known).items())
    missing = [] if len(categories) == 1 else _too_weak(r)
    for each in categories:
        name = "" if len(categories) == 1 else f"{each.category}: "
        missing.extend(f"{name}{why}" for why in each.missing)
    return JudgeApproval(
        by=by,
        r=r,
        missing=(BY_ITEM,) if counts_by_item(by) else tuple(missing),
        checked_ns=checked_ns,
        categories=() if counts_by_item(by) else categories,
    )


def counts_by_item(by: str) -> bool:
    """Is it a judge's set whose scores are shares of rubric items?"""
    if is_own(by):
        return by.startswith("judge:") and ".items-" in by.rpartition(":")[2]
    return by.startswith(_ITEMS_COUNT)


def is_own(by: str) -> bool:
    """Is it a set under a rubric that a user wrote? It may measure something else than how good a
    step is, so it never stands for the score of a step."""
    version = by.rpartition(":")[2]
    return ".items-" in version or ".bands-" in version


def _of_category(category: str, own: Sequence[Pair]) -> CategoryGate:
    r = _follows(own)
    missing = []
    if len(own) < LEAST_LABELS:
        missing.append(f"{len(own)} of at least {LEAST_LABELS} labels")
    met = {band(pair.human) for pair in own}
    if len(met) < LEAST_BANDS:
        named = ", ".join(word for word in BANDS if word in met)
        missing.append(f"labels in {len(met)} of at least {LEAST_BANDS} bands ({named})")
    enough = not missing
    if r.value is not None or enough:
        missing.extend(_too_weak(r))
    return CategoryGate(category=category, r=r, missing=tuple(missing), enough=enough)


def _follows(pairs: Sequence[Pair]) -> Estimate:
    return pearson([pair.human for pair in pairs], [pair.other for pair in pairs])


def by_category(pairs: Iterable[Pair]) -> Mapping[str, list[Pair]]:
    """The pairs of each category, in the order of their names."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[pair.category or NO_CATEGORY].append(pair)
    return dict(sorted(found.items()))


def _too_weak(r: Estimate) -> list[str]:
    if r.value is None:
        return [f"r is not defined on {r.n} labels"]
    said = round(r.value, 2) + 0.0  # no minus before a zero
    return [] if r.value >= LEAST_R else [f"r {said:.2f} is under {LEAST_R:.2f}"]


def keep(store: Store, verdict: JudgeApproval) -> None:
    """Keep a verdict in place of the last one on the same source.

    One on too few labels says nothing against a source: it takes no trust away that stands.
    """
    before = standing(store, verdict.by, verdict.checked_ns)
    if verdict.enough or before is None or not before.passed_somewhere:
        answers.keep(store, _note(verdict.by), verdict)


def kept(store: Store, by: str) -> JudgeApproval | None:
    """The last verdict on a source, expired or not; None without one."""
    return next(
        (each for each in answers.found(store, _note(by), JudgeApproval) if each.by == by), None
    )


def standing(store: Store, by: str, now_ns: int) -> JudgeApproval | None:
    """The verdict on a source as it stands today: None without one, or once it has expired."""
    found = kept(store, by)
    return None if found is None or now_ns - found.checked_ns >= EXPIRES_NS else found


def _note(by: str) -> str:
    return f"calibration {by}"


# --- the answers to one rubric item


class Answers(NamedTuple):
    """An item of a step as people answered it and as a source did, None where it did not."""

    said: bool
    held: bool | None


class ItemAgreement(Struct, frozen=True, kw_only=True):
    """One item of one source beside people's answers.

    `labels` counts the steps that people answered it of and the source looked at, `undecided` those
    of them that it did not answer; every other figure is over the rest. `yes` is the base rate,
    people's share of yes: a source that always says yes agrees so often. `held` has κ, TPR
    (`recall`) and TNR (`specificity`).
    """

    source: Source
    by: str
    item: str
    labels: int
    undecided: int
    yes: Rate
    agreed: Rate
    held: Detection


def item_agreements(runs: Sequence[Labelled]) -> tuple[ItemAgreement, ...]:
    """Every source's every item that a person answered where the source looked, by source."""
    sources: dict[str, Source] = {
        score.by: score.source for run in runs for score in run.scores if score.source != "human"
    }
    return tuple(
        item_agreement(source, by, item, answers)
        for by, source in sorted(sources.items(), key=lambda known: (known[1], known[0]))
        for item, answers in item_answers(runs, by).items()
    )


def item_answers(runs: Iterable[Labelled], by: str) -> dict[str, list[Answers]]:
    """People's answers beside one source's, by item in the order of the rubric.

    One answer a step: where several people gave the same, it counts once; where they differ, not
    at all.
    """
    found: dict[str, list[Answers]] = defaultdict(list)
    for run in runs:
        answered = run.answered(by)
        for step, said in run.answers_said.items():
            if step is not None and step in answered:
                for item, held in said.items():
                    found[item].append(Answers(held, answered[step].get(item)))
    known = item_names()
    names = (*known, *sorted(set(found) - set(known)))  # items of users' rubrics have their own
    return {name: found[name] for name in names if _answered(found[name])}


def _answered(answers: Iterable[Answers]) -> bool:
    """Did the source answer it even once? One that never does has another rubric."""
    return any(each.held is not None for each in answers)


def item_agreement(source: Source, by: str, item: str, answers: Sequence[Answers]) -> ItemAgreement:
    """The figures of one item."""
    pairs = list(_decided(answers))
    return ItemAgreement(
        source=source,
        by=by,
        item=item,
        labels=len(answers),
        undecided=len(answers) - len(pairs),
        yes=rate(sum(said for said, _ in pairs), len(pairs)),
        agreed=rate(sum(said == held for said, held in pairs), len(pairs)),
        held=detection(item, pairs),
    )


def _decided(answers: Iterable[Answers]) -> Iterator[tuple[bool, bool]]:
    for each in answers:
        if each.held is not None:
            yield each.said, each.held


LEAST_KAPPA = 0.60
OVER_KAPPA = 0.40
LEAST_EACH = 5
"""Of people's yes and of their no."""


class ItemGate(Struct, frozen=True, kw_only=True):
    """The verdict on one item of one source: passed, or every reason why not.

    `enough`: were there labels enough to say either?
    """

    by: str
    item: str
    kappa: Estimate
    missing: tuple[str, ...]
    enough: bool = True
    checked_ns: int = 0

    @property
    def passed(self) -> bool:
        return not self.missing


def item_gate(found: ItemAgreement, checked_ns: int = 0) -> ItemGate:
    """Hold the figures of an item against the gate."""
    kappa = found.held.kappa
    counts = {"yes": found.held.tp + found.held.fn, "no": found.held.tn + found.held.fp}
    missing = [
        f"{count} of at least {LEAST_EACH} labels say {word}"
        for word, count in counts.items()
        if count < LEAST_EACH
    ]
    enough = not missing
    if kappa.value is None:
        missing.extend([f"κ is not defined on {kappa.n} labels"] if enough else [])
    elif kappa.value < LEAST_KAPPA:
        missing.append(f"κ {kappa.value:.2f} is under {LEAST_KAPPA:.2f}")
    elif kappa.low <= OVER_KAPPA:
        missing.append(f"κ may be as low as {kappa.low:.2f}; over {OVER_KAPPA:.2f} needed")
    return ItemGate(
        by=found.by,
        item=found.item,
        kappa=kappa,
        missing=tuple(missing),
        enough=enough,
        checked_ns=checked_ns,
    )


def keep_item(store: Store, verdict: ItemGate) -> None:
    """Keep a verdict in place of the last one on the same item of the same source.

    One on too few labels says nothing against an item: it takes no trust away that stands.
    """
    if not verdict.enough and verdict.item in standing_items(store, verdict.by, verdict.checked_ns):
        return
    answers.keep(store, f"{_item_note(verdict.by)}{verdict.item}", verdict)


def kept_items(store: Store, by: str) -> tuple[ItemGate, ...]:
    """The last verdict on each item of a source, expired or not."""
    return tuple(each for each in answers.found(store, _item_note(by), ItemGate) if each.by == by)


def standing_items(store: Store, by: str, now_ns: int) -> frozenset[str]:
    """The items of a source that may be used today."""
    return frozenset(
        each.item
        for each in kept_items(store, by)
        if each.passed and now_ns - each.checked_ns < EXPIRES_NS
    )


def _item_note(by: str) -> str:
    return f"calibration of items {by} · "


# --- how a set of scores stands

State = Literal["approved", "not approved", "expired", "never calibrated"]


class Trust(Struct, frozen=True, kw_only=True):
    """How a set stands. `until_ns` is when its verdict expires or did, None without one.

    `categories` are those of tasks that passed, `items` the rubric items; of scores that passed
    everywhere the first is empty. `missing` says what failed.
    """

    by: str
    state: State
    until_ns: int | None = None
    categories: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def trust(store: Store, by: str, now_ns: int) -> Trust:
    """How the scores of that name stand."""
    return _by_items(store, by, now_ns) if counts_by_item(by) else _by_scores(store, by, now_ns)


def counts_until(store: Store, given: Iterable[StepScore], now_ns: int) -> int | None:
    """When the first of the judges behind scores ceases to be trusted, None without a judge."""
    judges = {score.by for score in given if score.source == "judge"}
    ends = (trust(store, by, now_ns).until_ns for by in judges)
    return min((end for end in ends if end is not None), default=None)


def _by_scores(store: Store, by: str, now_ns: int) -> Trust:
    verdict = kept(store, by)
    if verdict is None:
        return Trust(by=by, state="never calibrated")
    until = verdict.checked_ns + EXPIRES_NS
    passed = tuple(each.category for each in verdict.categories if each.passed)
    if now_ns >= until:
        return Trust(by=by, state="expired", until_ns=until)
    return Trust(
        by=by,
        state="approved" if verdict.passed_somewhere else "not approved",
        until_ns=until,
        categories=() if verdict.passed else passed,
        missing=verdict.missing,
    )


def _by_items(store: Store, by: str, now_ns: int) -> Trust:
    verdicts = kept_items(store, by)
    if not verdicts:
        return Trust(by=by, state="never calibrated")
    fresh = [each for each in verdicts if now_ns < each.checked_ns + EXPIRES_NS]
    if not fresh:
        last = max(each.checked_ns for each in verdicts)
        return Trust(by=by, state="expired", until_ns=last + EXPIRES_NS)
    passed = [each for each in fresh if each.passed]
    return Trust(
        by=by,
        state="approved" if passed else "not approved",
        until_ns=min(each.checked_ns for each in passed or fresh) + EXPIRES_NS,
        items=tuple(each.item for each in passed),
        missing=tuple(f"{each.item}: {why}" for each in fresh for why in each.missing),
    )


def trusted_scores(
    store: Store, trace: str, now_ns: int, step: int | None = None, *, items: bool = True
) -> tuple[StepScore, ...]:
    """The scores of a trace, or of one step, that screens and measures rest on, by step; their
    values alone where what was answered to each of their `items` is not wanted."""
    sets = judge_sets(store, trace)
    passed = [by for by in sets if not is_own(by) and _passed(store, by, trace, now_ns)]
    chosen = max(passed, key=lambda by: (sets[by], by), default=None)
    by_item = chosen is not None and counts_by_item(chosen)
    scores = all_scores(store, trace, step, items=items or by_item)
    kept = tuple(each for each in scores if each.source != "judge" or each.by == chosen)
    if chosen is None or not by_item:
        return kept
    passed_items = standing_items(store, chosen, now_ns)
    return tuple(over(each, passed_items) if each.by == chosen else each for each in kept)


def over(score: StepScore, trusted: frozenset[str]) -> StepScore:
    """The score over the trusted items alone; the others are not in it."""
    items = tuple(each for each in score.items if each.name in trusted)
    held = [each.held for each in items if each.held is not None]
    return structs.replace(score, items=items, value=sum(held) / len(held) if held else None)


def _passed(store: Store, by: str, trace: str, now_ns: int) -> bool:
    if counts_by_item(by):
        return bool(standing_items(store, by, now_ns))
    gate = standing(store, by, now_ns)
    return gate is not None and gate.covers(_category(store, trace))


def _category(store: Store, trace: str) -> str | None:
    return next(map(own_category, trace_rows(store, "trace = ?", [trace], every=True)), None)
