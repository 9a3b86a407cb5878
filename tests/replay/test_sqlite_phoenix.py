"""Phoenix's database read as traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.messages import observed
from replay.steps import build
from replay.trace import Level, SourceScore
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.sqlite_case import (
    OLDER_PHOENIX,
    PHOENIX,
    PROJECT,
    Entry,
    Value,
    made,
    read,
    span,
    trace,
)

ASKED: Value = {
    "input_messages": [
        {"message": {"role": "system", "content": "Be brief."}},
        {"message": {"role": "user", "content": "Where is order 7?"}},
    ],
    "output_messages": [
        {
            "message": {
                "role": "assistant",
                "tool_calls": [
                    {
                        "tool_call": {
                            "id": "a",
                            "function": {"name": "get", "arguments": '{"id": 7}'},
                        }
                    }
                ],
            }
        }
    ],
    "tools": [{"tool": {"json_schema": '{"name": "get"}'}}],
    "model_name": "m-1",
    "token_count": {"prompt": 100, "completion": 20, "prompt_details": {"cache_read": 90}},
}
RAN: Value = {
    "tool": {"name": "get", "id": "a", "parameters": {"id": 7}},
    "output": {"value": "shipped"},
}
ROWS = [
    PROJECT,
    ("project_sessions", {"id": 3, "session_id": "s-1"}),
    trace(1, "t1", session=3),
    span("run", "TOOL", "agent", 3, attributes=RAN, status_code="ERROR", status_message="late"),
    span("ask", "LLM", "agent", 1, attributes={"llm": ASKED}),
    span("agent", "AGENT", None, 0, attributes={"agent": {"name": "support"}}),
]


def of(path: Path, *more: Entry, schema: str = PHOENIX) -> Any:
    batches, tally = read(made(path, schema, [*ROWS, *more]))
    return batches[0], tally


def test_a_trace_is_its_spans_with_their_nested_attributes(tmp_path: Path) -> None:
    batch, tally = of(tmp_path / "x.db")
    (ask,) = models(batch)
    assert seen(ask) == [("user", "Where is order 7?")]
    assert (ask.request.model, [tool.name for tool in ask.request.tools or ()]) == ("m-1", ["get"])
    assert ask.usage is not None
    assert (ask.usage.input_tokens, ask.usage.cache_read_tokens) == (100, 90)
    assert ask.fidelity.level is Level.EXACT
    assert (ask.place.span, ask.duration_ns) == ("ask", 10**9)
    (ran,) = tools(batch)
    assert (ran.asked_by, ran.arguments, ran.status, ran.error) == (
        "ask",
        {"id": 7},
        "error",
        "late",
    )
    assert ran.observation is not None
    assert observed(ran.observation).text == "shipped"
    assert [each.name for each in agents(batch)] == ["support"]
    steps, loose, plan = build(batch.spans)
    assert (len(steps), loose, plan.orphans) == (1, (), ())
    assert tally.counts["spans"] == 3
    assert tally.problems == []


def test_the_trace_has_the_id_of_its_export_its_session_and_its_project(tmp_path: Path) -> None:
    batch, _ = of(tmp_path / "x.db")
    header = batch.header
    assert (header.format, header.source_id) == ("openinference", "t1")
    assert header.labels == {"session": "s-1", "project": "shop"}
    assert (header.title, header.agent) == ("Where is order 7?", "support")


def test_what_was_said_of_spans_and_traces_becomes_scores(tmp_path: Path) -> None:
    batch, _ = of(
        tmp_path / "x.db",
        ("span_annotations", {"span_rowid": 2, "name": "correct", "label": "yes", "score": 1.0,
                              "explanation": "fine", "annotator_kind": "HUMAN"}),
        ("trace_annotations", {"trace_rowid": 1, "name": "good", "score": 0.5,
                               "annotator_kind": "LLM"}),
        ("trace_annotations", {"trace_rowid": 9, "name": "another's", "annotator_kind": "LLM"}),
    )  # fmt: skip
    assert batch.scores == (
        SourceScore(name="good", by="LLM", value=0.5),
        SourceScore(
            name="correct", by="HUMAN", span="ask", value=1.0, label="yes", explanation="fine"
        ),
    )


def test_costs_that_phoenix_computed_are_the_source_s_own_total(tmp_path: Path) -> None:
    costs = [
        ("span_costs", {"span_rowid": 2, "trace_rowid": 1, "total_cost": usd})
        for usd in (0.25, None, 0.5)
    ]
    batch, _ = of(tmp_path / "x.db", *costs)
    assert batch.header.reported_cost_usd == 0.75
    assert models(batch)[0].cost is None


def test_every_trace_has_its_own_spans_however_they_lie(tmp_path: Path) -> None:
    other = [
        trace(2, "t2"),
        span("b", "AGENT", None, 0, trace_rowid=2),
        span("late", "CHAIN", "agent", 9),
        span("lost", "LLM", None, 0, trace_rowid=7),
    ]
    batches, tally = read(made(tmp_path / "x.db", PHOENIX, [*ROWS, *other]))
    assert [(b.header.source_id, len(b.spans)) for b in batches] == [("t1", 4), ("t2", 1)]
    assert [problem.where for problem in tally.problems] == ["trace 7"]


@pytest.mark.parametrize(
    "attributes", ["{broken", "[1, 2]", "null", '"x"', 7, b"\xff\x00", '{"llm": [[[]]]}']
)
@pytest.mark.slow
def test_attributes_of_no_known_form_leave_a_span_without_them(
    attributes: Any, tmp_path: Path
) -> None:
    row = span("odd", "LLM", "agent", 5, attributes=attributes)
    batch, tally = of(tmp_path / "x.db", row, schema=OLDER_PHOENIX)
    odd = models(batch)[1]
    assert (odd.id, odd.request.context, odd.fidelity.level) == ("odd", None, Level.NONE)
    assert len(tally.problems) == (attributes == "{broken")


def test_rows_of_no_known_type_are_left_out_or_read_without_them(tmp_path: Path) -> None:
    rows = [
        span("odd", "LLM", "odd", 5, start_time=7, end_time="soon", events=7),
        span("b'", "TOOL", "nobody", 6, trace_rowid="one"),
    ]
    batch, tally = of(tmp_path / "x.db", *rows)
    (odd,) = (call for call in models(batch) if call.id == "odd")
    assert (odd.start_ns, odd.end_ns, odd.time_quality) == (None, None, "none")
    assert [problem.where for problem in tally.problems] == ["trace one"]
