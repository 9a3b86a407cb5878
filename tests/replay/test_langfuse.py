"""Langfuse's traces, observations and tables.

The small trace here is written after the service's API; real ones of twenty frameworks are read
where the shared folder is.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import langfuse, load, sniff
from replay.formats.genai.usage import service_counts
from replay.formats.source import Source, Tally
from replay.messages import observed, text
from replay.trace import NO_TOOLS, Batch, Cost, Level, Usage
from tests.replay.foreign_case import SOME, mutated
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.service_case import (
    ASKS,
    SAYS,
    SYSTEM,
    TOLD,
    TOOL,
    USER,
    Value,
    at,
    read,
    survives,
    survives_cut,
    written,
)
from tests.shared import DATA, needs_shared


def observation(
    name: str, kind: str, start: int, parent: str | None = "root", **more: Any
) -> Value:
    return {
        "id": name, "traceId": "t-1", "type": kind, "name": name, "startTime": at(start),
        "endTime": at(start + 1), "parentObservationId": parent, "level": "DEFAULT",
        "input": None, "output": None, "metadata": None, "usageDetails": {}, "costDetails": {},
        **more,
    }  # fmt: skip


ROOT = observation("root", "AGENT", 0, None, endTime=at(9))
ASK = observation(
    "ask", "GENERATION", 1, model="claude-sonnet-4-5", modelParameters={"temperature": 0},
    input=[SYSTEM, USER], output=ASKS, promptName="support", promptVersion=3,
    usageDetails={"input": 300, "input_cached_tokens": 1000, "input_cache_creation": 200,
                  "output": 50, "total": 1550},
    costDetails={"input": 0.001, "total": 0.0027},
)  # fmt: skip
RUN = observation("get_order", "TOOL", 2, input='{"id": 7}', output={"error": "db"},
                  level="ERROR", statusMessage="db timeout")  # fmt: skip
SAY = observation("say", "GENERATION", 4, input=[SYSTEM, USER, ASKS, TOLD], output=SAYS,
                  model="claude-sonnet-4-5", toolDefinitions={"get_order": "{}"})  # fmt: skip
SCORE = {"id": "s-1", "name": "quality", "value": 0.2, "source": "API", "dataType": "NUMERIC",
         "observationId": "ask", "comment": "wrong tool"}  # fmt: skip
KIND = {"id": "s-2", "name": "kind", "value": 0, "stringValue": "late", "source": "ANNOTATION",
        "dataType": "CATEGORICAL", "observationId": None}  # fmt: skip
TRACE: Value = {
    "id": "t-1", "timestamp": at(0), "name": "support", "input": {"q": "Where is W123?"},
    "output": "It shipped.", "sessionId": "conv-1", "userId": "u1", "tags": ["a", "b"],
    "htmlPath": "/x", "totalCost": 0.006, "observations": [RUN, SAY, ASK, ROOT],
    "scores": [SCORE, KIND],
}  # fmt: skip


def one(path: Path, *values: Any) -> Batch:
    (batch,), tally = read(written(path, *values), langfuse)
    assert tally.problems == []
    return batch


def test_a_trace_is_its_observations_in_time_order(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.json", TRACE)
    ask, say = models(batch)
    assert [span.name for span in batch.spans] == ["root", "ask", "get_order", "say"]
    assert ask.request.system is not None
    assert text(ask.request.system) == "Be brief."
    assert [role for role, _ in seen(say)] == ["user", "assistant", "tool"]
    assert ask.request.params == {"temperature": 0}
    assert (ask.fidelity.level, ask.fidelity.reasons) == (Level.PARTIAL, (NO_TOOLS,))
    assert say.fidelity.level is Level.EXACT
    (root,) = agents(batch)
    assert (root.end_ns or 0) - (root.start_ns or 0) == 9 * 10**9
    assert ask.place.span == "ask"


def test_counts_of_the_cache_stand_beside_the_input_and_are_added(tmp_path: Path) -> None:
    ask, _ = models(one(tmp_path / "x.json", TRACE))
    assert ask.usage == Usage(
        input_tokens=1500, output_tokens=50, cache_read_tokens=1000, cache_write_tokens=200
    )
    assert ask.cost == Cost(usd=0.0027, source="recorded")


@pytest.mark.parametrize(
    ("details", "total_in", "total_out"),
    [
        ({"input": 6, "output": 2055, "total": 2061, "completion_details.reasoning": 9}, 6, 2055),
        ({"input": 9, "input_cache_read": 4, "output": 3, "total": 12}, 9, 3),
        ({"input": 179, "output": 35, "output_reasoning": 64, "total": 278}, 179, 99),
        ({"input": 5, "cache_read_input_tokens": 90, "output": 1}, 95, 1),
    ],
)
def test_the_total_tells_whether_parts_are_within_or_beside(
    details: Value, total_in: int, total_out: int
) -> None:
    found = service_counts({"usageDetails": details})
    assert found["gen_ai.usage.input_tokens"] == total_in
    assert found["gen_ai.usage.output_tokens"] == total_out


def test_a_tool_without_an_id_is_known_by_its_name_and_arguments(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.json", TRACE)
    (run,) = tools(batch)
    assert (run.call_id, run.asked_by, run.arguments) == ("call_1", "ask", {"id": 7})
    assert (run.status, run.error) == ("error", "db timeout")
    assert run.observation is not None
    assert observed(run.observation).text == "shipped"  # what the model was told


def test_a_plain_span_that_bears_the_name_of_a_called_tool_is_that_tool(tmp_path: Path) -> None:
    trace = {**TRACE, "observations": [ROOT, ASK, {**RUN, "type": "SPAN"}]}
    (run,) = tools(one(tmp_path / "x.json", trace))
    assert (run.call_id, run.asked_by) == ("call_1", "ask")


def test_scores_keep_their_source_and_place_and_categories_are_labels(tmp_path: Path) -> None:
    on, whole = one(tmp_path / "x.json", TRACE).scores
    assert (on.by, on.span, on.value, on.explanation) == ("API", "ask", 0.2, "wrong tool")
    assert (whole.by, whole.span, whole.value, whole.label) == ("ANNOTATION", None, None, "late")


OUTCOME = {**KIND, "id": "s-3", "name": "Outcome", "stringValue": "passed"}
YES = {**SCORE, "id": "s-4", "name": "success", "value": 1, "stringValue": "True",
       "dataType": "BOOLEAN", "observationId": None}  # fmt: skip


@pytest.mark.parametrize(
    ("scores", "status", "by"),
    [
        ([SCORE, KIND], "unknown", None),
        ([OUTCOME], "passed", "Outcome"),
        ([OUTCOME, {**YES, "value": 0}], "failed", "success"),
        ([YES], "passed", "success"),
        ([{**YES, "name": "failed"}], "failed", "failed"),
        ([{**YES, "observationId": "ask"}], "unknown", None),
        ([{**YES, "observationId": "t-t-1"}], "passed", "success"),
        ([{**YES, "dataType": "NUMERIC", "stringValue": None}], "unknown", None),
        ([{**YES, "value": 0.5}], "unknown", None),
        ([{**OUTCOME, "name": "tone"}], "unknown", None),
        ([{**OUTCOME, "stringValue": "so so"}], "unknown", None),
    ],
)
def test_a_score_that_is_named_for_how_a_run_ended_is_its_outcome(
    tmp_path: Path, scores: list[Value], status: str, by: str | None
) -> None:
    found = one(tmp_path / "x.json", {**TRACE, "scores": scores}).header.outcome
    assert (found.status, found.by) == (status, by)


def test_attributes_under_names_with_dots_are_those_in_an_object(tmp_path: Path) -> None:
    given = {"gen_ai.response.id": "r-1", "gen_ai.request.model": "m"}
    nested = {"attributes": given, "scope": {"name": "s"}, "mine": 1}
    flat = {**{f"attributes.{name}": value for name, value in given.items()},
            "scope.name": "s", "mine": 1}  # fmt: skip
    first, second = (
        one(tmp_path / f"{name}.json", {**TRACE, "observations": [ROOT, {**ASK, "metadata": each}]})
        for name, each in (("nested", nested), ("flat", flat))
    )
    assert models(first)[0].response.id == "r-1"
    assert repr(first.spans) == repr(second.spans)


def test_spans_that_began_together_stand_in_one_order_whatever_that_of_the_file(
    tmp_path: Path,
) -> None:
    together = [{**each, "startTime": at(0), "endTime": at(9)} for each in (ROOT, ASK, RUN, SAY)]
    names = [
        [span.name for span in one(tmp_path / "x.json", {**TRACE, "observations": each}).spans]
        for each in (together, together[::-1])
    ]
    assert names[0] == names[1]
    assert names[0][0] == "root"


def test_the_header_says_what_the_trace_says(tmp_path: Path) -> None:
    header = one(tmp_path / "x.json", TRACE).header
    assert (header.source_id, header.title, header.agent) == ("t-1", "Where is W123?", "root")
    assert (header.variant, header.reported_cost_usd) == ("support 3", 0.006)
    assert header.labels == {"session": "conv-1", "user": "u1", "tags": "a, b"}


def test_a_download_has_each_observation_with_its_texts_and_without(tmp_path: Path) -> None:
    hollow = [{**each, "input": None, "output": None, "metadata": "{}"} for each in (ASK, RUN)]
    texts = [{**each, "input": json.dumps(each["input"]), "output": json.dumps(each["output"])}
             for each in (ASK, RUN)]  # fmt: skip
    about = {**TRACE, "projectId": "p", "observations": hollow, "input": json.dumps('"hi"')}
    batch = one(tmp_path / "x.json", {"trace": about, "observations": texts})
    (ask,) = models(batch)
    assert seen(ask) == [("user", "Where is W123?")]
    assert len(tools(batch)) == 1


def test_attributes_of_the_metadata_are_read_as_those_of_a_span(tmp_path: Path) -> None:
    told = {"gen_ai.response.id": "r-1", "gen_ai.response.finish_reasons": '["tool_calls"]',
            "gen_ai.tool.definitions": json.dumps([TOOL])}  # fmt: skip
    metadata = json.dumps({"attributes": told, "scope": {"name": "x"}})
    ask = {**ASK, "metadata": metadata}
    (call,) = models(one(tmp_path / "x.json", {**TRACE, "observations": [ask]}))
    assert (call.response.id, call.response.stop) == ("r-1", "tool")
    assert call.fidelity.level is Level.EXACT


def test_a_plain_span_that_runs_an_agent_is_a_thread_of_its_own(tmp_path: Path) -> None:
    metadata = {"attributes": {"agent_name": "critic"}}
    critic = observation("critic run", "SPAN", 3, metadata=metadata, endTime=at(6))
    say = {**SAY, "parentObservationId": "critic run"}
    batch = one(tmp_path / "x.json", {**TRACE, "observations": [ROOT, ASK, critic, say]})
    assert [agent.name for agent in agents(batch)] == ["root", "critic"]


def test_pages_of_observations_and_lines_of_them_are_gathered_by_trace(tmp_path: Path) -> None:
    other = {**SAY, "traceId": "t-2", "id": "other", "parentObservationId": None}
    page = {"data": [RUN, other, ASK], "meta": {"page": 1}}
    for values in ((page,), (RUN, other, ASK)):
        found, tally = read(written(tmp_path / "x.jsonl", *values), langfuse)
        assert [batch.header.source_id for batch in found] == ["t-1", "t-2"]
        assert tally.counts["observations"] == 3


def test_a_table_of_text_is_read_as_lines_are(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as opened:
        table = csv.DictWriter(opened, [*ROOT, "model", "sessionId"], extrasaction="ignore")
        table.writeheader()
        for each in (RUN, ASK, ROOT):
            cells = {n: v if isinstance(v, str) else json.dumps(v) for n, v in each.items() if v}
            table.writerow({**cells, "sessionId": "conv-1"})
    (batch,), _ = read(path, langfuse)
    (ask,) = models(batch)
    assert ask.usage is not None
    assert (ask.usage.input_tokens, ask.request.model) == (1500, "claude-sonnet-4-5")
    assert batch.header.labels == {"session": "conv-1"}
    assert [run.call_id for run in tools(batch)] == ["call_1"]


def test_a_table_of_traces_gives_what_a_trace_says_of_itself(tmp_path: Path) -> None:
    rows = [{**TRACE, "id": name, "bookmarked": False, "observations": ["ask"]} for name in "ab"]
    found, _ = read(written(tmp_path / "x.json", rows), langfuse)
    assert [batch.header.title for batch in found] == ["Where is W123?"] * 2
    assert [[span.name for span in batch.spans] for batch in found] == [["support"]] * 2


def test_a_json_that_holds_no_trace_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.json", {"traceId": 7, "observations": {}})
    with pytest.raises(BadTrace, match="neither a trace"):
        list(load(Source(path), Tally(), format=langfuse))


def test_cycles_orphans_and_doubles_are_borne(tmp_path: Path) -> None:
    loop = {**ROOT, "parentObservationId": "ask"}
    lost = {**RUN, "parentObservationId": "nowhere"}
    survives(tmp_path / "x.json", langfuse, {**TRACE, "observations": [loop, ASK, ASK, lost]})


@given(value=mutated(TRACE))
@SOME
def test_anything_anywhere_gives_traces_or_a_sentence(value: Any, tmp_path: Path) -> None:
    survives(tmp_path / "x.json", langfuse, value)


@given(size=st.integers(0, len(json.dumps(TRACE))))
@SOME
def test_a_file_cut_anywhere_gives_traces_or_a_sentence(size: int, tmp_path: Path) -> None:
    survives_cut(tmp_path / "x.json", langfuse, size, TRACE)


# --- real traces of many frameworks


REAL = [path for path in sorted((DATA / "langfuse").rglob("*.json")) if ".chatml." not in path.name]


@needs_shared
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
@pytest.mark.slow
def test_real_traces_have_the_observations_that_were_counted(path: Path) -> None:
    wanted = json.loads((DATA / "expected.json").read_text())[str(path.relative_to(DATA))]
    assert sniff(Source(path)) is langfuse
    (batch,), tally = read(path, langfuse)
    assert tally.counts["observations"] == wanted["observations"]
    assert {name: tally.counts[f"type {name}"] for name in wanted["types"]} == wanted["types"]
    assert tally.problems == []
    assert batch.header.title


@needs_shared
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("google-adk-2025-08-28", ["say_hello"]),
        ("claude-agent-2025-12-22", ["mcp__weather__get_weather"] * 2),
        ("koog-2025-08-26", ["HelloTool", "ByeTool"]),
        ("langgraph-js-2025-10-30", ["get_weather"]),
        ("vercel-aisdk-2025-11-17", ["getWeather"]),
        ("openai-agents-2025-09-30", ["get_weather"]),
    ],
)
def test_tools_of_real_frameworks_are_paired_with_the_calls_that_asked(
    name: str, asked: list[str]
) -> None:
    (batch,), _ = read(DATA / "langfuse" / "chatml" / f"{name}.trace.json", langfuse)
    found = tools(batch)
    assert sorted(tool.name for tool in found) == sorted(asked)
    assert all(tool.asked_by and tool.observation for tool in found)
