"""Wordings along the recorded road: which answers count, what they come to, and chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.action import Act, Action
from replay.compare import actions
from replay.locked.tally import Reply, StepResult
from replay.store.handle import Store
from replay.trace import Fidelity, Level
from taxonomy.detectors import asked_of, by_rule
from taxonomy.judge.requests import JudgeRequest, Unasked
from taxonomy.judge.rubrics import RUBRICS
from taxonomy.metrics.grounding import by_chance
from taxonomy.paraphrase_test import result
from taxonomy.paraphrase_test.result import (
    RecordedPath,
    Scored,
    Varied,
    recorded_path,
    sample_means,
    steps_to_ask,
)
from tests.build import call, step, trace

LOOKS = Action(calls=(Act(tool="look", arguments={"id": "1"}),))
PAYS = Action(calls=(Act(tool="pay", arguments={"id": "1"}),))
SAYS = Action(text="Which order is it?")


def answered(index: int, *given: Action, refused: str | None = None) -> StepResult:
    """A step at which looking was recorded, answered so by an edited arm."""
    replies = tuple(
        Reply(key=str(at), action=each, against=actions.compare(LOOKS, each, ()))
        for at, each in enumerate(given)
    )
    return StepResult(
        step=index,
        thread="root",
        model="m",
        recorded_model="m",
        recorded=LOOKS,
        fidelity=Fidelity(level=Level.EXACT),
        touched=True,
        control=replies,
        edited=replies,
        refused=refused,
    )


def test_a_road_ends_with_the_first_answer_that_acts_otherwise() -> None:
    found = recorded_path([answered(0, LOOKS), answered(1, PAYS), answered(2, LOOKS)], edited=True)
    assert [each.step for each in found.answers] == [0, 1]
    assert found.diverges == 1


def test_most_samples_of_a_step_say_whether_it_is_left() -> None:
    assert recorded_path([answered(0, LOOKS, LOOKS, PAYS)], edited=True).diverges is None
    assert recorded_path([answered(0, LOOKS, PAYS, PAYS)], edited=True).diverges == 0


def test_a_wording_is_judged_where_the_run_broke_or_where_it_left_before() -> None:
    rows = [answered(0, LOOKS), answered(1, LOOKS), answered(2, LOOKS)]
    whole = recorded_path(rows, edited=True)
    assert [each.step for each in whole.judged(2)] == [2]
    assert [each.step for each in whole.judged(None)] == [0, 1, 2]
    early = recorded_path([rows[0], answered(1, PAYS), rows[2]], edited=True)
    assert [each.step for each in early.judged(2)] == [1]
    assert [each.step for each in early.judged(0)] == [0]


def test_a_step_that_cannot_be_asked_has_no_answer_to_judge() -> None:
    found = recorded_path([answered(0, LOOKS), answered(1, refused="no tools")], edited=True)
    assert found.unasked == ((1, "no tools"),)
    assert found.judged(1) == ()


def test_only_steps_of_the_thread_up_to_the_break_are_asked() -> None:
    run = trace([step(call("look")), step(call("look")), "Done."])
    thread = run.steps[0].thread
    assert steps_to_ask(run, thread, 1) == (0, 1)
    assert steps_to_ask(run, thread, None) == (0, 1, 2)
    assert steps_to_ask(run, "another", None) == ()


# --- judging


RUN = trace(
    [step(call("look", {"id": "1", "cents": 500}, id="1")), step(call("pay", id="1", cents=900))],
    task="Pay order 1 back.",
)


def test_the_judge_sees_the_given_answer_under_the_goal_as_it_was_really_asked() -> None:
    given = Action(calls=(Act(tool="pay", arguments={"id": "1", "cents": 500}),))
    found = asked_of(RUN, 1, given, RUBRICS["step"], "judge")
    assert isinstance(found, JudgeRequest)
    goal, output = (piece.text for piece in found.exhibit.pieces)
    assert "Pay order 1 back." in goal
    assert "500" in output
    assert "900" not in output


def test_an_answer_that_is_not_whole_is_not_judged() -> None:
    cut = Action(text="I", cut="cut at the token limit")
    found = asked_of(RUN, 1, cut, RUBRICS["step"], "judge")
    assert isinstance(found, Unasked)
    assert by_rule(RUN, 1, cut).value is None


def test_the_rules_score_an_answer_by_what_it_had_seen() -> None:
    seen = Action(calls=(Act(tool="pay", arguments={"order_id": "A10421"}),))
    run = trace(
        [step(call("look", {"order_id": "A10421"}, name="x")), step(call("pay", order_id="A99999"))]
    )
    invented = Action(calls=(Act(tool="pay", arguments={"order_id": "A77777"}),))
    assert (by_rule(run, 1, seen).value or 0) > (by_rule(run, 1, invented).value or 0)


# --- what it comes to


def told(*scores: float, samples: int = 1) -> Varied:
    return Varied(
        trace="t",
        task="route",
        model="m",
        judge="j",
        broke=2,
        samples=samples,
        wordings=tuple(
            Scored(label=str(at), text="", by="me", samples=(score,) * samples, steps=(2,))
            for at, score in enumerate(scores)
        ),
    )


def test_the_article_s_three_wordings_are_surface_sensitive() -> None:
    found = told(0.31, 0.87, 0.82)
    assert found.surface is not None
    assert found.surface.range == pytest.approx(0.56)
    assert found.reading == "surface sensitivity"


def test_failing_alike_is_a_gap_and_doing_well_alike_is_no_failure() -> None:
    assert told(0.31, 0.35, 0.30, 0.33).reading == "consistent capability gap"
    assert told(0.91, 0.95, 0.90, 0.93).reading == "no failure in any wording"
    assert told(0.31, 0.41).reading == "undecided"
    assert told(0.31).reading is None


def test_a_range_that_chance_explains_is_undecided() -> None:
    wild = Varied(
        trace="t",
        task=None,
        model="m",
        judge="j",
        broke=0,
        samples=2,
        wordings=(
            Scored(label="original", text="", by="", samples=(0.1, 0.9), steps=(0,)),
            Scored(label="A", text="", by="", samples=(0.9, 0.6), steps=(0,)),
        ),
    )
    assert wild.surface is not None
    assert wild.surface.reading == "surface sensitivity"
    assert wild.reading == "undecided"
    assert told(0.1, 0.9, samples=8).reading == "surface sensitivity"


def test_shuffling_says_how_far_chance_reaches() -> None:
    assert by_chance([[0.1], [0.9]]) is None
    assert by_chance([[0.1, 0.2]]) is None
    apart = by_chance([[0.1] * 6, [0.9] * 6])
    alike = by_chance([[0.1, 0.9] * 3, [0.9, 0.1] * 3])
    assert apart is not None
    assert apart < 0.02
    assert alike == 1


@given(st.lists(st.lists(st.floats(0, 1), max_size=4), max_size=4))
def test_any_samples_have_a_chance_or_are_too_few(samples: list[list[float]]) -> None:
    found = by_chance(samples)
    assert found is None or 0 < found <= 1
    assert found == by_chance(samples)


def test_a_sample_is_the_mean_over_its_judged_steps() -> None:
    assert sample_means([[0.2, 0.4], [0.4, None]]) == pytest.approx((0.3, 0.4))
    assert sample_means([[None]]) == ()
    assert sample_means([]) == ()


def test_the_latest_of_the_same_judge_and_step_is_kept() -> None:
    with Store.open(":memory:") as store:
        result.keep(store, told(0.3, 0.9))
        result.keep(store, told(0.3, 0.4))
        (only,) = result.kept(store)
    assert only.wordings == told(0.3, 0.4).wordings
    assert only.at_ns > 0


def test_a_road_of_nothing_has_nothing_to_judge() -> None:
    assert RecordedPath().judged(3) == ()
    assert recorded_path([], edited=False) == RecordedPath()
