"""Answers and whole runs held against the source's gold calls, and against a judge."""

from __future__ import annotations

from typing import Any

import pytest

from replay.action import Act, Action
from replay.errors import ModelRefused, OfflineMiss
from replay.free import run as free
from replay.free.recorded_results import Terms
from replay.models.cached import Cached
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.detectors import (
    GoldDetector,
    GoldEnding,
    JudgeDetector,
    NothingExpected,
    by_rule,
    judge_needed,
)
from tests.arc_tui.free_case import ACCOUNT, WITHDRAWN
from tests.build import tool, trace
from tests.messages_api import Body
from tests.replay.free_case import Script, says, uses

GOLD = {
    "actions": [
        {"name": "withdraw", "kwargs": {"amount": 10}},
        {"name": "withdraw", "kwargs": {"amount": 20}},
    ]
}
READ: tuple[str, dict[str, Any]] = ("get_balance", {})


def account(reference: dict[str, Any] | None = GOLD) -> Trace:
    return trace(
        ACCOUNT,
        system="Be brief.",
        tools=[tool("get_balance"), tool("withdraw", amount={})],
        header={"reference": reference},
    )


def calls(*given: Act) -> Action:
    return Action(calls=given)


def withdraw(amount: float) -> Act:
    return Act(tool="withdraw", arguments={"amount": amount})


SAID, HALF = Action(text="You have 30."), calls(withdraw(77.31))
LOOK = Act(tool="get_balance", arguments={})


class TestGoldAction:
    @pytest.mark.parametrize(
        ("given", "bad"),
        [
            (calls(withdraw(20)), False),
            (calls(LOOK, withdraw(20.0)), False),
            (calls(withdraw(10)), True),
            (calls(withdraw(20), withdraw(1)), True),
            (calls(LOOK), None),
            (Action(text="Shall I?"), None),
            (Action(cut="cut at the token limit"), None),
        ],
    )
    def test_what_no_step_has_made_yet_is_due(self, given: Action, bad: bool | None) -> None:
        detector = GoldDetector(account(), 2)
        assert detector.due == (Act(tool="withdraw", arguments={"amount": 20}),)
        assert detector.shows(given) is bad

    def test_where_nothing_is_due_speaking_is_right(self) -> None:
        done = GoldDetector(account({"actions": GOLD["actions"][:1]}), 2)
        assert done.shows(Action(text="Done.")) is False
        assert done.shows(calls(withdraw(20))) is True
        refused = GoldDetector(account({"actions": []}), 0)
        assert refused.shows(Action(text="I cannot do that.")) is False
        assert refused.shows(calls(withdraw(10))) is True

    @pytest.mark.parametrize("reference", [None, {}, {"actions": [3]}])
    def test_without_gold_there_is_nothing_to_expect(
        self, reference: dict[str, Any] | None
    ) -> None:
        with pytest.raises(NothingExpected, match="no gold actions"):
            GoldDetector(account(reference), 0)


class TestGoldEnding:
    def met(self, store: Store, *answers: Body) -> bool | None:
        kept = account()
        model = Cached(store, "script", Script(*answers))
        terms = Terms(stubs=(WITHDRAWN,))
        *_, run = free.run(kept, None, model, terms, start=2)
        return GoldEnding(kept).met(kept, run)

    def test_a_run_that_changes_what_gold_changes_and_no_more_meets_it(self, store: Store) -> None:
        """One withdrawal was recorded before the start, the other is the run's own."""
        asked = uses(("withdraw", {"amount": 20}))
        nothing = says("")
        assert self.met(store, nothing, nothing, asked, says("Done.")) is True

    def test_one_that_does_less_does_not(self, store: Store) -> None:
        nothing = says("")
        assert self.met(store, nothing, nothing, uses(READ), says("You have 30.")) is False

    def test_one_that_does_more_does_not_whatever_comes_later(self, store: Store) -> None:
        nothing = says("")
        assert self.met(store, nothing, nothing, uses(("withdraw", {"amount": 99}))) is False


@pytest.fixture
def store() -> Any:
    with Store.open(":memory:") as opened:
        yield opened


class TestJudge:
    def test_the_rules_say_of_an_answer_what_they_say_of_a_recorded_one(self) -> None:
        detector = JudgeDetector(account(), 3, None)
        assert detector.name == "scored under 0.5 by the judge demo, rule-based"
        assert [by_rule(account(), 3, each).value for each in (SAID, HALF)] == [1.0, 0.5]
        assert (detector.shows(SAID), detector.shows(HALF)) == (False, False), (
            "a half is not under it"
        )
        assert detector.shows(Action(cut="failed")) is None

    def test_a_judge_whose_word_is_not_stored_is_missed(self, store: Store) -> None:
        detector = JudgeDetector(account(), 3, Cached(store, "judge"))
        with pytest.raises(OfflineMiss, match="no stored score of the judge"):
            detector.shows(Action(text="You have 30."))

    def test_who_judges_must_be_named_unless_it_is_the_demo(self) -> None:
        assert judge_needed(None, "demo") == "demo"
        assert judge_needed("other", "claude-test") == "other"
        with pytest.raises(ModelRefused, match="no judge given"):
            judge_needed(None, "claude-test")
