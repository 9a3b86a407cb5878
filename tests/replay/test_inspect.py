"""Inspect logs become traces: every generation of the format, whole logs and broken ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import inspect
from replay.formats.inspect.model_calls import read_usage
from replay.formats.source import Head, Source, Tally
from replay.messages import conversation, observed
from replay.steps import build
from replay.trace import (
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Cost,
    Json,
    Level,
    ModelCall,
    OtherSpan,
    Usage,
)
from tests.replay.kinds import models, tools
from tests.shared import DATA, needs_shared

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

SYSTEM = {"role": "system", "content": "be brief"}
USER = {"role": "user", "content": "Where is W1?\nplease"}
TOOLS = [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}]
SPEC = {"task": "demo", "run_id": "run", "task_id": "task", "eval_id": "eval", "model": "p/m"}


def at(second: float) -> str:
    return f"2026-01-02T03:04:{second:06.3f}+00:00"


NS = 1_767_323_040_000_000_000
"""The nanoseconds of second 0."""


def model(second: float, given: list[Json], answer: Json, **more: Json) -> dict[str, Any]:
    return {
        "event": "model",
        "timestamp": at(second),
        "completed": at(second + 1),
        "working_start": 0.0,
        "model": "p/m",
        "input": given,
        "tools": TOOLS,
        "tool_choice": "auto",
        "config": {"temperature": 0, "top_p": None},
        "output": {"model": "m-1", "choices": [{"message": answer, "stop_reason": "stop"}]},
        **more,
    }


def asks(call_id: str, function: str = "look", **arguments: Json) -> dict[str, Any]:
    call = {"id": call_id, "function": function, "arguments": arguments, "type": "function"}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def answers(call_id: str, content: Json, function: str = "look") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "function": function, "content": content}


def tool(second: float, call_id: str, result: Json, **more: Json) -> dict[str, Any]:
    return {
        "event": "tool",
        "timestamp": at(second),
        "id": call_id,
        "function": "look",
        "arguments": {"at": 1},
        "result": result,
        **more,
    }


def begin(second: float, id: str, type: str | None, name: str, **more: Json) -> dict[str, Any]:
    return {
        "event": "span_begin", "timestamp": at(second), "id": id, "type": type, "name": name, **more
    }  # fmt: skip


def end(second: float, id: str) -> dict[str, Any]:
    return {"event": "span_end", "timestamp": at(second), "id": id}


def step(action: str, name: str, type: str | None = "solver") -> dict[str, Any]:
    return {"event": "step", "timestamp": at(0), "action": action, "name": name, "type": type}


def sample(events: list[Json], **more: Json) -> dict[str, Any]:
    return {"id": "s", "epoch": 1, "uuid": "u", "input": "go", "events": events, **more}


def write_log(folder: Path, *samples: Json) -> Path:
    path = folder / "log.json"
    path.write_text(
        json.dumps({"version": 2, "status": "success", "eval": SPEC, "samples": samples})
    )
    return path


def write_eval(
    folder: Path,
    members: dict[str, Json],
    *,
    method: int = zipfile.ZIP_DEFLATED,
    header: str | None = "header.json",
) -> Path:
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", method) as archive:
        if header is not None:
            archive.writestr(header, json.dumps({"version": 2, "eval": SPEC}))
        for name, value in members.items():
            archive.writestr(name, value if isinstance(value, str) else json.dumps(value))
    return path


def load(path: Path) -> tuple[list[Batch], Tally]:
    tally = Tally()
    source = Source(path)
    assert inspect.sniff(source.head)
    return list(inspect.read(source, tally)), tally


def only(folder: Path, events: list[Json], **more: Json) -> Batch:
    batches, _ = load(write_log(folder, sample(events, **more)))
    (batch,) = batches
    return batch


def named(batch: Batch, name: str) -> AnySpan:
    return next(span for span in batch.spans if span.name == name)


def shown(call: ModelCall) -> list[dict[str, Any]]:
    return [message.body for message in conversation(call.request)]


# --- which files


def test_a_zip_is_claimed_by_its_members_or_its_name_and_another_zip_is_not(tmp_path: Path) -> None:
    good = Source(write_eval(tmp_path, {"samples/s_epoch_1.json": sample([])}))
    assert inspect.sniff(good.head)
    assert inspect.sniff(Head(name="later.eval", data=b"PK\x03\x04samples/"))
    assert not inspect.sniff(Head(name="other.zip", data=b"PK\x03\x04readme.txt"))


@pytest.mark.parametrize(
    "document",
    [
        {"description": "a fixture", "events": [], "eval": {"run_id": "r"}},
        {"version": 1, "samples": []},
        [{"version": 2, "eval": {"run_id": "r"}}],
        {"id": 1, "epoch": 1, "events": []},
    ],
)
def test_json_that_is_no_log_is_not_claimed(document: Json) -> None:
    assert not inspect.sniff(Head(name="x.json", data=json.dumps(document).encode()))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93])
def test_members_of_both_generations_are_unpacked(tmp_path: Path, method: int) -> None:
    members = {f"samples/s_epoch_{n}.json": sample([], epoch=n, uuid=None) for n in (1, 2)}
    batches, tally = load(write_eval(tmp_path, members, method=method))
    assert [(b.header.source_id, b.header.item) for b in batches] == [
        ("eval", "s/1"),
        ("eval", "s/2"),
    ]
    assert all(batch.last for batch in batches)
    assert tally.counts == {"samples": 2, "events": 0, "tool_events": 0}
    assert tally.problems == []


# --- contexts


CONVERSATION = [SYSTEM, USER, asks("c1"), answers("c1", "here")]


def pooled(*ends: int) -> list[Json]:
    return [model(n, [], says("x"), input_refs=[[0, end]]) for n, end in enumerate(ends)]


def test_pooled_and_repeated_conversations_are_the_same(tmp_path: Path) -> None:
    repeated = only(tmp_path, [model(n, CONVERSATION[:n], says("x")) for n in (2, 4)])
    data = {"events_data": {"messages": CONVERSATION}}
    by_range = only(tmp_path, pooled(2, 4), **data)
    by_older_pool = only(tmp_path, pooled(2, 4), message_pool=CONVERSATION)
    for batch in (repeated, by_range, by_older_pool):
        assert [shown(call) for call in models(batch)] == [CONVERSATION[:2], CONVERSATION]
        first, second = (call.request for call in models(batch))
        assert first.system is second.system
        assert first.system is not None
        assert first.system.body == SYSTEM
        assert second.context is not None
        assert second.context.nodes()[0] is first.context


@pytest.mark.slow
def test_a_conversation_costs_only_what_is_new_in_it(tmp_path: Path) -> None:
    turns = 2000
    pool: list[Json] = [SYSTEM]
    for n in range(turns):
        pool += [says(f"{n}"), USER]
    events = pooled(*range(2, 2 * turns + 1, 2))
    batch = only(tmp_path, events, events_data={"messages": pool})
    nodes: set[int] = set()
    for call in models(batch):
        node: Context | None = call.request.context
        while node is not None and id(node) not in nodes:
            nodes.add(id(node))
            node = node.parent
    assert len(models(batch)) == turns
    assert len(nodes) == 2 * turns - 1


def test_an_agent_and_its_critic_take_turns_without_starting_over(tmp_path: Path) -> None:
    critic = {"role": "user", "content": "any good?"}
    events: list[Json] = [
        model(0, [USER], says("a")),
        model(2, [critic], says("b")),
        model(4, [USER, says("a"), USER], says("c")),
    ]
    first, _, third = models(only(tmp_path, events))
    assert third.request.context is not None
    assert third.request.context.nodes()[0] is first.request.context


@pytest.mark.parametrize("refs", [[[0, 9]], [[1, 0]], [["a", 2]], [[0, 2], [-3, 1]], "none"])
def test_ranges_outside_the_pool_are_left_out_and_said(tmp_path: Path, refs: Json) -> None:
    event = model(0, [], says("x"), input_refs=refs)
    (call,) = models(only(tmp_path, [event], events_data={"messages": CONVERSATION}))
    assert call.fidelity.level in (Level.PARTIAL, Level.NONE)


def test_attachments_are_put_back_everywhere(tmp_path: Path) -> None:
    image = {"type": "image", "image": "attachment://i"}
    given = {"role": "user", "content": [{"type": "text", "text": "attachment://t"}, image]}
    declared = [{"name": "look", "description": "tc://d", "parameters": {}}]
    event = model(0, [given], says("attachment://t"), tools=declared)
    texts = {"t": "long", "i": "data:image/png;base64,AA", "d": "looks"}
    (call,) = models(only(tmp_path, [event], attachments=texts))
    assert call.fidelity.level is Level.EXACT
    assert shown(call)[0]["content"] == [
        {"type": "text", "text": "long"},
        {"type": "image", "image": "data:image/png;base64,AA"},
    ]
    assert call.request.tools is not None
    assert call.request.tools[0].description == "looks"
    assert call.response.message is not None
    assert call.response.message.body["content"] == "long"


def test_a_request_is_exact_only_when_all_of_it_is_in_the_log(tmp_path: Path) -> None:
    lost = {"role": "user", "content": "attachment://gone"}
    dropped = {"role": "user", "content": [{"type": "image", "image": "<base64-data-removed>"}]}
    events: list[Json] = [
        model(0, [USER], says("x")),
        model(2, [USER, lost], says("x")),
        model(4, [USER, dropped], says("x")),
        model(6, [USER], says("x"), tools=None),
        model(8, [], says("x")),
    ]
    found = [call.fidelity for call in models(only(tmp_path, events))]
    assert [each.level.value for each in found] == ["exact"] + ["partial"] * 3 + ["none"]
    assert found[3].reasons == (NO_TOOLS,)


# --- model calls


def test_a_model_event_gives_request_answer_and_usage(tmp_path: Path) -> None:
    event = model(
        1,
        [USER],
        asks("c1"),
        uuid="m1",
        role="grader",
        retries=2,
        call={"request": {"model": "m", "messages": [], "max_tokens": 4096}, "response": {"id": 7}},
    )
    event["output"]["choices"][0]["stop_reason"] = "tool_calls"
    event["output"]["usage"] = {"input_tokens": 3, "output_tokens": 4, "total_cost": 0.5}
    (call,) = models(only(tmp_path, [event]))
    assert (call.id, call.place.span, call.agent) == ("m1", "m1", "grader")
    assert (call.request.model, call.response.model, call.response.id) == ("p/m", "m-1", "7")
    assert call.request.params == {"temperature": 0, "tool_choice": "auto"}
    assert (call.response.stop, call.response.stop_raw) == ("tool", "tool_calls")
    assert call.usage == Usage(input_tokens=3, output_tokens=4)
    assert call.cost == Cost(usd=0.5, source="recorded")
    assert call.extra == {"retries": 2, "sent": {"max_tokens": 4096}}
    assert (call.start_ns, call.end_ns, call.time_quality) == (NS + 10**9, NS + 2 * 10**9, "exact")


@pytest.mark.parametrize(
    ("given", "cache", "total", "means"),
    [
        (100, 50, 170, 150),  # the cache beside the input, as documented
        (100, 50, 120, 100),  # the record says that it is inside
        (10, 50, 30, 60),  # it cannot be inside
        (100, 50, None, 150),
        (100, None, 120, 100),
    ],
)
def test_input_tokens_are_the_total_with_the_cache(
    given: int, cache: int | None, total: int | None, means: int
) -> None:
    usage = read_usage(
        {
            "input_tokens": given,
            "output_tokens": 20,
            "input_tokens_cache_read": cache,
            "total_tokens": total,
        }
    )
    assert usage is not None
    assert usage.input_tokens == means


def test_an_answer_out_of_the_cache_cost_nothing(tmp_path: Path) -> None:
    (call,) = models(only(tmp_path, [model(0, [USER], says("x"), cache="read")]))
    assert call.cost == Cost(usd=0.0, source="recorded")
    assert call.extra["cache"] == "read"


def test_a_failed_call_and_a_pending_one_are_told_apart(tmp_path: Path) -> None:
    failed = model(0, [USER], None, error="overloaded", output={"model": "m", "choices": []})
    pending = model(2, [USER], None, pending=True, completed=None, output={"choices": []})
    one, two = models(only(tmp_path, [failed, pending]))
    assert (one.status, one.error, one.response.message) == ("error", "overloaded", None)
    assert (two.status, two.start_ns, two.end_ns) == ("unset", NS + 2 * 10**9, None)


def test_older_logs_tell_the_duration_and_the_oldest_only_the_end(tmp_path: Path) -> None:
    timed = model(1, [USER], says("x"), completed=None)
    timed["output"]["time"] = 2.5
    oldest = model(5, [USER], says("x"), completed=None)
    del oldest["working_start"]
    one, two = models(only(tmp_path, [timed, oldest]))
    assert one.end_ns == NS + 3_500_000_000
    assert one.time_quality == "derived"
    assert (two.start_ns, two.end_ns) == (None, NS + 5 * 10**9)


# --- tool calls


def newest() -> Iterator[Json]:
    """An agent calls a tool that starts another agent, which calls the same tool."""
    yield begin(0, "solver", "solver", "react")
    yield begin(0, "agent", "agent", "main", parent_id="solver")
    yield model(1, [USER], asks("c1"), span_id="agent", uuid="m1")
    yield begin(2.5, "t1", "tool", "look", parent_id="agent")
    yield tool(2.4, "c1", "inner says", span_id="agent", completed=at(9), agent_span_id="sub")
    yield begin(3, "sub", "agent", "helper", parent_id="t1")
    yield model(4, [USER], asks("c1"), span_id="sub", uuid="m2")
    yield begin(5.5, "t2", "tool", "look", parent_id="sub")
    yield tool(5.4, "c1", "found", span_id="sub", completed=at(7))
    yield {"event": "sandbox", "timestamp": at(6), "action": "exec", "cmd": "ls", "span_id": "t2"}
    yield end(6.5, "t2")
    yield model(7, [USER, asks("c1"), answers("c1", "found")], says("x"), span_id="sub", uuid="m3")
    yield end(8, "sub")
    yield end(8.5, "t1")
    yield model(10, [USER, asks("c1")], says("done"), span_id="agent", uuid="m4")
    yield end(11, "agent")


def test_a_tool_event_and_its_span_are_one(tmp_path: Path) -> None:
    batch = only(tmp_path, list(newest()))
    outer, inner = tools(batch)
    assert (outer.id, outer.parent, outer.asked_by) == ("t1", "agent", "m1")
    assert (inner.id, inner.parent, inner.asked_by) == ("t2", "sub", "m2")
    assert (outer.start_ns, outer.end_ns) == (NS + 2_400_000_000, NS + 9 * 10**9)
    assert named(batch, "helper").parent == "t1"
    assert named(batch, "sandbox exec").parent == "t2"
    steps, loose, plan = build(batch.spans)
    assert [step.thread for step in steps] == ["agent", "sub", "sub", "agent"]
    assert (loose, plan.orphans) == ((), ())


def test_an_answer_is_the_message_shown_later_or_made_from_the_event(tmp_path: Path) -> None:
    batch = only(tmp_path, list(newest()))
    outer, inner = tools(batch)
    later = next(call for call in models(batch) if call.id == "m3")
    assert inner.observation is not None
    assert later.request.context is not None
    assert inner.observation.message is later.request.context.message
    assert outer.observation is not None
    assert outer.observation.message.body == answers("c1", "inner says")


def test_a_handed_over_agent_hangs_below_the_tool_that_handed_over(tmp_path: Path) -> None:
    events: list[Json] = [
        begin(0, "agent", "agent", "main"),
        model(1, [USER], asks("c1", "transfer"), span_id="agent", uuid="m1"),
        begin(2, "wrap", "handoff", "transfer", parent_id="agent"),
        begin(2, "t1", "tool", "transfer", parent_id="wrap"),
        tool(2, "c1", "", function="transfer", span_id="agent", completed=at(6)),
        end(2, "t1"),
        begin(3, "sub", "agent", "other", parent_id="wrap"),
        model(4, [USER, asks("c1", "transfer"), answers("c1", "yours")], says("x"), span_id="sub"),
    ]
    batch = only(tmp_path, events)
    (transfer,) = tools(batch)
    assert (transfer.id, transfer.parent, transfer.asked_by) == ("t1", "agent", "m1")
    assert named(batch, "other").parent == "t1"
    assert transfer.observation is not None
    assert observed(transfer.observation).text == "yours"


def test_parallel_calls_of_one_tool_find_their_own_spans(tmp_path: Path) -> None:
    events: list[Json] = [
        model(1, [USER], {**asks("a"), "tool_calls": [asks(n)["tool_calls"][0] for n in "ab"]}),
        begin(3.1, "ta", "tool", "look"),
        begin(3.2, "tb", "tool", "look"),
        tool(3, "a", "A", completed=at(5)),
        tool(3, "b", "B", completed=at(6)),
    ]
    found = tools(only(tmp_path, events))
    assert [(span.call_id, span.id) for span in found] == [("a", "ta"), ("b", "tb")]


def test_steps_and_nested_events_of_older_logs_make_the_tree(tmp_path: Path) -> None:
    inner = [model(3, [SYSTEM, USER], asks("c2")), tool(4, "c2", "deep")]
    events: list[Json] = [
        step("begin", "unused"),
        step("end", "unused"),
        step("begin", "loop"),
        model(1, [USER], asks("c1")),
        tool(2, "c1", "flat", events=inner),
        {"event": "state", "timestamp": at(6), "changes": [{"op": "add", "path": "/x"}]},
        step("end", "loop"),
        step("begin", "includes", "scorer"),
        step("end", "includes", "scorer"),
    ]
    batch = only(tmp_path, events)
    loop = named(batch, "loop")
    assert isinstance(loop, OtherSpan)
    assert loop.operation == "solver"
    assert {span.name for span in batch.spans} == {"demo", "loop", "chat", "look", "state"}
    outer, deep = tools(batch)
    assert outer.parent == named(batch, "state").parent == loop.id
    assert (outer.end_ns, outer.time_quality) == (NS + 6 * 10**9, "derived")
    thread = next(span for span in batch.spans if span.parent == outer.id)
    assert isinstance(thread, AgentSpan)
    assert deep.parent == thread.id
    assert named(batch, "state").extra == {"changes": [{"op": "add", "path": "/x"}]}


def test_what_went_wrong_in_a_tool_is_kept(tmp_path: Path) -> None:
    broken = asks("c2")
    broken["tool_calls"][0] |= {"arguments": {"look": "{oops"}, "parse_error": "not JSON"}
    events: list[Json] = [
        model(0, [USER], asks("c1")),
        tool(2, "c1", "", error={"type": "timeout", "message": "too slow"}),
        model(3, [USER], broken),
        tool(4, "c2", "", arguments={"look": "{oops"}, error={"type": "parsing", "message": "no"}),
    ]
    slow, unread = tools(only(tmp_path, events))
    assert (slow.status, slow.error, slow.extra["error_type"]) == ("error", "too slow", "timeout")
    assert slow.observation is not None
    assert observed(slow.observation).text == "too slow"
    assert unread.arguments is None
    assert "{oops" in (unread.arguments_raw or "")


def test_a_call_that_was_never_run_is_kept_without_an_answer(tmp_path: Path) -> None:
    limit = {"event": "sample_limit", "timestamp": at(3), "type": "message", "limit": 4}
    events = [model(1, [USER], asks("c1", at=2), uuid="m1"), limit]
    batch = only(tmp_path, events, limit={"type": "message", "limit": 4})
    (call,) = tools(batch)
    assert (call.asked_by, call.arguments, call.observation) == ("m1", {"at": 2}, None)
    assert named(batch, "sample_limit message").extra == {"type": "message", "limit": 4}
    assert batch.spans[0].extra["limit"] == {"type": "message", "limit": 4}


# --- scores and headers


def test_a_scorer_that_asks_a_model_is_a_thread_of_its_own(tmp_path: Path) -> None:
    events: list[Json] = [
        begin(0, "solve", "solver", "generate"),
        model(1, [USER], says("x"), span_id="solve"),
        begin(3, "grade", "scorer", "graded"),
        model(4, [USER], says("GRADE: C"), span_id="grade"),
    ]
    batch = only(tmp_path, events)
    steps, _, _ = build(batch.spans)
    assert [step.thread for step in steps] == ["u", "grade"]


@pytest.mark.parametrize(
    ("value", "status", "number"),
    [
        ("C", "passed", 1.0),
        ("I", "failed", 0.0),
        ("P", "failed", 0.5),
        ("N", "failed", 0.0),
        (True, "passed", 1.0),
        (0, "failed", 0.0),
        (0.7, "failed", 0.7),
        (42.5, "unknown", 42.5),
        ("great", "unknown", None),
        (None, "unknown", None),
    ],
)
def test_the_first_scorer_decides(tmp_path: Path, value: Json, status: str, number: Json) -> None:
    scores = {"first": {"value": value, "explanation": "why"}, "second": {"value": "C"}}
    batch = only(tmp_path, [], scores=scores)
    outcome = batch.header.outcome
    assert (outcome.status, outcome.by) == (status, "first")
    assert [(score.name, score.value) for score in batch.scores] == [
        ("first", number),
        ("second", 1.0),
    ]


def test_scores_of_events_count_where_the_sample_has_none(tmp_path: Path) -> None:
    events: list[Json] = [
        model(1, [USER], says("x"), uuid="m1"),
        {"event": "score", "timestamp": at(3), "score": {"value": "I"}, "intermediate": True},
        step("begin", "includes", "scorer"),
        {"event": "score", "timestamp": at(4), "score": {"value": {"a": 1, "b": 0.5}}},
        step("end", "includes", "scorer"),
    ]
    batch = only(tmp_path, events)
    assert batch.header.outcome.status == "unknown"
    assert [(score.name, score.by, score.span, score.value) for score in batch.scores] == [
        ("includes.a", "includes", None, 1.0),
        ("includes.b", "includes", None, 0.5),
        ("score", "score", "m1", 0.0),
    ]


def test_the_header_names_the_run(tmp_path: Path) -> None:
    given = [SYSTEM, {"role": "user", "content": "attachment://q"}]
    usage = {"p/m": {"total_cost": 0.25}, "p/n": {"total_cost": 0.5}}
    batch = only(
        tmp_path,
        [],
        input=given,
        attachments={"q": "\n First line \nsecond"},
        target="shipped",
        error={"message": "boom", "traceback": "…"},
        model_usage=usage,
        started_at=at(1),
        completed_at=at(9),
    )
    header, root = batch.header, batch.spans[0]
    assert (header.source_id, header.item, header.agent) == ("u", "s/1", "demo")
    assert (header.task, header.trial, header.title) == ("s", "1", "demo: First line")
    assert header.labels == {"model": "p/m", "eval_id": "eval", "run_id": "run"}
    assert header.reference == {"target": "shipped"}
    assert header.reported_cost_usd == 0.75
    assert (header.start_ns, header.end_ns) == (NS + 10**9, NS + 9 * 10**9)
    assert (root.id, root.status, root.error) == ("u", "error", "boom")
    assert header.outcome.status == "unknown"


# --- samples without events


def test_messages_alone_become_calls(tmp_path: Path) -> None:
    output = {
        "model": "m-1",
        "choices": [{"stop_reason": "stop"}],
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }
    messages = [*CONVERSATION, says("done")]
    batch = only(tmp_path, [], messages=messages, output=output)
    first, last = models(batch)
    assert shown(first) == CONVERSATION[:2]
    assert shown(last) == CONVERSATION
    assert (first.usage, last.usage) == (None, Usage(input_tokens=9, output_tokens=2))
    assert last.fidelity.reasons == (NO_TOOLS,)
    (call,) = tools(batch)
    assert call.asked_by == first.id
    assert call.observation is not None
    assert call.place.message == 2


# --- broken logs


def test_a_crashed_log_is_read_from_its_journal(tmp_path: Path) -> None:
    members = {"samples/s_epoch_1.json": sample([])}
    (batch,), tally = load(write_eval(tmp_path, members, header="_journal/start.json"))
    assert batch.header.agent == "demo"
    assert tally.problems == []


def test_a_log_without_a_header_still_gives_its_samples(tmp_path: Path) -> None:
    (batch,), tally = load(
        write_eval(tmp_path, {"samples/s_epoch_1.json": sample([])}, header=None)
    )
    assert (batch.header.source_id, batch.header.agent) == ("u", None)
    assert [problem.where for problem in tally.problems] == ["header.json"]


@pytest.mark.parametrize("make", [write_log, lambda folder: write_eval(folder, {})])
def test_a_log_of_no_samples_is_no_error(tmp_path: Path, make: Any) -> None:
    batches, tally = load(make(tmp_path))
    assert batches == []
    assert [(each.where, each.why) for each in tally.problems] == [("samples", "none in the log")]


def test_a_broken_sample_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    members = {"samples/a.json": '{"id": 1, "events": [', "samples/b.json": sample([])}
    batches, tally = load(write_eval(tmp_path, members))
    assert len(batches) == 1
    assert [problem.where for problem in tally.problems] == ["samples/a.json"]


def test_a_log_whose_samples_are_all_broken_is_refused(tmp_path: Path) -> None:
    path = write_eval(tmp_path, {"samples/a.json": "{", "samples/b.json": "["})
    with pytest.raises(BadTrace, match=r"samples/a\.json"):
        load(path)


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    members = {"samples/a.json": sample([]), "samples/b.json": sample([])}
    path = write_eval(tmp_path, members, method=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b'"id": "s"', b'"id": "t"', 1))
    batches, tally = load(path)
    assert len(batches) == 1
    (problem,) = tally.problems
    assert problem.where == "samples/a.json"
    assert "CRC" in problem.why


def test_a_member_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    members = {"samples/a.json": sample([]), "samples/b.json": sample([])}
    path = write_eval(tmp_path, members)
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"samples/a.json"))
    data[entry + 24 : entry + 28] = (2**31).to_bytes(4, "little")
    path.write_bytes(data)
    batches, tally = load(path)
    assert len(batches) == 1
    assert [(each.where, each.why) for each in tally.problems] == [
        ("samples/a.json", "is larger than 1 GiB decompressed")
    ]


def test_a_document_with_nan_is_read(tmp_path: Path) -> None:
    batch = only(tmp_path, [], scores={"first": {"value": float("nan")}})
    assert batch.header.outcome.status == "unknown"


def test_odd_fields_are_left_out_and_the_rest_is_read(tmp_path: Path) -> None:
    odd: list[Json] = [
        7,
        {"event": "model", "input": [3, {"role": "user"}], "tools": [1], "output": {"choices": 5}},
        {"event": "model", "span_id": ["x"], "output": None, "config": [], "call": "x"},
        {"event": "tool", "id": {"a": 1}, "function": None, "arguments": "{bad", "events": {}},
        {"event": "state", "span_id": "never begun"},
        {"event": "from the future", "uuid": "same", "detail": 1},
        {"event": "span_end", "id": "never begun"},
        step("end", "never begun"),
        begin(0, "same", "agent", "twice"),
        begin(0, "same", "agent", "twice"),
        model(1, [USER], says("x"), span_id="same"),
    ]
    batches, tally = load(write_log(tmp_path, sample(odd), "no sample", sample([], epoch=2)))
    first, second = batches
    assert second.header.item == "s/2"
    assert len(models(first)) == 3
    assert tools(first)[0].arguments_raw == "{bad"
    ids = [span.id for span in first.spans]
    assert len(ids) == len(set(ids))
    assert build(first.spans)[2].orphans == ()
    assert tally.unknown == {"event from the future": 1}
    assert {problem.where for problem in tally.problems} == {
        "samples[0] event 0",
        "samples[0]",
        "samples[1]",
    }


def test_a_sample_nested_too_deeply_is_named(tmp_path: Path) -> None:
    deep: Json = []
    for _ in range(600):
        deep = [deep]
    batches, tally = load(
        write_log(tmp_path, sample([], metadata={"deep": deep}), sample([], epoch=2))
    )
    assert [batch.header.item for batch in batches] == ["s/2"]
    assert tally.problems[0].where == "samples[0]"


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"PK\x03\x04", b'{"version":2,"eval":{']))
def test_any_bytes_give_traces_or_a_bad_trace(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, begins: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "x.eval"
    path.write_bytes(begins + data)
    with suppress(BadTrace):
        list(inspect.read(Source(path), Tally()))


# --- real logs


def real_logs() -> list[Path]:
    found = [*DATA.rglob("*.eval"), *DATA.rglob("*.json")] if DATA.is_dir() else []
    return sorted(path for path in found if inspect.sniff(Source(path).head))


@needs_shared
@pytest.mark.slow
def test_real_logs_hold_as_many_events_as_expected() -> None:
    expected = json.loads((DATA / "expected.json").read_bytes())
    rows = {name: row for name, row in expected.items() if row["format"] == "inspect .eval"}
    assert len(rows) == 11
    for name, row in rows.items():
        _, tally = load(DATA / name)
        assert tally.counts == {key: row[key] for key in ("samples", "events", "tool_events")}, name
        assert (tally.problems, dict(tally.unknown)) == ([], {}), name


@needs_shared
def test_only_logs_are_claimed() -> None:
    names = [path.relative_to(DATA).as_posix() for path in real_logs()]
    assert not [name for name in names if "test_skeleton" in name or "expected" in name]
    assert {name.split("/")[0] for name in names} == {"clients", "docent", "formats", "inspect_ai"}
    assert len([name for name in names if name.startswith("inspect_ai/")]) == 21


@needs_shared
@pytest.mark.parametrize("path", real_logs(), ids=lambda path: path.name)
@pytest.mark.slow
def test_every_call_of_a_real_log_shows_what_the_log_says(path: Path) -> None:
    batches, _ = load(path)
    for batch, logged in zip(batches, _samples(path), strict=True):
        spans = {span.id for span in batch.spans}
        assert len(spans) == len(batch.spans)
        calls = models(batch)
        assert [shown(call) for call in calls] == list(_inputs(logged))
        assert all(call.fidelity.level is Level.EXACT for call in calls)
        for call in tools(batch):
            assert call.observation is not None
            assert call.asked_by in spans or not calls


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".json":
        yield from json.loads(path.read_bytes()).get("samples") or ()
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("samples/"):
                yield json.loads(archive.read(name))


def _inputs(logged: dict[str, Any]) -> Iterator[list[Json]]:
    """The input of every model event, read anew: pools and attachments put back by text."""
    kept = logged.get("transcript") or {}
    texts = {**(kept.get("content") or {}), **(logged.get("attachments") or {})}
    pool = (logged.get("events_data") or {}).get("messages") or logged.get("message_pool")

    def whole(value: Json) -> Json:
        encoded = json.dumps(value)
        for key, text in texts.items():
            for scheme in ("attachment", "tc"):
                encoded = encoded.replace(f'"{scheme}://{key}"', json.dumps(text))
        return json.loads(encoded)

    for event in logged.get("events") or kept.get("events") or ():
        if event["event"] == "model":
            ranges = event.get("input_refs") or ()
            named = [body for start, stop in ranges for body in (pool or ())[start:stop]]
            yield whole(event["input"] or named)


@needs_shared
def test_a_real_log_with_a_sub_agent_reads_as_by_hand() -> None:
    (batch,), _ = load(DATA / "formats/inspect/generated_react_subagent.eval")
    assert [len(shown(call)) for call in models(batch)] == [2, 4, 6, 2, 4, 8]
    steps, loose, _ = build(batch.spans)
    assert loose == ()
    names = {span.id: span.name for span in batch.spans}
    assert [(names[step.thread], [act.name for act in step.acts]) for step in steps] == [
        ("react", ["get_order"]),
        ("react", ["get_order"]),
        ("react", ["researcher"]),
        ("researcher", ["get_order"]),
        ("researcher", ["submit"]),
        ("react", ["submit"]),
    ]
    assert [act.error for step in steps for act in step.acts] == ["no such order", *[None] * 5]
    assert steps[0].ask.usage is not None
    assert steps[0].ask.usage.input_tokens == 150
    assert batch.header.outcome.status == "passed"


@needs_shared
def test_a_real_log_with_steps_reads_as_by_hand() -> None:
    batches, _ = load(DATA / "docent/log.eval")
    batch = batches[0]
    assert (batch.header.task, batch.header.outcome.status) == ("15", "failed")
    assert [len(shown(call)) for call in models(batch)] == [2, 4, 6, 8, 10, 13, 15, 17, 20, 22]
    called = ["bash", "bash", "python", "python", "submit", "python", "python", "submit"]
    assert [call.name for call in tools(batch)] == [*called, "python", "submit"]
    assert [call.asked_by for call in tools(batch)] == [call.id for call in models(batch)]
    passed = [batch.header.outcome.status for batch in batches].count("passed")
    assert passed == 9


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"arc.golden": "3 0123456789abcdef"}},
        {"tags": ["nightly", "arc.golden=3 0123456789abcdef"]},
        {"metadata": {"arc.golden": "3 0123456789abcdef"}, "tags": ["arc.golden=2 0"]},
    ],
)
def test_an_evaluation_names_the_golden_set_that_it_measures(tmp_path: Path, more: Json) -> None:
    log = {"version": 2, "status": "success", "eval": {**SPEC, **more}, "samples": [sample([])]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    (batch,), _ = load(tmp_path / "log.json")
    assert batch.header.labels["arc.golden"] == "3 0123456789abcdef"
