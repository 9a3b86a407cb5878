"""Stated plans and routes against gold, and the figures over runs."""

from __future__ import annotations

from typing import Any

import pytest

from replay.action import Act
from replay.statistics import Rate
from taxonomy.metrics.cost import NOTHING_KNOWN
from taxonomy.metrics.gold import Gold
from taxonomy.metrics.plans import plan_overlap, route, routes, stated_plan
from taxonomy.metrics.reliability import over_tasks
from taxonomy.stats.figures import figures
from taxonomy.stats.gold import own_gold_runs, plan_figures, routing
from taxonomy.stats.runs import OwnGold, Run


def act(tool: str, **arguments: Any) -> Act:
    return Act(tool=tool, arguments=arguments)


def todo(*steps: str, tool: str = "TodoWrite") -> Act:
    return act(tool, todos=[{"content": step, "status": "pending"} for step in steps])


@pytest.mark.parametrize(
    "call",
    [
        todo("Look", "Refund"),
        act("update_plan", plan=[{"step": "Look", "status": "x"}, {"step": "Refund"}]),
        act("write_todos", todos=[{"description": "Look"}, {"description": "Refund"}]),
        act("create_plan", steps=["Look", "Refund", ""]),
    ],
)
def test_a_plan_is_what_a_tool_for_plans_is_given(call: Act) -> None:
    assert stated_plan([act("get_order", id="1"), call, todo("Else")]) == ("Look", "Refund")


def test_what_states_no_list_is_no_plan() -> None:
    empty = [
        act("TodoWrite", todos=[]),
        act("TodoRead"),
        act("ExitPlanMode", plan="Do it."),
        act("get_order", items=["a"]),
        Act(tool="TodoWrite", arguments=None, raw="{"),
    ]
    assert stated_plan(empty) is None


def test_steps_are_alike_by_most_words_and_the_same_numbers() -> None:
    gold = ["Look up the order 1", "Cancel the order 1", "Tell the customer"]
    made = ["look up order 1 in the shop", "cancel order 2", "tell customer the result"]
    found = plan_overlap(made, gold)
    assert (found.matched, found.made, found.gold) == (2, 3, 3)
    assert plan_overlap(gold[::-1], gold).matched == 1, "in gold's order"
    assert plan_overlap([gold[0], gold[0]], gold).matched == 1, "each step is used once"
    assert plan_overlap(["the"], ["the"]).matched == 0, "small words say nothing"


@pytest.mark.parametrize(
    ("call", "to"),
    [
        (act("transfer_to_billing_agent"), "billing"),
        (act("transfer_to_human_agents", summary="x"), "human"),
        (act("Task", subagent_type="code-reviewer", prompt="x"), "code reviewer"),
        (act("handoff", agent="Refunds"), "refunds"),
        (act("get_order", agent="x"), None),
        (act("Task", prompt="x"), None),
        (act("transfer", amount=5), "transfer"),
    ],
)
def test_whom_a_call_gives_work_to(call: Act, to: str | None) -> None:
    assert route(call) == to


def test_a_route_is_right_where_gold_gives_work_to_the_same() -> None:
    billing, refunds = act("transfer_to_billing"), act("transfer_to_refunds")
    assert routes([act("x"), billing], [billing]).right is True
    assert routes([refunds], [billing]).right is False
    assert routes([], [billing]).right is False
    assert routes([billing], []).right is False
    assert routes([act("x")], [act("y")]).right is None


def run(name: str, **known: Any) -> Run:
    return Run(trace=name, steps=3, money=NOTHING_KNOWN, **known)


def test_runs_that_state_no_plan_count_nowhere_but_apart() -> None:
    gold = ("Look up the order", "Refund it fully")
    runs = [
        run("a", task="t", gold_plan=gold, calls=(todo("Look up the order", "Refund fully"),)),
        run("b", task="t", gold_plan=gold, calls=(todo("Something else entirely"),)),
        run("c", task="u", gold_plan=gold),
        run("d", task="v"),
    ]
    found = plan_figures(runs)
    assert found is not None
    assert (found.f1.value, found.f1.n) == (0.5, 1)
    assert found.precision.value == pytest.approx(2 / 3)
    assert (found.recall.value, found.recall.n) == (0.5, 4)
    assert (found.runs, found.unstated) == (2, 1)
    assert plan_figures([run("d")]) is None
    only = plan_figures([run("c", gold_plan=gold)])
    assert only is not None
    assert (only.f1.value, only.unstated) == (None, 1)


def test_routing_counts_the_runs_in_which_work_is_or_should_be_given_to_somebody() -> None:
    gold = Gold(calls=(act("transfer_to_billing"),))
    runs = [
        run("a", gold=gold, calls=(act("transfer_to_billing"),)),
        run("b", gold=gold),
        run("c", gold=Gold(calls=(act("x"),)), calls=(act("x"),)),
        run("d", calls=(act("transfer_to_billing"),)),
    ]
    assert (routing(runs).value, routing(runs).n) == (0.5, 2)
    assert figures(runs).routing == routing(runs)


def test_runs_before_their_gold_are_counted() -> None:
    runs = [run("a", own=OwnGold(hindsight=True)), run("b", own=OwnGold(hindsight=None)), run("c")]
    found = own_gold_runs(runs)
    assert found is not None
    assert (found.runs, found.hindsight, found.undated) == (2, 1, 1)
    assert own_gold_runs([run("c")]) is None


def test_pass_1_to_the_power_of_k_stands_beside_pass_hat_k() -> None:
    found = over_tasks([(4, 4), (4, 0)], 2)
    assert (found.pass_hat.value, found.independent.value) == (0.5, 0.25)
    assert found.independent.low == pytest.approx(found.pass_one.low**2)
    assert found.independent.high == pytest.approx(found.pass_one.high**2)
    assert over_tasks([], 2).independent == Rate(value=None, n=0, low=0.0, high=1.0)
