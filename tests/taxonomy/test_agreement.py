"""Agreement against known answers, and what it promises for any two raters."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.metrics.agreement import (
    confusion,
    detection,
    kappa,
    macro_f1,
    mean_difference,
    pearson,
    ranks,
    spearman,
)

ANSCOMBE_X = [10.0, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
ANSCOMBE_Y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]

scores = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=30)
words = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=30)


def columns(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [one for one, _ in pairs], [other for _, other in pairs]


class TestCorrelation:
    def test_anscombe_s_first_quartet_has_its_published_r_and_fisher_s_interval(self) -> None:
        found = pearson(ANSCOMBE_X, ANSCOMBE_Y)
        assert found.n == 11
        assert [found.value, found.low, found.high] == pytest.approx(
            [0.816, 0.424, 0.951], abs=1e-3
        )

    def test_spearman_sees_only_the_order(self) -> None:
        curved = [x**3 for x in ANSCOMBE_X]
        assert pearson(ANSCOMBE_X, curved).value != pytest.approx(1.0)
        assert spearman(ANSCOMBE_X, curved).value == pytest.approx(1.0)

    def test_equal_values_share_the_middle_of_their_ranks(self) -> None:
        assert ranks([0.5, 0.1, 0.5, 0.9]) == [2.5, 1, 2.5, 4]

    def test_spearman_with_ties_has_its_known_value(self) -> None:
        found = spearman([1, 2, 2, 3, 5], [2, 1, 3, 4, 5])
        assert found.value == pytest.approx(0.8208, abs=1e-4)

    @pytest.mark.parametrize("pairs", [[], [(0.1, 0.2)], [(0.1, 0.2), (0.3, 0.4)]])
    def test_fewer_than_three_pairs_have_no_r(self, pairs: list[tuple[float, float]]) -> None:
        found = pearson(*columns(pairs))
        assert (found.value, found.low, found.high) == (None, -1.0, 1.0)

    def test_a_rater_that_never_varies_has_no_r(self) -> None:
        assert pearson([0.5, 0.5, 0.5, 0.5], [0.1, 0.4, 0.6, 0.9]).value is None

    def test_a_perfect_r_claims_nothing_of_other_labels(self) -> None:
        found = pearson([0.1, 0.5, 0.9, 0.7], [0.2, 0.6, 1.0, 0.8])
        assert found.value == pytest.approx(1.0)
        assert (found.low, found.high) == (-1.0, 1.0)

    @given(scores)
    def test_it_is_total_symmetric_and_within_its_interval(
        self, pairs: list[tuple[float, float]]
    ) -> None:
        one, other = columns(pairs)
        found = pearson(one, other)
        assert found.n == len(pairs)
        if found.value is not None:
            assert -1 <= found.low <= found.value + 1e-12
            assert found.value - 1e-12 <= found.high <= 1
            assert pearson(other, one).value == pytest.approx(found.value, abs=1e-9)


class TestMeanDifference:
    def test_the_textbook_pairs_have_student_s_interval(self) -> None:
        before = [0.50, 0.60, 0.40, 0.70, 0.50]
        after = [0.60, 0.65, 0.55, 0.70, 0.70]
        found = mean_difference(before, after)
        assert found.n == 5
        # mean .1, standard deviation .0791, t(4) 2.776: half width .0982
        assert [found.value, found.low, found.high] == pytest.approx(
            [0.1, 0.0018, 0.1982], abs=1e-3
        )

    @pytest.mark.parametrize("n", [1, 2, 9])
    def test_equal_differences_and_fewer_than_three_have_the_widest_interval(self, n: int) -> None:
        found = mean_difference([0.2] * n, [0.3] * n)
        assert found.value == pytest.approx(0.1)
        assert (found.low, found.high) == (-1.0, 1.0)

    @given(scores)
    def test_it_is_total_and_turns_with_its_sides(self, pairs: list[tuple[float, float]]) -> None:
        one, other = columns(pairs)
        found, turned = mean_difference(one, other), mean_difference(other, one)
        if found.value is None:
            assert not pairs
        else:
            assert found.value == -(turned.value or 0.0)
            assert -1 <= found.low <= found.value <= found.high <= 1


class TestKappa:
    def test_the_textbook_table_of_twenty_five_ten_fifteen(self) -> None:
        pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
        found = kappa(pairs)
        assert found.value == pytest.approx(0.4)
        assert [found.low, found.high] == pytest.approx([0.155, 0.645], abs=0.01)

    def test_chance_alone_is_no_agreement(self) -> None:
        assert kappa([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]).value == pytest.approx(0.0)

    def test_a_rater_who_always_says_the_same_has_judged_nothing(self) -> None:
        assert kappa([("y", "n")] * 3 + [("n", "n")] * 7).value is None
        assert kappa([("y", "y")] * 9).value is None

    def test_perfect_agreement_on_few_labels_keeps_a_wide_interval(self) -> None:
        few = kappa([("y", "y"), ("n", "n")] * 2)
        many = kappa([("y", "y"), ("n", "n")] * 100)
        assert (few.value, many.value) == (1.0, 1.0)
        assert few.low < 0.1
        assert 0.9 < many.low < 1

    def test_the_interval_holds_the_truth_about_as_often_as_it_says(self) -> None:
        chance = random.Random(5)
        held = 0
        for _ in range(400):
            pairs = []
            for _ in range(120):
                truth = chance.random() < 0.4
                pairs.append((truth, truth if chance.random() < 0.6 else chance.random() < 0.4))
            found = kappa(pairs)
            held += found.low <= 0.6 <= found.high
        assert 0.91 <= held / 400 <= 0.985

    def test_it_is_the_same_to_the_last_digit_whatever_the_order(self) -> None:
        chance = random.Random(7)
        names = list(range(7))
        pairs = [(chance.choice(names), chance.choice(names)) for _ in range(97)]
        found = kappa(pairs)
        for _ in range(200):
            chance.shuffle(names)  # a set of them is walked in another order
            chance.shuffle(pairs)
            assert kappa((names[one], names[other]) for one, other in pairs) == found

    @given(words)
    def test_it_is_total_symmetric_and_within_its_interval(
        self, pairs: list[tuple[str, str]]
    ) -> None:
        found = kappa(pairs)
        assert -1 <= found.low <= found.high <= 1
        swapped = kappa((other, one) for one, other in pairs)
        assert swapped.value == pytest.approx(found.value)
        if found.value is not None:
            assert found.low - 1e-9 <= found.value <= found.high + 1e-9


class TestDetection:
    def test_counts_become_rates_with_their_n(self) -> None:
        pairs = [(True, True)] * 6 + [(False, True)] * 2 + [(True, False)] * 3
        found = detection("loop", pairs + [(False, False)] * 9)
        assert (found.tp, found.fp, found.fn, found.tn) == (6, 2, 3, 9)
        assert (found.precision.value, found.precision.n) == (6 / 8, 8)
        assert (found.recall.value, found.recall.n) == (6 / 9, 9)
        assert (found.specificity.value, found.specificity.n) == (9 / 11, 11)
        assert found.f1.value == pytest.approx(2 * 6 / (2 * 6 + 2 + 3))
        assert found.f1.low < 12 / 17 < found.f1.high

    def test_a_class_nobody_names_has_no_f1_and_does_not_weigh_in_the_mean(self) -> None:
        silent = detection("loop", [(False, False)] * 5)
        right = detection("gave up", [(True, True)] * 5)
        assert silent.f1.value is None
        assert (macro_f1([silent, right]).value, macro_f1([silent, right]).classes) == (1.0, 1)
        assert macro_f1([silent]).value is None

    def test_a_class_that_is_only_found_pulls_the_mean_down(self) -> None:
        false = detection("loop", [(False, True)])
        right = detection("gave up", [(True, True)])
        assert macro_f1([false, right]).value == 0.5

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
    def test_f1_lies_between_precision_and_recall(self, pairs: list[tuple[bool, bool]]) -> None:
        found = detection("x", pairs)
        if found.f1.value is None or found.precision.value is None or found.recall.value is None:
            return
        ends = sorted([found.precision.value, found.recall.value])
        assert ends[0] - 1e-9 <= found.f1.value <= ends[1] + 1e-9
        assert found.f1.low - 1e-9 <= found.f1.value <= found.f1.high + 1e-9


def test_a_confusion_table_counts_every_pair_once() -> None:
    pairs = [("a", "a"), ("a", "b"), ("b", "b"), ("a", "b")]
    assert confusion(pairs, "ab", "ab").counts == ((1, 2), (0, 1))
