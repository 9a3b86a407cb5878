"""A recorded request as a body of the Messages API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from replay import convert, formats, turns
from replay.convert import Converter, Sent, body_key
from replay.formats.source import Source, Tally
from replay.openai_requests import TRANSLATED
from replay.trace import (
    Context,
    Dialect,
    Fidelity,
    Json,
    Level,
    Message,
    ModelCall,
    Request,
    Tool,
    extend,
)
from tests.messages_api import refusal
from tests.shared import DATA, needs_shared

TOOLS = (Tool(name="get_order", schema={"type": "object", "properties": {"id": {}}}),)


def said(*bodies: Json, dialect: Dialect = "anthropic") -> Context | None:
    return extend(None, (Message(dialect=dialect, body=body) for body in bodies))


def sent(
    *bodies: Json, dialect: Dialect = "anthropic", to: str = "claude-target", **beside: Any
) -> Sent:
    request = Request(context=said(*bodies, dialect=dialect), **{"tools": TOOLS, **beside})
    return Converter(to).sent(request)


def user(content: Json) -> Json:
    return {"role": "user", "content": content}


def assistant(content: Json) -> Json:
    return {"role": "assistant", "content": content}


def call(id: str, name: str = "get_order", /, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, content: Json = "shipped", **beside: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **beside}


def openai_call(id: str, name: str, arguments: str) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_ids_are_renamed_by_their_order_in_calls_and_results_alike() -> None:
    body = sent(
        user("Where are my orders?"),
        assistant([call("toolu_01Xyz", id=1), call("toolu_02Abc", id=2)]),
        user([result("toolu_02Abc", "lost"), result("toolu_01Xyz")]),
    ).body()
    asked, answers = body["messages"][1]["content"], body["messages"][2]["content"]
    assert [block["id"] for block in asked] == ["toolu_arc_0", "toolu_arc_1"]
    assert [block["tool_use_id"] for block in answers] == ["toolu_arc_1", "toolu_arc_0"]
    assert refusal(body) is None


def test_the_same_id_used_twice_answers_the_nearest_call_before_it() -> None:
    body = sent(
        user("go"), assistant([call("1", id=1)]), user([result("1", "first")]),
        assistant([call("1", id=2)]), user([result("1", "second")]),
    ).body()  # fmt: skip
    assert body["messages"][4]["content"][0]["tool_use_id"] == "toolu_arc_1"
    assert refusal(body) is None


def test_openai_messages_become_alternating_turns_with_results_before_text() -> None:
    made = sent(
        {"role": "user", "content": "Refund both."},
        {"role": "user", "content": "Please."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                openai_call("a", "get_order", '{"id": 1}'),
                openai_call("b", "get_order", ""),
            ],
        },
        {"role": "tool", "tool_call_id": "b", "name": "get_order", "content": "two"},
        {"role": "user", "content": "Well?"},
        {"role": "tool", "tool_call_id": "a", "name": "get_order", "content": "one"},
        dialect="openai",
        system=Message(dialect="openai", body={"role": "system", "content": "Be kind."}),
    )
    body = made.body()
    assert body["system"] == "Be kind."
    first, asked, answered = body["messages"]
    assert [block["text"] for block in first["content"]] == ["Refund both.", "Please."]
    assert [block["input"] for block in asked["content"]] == [{"id": 1}, {}]
    assert [block["type"] for block in answered["content"]] == ["tool_result"] * 2 + ["text"]
    assert refusal(body) is None
    assert made.losses == (TRANSLATED,)
    found = made.fidelity(Fidelity(level=Level.EXACT))
    assert found == Fidelity(level=Level.REBUILT, reasons=(TRANSLATED,))


def test_inspect_messages_become_the_same_turns() -> None:
    made = sent(
        {"role": "user", "content": [{"type": "text", "text": "Find it."}]},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Yes."}],
            "tool_calls": [{"id": "c", "function": "get_order", "arguments": {"id": 7}}],
        },
        {
            "role": "tool", "tool_call_id": "c", "function": "get_order", "content": "",
            "error": {"type": "timeout", "message": "too slow"},
        },
        dialect="inspect",
    )  # fmt: skip
    answer = made.body()["messages"][2]["content"][0]
    assert answer == {
        "type": "tool_result", "tool_use_id": "toolu_arc_0", "content": "too slow",
        "is_error": True,
    }  # fmt: skip
    assert made.losses == (TRANSLATED, turns.THINKING)
    assert made.partial == ()


def test_thinking_and_cache_markers_never_reach_the_wire() -> None:
    made = sent(
        user([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]),
        assistant([{"type": "thinking", "thinking": "…", "signature": "x"}, call("1")]),
        user([result("1", [{"type": "text", "text": "ok", "cache_control": {}}])]),
        tools=(Tool(name="get_order", extra={"cache_control": {"type": "ephemeral"}}),),
    )
    wire = str(made.body())
    assert "thinking" not in wire
    assert "cache_control" not in wire
    assert made.losses == (turns.THINKING,)


def test_a_result_that_answers_no_call_is_left_out_and_listed() -> None:
    made = sent(user("go"), assistant([call("1")]), user([result("1"), result("9")]))
    assert len(made.body()["messages"][2]["content"]) == 1
    assert made.losses == made.partial == (turns.ORPHAN,)


@pytest.mark.parametrize("rest", [(), (user("Well?"),), (assistant("Hm."), user("Well?"))])
def test_a_missing_result_is_never_invented_and_the_step_cannot_be_asked(
    rest: tuple[Json, ...],
) -> None:
    made = sent(user("go"), assistant([call("1")]), *rest)
    assert made.refusal == "missing tool result: get_order (toolu_arc_0) has no recorded result"
    assert "tool_result" not in str(made.body())
    assert refusal(made.body()) is not None


def test_calls_without_tool_definitions_cannot_be_asked() -> None:
    made = sent(user("go"), assistant([call("1")]), user([result("1")]), tools=None)
    assert made.refusal is not None
    assert "tool definitions not recorded (`arc attach` adds them)" in made.refusal


def test_an_opening_that_was_not_recorded_is_said_to_be_so() -> None:
    made = sent(assistant("Hello!"), user("Hi."))
    assert made.body()["messages"][0] == {"role": "user", "content": turns.OPENING}
    assert made.partial == (turns.NO_OPENING,)
    assert sent(assistant("Hello!")).refusal == "no messages recorded"
    assert Converter("x").sent(Request(tools=())).refusal is not None


def test_an_answer_at_the_end_of_the_request_is_cut() -> None:
    made = sent(user("go"), assistant("Sure, I"))
    assert made.body()["messages"] == [user("go")]
    assert made.losses == (turns.CUT,)


def test_empty_texts_go_and_leave_no_empty_message() -> None:
    made = sent(
        user([{"type": "text", "text": " "}, {"type": "text", "text": "go"}]),
        assistant([{"type": "text", "text": ""}]),
        user("on"),
    )
    texts = [{"type": "text", "text": "go"}, {"type": "text", "text": "on"}]
    assert made.body()["messages"] == [user(texts)]
    assert made.losses == (turns.EMPTY,)


def test_arguments_that_do_not_parse_are_sent_raw_and_listed() -> None:
    made = sent(
        user("go"),
        {"role": "assistant", "content": "", "tool_calls": [openai_call("1", "get_order", "{id:")]},
        {"role": "tool", "tool_call_id": "1", "content": "bad"},
        dialect="openai",
    )
    assert made.body()["messages"][1]["content"][0]["input"] == {"_raw": "{id:"}
    assert made.losses == (TRANSLATED, turns.RAW_ARGUMENTS)


def test_a_tool_name_the_api_refuses_gets_an_alias_that_leads_back() -> None:
    made = sent(
        user("go"), assistant([call("1", "shop.get order")]), user([result("1")]),
        tools=(Tool(name="shop.get order"), Tool(name="shop/get_order")),
    )  # fmt: skip
    body = made.body()
    names = [tool["name"] for tool in body["tools"]]
    assert len(set(names)) == 2
    assert body["messages"][1]["content"][0]["name"] == names[0]
    assert [made.recorded_name(name) for name in names] == ["shop.get order", "shop/get_order"]
    assert made.recorded_name("get_order") == "get_order"
    assert refusal(body) is None


@pytest.mark.parametrize(
    ("names", "loss"),
    [(["", "", ""], f"{convert.UNNAMED}: 3"), (["look", "", "look"], f"{convert.REPEATED}: look")],
)
def test_tools_without_a_name_or_with_the_same_are_sent_under_names_that_differ(
    names: list[str], loss: str
) -> None:
    tools = tuple(Tool(name=name) for name in names)
    made = sent(user("go"), tools=tools)
    body = made.body()
    offered = [tool["name"] for tool in body["tools"]]
    assert len(set(offered)) == 3
    assert [made.recorded_name(name) for name in offered] == names
    assert refusal(body) is None
    assert loss in made.losses
    assert loss in made.partial
    assert sent(user("go"), tools=tools[:1]).body()["tools"] == body["tools"][:1]


def test_images_stay_as_base64_and_addresses_are_never_followed() -> None:
    made = sent(
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "image", "image": "data:image/jpeg;base64,BBBB"},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,CCCC"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
            ],
        },
        dialect="openai",
    )
    content = made.body()["messages"][0]["content"]
    assert [block["type"] for block in content] == ["image", "image", "document", "text"]
    assert [block["source"]["data"] for block in content[:3]] == ["AAAA", "BBBB", "CCCC"]
    assert "example.com" not in str(content)
    assert made.partial == (turns.MEDIA,)


def test_a_providers_own_tool_becomes_a_plain_one_that_nobody_runs() -> None:
    searching = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    made = sent(
        user("go"), assistant([searching, found, {"type": "text", "text": "Sunny."}]), user("And?"),
        tools=(Tool(name="web_search", extra={"type": "web_search_20250305", "max_uses": 3}),),
    )  # fmt: skip
    assert made.body()["tools"] == [{"name": "web_search", "input_schema": {"type": "object"}}]
    assert made.body()["messages"][1]["content"][:2] == [searching, found]
    assert f"{convert.SHIMMED}: web_search" in made.partial
    assert turns.SERVER_BLOCK in made.partial


def test_settings_the_api_does_not_take_are_listed_and_limits_translated() -> None:
    made = sent(
        user("go"),
        params={
            "temperature": 0, "seed": 7, "max_completion_tokens": 900, "stop": ["END", " "],
            "parallel_tool_calls": False, "tool_choice": "required", "stream": True,
        },
    )  # fmt: skip
    assert made.params == {
        "model": "claude-target", "max_tokens": 900, "stop_sequences": ["END"],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    }  # fmt: skip
    assert set(made.losses) == {
        "`temperature` not sent", "`seed` not sent", "an empty stop sequence not sent",
    }  # fmt: skip
    assert refusal(made.body()) is None


EXACT = Fidelity(level=Level.EXACT)
SETTINGS = {
    "temperature": 0.2, "top_p": 0.9, "top_k": 40, "seed": 7, "thinking": {"type": "adaptive"},
    "reasoning_effort": "high",
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_not_sent_is_named_and_its_request_is_not_exact(name: str) -> None:
    made = sent(user("go"), params={name: SETTINGS[name]})
    assert name not in made.body()
    assert made.fidelity(EXACT) == Fidelity(level=Level.REBUILT, reasons=(f"`{name}` not sent",))
    assert made.partial == ()  # the model knows all that it knew


def test_thinking_that_is_left_out_is_named_and_its_request_is_not_exact() -> None:
    thought = {"type": "thinking", "thinking": "…", "signature": "c2ln"}
    made = sent(user("go"), assistant([thought, {"type": "text", "text": "Yes."}]), user("And?"))
    assert made.fidelity(EXACT) == Fidelity(level=Level.REBUILT, reasons=(turns.THINKING,))


def test_what_is_not_sent_never_makes_a_request_better_known() -> None:
    supplied = Fidelity(level=Level.SUPPLIED, reasons=("supplied by mine",))
    unknown = Fidelity(level=Level.NONE, reasons=("truncated",))
    made = sent(user("go"), params={"temperature": 0})
    assert made.fidelity(supplied) == Fidelity(
        level=Level.SUPPLIED, reasons=("supplied by mine", "`temperature` not sent")
    )
    assert made.fidelity(unknown) == unknown
    assert sent(user("go"), params={"max_tokens": 9}).fidelity(EXACT) == EXACT


def test_sampling_is_sent_where_the_server_takes_it_and_is_part_of_the_key() -> None:
    settings = {"temperature": 0.2, "top_p": 0.9, "top_k": 40}
    made = sent(user("go"), params=settings, to="gpt-4o")
    assert settings.items() <= made.body().items()
    assert refusal(made.body()) is None
    assert made.fidelity(EXACT) == EXACT
    plain = sent(user("go"), to="gpt-4o")
    assert plain.key(0) != made.key(0) == body_key(made.body(), 0)
    assert not made.asks_as(plain)
    for model in ("claude-test", "anthropic/claude-sonnet-5-5", "anthropic.claude-x-v1:0", "demo"):
        kept = sent(user("go"), params=settings, to=model)
        assert not settings.keys() & kept.body().keys()
        assert kept.key(0) == sent(user("go"), to=model).key(0)


def test_a_setting_that_is_no_number_is_not_sent() -> None:
    made = sent(user("go"), params={"temperature": "hot", "top_k": True}, to="gpt-4o")
    assert made.unsent == ("`temperature` not sent", "`top_k` not sent")
    assert refusal(made.body()) is None


def test_without_a_recorded_limit_the_default_is_asked_for() -> None:
    assert sent(user("go")).params["max_tokens"] == convert.DEFAULT_MAX_TOKENS


def test_a_choice_of_one_tool_is_translated_and_dropped_where_none_is_offered() -> None:
    choice = {"type": "function", "function": {"name": "get_order"}}
    made = sent(user("go"), params={"tool_choice": choice})
    assert made.params["tool_choice"] == {"type": "tool", "name": "get_order"}
    assert "tool_choice" not in sent(user("go"), params={"tool_choice": choice}, tools=()).params


def test_system_texts_become_one_in_every_shape() -> None:
    system = Message(
        dialect="anthropic",
        body={"role": "system", "content": [{"type": "text", "text": t} for t in ("A", "B")]},
    )
    made = sent({"role": "developer", "content": "C"}, user("go"), dialect="openai", system=system)
    assert made.body()["system"] == "A\nB\n\nC"
    assert set(made.losses) - {TRANSLATED} == {convert.JOINED}


def test_a_system_message_in_mid_conversation_keeps_its_place() -> None:
    made = sent(user("go"), assistant("ok"), {"role": "system", "content": "Hurry."}, user("on"))
    assert [each["role"] for each in made.body()["messages"]] == [
        "user", "assistant", "system", "user",
    ]  # fmt: skip
    assert refusal(made.body()) is None


def test_a_text_alone_is_one_thing_whether_recorded_as_a_block_or_not() -> None:
    plain, block = sent(user("go")), sent(user([{"type": "text", "text": "go"}]))
    assert plain.key(0) == block.key(0)


def test_the_key_of_a_request_is_the_key_of_its_body_and_names_its_sample() -> None:
    made = sent(
        user("go"), assistant([call("1")]), user([result("1")]), params={"max_tokens": 5},
        system=Message(dialect="anthropic", body={"role": "system", "content": "Be kind."}),
    )  # fmt: skip
    assert made.key(3) == body_key(made.body(), 3)
    assert made.key(3) != made.key(4)
    other = structs.replace(made, params={**made.params, "model": "other"})
    assert made.key(3) != other.key(3)


def test_steps_that_share_a_history_share_its_turns() -> None:
    converter = Converter("target")
    first = said(user("go"), assistant([call("1")]), user([result("1")]))
    later = extend(
        first, [Message(dialect="anthropic", body=b) for b in (assistant("ok"), user("x"))]
    )
    one, two = (converter.sent(Request(context=c, tools=TOOLS)).body() for c in (first, later))
    assert all(
        ours is theirs for ours, theirs in zip(one["messages"], two["messages"][:3], strict=True)
    )
    fresh = Converter("target").sent(Request(context=later, tools=TOOLS))
    assert converter.sent(Request(context=later, tools=TOOLS)).key(0) == fresh.key(0)


def test_a_branch_does_not_disturb_the_conversation_it_left() -> None:
    converter = Converter("target")
    trunk = said(user("go"), assistant([call("1"), call("2")]))
    one = extend(trunk, [Message(dialect="anthropic", body=user([result("1"), result("2")]))])
    two = extend(trunk, [Message(dialect="anthropic", body=user([result("2", "other")]))])
    assert converter.sent(Request(context=one, tools=TOOLS)).refusal is None
    assert converter.sent(Request(context=two, tools=TOOLS)).refusal is not None
    assert refusal(converter.sent(Request(context=one, tools=TOOLS)).body()) is None


_CONTENT = st.one_of(
    st.none(), st.text(max_size=5), st.integers(),
    st.lists(
        st.one_of(
            st.text(max_size=3),
            st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}),
            st.sampled_from(["a", "b", "c"]).map(call),
            st.sampled_from(["a", "b", "c"]).map(result),
            st.sampled_from(["thinking", "image", "server_tool_use", "strange"]).map(
                lambda kind: {"type": kind}
            ),
        ),
        max_size=4,
    ),
)  # fmt: skip
_BODY = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "tool", "system", "developer", "critic"]),
        "content": _CONTENT,
    },
    optional={
        "tool_call_id": st.sampled_from(["a", "b"]),
        "tool_calls": st.just([openai_call("a", "get_order", "{}")]),
    },
)


@given(st.lists(st.tuples(st.sampled_from(["anthropic", "openai", "inspect"]), _BODY), max_size=8))
def test_whatever_was_recorded_what_can_be_asked_is_taken_by_the_api(
    recorded: list[tuple[Dialect, Json]],
) -> None:
    context = extend(None, (Message(dialect=dialect, body=body) for dialect, body in recorded))
    made = Converter("target").sent(Request(context=context, tools=TOOLS))
    if made.refusal is None:
        assert refusal(made.body()) is None
        assert made.key(0) == body_key(made.body(), 0)


@pytest.mark.data
@needs_shared
@pytest.mark.parametrize(
    "files", ["tau_bench/*.json", "inspect_ai/tests/analysis/**/*.json", "claude_code_runs/*.gz"]
)
def test_real_requests_are_taken_by_the_api(files: str) -> None:
    assert sum(map(_asked_of, sorted(DATA.glob(files))[:12])) > 10


def _asked_of(path: Path) -> int:
    source, asked = Source(path), 0
    claimed = formats.sniff(source)
    if claimed is None:
        return 0
    converter = Converter("target")
    for batch in formats.load(source, Tally(), format=claimed):
        for span in batch.spans[:200]:
            if isinstance(span, ModelCall):
                request = structs.replace(span.request, tools=span.request.tools or TOOLS)
                made = converter.sent(request)
                if made.refusal is None:
                    assert refusal(made.body()) is None, span.id
                    asked += 1
    return asked
