"""Logs of the Messages API: pairs, claude-trace, batches, streams of events.

The logs are written here in the shapes that claude-trace and the API document; `pairs`,
`claude_trace_shape` and `batch_results` among the shared samples were written from the types of the
SDK, `threads_beta_pairs` was captured.
"""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import formats
from replay.errors import BadTrace
from replay.formats import anthropic_log
from replay.formats.anthropic_log.exchanges import assembled, of_text
from replay.formats.source import HEAD_BYTES, Head, Source, Tally
from replay.messages import observed, text
from replay.steps import build
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Level, ModelCall
from tests.replay.kinds import agents, models, tools
from tests.shared import DATA, needs_shared

Json = Any
SAMPLES = DATA / "formats/anthropic-messages"
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
TOOLS = [{"name": "Bash", "description": "Run", "input_schema": {"type": "object"}}]
SECRET = "sk-ant-api03-not-to-be-kept"


def words(said: str, **more: Json) -> Json:
    return {"type": "text", "text": said, **more}


def call(id: str, name: str = "Bash", **arguments: Json) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def user(*content: Json) -> Json:
    only = content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)
    return {"role": "user", "content": only}


def result(id: str, said: str, **more: Json) -> Json:
    return user({"type": "tool_result", "tool_use_id": id, "content": said, **more})


def answer(id: str, *content: Json, stop: str = "end_turn") -> Json:
    return {
        "id": id, "type": "message", "role": "assistant", "model": "claude-x",
        "content": list(content), "stop_reason": stop, "usage": USAGE,
    }  # fmt: skip


def back(message: Json) -> Json:
    """An answer as a client sends it back."""
    return {"role": "assistant", "content": message["content"]}


def request(*messages: Json, **fields: Json) -> Json:
    return {
        "model": "claude", "max_tokens": 9, "system": "Be kind.", "tools": TOOLS,
        "messages": list(messages), **fields,
    }  # fmt: skip


def pair(asked: Json, response: Json, **fields: Json) -> Json:
    return {"request": asked, "response": response, **fields}


def http(asked: Json, response: Json, at: float = 100.0, **fields: Json) -> Json:
    url = fields.pop("url", "https://api.anthropic.com/v1/messages?beta=true")
    headers = {"x-api-key": SECRET, "authorization": f"Bearer {SECRET}"}
    outer = {"timestamp": at, "method": "POST", "url": url, "headers": headers, "body": asked}
    came = None
    if response is not None:
        status = response.pop("status_code", 200)
        held = response if response.keys() & {"body_raw", "events"} else {"body": response}
        came = {"timestamp": at + 2, "status_code": status, "headers": headers, **held}
        came["headers"] = {**headers, "Request-Id": "req_1"}
    return {"request": outer, "response": came, **fields}


def sse(message: Json, *, upto: int | None = None) -> str:
    """A message as the events it is sent in, or the first of them."""
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    ]
    for at, block in enumerate(message["content"]):
        kind = block["type"]
        empty = {**block, **({"input": {}} if kind == "tool_use" else {kind: ""})}
        events.append({"type": "content_block_start", "index": at, "content_block": empty})
        whole = json.dumps(block["input"]) if kind == "tool_use" else block[kind]
        name = {"tool_use": "input_json_delta"}.get(kind, f"{kind}_delta")
        field = {"tool_use": "partial_json"}.get(kind, kind)
        for part in (whole[:3], whole[3:]):
            delta = {"type": name, field: part}
            events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    events.append({"type": "ping"})
    end = {"stop_reason": message["stop_reason"]}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events[:upto])


def written(path: Path, *records: Json) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


def imported(path: Path) -> tuple[list[Batch], Tally]:
    tally = Tally()
    return list(anthropic_log.read(Source(path), tally)), tally


def log(tmp_path: Path, *records: Json) -> tuple[list[Batch], Tally]:
    return imported(written(tmp_path / "log.jsonl", *records))


def only(tmp_path: Path, *records: Json) -> Batch:
    (batch,), _ = log(tmp_path, *records)
    assert batch.last
    return batch


def shown(span: ModelCall) -> list[str]:
    context = span.request.context
    return [text(message) for message in context.messages()] if context else []


def talk() -> list[Json]:
    """A question, a tool call, its result, an answer: as two calls."""
    asks = answer("msg_1", words("Let me see."), call("t1", cmd="ls"), stop="tool_use")
    done = answer("msg_2", words("Two files."))
    first = request(user("What is here?"))
    return [pair(first, asks), pair(request(*first["messages"], back(asks), _seen()), done)]


def _seen() -> Json:
    return result("t1", "a b")


# What is a call


def test_calls_of_one_conversation_are_one_run_with_exact_requests(tmp_path: Path) -> None:
    batch = only(tmp_path, *talk())
    first, second = models(batch)
    assert [first.id, second.id] == ["msg_1", "msg_2"]
    assert {span.fidelity.level for span in models(batch)} == {Level.EXACT}
    assert shown(second) == ["What is here?", "Let me see.", "a b"]
    assert first.request.system is not None
    assert text(first.request.system) == "Be kind."
    assert [each.name for each in first.request.tools or ()] == ["Bash"]
    assert (first.request.model, first.response.model) == ("claude", "claude-x")
    assert first.request.params == {"max_tokens": 9}
    assert (first.response.stop, second.response.stop) == ("tool", "end")
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.output_tokens) == (100, 5)
    (tool,) = tools(batch)
    assert (tool.name, tool.asked_by, tool.arguments) == ("Bash", "msg_1", {"cmd": "ls"})
    assert tool.observation is not None
    assert observed(tool.observation).text == "a b"
    assert (tool.status, batch.header.title) == ("ok", "What is here?")
    steps, loose, plan = build(batch.spans)
    assert (len(steps), loose, plan.orphans) == (2, (), ())


def test_what_two_requests_share_is_held_once(tmp_path: Path) -> None:
    first, second = models(only(tmp_path, *talk()))
    assert first.request.context is not None
    assert second.request.context is not None
    assert second.request.context.nodes()[0] is first.request.context
    assert second.request.system is first.request.system
    assert second.request.tools is first.request.tools


def test_claude_traces_http_is_read_without_its_headers(tmp_path: Path) -> None:
    one, two = talk()
    records = [http(one["request"], one["response"]), http(two["request"], two["response"], 110)]
    batch = only(tmp_path, *records)
    first, second = models(batch)
    assert (first.start_ns, first.end_ns) == (100 * 10**9, 102 * 10**9)
    assert first.time_quality == "exact"
    assert first.extra == {"request_id": "req_1"}
    (tool,) = tools(batch)
    assert (tool.start_ns, tool.end_ns, tool.time_quality) == (
        first.end_ns, second.start_ns, "derived",
    )  # fmt: skip
    assert SECRET.encode() not in msgspec.json.encode(batch)
    assert (batch.header.start_ns, batch.header.end_ns) == (100 * 10**9, 112 * 10**9)


@pytest.mark.parametrize(
    "told",
    [
        {"started_at": "1970-01-01T00:00:02Z", "ended_at": "1970-01-01T00:00:05.5Z"},
        {"started_at": 2, "ended_at": 5.5},
        {"started_at": 2.0, "duration_ms": 3500},
    ],
)
def test_a_pair_tells_its_times_in_several_ways(tmp_path: Path, told: Json) -> None:
    (span,) = models(only(tmp_path, pair(request(user("hi")), answer("m", words("ho")), **told)))
    assert (span.start_ns, span.end_ns) == (2 * 10**9, 5_500_000_000)


def test_a_person_who_asked_is_not_kept(tmp_path: Path) -> None:
    asked = request(user("hi"), metadata={"user_id": "someone@example.org"})
    batch = only(tmp_path, pair(asked, answer("m", words("ho"))))
    assert b"someone" not in msgspec.json.encode(batch)


def test_other_requests_to_the_server_are_counted_and_no_calls(tmp_path: Path) -> None:
    counting = "https://api.anthropic.com/v1/messages/count_tokens"
    one, two = talk()
    (batch,), tally = log(
        tmp_path, http(one["request"], {"input_tokens": 3}, url=counting), one, two
    )
    assert len(models(batch)) == 2
    assert tally.counts["other requests"] == 1
    assert tally.counts["calls"] == 2


def test_a_declined_request_is_a_failed_call(tmp_path: Path) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    one, two = talk()
    declined = http(one["request"], {**error, "status_code": 529})
    batch = only(tmp_path, declined, one, two)
    failed, first, second = models(batch)
    assert (failed.status, failed.error) == ("error", "HTTP 529: overloaded_error: Overloaded")
    assert failed.response.message is None
    assert failed.usage is None
    assert failed.extra["status_code"] == 529
    assert first.extra == {"retry": True}
    assert shown(failed) == shown(first)
    assert {span.parent for span in models(batch)} == {batch.spans[0].id}
    assert second.status == "ok"


def test_a_web_page_instead_of_an_answer_is_an_error_with_its_words(tmp_path: Path) -> None:
    page = {"body_raw": "<html>Bad gateway</html>", "status_code": 502}
    (span,) = models(only(tmp_path, http(request(user("hi")), page)))
    assert span.error == "HTTP 502: <html>Bad gateway</html>"


def test_a_request_without_an_answer_is_neither_good_nor_bad(tmp_path: Path) -> None:
    orphan = http(request(user("hi")), None, note="ORPHANED_REQUEST")
    (batch,), tally = log(tmp_path, orphan)
    (span,) = models(batch)
    assert (span.status, span.error, span.response.message) == ("unset", None, None)
    assert (span.start_ns, span.end_ns, span.time_quality) == (100 * 10**9, None, "none")
    assert span.extra == {"note": "ORPHANED_REQUEST"}
    assert tally.counts["without an answer"] == 1


def test_a_model_behind_bedrock_is_named_by_its_address(tmp_path: Path) -> None:
    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-x%3A0/invoke"
    asked = request(user("hi"))
    del asked["model"]
    (span,) = models(only(tmp_path, http(asked, answer("m", words("ho")), url=url)))
    assert span.request.model == "anthropic.claude-x:0"


def test_no_tools_offered_and_tools_unknown_are_two_things(tmp_path: Path) -> None:
    asked = request(user("hi"))
    del asked["tools"]
    (span,) = models(only(tmp_path, pair(asked, answer("m", words("ho")))))
    assert span.request.tools == ()
    (span,) = models(only(tmp_path, answer("m", words("ho"))))
    assert span.request.tools is None


# Which calls belong together


def test_how_a_client_writes_an_answer_back_does_not_part_a_conversation(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    asks = answer("msg_1", thinking, words("Let me see. ", citations=None), call("t1", cmd="ls"))
    marked = words("What is here?", cache_control={"type": "ephemeral"})
    again = user(words("What is here?"))
    brought = [back(answer("", words("Let me see."), call("t1", cmd="ls"))), _seen()]
    batch = only(
        tmp_path,
        pair(request(user(marked)), asks),
        pair(request(again, *brought), answer("msg_2", words("Two."))),
    )
    first, second = models(batch)
    assert second.request.context is not None
    assert second.request.context.nodes()[0] is first.request.context
    assert len(agents(batch)) == 1


def test_runs_that_begin_with_the_same_words_stay_apart(tmp_path: Path) -> None:
    one, two = talk()
    other, end = copy.deepcopy(one), copy.deepcopy(two)
    other["response"]["id"], end["response"]["id"] = "msg_3", "msg_4"
    batches, _ = log(tmp_path, one, other, two, end)
    ids = sorted([span.id for span in models(batch)] for batch in batches)
    # Their answers are the same words too: either may have been gone on from, each was once.
    assert ids == [["msg_1", "msg_4"], ["msg_3", "msg_2"]]
    assert len({batch.header.source_id for batch in batches}) == 2


def test_runs_that_take_turns_in_a_log_are_told_apart(tmp_path: Path) -> None:
    one, two = talk()
    text_ = json.dumps([one, two]).replace("What is here?", "And there?").replace("msg_", "n_")
    three, four = json.loads(text_.replace('"t1"', '"t9"'))
    batches, _ = log(tmp_path, one, three, two, four)
    assert [[span.id for span in models(batch)] for batch in batches] == [
        ["msg_1", "msg_2"],
        ["n_1", "n_2"],
    ]
    assert [batch.header.title for batch in batches] == ["What is here?", "And there?"]


def test_a_branch_hangs_below_the_thread_it_left(tmp_path: Path) -> None:
    one, two = talk()
    asked = request(*one["request"]["messages"], back(one["response"]), result("t1", "c"))
    other = pair(asked, answer("msg_3", words("One file.")))
    batch = only(tmp_path, one, two, other)
    root, branch = agents(batch)
    assert (branch.name, branch.parent) == ("branch", root.id)
    assert {span.id: span.parent for span in models(batch)} == {
        "msg_1": root.id,
        "msg_2": branch.id,  # the way to the newest call is the thread
        "msg_3": root.id,
    }


def test_a_conversation_whose_history_was_rewritten_is_known_by_its_calls(tmp_path: Path) -> None:
    one, two = talk()
    two["request"]["messages"][0] = user("What is here? (reminder taken out)")
    batch = only(tmp_path, one, two)
    assert [span.id for span in models(batch)] == ["msg_1", "msg_2"]
    assert tools(batch)[0].observation is not None


def test_a_sub_agent_hangs_below_the_call_that_sent_it(tmp_path: Path) -> None:
    prompt = "Find every file that mentions the order."
    sends = answer("m1", call("t1", "Task", prompt=prompt, subagent_type="Explore"))
    told = request(user(words("<system-reminder>be kind</system-reminder>"), words(prompt)))
    asks = answer("s1", call("t2", cmd="grep"))
    first = request(user("Where is it?"))
    batch = only(
        tmp_path,
        pair(first, sends),
        pair(told, asks),
        pair(request(*told["messages"], back(asks), result("t2", "x.py")), answer("s2")),
        pair(request(*first["messages"], back(sends), result("t1", "x.py")), answer("m2")),
    )
    root, sub = agents(batch)
    task = next(span for span in tools(batch) if span.name == "Task")
    assert (sub.parent, sub.name) == (task.id, "Explore")
    parents = {span.id: span.parent for span in models(batch)}
    assert parents == {"m1": root.id, "s1": sub.id, "s2": sub.id, "m2": root.id}
    assert all(span.observation is not None for span in tools(batch))
    assert build(batch.spans)[2].orphans == ()


def session_of(*messages: Json, **fields: Json) -> Json:
    named = "user_ab_account_cd_session_11111111-2222-4333-8444-555555555555"
    return request(*messages, metadata={"user_id": named}, **fields)


def test_calls_that_name_their_session_are_one_run_with_its_id(tmp_path: Path) -> None:
    asks = answer("m1", call("t1", cmd="ls"), stop="tool_use")
    first = session_of(user("What is here?"))
    batch = only(
        tmp_path,
        pair(session_of(user("Give it a title"), tools=[]), answer("h1", words("Files"))),
        pair(first, asks),
        pair(session_of(*first["messages"], back(asks), _seen()), answer("m2", words("Two."))),
        pair(session_of(user("The story so far: two files.")), answer("m3", words("Go on."))),
    )
    root, side = agents(batch)
    assert side.name == "side conversation"
    parents = {span.id: span.parent for span in models(batch)}
    assert parents == {"h1": side.id, "m1": root.id, "m2": root.id, "m3": root.id}
    assert batch.header.run == "11111111-2222-4333-8444-555555555555"
    assert batch.header.labels == {"session": batch.header.run}


def test_a_log_that_begins_in_the_middle_shows_the_rest_as_context(tmp_path: Path) -> None:
    batch = only(tmp_path, talk()[1])
    (span,) = models(batch)
    assert shown(span) == ["What is here?", "Let me see.", "a b"]
    assert tools(batch) == []


def test_a_thread_on_the_server_is_put_together_again(tmp_path: Path) -> None:
    asks = answer("m1", call("t1", cmd="ls"))
    begun = request(user("What is here?"), thread={"type": "create"})
    delta = {"model": "claude", "max_tokens": 9, "messages": [_seen()]}
    delta["thread"] = {"type": "continue", "previous_message_id": "m1"}
    batch = only(tmp_path, pair(begun, asks), pair(delta, answer("m2", words("Two."))))
    first, second = models(batch)
    assert shown(second) == ["What is here?", "", "a b"]
    assert second.request.system is first.request.system
    assert second.request.tools is first.request.tools
    assert (first.fidelity.level, second.fidelity.level) == (Level.EXACT, Level.REBUILT)
    assert tools(batch)[0].observation is not None


def test_a_thread_whose_beginning_is_not_in_the_log_says_so(tmp_path: Path) -> None:
    delta = {"model": "claude", "max_tokens": 9, "messages": [_seen()]}
    delta["thread"] = {"type": "continue", "previous_message_id": "gone"}
    (span,) = models(only(tmp_path, pair(delta, answer("m2", words("Two.")))))
    assert span.fidelity.level is Level.PARTIAL
    assert span.fidelity.reasons == (
        "earlier messages of the thread not recorded",
        "system prompt not recorded",
        "tool definitions not recorded",
    )


def test_a_call_that_is_logged_twice_is_told_once(tmp_path: Path) -> None:
    one, two = talk()
    (batch,), tally = log(tmp_path, one, one, two, two)
    assert len(models(batch)) == 2
    assert tally.counts["repeated"] == 2


def test_a_log_that_grows_is_the_same_run(tmp_path: Path) -> None:
    store, verdicts = Store.open(":memory:"), []
    records = talk()
    for length in (1, 2, 2):
        writer = Writer(store)
        batch = only(tmp_path, *records[:length])
        verdicts.append(writer.finish(writer.write(batch)).verdict)
    assert verdicts == ["new", "grown", "duplicate"]


# Streams, batches, documents


def test_a_streamed_answer_is_put_together(tmp_path: Path) -> None:
    said = answer("m1", {"type": "thinking", "thinking": "hm hm"}, words("Let me"), call("t", a=1))
    for held in (
        {"body_raw": sse(said)},
        {
            "events": [
                json.loads(each[5:]) for each in sse(said).splitlines() if each[:5] == "data:"
            ]
        },
        {"events": [{"event": "x", "data": each[5:]} for each in sse(said).splitlines() if each]},
    ):
        record = http(request(user("hi")), held, logged_at="1970-01-01T00:01:50Z")
        (span,) = models(only(tmp_path, record))
        assert span.response.message is not None
        assert span.response.message.body["content"] == said["content"]
        assert (span.status, span.response.stop) == ("ok", "tool")
        assert span.usage is not None
        assert (span.usage.input_tokens, span.usage.output_tokens) == (100, 7)
        assert span.end_ns == 110 * 10**9  # the response's own time is that of its headers


def test_a_stream_that_breaks_off_keeps_what_came(tmp_path: Path) -> None:
    said = answer("m1", words("Let me"), call("t1", cmd="ls -la"))
    body = {"body_raw": sse(said, upto=7)}
    batch = only(tmp_path, http(request(user("hi")), body))
    (span,), (tool,) = models(batch), tools(batch)
    assert (span.status, span.error) == ("error", "response truncated")
    assert span.response.message is not None
    assert text(span.response.message) == "Let me"
    assert tool.arguments == '{"c'
    assert span.response.stop == "error"


def test_an_error_in_a_stream_is_the_calls_error(tmp_path: Path) -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    raw = sse(answer("m1", words("Let me")), upto=3) + f"event: error\ndata: {json.dumps(event)}\n"
    (span,) = models(only(tmp_path, http(request(user("hi")), {"body_raw": raw})))
    assert span.error == "overloaded_error: Overloaded"


@pytest.mark.parametrize("by_line", [False, True])
def test_a_stream_alone_is_a_run_without_requests(tmp_path: Path, by_line: bool) -> None:
    raw = sse(answer("m1", call("t1"))) + sse(answer("m2", words("done")))
    if by_line:
        raw = "\n".join(each[6:] for each in raw.splitlines() if each.startswith("data: "))
    path = tmp_path / "stream.txt"
    path.write_text(raw)
    assert anthropic_log.sniff(Source(path).head)
    (batch,), _ = imported(path)
    first, second = models(batch)
    assert [first.id, second.id] == ["m1", "m2"]
    assert first.fidelity.level is Level.NONE
    assert first.fidelity.reasons == ("request not recorded",)
    assert {span.parent for span in batch.spans[1:]} == {batch.spans[0].id}


def test_each_result_of_a_batch_is_a_run_of_its_task(tmp_path: Path) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    records = [
        {"custom_id": "a", "result": {"type": "succeeded", "message": answer("m1", words("x"))}},
        {"custom_id": "b", "result": {"type": "errored", "error": error}},
        {"custom_id": "c", "result": {"type": "expired"}, "params": request(user("hi"))},
    ]
    batches, tally = log(tmp_path, *records)
    assert [batch.header.task for batch in batches] == ["a", "b", "c"]
    spans = [span for batch in batches for span in models(batch)]
    assert [span.error for span in spans] == [None, "invalid_request_error: no", "expired"]
    levels = [span.fidelity.level for span in spans]
    assert levels == [Level.NONE, Level.NONE, Level.EXACT]
    assert tally.counts["errors"] == 2


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("whole", [False, True])
def test_a_document_is_read_as_lines_are(tmp_path: Path, whole: bool, indent: int | None) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(talk() if whole else talk()[0], indent=indent))
    assert anthropic_log.sniff(Source(path).head)
    (batch,), _ = imported(path)
    assert len(models(batch)) == (2 if whole else 1)


def test_a_compressed_log_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(written(tmp_path / "log.jsonl", *talk()).read_bytes()))
    assert imported(path)[0][0].header.source_id == only(tmp_path, *talk()).header.source_id


# Which files are ours


def head(*records: Json) -> Head:
    data = "\n".join(map(json.dumps, records)).encode()
    return Head(name="x", data=data[:HEAD_BYTES])


def test_every_shape_is_recognised_and_others_are_left_alone() -> None:
    one, _ = talk()
    ours = [
        one,
        http(one["request"], one["response"]),
        http(one["request"], None),
        {"custom_id": "a", "result": {"type": "canceled"}},
        {"custom_id": "a", "params": one["request"]},
        answer("m1", words("x")),
        {"type": "message_start", "message": answer("m1")},
    ]
    assert all(anthropic_log.sniff(head(record)) for record in ours)
    chat = {"messages": [user("hi")], "max_tokens": 3}
    others = [
        {"request": chat, "response": {"choices": []}},
        {"request": {"url": "https://api.openai.com/v1/chat/completions", "body": chat}},
        {"id": "batch_req_1", "custom_id": "a", "response": {"status_code": 200}},
        {"role": "assistant", "content": "hi"},
        {"type": "assistant", "sessionId": "s", "uuid": "u", "message": answer("m1")},
        {"type": "message", "id": "x", "message": {"role": "user"}},
        [user("hi")],
    ]
    assert not any(anthropic_log.sniff(head(record)) for record in others)


def test_a_first_line_longer_than_the_head_is_still_recognised() -> None:
    one, _ = talk()
    record = http({**one["request"], "system": "x" * HEAD_BYTES}, one["response"])
    assert anthropic_log.sniff(head(record))


# Hostile sources


def test_a_broken_line_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", talk()[0], 5, [], {"request": {"x": 1}}, talk()[1])
    path.write_text(path.read_text() + '{"request": {"mess')
    (batch,), tally = imported(path)
    assert len(models(batch)) == 2
    assert [problem.where for problem in tally.problems] == [
        "line 2", "line 3", "line 4", "line 6",
    ]  # fmt: skip


def test_a_file_without_a_call_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="contains no call of the Messages API"):
        log(tmp_path, {"request": {"x": 1}}, {})


@pytest.mark.parametrize("where", ["messages", "system", "tools", "stop_sequences", "diagnostics"])
def test_what_is_nested_too_deeply_is_left_out(tmp_path: Path, where: str) -> None:
    deep: Json = "x"
    for _ in range(250):
        deep = [deep]
    one, two = talk()
    part = one["response" if where == "diagnostics" else "request"]
    part[where] = [user(deep)] if where == "messages" else deep
    (batch,), tally = log(tmp_path, one, two)
    assert [span.id for span in models(batch)] == ["msg_2"]
    assert [problem.where for problem in tally.problems] == ["line 1"]


def test_a_request_that_depends_on_a_later_one_or_on_itself_stands_alone(tmp_path: Path) -> None:
    def delta(id: str, before: str) -> Json:
        thread = {"type": "continue", "previous_message_id": before}
        return pair(request(_seen(), thread=thread), answer(id, words("x")))

    batches, _ = log(tmp_path, delta("m1", "m2"), delta("m2", "m1"), delta("m3", "m3"))
    assert [[span.id for span in models(batch)] for batch in batches] == [["m1", "m2"], ["m3"]]


_SCRAP = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def _places(value: Json) -> list[tuple[Json, Json]]:
    """Every container of a value with each of its keys."""
    found: list[tuple[Json, Json]] = []
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            found += _places(value[key])
    return found


@st.composite
def _spoilt(draw: st.DrawFn) -> list[Json]:
    """A log with parts dropped, replaced, repeated or out of their order."""
    one, two = talk()
    thread = {"type": "continue", "previous_message_id": "msg_2"}
    delta = pair(request(_seen(), thread=thread), answer("msg_3", call("t1", cmd="ls")))
    raw = http(one["request"], {"body_raw": sse(two["response"])})
    batch = {"custom_id": "a", "result": {"type": "succeeded", "message": one["response"]}}
    records: list[Json] = copy.deepcopy([one, two, delta, raw, batch, two])
    for _ in range(draw(st.integers(1, 6))):
        container, key = draw(st.sampled_from(_places(records)))
        if draw(st.booleans()):
            container[key] = draw(_SCRAP)
        elif isinstance(container, dict):
            container.pop(key, None)
    return draw(st.permutations(records)) if draw(st.booleans()) else records


def _sound(path: Path) -> None:
    try:
        batches, _ = imported(path)
    except BadTrace:
        return
    for batch in batches:
        names = [span.id for span in batch.spans]
        assert len(names) == len(set(names))
        assert not build(batch.spans)[2].orphans
        msgspec.json.encode(batch)
    assert len({batch.header.source_id for batch in batches}) == len(batches)


@settings(deadline=None)
@given(records=_spoilt())
def test_a_spoilt_log_gives_sound_runs_or_a_bad_trace(
    tmp_path_factory: pytest.TempPathFactory, records: list[Json]
) -> None:
    folder = tmp_path_factory.mktemp("spoilt")
    _sound(written(folder / "log.jsonl", *records))
    (folder / "log.json").write_text(json.dumps(records))
    _sound(folder / "log.json")


@settings(deadline=None)
@given(
    data=st.binary(max_size=300), prefix=st.sampled_from([b"", b"data: ", b'[{"request":', b"[{"])
)
def test_arbitrary_bytes_give_runs_or_a_bad_trace(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, prefix: bytes
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "log"
    path.write_bytes(prefix + data)
    _sound(path)
    anthropic_log.sniff(Source(path).head)


@given(length=st.integers(0, 1500))
def test_a_stream_cut_anywhere_gives_what_came_of_it(length: int) -> None:
    whole = sse(answer("m1", words("Let me"), call("t1", cmd="ls -la")))
    came = assembled(of_text(whole[:length]))
    assert came.whole == (length >= len(whole) - 2)  # the blank line at its end says nothing
    if came.message is not None:
        assert len(came.message["content"]) <= 2


# Real files


@needs_shared
@pytest.mark.parametrize(
    ("name", "calls", "levels"),
    [
        ("pairs.jsonl", [2], {Level.EXACT}),
        ("claude_trace_shape.jsonl", [2], {Level.EXACT}),
        ("threads_beta_pairs.jsonl", [2], {Level.EXACT, Level.REBUILT}),
        ("batch_results.jsonl", [1, 1], {Level.NONE}),
    ],
)
def test_the_samples_hold_what_was_counted_in_them(
    name: str, calls: list[int], levels: set[Level]
) -> None:
    source = Source(SAMPLES / name)
    claiming = [found.NAME for found in formats.formats() if found.sniff(source.head)]
    assert claiming[0] == "anthropic"
    batches, tally = imported(SAMPLES / name)
    spans = [span for batch in batches for span in models(batch)]
    assert [len(models(batch)) for batch in batches] == calls
    assert {span.fidelity.level for span in spans} == levels
    assert {span.response.model for span in spans} == {"claude-sonnet-4-5-20250929"}
    assert [span.usage and span.usage.input_tokens for span in spans] == [1512, 1590]
    assert (tally.problems, tally.unknown) == ([], {})


@pytest.mark.data
@needs_shared
def test_no_other_real_file_is_claimed() -> None:
    claimed = []
    for path in DATA.rglob("*"):
        if not path.is_file() or SAMPLES in path.parents:
            continue
        try:
            if anthropic_log.sniff(Source(path).head):
                claimed.append(path)
        except BadTrace:
            continue
    assert claimed == []


def test_a_line_of_a_stream_ends_where_the_protocol_says_so() -> None:
    said = "one\u2028two\u0085three"
    text = f'event: x\r\ndata: {{"said": "{said}"}}\r\rdata: {{"said": "more"}}\n\n'
    assert list(of_text(text)) == [{"said": said}, {"said": "more"}]
