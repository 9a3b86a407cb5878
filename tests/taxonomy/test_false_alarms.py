"""What reading real findings showed to be no failure: each with the near case that is one."""

from __future__ import annotations

import pytest
from msgspec import structs

from replay import steps
from replay.trace import ToolCall, Trace
from taxonomy.classes import FailureClass
from tests.build import Part, call, error, step, trace
from tests.taxonomy.rule_case import findings

HALLUCINATED, BAD_ARGS, GAVE_UP = (
    FailureClass.HALLUCINATED_STATE, FailureClass.BAD_ARGS, FailureClass.GAVE_UP,
)  # fmt: skip


def classes(made: Trace) -> set[FailureClass]:
    return {finding.failure for finding in findings(made) if not finding.is_hint}


class TestValues:
    WRONG = step(call("pay", error("Error: payment method not found"), payment_id="card_7334"))
    RIGHT = step(call("pay", "paid", payment_id="card_9079"))
    TASK = "Pay with card_9079."

    def test_a_value_that_was_refused_and_put_right(self) -> None:
        assert HALLUCINATED not in classes(trace([self.WRONG, self.RIGHT, "Done."], task=self.TASK))

    def test_one_that_was_refused_and_never_put_right(self) -> None:
        assert HALLUCINATED in classes(trace([self.WRONG, "I see."], task=self.TASK))

    def test_search_words_in_a_list_are_the_run_s_own(self) -> None:
        search = step(call("search", "shellite", query_list=["picric acid", "CH2NO2H"]))
        assert HALLUCINATED not in classes(trace([search, "It is shellite."]))
        look = step(call("get_order", error("not found"), order_list=["W2378156"]))
        assert HALLUCINATED in classes(trace([look, "It is lost."]))


class TestFiles:
    @staticmethod
    def look(path: str) -> Part:
        return step(call("read", error(f"ENOENT: no such file, '{path}'"), file_path=path))

    def test_a_look_into_a_folder_that_was_shown(self) -> None:
        made = trace(["I see.", self.look("/srv/app/NOTES.md"), "None."], task="Work in /srv/app.")
        assert HALLUCINATED not in classes(made)

    def test_a_look_into_another(self) -> None:
        made = trace(["I see.", self.look("/srv/shop/NOTES.md"), "None."], task="Work in /srv/app.")
        assert HALLUCINATED in classes(made)

    def test_the_first_look_where_the_system_prompt_was_not_recorded(self) -> None:
        parts: list[Part] = [self.look("/srv/shop/NOTES.md"), "None."]
        assert HALLUCINATED not in classes(trace(parts))
        assert HALLUCINATED in classes(trace(parts, system="You are careful."))


class TestArguments:
    REFUSED = step(
        call("Edit", error("<tool_use_error>String to replace not found"), file_path="/app/run.sh")
    )

    def test_a_file_that_another_tool_then_changes(self) -> None:
        other = step(call("Bash", "", command="sed -i 's/\\r$//' /app/run.sh"))
        assert BAD_ARGS not in classes(trace([self.REFUSED, other, "It is changed."]))

    @pytest.mark.parametrize("command", ["cat /app/other.sh", "echo done"])
    def test_a_file_that_nothing_changes(self, command: str) -> None:
        other = step(call("Bash", "x", command=command))
        assert BAD_ARGS in classes(trace([self.REFUSED, other, "It is changed."]))

    @pytest.mark.parametrize(("raw", "bad"), [("redacted input", False), ('{"id": 7', True)])
    def test_what_the_source_masks_says_nothing(self, raw: str, bad: bool) -> None:
        made = trace([step(call("look", "redacted output"))] * 3 + ["Done."])
        spans = tuple(
            structs.replace(span, arguments=None, arguments_raw=raw)
            if isinstance(span, ToolCall)
            else span
            for span in made.spans
        )
        built, _, _ = steps.build(spans)
        found = classes(structs.replace(made, spans=spans, steps=built))
        assert bool(found & {BAD_ARGS, FailureClass.OTHER}) is bad


class TestEndings:
    WORK = step(call("get_weather", "sunny", city="Brest"))

    def test_an_offer_of_more_after_the_answer(self) -> None:
        end = "It is sunny in Brest today. Would you like an hourly forecast as well?"
        assert GAVE_UP not in classes(trace([self.WORK, end]))

    def test_the_same_words_where_nothing_worked(self) -> None:
        end = "The service does not answer me. Would you like me to try another one?"
        failed = step(call("get_weather", error("Error: no answer"), city="Brest"))
        assert GAVE_UP in classes(trace([failed, end]))
