"""Changes that name a step: a tool's result, a constraint, a summary."""

from __future__ import annotations

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
    RenameTool,
    SetMessage,
    SetObservation,
    SummariseBefore,
    describe,
    observation_edits,
)
from replay.edit.editor import Editor, diff, diff_trace
from replay.edit.texts import observed
from replay.errors import BadEdit
from replay.trace import Context, Dialect, Message, Request, Trace, extend
from tests.build import trace as built
from tests.messages_api import refusal
from tests.replay.edit_case import LOOK, Event, recorded

DIALECTS: tuple[Dialect, ...] = ("anthropic", "openai", "inspect")
LOOP: tuple[Event, ...] = (
    ("user", "Refund order 7."),
    ("model", "I look.", [("get_order", "shipped")]),
    ("model", "", [("refund_order", "done")]),
    ("model", "It is done.", []),
)  # fmt: skip


def edit(*changes: Change, **beside: Any) -> Edit:
    return Edit(name="try", changes=changes, **beside)


def edited(trace: Trace, *changes: Change) -> list[Request]:
    editor = Editor(edit(*changes), trace)
    requests = [
        editor.request(step.ask.request, f"step {step.index}", step.index) for step in trace.steps
    ]
    assert not editor.unmet
    return requests


def said(request: Request) -> list[tuple[str, str]]:
    """(role, text) of every message as it is sent, system prompt left out."""
    body = Converter("m").sent(request).body()
    assert refusal(body) is None
    return [(each["role"], messages.content_text(each["content"])) for each in body["messages"]]


def untouched(trace: Trace, requests: list[Request]) -> list[int]:
    """The steps whose request is the recorded one itself."""
    return [
        step.index
        for step, request in zip(trace.steps, requests, strict=True)
        if request is step.ask.request
    ]


# --- observations


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_is_replaced_in_every_later_context_that_carries_it(dialect: Dialect) -> None:
    trace = recorded(LOOK, dialect)
    requests = edited(trace, SetObservation(step=0, text="lost"))
    assert untouched(trace, requests) == [0]
    assert said(requests[1])[2] == ("user", "lost")
    assert all(said(request)[2] == ("user", "lost") for request in requests[1:])
    assert str(said(requests[4])).count("shipped") == 1  # the same call in step 1 stays


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_of_several_results_is_named_by_its_call(dialect: Dialect) -> None:
    trace = recorded(LOOK, dialect)
    last = edited(trace, SetObservation(step=1, call=1, text="refused", is_error=True))[-1]
    results = Converter("m").sent(last).body()["messages"][4]["content"]
    assert [(each["content"], each.get("is_error", False)) for each in results] == [
        ("shipped", False), ("refused", True),
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_result_given_twice_is_replaced_where_its_call_stands(dialect: Dialect) -> None:
    calls = [("get_order", "same"), ("get_order", "same")]
    asking = ("model", "", calls)
    trace = without_ids(recorded((("user", "go"), asking, asking, ("model", "x", [])), dialect))
    last = said(edited(trace, SetObservation(step=1, call=1, text="new"))[-1])
    assert [text for _, text in last if "same" in text or "new" in text] == [
        "same\nsame", "same\nnew",
    ]  # fmt: skip


def without_ids(trace: Trace) -> Trace:
    """The same trace, its calls and results known by their order alone."""
    nodes: dict[int, Context] = {}
    kept: dict[int, Message] = {}

    def bare(message: Message) -> Message:
        body = {name: value for name, value in message.body.items() if name != "tool_call_id"}
        return kept.setdefault(id(message), Message(dialect=message.dialect, body=body))

    def chain(context: Context | None) -> Context | None:
        if context is not None and id(context) not in nodes:
            grown = extend(chain(context.parent), [bare(context.message)])
            assert grown is not None
            nodes[id(context)] = grown
        return nodes[id(context)] if context is not None else None

    steps = tuple(
        structs.replace(
            step,
            ask=structs.replace(
                step.ask,
                request=structs.replace(step.ask.request, context=chain(step.ask.request.context)),
            ),
            acts=tuple(
                structs.replace(
                    act,
                    observation=structs.replace(
                        act.observation, message=bare(act.observation.message)
                    ),
                )
                for act in step.acts
                if act.observation is not None
            ),
        )
        for step in trace.steps
    )
    return structs.replace(trace, steps=steps)


def test_an_error_may_become_none_and_a_text_may_stay() -> None:
    trace = recorded(LOOK)
    broke = edited(trace, SetObservation(step=0, text="shipped", is_error=True))[1]
    assert Converter("m").sent(broke).body()["messages"][2]["content"][0]["is_error"] is True
    inspect = Message(
        dialect="inspect",
        body={"role": "tool", "tool_call_id": "c", "content": "", "error": {"message": "slow"}},
    )
    assert messages.results(inspect)[0].is_error
    healed = observed(inspect, None, SetObservation(step=0, text="fine", is_error=False))
    (result,) = messages.results(healed)
    assert (result.text, result.is_error) == ("fine", None)


def test_results_that_are_set_can_be_asked_for_by_step_and_call() -> None:
    made = edit(
        SetObservation(step=2, text="a"),
        SetObservation(step=3, call=1, text="b", is_error=True),
        SetMessage(0, "x"),
    )
    assert observation_edits(made) == {(2, 0): ("a", None), (3, 1): ("b", True)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (SetObservation(step=9, text="x"), "no step 9 in the trace. Steps: 0 to 4"),
        (SetObservation(step=2, text="x"), "step 2: no tool call"),
        (
            SetObservation(step=1, text="x"),
            "step 1: makes 2 calls. Try: choose one with `call`: 0 get_order, 1 refund_order",
        ),
        (SetObservation(step=1, call=2, text="x"), "step 1: no call 2. Calls: 0 get_order"),
        (SummariseBefore(9, "x"), "no step 9 in the trace. Steps: 0 to 4"),
        (SummariseBefore(0, "x"), "step 0: nothing to summarise before it"),
        (InjectConstraint("x", 5), "no step 5 in the trace"),
    ],
)
def test_a_step_or_call_that_is_not_there_is_an_error_naming_it(change: Change, said: str) -> None:
    with pytest.raises(BadEdit) as error:
        Editor(edit(change), recorded(LOOK))
    assert str(error.value).startswith(said)


def test_a_call_without_a_recorded_result_has_none_to_change() -> None:
    trace = recorded((("user", "go"), ("model", "", [("get_order", None)])))
    with pytest.raises(BadEdit, match=r"step 0: result of call 0 \(get_order\) not recorded"):
        Editor(edit(SetObservation(step=0, text="x")), trace)


def test_a_step_is_found_in_a_whole_trace_only() -> None:
    with pytest.raises(BadEdit, match="step 1 cannot be found without the whole trace"):
        diff(edit(InjectConstraint("x", 1)), recorded(LOOK).steps[1].ask.request)


def test_a_step_of_another_thread_is_an_error_naming_the_thread() -> None:
    trace = built(["Hello."])
    other = structs.replace(trace.steps[0], index=1, thread="researcher")
    both = structs.replace(trace, steps=(*trace.steps, other))
    with pytest.raises(BadEdit, match=r"thread 'researcher'.*thread = \"researcher\""):
        Editor(edit(InjectConstraint("x", 1)), both)
    Editor(edit(InjectConstraint("x", 1), thread="researcher"), both)


# --- constraints


def test_a_constraint_at_a_step_stands_at_the_end_of_its_context_and_stays_there() -> None:
    trace = recorded(LOOK)
    requests = edited(trace, InjectConstraint("Never refund.", 1))
    assert untouched(trace, requests) == [0]
    assert said(requests[1])[-1] == ("system", "Never refund.")
    assert said(requests[1])[-2] == ("user", "shipped")
    assert [said(request)[3] for request in requests[1:]] == [("system", "Never refund.")] * 4


def test_a_request_sent_twice_is_constrained_the_second_time_only() -> None:
    trace = recorded(LOOK)
    again = structs.replace(trace.steps[1], index=2)
    twice = structs.replace(trace, steps=(*trace.steps[:2], again))
    requests = edited(twice, InjectConstraint("Never refund.", 2))
    assert untouched(twice, requests) == [0, 1]
    assert said(requests[2])[-1] == ("system", "Never refund.")


def test_a_context_that_does_not_go_on_from_the_step_is_left_and_counted() -> None:
    trace = recorded(LOOK)
    compacted = extend(None, [Message(dialect="anthropic", body={"role": "user", "content": "S."})])
    request = structs.replace(trace.steps[4].ask.request, context=compacted)
    for change, wanted in (
        (InjectConstraint("x", 3), "continues step 3 as recorded"),
        (SummariseBefore(3, "x"), "continues step 3 as recorded"),
        (SetObservation(step=3, text="x"), "contains the result of step 3"),
    ):
        editor = Editor(edit(change), trace)
        assert editor.request(request, "step 4", 4) is request
        assert editor.unmet == (wanted,)


# --- summaries


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_summary_stands_for_what_came_before_the_last_words_of_the_user(
    dialect: Dialect,
) -> None:
    trace = recorded(LOOK, dialect)
    requests = edited(trace, SummariseBefore(4, "Order 7 is refunded."))
    assert untouched(trace, requests) == [0, 1, 2, 3]
    assert said(requests[4]) == [
        ("user", "Order 7 is refunded.\nAnd order 8?"), ("assistant", ""), ("user", "lost"),
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_where_the_user_spoke_once_the_last_answer_and_its_results_stay(dialect: Dialect) -> None:
    trace = recorded(LOOP, dialect)
    requests = edited(trace, SummariseBefore(2, "Order 7 shipped; refund it."))
    assert untouched(trace, requests) == [0, 1]
    assert said(requests[2]) == [
        ("user", "Order 7 shipped; refund it."), ("assistant", ""), ("user", "done"),
    ]  # fmt: skip


def test_a_summary_never_cuts_between_a_call_and_its_result() -> None:
    calls = [("get_order", "shipped"), ("refund_order", "done")]
    whole = recorded((*LOOK[:1], ("model", "Both.", calls), ("model", "x", [])), "openai")
    context = whole.steps[1].ask.request.context
    assert context is not None
    *before, last_result = context.messages()
    interrupting = Message(dialect="openai", body={"role": "user", "content": "Well?"})
    chain = extend(None, [*before, interrupting, last_result])
    request = structs.replace(whole.steps[1].ask.request, context=chain)
    step = structs.replace(whole.steps[1], ask=structs.replace(whole.steps[1].ask, request=request))
    trace = structs.replace(whole, steps=(whole.steps[0], step))
    assert said(edited(trace, SummariseBefore(1, "So far."))[1]) == [
        ("user", "So far."), ("assistant", "Both."), ("user", "shipped\ndone\nWell?"),
    ]  # fmt: skip


def test_later_steps_go_on_from_the_summary() -> None:
    trace = recorded(LOOK)
    requests = edited(trace, SummariseBefore(1, "Refund order 7."))
    assert said(requests[1])[0] == ("user", "Refund order 7.")
    assert said(requests[4])[1:] == said(trace.steps[4].ask.request)[1:]
    assert requests[2].context is not None
    assert requests[1].context in requests[2].context.nodes()


def test_system_messages_that_lead_the_conversation_stay_before_a_summary() -> None:
    trace = recorded((("system", "Rules."), *LOOP))
    request = edited(trace, SummariseBefore(2, "So far."))[2]
    assert request.context is not None
    assert [messages.text(each) for each in request.context.messages()][:2] == ["Rules.", "So far."]


def test_two_summaries_and_a_constraint_in_one_edit() -> None:
    trace = recorded(LOOK)
    requests = edited(
        trace, SummariseBefore(1, "One."), SummariseBefore(4, "Two."), InjectConstraint("Kind.", 4)
    )
    assert said(requests[3])[0] == ("user", "One.")
    assert said(requests[4]) == [
        ("user", "Two.\nAnd order 8?"), ("assistant", ""), ("user", "lost"), ("system", "Kind."),
    ]  # fmt: skip


# --- what is shared


def test_however_many_steps_an_edit_is_made_of_each_message_is_edited_once() -> None:
    loop = [("model", f"{at}", [("get_order", f"result {at}")]) for at in range(40)]
    trace = recorded([("user", "go"), *loop])
    requests = edited(
        trace,
        SetMessage(0, "Go on."),
        RenameTool("get_order", "look_up"),
        SetObservation(step=5, text="new"),
        InjectConstraint("Kind.", 20),
        SummariseBefore(30, "So far."),
        InsertMessage(10, "user", "Quick."),
    )
    made = {id(node) for each in requests if each.context for node in each.context.nodes()}
    longest = trace.steps[-1].ask.request.context
    assert longest is not None
    assert len(made) == longest.depth + len(["Quick.", "Kind.", "So far."])


def test_the_diff_of_a_trace_shows_each_part_where_it_first_changes() -> None:
    trace = recorded(LOOK)
    lines = diff_trace(
        edit(
            SetObservation(step=0, text="lost", is_error=True),
            InjectConstraint("Kind.", 2),
            SummariseBefore(4, "So far."),
        ),
        trace,
    )
    assert [line[4:] for line in lines if line.startswith("+++")] == [
        "result in message 2", "system message inserted after message 4",
        "conversation before message 6",
    ]  # fmt: skip
    assert {
        "-shipped",
        "+lost",
        "+(error) lost",
        "+Kind.",
        "+So far.",
        "-user: Refund order 7.",
    } <= set(lines)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (SetObservation(step=4, text="x"), "result of step 4 set"),
        (SetObservation(step=4, call=1, text="x"), "result of call 1 of step 4 set"),
        (SummariseBefore(3, "x"), "conversation before step 3 summarised"),
    ],
)
def test_a_change_of_a_step_is_described_in_a_few_words(change: Change, words: str) -> None:
    assert describe(change) == words
