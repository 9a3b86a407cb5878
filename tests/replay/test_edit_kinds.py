"""What each kind of change makes of a request, in every dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from replay import messages
from replay.convert import Converter
from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    InsertMessage,
    PatchSystem,
    RemoveTool,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetMessage,
    SetModel,
    SetParameter,
    SetSystem,
    SetTool,
    describe,
)
from replay.edit.editor import Editor, apply, diff, diff_trace
from replay.errors import BadEdit
from replay.trace import Dialect, Fidelity, Json, Level, Message, Request, Trace, extend
from tests.messages_api import refusal, tool_use
from tests.replay.edit_case import LOOK, SYSTEM, Event, recorded

DIALECTS: tuple[Dialect, ...] = ("anthropic", "openai", "inspect")


def edit(*changes: Change, **beside: Any) -> Edit:
    return Edit(name="try", changes=changes, **beside)


def asked(trace: Trace, *changes: Change) -> list[Request]:
    """Every request of the trace, edited."""
    editor = Editor(edit(*changes), trace)
    requests = [
        editor.request(step.ask.request, f"step {step.index}", step.index) for step in trace.steps
    ]
    assert not editor.unmet
    return requests


def system_of(request: Request) -> str:
    assert request.system is not None
    return messages.text(request.system)


def said(request: Request) -> list[tuple[str, str]]:
    """(role, text) of every message."""
    context = request.context
    return [(m.role, messages.text(m)) for m in context.messages()] if context is not None else []


def sent(request: Request) -> list[tuple[str, Any]]:
    """(role, content) as it is sent."""
    body = Converter("m").sent(request).body()
    assert refusal(body) is None
    return [(each["role"], each["content"]) for each in body["messages"]]


def last(events: Sequence[Event] = LOOK, dialect: Dialect = "anthropic", **beside: Any) -> Request:
    return recorded(events, dialect, **beside).steps[-1].ask.request


# --- the system prompt


def test_a_patch_changes_the_system_prompt_and_names_the_step_it_does_not_fit() -> None:
    patch = "@@ -1,2 +1,2 @@\n You refund orders.\n-Refund at once.\n+Verify.\n"
    for request in asked(recorded(LOOK), PatchSystem(patch)):
        assert system_of(request) == "You refund orders.\nVerify.\n"
    with pytest.raises(BadEdit, match=r"step 3: hunk 1 of the patch: lines from 'You ref"):
        apply(edit(SetSystem("Other."), PatchSystem(patch)), last(), "step 3")
    with pytest.raises(BadEdit, match="arc attach"):
        apply(edit(PatchSystem(patch)), last(system=None))


def test_a_constraint_is_the_last_paragraph_of_the_system_prompt() -> None:
    changed = apply(edit(InjectConstraint("Never refund more than 50.\n")), last())
    assert system_of(changed) == f"{SYSTEM.rstrip()}\n\nNever refund more than 50.\n"
    alone = apply(edit(InjectConstraint("Be kind.")), last(system=None))
    assert system_of(alone) == "Be kind."


def test_changes_of_one_prompt_are_made_in_their_order() -> None:
    made = edit(SetSystem("One."), ReplaceText("One", "Two"), InjectConstraint("Three."))
    assert system_of(apply(made, last())) == "Two.\n\nThree.\n"


def test_only_changes_of_the_system_prompt_touch_it() -> None:
    assert edit(PatchSystem("x")).touches_system
    assert edit(InjectConstraint("x")).touches_system
    assert edit(ReplaceText("a", "b")).touches_system
    assert not edit(InjectConstraint("x", 3)).touches_system
    assert not edit(ReplaceText("a", "b", "tool get_order"), SetModel("m")).touches_system


# --- tools


def test_an_anchor_may_stand_in_the_description_of_a_tool() -> None:
    changed = apply(edit(ReplaceText("Look", "Read", "tool get_order")), last())
    assert changed.tools is not None
    assert [tool.description for tool in changed.tools] == ["Read up.", "Refund.", "Find."]
    with pytest.raises(BadEdit, match=r"step 1: anchor 'x' not found in the description of get_o"):
        apply(edit(ReplaceText("x", "y", "tool get_order")), last(), "step 1")
    with pytest.raises(BadEdit, match=r"unknown tool 'get_ordr'; did you mean 'get_order'"):
        apply(edit(ReplaceText("x", "y", "tool get_ordr")), last())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_is_renamed_where_it_is_offered_and_where_it_was_called(dialect: Dialect) -> None:
    made = edit(RenameTool("get_order", "look_up"))
    before, after = last(dialect=dialect), apply(made, last(dialect=dialect))
    assert after.tools is not None
    assert [tool.name for tool in after.tools] == ["look_up", "refund_order", "find_product"]
    assert "get_order" not in str(sent(after))
    assert after.context is not None
    assert "get_order" not in str([each.body for each in after.context.messages()])
    assert str(sent(before)).replace("get_order", "look_up") == str(sent(after))


def test_an_old_style_function_call_is_renamed_with_its_result() -> None:
    called = {"name": "get_order", "arguments": "{}"}
    bodies: list[Json] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "function_call": called},
        {"role": "function", "name": "get_order", "content": "ok"},
    ]
    chain = extend(None, [Message(dialect="openai", body=body) for body in bodies])
    request = structs.replace(last(), context=chain)
    _, asking, answered = sent(apply(edit(RenameTool("get_order", "look_up")), request))
    assert asking[1][0]["name"] == "look_up"
    assert answered[1][0]["type"] == "tool_result"


@pytest.mark.parametrize(
    ("choice", "renamed"),
    [
        ({"type": "tool", "name": "get_order"}, {"type": "tool", "name": "look_up"}),
        (
            {"type": "function", "function": {"name": "get_order"}},
            {"type": "function", "function": {"name": "look_up"}},
        ),
        ({"name": "get_order"}, {"name": "look_up"}),
        ({"type": "tool", "name": "refund_order"}, {"type": "tool", "name": "refund_order"}),
        ("auto", "auto"),
    ],
)
def test_a_forced_tool_is_renamed_and_no_longer_forced_when_removed(
    choice: Any, renamed: Any
) -> None:
    request = last(params={"tool_choice": choice, "max_tokens": 5})
    changed = apply(edit(RenameTool("get_order", "look_up")), request)
    assert changed.params == {"tool_choice": renamed, "max_tokens": 5}
    removed = apply(edit(RemoveTool("get_order")), request)
    forced = renamed != choice
    assert removed.params == ({"max_tokens": 5} if forced else request.params)


def test_a_call_by_a_new_name_leads_back_to_the_recorded_one() -> None:
    swapped = edit(
        RenameTool("get_order", "spare"),
        RenameTool("refund_order", "get_order"),
        RenameTool("spare", "refund_order"),
    )
    assert swapped.recorded_name("get_order") == "refund_order"
    assert swapped.recorded_name("refund_order") == "get_order"
    assert swapped.recorded_name("find_product") == "find_product"
    tools = apply(swapped, last()).tools
    assert tools is not None
    assert [(tool.name, tool.description) for tool in tools][:2] == [
        ("refund_order", "Look up."), ("get_order", "Refund."),
    ]  # fmt: skip
    calls = [block["name"] for _, content in sent(apply(swapped, last())) for block in content
             if isinstance(block, dict) and block["type"] == "tool_use"]  # fmt: skip
    assert calls == ["refund_order", "refund_order", "get_order", "refund_order"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (RenameTool("get_order", "refund_order"), "step 2: tool 'refund_order' already exists"),
        (RenameTool("get_ordr", "x"), "step 2: unknown tool 'get_ordr'"),
        (RemoveTool("get_ordr"), "step 2: unknown tool 'get_ordr'"),
        (
            RenameTool("get_order", "a b"),
            "tool get_order renamed to a b: text: 'a b' is not a valid tool name",
        ),
        (RenameTool("get_order", "x" * 129), f"tool get_order renamed to {'x' * 129}: text:"),
    ],
)
def test_a_tool_that_cannot_be_renamed_or_removed_is_an_error(change: Change, said: str) -> None:
    with pytest.raises(BadEdit) as error:
        apply(edit(change), last(), "step 2")
    assert error.value.message.startswith(said)
    assert error.value.hint


def test_a_removed_tool_is_not_offered_and_the_calls_of_it_stay() -> None:
    changed = apply(edit(RemoveTool("get_order")), last())
    body = Converter("m").sent(changed).body()
    assert [tool["name"] for tool in body["tools"]] == ["refund_order", "find_product"]
    assert "get_order" in str(body["messages"])
    assert refusal(body) is None


def test_the_last_tool_stays_where_the_conversation_calls_some() -> None:
    every = [RemoveTool(name) for name in ("get_order", "refund_order", "find_product")]
    first = recorded(LOOK).steps[0].ask.request
    assert apply(edit(*every), first).tools == ()
    with pytest.raises(
        BadEdit, match="step 6: the edit removes all tools, but the conversation ca"
    ):
        apply(edit(*every), last(), "step 6")


# --- messages


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_anchor_may_stand_in_a_message_which_keeps_its_calls(dialect: Dialect) -> None:
    changed = apply(edit(ReplaceText("look", "read", "message 1")), last(dialect=dialect))
    assert said(changed)[1] == ("assistant", "I read.")
    before = sent(last(dialect=dialect))[1][1]
    assert sent(changed)[1][1][1:] == before[1:]


def test_an_anchor_of_a_message_stands_in_it_once_and_in_no_result() -> None:
    with pytest.raises(BadEdit, match="step 5: anchor 'e' found 2 tim"):
        apply(edit(ReplaceText("e", "x", "message 0")), last(), "step 5")
    for dialect in DIALECTS:
        with pytest.raises(BadEdit, match=r"not found in the text of message 2.*set_observation"):
            apply(edit(ReplaceText("shipped", "lost", "message 2")), last(dialect=dialect))


def test_a_message_is_inserted_after_the_one_named_in_every_context_that_holds_it() -> None:
    trace = recorded(LOOK)
    requests = asked(trace, InsertMessage(0, "user", "Be quick."))
    assert all(said(each)[:2] == [("user", "Refund order 7."), ("user", "Be quick.")]
               for each in requests)  # fmt: skip
    blocks = [{"type": "text", "text": text} for text in ("Refund order 7.", "Be quick.")]
    assert sent(requests[0]) == [("user", blocks)]
    system = asked(trace, InsertMessage(-1, "system", "Obey."))
    assert [said(each)[0] for each in system] == [("system", "Obey.")] * len(system)


def test_positions_count_what_was_recorded_whatever_else_is_inserted() -> None:
    request = asked(
        recorded(LOOK),
        InsertMessage(-1, "user", "Hi."),
        InsertMessage(0, "user", "Quick."),
        SetMessage(0, "Refund order 9."),
        ReplaceText("look", "read", "message 1"),
    )[-1]
    assert said(request)[:4] == [
        ("user", "Hi."), ("user", "Refund order 9."), ("user", "Quick."), ("assistant", "I read."),
    ]  # fmt: skip


def test_an_assistants_message_stands_from_when_the_conversation_goes_on() -> None:
    trace = recorded(LOOK)
    requests = asked(trace, InsertMessage(0, "assistant", "Let me think."))
    assert requests[0] is trace.steps[0].ask.request
    assert said(requests[1])[1] == ("assistant", "Let me think.")
    assert [block["type"] for block in sent(requests[1])[1][1]] == ["text", "text", "tool_use"]
    end = len(said(trace.steps[-1].ask.request)) - 1
    editor = Editor(edit(InsertMessage(end, "assistant", "x")), trace)
    final = trace.steps[-1].ask.request
    assert editor.request(final, "the last step") is final
    assert editor.unmet == (f"continues after message {end}",)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_and_its_result_are_never_parted(dialect: Dialect) -> None:
    request = last(dialect=dialect)
    with pytest.raises(BadEdit, match="step 6: an assistant message after message 1 would s"):
        apply(edit(InsertMessage(1, "assistant", "Hm.")), request, "step 6")
    for role in ("user", "system"):
        made = apply(edit(InsertMessage(1, role, "Well?")), request)
        assert [block["type"] for block in sent(made)[2][1]] == ["tool_result", "text"]


def test_calls_made_together_in_two_messages_are_not_parted() -> None:
    calls = [tool_use("get_order") | {"id": call} for call in "ab"]
    results = [{"type": "tool_result", "tool_use_id": call, "content": "ok"} for call in "ab"]
    bodies: list[Json] = [
        {"role": "user", "content": "go"},
        *({"role": "assistant", "content": [call]} for call in calls),
        {"role": "user", "content": results},
    ]
    chain = extend(None, [Message(dialect="anthropic", body=body) for body in bodies])
    request = structs.replace(last(), context=chain)
    assert len(sent(request)) == 3
    with pytest.raises(BadEdit, match="a message before message 2 would separate parallel calls"):
        apply(edit(InsertMessage(1, "user", "Well?")), request)


def test_a_change_of_a_message_that_no_request_has_is_counted() -> None:
    editor = Editor(
        edit(
            SetMessage(90, "x"),
            InsertMessage(91, "user", "x"),
            ReplaceText("a", "b", "message 92"),
            SetSystem("x"),
        )
    )
    editor.request(last(), "step 0")
    assert editor.unmet == ("has message 90", "has message 91", "has message 92")


# --- who is asked


def test_another_model_is_asked_with_another_effort() -> None:
    request = last(params={"output_config": {"format": {"type": "json_schema"}}})
    changed = apply(edit(SetModel("big"), SetEffort("xhigh")), request)
    assert changed.model == "big"
    assert Converter("big").sent(changed).params["output_config"] == {
        "format": {"type": "json_schema"}, "effort": "xhigh",
    }  # fmt: skip
    assert edit(SetModel("a"), SetModel("b")).model == "b"
    assert edit(SetEffort("low")).model is None
    with pytest.raises(
        BadEdit, match="effort set to hihg: text: no effort 'hihg'; did you mean 'h"
    ):
        apply(edit(SetEffort("hihg")), request)


@pytest.mark.parametrize(
    "change",
    [
        RenameTool("get_order", "get_order"),
        SetModel("tiny"),
        SetEffort("low"),
        ReplaceText("Look", "Look", "tool get_order"),
        ReplaceText("7", "7", "message 0"),
        PatchSystem("@@ -1 +1 @@\n-Refund at once.\n+Refund at once.\n"),
    ],
)
def test_a_change_to_what_is_there_already_leaves_the_request_itself(change: Change) -> None:
    request = last(params={"output_config": {"effort": "low"}})
    assert apply(edit(change), request) is request
    assert diff(edit(change), request) == []


# --- shown


def test_the_diff_names_each_part_plainly() -> None:
    trace = recorded(LOOK, params={"tool_choice": {"type": "tool", "name": "get_order"}})
    made = edit(
        SetModel("big"),
        SetEffort("max"),
        RenameTool("get_order", "look_up"),
        RemoveTool("find_product"),
        SetTool("look_up", "Read."),
        SetMessage(0, "Refund it."),
        InsertMessage(0, "user", "Please."),
        InsertMessage(3, "assistant", "Hm."),
    )
    with pytest.raises(BadEdit, match="separate a call from its result"):
        diff_trace(made, trace)
    made = edit(*made.changes[:-1], InsertMessage(4, "assistant", "Hm."))
    lines = diff_trace(made, trace)
    assert [line[4:] for line in lines if line.startswith("+++")] == [
        "model", "settings", "tool get_order", "tool find_product", "message 0",
        "user message inserted after message 0", "assistant message inserted after message 4",
    ]  # fmt: skip
    assert {"-tiny", "+big", '+output_config: {"effort":"max"}', "+look_up", "-get_order", "-Find.",
            "+Read.", "-Refund order 7.", "+Please.", "+Hm."} <= set(lines)  # fmt: skip


def test_the_diff_of_a_tool_that_takes_the_name_of_a_removed_one_shows_both() -> None:
    made = edit(RemoveTool("get_order"), RenameTool("find_product", "get_order"))
    lines = diff(made, last())
    assert {"-Look up.", "-find_product", "+get_order"} <= set(lines)
    assert "+Find." not in lines


def test_the_diff_may_be_of_some_steps_only() -> None:
    trace = recorded(LOOK)
    made = edit(SetMessage(2, "x"))
    assert diff_trace(made, trace, [0]) == []
    with pytest.raises(BadEdit, match="step 1: message 2 is a tool result"):
        diff_trace(made, trace)


def test_the_diff_of_one_request_shows_what_is_changed_in_it() -> None:
    lines = diff(edit(SetMessage(4, "x"), SetMessage(0, "y")), recorded(LOOK).steps[0].ask.request)
    assert [line for line in lines if line.startswith("+++")] == ["+++ message 0"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (SetSystem("x"), "system prompt set"),
        (PatchSystem("x"), "system prompt patched"),
        (ReplaceText("a", "b"), "text replaced in the system prompt"),
        (ReplaceText("a", "b", "message 3"), "text replaced in message 3"),
        (InjectConstraint("x"), "constraint added to the system prompt"),
        (InjectConstraint("x", 2), "constraint added at step 2"),
        (SetTool("t", "d", {}), "tool t: description and schema set"),
        (RenameTool("t", "u"), "tool t renamed to u"),
        (RemoveTool("t"), "tool t removed"),
        (SetMessage(3, "x"), "message 3 set"),
        (InsertMessage(-1, "user", "x"), "user message inserted at the start"),
        (InsertMessage(2, "system", "x"), "system message inserted after message 2"),
        (SetModel("m"), "model set to m"),
        (SetEffort("low"), "effort set to low"),
        (SetParameter("temperature", 0.2), "temperature set to 0.2"),
        (SetParameter("stop", ["END"]), 'stop set to ["END"]'),
        (SetParameter("seed"), "seed left out"),
    ],
)
def test_a_change_is_described_in_a_few_words(change: Change, words: str) -> None:
    assert describe(change) == words


def test_a_setting_takes_the_place_of_every_word_for_it() -> None:
    params = {"max_completion_tokens": 9, "temperature": 1, "stop_sequences": ["A"], "seed": 1}
    request = Request(params=params)
    changed = apply(
        edit(
            SetParameter("max_tokens", 50),
            SetParameter("temperature", 0),
            SetParameter("stop", "B"),
            SetParameter("seed"),
        ),
        request,
    )  # fmt: skip
    assert changed.params == {"max_tokens": 50, "temperature": 0, "stop": "B"}
    assert apply(edit(SetParameter("temperature", 1)), request) is request


def test_what_a_person_types_sets_a_setting() -> None:
    assert SetParameter.from_words("temperature = 0.2") == SetParameter("temperature", 0.2)
    assert SetParameter.from_words('stop = ["A"]') == SetParameter("stop", ["A"])
    for words in ("", "temperature", "a = 1\nb = 2", "temperature 0.2"):
        with pytest.raises(BadEdit, match=r"Try: temperature = 0\.2"):
            SetParameter.from_words(words)


def test_a_setting_is_sent_where_the_model_takes_it_and_else_lowers_the_fidelity() -> None:
    context = extend(None, [Message(dialect="openai", body={"role": "user", "content": "Hi"})])
    changed = apply(edit(SetParameter("temperature", 0.3)), Request(context=context))
    exact = Fidelity(level=Level.EXACT)
    for model in ("openai:gpt-4o", "openai:llama3:8b", "openai-responses:gpt-4.1"):
        sent = Converter(model).sent(changed)
        assert (sent.body()["temperature"], sent.fidelity(exact)) == (0.3, exact)
    assert Converter("llama3:8b").sent(changed).body()["temperature"] == 0.3
    for model in ("openai:o3", "claude-opus-5-5", "bedrock:anthropic.claude-opus-5-5"):
        sent = Converter(model).sent(changed)
        assert "temperature" not in sent.body()
        assert sent.fidelity(exact).reasons[-1] == "`temperature` not sent"
