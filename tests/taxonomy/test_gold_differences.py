"""A run against the gold of its task: which calls are missing, extra or wrong, and what is said."""

from __future__ import annotations

from typing import Any

from replay.compare.rules import rules_from
from replay.trace import Json
from taxonomy.evidence.gold_differences import compare_to_gold
from taxonomy.evidence.reading import Reading
from taxonomy.findings import GoldComparison, GoldDifference
from tests.build import Part, call, error, heard, step, trace

READ = {"name": "get_order", "kwargs": {"id": "1"}}
REFUND = {"name": "refund_order", "kwargs": {"id": "1", "amount": 5}}
CANCEL = {"name": "cancel_order", "kwargs": {"id": "2"}}
MAIL = {"name": "send_email", "kwargs": {"to": "ann", "text": "Refunded."}}


def own(**gold: Json) -> dict[str, Json]:
    """A reference with gold that a user wrote."""
    return {"gold": gold}


def found(reference: dict[str, Json] | None, *parts: Part, rules: tuple[str, ...] = ()) -> Any:
    reading = Reading(trace(parts, header={"reference": reference}))
    return compare_to_gold(reading, rules_from(rules))


def against(gold: list[Json], *parts: Part, **known: Any) -> GoldComparison:
    result: GoldComparison = found({"actions": gold}, *parts, **known)
    return result


def only(result: GoldComparison) -> GoldDifference:
    (difference,) = result.differences
    return difference


REFUNDED = step(call("refund_order", id="1", amount=5))


class TestCalls:
    def test_a_wrong_argument_has_what_was_expected_what_was_given_and_the_step(self) -> None:
        result = against([READ, REFUND], "Hello.", step(call("refund_order", id="1", amount=7)))
        difference = only(result)
        assert (difference.kind, difference.step, difference.tool) == (
            "wrong argument", 1, "refund_order",
        )  # fmt: skip
        assert difference.line == "amount: expected 5, was 7"
        assert difference.span is not None
        assert (difference.made, difference.gold) == (
            'refund_order(id="1", amount=7)', 'refund_order(id="1", amount=5)',
        )  # fmt: skip
        assert (result.first_write_not_in_gold, result.last_chance) == (1, None)

    def test_texts_are_shown_without_quotes(self) -> None:
        gold = {"name": "book", "arguments": {"day": "Monday", "payment_id": "credit_card_9"}}
        made = step(call("book", day="Monday", payment_id="credit_card_4"))
        assert only(against([gold], made)).line == (
            "payment_id: expected credit_card_9, was credit_card_4"
        )

    def test_an_argument_that_only_one_of_them_gives(self) -> None:
        left_out = only(against([REFUND], step(call("refund_order", id="1"))))
        assert left_out.line == "amount: expected 5, not given"
        too_many = step(call("refund_order", id="1", amount=5, note="sorry"))
        assert only(against([REFUND], too_many)).line == "note: not in gold, was sorry"

    def test_inner_values_are_named_by_their_path_and_like_entries_are_left_out(self) -> None:
        gold = {"name": "book", "kwargs": {"flights": [{"no": "A"}, {"no": "B"}], "bags": 1}}
        other = step(call("book", flights=[{"no": "B"}, {"no": "C"}], bags=1))
        assert only(against([gold], other)).line == "flights[0].no: expected A, was C"
        more = step(call("book", flights=[{"no": "A"}, {"no": "B"}, {"no": "C"}], bags=1))
        assert only(against([gold], more)).line == 'flights[2]: not in gold, was {"no":"C"}'
        turned = step(call("book", flights=[{"no": "B"}, {"no": "A"}], bags=1))
        assert only(against([gold], turned)).arguments[0].name == "flights"

    def test_of_two_long_texts_the_part_that_differs_is_shown(self) -> None:
        same = "The order of Ann Lee, placed on the first of May, is to be sent to "
        gold = {"name": "update_note", "kwargs": {"id": 1, "text": same + "Rome"}}
        made = step(call("update_note", id=1, text=same + "Oslo"))
        line = only(against([gold], made)).line
        assert line == "text: expected … be sent to Rome, was … be sent to Oslo"

    def test_a_rule_says_what_does_not_count(self) -> None:
        made = step(call("refund_order", id="1", amount=5.01))
        assert against([REFUND], made).differences
        near = against([REFUND], made, rules=("refund_order.amount=tolerance:0.02",))
        assert (near.differences, near.matched, near.gold) == ((), 1, 1)
        other = step(call("refund_order", id="1", amount=7, note="x"))
        rules = ("refund_order.amount=ignore", "refund_order.note=ignore")
        assert against([REFUND], other, rules=rules).differences == ()

    def test_a_missing_call_could_come_until_the_last_step(self) -> None:
        result = against([REFUND, CANCEL], REFUNDED, "Done.", heard("Thanks."), "Bye.")
        difference = only(result)
        assert (difference.kind, difference.step, difference.latest) == ("missing", None, 2)
        assert difference.line == 'call not made: cancel_order(id="2")'
        assert (result.first_write_not_in_gold, result.last_chance) == (None, 2)

    def test_an_extra_write_is_named_at_its_step(self) -> None:
        result = against([REFUND], REFUNDED, "…", REFUNDED)
        assert (only(result).kind, only(result).step) == ("extra", 2)
        assert only(result).line == 'call not in gold: refund_order(id="1", amount=5)'
        assert result.first_write_not_in_gold == 2

    def test_reads_and_failed_calls_are_no_difference(self) -> None:
        result = against(
            [READ, REFUND, CANCEL],
            step(call("get_order", id="3")),
            step(call("refund_order", error("no such order"), id="9", amount=1)),
            step(call("cancel_order", id="2")),
            REFUNDED,
        )
        assert (result.differences, result.matched, result.gold) == ((), 2, 2)
        assert (result.first_write_not_in_gold, result.first_attempt_not_in_gold) == (None, 1)

    def test_a_tool_of_which_nothing_is_known_counts_where_gold_calls_it(self) -> None:
        gold = {"name": "frobnicate", "kwargs": {"x": 1}}
        result = against([gold], step(call("frobnicate", x=2)), step(call("widget", y=1)))
        assert only(result).line == "x: expected 1, was 2"
        assert result.first_write_not_in_gold is None, "nobody knows whether it writes"

    def test_calls_that_agree_most_answer_to_each_other(self) -> None:
        gold = [
            {"name": "refund_order", "kwargs": {"id": "1", "amount": 5}},
            {"name": "refund_order", "kwargs": {"id": "2", "amount": 6}},
        ]
        made = (step(call("refund_order", id="2", amount=9)),
                step(call("refund_order", id="1", amount=8)))  # fmt: skip
        assert [each.line for each in against(gold, *made).differences] == [
            "amount: expected 6, was 9", "amount: expected 5, was 8",
        ]  # fmt: skip

    def test_calls_with_nothing_in_common_are_one_only_where_no_other_is_left(self) -> None:
        alone = only(against([CANCEL], step(call("cancel_order", id="3"))))
        assert alone.line == "id: expected 2, was 3"
        gold = [CANCEL, {"name": "cancel_order", "kwargs": {"id": "4"}}]
        result = against(gold, step(call("cancel_order", id="3")))
        assert [each.kind for each in result.differences] == ["extra", "missing", "missing"]

    def test_a_hand_over_changes_nothing_and_its_words_are_free(self) -> None:
        gold = {"name": "transfer_to_human_agents", "kwargs": {"summary": "One thing."}}
        handed = step(call("transfer_to_human_agents", summary="Another thing."))
        assert against([gold], handed).differences == ()
        result = against([], handed)
        assert (only(result).kind, result.first_write_not_in_gold) == ("extra", None)

    def test_no_gold_is_none_and_empty_gold_wants_no_write(self) -> None:
        assert found(None, REFUNDED) is None
        assert found({"instruction": "x"}, REFUNDED) is None
        assert against([], step(call("get_order", id="1"))).differences == ()
        assert only(against([], REFUNDED)).kind == "extra"


class TestOwnGold:
    """Gold that a user wrote has an order, and its reads are asked for."""

    def test_a_read_that_gold_asks_for_is_missing(self) -> None:
        result = found(own(actions=[READ, REFUND]), REFUNDED)
        assert only(result).line == 'call not made: get_order(id="1")'
        more = found(own(actions=[READ]), step(call("get_order", id="1")),
                     step(call("get_order", id="2")))  # fmt: skip
        assert more.differences == (), "a read too many is none"

    def test_the_same_calls_in_another_order(self) -> None:
        made = (step(call("cancel_order", id="2")), REFUNDED)
        assert found(own(actions=[REFUND, CANCEL]), *made).differences == ()
        result = found(own(actions=[REFUND, CANCEL], order="sequence"), *made)
        assert only(result).kind == "out of order"
        assert result.matched == 2

    def test_what_comes_later_in_gold_ends_the_chance_of_a_missing_call(self) -> None:
        made = (REFUNDED, "…", step(call("cancel_order", id="2")), "Done.")
        gold: Json = [REFUND, MAIL, CANCEL]
        assert only(found(own(actions=gold), *made)).latest == 3
        assert only(found(own(actions=gold, order="sequence"), *made)).latest == 2
        graph = own(actions=gold, order="graph", after=[[1, 2]])
        assert only(found(graph, *made)).latest == 2

    def test_each_part_outranks_that_of_the_source(self) -> None:
        source: dict[str, Json] = {"actions": [CANCEL], "target": "Rome"}
        calls = found({**source, **own(actions=[REFUND])}, REFUNDED, "It is Rome.")
        assert (calls.differences, calls.own) == ((), ("actions",))
        answer = found({**source, **own(answer="Oslo")}, step(call("cancel_order", id="2")), "Oslo")
        assert (answer.differences, answer.own) == ((), ("answer",))
        assert found(source, "Rome.").own == ()
        assert found({**source, **own(plan=["Look"])}, "Rome.").own == (), "no plan is compared"

    def test_gold_first_seen_after_the_run_began_is_hindsight(self) -> None:
        began = 1_700_000_000 * 10**9

        def late(seen_ns: int, start_ns: int = began) -> bool | None:
            reference = own(actions=[], first_seen_ns=seen_ns)
            made = trace(["Hello."], header={"reference": reference, "start_ns": start_ns})
            found = compare_to_gold(Reading(made))
            assert found is not None
            return found.hindsight

        assert late(began + 1) is True
        assert late(began - 1) is False
        assert late(began + 1, 5) is None, "its clock counts from its own beginning"


class TestAnswers:
    def test_the_last_words_are_compared_as_text(self) -> None:
        assert found({"target": "Paris"}, "London, no.", "It is Paris.").differences == ()
        result = found({"target": ["Paris", "Lutetia"]}, "It is Rome.")
        assert only(result).line == (
            "answer differs from gold: expected Paris or Lutetia, was It is Rome."
        )
        assert only(result).step == 0

    def test_a_user_s_answer_and_one_handed_in_by_a_call(self) -> None:
        handed = (step(call("submit", answer="1,786")), "TERMINATE")
        assert found(own(answer=1786), *handed).differences == ()
        assert found(own(answer="178"), *handed).differences != ()

    def test_a_letter_is_that_of_multiple_choice(self) -> None:
        assert found({"target": "A"}, "Not B. ANSWER: A").differences == ()
        assert only(found({"target": "A"}, "ANSWER: C")).kind == "answer"
        assert found({"target": "A"}, "a bit of everything").differences == ()

    def test_a_description_of_an_answer_decides_nothing(self) -> None:
        guide = "The answer should name the capital. " * 10
        assert found({"target": guide}, "Rome.").differences == ()

    def test_each_output_is_to_be_said_somewhere(self) -> None:
        result = found({"actions": [], "outputs": ["327", "1000"]}, "You get $1,000.", "Bye.")
        assert only(result).line == "not said: 327"

    def test_gold_of_tau2_is_read_from_its_criteria(self) -> None:
        theirs = {"name": "toggle_data", "arguments": {}, "requestor": "user"}
        criteria = {"actions": [theirs, {**CANCEL, "arguments": {"id": "2"}}],
                    "communicate_info": ["42"]}  # fmt: skip
        result = found({"evaluation_criteria": criteria}, "It costs 42.")
        assert only(result).line == 'call not made: cancel_order(id="2")'
