"""MLflow's tracking database read as traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import load, sqlite
from replay.formats.mlflow import raw
from replay.formats.source import Source, Tally
from replay.messages import calls, text
from replay.messages import observed as observed_text
from replay.steps import build
from replay.trace import Batch, Cost, Level, ModelCall, OtherSpan, SourceScore, Usage
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.sqlite_case import MLFLOW, Entry, Value, hexed, made, observed, read, tracked

EXPERIMENT: Entry = ("experiments", {"experiment_id": 1, "name": "shop"})
TOOL = {"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}
USER = {"role": "user", "content": "Where is order 7?"}
SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"id": "a", "type": "function", "function": {"name": "get_order", "arguments": '{"id": 7}'}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "a", "content": "shipped"}


def completed(message: Value, why: str) -> Value:
    choice = {"finish_reason": why, "message": message}
    return {"id": "c-1", "model": "gpt-4o-2024", "choices": [choice]}


FIRST = observed(
    "ask", "CHAT_MODEL", "agent", 1,
    {"model": "gpt-4o", "messages": [SYSTEM, USER], "temperature": 0.5, "stream": False},
    completed(ASKS, "tool_calls"),
    **{"mlflow.chat.tools": [TOOL], "mlflow.llm.cost": {"total_cost": 0.25},
       "mlflow.chat.tokenUsage": {"input_tokens": 100, "output_tokens": 20,
                                  "cache_read_input_tokens": 90}},
)  # fmt: skip
ROWS = [
    EXPERIMENT,
    tracked(session_id="s-1", trace_name="shop", total_cost=0.5),
    FIRST,
    observed("agent", "AGENT", None, 0, {"q": "Where is order 7?"}, "It shipped."),
    observed("get_order", "TOOL", "agent", 2, {"id": 7}, {"status": "shipped"}),
    observed(
        "say", "CHAT_MODEL", "agent", 3,
        {"model": "gpt-4o", "messages": [SYSTEM, USER, ASKS, TOLD]},
        completed({"role": "assistant", "content": "It shipped."}, "stop"),
    ),
]  # fmt: skip


def of(path: Path, *rows: Entry) -> Batch:
    (batch,), tally = read(made(path, MLFLOW, rows))
    assert tally.problems == []
    return batch


def call(path: Path, inputs: Any, outputs: Any, **more: Any) -> ModelCall:
    (found,) = models(of(path, tracked(), observed("ask", "LLM", None, 1, inputs, outputs, **more)))
    return found


def test_a_trace_is_its_spans_in_the_words_of_opentelemetry(tmp_path: Path) -> None:
    batch = of(tmp_path / "x.db", *ROWS)
    ask, say = models(batch)
    assert ask.request.system is not None
    assert text(ask.request.system) == "Be brief."
    assert seen(ask) == [("user", "Where is order 7?")]
    assert [role for role, _ in seen(say)] == ["user", "assistant", "tool"]
    assert (ask.request.model, ask.request.params) == ("gpt-4o", {"temperature": 0.5})
    assert [tool.name for tool in ask.request.tools or ()] == ["get_order"]
    assert (ask.response.id, ask.response.model, ask.response.stop) == (
        "c-1",
        "gpt-4o-2024",
        "tool",
    )
    assert ask.usage == Usage(input_tokens=100, output_tokens=20, cache_read_tokens=90)
    assert ask.cost == Cost(usd=0.25, source="recorded")
    assert {each.fidelity.level for each in models(batch)} == {Level.EXACT}
    assert (ask.place.span, ask.duration_ns) == (hexed("ask"), 10**9)
    (ran,) = tools(batch)
    assert (ran.asked_by, ran.arguments) == (hexed("ask"), {"id": 7})
    assert ran.observation is not None
    assert observed_text(ran.observation).text == "shipped"
    assert [each.name for each in agents(batch)] == ["agent"]
    steps, loose, plan = build(batch.spans)
    assert (len(steps), loose, plan.orphans) == (2, (), ())


def test_the_trace_has_mlflow_s_id_and_what_tells_runs_apart(tmp_path: Path) -> None:
    tags: list[Entry] = [
        ("trace_tags", {"key": "env", "value": "test", "request_id": "tr-1"}),
        ("trace_tags", {"key": "mlflow.note", "value": "x", "request_id": "tr-1"}),
        ("trace_request_metadata", {"key": "mlflow.sourceRun", "value": "r", "request_id": "tr-1"}),
    ]
    header = of(tmp_path / "x.db", *ROWS, *tags).header
    assert (header.format, header.source_id, header.agent) == ("mlflow", "tr-1", "agent")
    assert header.title == "Where is order 7?"
    assert header.labels == {"env": "test", "session": "s-1", "experiment": "shop", "run": "r"}
    assert header.reported_cost_usd == 0.5


def assessment(name: str, value: str, **more: Any) -> Entry:
    row = {"assessment_id": name, "trace_id": "tr-1", "name": name, "value": value}
    about = {"assessment_type": "feedback", "source_type": "HUMAN", "valid": 1}
    return "assessments", row | about | more


def test_assessments_are_scores_and_expectations_are_the_reference(tmp_path: Path) -> None:
    batch = of(
        tmp_path / "x.db",
        *ROWS,
        assessment("correct", "true", rationale="fine"),
        assessment("tone", '"kind"', span_id=hexed("ask"), source_type="LLM_JUDGE"),
        assessment("share", "0.25", source_type="CODE"),
        assessment("withdrawn", "true", valid=0),
        assessment("expected", '"It shipped."', assessment_type="expectation"),
    )
    assert {score.name: score for score in batch.scores} == {
        "correct": SourceScore(
            name="correct", by="HUMAN", value=1.0, label="true", explanation="fine"
        ),
        "tone": SourceScore(name="tone", by="LLM_JUDGE", span=hexed("ask"), label="kind"),
        "share": SourceScore(name="share", by="CODE", value=0.25),
    }
    assert batch.header.reference == {"expectations": {"expected": "It shipped."}}


def test_spans_that_are_kept_elsewhere_are_told_and_not_looked_for(tmp_path: Path) -> None:
    where = {"key": "mlflow.artifactLocation", "value": "file:///etc", "request_id": "tr-2"}
    rows = [*ROWS, tracked("tr-2", 9), ("trace_tags", where)]
    batches, tally = read(made(tmp_path / "x.db", MLFLOW, rows))
    assert [batch.header.source_id for batch in batches] == ["tr-1"]
    assert [(problem.where, problem.why) for problem in tally.problems] == [
        ("trace tr-2", "its spans are not in the database but at file:///etc")
    ]


def test_the_messages_of_anthropic_are_read_as_they_were_sent(tmp_path: Path) -> None:
    inputs = {
        "model": "claude-sonnet-4-5", "max_tokens": 9, "system": "Be brief.", "messages": [USER],
        "tools": [{"name": "get_order", "input_schema": {"type": "object"}}],
    }  # fmt: skip
    use = {"type": "tool_use", "id": "a", "name": "get_order", "input": {"id": 7}}
    outputs = {"id": "m", "role": "assistant", "content": [use], "stop_reason": "tool_use"}
    ask = call(tmp_path / "x.db", inputs, outputs)
    assert ask.request.system is not None
    assert text(ask.request.system) == "Be brief."
    assert ask.request.params == {"max_tokens": 9}
    assert [tool.schema for tool in ask.request.tools or ()] == [{"type": "object"}]
    assert ask.response.message is not None
    assert [each.arguments for each in calls(ask.response.message)] == [{"id": 7}]
    assert (ask.response.stop, ask.fidelity.level) == ("tool", Level.EXACT)


def test_openai_s_responses_are_messages_and_calls(tmp_path: Path) -> None:
    items = [
        USER,
        {"type": "function_call", "call_id": "a", "name": "get_order", "arguments": '{"id": 7}'},
        {"type": "function_call_output", "call_id": "a", "output": "shipped"},
    ]
    said = {"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "It shipped."}]}  # fmt: skip
    inputs = {"model": "gpt-5", "instructions": "Be brief.", "input": items}
    ask = call(tmp_path / "x.db", inputs, {"model": "gpt-5", "output": [said]})
    assert [role for role, _ in seen(ask)] == ["user", "assistant", "tool"]
    assert ask.request.system is not None
    assert ask.response.message is not None
    assert text(ask.response.message) == "It shipped."


def test_langchain_s_messages_have_their_own_words_for_roles(tmp_path: Path) -> None:
    inputs = [[{"type": "system", "content": "Be brief."}, {"type": "human", "content": "Hi"}]]
    said = {"type": "ai", "content": "", "tool_calls": [{"name": "get", "args": {}, "id": "a"}]}
    ask = call(tmp_path / "x.db", inputs, {"generations": [[{"message": said}]]})
    assert seen(ask) == [("user", "Hi")]
    assert ask.request.tools is None
    assert ask.response.message is not None
    assert [each.name for each in calls(ask.response.message)] == ["get"]


@pytest.mark.parametrize(
    ("inputs", "outputs"), [("Hi", "Ho"), ({"prompt": "Hi"}, {"choices": [{"text": "Ho"}]})]
)
def test_a_text_is_what_a_user_said(inputs: Any, outputs: Any, tmp_path: Path) -> None:
    ask = call(tmp_path / "x.db", inputs, outputs)
    assert seen(ask) == [("user", "Hi")]
    assert ask.response.message is not None
    assert text(ask.response.message) == "Ho"


@pytest.mark.parametrize("odd", [None, 7, [], {}, [[]], {"messages": [7, {"role": {}}]}, [{}]])
@pytest.mark.slow
def test_inputs_and_outputs_of_no_known_form_are_no_messages(odd: Any, tmp_path: Path) -> None:
    ask = call(tmp_path / "x.db", odd, odd)
    assert ask.request.context is None
    assert ask.fidelity.level is Level.NONE


def test_spans_of_other_kinds_keep_mlflow_s_word_for_them(tmp_path: Path) -> None:
    other = observed("chain", "CHAIN", "agent", 1, {"x": 1}, {"y": 2})
    batch = of(tmp_path / "x.db", *ROWS, other)
    (chain,) = (each for each in batch.spans if isinstance(each, OtherSpan))
    assert (chain.operation, chain.extra["input"], chain.extra["output"]) == (
        "chain",
        {"x": 1},
        {"y": 2},
    )


def test_spans_of_mlflow_2_had_other_names_for_their_fields() -> None:
    made_ = raw(
        {
            "name": "ask",
            "context": {"span_id": "0x00000000000000aa", "trace_id": "0x1"},
            "parent_id": None,
            "start_time": 1,
            "end_time": 2,
            "status_code": "ERROR",
            "status_message": "late",
            "attributes": {"mlflow.spanType": '"LLM"', "broken": "{"},
            "events": [],
        },
        "t",
    )
    assert made_ is not None
    assert (made_.id, made_.status, made_.message) == ("00000000000000aa", "error", "late")
    assert (made_.start_ns, made_.end_ns) == (1, 2)
    assert made_.attributes["broken"] == "{"


def test_a_database_whose_spans_are_all_elsewhere_says_so(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", MLFLOW, [tracked()])
    tally = Tally()
    with pytest.raises(BadTrace, match="contains no run with a model call"):
        list(load(Source(path), tally, format=sqlite))
    assert "not in the database but at its artifacts" in tally.problems[0].why
