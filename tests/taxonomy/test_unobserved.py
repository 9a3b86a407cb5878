"""What a run says that it never looked at: data it makes up, look-ups it never made, facts from
memory, placeholders and functions that nothing defines, pages shown again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_tui import importing
from replay.store import read
from replay.store.rows import trace_rows
from replay.trace import Tool, Trace
from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import Reading
from taxonomy.evidence.unobserved import SeenTexts, facts, find_invention, first_observation
from taxonomy.findings import Finding
from taxonomy.judgements.schema import open_ledger
from taxonomy.rules.rule import RuleContext
from tests.build import NOTHING, Part, call, error, heard, step, trace
from tests.taxonomy.rule_case import findings

HALLUCINATED = FailureClass.HALLUCINATED_STATE
WRONG_TOOL = FailureClass.WRONG_TOOL


def found(made: Trace, failure: FailureClass = HALLUCINATED) -> list[Finding]:
    return [finding for finding in findings(made) if finding.failure is failure]


def new_facts(made: Trace) -> dict[int, tuple[str, ...]]:
    return RuleContext(made).new_facts


def chat(tmp_path: Path, *history: tuple[str, str]) -> Trace:
    """A group chat whose first speaker writes the task out, as people blame them."""
    told = {
        "question": "Which of the two ports is older?",
        "question_ID": "q-1",
        "history": [
            {"content": content, "name": name, "role": "assistant"} for name, content in history
        ],
        "mistake_agent": history[0][0],
        "mistake_step": "0",
        "is_corrected": False,
    }
    folder = tmp_path / "Algorithm-Generated"
    folder.mkdir()
    (folder / "1.json").write_text(json.dumps(told))
    with open_ledger(tmp_path / "arc.db") as store:
        for _ in importing.import_paths(store, [folder / "1.json"]):
            pass
        (row,) = trace_rows(store)
        return read.load(store, row.trace)


PROMPT = ("Port_Expert", "You are given: which of the two ports is older? Collect the facts.")
CLAIM = "I have checked both ports on the official website, and Brest is the older one."
LOOK = step(call("fetch", "Brest 1631, Lorient 1666", url="https://ports.test"))


class TestLookUps:
    @pytest.mark.parametrize(
        "said",
        [
            CLAIM,
            "After reviewing the articles of both ports, Brest is older.",
            "Based on reliable published figures, Brest is older.",
        ],
    )
    def test_a_look_up_that_was_never_made(self, said: str) -> None:
        (finding,) = found(trace([said]))
        assert finding.why == "claims a look-up; nothing was looked up"
        assert finding.evidence[0].text == said

    @pytest.mark.parametrize(
        "said",
        [
            "I will check both ports on the official website.",
            "If I had checked the website, I could say which is older.",
            "I have not checked the website, so I cannot say.",
            "Have you checked the website?",
            "Based on the two letters in their names, Brest is older.",
        ],
    )
    def test_a_plan_a_condition_a_denial_and_a_question_claim_nothing(self, said: str) -> None:
        assert not found(trace([said]))

    def test_where_anything_was_shown_it_may_have_been_that(self) -> None:
        assert not found(trace([LOOK, CLAIM]))

    def test_a_call_whose_result_was_not_recorded_may_have_shown_it(self) -> None:
        assert not found(trace([step(call("fetch", NOTHING, url="https://p.test")), CLAIM]))

    @pytest.mark.parametrize(
        "said",
        [
            "Error: host not found",
            f"ConversionError: no such file. {'The formats are pdf, html. ' * 20}",
            f"Output:\nTraceback (most recent call last):\n{'  File x, line 1' * 30}\nOSError: no",
        ],
        ids=["short", "long", "a traceback"],
    )
    def test_a_call_that_only_failed_showed_nothing(self, said: str) -> None:
        gone = step(call("fetch", error(said), page="p"))
        assert [each.step for each in found(trace([gone, CLAIM]))] == [1]

    def test_a_program_that_printed_much_before_it_failed_showed_it(self) -> None:
        shown = "Brest is a port founded in 1631. " * 9
        printed = f"{shown}\nTraceback (most recent call last):\nOSError"
        assert not found(trace([step(call("python", error(printed), code="look()")), CLAIM]))

    def test_of_a_run_that_passed_nothing_is_said(self) -> None:
        assert not found(trace([CLAIM], outcome="passed"))


class TestPlans:
    PLAN = "This is what I do:\n1. Search the web for both ports.\n2. Compare their years."
    ANSWER = step(call("final_answer", NOTHING, answer="Brest"))

    def test_an_answer_without_the_planned_look_up(self) -> None:
        (finding,) = found(trace([self.PLAN, self.ANSWER, "FINAL ANSWER: Brest"]))
        assert (finding.step, finding.why) == (1, "answers without the look-up it planned")
        assert finding.evidence[-1].text == "1. Search the web for both ports"

    def test_a_plan_that_was_followed_is_none(self) -> None:
        assert not found(trace([self.PLAN, LOOK, self.ANSWER]))

    def test_a_plan_to_think_needs_no_look_up(self) -> None:
        plan = "This is what I do:\n1. Search for even numbers.\n2. Compare them."
        assert not found(trace([plan, self.ANSWER]))


class TestFromMemory:
    FACTS = (
        "The oldest ports in the region are Brest with 1631, Lorient with 1666, then Roscoff with "
        "1869 and Vannes with 1421."
    )

    def test_many_facts_before_anything_was_shown(self) -> None:
        (finding,) = found(trace(["I see.", self.FACTS]))
        assert finding.why == "states 8 values not found in context; nothing was looked up"
        assert finding.step == 1

    def test_facts_that_the_task_gave_are_none(self) -> None:
        assert not found(trace(["I see.", self.FACTS], task=f"Sort them. {self.FACTS}"))

    def test_facts_of_a_plan_are_guesses(self) -> None:
        assert not found(trace(["I see.", f"My plan is to verify this. {self.FACTS}"]))

    def test_few_facts_are_none(self) -> None:
        assert not found(trace(["I see.", "The older port is Brest, of 1631."]))

    def test_after_a_look_they_may_stand_in_what_was_left_out(self) -> None:
        assert not found(trace([LOOK, self.FACTS]))


class TestFacts:
    def test_numbers_and_names_are_facts_and_openings_numbering_and_code_are_not(self) -> None:
        said = "1. The tower in Paris is 1,083 feet high.\n```python\nLondon = 4096\n```"
        assert facts(said) == ("Paris", "1083")
        assert facts("Now I'll see what I’ve got.") == ()

    def test_what_was_read_before_is_no_news(self) -> None:
        made = trace(
            [
                step("I look for Berlin.", call("find", "Berlin has 3,677 things", city="x")),
                "In Berlin there are 3677 things.",
                heard("And Hamburg?"),
                "In Hamburg there are 1892, says Meyer.",
            ],
            task="How many things are in Berlin?",
        )
        assert new_facts(made) == {2: ("1892", "Meyer")}

    def test_a_number_in_another_spelling_is_no_news(self) -> None:
        made = trace(["Each costs $20.00, 1,200.50 in all; one is $31.50."], task="20 and 1200.5")
        assert new_facts(made) == {0: ("31.50",)}

    def test_a_terminal_says_nothing_of_itself_but_is_read(self) -> None:
        made = trace(
            [
                step("I run it.", agent="Coder"),
                step("The mean is 4711.", agent="Computer_terminal"),
                step("It is 4711.", agent="Coder"),
            ]
        )
        assert new_facts(made) == {}

    def test_what_a_tool_was_offered_for_is_no_news(self) -> None:
        offered = Tool(name="find", description="Finds towns. Of Meyer, since 1892.", schema={})
        made = trace(["I ask what Meyer knew in 1892, and Schulz."], tools=[offered])
        assert new_facts(made) == {0: ("Schulz",)}

    @given(st.text(max_size=200))
    def test_any_text_has_facts_each_once(self, text: str) -> None:
        found = facts(text)
        assert len(set(found)) == len(found)


class TestMadeUp:
    @pytest.mark.parametrize(
        "said",
        [
            "Let's assume we have the data in a file named ports.csv.",
            "Assuming we have downloaded the list, the older one is Brest.",
            "As we cannot open the page, we can simulate the values for now.",
            "Here is the hypothetical data of both ports.",
        ],
    )
    def test_data_that_is_made_up(self, said: str) -> None:
        (finding,) = found(trace([LOOK, said]))
        assert (finding.step, finding.why) == (1, "makes up data instead of reading it")

    def test_in_a_program_as_well(self) -> None:
        program = "# Dummy list of ports\nports = ['Brest', 'Lorient']\nprint(ports)"
        (finding,) = found(trace([step(call("python", "['Brest']", code=program))]))
        assert finding.evidence[0].text.startswith("# Dummy list of ports")

    @pytest.mark.parametrize(
        "said",
        [
            "If we assume that the list holds it, Brest is older.",
            "We should not assume the data is complete.",
            "Assuming the first column is the name, Brest is older.",
            "Let's assume n is even; then n + 2 is even.",
        ],
    )
    def test_a_condition_a_warning_and_a_proof_make_up_nothing(self, said: str) -> None:
        assert not found(trace([LOOK, said]))

    def test_what_the_task_asks_for_is_not_made_up(self) -> None:
        said = "Let's simulate the values of a thousand throws."
        assert find_invention(said, SeenTexts("Please simulate throws of two dice.")) is None
        assert find_invention(said, SeenTexts("Which port is older?")) == said

    def test_a_program_run_with_a_placeholder(self) -> None:
        program = "client = Maps(key='YOUR_API_KEY')\nprint(client.find('Brest'))"
        made = trace([step(call("python", error("ValueError: invalid API key"), code=program))])
        assert [each.why for each in found(made)] == [
            "runs a program with a placeholder: YOUR_API_KEY"
        ]

    def test_a_placeholder_that_a_shell_writes_for_others_is_none(self) -> None:
        write = "echo 'KEY=YOUR_API_KEY' > .env.example"
        assert not found(trace([step(call("Bash", "", command=write))]))


class TestPrograms:
    RUN = "Let me look it up.\n```python\n{}\n```"
    LOST = "exitcode: 1 (execution failed)\nTraceback (most recent call last):\n{}"

    def ran(self, code: str, said: str, *more: Part) -> Trace:
        return trace([self.RUN.format(code), heard(self.LOST.format(said)), "I see.", *more])

    def test_a_function_that_nothing_defines(self) -> None:
        made = self.ran("print(search_web('Brest'))", "NameError: name 'search_web' is not defined")
        (finding,) = found(made, WRONG_TOOL)
        assert (finding.step, finding.why) == (0, "called search_web, which is not defined")

    @pytest.mark.parametrize(
        ("code", "name"),
        [
            ("x = ports[0]", "ports"),
            ("def age(p):\n    return 1\nprint(age(q))", "q"),
            ("load(1)\ndef load(n):\n    return n", "load"),
        ],
        ids=["a value", "an argument", "its own"],
    )
    def test_another_name_is_a_slip_of_the_program(self, code: str, name: str) -> None:
        made = self.ran(code, f"NameError: name '{name}' is not defined")
        assert not found(made, WRONG_TOOL)

    def test_a_function_that_a_later_program_imports_is_none(self) -> None:
        again = "from tools import search_web\nprint(search_web('Brest'))"
        mended: list[Part] = [self.RUN.format(again), heard("exitcode: 0\nBrest 1631"), "1631."]
        lost = "NameError: name 'search_web' is not defined"
        assert not found(self.ran("print(search_web('Brest'))", lost, *mended), WRONG_TOOL)

    def test_a_file_that_nobody_named(self) -> None:
        said = "FileNotFoundError: [Errno 2] No such file or directory: 'ports_2024.csv'"
        (finding,) = found(self.ran("print(open('ports_2024.csv').read())", said))
        assert finding.why == "path ports_2024.csv not found in context"

    def test_a_file_that_the_task_names_is_none(self) -> None:
        code = "print(open('ports_2024.csv').read())"
        said = "FileNotFoundError: [Errno 2] No such file or directory: 'ports_2024.csv'"
        parts: list[Part] = [self.RUN.format(code), heard(self.LOST.format(said)), "I see."]
        assert not found(trace(parts, task="Read ports_2024.csv and sort it."))


class TestGroupChats:
    def test_what_opens_a_chat_is_its_prompt(self, tmp_path: Path) -> None:
        opening = (PROMPT[0], f"{PROMPT[1]} {CLAIM}")
        made = chat(tmp_path, opening, ("Checker", "Brest is older."), (PROMPT[0], "TERMINATE"))
        assert not found(made)

    def test_what_others_then_claim_counts(self, tmp_path: Path) -> None:
        made = chat(tmp_path, PROMPT, ("Checker", CLAIM), (PROMPT[0], "TERMINATE"))
        assert [each.step for each in found(made)] == [1]

    PAGE = (
        "Address: https://ports.test/Brest\nTitle: Brest\nViewport position: Showing page 1 of 9.\n"
        "=======================\nBrest is a port of Brittany, founded in 1631."
    )

    def test_a_page_is_something_shown(self, tmp_path: Path) -> None:
        made = chat(tmp_path, PROMPT, ("Surfer", self.PAGE), ("Checker", CLAIM))
        assert first_observation(Reading(made)) == 2
        assert not found(made)

    def test_a_terminal_that_found_no_code_showed_nothing(self, tmp_path: Path) -> None:
        coded = ("Checker", "I will look it up.\n```\nports\n```")
        idle = "There is no code from the last 1 message for me to execute."
        made = chat(tmp_path, PROMPT, coded, ("Computer_terminal", idle), ("Checker", CLAIM))
        assert first_observation(Reading(made)) is None
        assert [each.step for each in found(made)] == [3]

    def test_a_page_shown_three_times_is_a_loop(self, tmp_path: Path) -> None:
        surf, think = ("Surfer", self.PAGE), ("Checker", "I look at it again, and " * 5)
        made = chat(tmp_path, PROMPT, surf, think, surf, ("Checker", "It says 1631. " * 8), surf)
        (finding,) = found(made, FailureClass.LOOP)
        assert (finding.step, finding.why.split(":")[0]) == (3, "repeats the same message 3×")

    def test_twice_is_a_second_look(self, tmp_path: Path) -> None:
        surf, think = ("Surfer", self.PAGE), ("Checker", "I look at it again, and " * 5)
        assert not found(chat(tmp_path, PROMPT, surf, think, surf), FailureClass.LOOP)
