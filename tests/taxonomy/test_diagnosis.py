from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.trace import SourceScore, Trace
from taxonomy.classes import Shape
from taxonomy.diagnosis import diagnose
from taxonomy.findings import StepScore
from taxonomy.localiser.candidates import EVIDENCE
from taxonomy.rules import findings
from taxonomy.rules.rule import RuleContext
from taxonomy.step_scores import ENDED, FITS, FRESH, GROUNDED, READ, VERIFIED, rule_scores
from tests.build import Called, Part, call, error, heard, step, trace

REFUSED = error("Error: seat map is closed")


def scored(made: Trace) -> tuple[StepScore, ...]:
    case = RuleContext(made)
    return rule_scores(case, findings(case))


def item(made: Trace, at: int, name: str) -> bool | None:
    return next(each.held for each in scored(made)[at].items if each.name == name)


HEALTHY: list[Part] = [
    step("I look.", call("find_orders", '{"orders": [{"order_id": "1041"}]}', email="a@b.test")),
    step("I cancel it.", call("cancel_order", '{"status": "cancelled"}', order_id="1041")),
    "Order 1041 is cancelled.",
]


class TestScores:
    def test_a_healthy_run_holds_every_item_that_can_be_decided(self) -> None:
        made = trace(HEALTHY, task="Cancel my order, a@b.test.", outcome="passed")
        assert [score.value for score in scored(made)] == [1.0, 1.0, 1.0]
        assert {score.by for score in scored(made)} == {"arc rules 1"}

    def test_a_step_with_no_decided_item_has_no_score(self) -> None:
        made = trace(["Hello.", heard("Hi."), "How can I help?", heard("?"), "Bye."])
        assert [score.value for score in scored(made)[:2]] == [None, None]

    def test_a_value_from_nowhere_is_not_grounded(self) -> None:
        made = trace([step(call("get_order", "{}", order_id="1099"))], task="Where is it?")
        assert item(made, 0, GROUNDED) is False

    def test_the_same_failed_call_again_did_not_read_the_result(self) -> None:
        made = trace([step(call("book", REFUSED, seat="1A"))] * 2)
        assert item(made, 1, READ) is False
        assert item(made, 1, FRESH) is False

    def test_another_try_after_a_failure_read_it(self) -> None:
        made = trace([step(call("book", REFUSED, seat="1A")), step(call("book", "ok", seat="2B"))])
        assert item(made, 1, READ) is True

    def test_a_change_that_nothing_looks_at_is_fire_and_forget(self) -> None:
        write = step(call("write_file", "ok", path="/a.txt", content="x"))
        look = step(call("read_file", "x", path="/a.txt"))
        assert item(trace([write, "Done."]), 0, VERIFIED) is False
        assert item(trace([write, look, "Done."]), 0, VERIFIED) is True

    def test_a_refused_call_does_not_fit(self) -> None:
        made = trace([step(call("book", error("missing required argument: seat")))])
        assert item(made, 0, FITS) is False

    def test_only_the_last_step_is_asked_how_it_ended(self) -> None:
        made = trace([step(call("Bash", "a", command="ls")), "Now I will write it."])
        assert (item(made, 0, ENDED), item(made, 1, ENDED)) == (None, False)

    def test_the_outcome_changes_no_score(self) -> None:
        parts = [step(call("book", REFUSED, seat="1A"))] * 3
        assert scored(trace(parts, outcome="passed")) == scored(trace(parts, outcome="failed"))


class TestCandidates:
    def test_a_passed_healthy_run_has_none(self) -> None:
        said = diagnose(trace(HEALTHY, task="Cancel my order, a@b.test.", outcome="passed"))
        assert (said.candidates, said.findings, said.warnings) == ((), (), ())
        assert said.shape is Shape.HEALTHY

    def test_a_failed_run_without_evidence_has_a_guess_at_most(self) -> None:
        assert diagnose(trace(["It is done."])).candidates == ()
        write = step(call("write_file", "ok", path="a.txt"))
        (guess,) = diagnose(trace([write, "It is done."])).candidates
        assert (guess.is_positional, guess.band, guess.accuracy) == (True, None, "accuracy unknown")

    def test_the_earliest_finding_comes_before_what_followed_from_it(self) -> None:
        missing = error("order 1099 not found")
        made = trace(
            [
                step(call("get_order", missing, order_id="1099")),
                step(call("get_order", missing, order_id="1099")),
                step(call("get_order", missing, order_id="1099")),
                "I cannot help you with this.",
            ],
            task="Where is my parcel?",
        )
        said = diagnose(made)
        assert [candidate.step for candidate in said.candidates] == [0, 3, 1]
        assert said.candidates[0].why == "order 1099 not found in context"

    def test_there_are_three_at_most_and_each_is_above_the_floor(self) -> None:
        parts: list[Part] = [
            step(call("get_order", error("not found"), order_id=f"10{n}9")) for n in range(1, 9)
        ]
        said = diagnose(trace(parts, task="Where is it?"))
        assert len(said.candidates) == 3
        assert said.candidates[0].signals[0].weight >= EVIDENCE

    def test_weak_pointers_alone_are_a_guess(self) -> None:
        spikes: list[Part] = [
            step("Hm.", seconds=9.0 if at == 4 else 1.0, tokens=900 + 900 * (at == 4), usd=0.1)
            for at in range(8)
        ]
        (guess,) = diagnose(trace(spikes)).candidates
        assert (guess.step, guess.is_positional, guess.band) == (4, True, None)

    def test_a_person_who_stepped_in_points_at_the_step_before(self) -> None:
        made = trace(
            [step(call("Bash", "a", command=f"ls {at}")) for at in range(4)],
            extra={"signals": [{"kind": "interrupt", "line": 3}]},
        )
        first = diagnose(made).candidates[0]
        assert (first.step, first.why) == (2, "user intervened: interrupt")

    def test_a_user_who_objects_points_at_the_step_before(self) -> None:
        made = trace(["I change Berlin.", heard("That's not what I asked."), "Sorry."])
        assert diagnose(made).candidates[0].step == 0

    def test_code_in_a_chat_is_judged_by_what_the_terminal_says(self) -> None:
        made = trace(
            [
                step("```python\nprint(x)\n```", agent="Coder"),
                step("exitcode: 1 (execution failed)\nNameError: x", agent="Computer_terminal"),
                step("```python\nx = 1\nprint(x)\n```", agent="Coder"),
                step("exitcode: 0 (execution succeeded)\n1", agent="Computer_terminal"),
            ]
        )
        first = diagnose(made).candidates[0]
        assert first.step == 0
        assert "error" in {signal.name for signal in first.signals}


class TestWarnings:
    @pytest.mark.parametrize(
        ("bad", "warning"),
        [
            (call("lookup", error("no such tool: lookup")), "called lookup, which does not exist"),
            (call("Bash", "", command="};"), "1 of 3 calls malformed"),
            (call("book", error("field required")), "1 of 3 calls rejected for their arguments"),
            (call("get_order", "{}", order_id="1099"), "order 1099 not found in context"),
        ],
    )
    def test_a_passed_run_is_marked_for_what_was_wrong(self, bad: Called, warning: str) -> None:
        parts = [step(bad), *HEALTHY]
        said = diagnose(trace(parts, task="Cancel my order, a@b.test.", outcome="passed"))
        assert said.warnings == (warning,)

    def test_much_repeated_work_is_one(self) -> None:
        parts: list[Part] = [step(call("look", "same", at="x"))] * 4
        said = diagnose(trace([*parts, "Done."], outcome="passed"))
        assert said.warnings == ("3 of 4 steps repeated earlier work",)

    def test_a_failed_run_has_findings_instead(self) -> None:
        parts = [step(call("look", REFUSED, at="x"))] * 4
        assert diagnose(trace(parts)).warnings == ()


class TestDiagnosis:
    def test_the_source_s_scores_give_the_shape_and_stand_beside_the_rules(self) -> None:
        made = trace([step(call("Bash", str(at), command=f"ls {at}")) for at in range(6)])
        given = tuple(
            SourceScore(name="quality", by="human", span=step.ask.id, value=value)
            for step, value in zip(made.steps, (0.9, 0.9, 0.3, 0.3, 0.3, 0.3), strict=True)
        )
        said = diagnose(made, given)
        assert said.shape is said.published_shape is Shape.EARLY_COLLAPSE
        assert said.published == 2
        assert {score.source for score in said.scores} == {"rule", "import"}
        assert said.candidates[0].step == 2

    def test_a_score_out_of_range_or_of_no_step_is_left_out(self) -> None:
        made = trace(HEALTHY)
        given = (
            SourceScore(name="stars", by="human", span=made.steps[0].ask.id, value=5.0),
            SourceScore(name="run", by="human", value=0.5),
        )
        assert {score.source for score in diagnose(made, given).scores} == {"rule"}

    def test_it_is_the_same_every_time(self) -> None:
        made = trace([step(call("book", REFUSED, seat="1A"))] * 5)
        assert msgspec.json.encode(diagnose(made)) == msgspec.json.encode(diagnose(made))

    def test_a_trace_without_a_step_has_a_diagnosis(self) -> None:
        said = diagnose(trace([]))
        assert (said.shape, said.scores, said.candidates) == (None, (), ())


replies = st.sampled_from(["ok", "", "{}", '{"status": "pending", "id": "7"}', "[1, 2"]) | st.text(
    max_size=30
)
arguments = st.dictionaries(
    st.sampled_from(["order_id", "path", "command", "amount", "email", "", "a.b"]),
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.lists(st.integers()),
    max_size=3,
)


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    made: list[Part] = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.integers(0, 2))
        if kind == 0:
            made.append(heard(draw(st.text(max_size=40))))
        elif kind == 1:
            made.append(
                step(draw(st.text(max_size=60)), stop=draw(st.sampled_from([None, "length"])))
            )
        else:
            reply = draw(replies)
            gives = error(reply) if draw(st.booleans()) else reply
            name = draw(st.sampled_from(["Bash", "get_order", "book", "", "transfer_to_human"]))
            made.append(step(call(name, gives, **draw(arguments))))
    return made


def test_a_raised_digit_is_a_sign_and_no_number() -> None:
    said = diagnose(trace([heard("about 7¹ or ¹ of them"), step(call("order", "ok", amount=10))]))
    assert all(0 <= score.value <= 1 for score in said.scores if score.value is not None)


outcomes: list[Literal["passed", "failed", "unknown"]] = ["passed", "failed", "unknown"]


@settings(deadline=None)  # the first example loads the schema validator
@given(parts(), st.sampled_from(outcomes))
def test_any_trace_has_a_diagnosis(
    made: list[Part], outcome: Literal["passed", "failed", "unknown"]
) -> None:
    said = diagnose(trace(made, outcome=outcome))
    assert len(said.candidates) <= 3
    assert all(0 <= score.value <= 1 for score in said.scores if score.value is not None)
