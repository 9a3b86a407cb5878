from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import chain

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import structs

from replay.trace import SourceScore, Trace
from taxonomy.classes import Shape
from taxonomy.diagnosis import diagnose
from taxonomy.evidence.reading import Reading
from taxonomy.findings import Band, Candidate, Source, StepScore
from taxonomy.localiser.candidates import (
    EVIDENCE,
    LEAST,
    SCORE,
    RunSignals,
    band_of,
    evidence,
    ranking,
    shown,
)
from taxonomy.localiser.features import FEATURES, FIRST_ERROR, FIRST_WRITE, Model, StepSignal
from taxonomy.localiser.run_structure import latencies_ns
from taxonomy.localiser.signals import strongest
from taxonomy.localiser.weights import MODEL
from tests.bench.fit_results import shipped_fit
from tests.bench.logit import Choice, fit, log_loss, probabilities
from tests.build import SECOND_NS, START_NS, Part, call, error, step, trace

names = st.sampled_from([feature.name for feature in FEATURES])
blaming = st.sampled_from([feature.name for feature in FEATURES if feature.guess > 0])
made_signs = st.lists(
    st.builds(
        StepSignal,
        st.integers(0, 9),
        names,
        st.just("it looks so"),
        st.none() | st.floats(0, 1),
    ),
    max_size=30,
)


def shown_of(found: Iterable[StepSignal], model: Model = MODEL) -> tuple[Candidate, ...]:
    return shown(RunSignals(choices=tuple(range(10)), against=strongest(found)), model)


def steps_of(found: Sequence[Candidate]) -> list[int]:
    return [candidate.step for candidate in found]


def parts(**known: float) -> list[Part]:
    """A run that goes wrong at step 1; `known` is what the source says of each model call."""
    orders = '{"orders": [{"order_id": "1041"}]}'
    missing = error("order 1099 not found")
    done = '{"status": "cancelled"}'
    return [
        step("I look.", call("find_orders", orders, email="a@b.test"), **known),
        step("I look again.", call("get_order", missing, order_id="1099"), **known),
        step("I cancel it.", call("cancel_order", done, order_id="1041"), **known),
        step("It is done.", **known),
    ]


def broken(**known: float) -> Trace:
    return trace(parts(**known), task="Cancel my order, a@b.test.")


class TestChoice:
    @hypothesis.given(made_signs)
    def test_any_signs_have_a_ranking_of_all_steps(self, found: list[StepSignal]) -> None:
        ranked = ranking(strongest(found), range(10), MODEL.weights)
        assert sorted(step for step, _ in ranked) == list(range(10))
        assert sum(chance for _, chance in ranked) == pytest.approx(1)
        chances = [chance for _, chance in ranked]
        assert chances == sorted(chances, reverse=True)

    @hypothesis.given(made_signs)
    def test_three_at_most_best_first_and_each_with_evidence(self, found: list[StepSignal]) -> None:
        given_steps = shown_of(found)
        assert len(given_steps) <= 3
        weights = [candidate.weight for candidate in given_steps]
        assert weights == sorted(weights, reverse=True)
        assert all(candidate.signals for candidate in given_steps)
        assert all(weight >= LEAST for weight in weights[:1])

    @hypothesis.given(made_signs)
    def test_place_alone_is_a_guess_without_a_band(self, found: list[StepSignal]) -> None:
        against = strongest(found)
        for each in shown_of(found):
            wrong = evidence(against.get(each.step, {}), MODEL.weights)
            assert each.is_positional is (wrong < EVIDENCE)
            assert each.is_positional is each.why.startswith("positional guess: ")
            assert each.band is None or not each.is_positional

    @hypothesis.given(made_signs, st.integers(0, 9), names)
    def test_a_feature_that_cannot_be_told_changes_nothing(
        self, found: list[StepSignal], at: int, name: str
    ) -> None:
        more = [*found, StepSignal(at, name, "who knows", None)]
        assert strongest(more) == strongest(found)

    @hypothesis.given(made_signs, st.randoms(use_true_random=False))
    def test_the_order_of_signs_does_not_matter(
        self, found: list[StepSignal], source: random.Random
    ) -> None:
        mixed = list(found)
        source.shuffle(mixed)
        first, second = (shown_of(each) for each in (found, mixed))
        assert [(each.step, each.weight) for each in first] == [
            (each.step, each.weight) for each in second
        ]

    @hypothesis.given(made_signs, st.integers(0, 9), blaming)
    def test_a_stronger_sign_never_makes_its_step_less_likely(
        self, found: list[StepSignal], at: int, name: str
    ) -> None:
        before = dict(ranking(strongest(found), range(10), MODEL.weights))[at]
        more = [*found, StepSignal(at, name, "plain to see", 1.0)]
        assert dict(ranking(strongest(more), range(10), MODEL.weights))[at] >= before - 1e-12

    def test_a_run_without_steps_has_none(self) -> None:
        assert shown(RunSignals(choices=(), against={}), MODEL) == ()


class TestBands:
    LOW, HIGH = Band(low=0.12, runs=40), Band(low=0.49, runs=70)
    MEASURED = Model(weights=MODEL.weights, bands=((0.0, None), (0.2, LOW), (0.5, HIGH)))

    def test_it_is_that_of_the_last_row_that_the_likelihood_reaches(self) -> None:
        found = [band_of(chance, self.MEASURED) for chance in (0.0, 0.19, 0.2, 0.5, 1.0)]
        assert found == [None, None, self.LOW, self.HIGH, self.HIGH]
        assert band_of(0.9, Model(weights={})) is None

    @pytest.mark.parametrize(
        ("band", "words"),
        [
            (LOW, "correct in at least 1 of 10 labelled runs (n = 40)"),
            (HIGH, "correct in at least 4 of 10 labelled runs (n = 70)"),
            (None, "accuracy unknown"),
            (Band(low=0.06, runs=29), "accuracy unknown"),
        ],
    )
    def test_it_is_said_in_tens(self, band: Band | None, words: str) -> None:
        assert Candidate(step=1, weight=1.0, why="", signals=(), band=band).accuracy == words

    def test_only_the_first_candidate_has_one(self) -> None:
        always = Model(weights=MODEL.weights, bands=((0.0, self.LOW),))
        found = [StepSignal(at, FIRST_ERROR, "failed", 1 - at / 10) for at in range(3)]
        assert [each.band for each in shown_of(found, always)] == [self.LOW, None, None]
        (guess,) = shown_of([StepSignal(4, FIRST_WRITE, "the first write")], always)
        assert (guess.is_positional, guess.band) == (True, None)

    def test_the_kept_figures_are_of_the_weights_in_use(self) -> None:
        for sign in shipped_fit().signs:
            assert sign.weight == pytest.approx(MODEL.weights[sign.name], abs=0.006)

    def test_the_candidate_of_a_failed_run_rests_on_what_went_wrong(self) -> None:
        first = diagnose(broken()).candidates[0]
        assert (first.step, first.is_positional) == (1, False)

    def test_with_given_scores_or_in_a_passed_run_none_was_measured(self) -> None:
        made = broken()
        given = tuple(
            SourceScore(name="quality", by="human", span=step.ask.id, value=value)
            for step, value in zip(made.steps, (0.9, 0.2, 0.2, 0.2), strict=True)
        )
        assert diagnose(made, given).candidates[0].band is None
        passed = trace(parts(), task="Cancel my order, a@b.test.", outcome="passed")
        assert all(each.band is None for each in diagnose(passed).candidates)


class TestSubsets:
    """From any subset of what may be known of a run the same engine speaks, or abstains."""

    def test_without_times_tokens_and_costs_only_pointers_are_missing(self) -> None:
        bare = diagnose(broken()).candidates
        rich = diagnose(broken(tokens=100, usd=0.01)).candidates
        assert bare[0].step == rich[0].step == 1

    def test_time_in_which_a_tool_ran_is_no_latency(self) -> None:
        made = trace([step("Well.", call("look", "ok", at=at), seconds=4.0) for at in range(2)])
        late = structs.replace(made.steps[0].acts[0], end_ns=START_NS + 7 * SECOND_NS)
        slow = structs.replace(
            made, steps=(structs.replace(made.steps[0], acts=(late,)), made.steps[1])
        )
        assert latencies_ns(Reading(made)) == [4 * SECOND_NS, 4 * SECOND_NS]
        assert latencies_ns(Reading(slow)) == [4 * SECOND_NS, 1 * SECOND_NS]

    def test_scores_of_a_person_decide_where_rules_see_nothing(self) -> None:
        made = trace([step("Well.", call("look", str(at), at=at)) for at in range(6)])
        person = tuple(
            StepScore(step=at, value=value, source="human", by="ann")
            for at, value in enumerate((0.9, 0.9, 0.9, 0.2, 0.3, 0.2))
        )
        found = diagnose(made, more_scores=person).candidates
        assert steps_of(found) == [3, 4, 5]
        assert found[0].why == "the first clear failure: score 0.20 by ann"
        assert [signal.name for signal in found[0].signals] == [SCORE]

    def test_a_person_is_trusted_before_a_judge(self) -> None:
        made = trace([step("Well.", call("look", str(at), at=at)) for at in range(6)])
        judge, human = (0.9, 0.1, 0.1, 0.1, 0.1, 0.1), (0.9, 0.9, 0.9, 0.9, 0.2, 0.2)
        both = [
            *(StepScore(step=at, value=v, source="judge", by="j") for at, v in enumerate(judge)),
            *(StepScore(step=at, value=v, source="human", by="h") for at, v in enumerate(human)),
        ]
        for order in (both, both[::-1]):
            assert diagnose(made, more_scores=tuple(order)).candidates[0].step == 4

    def test_without_the_task_nothing_is_said_to_be_new(self) -> None:
        def phrases(task: str | None) -> list[str]:
            made = trace(["It is for Meyer of Berlin, born 1892.", "Done."], task=task)
            found = diagnose(made).candidates
            return [signal.phrase for each in found for signal in each.signals]

        assert "3 values not found in context: Meyer, Berlin, 1892" in phrases("Who is it for?")
        assert not [phrase for phrase in phrases(None) if "not found in context" in phrase]

    def test_a_failure_without_a_word_says_that_the_result_was_empty(self) -> None:
        made = trace([step(call("run_tests", error(" "))), step("It is done.")])
        (first, *_) = diagnose(made).candidates
        assert "run_tests failed, empty result" in [signal.phrase for signal in first.signals]

    def test_the_first_write_is_named_where_unknown_calls_came_before_it(self) -> None:
        ran = step(call("Bash", "ok", command="mkdir out"))
        made = trace([ran, ran, step(call("write_file", "ok", path="a.txt")), "Done."])
        phrases = {signal.phrase for each in diagnose(made).candidates for signal in each.signals}
        assert {
            "write_file is the first known write",
            "write_file is the last known write",
        } <= phrases

    def test_a_terminal_is_never_a_candidate(self) -> None:
        made = trace(
            [
                step("```python\nprint(x)\n```", agent="Coder"),
                step("exitcode: 1\nNameError: x in Berlin 1999", agent="Computer_terminal"),
                step("I assume it is Paris, 1250.", agent="Coder"),
            ]
        )
        assert 1 not in steps_of(diagnose(made).candidates)


def given(
    values: Sequence[float | None], by: str = "j", source: Source = "file"
) -> list[StepScore]:
    """A score a step; None where the step has none."""
    return [
        StepScore(step=at, value=value, source=source, by=by)
        for at, value in enumerate(values)
        if value is not None
    ]


def found_by(made: Trace, *scores: list[StepScore]) -> list[int]:
    return steps_of(diagnose(made, more_scores=tuple(chain(*scores))).candidates)


class TestGivenScores:
    """Scores that others gave are used as they are, whoever gave them."""

    PLAIN = trace([step("Well.", call("look", str(at), at=at)) for at in range(6)])
    BROKEN = broken()
    """Rules blame step 1 of it."""

    @settings(deadline=None)  # the first example loads the schema validator
    @hypothesis.given(st.lists(st.none() | st.floats(0, 1), min_size=4, max_size=4))
    def test_the_first_clear_failure_decides_for_any_judge(
        self, values: list[float | None]
    ) -> None:
        failed = [at for at, value in enumerate(values) if value is not None and value < 0.5]
        found = found_by(self.BROKEN, given(values))
        assert found[:1] == failed[:1] or not failed
        if failed or None not in values:
            assert found == failed[:3]

    def test_what_was_scored_and_did_not_fail_is_no_candidate(self) -> None:
        assert found_by(self.BROKEN, given([0.5, 0.5, 0.5, 0.5])) == []
        assert found_by(self.BROKEN)[0] == 1
        assert found_by(self.BROKEN, given([None, None, 1.0, 1.0]))[0] == 1
        assert 1 not in found_by(self.BROKEN, given([None, 0.5, None, None]))

    def test_a_confidence_was_measured_of_no_such_run(self) -> None:
        some = tuple(given([None, None, 1.0, None]))
        (first, *_) = diagnose(self.BROKEN, more_scores=some).candidates
        assert (first.step, first.band) == (1, None)

    def test_of_judges_that_disagree_the_middle_one_counts(self) -> None:
        one, two, three = given([1, 0, 1], "a"), given([1, 1, 0], "b"), given([0, 1, 0], "c")
        assert found_by(self.PLAIN, one, two, three) == found_by(self.PLAIN, three, one, two) == [2]
        assert found_by(self.PLAIN, one, two) == [1, 2], "of two the lower one"

    def test_a_person_is_trusted_wherever_the_score_came_from(self) -> None:
        judge, model = given([1, 0, 0], "j", "judge"), given([0, 0, 0], "gpt")
        assert found_by(self.PLAIN, judge, model) == [1, 2]
        assert found_by(self.PLAIN, judge, model, given([1, 1, 0], "human")) == [2]
        assert found_by(self.PLAIN, judge, given([1, 1, 0], "HUMAN · quality", "import")) == [2]
        assert found_by(self.PLAIN, judge, given([0], "humane-bench 7b")) == [1, 2], "a model"
        assert found_by(
            self.PLAIN, given([1, 1, 0], "human"), given([1, 0, 1], "ann", "human")
        ) == [1]

    def test_shape_and_published_vote_rest_on_them(self) -> None:
        said = diagnose(self.PLAIN, more_scores=tuple(given([0.9, 0.9, 0.3, 0.3, 0.3, 0.3])))
        assert said.shape is said.published_shape is Shape.EARLY_COLLAPSE
        assert said.published == 2

    @pytest.mark.parametrize(
        ("values", "name", "found"),
        [
            ((1.0, 0.0, 0.0), "correctness", [1, 2]),
            ((5.0, 1.0, 4.0), "stars", []),
            ((1.0, -1.0, 0.0), "signed", []),
            ((0.0, 0.0, 0.9), "toxicity", []),
            ((0.0, 1.0, 1.0), "Hallucination", []),
            ((0.0, 1.0, 1.0), "harmlessness", [0]),
            ((0.0, 1.0, 1.0), "unbiased", [0]),
        ],
    )
    def test_a_source_s_scores_count_where_their_scale_is_known(
        self, values: tuple[float, ...], name: str, found: list[int]
    ) -> None:
        spans = (step.ask.id for step in self.PLAIN.steps)
        scores = tuple(
            SourceScore(name=name, by="LLM", span=span, value=value)
            for span, value in zip(spans, values, strict=False)
        )
        assert steps_of(diagnose(self.PLAIN, scores).candidates) == found

    def test_a_score_of_a_call_is_one_of_its_step_and_the_lowest_counts(self) -> None:
        first, second = self.PLAIN.steps[:2]
        scores = (
            SourceScore(name="good", by="LLM", span=second.acts[0].id, value=0.0),
            SourceScore(name="good", by="LLM", span=second.ask.id, value=1.0),
            SourceScore(name="good", by="LLM", span=first.ask.id, value=1.0),
        )
        for order in (scores, scores[::-1]):
            said = diagnose(self.PLAIN, order)
            assert steps_of(said.candidates) == [1]
            own = [score for score in said.scores if score.source == "import"]
            assert [(score.step, score.value) for score in own] == [(0, 1.0), (1, 0.0)]


@settings(deadline=None)  # the first example loads the schema validator
@hypothesis.given(st.randoms(use_true_random=False))
def test_the_order_of_spans_does_not_matter(source: random.Random) -> None:
    made = broken(tokens=100, usd=0.01)
    spans = list(made.spans)
    source.shuffle(spans)
    assert diagnose(structs.replace(made, spans=tuple(spans))) == diagnose(made)


@hypothesis.given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12))
def test_any_scores_have_candidates_or_none(values: list[float]) -> None:
    made = trace([step("Well.", call("look", str(at), at=at)) for at in range(8)])
    found = found_by(made, given(values))
    assert len(found) <= 3
    assert all(step in range(8) for step in found)


def test_a_passed_run_has_a_candidate_only_where_much_speaks_against_a_step() -> None:
    weak: list[Part] = ["I assume that it is Paris.", "Done."]
    assert diagnose(trace(weak, outcome="failed")).candidates != ()
    assert diagnose(trace(weak, outcome="passed")).candidates == ()


# --- the fit


def drawn(weights: Sequence[float], runs: int, source: random.Random) -> list[Choice]:
    """Runs of eight steps whose right one is drawn by the weights."""
    made: list[Choice] = []
    for _ in range(runs):
        rows = [[float(source.random() < 0.3) for _ in weights] for _ in range(8)]
        right = source.choices(range(8), probabilities(rows, weights))[0]
        made.append(Choice(rows=rows, right=frozenset({right})))
    return made


@pytest.mark.slow
def test_the_fit_finds_the_weights_that_made_the_runs() -> None:
    wanted = [2.0, 0.5, 0.0]
    runs = drawn(wanted, 1500, random.Random(1))
    assert fit(runs, [0.0] * 3, 0.1) == pytest.approx(wanted, abs=0.25)


def test_a_feature_the_runs_say_nothing_of_keeps_its_guess() -> None:
    runs = [
        Choice(rows=[[*row, 0.0] for row in each.rows], right=each.right)
        for each in drawn([2.0], 200, random.Random(1))
    ]
    assert fit(runs, [0.0, 1.7], 1.0)[1] == pytest.approx(1.7)


def test_any_of_several_right_steps_is_right() -> None:
    rows = [[1.0], [0.0], [0.0]]
    alone = Choice(rows=rows, right=frozenset({0}))
    either = Choice(rows=rows, right=frozenset({0, 1, 2}))
    assert log_loss([either], [3.0]) == pytest.approx(0.0)
    assert log_loss([alone], [3.0]) > 0
    assert fit([either], [0.4], 1.0) == pytest.approx([0.4])
