"""What holds of every edit of every conversation."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from replay import turns
from replay.convert import Converter
from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    RenameTool,
    SetObservation,
    SummariseBefore,
)
from replay.edit.editor import Editor, diff_trace
from replay.edit.files import from_toml, to_toml
from replay.errors import BadEdit
from replay.trace import Request, Trace
from tests.messages_api import refusal
from tests.replay.edit_case import changes, of_conversations, of_steps, traces


def edited(trace: Trace, *made: Change) -> list[Request] | None:
    """Every request of the trace, edited; None where the edit does not apply."""
    try:
        editor = Editor(Edit(name="try", changes=made), trace)
        return [
            editor.request(step.ask.request, f"step {step.index}", step.index)
            for step in trace.steps
        ]
    except BadEdit:
        event("does not apply")
        return None


@given(traces, st.lists(changes, min_size=1, max_size=3))
def test_no_edit_makes_a_request_that_the_api_refuses(trace: Trace, made: list[Change]) -> None:
    converter = Converter("m")
    for step, request in zip(trace.steps, edited(trace, *made) or (), strict=False):
        control, changed = converter.sent(step.ask.request), converter.sent(request)
        if control.refusal is None:
            assert refusal(control.body()) is None
            assert changed.refusal is None
            assert refusal(changed.body()) is None


@given(traces, st.lists(of_conversations, min_size=1, max_size=3))
def test_the_calls_of_a_conversation_keep_their_results(trace: Trace, made: list[Change]) -> None:
    converter = Converter("m")
    for step, request in zip(trace.steps, edited(trace, *made) or (), strict=False):
        control, changed = converter.sent(step.ask.request), converter.sent(request)
        if turns.ORPHAN in changed.losses:
            assert turns.ORPHAN in control.losses
        if control.refusal is None:
            assert not changed.conversation.unanswered


@given(traces, of_steps)
def test_no_request_before_the_step_of_a_change_is_touched(trace: Trace, change: Change) -> None:
    assert isinstance(change, (SetObservation, InjectConstraint, SummariseBefore))
    for step, request in zip(trace.steps, edited(trace, change) or (), strict=False):
        first = (change.step or 0) + isinstance(change, SetObservation)
        if step.index < first:
            assert request is step.ask.request


@given(traces, st.lists(changes, min_size=1, max_size=3))
def test_requests_edited_together_are_those_edited_one_by_one(
    trace: Trace, made: list[Change]
) -> None:
    converter = Converter("m")
    for step, request in zip(trace.steps, edited(trace, *made) or (), strict=False):
        editor = Editor(Edit(name="try", changes=tuple(made)), trace)
        alone = editor.request(step.ask.request, "alone")
        assert converter.sent(alone).key(0) == converter.sent(request).key(0)
        assert (alone is step.ask.request) == (request is step.ask.request)


@given(traces, st.lists(changes, min_size=1, max_size=3))
def test_an_edit_shows_a_diff_exactly_where_it_changes_what_is_said(
    trace: Trace, made: list[Change]
) -> None:
    requests = edited(trace, *made)
    if requests is None:
        return
    lines = diff_trace(Edit(name="try", changes=tuple(made)), trace)
    if all(new is step.ask.request for step, new in zip(trace.steps, requests, strict=True)):
        assert not lines
    elif not any(isinstance(change, RenameTool) for change in made):  # calls are no text
        assert lines


@given(st.lists(changes, min_size=1, max_size=4), st.text(max_size=5), st.none() | st.text())
def test_an_edit_written_to_a_file_is_read_back(
    made: list[Change], name: str, thread: str | None
) -> None:
    edit = Edit(name=name, changes=tuple(made), thread=thread)
    again = from_toml(to_toml(edit), "e.toml", "other")
    assert again == edit
    assert again.digest == edit.digest
