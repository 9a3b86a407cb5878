"""Models behind OpenAI's two APIs: the real SDK against the strict loopback server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from replay.budget import Budget, Limits
from replay.bundle import verify, write
from replay.compare.rules import PLAIN
from replay.convert import Converter
from replay.edit.changes import Edit, SetEffort, SetSystem
from replay.edit.editor import apply
from replay.errors import BadEdit, ModelRefused, OfflineMiss, RequestRefused
from replay.free import run as free
from replay.free.recorded_results import Stub, Terms
from replay.locked.row import LOOK, Models
from replay.locked.run import core, replay
from replay.models.cached import Cached
from replay.models.choose import choose, default_name
from replay.models.live import Live
from replay.models.openai import CHAT, RESPONSES
from replay.models.servers import ModelConfig, resolve
from replay.openai_requests import TRANSLATED
from replay.plan import plans
from replay.providers import Rates, bare
from replay.store import edits
from replay.store.handle import Store
from replay.store.read import load
from replay.store.rows import trace_rows
from replay.trace import Fidelity, Level, Message, Request, Tool, Trace, extend
from tests.openai_servers import FAULTS, Body, Call, OpenaiApi, Policy, Said, call, refused, said
from tests.openai_servers.typed import chat_departure, response_departure
from tests.replay.live_case import Waits, clean_environment
from tests.replay.locked_case import request, spans, stored
from tests.shared import Imported, needs_shared

CHAT_MODEL, RESPONSES_MODEL = "openai:gpt-4o", "openai-responses:gpt-4.1"
BOTH = pytest.mark.parametrize("model", [CHAT_MODEL, RESPONSES_MODEL], ids=["chat", "responses"])
GET = Tool(
    name="get_order",
    description="Look an order up.",
    schema={"type": "object", "properties": {"order_id": {"type": "integer"}}},
)
EDIT = Edit(name="verify", changes=(SetSystem("Always verify first."),))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenaiApi]:
    clean_environment(monkeypatch, tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    with OpenaiApi(policy) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.base_url}/v1")
        yield running


def policy(body: Body) -> Said:
    """Looks the order up once, then says what it is."""
    last = (body.get("messages") or body["input"])[-1]
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return said("It was shipped.")
    if body.get("tools"):
        return said("", call("get_order", order_id=7))
    return said("Hello.")


def always(answer: Said) -> Policy:
    return lambda _: answer


def live(model: str, store: Store, **limits: Any) -> Cached:
    return choose(model, store, live=True, budget=Budget(Limits(**limits or {"calls": 100})))


def client(model: str, api: OpenaiApi, waits: Waits | None = None, **beside: Any) -> Live:
    wire = CHAT if model == CHAT_MODEL else RESPONSES
    given: dict[str, Any] = {"budget": Budget(Limits(calls=100)), "attempts": 3, **beside}
    return Live(
        model, wire=wire, base_url=f"{api.base_url}/v1", sleep=waits or Waits(),
        jitter=lambda: 0.0, clock=lambda: 1e9, **given,
    )  # fmt: skip


def chat(*messages: Body, system: Body | None = None, **beside: Any) -> Request:
    """A request as it was recorded from Chat Completions."""
    context = extend(None, [Message(dialect="openai", body=each) for each in messages])
    head = None if system is None else Message(dialect="openai", body=system)
    return Request(
        **{"model": "gpt-4o", "system": head, "context": context, "tools": (GET,), **beside}
    )


CALLED: Body = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_a", "type": "function",
         "function": {"name": "get_order", "arguments": '{"order_id":  7}'}},
    ],
}  # fmt: skip
RESULT: Body = {"role": "tool", "tool_call_id": "call_a", "content": '{"status": "shipped"}'}
RECORDED: tuple[Body, ...] = ({"role": "user", "content": "Where is order 7?"}, CALLED, RESULT)


def body_of(asked: Request, model: str) -> Body:
    return Converter(model).sent(asked).body()


# --- as recorded


def test_a_recorded_chat_goes_out_as_it_was_recorded() -> None:
    recorded: Body = {
        "messages": [{"role": "developer", "content": "Be short.", "name": "rules"}, *RECORDED],
        "tools": [
            {"type": "function", "function": {"name": "get_order", "strict": True,
             "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
        ],
        "temperature": 0.2, "top_p": 0.9, "seed": 7, "max_tokens": 300, "stop": ["END"],
        "parallel_tool_calls": False, "frequency_penalty": 0.5, "logit_bias": {"50256": -100},
        "tool_choice": {"type": "function", "function": {"name": "get_order"}},
        "response_format": {"type": "json_object"},
    }  # fmt: skip
    tool = structs.replace(
        GET, description=None, extra={"strict": True},
        schema={"type": "object", "properties": {}, "additionalProperties": False},
    )  # fmt: skip
    params = {n: v for n, v in recorded.items() if n not in {"messages", "tools"}}
    head, *rest = recorded["messages"]
    sent = Converter(CHAT_MODEL).sent(chat(*rest, system=head, tools=(tool,), params=params))
    assert sent.body() == {"model": "gpt-4o", **recorded}
    assert (sent.losses, sent.refusal) == ((), None)
    exact = Fidelity(level=Level.EXACT)
    assert sent.fidelity(exact) == exact


def test_a_chat_of_responses_goes_out_in_items() -> None:
    params = {"max_output_tokens": 200, "reasoning": {"effort": "low"}, "store": True,
              "text": {"verbosity": "low"}}  # fmt: skip
    system = {"role": "system", "content": "Be short."}
    sent = Converter("openai-responses:gpt-5").sent(chat(*RECORDED, system=system, params=params))
    body = sent.body()
    assert [item["type"] for item in body["input"]] == [
        "message", "function_call", "function_call_output",
    ]  # fmt: skip
    assert body["input"][1] == {
        "type": "function_call", "call_id": "call_a", "name": "get_order",
        "arguments": '{"order_id":  7}',
    }  # fmt: skip
    assert body["instructions"] == "Be short."
    assert body["tools"][0]["strict"] is False, "strict is what a function is by default"
    assert (body["max_output_tokens"], body["reasoning"]) == (200, {"effort": "low"})
    assert body["text"] == {"verbosity": "low"}
    assert "store" not in body
    assert sent.losses == ()


def test_inspects_messages_are_those_it_asked_openai_with() -> None:
    said_: tuple[Body, ...] = (
        {"role": "user", "content": "Where is order 7?", "id": "1", "source": "input"},
        {"role": "assistant", "content": "", "id": "2", "model": "gpt-4o", "source": "generate",
         "tool_calls": [{"id": "call_a", "function": "get_order", "arguments": {"order_id": 7}}]},
        {"role": "tool", "content": "", "tool_call_id": "call_a", "function": "get_order",
         "error": {"type": "timeout", "message": "too late"}},
    )  # fmt: skip
    context = extend(None, [Message(dialect="inspect", body=each) for each in said_])
    sent = Converter(CHAT_MODEL).sent(Request(context=context, tools=(GET,)))
    assert sent.body()["messages"] == [
        {"role": "user", "content": "Where is order 7?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_a", "type": "function",
             "function": {"name": "get_order", "arguments": '{"order_id":7}'}}]},
        {"role": "tool", "tool_call_id": "call_a", "content": "too late"},
    ]  # fmt: skip
    assert sent.losses == ()


@BOTH
def test_what_another_api_recorded_is_translated_and_never_exact(model: str) -> None:
    asked = request(
        params={"max_tokens": 99, "temperature": 0.5, "thinking": {"type": "adaptive"},
                "stop_sequences": ["END"]},
        context=extend(None, [
            Message(dialect="anthropic", body={"role": "user", "content": "Hi"}),
            Message(dialect="anthropic", body={"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "toolu_1", "name": "get_order", "input": {"a": 1}},
            ]}),
            Message(dialect="anthropic", body={"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no",
                 "is_error": True},
                {"type": "text", "text": "Go on."},
            ]}),
        ]),
    )  # fmt: skip
    sent = Converter(model).sent(asked)
    assert TRANSLATED in sent.losses
    assert sent.fidelity(Fidelity(level=Level.EXACT)).level is not Level.EXACT
    assert {"thinking left out", "error flag of a result not sent", "`thinking` not sent"} <= {
        *sent.losses
    }
    with OpenaiApi() as api, client(model, api) as asking:
        assert asking.complete(sent.body(), 0)["content"] == [{"type": "text", "text": "Done."}]


def test_a_long_name_that_is_called_twice_is_known_by_what_was_sent() -> None:
    name = "look up " + "x" * 100
    said_: list[Body] = [{"role": "user", "content": "Hi"}]
    for at in range(2):
        said_ += [
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": "ok"}]},
        ]  # fmt: skip
    context = extend(None, [Message(dialect="anthropic", body=each) for each in said_])
    sent = Converter(CHAT_MODEL).sent(Request(context=context, tools=(Tool(name=name),)))
    (made,) = {each["tool_calls"][0]["function"]["name"] for each in sent.body()["messages"][1::2]}
    assert sent.recorded_name(made) == name


def test_a_call_without_its_result_is_refused_before_anyone_is_asked() -> None:
    sent = Converter(CHAT_MODEL).sent(chat(*RECORDED[:2]))
    assert sent.refusal is not None
    assert sent.refusal.startswith("missing tool result")


def test_settings_that_a_model_refuses_are_not_sent_and_lower_the_fidelity() -> None:
    params = {"temperature": 0.0, "max_tokens": 50, "reasoning_effort": "low", "stop": "END"}
    sent = Converter("openai:o3-mini").sent(chat(RECORDED[0], params=params))
    body = sent.body()
    assert body["max_completion_tokens"] == 50
    assert body["reasoning_effort"] == "low"
    assert not {"temperature", "max_tokens", "stop"} & body.keys()
    assert set(sent.unsent) == {"`temperature` not sent", "stop sequences not sent"}
    found = sent.fidelity(Fidelity(level=Level.EXACT))
    assert (found.level, len(found.reasons)) == (Level.REBUILT, 2)
    assert (
        "temperature"
        not in Converter("openai:gpt-5.1")
        .sent(chat(RECORDED[0], params={"temperature": 0.0}))
        .body()
    )
    quiet = {"temperature": 0.0, "reasoning_effort": "none"}
    assert Converter("openai:gpt-5.1").sent(chat(RECORDED[0], params=quiet)).body()[
        "temperature"
    ] == 0.0  # fmt: skip


def test_other_servers_get_their_own_settings_and_thoughts_back() -> None:
    thought = {**CALLED, "reasoning_content": "I must look."}
    params = {"max_tokens": 50, "top_k": 20, "chat_template_kwargs": {"enable_thinking": True}}
    asked = chat(RECORDED[0], thought, RESULT, params=params)
    sent = Converter("openai:qwen3:8b").sent(asked)
    body = sent.body()
    assert body["model"] == "qwen3:8b"
    assert body["messages"][1]["reasoning_content"] == "I must look."
    assert body.items() >= params.items()
    assert sent.losses == ()
    of_openai = Converter(CHAT_MODEL).sent(asked)
    assert set(of_openai.losses) == {
        "thinking left out", "`top_k` not sent", "`chat_template_kwargs` not sent",
    }  # fmt: skip


def test_an_edit_of_effort_is_sent_in_the_words_of_each_api() -> None:
    edited = apply(Edit(name="hard", changes=(SetEffort("high"),)), chat(RECORDED[0]))
    assert Converter("openai:gpt-5").sent(edited).body()["reasoning_effort"] == "high"
    responses = Converter("openai-responses:gpt-5").sent(edited).body()
    assert responses["reasoning"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("model", "recorded", "sent"),
    [
        ("gpt-5", "minimal", "minimal"), ("gpt-5", "max", "high"), ("gpt-5", "none", "minimal"),
        ("o3-mini", "minimal", "low"), ("o3", "xhigh", "high"), ("gpt-5.1", "none", "none"),
        ("gpt-5.1", "minimal", "none"), ("gpt-5.1-codex-max", "xhigh", "xhigh"),
        ("gpt-5.2", "max", "xhigh"), ("gpt-5.6", "max", "max"), ("gpt-5-2025-08-07", "low", "low"),
        ("gpt-4o", "low", None), ("gpt-5-chat-latest", "low", None), ("gpt-next", "low", "low"),
        ("qwen3:8b", "none", "none"), ("gpt-oss:20b", "max", "max"), ("qwen3:8b", "ultra", "ultra"),
        ("our-deployment", "minimal", "minimal"),
    ],
)  # fmt: skip
def test_a_recorded_effort_is_sent_but_where_a_model_is_known_not_to_take_it(
    model: str, recorded: str, sent: str | None
) -> None:
    chats = Converter(f"openai:{model}").sent(
        chat(RECORDED[0], params={"reasoning_effort": recorded})
    )
    assert chats.body().get("reasoning_effort") == sent
    responses = Converter(f"openai-responses:{model}").sent(
        chat(RECORDED[0], params={"reasoning": {"effort": recorded}})
    )
    assert (responses.body().get("reasoning") or {}).get("effort") == sent
    for each in (chats, responses):
        exact = each.fidelity(Fidelity(level=Level.EXACT)).level is Level.EXACT
        assert exact == (sent == recorded)
    if sent is not None and recorded != "ultra":
        with OpenaiApi() as api, client(RESPONSES_MODEL, api) as asking:
            assert asking.complete(responses.body(), 0)["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("model", "effort", "hint"),
    [
        ("claude-opus-5-5", "none", "Try: low, medium, high, xhigh, max"),
        ("claude-opus-5-5", "max", None),
        ("openai:gpt-5", "minimal", None),
        ("openai:gpt-5", "none", "Try: minimal, low, medium, high"),
        ("openai-responses:gpt-5.1", "none", None),
        ("openai-responses:gpt-5.1", "minimal", "Try: none, low, medium, high"),
        ("azure:our-deployment", "minimal", None),
        ("openai:gpt-4o", "low", "Try: a model that reasons"),
    ],
)
def test_an_edit_of_effort_takes_the_words_of_the_model_that_is_asked(
    model: str, effort: str, hint: str | None
) -> None:
    edit = Edit(name="hard", changes=(SetEffort(effort),))
    with Store.open(":memory:") as store:
        trace = recorded_run(store)
        if hint is None:
            (first, *_) = plans(trace, edit, model, None)
            assert effort in str(first.edited.sent.params)
            return
        with pytest.raises(BadEdit) as error:
            plans(trace, edit, "claude-opus-5-5", None, edited_model=model)
    assert error.value.message == f"effort '{effort}' is not taken by {bare(model)}"
    assert error.value.hint == hint


def test_a_schema_for_an_answer_is_asked_for_in_the_words_of_each_api() -> None:
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
             "additionalProperties": False}  # fmt: skip
    asked = chat(RECORDED[0], tools=(), params={
        "output_config": {"format": {"type": "json_schema", "schema": shape}}, "max_tokens": 9,
    })  # fmt: skip
    form = {"name": "answer", "schema": shape, "strict": True}
    assert body_of(asked, CHAT_MODEL)["response_format"] == {
        "type": "json_schema", "json_schema": form,
    }  # fmt: skip
    assert body_of(asked, RESPONSES_MODEL)["text"] == {"format": {"type": "json_schema", **form}}
    open_ = {**asked.params["output_config"]["format"]["schema"], "additionalProperties": True}
    loose = chat(RECORDED[0], params={"output_config": {"format": {"schema": open_}}})
    assert body_of(loose, CHAT_MODEL)["response_format"]["json_schema"]["strict"] is False


# --- answers


@BOTH
@pytest.mark.parametrize("limit", [300, 16_200], ids=["whole", "streamed"])
def test_an_answer_is_read_whole_and_streamed_alike(api: OpenaiApi, model: str, limit: int) -> None:
    posted: list[Body] = []

    def both(body: Body) -> Said:
        posted.append(body)
        return said("Both.", call("get_order", order_id=1), call("get_order", order_id=2))

    api.policy = both
    sent = Converter(model).sent(chat(RECORDED[0], params={"max_tokens": limit}))
    with client(model, api) as asking:
        found = asking.complete(sent.body(), 0)
    assert [block["type"] for block in found["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["input"] for block in found["content"][1:]] == [{"order_id": 1}, {"order_id": 2}]
    assert found["stop_reason"] == "tool_use"
    assert found["usage"]["output_tokens"] > 0
    assert asking.cost(found) is not None
    assert posted[0].get("stream", False) is (limit > 16_000)


@BOTH
def test_an_answer_that_is_none_says_so(api: OpenaiApi, model: str) -> None:
    sent = Converter(model).sent(chat(RECORDED[0], params={"max_tokens": 40}))
    cases: dict[str, Said] = {
        "refusal": refused("I will not."),
        "max_tokens": said("word " * 500),
    }
    for stop, answer in cases.items():
        api.policy = always(answer)
        with client(model, api) as asking:
            assert asking.complete(sent.body(), 0)["stop_reason"] == stop
    api.policy = lambda _: said("Well", finish="content_filter")
    with client(model, api) as asking:
        assert asking.complete(sent.body(), 0)["stop_reason"] == "refusal"


def test_arguments_that_do_not_parse_are_kept_as_they_came(api: OpenaiApi) -> None:
    api.policy = lambda _: said("", Call(name="get_order", arguments='{"order_id": '))
    with client(CHAT_MODEL, api) as asking:
        found = asking.complete(body_of(chat(RECORDED[0]), CHAT_MODEL), 0)
    assert found["content"][0]["input"] == {"_raw": '{"order_id": '}


# --- trouble

PASSING = {
    "busy for a second": 1.0, "busy for milliseconds": 0.25, "server error": 0.5,
    "overloaded": 0.5, "truncated": 0.5, "reset": 0.5,
}  # fmt: skip
FINAL = {
    "no quota": "exceeded your current quota",
    "no key": "HTTP 401",
    "busy, do not retry": "HTTP 429",
    "web page": "returned a web page",
    "wrong shape": "not a message of the",
    "anthropic body": "another format",
}
STREAMS = ("stream dropped", "stream closed", "stream ends early", "stream ends in an event")


@BOTH
@pytest.mark.parametrize("fault", PASSING)
def test_what_may_pass_is_tried_again_when_the_server_says(
    api: OpenaiApi, model: str, fault: str
) -> None:
    waits = Waits()
    api.fault(FAULTS[fault])
    with client(model, api, waits) as asking:
        found = asking.complete(body_of(chat(RECORDED[0]), model), 0)
    assert found["stop_reason"] == "tool_use"
    assert waits.seconds == [PASSING[fault]]


@BOTH
@pytest.mark.parametrize("fault", FINAL)
def test_what_does_not_pass_is_one_sentence(api: OpenaiApi, model: str, fault: str) -> None:
    api.fault(*[FAULTS[fault]] * 3)
    with client(model, api) as asking, pytest.raises(ModelRefused, match=FINAL[fault]):
        asking.complete(body_of(chat(RECORDED[0]), model), 0)


@BOTH
@pytest.mark.parametrize("fault", STREAMS)
def test_a_stream_that_breaks_is_asked_again_and_counted_at_its_worst(
    api: OpenaiApi, model: str, fault: str
) -> None:
    budget = Budget(Limits(calls=100))
    body = body_of(chat(RECORDED[0], params={"max_tokens": 16_200}), model)
    api.fault(FAULTS[fault])
    with client(model, api, budget=budget) as asking:
        assert asking.complete(body, 0)["stop_reason"] == "tool_use"
    assert api.asked == 2
    assert budget.tokens > 16_200, "nobody knows what the broken one cost"


def test_a_request_that_is_declined_stops_only_itself(api: OpenaiApi) -> None:
    good, bad = chat(RECORDED[0]), chat({"role": "user", "content": "Hi", "name": "x" * 64})
    broken = {**body_of(bad, CHAT_MODEL), "temperature": 9}
    with client(CHAT_MODEL, api) as asking:
        found = dict(asking.complete_all([broken, body_of(good, CHAT_MODEL)]))
    assert isinstance(found[0], RequestRefused)
    assert "temperature" in found[0].message
    assert isinstance(found[1], dict)


def test_a_model_that_takes_tools_by_the_other_api_alone_says_which(api: OpenaiApi) -> None:
    body = {**body_of(chat(RECORDED[0]), "openai:gpt-5.6"), "model": "gpt-5.6"}
    with client(CHAT_MODEL, api) as asking, pytest.raises(RequestRefused) as error:
        asking.complete(body, 0)
    assert error.value.hint == "Try: --model openai-responses:NAME"


def test_no_call_is_made_that_could_exceed_a_limit(api: OpenaiApi) -> None:
    body = body_of(chat(RECORDED[0]), CHAT_MODEL)
    with (
        client(CHAT_MODEL, api, budget=Budget(Limits(usd=0.0001))) as asking,
        pytest.raises(ModelRefused, match=r"limit of 0\.0001 USD"),
    ):
        asking.complete(body, 0)
    assert api.asked == 0


# --- replays


def recorded_run(store: Store, *, model: str = "gpt-4o", **params: Any) -> Trace:
    """A run of a chat model: it looks an order up, then says what it found."""
    head = Message(dialect="openai", body={"role": "system", "content": "You help."})
    asking = Request(model=model, system=head, tools=(GET,), params=params)
    return stored(store, spans(asking=asking, model=model))


@BOTH
def test_a_replay_is_asked_once_and_then_answered_from_the_database(
    api: OpenaiApi, model: str
) -> None:
    with Store.open(":memory:") as store:
        trace = recorded_run(store)
        with live(model, store) as asked:
            arms = Models.one(asked)
            rows = list(replay(trace, EDIT, arms, sampling=LOOK))
            first = core(trace, EDIT, arms, {r.step: r for r in rows}.values(), sampling=LOOK,
                         steps=None, rules=PLAIN)  # fmt: skip
        assert api.asked > 0
        assert asked.server == f"{api.base_url}/v1"
        before = api.asked
        with choose(model, store) as offline:
            arms = Models.one(offline)
            rows = list(replay(trace, EDIT, arms, sampling=LOOK))
            second = core(trace, EDIT, arms, {r.step: r for r in rows}.values(), sampling=LOOK,
                          steps=None, rules=PLAIN)  # fmt: skip
        assert (api.asked, first.digest) == (before, second.digest)
        other = RESPONSES_MODEL if model == CHAT_MODEL else CHAT_MODEL
        with choose(other, store) as wrong, pytest.raises(OfflineMiss):
            list(replay(trace, EDIT, Models.one(wrong), sampling=LOOK))


@BOTH
def test_a_replay_is_bundled_and_verified_without_a_server(
    api: OpenaiApi, model: str, tmp_path: Path
) -> None:
    with Store.open(":memory:") as store:
        trace = recorded_run(store)
        edit = edits.save(store, EDIT)
        with live(model, store) as asked:
            arms = Models.one(asked)
            rows = {row.step: row for row in replay(trace, edit, arms, sampling=LOOK)}
            made = core(trace, edit, arms, rows.values(), sampling=LOOK, steps=None, rules=PLAIN)
        write(store, made, tmp_path / "run.arc")
    found = verify(tmp_path / "run.arc")
    assert found.same
    assert found.model == model


@BOTH
def test_a_free_replay_goes_on_by_the_same_api(api: OpenaiApi, model: str) -> None:
    api.policy = lambda body: (
        said("", call("get_order", order_id=8)) if _calls(body) < 2 else said("Both shipped.")
    )
    stub = Stub(tool="get_order", arguments={"order_id": 8}, result='{"status": "shipped"}')
    with Store.open(":memory:") as store:
        trace = recorded_run(store)
        with live(model, store) as asked:
            *_, last = free.run(trace, None, asked, Terms(stubs=(stub,)))
    assert last.stop is not None
    assert last.stop.status != "refused", last.stop.sentence
    assert len(last.steps) == 3
    assert last.steps[-1].action is not None
    assert last.steps[-1].action.text == "Both shipped."


def _calls(body: Body) -> int:
    said_ = body.get("messages") or body["input"]
    return sum(
        bool(each.get("tool_calls")) or each.get("type") == "function_call" for each in said_
    )


# --- who is asked


def test_the_model_that_made_a_run_is_asked_by_the_api_it_was_asked_by() -> None:
    with Store.open(":memory:") as store:
        assert default_name(recorded_run(store)) == "gpt-4o"
        responses = recorded_run(store, model="gpt-5", max_output_tokens=9)
        assert default_name(responses) in {"openai-responses:gpt-5"}


@pytest.mark.parametrize(
    ("name", "environment", "model", "server"),
    [
        ("claude-opus-5-5", {}, "claude-opus-5-5", ""),
        ("anthropic/claude-x", {}, "claude-x", ""),
        ("anthropic:claude-x", {}, "claude-x", ""),
        ("gpt-4o", {}, "openai:gpt-4o", ""),
        ("openai/gpt-4o", {}, "openai:gpt-4o", ""),
        ("ft:gpt-4o:acme::1", {}, "openai:ft:gpt-4o:acme::1", ""),
        ("o3", {}, "openai:o3", ""),
        ("llama3:8b", {"OPENAI_BASE_URL": "http://localhost:11434/v1/"}, "openai:llama3:8b",
         "http://localhost:11434/v1"),
        ("llama3:8b", {"ANTHROPIC_BASE_URL": "http://localhost:4000"}, "llama3:8b",
         "http://localhost:4000"),
        ("gpt-4o", {"ANTHROPIC_BASE_URL": "http://localhost:4000"}, "gpt-4o",
         "http://localhost:4000"),
        ("gpt-4o", {"ANTHROPIC_BASE_URL": "http://localhost:4000", "OPENAI_API_KEY": "k"},
         "openai:gpt-4o", ""),
        ("bedrock:anthropic.claude-x-v1:0", {}, "bedrock:anthropic.claude-x-v1:0", "bedrock"),
        ("vertex:claude-x@20260101", {}, "vertex:claude-x@20260101", "vertex"),
        ("mine", {}, "openai-responses:qwen3:8b", "http://localhost:8000/v1"),
    ],
)  # fmt: skip
def test_a_name_says_whom_to_ask(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    name: str, environment: dict[str, str], model: str, server: str,
) -> None:  # fmt: skip
    clean_environment(monkeypatch, tmp_path)
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    mine = ModelConfig(model="qwen3:8b", base_url="http://localhost:8000/v1", api="responses")
    found = resolve(name, {"mine": mine})
    assert (found.model, found.server) == (model, server)


def test_nobody_is_asked_where_it_is_not_known_who_serves_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean_environment(monkeypatch, tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with Store.open(":memory:") as store:
        with pytest.raises(ModelRefused, match="no server known for 'qwen3'"):
            live("qwen3", store)
        assert choose("qwen3", store).name == "qwen3", "what is stored can be read"


def test_a_configured_model_has_its_own_price(api: OpenaiApi) -> None:
    rates = Rates(input=2.0, output=8.0)
    mine = ModelConfig(model="qwen3:8b", base_url=f"{api.base_url}/v1", prices=rates)
    budget = Budget(Limits(usd=1.0))
    with Store.open(":memory:") as store:
        chosen = choose("mine", store, live=True, budget=budget, models={"mine": mine})
        with chosen as model:
            model.answer(Converter(model.name).sent(chat(RECORDED[0])), 0)
        usage = api.usage_total()
        expected = (usage["prompt_tokens"] * 2.0 + usage["completion_tokens"] * 8.0) / 1e6
        assert model.usd == pytest.approx(expected)
        assert model.usd_complete


# --- the real traces


@needs_shared
@pytest.mark.data
@pytest.mark.parametrize(
    "model", ["openai:gpt-4o", "openai:gpt-5", "openai:o3-mini", "openai-responses:gpt-5"]
)
def test_every_recorded_step_that_can_be_asked_is_accepted(
    model: str, real: Imported, api: OpenaiApi
) -> None:
    departure = response_departure if "responses" in model else chat_departure
    asked: dict[str, Body] = {}
    with Store.open(real.path) as store:
        for row in trace_rows(store):
            trace = load(store, row.trace)
            for plan in plans(trace, None, model, None):
                if plan.refusal is None:
                    sent = plan.control.sent
                    asked.setdefault(sent.key(0), sent.body())
    assert len(asked) > 1000
    assert not [why for body in asked.values() if (why := departure(json.loads(json.dumps(body))))]
    wire = RESPONSES if "responses" in model else CHAT
    with Live(
        model, wire=wire, base_url=f"{api.base_url}/v1", budget=Budget(Limits(calls=10**6))
    ) as asking:
        refusals = [
            found for _, found in asking.complete_all(asked.values())
            if isinstance(found, RequestRefused)
        ]  # fmt: skip
    assert refusals == []


# --- the same everywhere

EVERY_PROVIDER = (
    CHAT_MODEL, RESPONSES_MODEL, "openai-responses:gpt-5", "openai-responses-plain:gpt-5",
    "azure:gpt-4o", "azure-responses:gpt-5", "openai:qwen3:8b",
)  # fmt: skip

DIGESTS = """
from replay.store.handle import Store
from replay.compare.rules import PLAIN
from replay.locked.row import LOOK, Models
from replay.locked.run import core, replay
from replay.models.choose import choose
from tests.replay.test_openai_client import EDIT, EVERY_PROVIDER
from replay.store.read import load
from replay.store.rows import trace_rows
import sys
with Store.open(sys.argv[1]) as store:
    trace = load(store, trace_rows(store)[0].trace)
    for model in EVERY_PROVIDER:
        with choose(model, store) as offline:
            arms = Models.one(offline)
            rows = {row.step: row for row in replay(trace, EDIT, arms, sampling=LOOK)}
            made = core(trace, EDIT, arms, rows.values(), sampling=LOOK, steps=None, rules=PLAIN)
        print(made.digest)
assert not {"openai", "anthropic", "httpx2"} & sys.modules.keys(), "an SDK was imported"
"""


@pytest.mark.process
def test_a_stored_replay_has_one_digest_in_every_environment(
    api: OpenaiApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", api.base_url)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    db = tmp_path / "arc.db"
    with Store.open(db) as store:
        trace = recorded_run(store)
        for model in EVERY_PROVIDER:
            with live(model, store) as asked:
                list(replay(trace, EDIT, Models.one(asked), sampling=LOOK))
    before, found = api.asked, set()
    for seed, zone in (("0", "UTC"), ("1", "Asia/Tokyo"), ("42", "America/New_York")):
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS, str(db)], capture_output=True, text=True, check=True,
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
        )  # fmt: skip
        found.add(done.stdout)
    assert len(found) == 1
    assert len({*found.pop().splitlines()}) == len(EVERY_PROVIDER)
    assert api.asked == before
