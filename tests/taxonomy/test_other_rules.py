"""The rules of `other` and the hints: what each is for, and the look-alike it must pass over."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from replay.formats import tau_bench
from replay.formats.source import Source, Tally
from replay.trace import Trace
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Finding
from taxonomy.rules import arithmetic, better_tool, limits, unverified, user_off_task
from taxonomy.rules.arithmetic import wrong_sums
from taxonomy.rules.rule import RuleContext
from tests.build import Called, Part, call, error, heard, step, tool, trace
from tests.shared import DATA, needs_shared
from tests.taxonomy.rule_case import findings


def by_rule(made: Trace, name: str) -> list[Finding]:
    return [finding for finding in findings(made) if finding.rule == name]


class TestLimits:
    PROMPT = "Each booking can use at most one certificate and at most three gift cards."

    def booking(self, *payments: str, prompt: str = PROMPT, reply: Any = "booked") -> Trace:
        paid = [{"payment_id": payment, "amount": 10} for payment in payments]
        return trace([step(call("book_flight", reply, payments=paid))], system=prompt)

    def test_more_of_a_kind_than_the_prompt_allows(self) -> None:
        made = self.booking("certificate_1234", "certificate_5678")
        (finding,) = by_rule(made, limits.NAME)
        assert (finding.failure, finding.sub) == (FailureClass.OTHER, "policy violation")
        assert finding.why == "book_flight with 2 × certificate exceeds the limit of 1"
        assert [each.role for each in finding.evidence] == ["called", "stated"]
        assert finding.evidence[1].text == self.PROMPT

    def test_a_limit_is_quoted_without_the_mark_of_its_list(self) -> None:
        (limit,) = stated_in("- XL bookings can use at most one certificate.")
        assert limit.words == "XL bookings can use at most one certificate."

    def test_as_many_as_are_allowed_are_none(self) -> None:
        made = self.booking("certificate_1234", "gift_card_1111", "gift_card_2222")
        assert not by_rule(made, limits.NAME)

    def test_a_limit_under_a_condition_is_left_to_judgement(self) -> None:
        prompt = "If the fare is basic, use at most one certificate."
        made = self.booking("certificate_1234", "certificate_5678", prompt=prompt)
        assert not by_rule(made, limits.NAME)

    def test_a_call_that_was_refused_broke_nothing(self) -> None:
        refused = error("only one certificate")
        made = self.booking("certificate_1234", "certificate_5678", reply=refused)
        assert not by_rule(made, limits.NAME)

    @pytest.mark.parametrize(
        ("prompt", "limited"),
        [
            ("Refunds above $200 are not yours to make.", "refund"),
            ("Do not refund more than $200.", "refund"),
            ("Never refund a total of more than $200.00 to a card.", "refund"),
        ],
    )
    @pytest.mark.parametrize(("amount", "broken"), [(250, True), (250.5, True), (200, False)])
    def test_a_sum_in_dollars_however_the_prompt_forbids_it(
        self, prompt: str, limited: str, amount: float, broken: bool
    ) -> None:
        assert [limit.what for limit in stated_in(prompt)] == [limited]
        parts = [step(call("refund_order", "done", order_id="1041", amount=amount))]
        made = trace(parts, system=prompt, task=f"Refund order 1041, {amount} dollars.")
        assert [each.why for each in by_rule(made, limits.NAME)] == (
            [f"refund_order with ${amount:,.2f} exceeds the limit of $200.00"] if broken else []
        )

    @pytest.mark.parametrize(("amount", "broken"), [(25_000, True), (20_000, False)])
    def test_a_sum_above_what_is_allowed_in_the_prompt_s_own_unit(
        self, amount: int, broken: bool
    ) -> None:
        prompt = "All amounts are in cents.\nRefunds above $200 are not yours to make."
        parts = [step(call("refund_order", "done", order_id="1041", amount=amount))]
        made = trace(parts, system=prompt, task=f"Refund order 1041, {amount} cents.")
        found = by_rule(made, limits.NAME)
        assert bool(found) is broken
        if broken:
            assert found[0].why == "refund_order with $250.00 exceeds the limit of $200.00"


def stated_in(prompt: str) -> list[limits.Limit]:
    index = RuleContext(trace(["Yes."], system=prompt)).index
    return [limit for source in index.sources for limit in limits.stated(source)]


class TestArithmetic:
    @pytest.mark.parametrize(
        "said",
        [
            "So 1,194 + 57 = 1,241 dollars.",
            "The total is $48 + $61 + $53 = $172.",
            "That makes 3 × 250 = 800.",
            "We get 12 * 3 - 4 = 30.",
        ],
    )
    def test_a_sum_that_does_not_hold(self, said: str) -> None:
        (finding,) = by_rule(trace([said]), arithmetic.NAME)
        assert finding.sub == "arithmetic"

    @pytest.mark.parametrize(
        "said",
        [
            "So 1,194 + 57 = 1,251 dollars.",
            "10 / 3 = 3.33, and 2 / 3 = 0.67.",
            "2 / 3 = 0.66 and 999 / 1000 = 0.99, where the rest is cut off.",
            "That makes 3 × 250 = 750.",
            "12 - 3 + 4 = 13.",
            "2 * 3 + 1 = 7, 2*3 + 1 = 7, 2 * $3 + 1 = 7 and 2 ** 3 + 1 = 2**3 + 1 = 9.",
            "10 / 0 = 3 has no answer.",
            "Is 2 + 2 = 5?",
            "Is 2 + 2 = 5? ",
            "```\nx = 2 + 2 = 5\n```",
            "On 2024-05-12 = Sunday, 5% + 3 = 9.",
            "2^3 + 1 = 9 and (1 + 2) * 3 = 9",
            "1.2 + 3 million = 3000001.2",
            "see 3 - 5 = 2 of v1.3 - 5 = 2",
        ],
    )
    def test_a_true_one_a_question_and_what_is_no_plain_sum_are_none(self, said: str) -> None:
        if "3 - 5 = 2" in said:  # negative results are stated without their sign here
            assert [each[0] for each in wrong_sums(said)] == ["3 - 5 = 2"]
            return
        assert list(wrong_sums(said)) == []
        assert not by_rule(trace([said]), arithmetic.NAME)

    @pytest.mark.parametrize(
        ("said", "true"),
        [
            ("2 + 2 = 5", "4"),
            ("3 × 250 = 800", "750"),
            ("3 x 250 = 800", "750"),
            ("12 * 3 - 4 = 30", "32"),
            ("20 - 2 * 3 + 1 = 10", "15"),
            ("10 / 4 = 3.5", "2.5"),
            ("$1,194 + $57 = $1,241", "1,251"),
            ("2 / 3 = 0.68", "0.6666666667"),
            ("1.1 + 2 = 3.0", "3.1"),
        ],
    )
    def test_the_true_value_is_told(self, said: str, true: str) -> None:
        assert list(wrong_sums(said)) == [(said, true)]
        (finding,) = by_rule(trace([f"So {said} in all."]), arithmetic.NAME)
        assert finding.why == f"arithmetic error: {said}; correct: {true}"


class TestStrayedUser:
    TOLD = "You are mia_li_3668 and want to cancel reservation HXDUBJ."

    def talk(self, *parts: Part, outcome: Literal["passed", "failed"] = "failed") -> Trace:
        header = {"reference": {"instruction": self.TOLD}}
        return trace(list(parts), task="I want to cancel.", header=header, outcome=outcome)

    ASK = "Of course. What is your user ID?"
    LACKS = heard("I do not have it with me.")

    def test_a_value_that_the_task_gives_and_the_user_keeps_back(self) -> None:
        (finding,) = by_rule(
            self.talk(self.ASK, self.LACKS, "Then I cannot help."), "user off task"
        )
        assert (finding.sub, finding.attribution) == ("user off task", Attribution.USER)
        assert (finding.step, finding.is_hint) == (1, True)
        assert finding.why.startswith("user never gives mia_li_3668")
        assert [(each.role, each.text, each.place) for each in finding.evidence] == [
            ("user", "I do not have it with me.", ""),
            ("stated", self.TOLD, "the user's instruction"),
        ]

    def test_giving_up_for_want_of_it_is_the_user_s_doing(self) -> None:
        made = self.talk(self.ASK, self.LACKS, "Unfortunately, I cannot help you without it.")
        (gave_up,) = [f for f in findings(made) if f.failure is FailureClass.GAVE_UP]
        assert gave_up.attribution is Attribution.USER

    def test_a_value_that_is_told_in_the_end_is_none(self) -> None:
        made = self.talk(
            self.ASK, self.LACKS, "Please look.", heard("It is mia_li_3668."), "Thanks."
        )
        assert not by_rule(made, user_off_task.NAME)

    @pytest.mark.parametrize("asked", ["What is the Reservation ID?", "Your reservation number?"])
    def test_a_value_is_asked_for_by_what_the_instruction_calls_it(self, asked: str) -> None:
        (finding,) = by_rule(
            self.talk(asked, heard("I am mia_li_3668, but cannot find it."), "Then I cannot help."),
            user_off_task.NAME,
        )
        assert finding.why.startswith("user never gives HXDUBJ")

    def test_a_long_instruction_is_quoted_in_part(self) -> None:
        told = f"You are mia_li_3668 and want this: {'cancel, ' * 40}please."
        header = {"reference": {"instruction": told}}
        parts: list[Part] = [self.ASK, self.LACKS, "Then I cannot help."]
        (finding,) = by_rule(trace(parts, task="Hello.", header=header), user_off_task.NAME)
        assert finding.evidence[1].text == f"{told[:239]}…"

    def test_a_value_that_nobody_asked_for_is_none(self) -> None:
        assert not by_rule(self.talk("What about it?", self.LACKS, "Well."), user_off_task.NAME)

    def test_another_value_that_the_user_lacks_is_none(self) -> None:
        made = self.talk(
            "Your user ID and the reservation ID?", heard("I don't have the reservation ID."), "Oh."
        )
        found = by_rule(made, user_off_task.NAME)
        assert [each.why.split(";")[0] for each in found] == ["user never gives HXDUBJ"]

    def test_without_the_user_s_instruction_nothing_is_said(self) -> None:
        assert not by_rule(trace([self.ASK, self.LACKS, "Oh."]), user_off_task.NAME)

    @needs_shared
    @pytest.mark.slow
    def test_users_of_few_airline_runs_keep_back_what_they_were_asked_for(self) -> None:
        failed, strayed, passed = 0, 0, 0
        for batch in tau_bench.read(Source(DATA / "tau_bench" / "gpt-4o-airline.json"), Tally()):
            made = whole(batch)
            found = bool(list(user_off_task.find(RuleContext(made))))
            if made.header.outcome.status == "failed":
                failed, strayed = failed + 1, strayed + found
            else:
                passed += found
        assert (failed, strayed, passed) == (116, 14, 0)


class TestHints:
    WRITE = step(call("Write", "File created", file_path="/app/a.txt", content="x"))

    def test_work_that_is_called_done_and_that_nothing_looked_at(self) -> None:
        (finding,) = by_rule(trace([self.WRITE, "I have created the file."]), unverified.NAME)
        assert finding.sub == "verified nothing"
        assert finding.confidence is not None
        assert finding.confidence < 0.5

    def test_work_that_was_looked_at_is_none(self) -> None:
        look = step(call("Bash", "x", command="cat /app/a.txt"))
        assert not by_rule(trace([self.WRITE, look, "It is done."]), unverified.NAME)

    @pytest.mark.parametrize(
        "other",
        [
            call("read_file", "x", path="/app/a.txt"),
            call("Write", error("read-only file system"), file_path="/app/a.txt", content="x"),
            call("send_mail", "sent", to="mia@mail.test"),
        ],
        ids=["read only", "refused", "no file"],
    )
    def test_only_a_file_that_was_written_could_be_looked_at(self, other: Called) -> None:
        assert not by_rule(trace([step(other), "It is done."]), unverified.NAME)

    def test_of_a_run_that_may_have_passed_nothing_is_said(self) -> None:
        made = trace([self.WRITE, "It is done."], outcome="unknown")
        assert not by_rule(made, unverified.NAME)

    TOOLS = (
        tool("get_product", "Get a product by its number.", number={}),
        tool("check_stock", "How many of a product are in stock.", number={}),
    )

    def test_an_offered_tool_whose_name_is_what_was_asked_for(self) -> None:
        made = trace(
            [step(call("get_product", {"listed": True}, number="K1")), "Yes, it is."],
            task="Is keyboard K1 in stock?",
            tools=self.TOOLS,
        )
        (finding,) = by_rule(made, better_tool.NAME)
        assert finding.why == "get_product may be the wrong tool; check_stock matches 'stock'"
        assert finding.failure is FailureClass.WRONG_TOOL
        assert finding.confidence is not None
        assert finding.confidence < 0.5
        assert [(each.role, each.text, each.place) for each in finding.evidence] == [
            ("called", 'get_product {"number":"K1"}', ""),
            (
                "offered",
                "check_stock: How many of a product are in stock.",
                "tool definitions",
            ),
        ]

    def test_a_long_description_of_the_offered_tool_is_cut(self) -> None:
        told = f"How many of a product are in stock{', also there' * 12}."
        made = trace(
            [step(call("get_product", {"listed": True}, number="K1")), "Yes, it is."],
            task="Is keyboard K1 in stock?",
            tools=(self.TOOLS[0], tool("check_stock", told, number={})),
        )
        (finding,) = by_rule(made, better_tool.NAME)
        assert finding.evidence[1].text == f"{f'check_stock: {told}'[:159]}…"

    def test_a_word_that_many_tools_share_tells_little(self) -> None:
        pages = [tool(f"get_stock_{name}", "A page.") for name in ("first", "next", "last")]
        stock = tool("check_stock", "A page of it.", number={})
        made = trace(
            [step(call("get_product", {"listed": True}, number="K1")), "Yes, it is."],
            task="Is a page of keyboard K1 in stock?",
            tools=(self.TOOLS[0], stock, *pages),
        )
        assert not by_rule(made, better_tool.NAME)

    def test_a_tool_that_was_called_as_well_is_none(self) -> None:
        parts: list[Part] = [
            step(call("get_product", {"listed": True}, number="K1")),
            step(call("check_stock", {"stock": 0}, number="K1")),
            "No.",
        ]
        made = trace(parts, task="Is keyboard K1 in stock?", tools=self.TOOLS)
        assert not by_rule(made, better_tool.NAME)


def whole(batch: Any) -> Trace:
    from replay.steps import build

    made, loose, _ = build(batch.spans)
    return Trace(
        id="airline", run="airline", header=batch.header, spans=batch.spans, steps=made, loose=loose
    )
