"""What a model believes at a step, asked and held against what it had been shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from arc_tui import importing
from arc_tui.places import fixtures
from replay.edit.changes import Edit, InjectConstraint
from replay.errors import ModelRefused, NotFound, OfflineMiss
from replay.models.cached import Cached
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Json, Trace
from taxonomy.first_contradiction import question
from taxonomy.first_contradiction.contradictions import contradictions
from taxonomy.first_contradiction.facts import Fact, agrees, chosen, fact_named
from taxonomy.first_contradiction.question import (
    BeliefDetector,
    DemoBeliefs,
    estimate_cost,
    shown_words,
)
from taxonomy.judgements.schema import open_ledger
from taxonomy.rules.rule import RuleContext
from tests.build import call, error, heard, step, tool, trace
from tests.messages_api import Body, message, text
from tests.messages_api.refusal import refusal

ORDER = {"order_id": "1047", "status": "shipped", "total_cents": 8150, "placed": "2026-03-03"}
TOOLS = (tool("get_order", order_id={}), tool("refund_order", order_id={}, amount={}))


def shop(*parts: Any, **known: Any) -> Trace:
    """A run that reads an order, then does what it is told to do."""
    reading = step(call("get_order", json.dumps(ORDER), order_id="1047"))
    return trace([heard("Refund order 1047."), reading, *parts], tools=TOOLS, **known)


def refunding(amount: int = 8150) -> Any:
    return step(call("refund_order", "{}", order_id="1047", amount=amount))


def facts_of(run: Trace) -> tuple[Fact, ...]:
    return chosen(RuleContext(run), contradictions(run))


# --- which facts


def test_what_a_change_hangs_on_is_asked_about_first() -> None:
    facts = facts_of(shop(refunding()))
    assert facts[0].about == "total_cents of order_id 1047"
    assert facts[0].world(0) is None, "it had not been shown yet"
    shown = facts[0].world(1)
    assert shown is not None
    assert (shown.value, shown.visible) == (8150, 1)


def test_nobody_is_asked_about_what_nothing_hangs_on() -> None:
    assert facts_of(shop("Done.")) == ()


def test_what_a_call_changed_is_unknown_until_it_is_shown_again() -> None:
    again = step(call("get_order", json.dumps({**ORDER, "total_cents": 0}), order_id="1047"))
    (fact, *_) = facts_of(shop(refunding(), "Wait.", again, refunding()))
    worlds = [fact.world(at) for at in range(6)]
    assert [None if each is None else each.value for each in worlds] == [
        None, 8150, None, None, 0, None
    ]  # fmt: skip


def test_a_refused_change_changes_nothing() -> None:
    refused = step(call("refund_order", error("too much"), order_id="1047", amount=9000))
    (fact, *_) = facts_of(shop(refused, refunding()))
    shown = fact.world(2)
    assert shown is not None
    assert shown.value == 8150


def test_a_fact_that_the_user_names_has_their_value_or_that_of_a_result() -> None:
    case = RuleContext(shop(refunding()))
    by_value = fact_named(case, "Was it late?", "no")
    by_place = fact_named(case, "What did it cost?", "0:total_cents")
    assert [fact.world(0) is not None for fact in (by_value, by_place)] == [True, False]
    shown = by_place.world(1)
    assert shown is not None
    assert shown.value == 8150
    with pytest.raises(NotFound, match="total_cents"):
        fact_named(case, "What did it cost?", "0:price")


@pytest.mark.parametrize(
    ("said", "world", "same"),
    [
        ("8150", 8150, True),
        ("8,150", 8150, True),
        ("8151", 8150, False),
        ("3 March 2026", "2026-03-03", True),
        ("2026-03-03T10:00", "2026-03-03", True),
        ("4 March 2026", "2026-03-03", False),
        ("Cancelled", "canceled", True),
        ("delivered", "shipped", False),
        ("", 8150, False),
    ],
)
def test_a_belief_agrees_with_the_world_in_whatever_spelling(
    said: str, world: Json, same: bool
) -> None:
    assert agrees(said, world) is same


# --- a model that reads its context


class Reader:
    """Answers from the results above alone, but mistakes a total it saw `far` results ago."""

    name = "reader"

    def __init__(self, far: int = 99, said: str | None = None) -> None:
        self.bodies: list[Body] = []
        self._far = far
        self._said = said

    def complete(self, body: Body, sample: int) -> Body:
        self.bodies.append(body)
        if self._said is not None:
            return message(text(self._said), model=self.name)
        seen = json.dumps(body["messages"])
        told = "Observed" in str(body["messages"][-2:]) + str(body.get("system"))
        totals = re.findall(r'total_cents\\\\?": (\d+)', seen.replace('\\\\\\"', '\\"'))
        results = seen.count("tool_result")
        given = {}
        for key in body["output_config"]["format"]["schema"]["required"]:
            wrong = results > self._far and not told
            value = "1" if wrong else totals[0] if totals else ""
            given[key] = {"known": bool(totals), "value": value, "from": "a result"}
        return message(text(json.dumps(given)), model=self.name)


TOTAL = "total_cents of order_id 1047"


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def probed(store: Store, run: Trace, reader: Reader, facts: Sequence[Fact] = ()) -> BeliefDetector:
    about = tuple(facts) or tuple(f for f in facts_of(run) if f.about == TOTAL)
    return BeliefDetector(run, about, Cached(store, "reader", reader))


def run_on() -> Trace:
    looks = [step(call("get_order", error("busy"), order_id="1048")) for _ in range(3)]
    return shop(*looks, refunding())


def test_each_step_is_asked_from_when_the_fact_was_shown(store: Store) -> None:
    reader = Reader(far=2)
    detector = probed(store, run_on(), reader)
    assert detector.steps == (1, 2, 3, 4)
    assert "not in context yet" in detector.unasked[0]
    answers = [detector.at(at) for at in detector.steps]
    assert [each.bad for each in answers] == [False, False, True, True]
    assert len(reader.bodies) == 4
    says, world = answers[2].evidence
    assert (says.role, says.text) == ("believes", f"{TOTAL}: 1 (from a result)")
    assert (world.role, world.text, world.step) == ("observed", f"{TOTAL}: 8150", 0)


def test_the_question_ends_the_recorded_request_and_the_api_would_take_it(store: Store) -> None:
    reader = Reader()
    detector = probed(store, run_on(), reader)
    detector.at(3)
    (body,) = reader.bodies
    assert refusal(body) is None
    recorded = detector.sent(3).conversation.messages()
    assert body["messages"] == recorded
    asked_last = body["messages"][-1]["content"][-1]["text"]
    assert asked_last.startswith(question.OPENING)
    assert f"fact_1: {TOTAL}" in asked_last
    assert body["tool_choice"] == {"type": "none"}


def test_an_answer_is_kept_and_asked_for_once(store: Store) -> None:
    reader = Reader()
    for _ in range(2):
        detector = probed(store, run_on(), reader)
        for at in detector.steps:
            detector.at(at)
    assert len(reader.bodies) == 4
    offline = BeliefDetector(run_on(), detector.facts, Cached(store, "reader"))
    assert offline.at(1).bad is False
    with Store.open(":memory:") as empty:
        offline = BeliefDetector(run_on(), detector.facts, Cached(empty, "reader"))
        with pytest.raises(OfflineMiss, match="step 1, belief"):
            offline.at(1)


@pytest.mark.parametrize(
    ("said", "phrase"),
    [
        ("I think it was 8150.", "does not follow the schema"),
        ("{}", "omits a fact"),
        ('{"fact_1": {"known": "yes", "value": 8150, "from": ""}}', "does not follow the schema"),
        ('{"fact_1": {"known": false, "value": "", "from": ""}}', "says that it does not know"),
    ],
)
def test_an_answer_that_says_nothing_is_no_false_belief(
    store: Store, said: str, phrase: str
) -> None:
    answer = probed(store, run_on(), Reader(said=said)).at(1)
    assert answer.bad is None
    assert phrase in answer.phrase


def test_a_step_whose_context_has_calls_of_unknown_tools_is_not_asked(store: Store) -> None:
    run = trace([step(call("get_order", json.dumps(ORDER), order_id="1047")), "Done."])
    fact = fact_named(RuleContext(run), "Was it late?", "no")
    detector = BeliefDetector(run, [fact], Cached(store, "reader", Reader()))
    assert detector.steps == (0,)
    assert "tool definitions not recorded" in detector.unasked[1]


def test_the_fix_is_held_against_control_by_fresh_beliefs(store: Store) -> None:
    detector = probed(store, run_on(), Reader(far=2))
    fix = Edit(name="fix", changes=(InjectConstraint("Observed: 8150.", 3),))
    control, fixed = detector.trial(3, fix, 5)
    assert (control.bad, control.n, fixed.bad, fixed.n) == (5, 5, 0, 5)


def test_what_it_would_ask_is_said_before(store: Store) -> None:
    detector = probed(store, run_on(), Reader())
    before = estimate_cost(run_on(), detector)
    assert (before.calls, before.stored) == (4, 0)
    assert before.input_tokens > 0
    detector.at(1)
    after = estimate_cost(run_on(), detector)
    assert (after.calls, after.stored) == (3, 1)


def test_the_facts_are_shown_with_the_worlds_values() -> None:
    (line, *_) = shown_words(facts_of(shop(refunding())))
    assert line == f"{TOTAL}: 8150 from step 1, then changed before step 2, not looked at"


# --- the demo model


@pytest.fixture(scope="module")
def kept() -> Iterator[Store]:
    names = ("shop-long-v6-0", "shop-long-v8-0")
    with open_ledger(":memory:") as opened:
        list(importing.take_in(opened, [fixtures() / "traces" / f"{name}.jsonl" for name in names]))
        yield opened


def demo(kept: Store, name: str) -> BeliefDetector:
    run = read.load(kept, trace_row(kept, name).trace)
    return BeliefDetector(run, facts_of(run), Cached(kept, "demo", DemoBeliefs(), source="demo"))


def test_the_demo_model_mixes_orders_up_before_it_acts_on_it(kept: Store) -> None:
    detector = demo(kept, "shop-long-v6-0")
    answers = [detector.at(at) for at in detector.steps]
    bad = [each.step for each in answers if each.bad]
    assert (min(bad), max(bad)) == (15, 21), "it refunds the wrong sum at 16"
    assert "total_cents of order_id 1047 to be 8400" in answers[-1].phrase


def test_told_to_read_again_it_believes_what_was_shown(kept: Store) -> None:
    detector = demo(kept, "shop-long-v8-0")
    assert not any(detector.at(at).bad for at in detector.steps)


def test_it_refuses_what_it_cannot_answer() -> None:
    body: Body = {"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    with pytest.raises(ModelRefused, match="asked for no belief"):
        DemoBeliefs().complete(body, 0)
    body["messages"] = [{"role": "user", "content": question.words(["x"])}]
    with pytest.raises(ModelRefused, match="a shop's tools"):
        DemoBeliefs().complete(body, 0)
