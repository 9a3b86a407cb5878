"""Several samples of a step: how many are asked, in which order, and what they let one say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from replay.action import Action
from replay.edit.changes import Edit, SetMessage, SetModel, SetSystem
from replay.errors import OfflineMiss, RequestRefused
from replay.locked.row import AUTO, LOOK, RANGE, Models, Sampling, fixed
from replay.locked.run import Lane, replay
from replay.locked.tally import StepResult
from replay.locked.verdict import Collateral, significance, summary
from replay.models.cached import Cached
from replay.store.handle import Store
from replay.trace import Trace
from tests.messages_api import Body, message, text, tool_use
from tests.replay.locked_case import (
    BREAK,
    VERIFY,
    Fixed,
    Moody,
    Tiny,
    core_of,
    spans,
    stored,
    think,
    tiny,
)
from tests.replay.locked_case import run as run_with

EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))


def run(
    trace: Trace, edit: Edit | None, model: Cached, sampling: Sampling = AUTO
) -> list[StepResult]:
    return run_with(trace, edit, model, sampling)


def samples(store: Store, trace: Trace, model: Any, sampling: Sampling = AUTO) -> list[int]:
    return [len(row.control) for row in run(trace, EDIT, tiny(store, model), sampling)]


# --- how many


def test_only_a_step_that_is_open_is_asked_again(store: Store) -> None:
    model = Tiny()
    assert samples(store, stored(store), model) == [3, 8, 3, 3, 3]
    assert model.asked == 2 * (3 + 8 + 3 + 3 + 3)


def test_a_step_that_stays_open_is_asked_to_the_last_level_and_no_further(store: Store) -> None:
    trace, model = stored(store), Moody(3)
    found = {len(row.control) for row in run(trace, EDIT, tiny(store, model))}
    assert found <= {3, 8, 20}
    assert max(model.asked) <= 19


def test_both_arms_always_have_as_many_samples(store: Store) -> None:
    for row in run(stored(store), EDIT, tiny(store, Moody(4))):
        assert len(row.control) == len(row.edited)


def test_an_untouched_step_is_never_asked_more_than_at_first(store: Store) -> None:
    late = Edit(name="late", changes=(SetMessage(index=6, text="Refund order 7."),))
    rows = run(stored(store), late, tiny(store))
    assert [row.touched for row in rows] == [False, False, False, True, True]
    assert [len(row.control) for row in rows[:3]] == [3, 3, 3]


def test_more_samples_later_ask_only_for_those_that_are_new(store: Store) -> None:
    trace, model = stored(store), Tiny()
    run(trace, EDIT, tiny(store, model), LOOK)
    assert model.asked == 10
    run(trace, EDIT, tiny(store, model), fixed(3))
    assert model.asked == 30


def test_offline_a_missing_sample_is_named_and_how_to_do_with_fewer(store: Store) -> None:
    trace = stored(store)
    run(trace, EDIT, tiny(store), LOOK)
    with pytest.raises(OfflineMiss, match=r"step 0, control, sample 2: .*-k 1"):
        run(trace, EDIT, Cached(store, "tiny"), fixed(3))
    assert len(run(trace, EDIT, Cached(store, "tiny"), LOOK)) == 5


def test_sampling_afresh_leaves_what_is_kept_and_never_meets_it(store: Store) -> None:
    trace, model = stored(store), Tiny()
    first = run(trace, EDIT, tiny(store, model), LOOK)
    fresh = structs.replace(LOOK, range=1)
    second = run(trace, EDIT, tiny(store, model), fresh)
    assert model.asked == 20
    assert {row.control[0].key for row in first}.isdisjoint(row.control[0].key for row in second)
    assert core_of(trace, EDIT, first).digest != core_of(trace, EDIT, second, fresh).digest
    run(trace, EDIT, Cached(store, "tiny"), LOOK)


def test_samples_of_a_range_carry_its_number(store: Store) -> None:
    model = Moody(1000)
    run(stored(store), None, tiny(store, model), Sampling(levels=(2,), range=2))
    assert set(model.asked) == {2 * RANGE, 2 * RANGE + 1}


# --- in which order


def test_a_sample_that_is_in_is_not_wanted_again(store: Store) -> None:
    model = tiny(store)
    lane = Lane(stored(store), EDIT, Models.one(model), sampling=Sampling(schedule="fast"))
    first = lane.wave()
    assert {each.place for each in first} == {0, 1, 2}
    for each in first:
        list(lane.take(each, model.answer(*each.ask)))
    assert {each.place for each in lane.wave()} == {3, 4, 5, 6, 7}


class Watched(Tiny):
    """The tiny model; `order` holds the number of turns of each request as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[int, bool, int]] = []

    def complete(self, body: Body, sample: int) -> Body:
        self.order.append((len(body["messages"]), "verify" in body["system"], sample))
        return super().complete(body, sample)


def test_in_turn_the_first_sample_goes_ahead_and_steps_ascend(store: Store) -> None:
    model = Watched()
    run(stored(store), EDIT, tiny(store, model), fixed(3))
    turns = [turns for turns, _, _ in model.order]
    assert turns == sorted(turns)
    first, others = model.order[:2], model.order[2:6]
    assert [sample for _, _, sample in first] == [0, 0]
    assert sorted(sample for _, _, sample in others) == [1, 1, 2, 2]


def test_all_schedules_come_to_the_same(store: Store) -> None:
    trace = stored(store)
    digests = set()
    for schedule in ("cheap", "fast"):
        sampling = Sampling(schedule=schedule)
        with Store.open(":memory:") as fresh:
            rows = run(trace, EDIT, tiny(fresh, Moody(4)), sampling)
        digests.add(core_of(trace, EDIT, rows, sampling).digest)
    assert len(digests) == 1


# --- what they let one say


def test_a_flip_is_told_from_chance_and_its_counts_stand_beside_it(store: Store) -> None:
    verdict = summary(run(stored(store), EDIT, tiny(store)), BREAK)
    assert verdict.sentence == (
        "Control matches 5 of 5 steps."
        " The edit first diverges at step 1: refund_order → get_order;"
        " fixed: recorded action repeated in 0/8 edited, 8/8 control (p < .001)."
        " Outcome not evaluated."
    )
    assert verdict.basis == (
        "significant divergence at step 1"
        " (3 to 8 samples per arm, Fisher's exact test, Holm over 5 steps)",
        "noise floor 0 % (0–16 %, n = 20)",
    )
    assert verdict.effects == (BREAK,)
    assert verdict.effect_step == BREAK
    assert verdict.tests[BREAK].p == pytest.approx(2 / 12870)
    assert verdict.collateral == Collateral(fixed=1, same=1)
    assert not verdict.look


def test_without_a_break_a_flip_beyond_chance_is_a_change(store: Store) -> None:
    verdict = summary(run(stored(store), EDIT, tiny(store)))
    assert verdict.marks == {0: "same", BREAK: "changed", 2: "same", 3: "same", 4: "same"}
    assert verdict.collateral == Collateral(changed=1, same=1)
    assert (verdict.at_break, verdict.at_break_test) == (None, None)


def test_three_samples_of_a_flip_may_be_chance(store: Store) -> None:
    verdict = summary(run(stored(store), EDIT, tiny(store), fixed(3)), BREAK)
    assert verdict.effects == ()
    assert (
        "inconclusive: recorded action repeated in 0/3 edited, 3/3 control (p = .100)"
        in verdict.sentence
    )
    assert verdict.basis[0].startswith("no significant divergence (3 samples per arm")
    assert verdict.collateral == Collateral(unclear=1, same=1)
    assert verdict.at_break == "absent"


def test_where_the_arms_differ_only_after_the_divergence_nothing_before_it_is_claimed(
    store: Store,
) -> None:
    rows = run(stored(store), EDIT, tiny(store), fixed(3))
    facts = structs.replace(summary(rows, BREAK), effects=(3,))
    assert (facts.edited_diverges, facts.dimmed) == (1, (2, 3, 4))
    assert significance(facts) == (
        "no significant divergence up to step 1; after divergence, not counted: step 3"
    )
    assert facts.parts.method == "3 samples per arm, Fisher's exact test, Holm over 5 steps"


def test_the_same_words_cut_short_and_whole_are_two_answers(store: Store) -> None:
    class Shortened(Tiny):
        def complete(self, body: Body, sample: int) -> Body:
            return message(text("It is done."), stop="end_turn" if sample else "max_tokens")

    (row,) = run_with(stored(store), None, tiny(store, Shortened()), fixed(2), steps={0})
    assert [each.action.cut is None for each in row.control] == [False, True]


def test_noise_that_both_arms_have_is_no_effect(store: Store) -> None:
    harmless = Edit(name="brief", changes=(SetSystem("You refund orders. Be brief."),))
    verdict = summary(run(stored(store), harmless, tiny(store, Moody(3)), AUTO), BREAK)
    assert verdict.effects == ()
    assert verdict.noise.value == pytest.approx(1 / 3, abs=0.1)
    assert "The edit does not diverge" in verdict.sentence


def test_another_model_is_held_against_its_own_first_answer(store: Store) -> None:
    """It never repeats the recording; what the edit does to it is seen all the same."""

    class Other(Tiny):
        def complete(self, body: Body, sample: int) -> Body:
            given = think(body)
            if "verify" in body["system"]:
                return given
            return message(tool_use("get_order", order_id=77))

    trace = stored(store, spans(model="openai/gpt-4o"))
    rows = run(trace, EDIT, tiny(store, Other()))
    verdict = summary(rows, BREAK)
    assert verdict.rebased
    assert verdict.at_break == "absent in control"
    assert verdict.effects != ()
    assert "from control's first sample" in verdict.sentence
    assert verdict.noise.value == 0.0
    assert verdict.noise.n == sum(len(row.control) - 1 for row in rows), "the first is the measure"
    assert verdict.basis[1].startswith("noise floor against control's first sample 0 % (")


def test_an_edit_that_only_the_edited_arm_cannot_ask_costs_that_arm(store: Store) -> None:
    class Strict(Tiny):
        def complete(self, body: Body, sample: int) -> Body:
            if "verify" in body["system"]:
                raise RequestRefused("prompt is too long")
            return super().complete(body, sample)

    rows = run(stored(store), EDIT, tiny(store, Strict()))
    assert {row.edited_refused for row in rows} == {"prompt is too long"}
    assert all(row.control and not row.edited and row.refused is None for row in rows)
    assert "Outcome" not in summary(rows).sentence
    assert summary(rows).notices == (
        "step 0 not replayed with the edit: prompt is too long (and 4 more steps)",
    )


def test_an_edit_may_ask_another_model(store: Store) -> None:
    trace = stored(store)
    other = Fixed(message(text("I am another.")))
    models = Models(tiny(store), Cached(store, "other", other))
    edit = Edit(name="other", changes=(SetModel("other"),))
    rows = list(replay(trace, edit, models, sampling=LOOK))
    assert all(row.touched for row in rows)
    assert other.asked == 5
    verdict = summary(rows, BREAK, edited_model="other")
    assert "Control runs on tiny, the edit on other." in verdict.sentence


def test_masked_values_of_the_requests_stand_beside_the_fidelity(store: Store) -> None:
    rows = run(stored(store), EDIT, tiny(store))
    assert summary(rows, masked={0: 1, 3: 2, 99: 5}).masked == 3


class Shows:
    """A detector of the tests: a refund shows the failure, whatever its arguments."""

    name, step = "refunds, by the test", BREAK

    def shows(self, action: Action) -> bool | None:
        return None if action.cut else any(call.tool == "refund_order" for call in action.calls)


class Varied(Tiny):
    """The tiny model, whose refunds are never the recorded one."""

    def complete(self, body: Body, sample: int) -> Body:
        given = super().complete(body, sample)
        if given["content"][0].get("name") == "refund_order":
            return message(tool_use("refund_order", order_id=1042, amount=sample), model="tiny")
        return given


def test_a_detector_sees_the_failure_in_actions_that_were_never_recorded(store: Store) -> None:
    """Both arms diverge from the recording; only one of them still refunds."""
    models = Models.one(tiny(store, Varied()))
    rows = {row.step: row for row in replay(stored(store), EDIT, models, detector=Shows())}
    verdict = summary(rows.values(), BREAK)
    assert verdict.tests[BREAK].p == 1.0
    assert verdict.at_break == "absent"
    assert verdict.marks[BREAK] == "fixed"
    assert verdict.at_break_test is not None
    assert verdict.at_break_test.counts == (8, 8, 0, 8)
    assert "failure (refunds, by the test) in 0/8 edited" in verdict.sentence
    assert [len(rows[step].control) for step in range(5)] == [3, 8, 3, 3, 3]
    assert [rows[step].detector for step in range(5)] == [None, Shows.name, None, None, None]


def test_the_failure_may_stay_in_another_shape(store: Store) -> None:
    harmless = Edit(name="brief", changes=(SetSystem("You refund orders. Be brief."),))
    models = Models.one(tiny(store, Varied()))
    rows = {row.step: row for row in replay(stored(store), harmless, models, detector=Shows())}
    verdict = summary(rows.values(), BREAK)
    assert verdict.at_break == "present"
    assert verdict.marks[BREAK] != "fixed"
