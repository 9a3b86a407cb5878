"""What a run spent, sent again for nothing, and did twice: known answers, and real runs."""

from __future__ import annotations

from typing import Any

import pytest

from replay.store import read
from replay.trace import Cost, Message, Response, Trace, extend
from taxonomy.evidence.reading import Reading
from taxonomy.judgements.schema import open_ledger
from taxonomy.rules.rule import RuleContext
from taxonomy.waste import Resent, waste
from taxonomy.waste.repeats import LoopCost, Redundant, loops, redundant, spending
from taxonomy.waste.resent import resent
from tests.build import NOTHING, Part, call, error, step, trace
from tests.shared import Imported, needs_shared, runs_below
from tests.taxonomy.waste_case import paid, usage, with_ask, with_request

LONG = "The quiet heron stands beside a silver pond. " * 40


def sent_again(run: Trace) -> dict[int, Resent]:
    """What was sent again, by the step that called for it."""
    return {each.step: each for each in resent(Reading(run))}


def looked(result: Any, *later: Any, **known: Any) -> Trace:
    """A run whose first step observes `result`, and which goes on with `later`."""
    return trace([step(call("look", result, at="pond")), *later], **known)


# --- spending


def test_a_run_costs_what_its_tokens_cost_at_their_prices() -> None:
    """The worked example of the cost article: 20 steps, 60 % cached, $0.541."""
    run = paid(["So."] * 20, [usage(12_000, 700, read=7_200)] * 20)
    spent = spending(run)
    assert spent.cost_usd == pytest.approx(0.5412)
    assert spent.cost_complete
    assert (spent.input_tokens, spent.output_tokens) == (240_000, 14_000)
    assert spent.cache_read_tokens / spent.cached_input_tokens == pytest.approx(0.6)


def test_a_recorded_cost_is_believed_before_the_table() -> None:
    run = with_ask(paid(["So."], [usage(12_000, 700)]), 0, cost=Cost(usd=0.25, source="recorded"))
    assert spending(run).cost_usd == 0.25


def test_a_sum_over_partly_unknown_costs_says_so() -> None:
    spent = spending(paid(["So.", "So."], [usage(12_000, 700), None]))
    assert spent.cost_usd == pytest.approx(0.0465)
    assert (spent.cost_complete, spent.priced) == (False, 1)


def test_a_run_without_steps_wastes_nothing() -> None:
    found = waste(trace([]))
    assert found.spending.cost_usd == 0
    assert (found.cache_breaks, found.resent, found.loops, found.redundant.calls) == ((),) * 4


# --- observations sent again


def test_an_observation_is_counted_from_the_input_it_added() -> None:
    run = paid(
        [step("I look.", call("look", LONG, at="pond")), "A pond.", "Bye."],
        [usage(1_000, 30), usage(1_480, 20), usage(1_520, 20)],
    )
    found = sent_again(run)[0]
    assert (found.how, found.tokens) == ("counted", 450)
    assert (found.resends, found.last_step, found.resent_tokens) == (1, 2, 450)


def test_growth_beside_hidden_reasoning_is_shared_out() -> None:
    run = paid(
        [step("I look.", call("look", LONG, at="pond")), "A pond.", "Bye."],
        [usage(1_000, 5_000), usage(1_480, 20), usage(1_520, 20)],
    )
    found = sent_again(run)[0]
    assert found.how == "shared"
    assert found.tokens is not None
    assert 300 < found.tokens < 480


def test_without_recorded_input_the_size_is_reckoned_by_characters() -> None:
    found = sent_again(looked(LONG, "A pond.", "Bye."))[0]
    assert (found.how, found.tokens, found.cost_usd) == ("reckoned", len(LONG) // 4, None)


def test_what_media_weigh_is_not_reckoned() -> None:
    found = sent_again(looked("[image]", "A pond.", "Bye."))[0]
    assert (found.tokens, found.resent_tokens) == (None, None)


def test_what_was_read_from_the_cache_is_paid_at_its_price() -> None:
    parts: list[Part] = [step("I look.", call("look", LONG, at="pond")), "A pond.", "Well.", "Bye."]
    warm = [
        usage(2_000, 30, read=0, write=2_000),
        usage(2_480, 20, read=2_000, write=480),
        usage(2_510, 20, read=2_480, write=30),
        usage(2_540, 20, read=0, write=2_540),
    ]
    found = sent_again(paid(parts, warm))[0]
    assert found.tokens == 450
    assert found.cost_usd == pytest.approx(450 * (0.30 + 3.75) / 1e6)
    assert (found.priced, found.resends, found.at_most) == (2, 2, False)


def test_without_cache_figures_the_fresh_price_is_the_most_it_cost() -> None:
    parts: list[Part] = [step("I look.", call("look", LONG, at="pond")), "A pond.", "Bye."]
    found = sent_again(paid(parts, [usage(1_000, 30), usage(1_480), usage(1_600)]))[0]
    assert found.cost_usd == pytest.approx(450 * 3 / 1e6)
    assert found.at_most


def test_a_step_of_unknown_price_is_left_out_of_the_cost() -> None:
    parts: list[Part] = [step("I look.", call("look", LONG, at="pond")), "A pond.", "Well.", "Bye."]
    found = sent_again(paid(parts, [usage(1_000, 30), usage(1_480), None, usage(1_600)]))[0]
    assert (found.priced, found.resends) == (1, 2)


def test_what_a_compaction_dropped_is_not_sent_again() -> None:
    run = looked(LONG, "A pond.", "Well.", "Bye.")
    summary = Message(dialect="anthropic", body={"role": "user", "content": "You saw a pond."})
    for index in (2, 3):
        run = with_request(run, index, context=extend(None, [summary]))
    assert sent_again(run) == {}


def test_an_observation_seen_once_is_not_sent_again() -> None:
    assert sent_again(looked(LONG, "A pond.")) == {}


@pytest.mark.parametrize(
    ("result", "later", "at"),
    [
        ("order ORD-77 is late", "ORD-77 it is.", 1),
        ("see src/pond.py", step(call("open", path="src/pond.py")), 1),
        ("The heron sleeps.", "A heron.", 1),
        ({"first": 120.5, "second": 79.5}, step(call("refund", amount=200)), 1),
        ("The heron sleeps.", "All is well.", None),
        ("you asked at pond", "At the pond.", None),
        ("Do the task now", "The task is done.", None),
    ],
)
def test_what_counts_as_a_repetition(result: Any, later: Any, at: int | None) -> None:
    found = sent_again(looked(result, later, "Bye."))[0]
    assert (found.repeated, found.repeated_at) == (at is not None, at)


@pytest.mark.parametrize(("quote", "at"), [("'", 2), ("", None)])
def test_a_word_shown_before_counts_where_it_is_quoted(quote: str, at: int | None) -> None:
    told = f"no module {quote}heron{quote}"
    run = looked("A heron.", step(call("run", error(told), n=1)), "I add the heron.", "Bye.")
    assert sent_again(run)[1].repeated_at == at


def test_the_same_step_repeats_nothing_of_what_it_is_about_to_see() -> None:
    run = trace([step("Is it ORD-77?", call("look", "ORD-77")), "Good.", "Bye."])
    assert sent_again(run)[0].repeated is False


def test_where_a_later_answer_is_missing_nobody_knows_what_it_repeats() -> None:
    run = with_ask(looked("The heron sleeps.", "Well.", "Bye."), 2, response=Response())
    assert sent_again(run)[0].repeated is None


def test_a_result_of_nothing_but_signs_is_read_in_one_pass() -> None:
    signs = "-" * 200_000 + "." * 200_000 + "x" * 200_000
    assert sent_again(looked(signs, "Well.", "Bye."))[0].repeated is False


# --- doing again


def again(run: Trace) -> Redundant:
    return redundant(Reading(run))


def test_the_same_call_for_the_same_answer_is_redundant() -> None:
    same = step(call("get_order", "late", id=7))
    run = paid([same, step(call("get_order", "late", id=8)), same, "Late."], [usage(12_000, 0)] * 4)
    found = again(run)
    assert [(each.step, each.earlier) for each in found.calls] == [(2, 0)]
    assert found.share.value == pytest.approx(1 / 3)
    assert (found.share.n, found.steps) == (3, (2,))
    assert found.cost_usd == pytest.approx(0.036)


@pytest.mark.parametrize(
    "second",
    [
        call("get_order", "shipped", id=7),
        call("get_order", "late", id=7.5),
        call("get_order", NOTHING, id=7),
    ],
)
def test_another_answer_another_question_or_no_answer_is_not(second: Any) -> None:
    assert again(trace([step(call("get_order", "late", id=7)), step(second)])).calls == ()


def test_a_change_in_between_makes_looking_again_worthwhile() -> None:
    look, change = call("get_order", "late", id=7), call("update_order", "ok", id=7)
    assert again(trace([step(look), step(change), step(look)])).calls == ()


def test_a_step_that_also_did_something_new_is_not_charged() -> None:
    look, other = call("get_order", "late", id=7), call("get_user", "Mei", id=1)
    found = again(trace([step(look), step(look, other)]))
    assert len(found.calls) == 1
    assert found.steps == ()


def looped(run: Trace) -> tuple[LoopCost, ...]:
    """The loops that the rule finds in a run, with their cost."""
    return loops(RuleContext(run).reading)


def test_a_loop_costs_the_steps_that_went_through_it_again() -> None:
    fails = step(call("get_order", error("no such order"), id=7))
    run = paid(["Hello.", fails, fails, fails, fails, "Sorry."], [usage(12_000, 0)] * 6)
    (loop,) = looped(run)
    assert loop.steps == (2, 3, 4)
    assert loop.cost_usd == pytest.approx(3 * 0.036)
    assert loop.cost_complete


def test_what_came_between_is_not_part_of_a_loop() -> None:
    fails = step(call("get_order", error("no such order"), id=7))
    other = step(call("get_user", "Mei", id=1))
    (loop,) = looped(trace([fails, fails, other, fails, "Sorry."]))
    assert loop.steps == (1, 3)


def test_a_loop_of_unknown_cost_says_so() -> None:
    fails = step(call("get_order", error("no such order"), id=7))
    (loop,) = looped(trace([fails, fails, fails]))
    assert (loop.cost_usd, loop.cost_complete) == (None, False)


# --- real runs


FIX_GIT, FLAGS, CODING = "terminal_bench/fix-git__cCozJVA", "docent/ctf.json", "claude_code_runs"


def loaded(real: Imported, *places: str) -> list[Trace]:
    with open_ledger(real.path) as store:
        return [read.load(store, row.trace) for row in runs_below(store, *places)]


@needs_shared
def test_a_real_run_that_lost_its_cache_twice_and_asked_the_same_again(real: Imported) -> None:
    (run,) = loaded(real, FIX_GIT)
    found = waste(run)
    assert [each.step for each in found.cache_breaks] == [48, 54]
    assert found.cache_breaks[0].left_tokens == 26_432
    assert found.cache_breaks[0].read_tokens == 18_016
    assert found.spending.cost_complete is False
    assert len(found.redundant.calls) > 30
    assert found.redundant.cost_usd is not None
    assert found.spending.cost_usd is not None
    assert 0 < found.redundant.cost_usd < found.spending.cost_usd


@needs_shared
def test_a_real_observation_is_counted_and_paid_from_the_cache(real: Imported) -> None:
    run = max(loaded(real, FLAGS), key=lambda each: len(each.steps))
    found = sent_again(run)[0]
    first, second = (each.ask.usage for each in run.steps[:2])
    assert first is not None
    assert second is not None
    grown = (second.input_tokens or 0) - (first.input_tokens or 0) - (first.output_tokens or 0)
    assert (found.how, found.tokens, found.resends) == ("counted", grown, len(run.steps) - 2)
    assert found.cost_usd == pytest.approx(grown * found.resends * 0.30 / 1e6, rel=0.01)


@needs_shared
def test_a_source_without_prices_has_sizes_but_no_costs(real: Imported) -> None:
    (run,) = loaded(real, f"{CODING}/claude_code_coder__swe-bench-fsspec")
    found = waste(run)
    assert found.spending.cost_usd is None
    assert found.cache_breaks == ()
    assert len(found.resent) > 50
    assert {each.how for each in found.resent} == {"reckoned"}
    assert all(each.cost_usd is None for each in found.resent)


@pytest.mark.data
@needs_shared
def test_no_real_run_pays_more_for_an_observation_than_for_its_steps(real: Imported) -> None:
    runs = loaded(real, FIX_GIT, FLAGS, CODING)
    assert len(runs) > 50
    for run in runs:
        found = waste(run)
        spent = found.spending.cost_usd or 0.0
        assert sum(each.cost_usd or 0.0 for each in found.resent) <= spent
        assert sum(each.extra_usd or 0.0 for each in found.cache_breaks) <= spent
