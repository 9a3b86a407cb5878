"""What moved when a judge's model, rubric, template or goals changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replay.store.handle import Store
from taxonomy.calibration import approval
from taxonomy.calibration.approval import EXPIRES_NS, trust
from taxonomy.calibration.drift import (
    Given,
    Place,
    changed,
    drift,
    drifts,
    judge_sets,
    people_given,
)
from taxonomy.calibration.labels import Label, PlacedLabel
from taxonomy.findings import Item
from taxonomy.judge import scores
from taxonomy.judge.rubrics import Mode
from taxonomy.judge.scores import Judged, ScoreSet
from taxonomy.judgements.schema import open_ledger
from taxonomy.metrics.agreement import Estimate
from taxonomy.step_scores import GROUNDED

TRACE = "0123456789abcdef"
NOBODY = Given(scores={}, items={})


@pytest.fixture
def store() -> Iterator[Store]:
    with open_ledger(":memory:") as opened:
        yield opened


def named(rubric: str, model: str = "m", mode: Mode = "step", goals: str | None = None) -> ScoreSet:
    return ScoreSet(mode=mode, model=model, rubric=rubric, goals=goals)


def scored(
    store: Store, identity: ScoreSet, *values: float, held: tuple[bool | None, ...] = ()
) -> str:
    """Scores of step 0, 1, …, and what each says of an item; returns the set's name."""
    given = [
        Judged(
            step=step,
            span=f"s{step}",
            samples=(value,),
            items=(Item(name=GROUNDED, held=held[step]),) if held else (),
        )
        for step, value in enumerate(values)
    ]
    scores.keep(store, TRACE, identity.by, given)
    return identity.by


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (named("1-aa"), named("1-bb"), ("template",)),
        (named("1-aa"), named("2-bb"), ("rubric",)),
        (named("1-aa"), named("1-aa", model="n:7b"), ("model",)),
        (named("1-aa"), named("1-aa", goals="g"), ("goals",)),
        (named("1-aa"), named("1-bb", model="n", goals="g"), ("model", "template", "goals")),
        (named("1-aa"), named("1-aa"), ()),
    ],
)
def test_two_names_say_what_changed(
    before: ScoreSet, after: ScoreSet, words: tuple[str, ...]
) -> None:
    assert changed(before, after) == words


def test_scores_are_compared_at_the_steps_that_both_scored(store: Store) -> None:
    before = scored(store, named("1-aa"), 0.9, 0.8, 0.2, 0.4, 0.7)
    after = scored(store, named("1-bb"), 0.8, 0.4, 0.1, 0.6)
    (found,) = drifts(judge_sets(store), NOBODY)
    assert (found.before, found.after, found.changed) == (before, after, ("template",))
    assert found.shift.n == found.r.n == found.crossed.n == 4
    assert found.shift.value == pytest.approx((-0.1 - 0.4 - 0.1 + 0.2) / 4)
    assert found.crossed.value == 0.5
    assert found.people_before.r.n == 0


def test_the_set_that_was_added_to_last_is_the_later_one(store: Store) -> None:
    one = scored(store, named("1-aa"), 0.9)
    other = scored(store, named("1-bb"), 0.8)
    assert [each.by for each in judge_sets(store)] == [one, other]
    scored(store, named("1-aa"), 0.7)
    assert [each.by for each in judge_sets(store)] == [other, one]


def test_modes_are_never_compared_and_rules_are_no_judge(store: Store) -> None:
    scored(store, named("1-aa"), 0.9)
    scored(store, named("1-aa", mode="run"), 0.9)
    demo = named("arc rules 1", model="demo")
    scores.keep(store, TRACE, demo.by, [Judged(step=0, span="s0", samples=(0.5,))], "rule")
    sets = judge_sets(store)
    assert [each.identity.mode for each in sets] == ["step", "run"]
    assert list(drifts(sets, NOBODY)) == []


def test_each_is_held_against_people_on_the_same_steps(store: Store) -> None:
    scored(store, named("1-aa"), 0.9, 0.7, 0.5, 0.3, 0.1)
    scored(store, named("1-bb"), 0.1, 0.3, 0.5, 0.7)
    people = Given(scores={Place(TRACE, step): 1 - 0.2 * step for step in range(5)}, items={})
    (found,) = drifts(judge_sets(store), people)
    assert (found.people_before.r.n, found.people_after.r.n) == (4, 4)
    assert found.people_before.r.value == pytest.approx(1.0)
    assert found.people_after.r.value == pytest.approx(-1.0)


def test_items_have_their_turns_and_their_kappas(store: Store) -> None:
    window = named("1-aa", mode="window"), named("1-bb", mode="window")
    scored(store, window[0], *[0.5] * 5, held=(True, True, False, False, None))
    scored(store, window[1], *[0.5] * 5, held=(True, False, False, True, True))
    places = [Place(TRACE, step) for step in range(4)]
    said = (True, True, False, False)
    people = Given(
        scores={}, items={at: {GROUNDED: held} for at, held in zip(places, said, strict=True)}
    )
    (found,) = drifts(judge_sets(store), people)
    (item,) = found.items
    assert (item.item, item.turned.value, item.turned.n) == (GROUNDED, 0.5, 4)
    assert item.kappa.value == 0.0
    assert (item.people_before.value, item.people_after.value) == (1.0, 0.0)


def test_sets_without_a_common_step_have_no_figures(store: Store) -> None:
    for step, rubric in enumerate(("1-aa", "1-bb")):
        given = [Judged(step=step, span="s", samples=(0.5,))]
        scores.keep(store, TRACE, named(rubric).by, given)
    before, after = judge_sets(store)
    found = drift(before, after, NOBODY)
    assert (found.shift.value, found.crossed.value, found.r.value) == (None, None, None)


def test_people_are_the_mean_of_their_scores_and_an_item_only_where_they_agree() -> None:
    labels = [
        Label(trace="a", score=0.2, items={GROUNDED: True, "result read": True}),
        Label(trace="a", score=0.4, items={GROUNDED: False, "result read": True}),
    ]
    placed = [PlacedLabel(label=label, trace=TRACE, step=3) for label in labels]
    given = people_given(
        [*placed, PlacedLabel(label=Label(trace="a", score=1.0), trace="t", step=None)]
    )
    assert given.scores == pytest.approx({Place(TRACE, 3): 0.3})
    assert given.items == {Place(TRACE, 3): {"result read": True}}


class TestTrust:
    BY = "judge:step:m:1-aa"
    R = Estimate(value=0.9, low=0.8, high=0.95, n=50)

    def test_a_verdict_stands_expires_and_was_never_given(self, store: Store) -> None:
        assert trust(store, self.BY, 0).state == "never calibrated"
        approval.keep(store, approval.JudgeApproval(by=self.BY, r=self.R, missing=(), checked_ns=5))
        found = trust(store, self.BY, 6)
        assert (found.state, found.until_ns) == ("approved", 5 + EXPIRES_NS)
        assert trust(store, self.BY, 5 + EXPIRES_NS).state == "expired"
        approval.keep(
            store,
            approval.JudgeApproval(by=self.BY, r=self.R, missing=("r 0.20 is under 0.80",)),
        )
        failed = trust(store, self.BY, 6)
        assert (failed.state, failed.missing) == ("not approved", ("r 0.20 is under 0.80",))

    def test_a_window_stands_by_its_items(self, store: Store) -> None:
        by = "judge:window:m:1-aa"
        approval.keep(store, approval.JudgeApproval(by=by, r=self.R, missing=(approval.BY_ITEM,)))
        assert trust(store, by, 6).state == "never calibrated"
        for item, missing in ((GROUNDED, ()), ("result read", ("κ 0.10 is under 0.60",))):
            approval.keep_item(
                store, approval.ItemGate(by=by, item=item, kappa=self.R, missing=missing)
            )
        found = trust(store, by, 6)
        assert (found.state, found.items) == ("approved", (GROUNDED,))
        assert found.missing == ("result read: κ 0.10 is under 0.60",)
