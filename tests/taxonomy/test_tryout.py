"""Which runs an edit is tried on, where, beside which healthy steps, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from replay.action import Act, Action
from replay.compare.actions import Difference
from replay.locked.tally import Reply, StepResult
from replay.trace import Fidelity, Level, ToolCall
from taxonomy.classes import Attribution, FailureClass
from taxonomy.edit_test import (
    FEWEST,
    NO_BREAK,
    PASSED,
    PER_RUN,
    Arms,
    Break,
    LeftOut,
    Spot,
    break_of,
    detector_of,
    drawn,
    effect_of,
    healthy_steps,
    held,
    judged,
    own_test,
    ruling_of,
    words_on,
)
from taxonomy.findings import Candidate, Diagnosis, Finding
from taxonomy.judgements.tags import Tag, TagRow, put_tag
from taxonomy.query.failures import tag_rows
from tests.build import call, error, step, trace
from tests.taxonomy import pareto_case

LOOP = Finding(failure=FailureClass.LOOP, step=2, why="again", rule="loop")
MADE_UP = Finding(
    failure=FailureClass.HALLUCINATED_STATE, step=1, why="never seen", rule="hallucinated state"
)


def candidate(at: int) -> Candidate:
    return Candidate(step=at, weight=1.0, why="", signals=())


def diagnosis(*found: Finding, at: Sequence[int] = ()) -> Diagnosis:
    return Diagnosis(
        trace="t", shape=None, scores=(), findings=found, candidates=tuple(map(candidate, at))
    )


def word(
    failure: FailureClass = FailureClass.LOOP,
    at: int = 2,
    *,
    accepted: bool = False,
    attribution: Attribution | None = None,
    recording: str = "t",
) -> TagRow:
    return TagRow(
        trace="t", run="r", task=None, trial=None, variant=None, models=None, outcome="failed",
        failure=failure, sub=None, attribution=attribution, recording=recording, step=at, span="",
        source="human" if accepted else "rule", by="ann" if accepted else "loop", why=None,
        accepted=accepted, place=1,
    )  # fmt: skip


# --- where it broke


def test_a_persons_tag_says_more_than_the_first_candidate() -> None:
    found = break_of("t", "failed", [word(at=3, accepted=True)], diagnosis(LOOP, at=[2]))
    assert found == Break(trace="t", step=3, by="tagged by ann", failure=FailureClass.LOOP)


def test_a_tag_counts_on_the_recording_it_was_given_on() -> None:
    said = [word(at=3, accepted=True, recording="other")]
    found = break_of("t", "failed", said, None)
    assert isinstance(found, Break)
    assert (found.trace, found.step) == ("other", 3)


def test_of_several_candidates_the_first_that_shows_the_class_is_the_break() -> None:
    found = break_of("t", "failed", [word(at=2)], diagnosis(MADE_UP, LOOP, at=[1, 2]))
    assert isinstance(found, Break)
    assert (found.step, found.by) == (2, "first candidate")
    other = break_of("t", "failed", [word(at=2)], diagnosis(MADE_UP, at=[1, 0]))
    assert isinstance(other, Break)
    assert other.step == 1


def test_a_failure_without_a_candidate_broke_where_the_rule_saw_it() -> None:
    found = break_of("t", "failed", [word(at=2)], diagnosis(LOOP))
    assert isinstance(found, Break)
    assert (found.step, found.by) == (2, "loop, by rule")


def test_a_candidate_after_all_that_shows_the_class_is_no_break() -> None:
    found = break_of("t", "failed", [word(at=2)], diagnosis(LOOP, at=[5, 4]))
    assert isinstance(found, Break)
    assert (found.step, found.by) == (2, "loop, by rule")
    before = break_of("t", "failed", [word(at=2)], diagnosis(LOOP, at=[5, 1]))
    assert isinstance(before, Break)
    assert (before.step, before.by) == (1, "first candidate")


def test_a_run_that_passed_or_broke_nowhere_is_left_out() -> None:
    assert break_of("t", "passed", [word()], None) == LeftOut(trace="t", why=PASSED)
    assert break_of("t", "failed", [], diagnosis()) == LeftOut(trace="t", why=NO_BREAK)


def test_what_was_not_the_agents_doing_is_left_out() -> None:
    why = "attribution: environment; a prompt edit cannot fix it"
    said = [word(attribution=Attribution.ENVIRONMENT)]
    assert break_of("t", "failed", said, diagnosis(at=[1])) == LeftOut(trace="t", why=why)
    hint = Finding(
        failure=FailureClass.OTHER,
        step=0,
        why="",
        rule="malformed",
        attribution=Attribution.ENVIRONMENT,
    )
    assert break_of("t", "failed", [], diagnosis(hint, at=[0])) == LeftOut(trace="t", why=why)
    agents = [word(attribution=Attribution.AGENT), word(attribution=Attribution.ENVIRONMENT)]
    assert isinstance(break_of("t", "failed", agents, diagnosis(hint, at=[0])), Break)


def test_the_detector_at_a_break_is_the_rule_of_the_class_it_counts_under() -> None:
    run = trace([step(call("get_order", order_id="1")), step(call("get_order", order_id="1"))])
    other = Finding(failure=FailureClass.BAD_ARGS, step=1, why="", rule="malformed")
    again = Finding(failure=FailureClass.LOOP, step=1, why="", rule="loop")
    broke = Break(trace=run.id, step=1, by="", failure=FailureClass.LOOP)
    detector = detector_of(run, [other, again], broke)
    assert detector is not None
    assert detector.name == "loop, by rule"
    fallback = detector_of(run, [other], broke)
    assert fallback is not None
    assert fallback.name == "malformed, by rule"
    assert detector_of(run, [], broke) is None


def test_what_a_rule_says_of_another_call_than_the_tagged_one_tells_nothing() -> None:
    """Of two calls of a step a person tagged the second; the rule blames the first."""
    order, product = call("get_order", order_id="1"), call("get_product", product="Lamp")
    run = trace([step(order, product)])
    first, second = run.steps[0].acts
    finding = Finding(
        failure=FailureClass.WRONG_TOOL, step=0, span=first.id, why="", rule="wrong tool"
    )
    broke = Break(
        trace=run.id, step=0, by="tagged by ann", failure=FailureClass.WRONG_TOOL, span=second.id
    )
    detector = detector_of(run, [finding], broke)
    assert detector is not None
    assert detector.name == "tagged by ann"
    kept, other = as_act(first), Act(tool="check_stock", arguments={"product": "Lamp"})
    assert detector.shows(answer(kept, as_act(second))) is True
    assert detector.shows(answer(as_act(second))) is True
    assert detector.shows(answer(kept, other)) is False
    assert detector.shows(answer()) is False
    whole = detector_of(run, [finding], structs.replace(broke, span=None))
    assert whole is not None
    assert whole.name == "wrong tool, by rule"


def test_of_a_tagged_call_a_rule_that_reads_other_answers_decides() -> None:
    """A made-up value may become another made-up one: the call alone would not show that."""
    run = trace([step(call("refund_order", order_id="7731", amount=1))], task="Refund it, please.")
    act = run.steps[0].acts[0]
    found = [structs.replace(MADE_UP, step=0, span=act.id)]
    broke = Break(
        trace=run.id, step=0, by="tagged by ann",
        failure=FailureClass.HALLUCINATED_STATE, span=act.id,
    )  # fmt: skip
    detector = detector_of(run, found, broke)
    assert detector is not None
    assert detector.name == "hallucinated state, by rule"


def as_act(made: ToolCall) -> Act:
    return Act(tool=made.name, arguments=made.arguments, raw=made.arguments_raw)


def answer(*calls: Act) -> Action:
    return Action(calls=calls)


def test_words_come_by_the_recording_that_lists_show() -> None:
    with pareto_case.empty() as store:
        run = pareto_case.put(store, "a", LOOP)
        put_tag(
            store,
            Tag(trace=run, span="span 0", step=0, failure=FailureClass.GAVE_UP, by="ann"),
        )
        (first, second) = words_on(store)[run]
        assert len(tag_rows(store)) == 2
    assert (first.failure, second.failure) == (FailureClass.GAVE_UP, FailureClass.LOOP)


# --- the healthy steps


def test_a_healthy_step_is_whole_did_not_fail_and_has_no_word_against_it() -> None:
    run = trace(
        [
            step(call("get_order", order_id="1")),
            step(call("get_order", error("no such order"), order_id="2")),
            step("I go on.", call("get_order", order_id="3")),
            step("And that is", stop="length"),
            "Done.",
        ]
    )
    assert healthy_steps(run, [], None) == [0, 2, 4]
    assert healthy_steps(run, [LOOP], None) == [0, 4]
    assert healthy_steps(run, [], before=2) == [0]


def spots(trace: str, steps: int) -> list[Spot]:
    return [Spot(trace, at, f"{trace}/{at}") for at in range(steps)]


def test_each_run_gives_a_step_before_any_gives_two_and_none_gives_many() -> None:
    runs = {f"run {at}": 9 for at in range(4)}
    found = drawn(runs, lambda trace: spots(trace, runs[trace]), 6)
    counts = sorted([spot.trace for spot in found].count(trace) for trace in runs)
    assert counts == [1, 1, 2, 2]
    every = drawn(runs, lambda trace: spots(trace, runs[trace]), 99)
    assert len(every) == len(set(every)) == 4 * PER_RUN


def test_runs_whose_turn_does_not_come_are_not_read() -> None:
    read: list[str] = []

    def look(trace: str) -> list[Spot]:
        read.append(trace)
        return spots(trace, 2)

    assert len(drawn([f"run {at}" for at in range(100)], look, 5)) == 5
    assert len(read) == 5


def test_a_question_two_runs_share_is_asked_once() -> None:
    same = [Spot("a", 0, "x"), Spot("b", 0, "x"), Spot("b", 1, "y")]
    found = drawn(["a", "b"], lambda trace: [s for s in same if s.trace == trace], 9)
    assert sorted(spot.asks for spot in found) == ["x", "y"]


@given(st.permutations([f"run {at}" for at in range(8)]), st.integers(0, 20))
def test_the_same_steps_are_drawn_whatever_the_order(order: list[str], most: int) -> None:
    found = drawn(order, lambda trace: spots(trace, 4), most)
    assert found == drawn(sorted(order), lambda trace: spots(trace, 4), most)
    assert len(found) == most


# --- what came of it


def reply(
    *, same: bool | None = True, shows: bool | None = None, flaws: tuple[str, ...] = ()
) -> Reply:
    against = Difference(same=same, kinds=() if same else ("tool",))
    return Reply(key="", action=Action(text="x"), against=against, shows=shows, flaws=flaws)


def row(
    control: Sequence[Reply], edited: Sequence[Reply], detector: str | None = "loop, by rule"
) -> StepResult:
    return StepResult(
        step=0, thread="", model="m", recorded_model="m", recorded=Action(text="x"),
        fidelity=Fidelity(level=Level.EXACT), detector=detector, touched=True,
        control=tuple(control), edited=tuple(edited),
    )  # fmt: skip


def showing(shown: int, not_shown: int, unknown: int = 0) -> list[Reply]:
    return [
        *[reply(shows=True)] * shown,
        *[reply(shows=False)] * not_shown,
        *[reply(shows=None)] * unknown,
    ]


@pytest.mark.parametrize(
    ("control", "edited", "ruling"),
    [
        (showing(5, 0), showing(0, 5), "fixed"),
        (showing(4, 1), showing(0, 5), "fixed"),
        (showing(3, 2), showing(2, 3), "inconclusive"),
        (showing(20, 0), showing(12, 8), "changed"),
        (showing(5, 0), showing(2, 2), "not fixed"),
        (showing(5, 0), showing(5, 0), "not fixed"),
        (showing(2, 2), showing(0, 5), "unknown"),
        (showing(0, 5), showing(5, 0), "unknown"),
        (showing(2, 0, 3), showing(0, 5), "unknown"),
        (showing(5, 0), showing(0, 2, 3), "unknown"),
        (showing(3, 0, 2), showing(0, 3, 2), "inconclusive"),
        (showing(4, 0, 3), showing(0, 4, 3), "fixed"),
    ],
)
def test_a_run_is_fixed_where_control_mostly_fails_the_edit_does_not_and_its_own_test_holds(
    control: list[Reply], edited: list[Reply], ruling: str
) -> None:
    found = judged(row(control, edited))
    assert found.ruling == ruling
    assert bool(found.why) == (ruling == "unknown")


def test_without_a_detector_what_repeats_the_recording_shows_the_failure() -> None:
    found = judged(row([reply()] * 4, [reply(same=False)] * 4, detector=None))
    assert found.ruling == "fixed"
    assert found.test is not None
    assert found.test.detector == "the recorded action"


def test_a_refused_request_says_why() -> None:
    refused = StepResult(
        step=0, thread="", model="m", recorded_model="m", recorded=Action(text="x"),
        fidelity=Fidelity(level=Level.EXACT), refused="too long",
    )  # fmt: skip
    assert (judged(refused).ruling, judged(refused).why) == ("unknown", "too long")
    assert (held(refused).effect, held(refused).why) == ("unknown", "too long")


def words(same: int, other: int, cut: int = 0) -> list[Reply]:
    """Answers that repeat the recording, that diverge from it, that were cut off."""
    unclear = Reply(
        key="", action=Action(cut="cut"), against=Difference(same=None, kinds=("stop",))
    )
    return [*[reply()] * same, *[reply(same=False)] * other, *[unclear] * cut]


@pytest.mark.parametrize(
    ("control", "edited", "effect"),
    [
        (words(5, 0), words(5, 0), "held"),
        (words(5, 0), words(1, 4), "broke"),
        (words(5, 0), words(2, 3), "inconclusive"),
        (words(20, 0), words(12, 8), "changed"),
        (words(4, 1), words(2, 2), "held"),
        (words(2, 3), words(0, 5), "unknown"),
        (words(0, 0, 5), words(5, 0), "unknown"),
        (words(5, 0), words(0, 0, 5), "unknown"),
    ],
)
def test_a_step_is_broken_where_control_keeps_to_the_recording_and_the_edit_diverges(
    control: list[Reply], edited: list[Reply], effect: str
) -> None:
    found = held(row(control, edited))
    assert found.effect == effect
    assert bool(found.why) == (effect == "unknown")


def test_a_healthy_step_said_in_other_words_is_not_broken() -> None:
    reworded = Reply(
        key="", action=Action(text="y"), against=Difference(same=None, kinds=("text",))
    )
    assert reworded.against.reworded
    assert held(row(words(5, 0), [reworded] * 5)).effect == "held"


def test_answers_that_are_wrong_in_any_case_are_counted() -> None:
    edited = [reply(same=False, flaws=("calls x, which is not offered",))] * 2 + [reply()]
    assert held(row(words(3, 0), edited)).flawed == 2


# --- how much of it is chance


def arms(random: Random, k: int, control: float, edited: float) -> Arms:
    """The hits of k answers of each arm."""
    mine, other = (sum(random.random() < rate for _ in range(k)) for rate in (control, edited))
    return mine, k, other, k


Calls = Callable[[Arms], str]
Name = Literal["fixed", "broke"]


def shares(
    called: Calls, name: Name, k: int, control: float, edited: float
) -> tuple[float, float, float]:
    """Of 3 000 rows of which something can be told: how many are called so, how many are expected
    to be by chance, and how many the arms' majorities alone would call so."""
    random = Random(f"{name} {k} {control} {edited}")
    rows = [arms(random, k, control, edited) for _ in range(3_000)]
    told = [each for each in rows if called(each) != "unknown"]
    by_majority = sum(called(each) in (name, "inconclusive") for each in told)
    expected = sum(own_test(each, called, name).by_chance for each in told)
    count = sum(called(each) == name for each in told)
    return count / len(told), expected / len(told), by_majority / len(told)


@pytest.mark.parametrize("k", [5, 8, 20])
def test_without_an_effect_few_are_called_so_and_as_many_as_are_expected(k: int) -> None:
    """By majorities alone 48 % of the decided runs were fixed at a rate of .5, and 32 % of the
    healthy steps broken at a noise of .4, with five samples an arm."""
    print(f"\n{k} samples an arm, no effect: called so | expected by chance | by majority alone")
    cases: list[tuple[Name, Calls, float]] = []
    cases += [("fixed", ruling_of, rate) for rate in (0.5, 0.6, 0.7, 0.8, 0.9)]
    cases += [("broke", effect_of, rate) for rate in (0.1, 0.2, 0.3, 0.4)]
    for name, called, rate in cases:
        found, expected, majority = shares(called, name, k, rate, rate)
        print(f"{name} at {rate}: {found:.3f} | {expected:.3f} | {majority:.3f}")
        assert found <= 0.03
        assert abs(found - expected) <= 0.008
    if k == 5:
        assert shares(ruling_of, "fixed", 5, 0.5, 0.5)[2] > 0.4, "so much was noise"
        assert shares(effect_of, "broke", 5, 0.4, 0.4)[2] > 0.25


@pytest.mark.parametrize(("k", "least"), [(5, (0.7, 0.95)), (8, (0.9, 0.99)), (20, (0.99, 0.99))])
def test_a_real_effect_is_found(k: int, least: tuple[float, float]) -> None:
    """From .9 to .1, and from .95 to none; a healthy step the other way round."""
    cases: list[tuple[Name, Calls]] = [("fixed", ruling_of), ("broke", effect_of)]
    for name, called in cases:
        for (high, low), bound in zip(((0.9, 0.1), (0.95, 0.0)), least, strict=True):
            rates = (high, low) if name == "fixed" else (low, high)
            found, _, _ = shares(called, name, k, *rates)
            print(f"{k} samples an arm, {name} from {rates[0]} to {rates[1]}: {found:.3f}")
            assert found >= bound


def test_chance_is_reckoned_over_every_way_the_answers_could_fall_to_the_arms() -> None:
    """Of the 252 ways to deal five failures to ten answers one is 5/5 against 0/5 and 25 are 4/5
    against 1/5; in half of all control mostly fails."""
    own = own_test((5, 5, 0, 5), ruling_of, "fixed")
    assert own.p == pytest.approx(2 / 252)
    assert own.by_chance == pytest.approx(1 / 126)
    assert own_test((5, 5, 5, 5), ruling_of, "fixed").by_chance == 0
    assert own_test((3, 3, 0, 3), ruling_of, "fixed").by_chance == 0, "three can tell nothing"


def test_fewer_samples_than_four_an_arm_decide_nothing() -> None:
    assert FEWEST == 4
    assert ruling_of((FEWEST, FEWEST, 0, FEWEST)) == "fixed"
    assert ruling_of((3, 3, 0, 3)) == "inconclusive"
