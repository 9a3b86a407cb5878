"""OpenInference spans read as traces: the real ones by their counts, small ones rule by rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, openinference, sniff
from replay.formats.genai.records import flat, grown
from replay.formats.source import Source, Tally
from replay.messages import observed, text
from replay.steps import build
from replay.trace import (
    NO_TOOLS,
    AgentSpan,
    Batch,
    Cost,
    Level,
    OtherSpan,
    Retrieval,
    SourceScore,
    Usage,
)
from tests.replay.kinds import models, seen, tools
from tests.shared import DATA, needs_shared

Value = dict[str, Any]


def read(path: Path) -> tuple[list[Batch], Tally]:
    tally = Tally()
    source = Source(path)
    assert sniff(source) is openinference
    return list(load(source, tally)), tally


def written(path: Path, *spans: Value) -> list[Batch]:
    path.write_text(json.dumps(spans))
    return read(path)[0]


# --- small spans, as Phoenix gives them back


def span(name: str, kind: str, parent: str | None, at: int, **more: Any) -> Value:
    return {
        "name": name,
        "context": {"trace_id": "t1", "span_id": name},
        "span_kind": kind,
        "parent_id": parent,
        "start_time": f"2026-07-09T00:00:{at:02}+00:00",
        "end_time": f"2026-07-09T00:00:{at + 1:02}+00:00",
        "status_code": "OK",
        "attributes": {},
        **more,
    }


def said(side: str, *messages: Value) -> Value:
    """Messages under their counted names."""
    found: Value = {}
    for at, message in enumerate(messages):
        for name, value in message.items():
            found[f"llm.{side}_messages.{at}.message.{name}"] = value
    return found


def call(at: int, call_id: str, name: str, arguments: str) -> Value:
    stem = f"tool_calls.{at}.tool_call"
    return {
        f"{stem}.id": call_id,
        f"{stem}.function.name": name,
        f"{stem}.function.arguments": arguments,
    }


SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Where is order 7?"}
ASKS = {
    "role": "assistant",
    **call(0, "a", "get", '{"id": 7}'),
    **call(1, "b", "get", "{nope"),
}
TOLD = {"role": "tool", "tool_call_id": "b", "content": "bad arguments"}
AGENT = span("agent", "AGENT", None, 0, attributes={"input.value": "Where is order 7?"})
FIRST = span(
    "ask", "LLM", "agent", 1,
    attributes={
        **said("input", SYSTEM, USER), **said("output", ASKS),
        "llm.model_name": "m-1", "llm.tools.0.tool.json_schema": '{"name": "get"}',
        "llm.token_count.prompt": 100, "llm.token_count.completion": "20",
        "llm.token_count.prompt_details.cache_read": 90, "llm.cost.total": 0.5,
        "llm.invocation_parameters": '{"max_tokens": 9}', "llm.finish_reason": "tool_calls",
    },
)  # fmt: skip
RUN = span(
    "run", "TOOL", "agent", 3,
    attributes={"tool.name": "get", "tool.id": "a", "output.value": "shipped"},
)  # fmt: skip
SECOND = span(
    "say", "LLM", "agent", 5,
    attributes={
        **said("input", SYSTEM, USER, ASKS, TOLD),
        **said("output", {"role": "assistant", "content": "Shipped."}),
    },
)  # fmt: skip


def test_a_model_span_holds_what_was_asked_answered_and_used(tmp_path: Path) -> None:
    (batch,) = written(tmp_path / "spans.json", AGENT, FIRST)
    (ask,) = models(batch)
    assert ask.request.system is not None
    assert text(ask.request.system) == "Be brief."
    assert seen(ask) == [("user", "Where is order 7?")]
    assert ask.request.params == {"max_tokens": 9}
    assert [tool.name for tool in ask.request.tools or ()] == ["get"]
    assert (ask.response.stop, ask.response.model) == ("tool", "m-1")
    assert ask.usage == Usage(input_tokens=100, output_tokens=20, cache_read_tokens=90)
    assert ask.cost == Cost(usd=0.5, source="recorded")
    assert ask.fidelity.level is Level.EXACT
    assert ask.place.span == "ask"
    assert ask.duration_ns == 1_000_000_000
    assert batch.header.title == "Where is order 7?"


def test_a_tool_span_is_the_call_of_its_id_and_one_never_run_is_told_by_its_answer(
    tmp_path: Path,
) -> None:
    (batch,) = written(tmp_path / "spans.json", AGENT, FIRST, RUN, SECOND)
    ran, told = tools(batch)
    assert (ran.id, ran.asked_by, ran.arguments) == ("run", "ask", {"id": 7})
    assert ran.observation is not None
    assert observed(ran.observation).text == "shipped"
    assert (told.call_id, told.asked_by, told.arguments_raw) == ("b", "ask", "{nope")
    assert told.observation is not None
    assert observed(told.observation).text == "bad arguments"


def test_calls_share_the_conversation_they_have_in_common(tmp_path: Path) -> None:
    (batch,) = written(tmp_path / "spans.json", AGENT, FIRST, RUN, SECOND)
    first, second = models(batch)
    assert second.request.context is not None
    assert second.request.context.nodes()[0] is first.request.context
    assert second.request.system is first.request.system
    assert second.fidelity.reasons == (NO_TOOLS,)


def test_the_order_of_the_file_does_not_matter(tmp_path: Path) -> None:
    spans = [AGENT, FIRST, RUN, SECOND]
    (forward,) = written(tmp_path / "forward.json", *spans)
    (backward,) = written(tmp_path / "backward.json", *reversed(spans))
    assert [s.id for s in forward.spans] == [s.id for s in backward.spans]
    assert [s.asked_by for s in tools(forward)] == [s.asked_by for s in tools(backward)]


def test_a_request_of_answers_alone_goes_on_from_the_one_before(tmp_path: Path) -> None:
    answer = {"role": "user", "tool_call_id": "a", "content": "shipped"}
    delta = span("say", "LLM", "agent", 5, attributes=said("input", answer))
    (batch,) = written(tmp_path / "spans.json", AGENT, FIRST, delta)
    second = models(batch)[1]
    assert [role for role, _ in seen(second)] == ["user", "assistant", "tool"]
    assert second.request.system is models(batch)[0].request.system


def test_parts_of_the_genai_convention_come_before_what_was_converted_from_them(
    tmp_path: Path,
) -> None:
    results = [
        {"type": "tool_call_response", "id": name, "response": {"ok": name}} for name in "ab"
    ]
    attributes = {
        **said("input", {"role": "user", "content": "half of it"}),
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": results}]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]
        ),
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    }
    (batch,) = written(tmp_path / "x.json", span("ask", "LLM", None, 1, attributes=attributes))
    (ask,) = models(batch)
    assert seen(ask) == [("tool", '{"ok":"a"}'), ("tool", '{"ok":"b"}')]
    assert ask.response.message is not None
    assert text(ask.response.message) == "Done."
    assert ask.request.system is not None


def test_a_sub_agent_is_a_thread_and_its_calls_are_its_own(tmp_path: Path) -> None:
    below = [
        {**span(f"sub {s['name']}", s["span_kind"], "sub", at), "attributes": s["attributes"]}
        for at, s in enumerate([FIRST, RUN], 11)
    ]
    sub = span("sub", "AGENT", "run", 10)
    (batch,) = written(tmp_path / "x.json", AGENT, FIRST, RUN, sub, *below)
    steps, loose, plan = build(batch.spans)
    assert [step.thread for step in steps] == ["agent", "sub"]
    assert [[act.id for act in step.acts][:1] for step in steps] == [["run"], ["sub run"]]
    assert (loose, plan.orphans) == ((), ())


def test_a_tool_that_no_message_calls_belongs_to_the_model_call_beside_it(tmp_path: Path) -> None:
    wrote = span(
        "code", "LLM", "step", 1,
        attributes={**said("input", USER), **said("output", {"role": "assistant", "content": "x"})},
    )  # fmt: skip
    spans = [span("step", "CHAIN", None, 0), wrote, span("final", "TOOL", "step", 3)]
    (batch,) = written(tmp_path / "x.json", *spans, span("alone", "TOOL", None, 4))
    assert [(each.id, each.asked_by) for each in tools(batch)] == [
        ("final", "code"),
        ("alone", None),
    ]


TURNS = [
    {"role": "assistant", "content": "Code: look()"},
    {
        "role": "tool-call",
        "content": "Calling tools:\n[{'id': 'call_1', 'type': 'function', 'function': "
        "{'name': 'python_interpreter', 'arguments': 'look(\"a\")\\n'}}]",
    },
    {"role": "tool-response", "content": "Call id: call_1\nError:\nNameError: look"},
]


def test_calls_written_into_messages_belong_to_the_words_before_them(tmp_path: Path) -> None:
    first = {**said("input", SYSTEM, USER), **said("output", TURNS[0])}
    second = {
        **said("input", SYSTEM, USER, *TURNS),
        **said("output", {"role": "assistant", "content": "Code: look_again()"}),
    }
    (batch,) = written(
        tmp_path / "x.json",
        span("one", "LLM", None, 1, attributes=first),
        span("two", "LLM", None, 3, attributes=second),
    )
    (told,) = tools(batch)
    assert (told.name, told.asked_by, told.arguments) == (
        "python_interpreter",
        "one",
        'look("a")\n',
    )
    assert (told.status, told.error) == ("error", "NameError: look")
    assert told.observation is not None
    assert observed(told.observation).text == TURNS[2]["content"]


def test_an_exception_says_why_a_span_failed(tmp_path: Path) -> None:
    event = {"name": "exception", "attributes": {"exception.message": "no such order"}}
    bad = {**RUN, "status_code": "ERROR", "events": [event]}
    (batch,) = written(tmp_path / "x.json", AGENT, FIRST, bad)
    ran = tools(batch)[0]
    assert (ran.status, ran.error) == ("error", "no such order")


def test_other_kinds_keep_their_place_in_the_tree(tmp_path: Path) -> None:
    documents = {"retrieval.documents.0.document.content": "a page", "input.value": "shipping"}
    (batch,) = written(
        tmp_path / "x.json",
        AGENT,
        span("look up", "RETRIEVER", "agent", 1, attributes=documents),
        span("rank", "RERANKER", "agent", 2),
    )
    agent, look, rank = batch.spans
    assert isinstance(agent, AgentSpan)
    assert isinstance(look, Retrieval)
    assert (look.query, look.documents) == ("shipping", [{"document": {"content": "a page"}}])
    assert isinstance(rank, OtherSpan)
    assert (rank.operation, rank.parent) == ("reranker", "agent")


def test_annotations_are_scores_of_their_spans(tmp_path: Path) -> None:
    noted = {
        "annotations.0.annotation.name": "helpful",
        "annotations.0.annotation.score": 0.25,
        "annotations.0.annotation.annotator_kind": "HUMAN",
        "annotations.0.annotation.explanation": "too short",
    }
    (batch,) = written(tmp_path / "x.json", span("ask", "LLM", None, 1, attributes=noted))
    (score,) = batch.scores
    assert (score.name, score.by, score.span, score.value) == ("helpful", "HUMAN", "ask", 0.25)
    assert models(batch)[0].fidelity.level is Level.NONE


def test_a_span_twice_in_a_file_is_read_once_and_told(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"data": [AGENT, FIRST, FIRST]}))
    (batch,), tally = read(path)
    assert len(models(batch)) == 1
    assert [problem.where for problem in tally.problems] == ["span ask"]


def test_traces_of_one_file_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    other = {**FIRST, "context": {"trace_id": "t2", "span_id": "ask"}}
    first, second = written(tmp_path / "x.json", AGENT, FIRST, other)
    assert [first.header.source_id, second.header.source_id] == ["t1", "t2"]
    assert len(models(first)) == len(models(second)) == 1


@pytest.mark.parametrize("document", [{"spans": []}, [], {"data": [{"context": {}}]}])
def test_a_document_without_spans_is_refused(document: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    with pytest.raises(BadTrace, match="contains no span"):
        list(load(Source(path), Tally(), format=openinference))


# --- attributes

LEAVES = st.integers() | st.text(max_size=5) | st.booleans()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "c_d"]), inner, min_size=1)
        | st.lists(st.dictionaries(st.just("x"), inner, min_size=1), min_size=1, max_size=12)
    ),
    max_leaves=12,
)


@given(tree=st.dictionaries(st.sampled_from(["llm", "tool"]), TREES))
def test_attributes_made_flat_grow_back(tree: Value) -> None:
    assert grown(flat(tree)) == tree


NAMES = (
    "spans child_spans trace_id span_id context spanContext traceId spanId attributes key data "
    "span_attributes events start_time start_time_unix_nano span_kind status "
    "llm.input_messages.0.message"
).split()
ODD = st.recursive(
    st.none() | st.integers(-3, 3) | st.sampled_from(["x", "t1", "LLM", "[{", "2026-07-09T00:00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=6,
        )
    ),
    max_leaves=14,
)


@given(value=ODD)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_gives_traces_or_a_sentence(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        json.dumps([{**FIRST, "attributes": value if type(value) is dict else {}}, value])
    )
    found = list(load(Source(path), Tally(), format=openinference))
    assert found[0].header.source_id == "t1"


# --- how Phoenix lists spans


def test_pages_of_a_listing_may_stand_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    pages = [{"data": [RUN, SECOND], "next_cursor": "x"}, {"data": [AGENT, FIRST]}]
    path.write_text("".join(json.dumps(page) + "\n" for page in pages) + "{broken\n")
    (batch,), tally = read(path)
    assert (len(models(batch)), len(tools(batch))) == (2, 2)
    assert [problem.where for problem in tally.problems] == ["line 3"]


def test_spans_may_stand_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (AGENT, FIRST, RUN)))
    (batch,), tally = read(path)
    assert (len(batch.spans), tally.problems) == (4, [])


@pytest.mark.parametrize("several", [False, True])
def test_traces_of_the_command_line_have_their_spans_below_them(
    several: bool, tmp_path: Path
) -> None:
    note = {"name": "correct", "annotator_kind": "HUMAN", "span_id": "ask",
            "result": {"label": "yes", "score": 1, "explanation": "fine"}}  # fmt: skip
    trace = {"traceId": "t1", "spans": [AGENT, {**FIRST, "annotations": [note]}], "status": "OK"}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([trace] if several else trace, indent=2))
    (batch,), tally = read(path)
    assert (len(models(batch)), tally.problems, dict(tally.unknown)) == (1, [], {})
    assert batch.scores == (
        SourceScore(
            name="correct", by="HUMAN", span="ask", value=1.0, label="yes", explanation="fine"
        ),
    )


def test_messages_spelled_in_the_old_names_of_genai_are_read(tmp_path: Path) -> None:
    attributes = {
        "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "[not JSON",
        "gen_ai.prompt.2.tool_call_id": "a", "gen_ai.prompt.2.content": "shipped",
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.finish_reason": "tool_calls",
        "gen_ai.completion.0.tool_calls.0.name": "get",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"id": 7}',
        "llm.request.functions.0.name": "get", "llm.request.functions.0.parameters": "{}",
        "gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 2,
    }  # fmt: skip
    (batch,) = written(tmp_path / "x.json", span("ask", "LLM", None, 1, attributes=attributes))
    (ask,) = models(batch)
    assert seen(ask) == [("user", "[not JSON"), ("tool", "shipped")]
    assert [tool.schema for tool in ask.request.tools or ()] == [{}]
    assert (ask.usage, ask.response.stop) == (Usage(input_tokens=10, output_tokens=2), "tool")
    assert [made.arguments for made in tools(batch)] == [{"id": 7}]
    assert ask.fidelity.level is Level.EXACT


# --- real files

EXPECTED: dict[str, Value] = (
    json.loads((DATA / "expected.json").read_text()) if DATA.is_dir() else {}
)
ROWS = sorted(name for name in EXPECTED if name.startswith("trail_swe/"))
FILES = [DATA / "formats" / "openinference", DATA / "openinference" / "v6-spans"]
SAMPLES = [path for folder in FILES for path in sorted(folder.glob("*.json"))]
NO_SPANS = {"capture-results"}


@needs_shared
@pytest.mark.parametrize("name", ROWS)
def test_a_real_tree_gives_the_counts_taken_independently(name: str) -> None:
    (batch,), tally = read(DATA / name)
    row = EXPECTED[name]
    for count in ("spans", "errors", "prompt_tokens", "completion_tokens"):
        assert tally.counts[count] == row[count], count
    kinds = {kind: tally.counts[f"kind {kind}"] for kind in row["kinds"]}
    assert kinds == row["kinds"]
    assert batch.header.source_id == Path(name).stem
    assert all(ask.fidelity.level is Level.PARTIAL for ask in models(batch))


@needs_shared
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_read_and_its_tree_is_whole(path: Path) -> None:
    if path.stem in NO_SPANS:
        assert sniff(Source(path)) is None
        return
    for batch in read(path)[0]:
        ids = {span.id for span in batch.spans}
        assert len(ids) == len(batch.spans)
        steps, _, plan = build(batch.spans)
        assert plan.orphans == ()
        assert len(steps) == len(models(batch))


@needs_shared
def test_two_exports_of_the_same_spans_give_the_same_trace() -> None:
    folder = DATA / "formats" / "openinference"
    rest, otlp = (read(folder / f"phoenix_rest_{kind}.json")[0] for kind in ("spans", "otlpv1"))
    assert [b.header.source_id for b in rest] == [b.header.source_id for b in otlp]
    for one, other in zip(rest, otlp, strict=True):
        assert [s.id for s in one.spans] == [s.id for s in other.spans]
        assert [seen(ask) for ask in models(one)] == [seen(ask) for ask in models(other)]
        assert [ask.usage for ask in models(one)] == [ask.usage for ask in models(other)]


@pytest.mark.data
@needs_shared
def test_every_label_of_the_trees_names_a_step() -> None:
    """One label names no span: its author did not find it."""
    lost = []
    steps: dict[str, dict[str, int | None]] = {}
    for line in (DATA / "labels" / "trail_swe_bench.jsonl").read_text().splitlines():
        label = json.loads(line)
        name, at = label["trace"], label["at"]["span"]
        if name not in steps:
            (batch,), _ = read(DATA / name)
            steps[name] = build(batch.spans)[2].of
        if steps[name].get(at) is None:
            lost.append(at)
    assert lost == ["Span ID not found for this shard"]
