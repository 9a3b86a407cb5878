"""The texts that can be edited, the edit that comes of them, and what an edit makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from arc_tui.experiments.edits import EMPTY, Draft, build_draft, diff_of, edit_of, place_of
from arc_tui.features.replay.state import ReplayState
from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    PatchSystem,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetMessage,
    SetModel,
    SetObservation,
    SetSystem,
    SetTool,
)
from replay.errors import BadEdit
from replay.plan import cannot_replay
from replay.store.offers import Offer
from taxonomy.judgements.schema import open_ledger
from tests import build
from tests.arc_tui import sample

STEP = 3
SYSTEM = "system prompt"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("db") / "arc.db"
    sample.put_failed(path)
    return path


def draft(path: Path, *changes: Change, thread: str | None = None, at: int = STEP) -> Draft:
    edit = Edit(name="kept", changes=changes, thread=thread) if changes else None
    with open_ledger(path) as store:
        (key,) = (row[0] for row in store.db.execute("select key from trace"))
        return build_draft(store, key, at, edit)


@pytest.fixture(scope="module")
def recorded(path: Path) -> Draft:
    return draft(path)


def texts(found: Draft) -> dict[str, str]:
    return {target.label: target.shown for target in found.targets}


def test_what_can_be_edited_is_the_prompt_tools_messages_and_results_up_to_the_step(
    recorded: Draft,
) -> None:
    labels = [target.label for target in recorded.targets]
    assert labels[:2] == [SYSTEM, "tool get_reservation"]
    assert [label for label in labels if label.startswith("result")] == ["result 1", "result 2"]
    assert "message 0" in labels
    assert len(labels) == len(set(labels))


def test_each_call_of_a_step_has_a_result_of_its_own(path: Path) -> None:
    labels = [target.label for target in draft(path, at=8).targets]
    assert {"result 8.0", "result 8.1"} <= set(labels)


def every_change() -> Iterator[tuple[Change, str, str]]:
    """A change, the text it touches, and what that text says under it."""
    first = sample.SYSTEM.splitlines()[0]
    rest = sample.SYSTEM.removeprefix(first)
    yield SetSystem("Be kind."), SYSTEM, "Be kind."
    yield PatchSystem(f"@@ -1,1 +1,1 @@\n-{first}\n+Be kind."), SYSTEM, f"Be kind.{rest}"
    yield ReplaceText(first, "Be kind."), SYSTEM, f"Be kind.{rest}"
    yield InjectConstraint("Be kind."), SYSTEM, f"{sample.SYSTEM}\n\nBe kind."
    yield SetTool("get_reservation", description="It reads."), "tool get_reservation", "It reads."
    yield SetMessage(0, "I want one."), "message 0", "I want one."
    yield ReplaceText("cancel", "keep", "message 0"), "message 0", "I want to keep two bookings."
    yield SetObservation(step=2, text="none"), "result 2", "none"


@pytest.mark.parametrize(("change", "label", "text"), [*every_change()])
def test_a_change_of_a_text_shows_as_that_text(
    path: Path, recorded: Draft, change: Change, label: str, text: str
) -> None:
    found = draft(path, change)
    assert texts(found) == {**texts(recorded), label: text}
    assert found.also == ()


HIDDEN: list[Change] = [
    RenameTool("get_reservation", "read_reservation"),
    SetModel("claude-test"),
    SetEffort("low"),
    InjectConstraint("Be kind.", step=2),
    SetTool("get_reservation", schema={"type": "object"}),
    SetObservation(step=2, text="none", is_error=True),
    SetObservation(step=9, text="later than the step that is looked at"),
]


@pytest.mark.parametrize("change", HIDDEN)
def test_a_change_that_no_text_shows_stands_beside_them(path: Path, change: Change) -> None:
    assert draft(path, change).also == (change,)


@pytest.mark.parametrize("change", [*(each for each, _, _ in every_change()), *HIDDEN])
def test_an_edit_that_is_taken_and_left_alone_is_the_same_edit(path: Path, change: Change) -> None:
    again = edit_of(draft(path, change), {}, "another name")
    assert again is not None
    assert again.digest == Edit(name="kept", changes=(change,)).digest


def test_a_text_written_anew_takes_the_place_of_the_changes_that_made_it(path: Path) -> None:
    rename = RenameTool("cancel_reservation", "cancel")
    found = draft(path, SetSystem("Be kind."), rename, InjectConstraint("Be brief."))
    anew = edit_of(found, {SYSTEM: "Be honest."}, "")
    assert anew is not None
    assert anew.changes == (rename, SetSystem("Be honest."))


def test_a_text_written_back_as_it_was_recorded_is_no_change(path: Path) -> None:
    found = draft(path, SetSystem("Be kind."))
    assert edit_of(found, {SYSTEM: sample.SYSTEM}, "") is None


def test_what_else_a_change_does_survives_another_text(path: Path) -> None:
    schema = SetTool("get_reservation", description="It reads.", schema={"type": "object"})
    found = draft(path, schema)
    anew = edit_of(found, {"tool get_reservation": "It looks up."}, "")
    assert anew is not None
    assert anew.changes == (schema, SetTool("get_reservation", description="It looks up."))


@given(st.lists(st.sampled_from(range(5)), unique=True), st.text(min_size=1))
def test_texts_typed_show_again_when_their_edit_is_taken(
    path: Path, recorded: Draft, places: list[int], text: str
) -> None:
    chosen = [recorded.targets[place] for place in places]
    typed = {each.label: f"{text} {each.label}" for each in chosen}
    edit = edit_of(recorded, typed, "typed")
    assert (edit is None) == (not typed)
    if edit is not None:
        assert {place_of(change) for change in edit.changes} == {each.place for each in chosen}
        assert texts(draft(path, *edit.changes)) == {**texts(recorded), **typed}


def test_an_edit_of_another_thread_is_shown_in_that_thread(path: Path) -> None:
    main = draft(path)
    assert main.source is not None
    other = next(s for s in main.source.steps if s.thread != main.source.steps[0].thread)
    found = draft(path, SetMessage(0, "Look it up twice."), thread=other.thread)
    assert (found.step, found.thread) == (other.index, other.thread)
    assert texts(found)["message 0"] == "Look it up twice."
    again = edit_of(found, {}, "")
    assert again is not None
    assert again.thread == other.thread


def test_an_edit_that_does_not_fit_is_refused_with_a_sentence(path: Path) -> None:
    with pytest.raises(BadEdit, match="anchor 'nowhere' not found in the system prompt"):
        draft(path, ReplaceText("nowhere", "somewhere"))
    with pytest.raises(BadEdit, match="the trace has no thread 'nobody'"):
        draft(path, SetSystem("Be kind."), thread="nobody")


def test_the_diff_shows_a_result_where_it_is_first_carried_on(path: Path) -> None:
    change = SetObservation(step=2, text="none")
    found = draft(path, change)
    assert "+none" in diff_of(found, found.edit)


def test_a_trace_without_steps_has_nothing_to_edit(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    spans = build.trace([], task="Hi.").spans
    sample.put(path, sample.header("1", "0", sample.PASSED), spans)
    found = draft(path)
    assert (found.targets, found.rows, found.missing) == ((), (), ())


def test_what_cannot_be_replayed_says_once_what_to_attach() -> None:
    missing = ("system prompt not recorded", "tool definitions not recorded")
    draft = structs.replace(EMPTY, missing=missing, record="arc record -- claude")
    trouble = cannot_replay(missing)
    refused = ReplayState(phase="failed", draft=draft, trouble=trouble)
    assert refused.notices == (
        "‹replay.attach› attach what is missing; arc record -- claude logs it in the next run",
    )
    at_rest = ReplayState(phase="idle", draft=draft)
    assert at_rest.notices == (f"{' and '.join(missing)}: ‹replay.attach› attach",)
    offer = Offer(match="client", source="f7" * 8, title="Hello", system_characters=1200, tools=17,
                  runs=1, evidence=("same client and version: claude-code 2.0.14", "more"),
                  against=("not there, but called: Skill",))  # fmt: skip
    offered = structs.replace(refused, draft=structs.replace(draft, offers=(offer,)))
    assert offered.notices[0] == (
        "‹replay.attach› attach a system prompt of 1 200 characters, 17 tools: same client and"
        " version: claude-code 2.0.14; but not there, but called: Skill;"
        " arc record -- claude logs it in the next run"
    )
