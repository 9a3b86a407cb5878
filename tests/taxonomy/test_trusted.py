"""Scores that may be used without asking: of a judge, only what was checked and still stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.store.handle import Store
from replay.trace import Header, Outcome
from taxonomy.calibration import approval
from taxonomy.calibration.approval import counts_until, trusted_scores
from taxonomy.findings import Item, Source, StepScore
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import keep_scores
from taxonomy.metrics.agreement import Estimate
from taxonomy.step_scores import GROUNDED, READ, VERIFIED
from tests.arc_tui.sample import put
from tests.build import trace

TRACE, DAY_NS = "0123456789abcdef", 24 * 3600 * 10**9


@pytest.fixture
def store() -> Iterator[Store]:
    with open_ledger(":memory:") as opened:
        yield opened


def scored(store: Store, by: str, source: Source, steps: int) -> None:
    given = (
        StepScore(step=step, value=0.5, source=source, by=by, span=f"s{step}")
        for step in range(steps)
    )
    keep_scores(store, TRACE, given)


def checked(store: Store, by: str, *missing: str, at_ns: int = 0) -> None:
    r = Estimate(value=0.9, low=0.8, high=0.95, n=50)
    approval.keep(store, approval.JudgeApproval(by=by, r=r, missing=missing, checked_ns=at_ns))


def names(store: Store, now_ns: int = DAY_NS, step: int | None = None) -> set[str]:
    return {score.by for score in trusted_scores(store, TRACE, now_ns, step)}


def test_a_judge_nobody_checked_is_left_out_and_everyone_else_is_there(store: Store) -> None:
    scored(store, "me", "human", 1)
    scored(store, "arc rules 1", "rule", 3)
    scored(store, "judge:step:m:1", "judge", 3)
    assert names(store) == {"me", "arc rules 1"}


def test_a_judge_counts_while_its_calibration_stands(store: Store) -> None:
    scored(store, "judge:step:m:1", "judge", 3)
    checked(store, "judge:step:m:1")
    assert names(store) == {"judge:step:m:1"}
    assert names(store, now_ns=31 * DAY_NS) == set()


def test_a_judge_that_failed_its_check_is_left_out(store: Store) -> None:
    scored(store, "judge:step:m:1", "judge", 3)
    checked(store, "judge:step:m:1", "r is under .80")
    assert names(store) == set()


def test_sets_of_a_judge_are_never_mixed(store: Store) -> None:
    scored(store, "judge:step:m:1", "judge", 3)
    scored(store, "judge:run:m:1", "judge", 2)
    checked(store, "judge:step:m:1")
    checked(store, "judge:run:m:1")
    assert names(store) == {"judge:step:m:1"}
    assert names(store, step=0) == {"judge:step:m:1"}


def test_scores_count_until_the_first_of_their_judges_expires(store: Store) -> None:
    def until(*by: str) -> int | None:
        scores = [StepScore(step=0, value=0.5, source="judge", by=each) for each in by]
        person = StepScore(step=1, value=0.5, source="human", by="me")
        return counts_until(store, [person, *scores], DAY_NS)

    checked(store, "judge:step:m:1", at_ns=DAY_NS)
    checked(store, "judge:run:m:1")
    assert until() is None
    assert until("judge:step:m:1") == 31 * DAY_NS
    assert until("judge:step:m:1", "judge:run:m:1") == 30 * DAY_NS


class TestItems:
    """In mode `window` an item counts only while its own verdict stands."""

    BY = "judge:window:m:1"
    ITEMS = (
        Item(name=GROUNDED, held=True, because="seen [1]"),
        Item(name=READ, held=False, because="ignored [2]"),
        Item(name=VERIFIED, held=None),
    )

    def given(self, store: Store) -> None:
        score = StepScore(step=0, value=0.5, source="judge", by=self.BY, items=self.ITEMS)
        keep_scores(store, TRACE, [score])

    def passed(self, store: Store, *items: str, at_ns: int = 0) -> None:
        kappa = Estimate(value=0.8, low=0.6, high=0.9, n=40)
        for item in items:
            verdict = approval.ItemGate(
                by=self.BY, item=item, kappa=kappa, missing=(), checked_ns=at_ns
            )
            approval.keep_item(store, verdict)

    def score(self, store: Store, now_ns: int = DAY_NS) -> StepScore | None:
        return next(iter(trusted_scores(store, TRACE, now_ns)), None)

    def test_without_a_verdict_on_an_item_nothing_counts(self, store: Store) -> None:
        self.given(store)
        checked(store, self.BY)
        assert self.score(store) is None

    def test_the_score_is_the_share_of_yes_among_the_items_that_passed(self, store: Store) -> None:
        self.given(store)
        self.passed(store, GROUNDED)
        found = self.score(store)
        assert found is not None
        assert (found.value, [item.name for item in found.items]) == (1.0, [GROUNDED])
        self.passed(store, READ)
        found = self.score(store)
        assert found is not None
        assert found.value == 0.5

    def test_items_that_passed_and_were_not_decided_give_no_score(self, store: Store) -> None:
        self.given(store)
        self.passed(store, VERIFIED)
        found = self.score(store)
        assert found is not None
        assert found.value is None

    def test_each_item_expires_by_itself(self, store: Store) -> None:
        self.given(store)
        self.passed(store, GROUNDED)
        self.passed(store, READ, at_ns=20 * DAY_NS)
        found = self.score(store, now_ns=31 * DAY_NS)
        assert found is not None
        assert [item.name for item in found.items] == [READ]
        assert self.score(store, now_ns=51 * DAY_NS) is None

    def test_too_few_labels_take_no_trust_away_that_stands(self, store: Store) -> None:
        self.passed(store, GROUNDED)
        for enough, standing in ((False, {GROUNDED}), (True, set())):
            verdict = approval.ItemGate(
                by=self.BY,
                item=GROUNDED,
                kappa=Estimate(value=None, n=1),
                missing=("1 of at least 5 labels say no",),
                enough=enough,
                checked_ns=1,
            )
            approval.keep_item(store, verdict)
            assert approval.standing_items(store, self.BY, DAY_NS) == standing

    def test_another_template_has_no_verdict(self, store: Store) -> None:
        self.passed(store, GROUNDED)
        assert approval.standing_items(store, self.BY, DAY_NS) == {GROUNDED}
        assert approval.standing_items(store, "judge:window:m:2", DAY_NS) == frozenset()
        assert approval.standing_items(store, "judge:window:m", DAY_NS) == frozenset()


class TestCategories:
    BY = "judge:step:m:1"

    def verdict(self, store: Store) -> None:
        r = Estimate(value=0.9, low=0.8, high=0.95, n=50)
        approval.keep(
            store,
            approval.JudgeApproval(
                by=self.BY,
                r=r,
                missing=("code: 2 of at least 5 labels",),
                categories=(
                    approval.CategoryGate(
                        category="code", r=r, missing=("2 of at least 5 labels",)
                    ),
                    approval.CategoryGate(category="shop", r=r, missing=()),
                ),
            ),
        )

    @pytest.mark.parametrize(
        ("category", "counts"), [("shop", True), ("code", False), ("travel", False), (None, False)]
    )
    def test_a_judge_counts_where_the_category_of_the_run_passed(
        self, tmp_path: Path, category: str | None, counts: bool
    ) -> None:
        path = tmp_path / "arc.db"
        labels = {"category": category} if category else {}
        head = Header(
            format="built", source_id="r", path="/r.json", outcome=Outcome(), labels=labels
        )
        key = put(path, head, trace(["One.", "Two."]).spans)
        with open_ledger(path) as store:
            score = StepScore(step=0, value=0.5, source="judge", by=self.BY, span="s")
            keep_scores(store, key, [score])
            self.verdict(store)
            judged = [s for s in trusted_scores(store, key, DAY_NS) if s.source == "judge"]
        assert bool(judged) == counts
