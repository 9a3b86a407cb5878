"""A search over noisy versions: what it names, how sure it says it is, and what it costs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from replay.bisection.change_point import (
    NO_CHANGE,
    Tally,
    expected,
    log_beta,
    next_versions,
    posterior,
)
from replay.bisection.rounds import ALONE, Found, Outcome, Round, SampleRequest, Settings, Spent
from replay.bisection.search import SEVERAL, far, others, search

Answer = Callable[[SampleRequest], Outcome]


def run(versions: int, answer: Answer, settings: Settings | None = None) -> Found:
    going = search(versions, settings or Settings())
    try:
        wanted = next(going)
        while True:
            wanted = going.send([answer(wish) for wish in wanted.wishes])
    except StopIteration as ended:
        found: Found = ended.value
        return found


def noisy(first_bad: int, good: float, bad: float, seed: int) -> Answer:
    """Samples of one change; the same sample always shows the same."""

    def answer(wish: SampleRequest) -> bool:
        rate = bad if wish.version >= first_bad else good
        return drawn(seed, wish) < rate

    return answer


def drawn(seed: int, wish: SampleRequest) -> float:
    return random.Random(f"{seed} {wish.version} {wish.sample}").random()


def tally_of(bad: Sequence[float], n: Sequence[float]) -> Tally:
    tally = Tally(len(n))
    for version, counts in enumerate(zip(bad, n, strict=True)):
        tally.add(version, *counts)
    return tally


def rounds(versions: int, answer: Answer, settings: Settings) -> list[Round]:
    """The rounds of a search, in their order."""
    going = search(versions, settings)
    found = [next(going)]
    try:
        while True:
            found.append(going.send([answer(wish) for wish in found[-1].wishes]))
    except StopIteration:
        return found


CELLS = 20_000


def likelihood(bad: int, n: int) -> float:
    """How likely such answers are, in their order, under Jeffreys' prior: summed over the rate,
    which is sin²φ with every φ equally likely."""
    total = 0.0
    for cell in range(CELLS):
        rate = math.sin((cell + 0.5) * math.pi / 2 / CELLS) ** 2
        total += rate**bad * (1 - rate) ** (n - bad)
    return total / CELLS


class TestChangePoint:
    def test_it_knows_nothing_but_its_prior_before_any_sample(self) -> None:
        likely = posterior(Tally(5))
        assert likely[0] == pytest.approx(NO_CHANGE)
        assert likely[1:] == pytest.approx([(1 - NO_CHANGE) / 4] * 4)

    def test_counts_on_either_side_name_the_place(self) -> None:
        tally = Tally(4)
        for version, bad in enumerate((0, 0, 9, 9)):
            tally.add(version, bad, 9)
        likely = posterior(tally)
        assert max(range(4), key=lambda c: likely[c]) == 2
        assert likely[2] > 0.99

    @pytest.mark.parametrize(("bad", "n"), [(0, 1), (1, 2), (3, 7), (0, 6), (9, 9)])
    def test_known_values_of_the_beta_function(self, bad: int, n: int) -> None:
        assert math.exp(log_beta(bad, n)) == pytest.approx(math.pi * likelihood(bad, n))

    def test_the_posterior_is_what_the_rates_come_to_when_they_are_summed_over(self) -> None:
        bad, n = (0, 1, 0, 2, 3), (3, 2, 1, 3, 3)
        weights = [NO_CHANGE * likelihood(sum(bad), sum(n))]
        for place in range(1, 5):
            before = likelihood(sum(bad[:place]), sum(n[:place]))
            after = likelihood(sum(bad[place:]), sum(n[place:]))
            weights.append((1 - NO_CHANGE) / 4 * before * after)
        assert posterior(tally_of(bad, n)) == pytest.approx(
            [weight / sum(weights) for weight in weights]
        )

    @pytest.mark.parametrize(
        ("boundary", "version", "share"),
        [
            (2, 0, (0.5 + 1 + 0) / (1 + 4 + 2)),
            (2, 1, (0.5 + 1 + 0) / (1 + 4 + 2)),
            (2, 2, (0.5 + 3 + 1) / (1 + 5 + 1)),
            (2, 3, (0.5 + 3 + 1) / (1 + 5 + 1)),
            (None, 3, (0.5 + 5) / (1 + 12)),
        ],
    )
    def test_a_sample_is_expected_to_be_as_its_side_was(
        self, boundary: int | None, version: int, share: float
    ) -> None:
        tally = tally_of((1, 0, 3, 1), (4, 2, 5, 1))
        assert expected(tally, boundary, version) == pytest.approx(share)

    def test_nothing_more_is_picked_once_one_place_is_certain(self) -> None:
        certain = tally_of((0, 2000, 2000), (2000, 2000, 2000))
        assert posterior(certain)[1] == 1.0
        assert len(next_versions(certain, 4)) == 1

    def test_a_sample_that_tells_most_lies_between_the_sides(self) -> None:
        tally = Tally(9)
        tally.add(0, 0, 5)
        tally.add(8, 5, 5)
        (version,) = next_versions(tally, 1)
        assert 2 <= version <= 6
        assert version not in next_versions(tally, 1, apart={version})

    def test_a_batch_spreads_instead_of_asking_one_version_four_times(self) -> None:
        tally = Tally(33)
        tally.add(0, 0, 5)
        tally.add(32, 5, 5)
        assert len(set(next_versions(tally, 4))) >= 3


class TestOthers:
    """What a history of three changes is held against: each as likely as another."""

    def test_without_a_sample_away_from_the_boundary_others_are_as_likely_as_not(self) -> None:
        found = others(Tally(16), 8)
        assert 0.3 < found.likely < 0.7
        assert (found.apart[7], found.apart[8]) == (0, 0), "there the boundary would move"
        assert (found.apart[0], found.apart[15]) == (0, 0), "the ends are what is searched between"

    def test_samples_of_every_version_rule_them_out(self) -> None:
        tally = Tally(16)
        for version in range(16):
            tally.add(version, 4.0 * (version >= 8), 4)
        assert others(tally, 8).likely < 0.001

    def test_a_version_that_acts_as_the_other_side_is_named(self) -> None:
        tally = Tally(16)
        for version in range(16):
            tally.add(version, 4.0 * (version >= 8 and version != 12), 4)
        found = others(tally, 8)
        assert found.likely > 0.99
        assert found.misfits == (12,)
        assert far(tally, 8, 1, (), ALONE) == [12]

    def test_versions_looked_at_together_are_far_from_each_other(self) -> None:
        tally = Tally(12)
        for version in (0, 7, 8, 11):
            tally.add(version, 4.0 * (version >= 8), 4)
        spots = far(tally, 8, 4, (), ALONE)
        assert len(set(spots)) == 4
        assert min(spots) < 8 < max(spots)

    def test_a_version_that_gave_nothing_is_passed_over(self) -> None:
        found = others(Tally(16), 8, mute={11, 12})
        assert found.apart[11] == found.apart[12] == 0
        assert not set(far(Tally(16), 8, 4, {11, 12}, ALONE)) & {11, 12}

    @pytest.mark.parametrize("versions", [2, 3])
    def test_so_few_versions_leave_no_place_for_others(self, versions: int) -> None:
        assert others(Tally(versions), 1).likely == 0


class TestSearch:
    @pytest.mark.parametrize("first_bad", [1, 2, 7, 15])
    def test_without_noise_it_names_the_version_in_a_few_samples(self, first_bad: int) -> None:
        found = run(16, lambda wish: wish.version >= first_bad, Settings(at_once=1))
        assert (found.status, found.first_bad, found.verified) == ("found", first_bad, True)
        assert found.samples <= 14
        assert found.several is not None
        assert found.several <= ALONE

    @pytest.mark.slow
    @pytest.mark.parametrize("at_once", [1, 4])
    def test_a_history_that_was_mended_and_broke_again_is_seldom_taken_for_one_change(
        self, at_once: int
    ) -> None:
        """Of 200 such histories 127 and 136 were named as if they had one boundary."""
        fooled = 0
        for seed in range(200):
            first, mended, again = sorted(random.Random(seed).sample(range(1, 16), 3))

            def answer(
                wish: SampleRequest, seed: int = seed, at: tuple[int, ...] = (first, mended, again)
            ) -> bool:
                bad = at[0] <= wish.version < at[1] or wish.version >= at[2]
                return drawn(seed, wish) < (0.8 if bad else 0.1)

            found = run(16, answer, Settings(at_once=at_once, max_samples=90))
            fooled += found.status == "found" and not found.warned
        assert fooled <= 10

    @pytest.mark.slow
    @pytest.mark.parametrize("at_once", [1, 4])
    def test_one_change_is_named_without_a_warning(self, at_once: int) -> None:
        right = warned = samples = 0
        for seed in range(200):
            first_bad = 1 + seed % 15
            found = run(16, noisy(first_bad, 0.1, 0.8, seed), Settings(at_once=at_once))
            right += found.status == "found" and found.first_bad == first_bad
            warned += found.warned
            samples += found.samples
        assert right >= 194
        assert warned <= 10
        assert samples / 200 <= 28

    def test_without_its_checks_it_does_not_say_that_there_is_no_other_boundary(self) -> None:
        found = run(16, lambda wish: wish.version >= 5, Settings(check=False))
        assert (found.status, found.verified, found.again) == ("found", None, None)
        assert found.several is not None
        assert found.several > ALONE

    @pytest.mark.parametrize("seed", range(4))
    def test_without_its_checks_it_goes_on_until_it_is_as_sure_as_was_asked_for(
        self, seed: int
    ) -> None:
        settings = Settings(check=False, at_once=1, confidence=0.97)
        found = run(16, noisy(5 + seed, 0.05, 0.9, seed), settings)
        assert found.status == "found"
        assert found.confidence >= 0.97

    @pytest.mark.parametrize(("versions", "asked"), [(6, 18), (7, 2)])
    def test_of_a_few_versions_each_is_asked_three_times_to_begin_with(
        self, versions: int, asked: int
    ) -> None:
        first = rounds(versions, lambda wish: wish.version >= 3, Settings())[0]
        assert first.why == "ends"
        assert len(first.wishes) == asked
        assert {wish.version for wish in first.wishes} >= {0, versions - 1}

    @pytest.mark.parametrize("seed", [3, 9])
    def test_ends_that_were_found_to_differ_are_not_asked_again_whether_they_do(
        self, seed: int
    ) -> None:
        settings = Settings(at_once=1, max_samples=80)
        why = [each.why for each in rounds(8, noisy(99, 0.4, 0.4, seed), settings)]
        asked = [at for at, each in enumerate(why) if each == "any change?"]
        assert asked == list(range(asked[0], asked[-1] + 1))

    def test_of_several_boundaries_the_one_that_was_asked_again_is_named(self) -> None:
        found = run(9, lambda wish: wish.version in (2, 5, 6, 7, 8), Settings(at_once=1))
        assert (found.status, found.verified) == ("non-monotone", True)
        assert found.first_bad in (2, 5)
        assert found.again is not None
        assert [seen.bad == seen.n for seen in found.again] == [False, True]

    @pytest.mark.slow
    @pytest.mark.parametrize("rates", [(0.1, 0.8), (0.3, 0.8)])
    def test_it_is_right_as_often_as_it_says(self, rates: tuple[float, float]) -> None:
        good, bad = rates
        settings = Settings(at_once=1, check=False)
        found = [
            (run(16, noisy(1 + seed % 15, good, bad, seed), settings), 1 + seed % 15)
            for seed in range(150)
        ]
        named = [(each, truth) for each, truth in found if each.status == "found"]
        assert len(named) >= 135
        assert all(each.confidence >= 0.95 for each, _ in named)
        assert sum(each.first_bad == truth for each, truth in named) / len(named) >= 0.93

    @pytest.mark.slow
    def test_noise_without_a_change_names_no_culprit(self) -> None:
        found = [run(16, noisy(99, 0.3, 0.3, seed), Settings(check=False)) for seed in range(60)]
        assert sum(each.status == "found" for each in found) <= 3
        assert sum(each.status == "no change" for each in found) >= 45

    def test_the_other_way_round_is_said_and_names_nobody(self) -> None:
        found = run(8, lambda wish: wish.version < 3)
        assert (found.status, found.first_bad) == ("reversed", None)

    def test_a_spot_far_from_the_boundary_gives_a_second_change_away(self) -> None:
        found = run(9, lambda wish: wish.version in (2, 5, 6, 7, 8), Settings(at_once=1))
        assert found.status == "non-monotone"
        assert found.misfits
        assert found.several is not None
        assert found.several >= SEVERAL
        assert min(seen.n for seen in found.seen) >= 6, "then every version is looked at"

    @pytest.mark.parametrize("most", [16, 20, 33, 45])
    def test_a_second_change_that_was_seen_is_told_where_the_samples_run_out(
        self, most: int
    ) -> None:
        settings = Settings(at_once=1, max_samples=most)
        found = run(9, lambda wish: wish.version in (2, 5, 6, 7, 8), settings)
        assert found.samples + found.more == most
        assert (found.status, found.first_bad, found.misfits) == ("non-monotone", 5, (2,))
        assert found.several is not None
        assert found.several >= SEVERAL

    def test_a_version_that_gives_nothing_to_judge_stays_beside_its_neighbour(self) -> None:
        found = run(9, lambda wish: None if wish.version == 5 else wish.version >= 5)
        assert found.status == "found"
        assert (found.among, found.first_bad) == ((5, 6), 5)

    def test_an_end_that_gives_nothing_to_judge_ends_the_search(self) -> None:
        found = run(9, lambda wish: None if wish.version == 8 else False)
        assert (found.status, found.samples) == ("censored", 4)

    def test_the_limit_is_kept_and_what_is_known_by_then_is_told(self) -> None:
        found = run(64, noisy(20, 0.1, 0.8, 1), Settings(max_samples=15))
        assert (found.status, found.samples) == ("budget", 15)
        assert sum(seen.n for seen in found.seen) == 15
        assert found.confidence < 0.95
        assert found.among == (found.first_bad,)
        assert found.confidence == max(found.likely[1:]) > 0

    def test_a_sample_is_never_wanted_twice_and_the_same_answers_lead_the_same_way(self) -> None:
        asked: list[list[SampleRequest]] = []
        for _ in range(2):
            wishes: list[SampleRequest] = []

            def answer(wish: SampleRequest, wishes: list[SampleRequest] = wishes) -> Outcome:
                wishes.append(wish)
                return noisy(5, 0.1, 0.8, 3)(wish)

            run(12, answer)
            asked.append(wishes)
        assert asked[0] == asked[1]
        assert len(set(asked[0])) == len(asked[0])

    def test_two_versions_are_only_held_against_each_other(self) -> None:
        found = run(2, lambda wish: wish.version == 1)
        assert (found.status, found.first_bad) == ("found", 1)

    def test_ends_alike_with_others_between_them_are_no_lack_of_change(self) -> None:
        found = run(4, lambda wish: wish.version in (0, 3))
        assert (found.status, found.misfits) == ("non-monotone", (1, 2))

    def test_every_round_says_what_it_is_for(self) -> None:
        asked = rounds(16, lambda wish: wish.version >= 5, Settings(at_once=1))
        reasons = list(dict.fromkeys(each.why for each in asked))
        assert reasons == ["ends", "tells most", "fresh", "far from it"]
        found = run(16, lambda wish: wish.version >= 5, Settings(at_once=1))
        assert found.rounds == len(asked)

    @pytest.mark.parametrize("rounds", [1, 3, 9, 11])
    def test_whoever_may_ask_no_more_is_told_what_is_known(self, rounds: int) -> None:
        going = search(16, Settings(at_once=1))
        wanted, sent = next(going), 0
        for _ in range(rounds):
            sent += len(wanted.wishes)
            wanted = going.send([wish.version >= 5 for wish in wanted.wishes])
        with pytest.raises(StopIteration) as ended:
            going.throw(Spent())
        found: Found = ended.value.value
        assert found.samples + found.more == sent
        assert found.status == ("budget" if found.confidence < 0.95 else "found")
        assert found.verified is (True if found.again else None)
        if found.status == "found":
            assert found.several is not None
            assert found.several > ALONE, "nobody looked far from the boundary yet"
