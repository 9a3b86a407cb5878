"""ToolBench answers: the way through the tree, cut messages marked, endings in their own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, sniff, toolbench
from replay.formats.common import literal
from replay.formats.source import Source, Tally
from replay.formats.toolbench import MORE, Reply, mended, read_reply
from replay.messages import observed, text
from replay.trace import Batch, Level, OtherSpan
from tests.replay.kinds import models, tools
from tests.shared import DATA, needs_shared

Value = dict[str, Any]


def turn(role: str, message: str, *after: Value) -> Value:
    return {"role": role, "message": message, "next": list(after)}


def ran(name: str, arguments: str, response: str, *after: Value, width: int = 10_000) -> Value:
    message = repr({"name": name, "arguments": arguments, "response": response})
    return turn("tool", message[:width], *after)


def ends(kind: str, words: str = "") -> Value:
    return ran("Finish", json.dumps({"return_type": kind, "final_answer": words}), "")


def answered(tmp_path: Path, *details: Value, final: str = "", **more: Any) -> tuple[Batch, Tally]:
    run = {
        "query": "Which quizzes are there?",
        "available_tools": [{"name": "quizzes", "parameters": {"type": "object"}}],
        "answer": {"method": "m", "total_steps": 3, "final_answer": final,
                   "answer_details": [turn("system", "", turn("user", "Which", *details))]},
    }  # fmt: skip
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"17": {**run, **more}}))
    tally = Tally()
    source = Source(path)
    assert sniff(source) is toolbench
    (batch,) = load(source, tally)
    return batch, tally


def branches(batch: Batch) -> list[OtherSpan]:
    return [span for span in batch.spans if isinstance(span, OtherSpan)]


def test_a_tool_turn_is_a_model_call_its_tool_call_and_what_came_back(tmp_path: Path) -> None:
    batch, _ = answered(
        tmp_path,
        turn(
            "assistant", "I look.", ran("quizzes", '{"n": 1}', "[]", ends("give_answer", "None."))
        ),
    )
    look, end = tools(batch)
    assert (look.name, look.arguments) == ("quizzes", {"n": 1})
    assert look.observation is not None
    assert observed(look.observation).text == "[]"
    assert end.arguments == {"return_type": "give_answer", "final_answer": "None."}
    first, second = models(batch)
    assert first.response.message is not None
    assert text(first.response.message) == "I look."
    assert [look.asked_by, end.asked_by] == [first.id, second.id]
    assert second.request.context is not None
    assert [m.role for m in second.request.context.messages()] == ["user", "assistant", "tool"]
    assert [tool.name for tool in first.request.tools or ()] == ["quizzes"]
    assert batch.header.item == "17"


def test_a_thought_that_nothing_follows_is_an_answer(tmp_path: Path) -> None:
    batch, _ = answered(tmp_path, ran("quizzes", "{}", "[]", turn("assistant", "None, then.")))
    last = models(batch)[-1]
    assert last.response.message is not None
    assert text(last.response.message) == "None, then."
    assert batch.header.outcome.value is None


@pytest.mark.parametrize(
    ("kind", "status"), [("give_answer", "unknown"), ("give_up_and_restart", "failed")]
)
def test_the_run_s_own_word_is_how_it_ended(kind: str, status: str, tmp_path: Path) -> None:
    outcome = answered(tmp_path, ends(kind))[0].header.outcome
    assert (outcome.status, outcome.value, outcome.by) == (status, kind, "Finish")


def test_branches_the_search_left_stand_beside_the_path_to_the_answer(tmp_path: Path) -> None:
    batch, _ = answered(
        tmp_path,
        ran("a", "{}", "no", ran("b", "{}", "no", ends("give_up_and_restart"))),
        ran("c", "{}", "yes", ends("give_answer", "Yes."), ran("d", "{}", "late")),
    )
    assert [call.name for call in tools(batch)] == ["c", "Finish"]
    left, late = branches(batch)
    assert (left.operation, left.name, left.extra["after"]) == ("alternative", "a", 1)
    assert [each["place"] for each in left.extra["turns"]] == [2, 3, 4]
    assert (late.name, late.extra["after"]) == ("d", 5)
    assert batch.header.outcome.value == "give_answer"


def test_of_several_answers_the_final_one_is_the_run_s(tmp_path: Path) -> None:
    final = json.dumps({"return_type": "give_answer", "final_answer": "first"})
    batch, _ = answered(
        tmp_path,
        ran("a", "{}", "", ends("give_answer", "first")),
        ran("b", "{}", "", ends("give_answer", "second")),
        final=final,
    )
    assert tools(batch)[0].name == "a"


def test_what_the_source_cut_is_marked_and_no_request_of_it_counts_as_known(
    tmp_path: Path,
) -> None:
    batch, _ = answered(
        tmp_path,
        ran("quizzes", '{"n": 1}', "x" * 200, ran("quizzes", "{}", "[]"), width=100),
    )
    first, second = models(batch)
    seen = tools(batch)[0].observation
    assert seen is not None
    assert observed(seen).text.endswith("x" + MORE)
    assert first.fidelity.level is Level.PARTIAL
    assert second.fidelity.level is Level.NONE


def test_cut_arguments_are_what_is_there_of_them_and_say_so(tmp_path: Path) -> None:
    given = json.dumps({"to": "BRL", "words": "y" * 200})
    (call,) = tools(answered(tmp_path, ran("convert", given, "", width=100))[0])
    assert call.extra == {"cut": "arguments"}
    assert call.observation is None
    assert call.arguments is not None
    assert call.arguments["to"] == "BRL"
    assert call.arguments["words"].endswith("y" + MORE)


def test_a_cut_finish_is_made_whole_from_the_final_answer(tmp_path: Path) -> None:
    final = json.dumps({"return_type": "give_answer", "final_answer": "z" * 200})
    batch, _ = answered(tmp_path, ran("Finish", final, "", width=100), final=final)
    (end,) = tools(batch)
    assert end.arguments == json.loads(final)
    assert end.extra == {}
    assert batch.header.outcome.value == "give_answer"


def test_the_query_stands_whole_where_the_turn_s_was_cut(tmp_path: Path) -> None:
    (only,) = models(answered(tmp_path, ends("give_answer"))[0])
    assert only.request.context is not None
    assert text(only.request.context.message) == "Which quizzes are there?"


@given(
    name=st.text("ab_", min_size=1, max_size=5),
    arguments=st.text(max_size=40),
    response=st.text(max_size=40),
    width=st.integers(0, 200),
)
def test_a_message_cut_anywhere_gives_beginnings_of_what_it_held(
    name: str, arguments: str, response: str, width: int
) -> None:
    whole = repr({"name": name, "arguments": arguments, "response": response})
    found = read_reply(whole[:width])
    if width >= len(whole):
        assert found == Reply(name=name, arguments=arguments, response=response)
    elif found is not None:
        assert found.name == name
        assert found.cut is not None
        assert arguments.startswith(found.arguments or "")
        assert found.arguments == arguments or found.cut == "arguments"
        assert response.startswith(found.response or "")


@given(
    value=st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.text("xy, }{", max_size=8) | st.integers() | st.lists(st.integers(), max_size=2),
        max_size=4,
    ),
    width=st.integers(0, 80),
)
def test_mended_arguments_hold_nothing_that_was_not_there(value: Value, width: int) -> None:
    for name, found in mended(json.dumps(value)[:width]).items():
        if isinstance(found, str) and found.endswith(MORE):
            assert value[name].startswith(found.removesuffix(MORE))
        elif isinstance(found, list):
            assert value[name][: len(found)] == found
        else:
            assert value[name] == found


@given(value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
))  # fmt: skip
def test_python_data_written_as_text_is_read_back(value: Any) -> None:
    assert literal(repr(value)) == value


@pytest.mark.parametrize("text", ["[" * 100_000, "__import__('os')", "{1: 2}", "'\\q", "b'x'", "("])
def test_text_that_is_no_plain_data_is_none(text: str) -> None:
    assert literal(text) is None


def test_a_tool_turn_that_cannot_be_read_is_told_and_heard(tmp_path: Path) -> None:
    batch, tally = answered(tmp_path, turn("tool", "garbled", ends("give_answer")))
    assert [problem.why for problem in tally.problems] == ["is not a readable call"]
    assert [call.name for call in tools(batch)] == ["Finish"]


ODD = st.recursive(
    st.none() | st.integers(-2, 2) | st.sampled_from(["x", "tool", "{'name': 'a'", "assistant"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "message", "next"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(details=ODD, tools=ODD)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_tree_gives_a_trace(details: Any, tools: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    run = {"query": "q", "available_tools": tools, "answer": {"answer_details": details}}
    path.write_text(json.dumps({"1": run, "2": details}))
    (batch,) = load(Source(path), Tally(), format=toolbench)
    assert batch.header.item == "1"


@pytest.mark.parametrize("document", [[], {}, {"1": {"query": "q"}}, 7])
def test_a_document_without_answers_is_refused(document: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    with pytest.raises(BadTrace, match="no `answer`"):
        list(load(Source(path), Tally(), format=toolbench))


# --- real files


@pytest.mark.data
@needs_shared
def test_every_label_of_the_answers_names_a_run_that_ended_as_it_says() -> None:
    found: dict[str, Batch] = {}
    for path in sorted((DATA / "toolbench").glob("*.json")):
        for batch in load(Source(path), Tally()):
            found[f"toolbench/{path.name}#{batch.header.item}"] = batch
    assert len(found) == 300
    for line in (DATA / "labels" / "toolbench_cot.jsonl").read_text().splitlines():
        label = json.loads(line)
        ended = found[label["trace"]].header.outcome.value
        assert (ended or "no Finish (6-step cap)") == label["note"]


@pytest.mark.data
@needs_shared
def test_every_turn_of_the_real_answers_is_told() -> None:
    for path in sorted((DATA / "toolbench").glob("*.json")):
        tally = Tally()
        batches = list(load(Source(path), tally))
        runs = json.loads(path.read_text())
        assert tally.problems == []
        assert tally.counts["total_steps"] == sum(r["answer"]["total_steps"] for r in runs.values())
        assert sum(len(tools(batch)) for batch in batches) == tally.counts["tool_messages"]
