"""What a task or a prompt requires of calls and of the answer, and what requires nothing."""

from __future__ import annotations

from typing import Any

import pytest

from replay.trace import Tool
from taxonomy.classes import FailureClass
from taxonomy.findings import Finding
from taxonomy.rules import requirement
from tests.build import Part, call, heard, step, trace
from tests.taxonomy.rule_case import findings

LOOK = step(call("web_search", "Brest is a port of 1631.", query="Brest"))
TWO = step(call("read", "1631", page=1), call("read", "1666", page=2))
SUBMIT = Tool(name="submit_answer", schema={"type": "object"})


def found(told: str, *parts: Part, **more: Any) -> list[Finding]:
    made = trace([*parts], task=told, **{"outcome": "unknown", **more})
    return [each for each in findings(made) if each.rule == requirement.NAME]


class TestCalls:
    @pytest.mark.parametrize(
        "told",
        [
            "You should only make one tool call at a time.",
            "Find the port. Always include exactly one tool call per response.",
            "- You should only make one tool call at a time, and if you make one, do not respond.",
        ],
    )
    def test_several_calls_in_a_step_where_one_is_allowed(self, told: str) -> None:
        (finding,) = found(told, LOOK, TWO, "Brest.")
        assert (finding.failure, finding.sub) == (FailureClass.OTHER, "instruction broken")
        assert finding.step == 1
        assert finding.why.startswith("2 calls in one step; told “")
        assert [each.role for each in finding.evidence] == ["called", "stated"]
        assert not found(told, LOOK, LOOK, "Brest.")

    @pytest.mark.parametrize(
        "told",
        [
            "Find the older port. Make at most two tool calls.",
            "Make no more than 2 searches, and if you find nothing, say so.",
            "You may use a maximum of 2 `web_search` calls.",
        ],
    )
    def test_more_calls_than_are_allowed(self, told: str) -> None:
        (finding,) = found(told, LOOK, LOOK, LOOK, LOOK, "Brest.")
        assert finding.step == 2
        assert finding.why.startswith("4 calls of at most 2; told “")
        assert not found(told, LOOK, LOOK, "Brest.")

    def test_other_calls_and_the_one_that_hands_in_are_not_counted(self) -> None:
        assert not found("Make at most one search.", LOOK, TWO, "Brest.")
        answer = step(call("final_answer", "ok", answer="Brest"))
        assert not found("Make at most one tool call.", LOOK, answer)

    def test_a_limit_may_be_of_each_thing_the_user_asks_for(self) -> None:
        told = "Make at most two tool calls."
        assert not found(told, LOOK, LOOK, "Brest.", heard("And Nice?"), LOOK, LOOK, "Nice.")

    @pytest.mark.parametrize(
        "told",
        [
            "Make at most two tool calls if you can.",
            "Try to make at most two searches.",
            "At most 2 searches per page are useful.",
            "Can you do it in at most two searches?",
            "If the page is long, make at most two searches.",
            "Our server handles at most 2 requests.",
        ],
    )
    def test_a_condition_advice_and_a_question_require_nothing(self, told: str) -> None:
        assert not found(told, LOOK, LOOK, LOOK, "Brest.")

    def test_tools_beside_the_only_ones(self) -> None:
        told = "Find the port. Use only the `web_search` tool."
        (finding,) = found(told, LOOK, TWO, "Brest.")
        assert (finding.step, finding.why.partition(";")[0]) == (1, "read was called")
        assert not found(told, LOOK, "Brest.")
        assert not found("Only use the web_search and read tools.", LOOK, TWO, "Brest.")

    def test_words_that_are_no_tool_of_the_run_name_none(self) -> None:
        assert not found("Only use the following tools.", LOOK, TWO, "Brest.")


class TestAnswers:
    @pytest.mark.parametrize(
        "told",
        [
            "Which port is older? Answer in JSON.",
            "Respond only with valid JSON, without any fences.",
            "Return your final answer in JSON format.",
            '(The answer should be a json object with the key "port")',
        ],
    )
    def test_an_answer_that_is_no_json(self, told: str) -> None:
        (finding,) = found(told, LOOK, "It is Brest.")
        assert (finding.step, finding.why.partition(";")[0]) == (1, "the answer is not JSON")
        for said in ('{"port": "Brest"}', '```json\n{"port": "Brest"}\n```', "[1631]"):
            assert not found(told, LOOK, said)

    @pytest.mark.parametrize(
        "told",
        [
            "The answer stands in a JSON file.",
            "Do not wrap your answer in JSON.",
            "Answer with the name of the JSON file.",
            "If the user asks for it, answer in JSON.",
        ],
    )
    def test_json_that_is_no_form_of_the_answer(self, told: str) -> None:
        assert not found(told, LOOK, "It is Brest.")

    def test_a_last_word_is_no_answer_and_who_gave_up_owes_none(self) -> None:
        (finding,) = found("Answer in JSON.", LOOK, "It is Brest.", "TERMINATE")
        assert finding.step == 1
        gave_up = "I am unable to find it, so I cannot complete this task."
        assert not found("Answer in JSON.", LOOK, gave_up)

    def test_one_of_a_few_words(self) -> None:
        told = 'Is it older? Only respond with exactly "Yes" or "No".'
        (finding,) = found(told, LOOK, "It depends.")
        assert finding.why.startswith("the answer is “It depends.”")
        assert not found(told, LOOK, "Yes.")

    def test_the_tool_that_hands_it_in(self) -> None:
        told = "You must always use the `submit_answer` tool to give your final answer."
        (finding,) = found(told, LOOK, "It is Brest.", tools=[SUBMIT])
        assert finding.why.startswith("answers without submit_answer")
        handed = step(call("submit_answer", "ok", answer="Brest"))
        assert not found(told, LOOK, handed, "It is Brest.", tools=[SUBMIT])
        assert not found(told, LOOK, "It is Brest.")
