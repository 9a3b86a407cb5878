"""Each rule on what it is for, and on the look-alike it must pass over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from msgspec import structs

from replay import steps
from replay.trace import Json, Stop, ToolCall, Trace
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Finding
from taxonomy.rules import malformed
from taxonomy.rules.loop import Loop, loops
from taxonomy.rules.rule import RuleContext, same_reply
from tests.build import NOTHING, Called, Gives, Part, call, error, heard, step, tool, trace
from tests.taxonomy.rule_case import findings

Status = Literal["passed", "failed", "unknown"]


def found(made: Trace, failure: FailureClass) -> list[Finding]:
    return [finding for finding in findings(made) if finding.failure is failure]


def one(made: Trace, failure: FailureClass) -> Finding:
    (finding,) = found(made, failure)
    return finding


REFUSED = error("Error: seat map is closed")


class TestLoop:
    def same(self, times: int, reply: object = REFUSED) -> list[Part]:
        return [step(call("book", reply, seat="14C")) for _ in range(times)]

    def test_the_same_refused_call_three_times(self) -> None:
        finding = one(trace(self.same(4)), FailureClass.LOOP)
        assert (finding.step, finding.why) == (1, "book rejected the same call 4×")
        assert finding.confidence is None
        assert [(each.role, each.step, each.text) for each in finding.evidence] == [
            ("called", 0, 'book {"seat":"14C"}'),
            ("repeats", 1, 'book {"seat":"14C"}'),
            ("repeats", 2, 'book {"seat":"14C"}'),
            ("repeats", 3, 'book {"seat":"14C"}'),
            ("error", 3, "Error: seat map is closed"),
        ]

    def test_what_came_back_every_time_is_cited_even_where_it_was_nothing(self) -> None:
        finding = one(trace(self.same(3, "")), FailureClass.LOOP)
        assert (finding.evidence[-1].role, finding.evidence[-1].text) == ("observed", "(nothing)")

    def test_twice_is_a_retry(self) -> None:
        assert not found(trace(self.same(2)), FailureClass.LOOP)

    def test_calls_that_the_source_cut_may_differ(self) -> None:
        made = trace(self.same(3, NOTHING))
        assert one(made, FailureClass.LOOP).confidence is not None
        spans = tuple(
            structs.replace(span, extra={"cut": "arguments"})
            if isinstance(span, ToolCall)
            else span
            for span in made.spans
        )
        cut, _, _ = steps.build(spans)
        assert not found(structs.replace(made, spans=spans, steps=cut), FailureClass.LOOP)

    def test_a_cycle_of_two_calls(self) -> None:
        parts = [step(call("look", "a", at="x")), step(call("ask", "b", of="y"))] * 3
        assert one(trace(parts), FailureClass.LOOP).step == 2

    @pytest.mark.parametrize(("others", "looped"), [(5, True), (6, False)])
    def test_the_same_question_again_is_a_loop_within_a_few_calls(
        self, others: int, looped: bool
    ) -> None:
        ask = step(call("get_order", "shipped", order="7"))
        pages = [step(call("get_page", f"text {at}", at=f"p{at}")) for at in range(2 * others)]
        made = trace([ask, *pages[:others], ask, *pages[others:], ask])
        assert bool(found(made, FailureClass.LOOP)) is looped

    def test_the_same_question_after_a_change_is_none(self) -> None:
        ask = step(call("get_order", "shipped", order="7"))
        change = step(call("update_order", "ok", order="7", note="x"))
        assert not found(trace([ask, ask, change, ask, ask]), FailureClass.LOOP)

    @pytest.mark.parametrize(("others", "looped"), [(2, True), (3, False)])
    def test_failures_with_one_error_are_a_loop_while_they_are_close(
        self, others: int, looped: bool
    ) -> None:
        stuck = error("UnicodeError: the stream does not start with a mark")
        parts: list[Part] = []
        for name in ("pvlib", "a link", "main", "x"):
            parts.append(step(call("ingest", stuck, source=name)))
            parts += [
                step(call("get_page", f"text {name} {at}", at=f"{name} {at}"))
                for at in range(others)
            ]
        assert bool(found(trace(parts), FailureClass.LOOP)) is looped

    @pytest.mark.parametrize(
        ("said", "times", "looped"),
        [
            ("wrong password", 8, True),
            ("wrong password", 7, False),
            ("that is no password", 4, True),
            ("that is no password", 3, False),
        ],
    )
    def test_how_often_different_calls_must_fail_depends_on_what_their_error_tells(
        self, said: str, times: int, looped: bool
    ) -> None:
        guesses = ("alpha", "beta", "gamma", "delta", "kappa", "omega", "sigma", "theta")
        parts = [step(call("unlock", error(said), word=guess)) for guess in guesses[:times]]
        assert bool(found(trace(parts), FailureClass.LOOP)) is looped

    @pytest.mark.parametrize(("times", "named"), [(15, "look"), (16, "ask")])
    def test_of_two_loops_the_first_is_named_unless_another_is_five_times_as_long(
        self, times: int, named: str
    ) -> None:
        look, ask = step(call("look", "a", at="x")), step(call("ask", "b", of="y"))
        case = RuleContext(trace([*[look] * 3, *[ask] * times]))
        (turns,) = case.reading.threads.values()
        several = loops(case.reading, turns)
        assert {each.calls[0].name for each in several} == {"look", "ask"}
        assert several[0].calls[0].name == named

    def test_what_was_asked_long_before_is_no_part_of_the_loop(self) -> None:
        look = step(call("look", "a", at="x"))
        pages = [step(call("get_page", f"text {at}", at=f"p{at}")) for at in range(7)]
        case = RuleContext(trace([look, *pages, look, look, look]))
        (turns,) = case.reading.threads.values()
        (loop,) = loops(case.reading, turns)
        assert loop.steps == (9, 10)

    def test_a_step_after_a_change_brings_news(self) -> None:
        look, ask = step(call("get_x", error("no"), at="x")), step(call("ask", "b", of="y"))
        change = step(call("update_order", "ok", order="7", note="x"))
        case = RuleContext(trace([ask, change, look, look, ask, look]))
        (turns,) = case.reading.threads.values()
        (loop,) = loops(case.reading, turns)
        assert loop.steps == (3, 5)

    def test_a_change_that_is_made_again_and_again_is_one_wherever_it_begins(self) -> None:
        other = step(call("update_order", "ok", order="9", note="y"))
        same = step(call("update_order", "ok", order="7", note="x"))
        for parts in ([same] * 3, [other, *[same] * 3], [*[same] * 3, other]):
            finding = one(trace(parts), FailureClass.LOOP)
            assert finding.why == "called update_order 3× with the same result"
            assert finding.evidence[0].text == 'update_order {"note":"x","order":"7"}'

    def test_polling_that_brings_news_is_not_a_loop(self) -> None:
        parts = [step(call("status", f"{done} % done", job="7")) for done in range(0, 60, 10)]
        assert not found(trace(parts), FailureClass.LOOP)

    def test_waiting_for_something_that_runs_is_not_a_loop(self) -> None:
        assert not found(trace(self.same(5, "still running")), FailureClass.LOOP)

    @pytest.mark.parametrize(("times", "looped"), [(9, False), (10, True)])
    def test_ten_looks_at_something_that_runs_are_too_many(self, times: int, looped: bool) -> None:
        assert bool(found(trace(self.same(times, "still running")), FailureClass.LOOP)) is looped

    def test_a_step_between_the_repeats_that_brings_nothing_new_goes_through_it_too(self) -> None:
        look, ask = step(call("look", "a", at="x")), step(call("ask", "b", of="y"))
        case = RuleContext(trace([ask, look, ask, look, look]))
        (turns,) = case.reading.threads.values()
        (loop,) = loops(case.reading, turns)
        assert [act.step for act in loop.calls] == [1, 3, 4]
        assert loop.steps == (2, 3, 4)

    def test_pages_of_a_list_are_not_a_loop(self) -> None:
        parts = [step(call("list_pages", error("busy"), page=page)) for page in range(5)]
        assert not found(trace(parts), FailureClass.LOOP)

    def test_a_list_written_anew_is_not_a_loop(self) -> None:
        done = [f"task {index}" for index in range(40)]
        parts = [
            step(call("TodoWrite", "Todos modified", todos=[*done, f"now {word}"]))
            for word in ("reading", "writing", "testing", "closing")
        ]
        assert not found(trace(parts), FailureClass.LOOP)

    def test_the_same_failing_test_between_edits_is_not_a_loop(self) -> None:
        parts: list[Part] = []
        for attempt in ("a", "b", "c", "d"):
            parts += [
                step(call("edit_file", "ok", path="x.py", text=attempt)),
                step(call("run", error("1 test failed"), target="tests")),
            ]
        assert not found(trace(parts), FailureClass.LOOP)

    def test_near_identical_calls_that_fail_the_same_way(self) -> None:
        text = "please find the owner of the red house in the old town near the river " * 3
        parts = [step(call("ask", REFUSED, words=text + end)) for end in ("now", "now.", "Now")]
        assert found(trace(parts), FailureClass.LOOP)

    def test_many_variations_on_one_failure(self) -> None:
        guesses = ("alpha", "beta", "gamma", "delta", "kappa", "omega", "sigma", "theta", "zeta")
        parts = [step(call("unlock", error("wrong password"), word=guess)) for guess in guesses]
        finding = one(trace(parts), FailureClass.LOOP)
        assert finding.why == "unlock failed 9× with the same error"

    def test_different_calls_that_keep_running_into_one_error(self) -> None:
        stuck = error("UnicodeError: the stream does not start with a mark")
        parts = [
            step(call("ingest", stuck, source=name)) for name in ("pvlib", "a link", "main", "x")
        ]
        finding = one(trace(parts), FailureClass.LOOP)
        assert finding.why == "ingest failed 4× with the same error"

    def test_an_error_is_the_same_with_the_name_of_its_class_and_without(self) -> None:
        errors = ("no mark in stream 7", "ValueError: no mark in stream 8") * 2
        parts = [
            step(call("ingest", error(said), source=name))
            for name, said in zip(("pvlib", "a link", "main", "x"), errors, strict=True)
        ]
        finding = one(trace(parts), FailureClass.LOOP)
        assert finding.why == "ingest failed 4× with the same error"

    def test_a_run_that_passed_got_over_its_errors(self) -> None:
        stuck = error("UnicodeError: the stream does not start with a mark")
        parts = [
            step(call("ingest", stuck, source=name)) for name in ("pvlib", "a link", "main", "x")
        ]
        assert not found(trace(parts, outcome="passed"), FailureClass.LOOP)

    def test_questions_that_differ_in_a_letter_and_bring_the_same(self) -> None:
        asked = "which of the orders of last summer are still on their way to the customer"
        parts = [
            step(call("search_orders", "no orders", words=asked + end)) for end in ("", "?", "!")
        ]
        assert one(trace(parts), FailureClass.LOOP).step == 1

    def test_retries_of_what_will_pass_are_patience_up_to_a_bound(self) -> None:
        busy = error("503 Service Unavailable")
        assert not found(
            trace([step(call("fetch", busy, page=1)) for _ in range(6)]), FailureClass.LOOP
        )
        assert found(
            trace([step(call("fetch", busy, page=1)) for _ in range(7)]), FailureClass.LOOP
        )

    def test_calls_side_by_side_in_one_step_are_no_loop(self) -> None:
        made = trace([step(*(call("look", "a", at="x") for _ in range(4))), "Done."])
        assert not found(made, FailureClass.LOOP)

    def test_the_same_call_whose_replies_were_not_recorded_is_one_as_far_as_known(self) -> None:
        finding = one(trace(self.same(3, NOTHING)), FailureClass.LOOP)
        assert finding.why == "called book 3× with the same arguments, as far as recorded"
        assert finding.confidence is not None

    def test_asking_how_something_goes_is_none_where_the_answers_are_not_recorded(self) -> None:
        made = trace([step(call("job_status", NOTHING, job=7)) for _ in range(4)])
        assert not found(made, FailureClass.LOOP)

    def test_a_program_in_the_text_is_a_call_like_others(self) -> None:
        code = "I try.\n```python\nprint(find('tree'))\n```"
        result = heard("Observation: Execution logs:\nNameError: tree is not defined")
        made = trace([part for _ in range(3) for part in (code, result)] + ["Enough."])
        assert one(made, FailureClass.LOOP).why == "its code rejected the same call 3×"

    def test_two_speakers_in_turn_who_say_the_same_again(self) -> None:
        first = (
            "I am waiting for the file that you were going to send me, so that I can go on then."
        )
        second = (
            "I have no file at all; please tell me which one you mean and where I shall find it."
        )
        made = trace([part for _ in range(3) for part in (first, second)])
        finding = one(made, FailureClass.LOOP)
        assert (finding.step, finding.why[:28]) == (2, "repeats the same message 3×:")

    def test_of_a_round_and_a_later_speech_the_round_is_named(self) -> None:
        first, second, third = (f"On the {name}: {name * 20}." for name in ("roof", "boat", "hall"))
        made = trace([first, second] * 3 + [third] * 3)
        finding = one(made, FailureClass.LOOP)
        assert (finding.step, finding.span) == (2, "step-2")

    @pytest.mark.parametrize(("speakers", "looped"), [(3, True), (4, False)])
    def test_a_round_of_more_than_three_speakers_is_a_meeting(
        self, speakers: int, looped: bool
    ) -> None:
        topics = ("budget of the harbour", "roof of the hall", "colour of boats", "many seagulls")
        round_ = [f"On the {name} again: {name[::-1] * 9} comes first." for name in topics]
        made = trace([*round_[:speakers] * 3])
        assert bool(found(made, FailureClass.LOOP)) is looped

    def test_a_long_speech_three_times(self) -> None:
        speech = (
            "To go on I need the manifest that was promised to me, and so I wait " + "for it" * 5
        )
        parts: list[Part] = [part for _ in range(3) for part in (speech, heard("go on"))]
        finding = one(trace(parts), FailureClass.LOOP)
        assert (finding.step, finding.span) == (1, "step-1")

    def test_other_refusals_between_do_not_hide_that_a_call_is_refused_again(self) -> None:
        others = [step(call(f"look_{at}", error(f"no page {at}"))) for at in range(50)]
        again = self.same(1)
        made = trace([*again, *others[:25], *again, *others[25:], *again])
        assert [each.steps for each in loops_of(made)] == [(26, 52)]

    def test_an_answer_that_was_not_recorded_is_not_the_same_as_an_empty_one(self) -> None:
        made = trace([step(call("book", reply, seat="14C")) for reply in ("", NOTHING, "")])
        first, unknown, last = RuleContext(made).reading.acts
        assert same_reply(first, last)
        assert not same_reply(first, unknown)
        assert not same_reply(unknown, last)


class TestBadArgs:
    TOOL = tool("book", seat={"type": "string"})

    def test_arguments_the_tool_refuses_and_nothing_puts_right(self) -> None:
        refused = error("ValidationError: seat: field required")
        finding = one(trace([step(call("book", refused, row=14)), "Oh."]), FailureClass.BAD_ARGS)
        assert finding.step == 0
        assert finding.why == "book: ValidationError: seat: field required"
        assert [(each.role, each.text) for each in finding.evidence] == [
            ("called", 'book {"row":14}'),
            ("error", "ValidationError: seat: field required"),
        ]

    def test_several_refusals_are_counted_at_the_first(self) -> None:
        refused = error("ValidationError: seat: field required")
        made = trace([step(call("book", refused, row=row)) for row in (14, 15, 2)])
        finding = one(made, FailureClass.BAD_ARGS)
        assert (finding.step, finding.why) == (
            0,
            "book: ValidationError: seat: field required · 3×",
        )

    def test_a_refusal_that_the_next_call_puts_right_is_no_failure(self) -> None:
        refused = error("ValidationError: seat: field required")
        made = trace([step(call("book", refused)), step(call("book", "booked", seat="14C"))])
        assert not found(made, FailureClass.BAD_ARGS)

    def test_a_call_without_a_reply_is_held_against_the_schema(self) -> None:
        made = trace([step(call("book", NOTHING, seat=14))], tools=[self.TOOL])
        finding = one(made, FailureClass.BAD_ARGS)
        assert finding.why == 'book: 14 is not of type "string"'
        assert [(each.role, each.text) for each in finding.evidence] == [
            ("called", 'book {"seat":14}')
        ]

    def test_what_the_tool_took_it_took_whatever_its_schema_says(self) -> None:
        made = trace([step(call("book", "booked", seat=14))], tools=[self.TOOL])
        assert not found(made, FailureClass.BAD_ARGS)

    def test_a_program_s_own_error_is_not_one(self) -> None:
        crash = error("Traceback (most recent call last):\nTypeError: f() missing 1 required")
        made = trace([step(call("Bash", crash, command="python run.py"))])
        assert not found(made, FailureClass.BAD_ARGS)

    def test_a_function_called_wrongly_by_a_program_is_one(self) -> None:
        wrong = error("TypeError: ingest() got an unexpected keyword argument 'commit'")
        made = trace([step(call("python", wrong, code="ingest('pvlib', commit='c78b50')")), "Oh."])
        finding = one(made, FailureClass.BAD_ARGS)
        assert finding.why.startswith("ingest: TypeError")

    @pytest.mark.parametrize(
        "code", ["def ingest(a):\n    pass\ningest(commit=1)", "run('other.py')"]
    )
    def test_a_function_of_the_program_s_own_is_none(self, code: str) -> None:
        wrong = error("TypeError: ingest() got an unexpected keyword argument 'commit'")
        assert not found(trace([step(call("python", wrong, code=code))]), FailureClass.BAD_ARGS)

    def test_a_function_that_a_later_program_calls_rightly_is_none(self) -> None:
        wrong = error("TypeError: ingest() got an unexpected keyword argument 'commit'")
        made = trace(
            [
                step(call("python", wrong, code="ingest('pvlib', commit='c78b50')")),
                step(call("python", "ok", code="ingest('pvlib')")),
            ]
        )
        assert not found(made, FailureClass.BAD_ARGS)

    @pytest.mark.parametrize(
        "later",
        [
            call("python", error("KeyError: 'pvlib'"), code="ingest('pvlib')"),
            call("python", "ok", code="print('pvlib')"),
        ],
        ids=["failed", "another function"],
    )
    def test_a_function_stays_called_wrongly_until_a_program_calls_it_and_works(
        self, later: Called
    ) -> None:
        wrong = error("TypeError: ingest() got an unexpected keyword argument 'commit'")
        made = trace(
            [step(call("python", wrong, code="ingest('pvlib', commit='c78b50')")), step(later)]
        )
        assert one(made, FailureClass.BAD_ARGS).step == 0

    def test_a_long_refusal_is_cut_in_the_phrase(self) -> None:
        told = "ValidationError: seat: field required, and so is the row of the seat in the cabin"
        made = trace([step(call("book", error(told), deck=1)), "Oh."])
        assert one(made, FailureClass.BAD_ARGS).why == f"{f'book: {told}'[:79]}…"

    def test_a_schema_that_is_not_valid_gives_no_verdict(self) -> None:
        broken = tool("book", seat={"type": "nonsense"})
        made = trace([step(call("book", NOTHING, seat=14))], tools=[broken])
        assert not found(made, FailureClass.BAD_ARGS)

    def test_a_schema_is_never_fetched(self) -> None:
        remote = tool("book", seat={"$ref": "http://127.0.0.1:9/schema.json"})
        made = trace([step(call("book", NOTHING, seat=14))], tools=[remote])
        assert not found(made, FailureClass.BAD_ARGS)


class TestHallucinatedState:
    def test_an_id_that_stands_in_nothing_it_saw(self) -> None:
        missing = error("order 1099 not found")
        made = trace([step(call("get_order", missing, order_id="1099"))], task="Where is it?")
        finding = one(made, FailureClass.HALLUCINATED_STATE)
        assert finding.why == "order 1099 not found in context"

    def test_an_id_the_user_gave_is_none_even_if_it_is_not_found(self) -> None:
        missing = error("order 1099 not found")
        made = trace([step(call("get_order", missing, order_id="1099"))], task="Order 1099?")
        assert not found(made, FailureClass.HALLUCINATED_STATE)

    def test_a_link_that_leads_nowhere_and_that_nothing_showed(self) -> None:
        gone = error("404 Not Found")
        made = trace([step(call("fetch", gone, url="https://shop.test/help/returns-2025"))])
        finding = one(made, FailureClass.HALLUCINATED_STATE)
        assert "https://shop.test/help" in finding.why

    def test_what_may_have_been_worked_out_is_marked_beside_what_was_made_up(self) -> None:
        made = trace(
            [step(call("refund", {"ok": True}, order_id="1099", amount=131.5))],
            task="I paid 54.50 and 77.00.",
        )
        finding = one(made, FailureClass.HALLUCINATED_STATE)
        (derived,) = [each for each in finding.evidence if each.role == "derived?"]
        assert derived.text == "amount 131.5 = 54.5 + 77"
        assert (derived.step, derived.span, derived.place) == (None, None, "user message")

    def test_what_was_worked_out_of_a_result_is_cited_where_that_stood(self) -> None:
        items = call("get_items", {"prices": [54.5, 77.0]}, cart="C7")
        refund = call("refund", {"ok": True}, order_id="1099", amount=131.5)
        made = trace([step(items), step(refund)], task="Refund my cart C7.")
        finding = one(made, FailureClass.HALLUCINATED_STATE)
        (derived,) = [each for each in finding.evidence if each.role == "derived?"]
        (source,) = [span for span in made.spans if span.name == "get_items"]
        assert (derived.step, derived.span, derived.place) == (0, source.id, "get_items")

    def test_several_values_from_nowhere_in_one_argument_are_counted(self) -> None:
        missing = error("order not found")
        made = trace(
            [step(call("get_order", missing, order_id=number)) for number in ("1099", "1088")],
            task="Where is it?",
        )
        finding = one(made, FailureClass.HALLUCINATED_STATE)
        assert finding.why == "order 1099 not found in context · 1 more"

    def test_an_observation_the_model_writes_itself(self) -> None:
        said = "Action: search\nInput: rain\nObservation: It rains.\nFinal: It rains."
        finding = one(trace([said]), FailureClass.HALLUCINATED_STATE)
        assert (finding.step, finding.why) == (0, "fabricates a tool result")
        assert finding.evidence[0].text == "Observation: It rains. Final: It rains."

    def test_an_observation_that_it_quotes_before_it_acts_is_none(self) -> None:
        said = "Observation: It rained.\nAction: search\nInput: rain"
        assert not found(trace([said]), FailureClass.HALLUCINATED_STATE)

    def test_success_claimed_after_the_call_failed(self) -> None:
        made = trace(
            [
                step(call("cancel_order", error("already shipped"), order_id="1041")),
                "Order 1041 has been successfully cancelled.",
            ],
            task="Cancel 1041.",
        )
        finding = one(made, FailureClass.HALLUCINATED_STATE)
        assert (finding.step, finding.why) == (1, "claims success after cancel_order failed")
        assert [(each.role, each.text) for each in finding.evidence] == [
            ("says", "Order 1041 has been successfully cancelled."),
            ("error", "already shipped"),
        ]

    @pytest.mark.parametrize("worked", [False, True])
    def test_a_success_that_may_be_of_something_else_is_denied_where_nothing_worked(
        self, worked: bool
    ) -> None:
        before = step(call("update_address", "ok", order_id="1041", street="Elm"))
        failed = step(call("cancel_order", error("already shipped"), order_id="1041"))
        made = trace(
            [*([before] if worked else []), failed, "It has been updated successfully."],
            task="Order 1041: cancel it, and send it to Elm.",
        )
        whys = [each.why for each in found(made, FailureClass.HALLUCINATED_STATE)]
        assert whys == ([] if worked else ["claims success after cancel_order failed"])

    @pytest.mark.parametrize(
        "said",
        [
            "I was unable to cancel it: the order has been processed already.",
            "Would you like me to retry? It has not been cancelled.",
            "The order is on its way.",
        ],
    )
    def test_a_failure_that_is_owned_up_to_is_none(self, said: str) -> None:
        made = trace(
            [step(call("cancel_order", error("already shipped"), order_id="1041")), said],
            task="Cancel 1041.",
        )
        assert not found(made, FailureClass.HALLUCINATED_STATE)

    def test_a_status_its_last_observation_denies(self) -> None:
        made = trace(
            [
                step(call("get_order", {"order_id": "W77", "status": "pending"}, order_id="W77")),
                "Good news: order W77 is delivered.",
            ],
            task="Where is W77?",
        )
        assert one(made, FailureClass.HALLUCINATED_STATE).why == (
            "says delivered; get_order returned pending"
        )

    @pytest.mark.parametrize(
        "said",
        [
            "Order W77 is pending.",
            "Once order W77 is delivered you can return it.",
            "Order W77 is not delivered yet.",
            "Is order W77 delivered?",
        ],
    )
    def test_a_status_that_agrees_or_is_not_claimed_is_none(self, said: str) -> None:
        made = trace(
            [
                step(call("get_order", {"order_id": "W77", "status": "pending"}, order_id="W77")),
                said,
            ],
            task="Where is W77?",
        )
        assert not found(made, FailureClass.HALLUCINATED_STATE)

    @pytest.mark.parametrize(
        "said", ["Good news: your parcel is delivered.", "W77 and W78: both are delivered."]
    )
    def test_a_status_of_nothing_named_or_of_several_is_held_against_none(self, said: str) -> None:
        looks = [
            step(call("get_order", {"order_id": name, "status": "pending"}, order_id=name))
            for name in ("W77", "W78")
        ]
        made = trace([*looks, said], task="Where are W77 and W78?")
        assert not found(made, FailureClass.HALLUCINATED_STATE)

    def test_a_failed_call_shows_no_status(self) -> None:
        gone = error('{"order_id": "W77", "status": "pending"}')
        made = trace(
            [step(call("get_order", gone, order_id="W77")), "Good news: order W77 is delivered."],
            task="Where is W77?",
        )
        whys = [each.why for each in found(made, FailureClass.HALLUCINATED_STATE)]
        assert not [why for why in whys if why.startswith("says delivered")]

    def test_a_status_of_another_kind_denies_nothing(self) -> None:
        made = trace(
            [
                step(call("get_order", {"order_id": "W77", "status": "tier 2"}, order_id="W77")),
                "Good news: order W77 is delivered.",
            ],
            task="Where is W77?",
        )
        assert not found(made, FailureClass.HALLUCINATED_STATE)


class TestGaveUp:
    WORK = step(call("Bash", "a.txt", command="ls"))

    @pytest.mark.parametrize(
        ("end", "why"),
        [
            ("Let me start with the first step:\n\nbash\nls -la", "announced a step and stopped"),
            ("Now I will write the tests for it.", "announced a step and stopped"),
            ("Shall I go on and write the file?", "asked a question; no user present"),
            ("Once you share the output I can fix it.", "asked a question; no user present"),
            ("I cannot solve this with the tools here.", "refused"),
            ("", "ended with an empty message"),
        ],
    )
    def test_a_run_that_stops_short(self, end: str, why: str) -> None:
        finding = one(trace([self.WORK, end]), FailureClass.GAVE_UP)
        assert (finding.step, finding.why.split(":")[0]) == (1, why)
        assert finding.span == finding.evidence[0].span == "step-1"

    @pytest.mark.parametrize(
        "end",
        [
            "Done. The file is written and the tests pass.",
            "The answer is 42. Let me know if you need more.",
            "All set. If you want, I can also open a pull request.",
        ],
    )
    @pytest.mark.parametrize("outcome", ["failed", "unknown"])
    def test_a_run_that_ends_is_none(self, end: str, outcome: Status) -> None:
        assert not found(trace([self.WORK, end], outcome=outcome), FailureClass.GAVE_UP)

    def test_a_plan_without_a_single_call(self) -> None:
        made = trace(
            ["Run `aws s3 mb s3://x` and then set its policy."], tools=[tool("Bash", command={})]
        )
        assert one(made, FailureClass.GAVE_UP).why == "announced an action, called no tool"

    def test_a_declared_surrender_counts_whatever_the_outcome(self) -> None:
        end = step(call("Finish", "", return_type="give_up_and_restart"))
        made = trace([self.WORK, end], outcome="unknown")
        assert one(made, FailureClass.GAVE_UP).why == "declared giving up"

    def test_a_long_answer_that_speaks_of_giving_up_is_no_surrender(self) -> None:
        plot = "The crew has to abandon ship, which seems impossible, and never gives up hope. " * 2
        made = trace([self.WORK, step(call("Finish", "", final_answer=plot))], outcome="unknown")
        assert not found(made, FailureClass.GAVE_UP)

    def test_the_words_of_a_refusal_are_cited_where_they_were_said(self) -> None:
        goodbye = "You are welcome! Have a nice day."
        made = trace([self.WORK, "I cannot change this fare.", heard("Thanks."), goodbye])
        finding = one(made, FailureClass.GAVE_UP)
        assert (finding.step, finding.evidence[0].text) == (1, "I cannot change this fare.")

    def test_a_last_program_that_nobody_ran_is_an_act(self) -> None:
        code = "Let me look at the file.\n```python\nprint(open('a.txt').read())\n```"
        report = heard("Observation: a text")
        made = trace([code, report, code], outcome="unknown", tools=[tool("python", code={})])
        assert not found(made, FailureClass.GAVE_UP)

    def test_a_hand_over_with_nothing_done(self) -> None:
        parts = [step(call("transfer_to_human_agents", "ok", summary="too hard"))]
        assert one(trace(parts), FailureClass.GAVE_UP).why == "handed over to a person"

    def test_a_hand_over_of_what_remains_is_none(self) -> None:
        parts = [
            step(call("cancel_order", "cancelled", reason="asked")),
            step(call("transfer_to_human_agents", "ok", summary="the rest")),
        ]
        assert not found(trace(parts), FailureClass.GAVE_UP)

    @pytest.mark.parametrize("outcome", ["passed", "unknown"])
    def test_a_refusal_the_task_may_have_called_for_is_none(self, outcome: Status) -> None:
        made = trace([self.WORK, "I cannot change this fare."], outcome=outcome)
        assert not found(made, FailureClass.GAVE_UP)

    def test_a_question_that_somebody_answers_is_none(self) -> None:
        made = trace([self.WORK, "Which one?", heard("The first."), "It is done."])
        assert not found(made, FailureClass.GAVE_UP)


class TestWrongTool:
    def test_a_tool_that_does_not_exist(self) -> None:
        made = trace([step(call("lookup", error("No such tool available: lookup"), q="x"))])
        finding = one(made, FailureClass.WRONG_TOOL)
        assert finding.why == "called lookup, which does not exist"
        assert [(each.role, each.text, each.place) for each in finding.evidence] == [
            ("called", 'lookup {"q":"x"}', ""),
            ("error", "No such tool available: lookup", "lookup"),
        ]

    def test_a_tool_that_was_not_offered(self) -> None:
        made = trace([step(call("lookup", NOTHING, q="x"))], tools=[tool("search", q={})])
        finding = one(made, FailureClass.WRONG_TOOL)
        assert finding.why == "called lookup, which was not offered"
        assert [(each.role, each.text) for each in finding.evidence] == [
            ("called", 'lookup {"q":"x"}')
        ], "no reply was recorded"

    def test_a_slip_that_the_next_call_mends_is_none(self) -> None:
        gone = error("No such tool available: lookup")
        made = trace([step(call("lookup", gone, q="x")), step(call("search", "found", q="x"))])
        assert not found(made, FailureClass.WRONG_TOOL)

    def test_a_tool_missing_from_a_list_that_still_answered_is_none(self) -> None:
        made = trace([step(call("lookup", "found", q="x"))], tools=[tool("search", q={})])
        assert not found(made, FailureClass.WRONG_TOOL)

    def test_a_reply_that_names_another_tool(self) -> None:
        away = error("Binary file. Please use the Bash tool instead")
        reads = step(call("Read", away, file_path="x.db"))
        finding = one(trace([reads, reads]), FailureClass.WRONG_TOOL)
        assert finding.why == "Read: Binary file. Please use the Bash tool instead"
        advised = trace([reads, step(call("Bash", "x", command="strings x.db"))])
        assert not found(advised, FailureClass.WRONG_TOOL), "it took the advice"

    def test_a_long_reply_that_names_another_tool_is_cut(self) -> None:
        words = f"Please use the Bash tool instead of this one{' for files as large as this' * 3}"
        made = trace([step(call("Read", error(words), file_path="x.db"))] * 2)
        assert one(made, FailureClass.WRONG_TOOL).why == f"Read: {words[:69]}…"

    def test_a_slip_that_is_made_again_is_none_that_was_mended(self) -> None:
        gone = error("No such tool available: lookup")
        slip = step(call("lookup", gone, q="x"))
        made = trace([slip, step(call("search", "found", q="x")), slip])
        assert one(made, FailureClass.WRONG_TOOL).step == 0

    def test_a_tool_outdone_by_another_on_the_same_thing(self) -> None:
        made = trace(
            [
                step(call("get_text", error("cannot open"), name="a.pdf")),
                step(call("get_text", error("cannot open"), name="a.pdf")),
                step(call("get_pages", "page one", name="a.pdf")),
            ]
        )
        finding = one(made, FailureClass.WRONG_TOOL)
        assert finding.why == "get_text failed 2×; get_pages then succeeded"

    def test_another_errand_of_another_tool_is_none(self) -> None:
        made = trace(
            [
                step(call("get_text", error("cannot open"), name="a.pdf")),
                step(call("get_text", error("cannot open"), name="a.pdf")),
                step(call("get_pages", "page one", name="b.pdf")),
            ]
        )
        assert not found(made, FailureClass.WRONG_TOOL)


class TestOther:
    WORK = step(call("Bash", "a.txt", command="ls"))

    def garbled(self, outcome: Status = "failed") -> Trace:
        commands = (":", "};", "}", ":  \n\n ", "None", ":")
        parts: list[Part] = [step(call("Bash", "", command=command)) for command in commands]
        return trace(parts, outcome=outcome)

    def test_calls_garbled_from_the_start_are_the_harness_s_fault(self) -> None:
        finding = one(self.garbled(), FailureClass.OTHER)
        assert (finding.sub, finding.attribution) == ("malformed calls", Attribution.ENVIRONMENT)
        assert (finding.step, finding.why) == (0, "6 of 6 calls are empty or garbled")

    def test_a_run_that_passed_all_the_same_is_none(self) -> None:
        assert not found(self.garbled("passed"), FailureClass.OTHER)

    def test_two_stray_calls_of_ten_are_none(self) -> None:
        words = (":", "};", "ls", "pwd", "id", "df", "cat a", "cat b", "cat c", "cat d")
        parts = [step(call("Bash", "ok", command=word)) for word in words]
        assert not found(trace(parts), FailureClass.OTHER)

    @pytest.mark.parametrize(
        ("opened", "garbled"),
        [(("path", "text"), 3), (("path",), 0), ((), 0)],
        ids=["two arguments", "one argument", "none"],
    )
    def test_a_stray_sign_before_arguments_of_two_names_garbles_them(
        self, opened: tuple[str, ...], garbled: int
    ) -> None:
        names = ("alpha", "beta", "gamma")
        parts: list[Part] = [
            step(
                call(
                    "edit_file",
                    "ok",
                    **{key: f"{'>' * (key in opened)}{name} {key}" for key in ("path", "text")},
                )
            )
            for name in names
        ]
        whys = [each.why for each in found(trace(parts), FailureClass.OTHER)]
        assert whys == ([f"{garbled} of 3 calls are empty or garbled"] if garbled else [])

    @pytest.mark.parametrize(
        ("reply", "garbled"),
        [
            (error("bash: line 1: syntax error near unexpected token `}'"), True),
            (error("No such file"), False),
        ],
    )
    def test_a_program_that_opens_with_a_stray_sign_is_garbled_where_it_does_not_parse(
        self, reply: Gives, garbled: bool
    ) -> None:
        parts = [step(call("Bash", reply, command=f";ls {name}")) for name in ("a", "b", "c")]
        subs = {each.sub for each in found(trace(parts), FailureClass.OTHER)}
        assert ("malformed calls" in subs) is garbled

    def test_a_stray_sign_before_a_few_of_many_calls_is_of_those_alone(self) -> None:
        stray = [
            step(call("edit_file", "ok", path=f">{name}", text=f">{name}!"))
            for name in ("alpha", "beta", "gamma")
        ]
        others = [step(call("get_page", "text", at=f"p{at}")) for at in range(6)]
        made = trace([step(call("Bash", "", command=":")), *stray, *others])
        assert not found(made, FailureClass.OTHER)

    def test_one_stray_call_is_none(self) -> None:
        parts = [step(call("Bash", "ok", command=word)) for word in ("ls", ":", "pwd", "id", "df")]
        assert not found(trace(parts), FailureClass.OTHER)

    def test_a_call_left_in_the_text_unparsed(self) -> None:
        made = trace(['I go on.\nfunction<｜tool▁sep｜>Write\n{"path": "a"}'])
        assert one(made, FailureClass.OTHER).attribution is Attribution.ENVIRONMENT
        (alone,) = malformed.find(RuleContext(made))
        assert alone.attribution is Attribution.ENVIRONMENT

    @pytest.mark.parametrize(
        "extra",
        [
            {"limit": {"type": "message", "limit": 50}},
            {"result_subtype": "error_max_turns"},
            {"exit_status": "exit_cost"},
        ],
    )
    def test_a_limit_that_stopped_the_run(self, extra: dict[str, object]) -> None:
        finding = one(trace(["And so"], extra=extra), FailureClass.OTHER)
        assert finding.sub == "cap hit"

    def test_an_answer_cut_at_the_token_limit(self) -> None:
        assert one(trace([step("And so", stop="length")]), FailureClass.OTHER).sub == "cap hit"

    @pytest.mark.parametrize(
        ("extra", "why", "cited"),
        [
            (
                {"limit": {"type": "message", "limit": 50}},
                "stopped by a limit: message 50",
                ("message 50", "root", "limit"),
            ),
            (
                {"exit_status": "exit_cost"},
                "stopped by a limit: exit_cost",
                ("exit_cost", "root", "exit_status"),
            ),
            (
                {"tool_names": ["Bash"]},
                "truncated: no end marker",
                ("no result", "root", "stream"),
            ),
        ],
    )
    def test_what_says_so_is_cited_where_it_stands(
        self, extra: dict[str, Json], why: str, cited: tuple[str, str, str]
    ) -> None:
        finding = one(trace(["And so"], extra=extra), FailureClass.OTHER)
        (evidence,) = finding.evidence
        assert (finding.why, finding.attribution) == (why, None)
        assert (evidence.role, evidence.text, evidence.span, evidence.place) == ("stated", *cited)

    LONG = " that was raised while the agent worked on its task, and after which nobody came"

    def test_the_error_of_the_run_that_names_a_limit_is_cited(self) -> None:
        told = "Maximum iterations exceeded" + self.LONG
        finding = one(failing(trace(["And so"]), "root", told), FailureClass.OTHER)
        (evidence,) = finding.evidence
        assert finding.why == f"stopped: {told[:59]}…"
        assert (evidence.text, evidence.span, evidence.place) == (f"{told[:59]}…", "root", "error")

    def test_the_exception_that_ended_the_trial_is_cited_at_length(self) -> None:
        told = "AgentTimeoutError" + self.LONG
        made = trace(["And so"], header={"reference": {"ended_by": told}})
        finding = one(made, FailureClass.OTHER)
        (evidence,) = finding.evidence
        assert finding.why == f"stopped: {told[:59]}…"
        assert (evidence.text, evidence.place) == (f"{told[:89]}…", "trial record")

    @pytest.mark.parametrize(
        ("stop", "why"),
        [
            ("length", "response truncated at the token limit"),
            ("context", "context window full"),
        ],
    )
    def test_the_stop_reason_is_cited_with_the_answer(self, stop: Stop, why: str) -> None:
        finding = one(trace([step("And so", stop=stop)]), FailureClass.OTHER)
        (evidence,) = finding.evidence
        assert finding.why == why
        assert (evidence.text, evidence.span, evidence.place) == (stop, "step-0", "stop reason")

    def test_the_model_s_service_failing_is_the_harness_s_fault(self) -> None:
        finding = one(trace(["On it.", "API Error: 529 Overloaded"]), FailureClass.OTHER)
        assert (finding.sub, finding.attribution) == ("serving error", Attribution.ENVIRONMENT)
        assert finding.why == "model API failed: API Error: 529 Overloaded"
        assert finding.evidence[0].place == "said"

    @pytest.mark.parametrize("span", ["root", "step-1"])
    def test_an_error_of_the_model_s_service_at_a_span_is_cited_there(self, span: str) -> None:
        told = "503 Service Unavailable" + self.LONG
        finding = one(failing(trace(["On it.", "And so"]), span, told), FailureClass.OTHER)
        (evidence,) = finding.evidence
        assert (finding.sub, finding.why) == (
            "serving error",
            f"model API failed: {told[:59]}…",
        )
        assert (evidence.text, evidence.span, evidence.place) == (f"{told[:59]}…", span, "error")

    def test_what_follows_from_garbled_calls_is_the_harness_s_too(self) -> None:
        commands = (":", "};", "}", ":  ", "None", ":")
        parts: list[Part] = [step(call("Bash", "", command=command)) for command in commands]
        both = findings(trace([*parts, "I cannot solve this with the tools here."]))
        assert {each.failure for each in both} == {FailureClass.OTHER, FailureClass.GAVE_UP}
        assert {each.attribution for each in both} == {Attribution.ENVIRONMENT}
        alone = findings(trace([self.WORK, "I cannot solve this with the tools here."]))
        assert [each.attribution for each in alone] == [None]

    @pytest.mark.parametrize("extra", [{}, {"tool_names": ["Bash"]}])
    def test_a_run_that_ended_itself_hit_no_cap(self, extra: dict[str, Json]) -> None:
        told = {**extra, "result_subtype": "success"}
        assert not found(trace([step("Done.", stop="end")], extra=told), FailureClass.OTHER)

    def test_the_check_s_own_exception_ended_no_run(self) -> None:
        reference = {"ended_by": "VerifierTimeoutError"}
        made = trace(["Done."], header={"reference": reference})
        assert not found(made, FailureClass.OTHER)


def loops_of(made: Trace) -> list[Loop]:
    """The loops of its only thread."""
    reading = RuleContext(made).reading
    return loops(reading, reading.main)


def failing(made: Trace, id: str, error: str) -> Trace:
    """The trace with an error at one of its spans."""
    spans = tuple(structs.replace(s, error=error) if s.id == id else s for s in made.spans)
    built, loose, _ = steps.build(spans)
    return structs.replace(made, spans=spans, steps=built, loose=loose)


def test_findings_come_earliest_first() -> None:
    parts: Sequence[Part] = [
        step(call("get_order", error("not found"), order_id="1099")),
        *[step(call("book", REFUSED, seat="14C")) for _ in range(3)],
        "I cannot help you with this.",
    ]
    at = [finding.step for finding in findings(trace(parts))]
    assert at == sorted(at)
    assert len(at) == 3
