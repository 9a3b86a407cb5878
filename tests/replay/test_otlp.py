"""OTLP spans read as traces: what each generation of the GenAI conventions says, span by span."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.messages import calls, observed, thinking
from replay.messages import text as text_of
from replay.steps import build
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    Cost,
    Level,
    ModelCall,
    OtherSpan,
    Retrieval,
    SourceScore,
    Usage,
)
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.otlp_case import (
    AGENT,
    ANSWER,
    ASKS,
    FIRST,
    LAST,
    RUN,
    SECOND,
    TOLD,
    TOOLS,
    TRACE,
    USER,
    asks_for,
    came_back,
    chat,
    event,
    hexed,
    logs,
    pairs,
    read,
    record,
    said,
    span,
    spans,
    text,
    written,
)


def call(tmp_path: Path, attributes: dict[str, Any], **more: Any) -> ModelCall:
    """The model call that a span of these attributes is."""
    (batch,) = written(tmp_path / "one.jsonl", spans(span("ask", 1, None, attributes, **more)))
    (found,) = models(batch)
    return found


# --- the newest words


def test_a_model_span_holds_what_was_asked_answered_and_used(tmp_path: Path) -> None:
    (batch,) = written(tmp_path / "x.jsonl", spans(RUN, FIRST, LAST, AGENT))
    ask, last = models(batch)
    assert ask.request.system is not None
    assert text_of(ask.request.system) == "Be brief."
    assert seen(ask) == [("user", "Where is order 7?")]
    assert (ask.request.model, ask.request.params) == ("m-1", {"max_tokens": 9})
    assert [tool.name for tool in ask.request.tools or ()] == ["get_order"]
    assert (ask.response.stop, ask.response.model, ask.response.id) == ("tool", "m-1-2026", "r-1")
    assert ask.usage == Usage(input_tokens=100, output_tokens=20, cache_read_tokens=90)
    assert ask.cost == Cost(usd=0.5, source="recorded")
    assert (ask.fidelity.level, last.fidelity.level) == (Level.EXACT, Level.EXACT)
    assert (ask.start_ns, ask.duration_ns) == (SECOND + 10**9, 10**9)
    assert ask.place.span == hexed("ask")
    header = batch.header
    assert (header.source_id, header.title, header.agent) == (TRACE, "Where is order 7?", "support")
    assert header.labels == {"session": "conv-1", "service": "shop"}


def test_spans_stand_in_time_order_however_they_came_and_steps_have_their_calls(
    tmp_path: Path,
) -> None:
    (batch,) = written(tmp_path / "x.jsonl", spans(LAST, RUN), spans(FIRST), spans(AGENT))
    assert [each.name for each in batch.spans] == ["support", "ask", "get_order", "say"]
    steps, loose, plan = build(batch.spans)
    assert [(len(step.acts), step.thread) for step in steps] == [(1, hexed("agent"))] * 1 + [
        (0, hexed("agent"))
    ]
    assert (loose, plan.orphans) == ((), ())


def test_a_tool_span_is_the_call_of_its_id_and_keeps_what_came_back(tmp_path: Path) -> None:
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, RUN, LAST))
    (ran,) = tools(batch)
    assert (ran.id, ran.asked_by, ran.arguments) == (hexed("run"), hexed("ask"), {"id": 7})
    assert ran.observation is not None
    assert observed(ran.observation).text == "shipped"


def test_parallel_calls_of_one_tool_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    both = said("assistant", asks_for("a", "get", id=1), asks_for("b", "get", id=2))

    def ran(name: str, call_id: str) -> dict[str, Any]:
        given = {"gen_ai.tool.name": "get", "gen_ai.tool.call.id": call_id}
        return span(name, 2, None, {"gen_ai.operation.name": "execute_tool", **given})

    asked = span("ask", 1, None, chat([USER], both))
    (batch,) = written(tmp_path / "x.jsonl", spans(ran("two", "b"), ran("one", "a"), asked))
    assert {(each.id, str(each.arguments)) for each in tools(batch)} == {
        (hexed("one"), "{'id': 1}"),
        (hexed("two"), "{'id': 2}"),
    }


def test_a_call_that_no_span_ran_is_told_by_its_answer(tmp_path: Path) -> None:
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, LAST))
    (told,) = tools(batch)
    assert (told.name, told.asked_by, told.call_id) == ("get_order", hexed("ask"), "a")
    assert told.observation is not None
    assert observed(told.observation).text == "shipped"


def test_calls_share_the_conversation_they_have_in_common(tmp_path: Path) -> None:
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, RUN, LAST))
    first, last = models(batch)
    assert last.request.context is not None
    assert last.request.context.nodes()[0] is first.request.context
    assert last.request.system is first.request.system
    assert last.request.tools is first.request.tools
    assert [role for role, _ in seen(last)] == ["user", "assistant", "tool"]


def test_a_conversation_that_only_begins_like_another_shares_no_more(tmp_path: Path) -> None:
    longer = said("user", text("Where is order 7?"))
    texts = [[longer], [longer, said("user", text("and 8?"))], [said("user", text("Where is"))]]
    found = [span(f"s{at}", at, None, chat(each, ANSWER)) for at, each in enumerate(texts)]
    (batch,) = written(tmp_path / "x.jsonl", spans(*found))
    assert [seen(each) for each in models(batch)] == [
        [("user", "Where is order 7?")],
        [("user", "Where is order 7?"), ("user", "and 8?")],
        [("user", "Where is")],
    ]


def test_a_leading_system_message_is_the_system_prompt(tmp_path: Path) -> None:
    given = chat([said("system", text("Be kind.")), USER], ANSWER)
    del given["gen_ai.system_instructions"]
    found = call(tmp_path, given)
    assert found.request.system is not None
    assert text_of(found.request.system) == "Be kind."
    assert seen(found) == [("user", "Where is order 7?")]
    assert found.fidelity.level is Level.EXACT


def test_messages_may_stand_as_values_instead_of_json(tmp_path: Path) -> None:
    given = chat([], ANSWER)
    values = {
        "gen_ai.input.messages": [USER, ASKS, TOLD],
        "gen_ai.output.messages": [{**ASKS, "finish_reason": "tool_call"}],
        "gen_ai.system_instructions": [text("Be brief.")],
        "gen_ai.tool.definitions": TOOLS,
    }
    found = call(tmp_path, {**given, **values})
    assert [role for role, _ in seen(found)] == ["user", "assistant", "tool"]
    assert (found.response.stop, found.response.stop_raw) == ("tool", "tool_call")
    assert found.response.message is not None
    assert [(c.id, c.arguments) for c in calls(found.response.message)] == [("a", {"id": 7})]
    assert found.fidelity.level is Level.EXACT


def test_parts_of_every_kind_are_kept(tmp_path: Path) -> None:
    parts = [
        {"type": "reasoning", "content": "hm", "signature": "s"},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGk="},
        {"type": "uri", "modality": "image", "uri": "https://x/y.png"},
        {"type": "compaction", "id": "c", "content": "short"},
    ]
    found = call(tmp_path, chat([said("assistant", *parts)], ANSWER))
    assert found.request.context is not None
    message = found.request.context.message
    assert thinking(message) == "hm"
    assert message.body["content"][0]["signature"] == "s"
    assert message.body["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="
    assert message.body["content"][2]["image_url"]["url"] == "https://x/y.png"
    assert message.body["content"][3] == parts[3]


def test_a_request_without_system_prompt_or_tools_is_partly_known(tmp_path: Path) -> None:
    given = chat([USER], ANSWER)
    del given["gen_ai.system_instructions"], given["gen_ai.tool.definitions"]
    found = call(tmp_path, given)
    assert found.fidelity.level is Level.PARTIAL
    assert found.fidelity.reasons == (NO_SYSTEM, NO_TOOLS)


def test_spans_without_content_keep_models_tokens_and_times(tmp_path: Path) -> None:
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "model": "other"}
    found = call(tmp_path, {**bare, "gen_ai.usage.input_tokens": 7})
    assert found.fidelity.level is Level.NONE
    assert (found.request.model, found.request.context) == ("m", None)
    assert found.response.message is None
    assert found.usage == Usage(input_tokens=7)


def test_a_tool_beside_a_call_that_ended_for_one_is_its_own_though_no_content_says_so(
    tmp_path: Path,
) -> None:
    bare = {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ["tool_use"]}
    found = [AGENT, span("ask", 1, "agent", bare), RUN]
    (batch,) = written(tmp_path / "x.jsonl", spans(*found))
    assert tools(batch)[0].asked_by == hexed("ask")
    bare["gen_ai.response.finish_reasons"] = ["stop"]
    found[1] = span("ask", 1, "agent", bare)
    (batch,) = written(tmp_path / "y.jsonl", spans(*found))
    assert tools(batch)[0].asked_by is None


@pytest.mark.parametrize("broken", ['[{"role": "user", "par', '[{"role": "user"}, nope]'])
def test_a_text_that_breaks_off_leaves_a_request_unknown(broken: str, tmp_path: Path) -> None:
    found = call(tmp_path, {**chat([], ANSWER), "gen_ai.input.messages": broken})
    assert found.fidelity.level is Level.NONE
    assert found.fidelity.reasons == ("the recorded input is cut off",)
    assert found.response.message is not None


# --- deltas and repetitions


def test_a_request_that_only_answers_goes_on_with_the_call_before(tmp_path: Path) -> None:
    given = chat([TOLD], ANSWER)
    del given["gen_ai.system_instructions"], given["gen_ai.tool.definitions"]
    delta = span("say", 3, "agent", given)
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, RUN, delta))
    first, last = models(batch)
    assert [role for role, _ in seen(last)] == ["user", "assistant", "tool"]
    assert last.request.system is first.request.system
    assert last.request.tools is first.request.tools
    assert last.fidelity.level is Level.REBUILT


def test_a_request_that_names_the_response_before_goes_on_with_it(tmp_path: Path) -> None:
    previous = "gen_ai.request.previous_response.id"
    given = chat([said("user", text("And 8?"))], ANSWER, **{previous: "r-1"})
    again = span("again", 3, "agent", given)
    other = span("other", 4, "agent", {**given, previous: "gone"})
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, again, other))
    assert [[role for role, _ in seen(each)] for each in models(batch)] == [
        ["user"], ["user", "assistant", "user"], ["user"],
    ]  # fmt: skip
    assert models(batch)[1].fidelity.level is Level.REBUILT


def test_answers_to_calls_of_another_conversation_are_joined_to_nothing(tmp_path: Path) -> None:
    given = chat([said("tool", came_back("other", "x"))], ANSWER)
    del given["gen_ai.system_instructions"]
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, span("say", 3, "agent", given)))
    assert [role for role, _ in seen(models(batch)[1])] == ["tool"]
    assert models(batch)[1].fidelity.level is Level.PARTIAL


def test_sub_agents_are_threads_of_their_own(tmp_path: Path) -> None:
    inner = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "search"}
    found = [
        AGENT, FIRST, span("run", 2, "agent", {"gen_ai.tool.name": "get_order"}),
        span("inner", 2, "run", inner), span("deep", 2, "inner", chat([USER], ANSWER)), LAST,
    ]  # fmt: skip
    (batch,) = written(tmp_path / "x.jsonl", spans(*found))
    steps, _, _ = build(batch.spans)
    assert [step.thread for step in steps] == [hexed("agent"), hexed("inner"), hexed("agent")]
    assert [each.name for each in agents(batch)] == ["support", "search"]


def test_one_inference_told_by_client_and_server_is_one_call(tmp_path: Path) -> None:
    server = span("srv", 1, "ask", {"gen_ai.operation.name": "chat"}, kind=2)
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, server, RUN, LAST))
    assert [each.id for each in models(batch)] == [hexed("ask"), hexed("say")]
    (other,) = [each for each in batch.spans if isinstance(each, OtherSpan)]
    assert other.extra["same_as"] == hexed("ask")


def test_a_framework_s_span_over_an_sdk_s_is_the_same_call_where_the_response_is(
    tmp_path: Path,
) -> None:
    outer = {"gen_ai.operation.name": "chat", "gen_ai.response.id": "r-1"}
    inner = {**FIRST, "parentSpanId": hexed("over")}
    over = span("over", 1, "agent", outer)
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, over, inner, RUN, LAST))
    assert [each.id for each in models(batch)] == [hexed("ask"), hexed("say")]


def test_the_same_response_served_again_later_is_another_call(tmp_path: Path) -> None:
    again = span("again", 5, "agent", chat([USER], ANSWER, **{"gen_ai.response.id": "r-1"}))
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, again))
    assert len(models(batch)) == 2


def test_a_span_sent_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    written(path, spans(AGENT, FIRST), spans(FIRST, RUN))
    (batch,), tally = read(path)
    assert len(models(batch)) == 1
    assert [each.why for each in tally.problems] == ["occurs twice in the file; read once"]


# --- errors, scores, labels


def test_a_failed_span_says_why(tmp_path: Path) -> None:
    raised = [event("exception", {"exception.message": "db timeout"})]
    found = spans(
        span("a", 1, None, {"gen_ai.tool.name": "x"}, status={"code": 2, "message": "late"}),
        span("b", 2, None, {"gen_ai.tool.name": "x"}, status={"code": 2}, events=raised),
        span("c", 3, None, {"gen_ai.tool.name": "x", "error.type": "TimeoutError"}),
        span("d", 4, None, {"gen_ai.tool.name": "x"}, status={"code": "STATUS_CODE_OK"}),
    )
    (batch,) = written(tmp_path / "x.jsonl", found)
    assert [(each.status, each.error) for each in batch.spans] == [
        ("error", "late"), ("error", "db timeout"), ("error", "TimeoutError"), ("ok", None),
    ]  # fmt: skip
    assert batch.spans[1].extra["events"][0]["attributes"] == {"exception.message": "db timeout"}


def test_a_span_that_never_ended_has_no_end(tmp_path: Path) -> None:
    assert call(tmp_path, chat([USER], ANSWER), endTimeUnixNano="0").end_ns is None
    assert call(tmp_path, chat([USER], ANSWER), endTimeUnixNano="5").end_ns is None


def test_evaluations_are_scores_of_the_span_the_response_or_the_run(tmp_path: Path) -> None:
    def judged(name: str, **more: Any) -> dict[str, Any]:
        return {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": 0.25, **more}

    evaluation = "gen_ai.evaluation.result"
    in_span = span("say", 3, "agent", chat([USER], ANSWER), events=[event(evaluation, judged("a"))])
    by_response = judged("b", **{"gen_ai.response.id": "r-1", "gen_ai.evaluation.explanation": "!"})
    whole = judged("c", **{"gen_ai.evaluation.score.label": "pass"})
    (batch,) = written(
        tmp_path / "x.jsonl",
        spans(AGENT, FIRST, in_span),
        logs(record(evaluation, by_response, "elsewhere"), record(evaluation, whole, "agent")),
    )
    found = {score.name: score for score in batch.scores}
    assert found["a"].span == hexed("say")
    assert found["b"] == SourceScore(
        name="b", by="source", span=hexed("ask"), value=0.25, explanation="!"
    )
    assert (found["c"].span, found["c"].label) == (None, "pass")


def test_annotations_of_openinference_are_scores(tmp_path: Path) -> None:
    given = {
        "annotations.0.annotation.name": "quality", "annotations.0.annotation.score": 0.5,
        "annotations.0.annotation.annotator_kind": "HUMAN",
    }  # fmt: skip
    (batch,) = written(tmp_path / "x.jsonl", spans(AGENT, span("ask", 1, "agent", {
        **chat([USER], ANSWER), **given})))  # fmt: skip
    assert batch.scores == (SourceScore(name="quality", by="HUMAN", span=hexed("ask"), value=0.5),)


def test_the_version_of_the_prompt_is_the_variant(tmp_path: Path) -> None:
    given = {"gen_ai.prompt.name": "triage", "gen_ai.prompt.version": "3"}
    (batch,) = written(
        tmp_path / "x.jsonl", spans(span("ask", 1, None, {**chat([USER], ANSWER), **given}))
    )
    assert batch.header.variant == "triage 3"


def test_a_run_names_the_golden_set_that_it_was_measured_on(tmp_path: Path) -> None:
    stamp = "3 0123456789abcdef"
    asked = span("ask", 1, None, {**chat([USER], ANSWER), "arc.golden": stamp})
    (batch,) = written(tmp_path / "span.jsonl", spans(asked))
    assert batch.header.labels["arc.golden"] == stamp
    whole = spans(span("ask", 1, None, chat([USER], ANSWER)))
    whole["resourceSpans"][0]["resource"]["attributes"] += pairs({"arc.golden": stamp})
    (batch,) = written(tmp_path / "resource.jsonl", whole)
    assert batch.header.labels["arc.golden"] == stamp


def test_what_no_field_holds_stays_beside_the_span_and_new_names_are_counted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    more = {"http.route": "/v1", "gen_ai.brand.new": 1, "gen_ai.provider.name": "anthropic"}
    written(path, spans(span("ask", 1, None, {**chat([USER], ANSWER), **more})))
    (batch,), tally = read(path)
    assert models(batch)[0].extra == {"attributes": more}
    assert tally.unknown == {"attribute gen_ai.brand.new": 1}


def test_look_ups_and_other_spans_keep_their_place_in_the_tree(tmp_path: Path) -> None:
    looked = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "q",
              "gen_ai.retrieval.documents": json.dumps([{"id": "d"}])}  # fmt: skip
    found = spans(
        AGENT,
        FIRST,
        span("look", 2, "agent", looked),
        span("emb", 3, "agent", {"gen_ai.operation.name": "embeddings"}),
        span("http", 4, "emb"),
    )
    (batch,) = written(tmp_path / "x.jsonl", found)
    look, emb, http = (each for each in batch.spans if isinstance(each, (Retrieval, OtherSpan)))
    assert isinstance(look, Retrieval)
    assert (look.query, look.documents) == ("q", [{"id": "d"}])
    assert isinstance(emb, OtherSpan)
    assert (emb.operation, emb.extra) == ("embeddings", {})
    assert isinstance(http, OtherSpan)
    assert (http.operation, http.parent) == ("span", hexed("emb"))


# --- older words, other makers' words


def test_messages_may_be_events_of_the_span(tmp_path: Path) -> None:
    asked = [{"id": "a", "type": "function", "function": {"name": "get", "arguments": "{}"}}]
    choice = {"index": 0, "finish_reason": "stop", "message": json.dumps({"content": "Shipped."})}
    events = [
        event("gen_ai.system.message", {"content": "Be brief."}),
        event("gen_ai.user.message", {"content": "Where?"}),
        event("gen_ai.assistant.message", {"tool_calls": json.dumps(asked)}),
        event("gen_ai.tool.message", {"id": "a", "content": "shipped"}),
        event("gen_ai.choice", choice),
    ]
    given = {"gen_ai.system": "openai", "gen_ai.usage.prompt_tokens": 5}
    found = call(tmp_path, given, events=events)
    assert found.request.system is not None
    assert seen(found) == [("user", "Where?"), ("assistant", ""), ("tool", "shipped")]
    assert found.request.context is not None
    assert found.request.context.message.body["tool_call_id"] == "a"
    assert found.response.message is not None
    assert (text_of(found.response.message), found.response.stop) == ("Shipped.", "end")
    assert found.usage == Usage(input_tokens=5)


def test_messages_may_be_one_event_of_prompt_and_one_of_completion(tmp_path: Path) -> None:
    events = [
        event("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps([
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])}),
        event("gen_ai.content.completion", {"gen_ai.completion": json.dumps([
            {"role": "assistant", "content": "Hello"}])}),
    ]  # fmt: skip
    found = call(tmp_path, {}, events=events)
    assert (found.request.system is not None, seen(found)) == (True, [("user", "Hi")])
    assert found.response.message is not None
    assert text_of(found.response.message) == "Hello"


TRACELOOP = {
    "llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.request.model": "m",
    "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "Where?",
    "gen_ai.prompt.2.role": "assistant", "gen_ai.prompt.2.tool_calls.0.id": "a",
    "gen_ai.prompt.2.tool_calls.0.name": "get", "gen_ai.prompt.2.tool_calls.0.arguments": "{}",
    "gen_ai.prompt.3.role": "tool", "gen_ai.prompt.3.tool_call_id": "a",
    "gen_ai.prompt.3.content": "shipped",
    "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Shipped.",
    "gen_ai.completion.0.finish_reason": "stop",
    "llm.request.functions.0.name": "get",
    "llm.request.functions.0.parameters": '{"type": "object"}',
    "gen_ai.usage.prompt_tokens": 120, "gen_ai.usage.completion_tokens": 17,
    "gen_ai.usage.cache_read_input_tokens": 20,
}  # fmt: skip


def test_messages_may_lie_in_numbered_attributes(tmp_path: Path) -> None:
    found = call(tmp_path, TRACELOOP)
    assert seen(found) == [("user", "Where?"), ("assistant", ""), ("tool", "shipped")]
    assert found.request.tools is not None
    assert [(t.name, t.schema) for t in found.request.tools] == [("get", {"type": "object"})]
    assert found.response.stop == "end"
    assert found.usage == Usage(input_tokens=120, output_tokens=17, cache_read_tokens=20)
    assert found.fidelity.level is Level.EXACT


def test_numbered_messages_of_a_span_that_lost_attributes_are_not_the_whole_request(
    tmp_path: Path,
) -> None:
    found = call(tmp_path, TRACELOOP, droppedAttributesCount=4)
    assert found.fidelity.level is Level.NONE
    assert "dropped" in found.fidelity.reasons[0]


def test_traceloop_names_workflows_tools_and_what_they_were_given(tmp_path: Path) -> None:
    ran = {
        "traceloop.span.kind": "tool", "traceloop.entity.name": "get",
        "traceloop.entity.input": json.dumps({"args": [], "kwargs": {"id": 7}}),
        "traceloop.entity.output": '"shipped"',
    }  # fmt: skip
    flow = {"traceloop.span.kind": "workflow", "traceloop.entity.name": "triage"}
    (batch,) = written(
        tmp_path / "x.jsonl", spans(span("flow", 0, None, flow), span("run", 1, "flow", ran))
    )
    (tool,) = tools(batch)
    assert (tool.name, tool.arguments) == ("get", {"id": 7})
    assert isinstance(batch.spans[0], AgentSpan)


def test_openinference_attributes_are_read_in_otlp_too(tmp_path: Path) -> None:
    given = {
        "openinference.span.kind": "LLM", "llm.model_name": "m",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be brief.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "Where?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Shipped.",
        "llm.tools.0.tool.json_schema": '{"name": "get"}', "llm.token_count.prompt": 9,
        "llm.invocation_parameters": '{"max_tokens": 5}', "llm.cost.total": 0.25,
    }  # fmt: skip
    found = call(tmp_path, given)
    assert seen(found) == [("user", "Where?")]
    assert found.response.message is not None
    assert text_of(found.response.message) == "Shipped."
    assert found.request.params == {"max_tokens": 5}
    assert found.cost == Cost(usd=0.25, source="recorded")
    assert found.fidelity.level is Level.EXACT


def test_the_vercel_sdk_s_spans_are_read(tmp_path: Path) -> None:
    asked = [{"toolCallId": "a", "toolName": "get", "input": {"id": 7}}]
    found = spans(
        span("all", 0, None, {"ai.operationId": "ai.generateText"}),
        span("one", 1, "all", {
            "ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m",
            "ai.prompt.messages": json.dumps([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Where?"}]}]),
            "ai.prompt.tools": ['{"name": "get", "inputSchema": {"type": "object"}}'],
            "ai.response.finishReason": "tool-calls", "ai.usage.promptTokens": 7,
            "ai.response.toolCalls": json.dumps(asked)}),
        span("two", 2, "all", {
            "ai.operationId": "ai.toolCall", "ai.toolCall.name": "get", "ai.toolCall.id": "a",
            "ai.toolCall.args": '{"id": 7}', "ai.toolCall.result": '"shipped"'}),
    )  # fmt: skip
    (batch,) = written(tmp_path / "x.jsonl", found)
    (ask,), (ran,) = models(batch), tools(batch)
    assert (seen(ask), ask.response.stop) == ([("user", "Where?")], "tool")
    assert [tool.schema for tool in ask.request.tools or ()] == [{"type": "object"}]
    assert (ran.asked_by, ran.arguments) == (ask.id, {"id": 7})
    assert ask.usage == Usage(input_tokens=7)


def test_arguments_that_do_not_parse_stay_as_they_were_written(tmp_path: Path) -> None:
    given = {"gen_ai.tool.name": "get", "gen_ai.tool.call.arguments": "{nope"}
    (batch,) = written(tmp_path / "x.jsonl", spans(span("run", 1, None, given)))
    assert (tools(batch)[0].arguments, tools(batch)[0].arguments_raw) == (None, "{nope")


def test_cache_figures_above_the_total_mean_that_the_total_left_them_out(tmp_path: Path) -> None:
    given = chat([USER], ANSWER, **{
        "gen_ai.usage.input_tokens": 12, "gen_ai.usage.cache_read.input_tokens": 1000,
        "gen_ai.usage.cache_creation.input_tokens": 200,
        "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 50,
    })  # fmt: skip
    assert call(tmp_path, given).usage == Usage(
        input_tokens=1212, cache_read_tokens=1000, cache_write_tokens=200, cache_write_1h_tokens=50
    )


# --- what log records tell


DETAILS = "gen_ai.client.inference.operation.details"


def test_content_in_log_records_is_given_to_the_span_they_were_written_in(tmp_path: Path) -> None:
    bare = span("ask", 1, "agent", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    (batch,) = written(
        tmp_path / "x.jsonl", logs(record(DETAILS, chat([USER], ASKS), "ask")), spans(AGENT, bare)
    )
    (ask,) = models(batch)
    assert (ask.id, ask.request.model, seen(ask)) == (
        hexed("ask"), "m", [("user", "Where is order 7?")],
    )  # fmt: skip
    assert ask.fidelity.level is Level.EXACT


def test_records_of_single_messages_are_joined_too(tmp_path: Path) -> None:
    bare = span("ask", 1, None, {"gen_ai.operation.name": "chat"})
    body = {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "Where?"}}]}}
    older = record("", {"event.name": "gen_ai.user.message"}, "ask", body=body)
    (batch,) = written(tmp_path / "x.jsonl", spans(bare), logs(older))
    assert seen(models(batch)[0]) == [("user", "Where?")]


def test_an_inference_without_a_span_becomes_a_call_of_which_only_the_end_is_known(
    tmp_path: Path,
) -> None:
    (batch,) = written(
        tmp_path / "x.jsonl",
        logs(
            record(DETAILS, chat([USER], ASKS), "gone"),
            record(DETAILS, chat([USER], ANSWER), "gone"),
        ),
    )
    first, second = models(batch)
    assert (first.id, first.start_ns, first.end_ns) == (hexed("gone"), None, SECOND + 10**9)
    assert first.time_quality == "derived"
    assert second.id != first.id


def test_an_inference_told_in_the_span_of_an_agent_is_a_call_below_it(tmp_path: Path) -> None:
    (batch,) = written(
        tmp_path / "x.jsonl", spans(AGENT), logs(record(DETAILS, chat([USER], ASKS), "agent"))
    )
    (ask,) = models(batch)
    assert ask.parent == hexed("agent")


# --- Claude Code's telemetry; its names are from its documentation, the records are ours


def test_claude_code_s_spans_have_their_tokens_and_the_cost_of_their_request(
    tmp_path: Path,
) -> None:
    request = {
        "span.type": "llm_request", "model": "claude-opus-5", "input_tokens": 2,
        "output_tokens": 1200, "cache_read_tokens": 800, "cache_creation_tokens": 70,
        "stop_reason": "tool_use", "request_id": "req-1", "session.id": "s",
    }  # fmt: skip
    tool = {"span.type": "tool", "tool_name": "Bash", "tool_use_id": "toolu_1"}
    told = record("claude_code.api_request", {"request_id": "req-1", "cost_usd": 0.5}, "turn")
    (batch,) = written(
        tmp_path / "x.jsonl",
        spans(
            span("turn", 0, None, {"span.type": "interaction"}),
            span("ask", 1, "turn", request),
            span("run", 2, "turn", tool),
            span("exec", 2, "run", {"span.type": "tool.execution"}),
        ),
        logs(told),
    )
    (ask,), (ran,) = models(batch), tools(batch)
    assert ask.usage == Usage(
        input_tokens=872, output_tokens=1200, cache_read_tokens=800, cache_write_tokens=70
    )
    assert ask.cost == Cost(usd=0.5, source="recorded")
    assert (ran.name, ran.call_id, ran.asked_by) == ("Bash", "toolu_1", ask.id)
    assert batch.header.labels["session"] == "s"


def test_claude_code_s_events_alone_make_a_trace_a_session(tmp_path: Path) -> None:
    def told(name: str, at: int, **given: Any) -> dict[str, Any]:
        body = {"stringValue": f"claude_code.{name}"}
        given = {"session.id": "s-1", "event.name": name, "event.sequence": at, **given}
        return record("", given, None, body=body, timeUnixNano=str(SECOND + at * 10**9))

    usage = {"input_tokens": 2, "output_tokens": 9, "cache_read_tokens": 5,
             "cache_creation_tokens": 1}  # fmt: skip
    (batch,) = written(
        tmp_path / "x.jsonl",
        logs(
            told("user_prompt", 1, prompt="Fix the tests"),
            told(
                "api_request", 3, model="claude-opus-5", duration_ms="1500", cost_usd=0.1, **usage
            ),
            told(
                "tool_result", 4, tool_name="Bash", success="false", error="exit 1", duration_ms=500
            ),
            told("api_error", 5, model="claude-opus-5", error="overloaded"),
        ),
    )
    assert (batch.header.source_id, batch.header.title) == ("s-1", "Fix the tests")
    ask, failed = models(batch)
    assert (ask.duration_ns, ask.cost, ask.usage) == (
        1_500_000_000,
        Cost(usd=0.1, source="recorded"),
        Usage(input_tokens=8, output_tokens=9, cache_read_tokens=5, cache_write_tokens=1),
    )
    assert (failed.status, failed.error) == ("error", "overloaded")
    assert (tools(batch)[0].name, tools(batch)[0].error) == ("Bash", "exit 1")
    assert ask.fidelity.level is Level.NONE
    assert {each.time_quality for each in (ask, failed)} == {"derived"}
