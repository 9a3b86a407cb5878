"""May scores be trusted? Only where they follow people's, on enough labels, for a while."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from replay.store.handle import Store
from taxonomy.calibration.approval import (
    BANDS,
    BY_ITEM,
    EXPIRES_NS,
    JudgeApproval,
    Pair,
    achieved,
    band,
    gate,
    keep,
    standing,
)

GOOD = [Pair(score / 10, min(1.0, score / 10 + 0.02 * (score % 3))) for score in range(11)]

OPPOSITE = [Pair(pair.human, 1 - pair.other) for pair in GOOD]


class TestGate:
    def test_scores_that_follow_people_s_over_the_whole_range_pass(self) -> None:
        assert gate("judge", GOOD).passed

    def test_a_weak_r_does_not_pass_and_says_how_weak(self) -> None:
        found = gate("judge", OPPOSITE)
        assert not found.passed
        assert found.missing == (f"r {found.r.value:.2f} is under 0.80",)

    def test_every_category_needs_its_own_five_labels_across_the_range(self) -> None:
        shop = [structs.replace(pair, category="shop") for pair in GOOD]
        code = [Pair(0.9, 0.9, "code"), Pair(0.95, 0.92, "code")]
        missing = gate("judge", [*shop, *code]).missing
        assert missing == (
            "code: 2 of at least 5 labels",
            "code: labels in 1 of at least 3 bands (achieved)",
        )

    def test_every_category_needs_an_r_of_its_own(self) -> None:
        """Told apart by category alone, the scores of either say nothing within it."""
        easy = [Pair(0.9 - 0.1 * at, 0.9 + 0.01 * at, "easy") for at in range(8)]
        hard = [Pair(0.7 - 0.1 * at, 0.1 + 0.01 * at, "hard") for at in range(8)]
        found = gate("judge", [*easy, *hard])
        assert not found.passed
        assert [each.passed for each in found.categories] == [False, False]
        assert "easy: r -1.00 is under 0.80" in found.missing

    def test_a_category_passes_alone_and_one_that_nobody_labelled_does_not(self) -> None:
        shop = [structs.replace(pair, category="shop") for pair in GOOD]
        found = gate("judge", [*shop, Pair(0.9, 0.9, "code")])
        covered = {name: found.covers(name) for name in ("shop", "code", "travel", None)}
        assert covered == {"shop": True, "code": False, "travel": False, None: False}

    def test_runs_without_a_category_are_a_category(self) -> None:
        assert gate("judge", GOOD).covers(None)
        assert not gate("judge", GOOD).covers("shop")
        assert gate("judge", [*GOOD, Pair(0.9, 0.9, "code")]).covers(None)

    def test_scores_that_are_a_share_of_items_pass_nothing_as_a_whole(self) -> None:
        found = gate("judge:window:m:1", GOOD)
        assert found.missing == (BY_ITEM,)
        assert (found.r.value or 0) > 0.9

    def test_no_labels_pass_nothing(self) -> None:
        found = gate("judge", [])
        assert found.missing == ("r is not defined on 0 labels",)

    @pytest.mark.parametrize(
        ("score", "word"),
        [(0.0, 0), (0.2, 0), (0.3, 1), (0.5, 1), (0.6, 2), (0.8, 2), (0.9, 3), (1.0, 3)],
    )
    def test_the_bands_are_the_judge_s_own(self, score: float, word: int) -> None:
        assert band(score) == BANDS[word]
        assert achieved(score) == (word >= 2)

    def test_a_verdict_stands_for_thirty_days_and_for_its_own_version_only(
        self, tmp_path: Path
    ) -> None:
        with Store.open(tmp_path / "arc.db") as store:
            keep(store, gate("judge:step:m:1", GOOD, checked_ns=1000))
            found = standing(store, "judge:step:m:1", 1000 + EXPIRES_NS - 1)
            assert isinstance(found, JudgeApproval)
            assert found.passed
            assert standing(store, "judge:step:m:1", 1000 + EXPIRES_NS) is None
            assert standing(store, "judge:step:m:2", 1000) is None
            assert standing(store, "judge:step:m", 1000) is None

    def test_a_later_verdict_replaces_the_earlier_one(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "arc.db") as store:
            keep(store, gate("judge", GOOD, checked_ns=1))
            keep(store, gate("judge", OPPOSITE, checked_ns=2))
            found = standing(store, "judge", 3)
            assert found is not None
            assert not found.passed

    def test_too_few_labels_take_no_trust_away_that_stands(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "arc.db") as store:
            keep(store, gate("judge", GOOD, checked_ns=1))
            keep(store, gate("judge", OPPOSITE[:2], checked_ns=2))
            found = standing(store, "judge", 3)
            assert found is not None
            assert found.passed
            keep(store, gate("judge", OPPOSITE[:2], checked_ns=1 + EXPIRES_NS))
            later = standing(store, "judge", 2 + EXPIRES_NS)
            assert later is not None
            assert not later.passed
