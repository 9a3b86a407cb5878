"""Edits as data: read from files, applied to requests, shown, stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from replay.convert import Converter
from replay.edit import files
from replay.edit.changes import Change, Edit, ReplaceText, SetMessage, SetSystem, SetTool
from replay.edit.editor import Editor, apply, diff
from replay.errors import BadEdit, NotFound
from replay.store import edits
from replay.store.handle import Store
from replay.trace import Message, Request, Tool, extend

PROMPT = "You refund orders.\nRefund at once.\n"


def heard(role: str, content: Any) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": content})


def request(**beside: Any) -> Request:
    whole = {
        "system": heard("system", PROMPT),
        "tools": (
            Tool(name="get_order", description="Look up.", schema={"type": "object"}),
            Tool(name="refund_order", description="Refund."),
        ),
        "context": extend(
            None,
            [
                heard("user", "Refund order 1042."),
                heard("assistant", [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]),
                heard("user", [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]),
            ],
        ),
    }
    return Request(**{**whole, **beside})


def edit(*changes: Change) -> Edit:
    return Edit(name="try", changes=changes)


def test_the_whole_system_prompt_can_be_set() -> None:
    changed = apply(edit(SetSystem("Verify first.")), request())
    assert changed.system == heard("system", "Verify first.\n")
    assert changed.tools == request().tools


def test_an_anchor_in_the_system_prompt_is_replaced() -> None:
    changed = apply(edit(ReplaceText("Refund at once.", "Verify, then refund.")), request())
    assert changed.system == heard("system", "You refund orders.\nVerify, then refund.\n")


def test_an_anchor_is_found_in_a_prompt_of_several_blocks() -> None:
    blocks = [{"type": "text", "text": text} for text in ("You refund.", "At once.")]
    changed = apply(
        edit(ReplaceText("At once.", "Later.")), request(system=heard("system", blocks))
    )
    assert changed.system == heard("system", "You refund.\nLater.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ReplaceText("Never there", "x"), "step 4: anchor 'Never there' not found in the system"),
        (
            ReplaceText("efund", "x"),
            "step 4: anchor 'efund' found 2 times in the system prompt",
        ),
        (SetTool(name="get_orders", description="x"), "step 4: unknown tool 'get_orders'"),
        (SetMessage(index=2, text="x"), "step 4: message 2 is a tool result"),
    ],
)
def test_a_target_that_is_not_there_is_an_error_naming_the_step(change: Change, said: str) -> None:
    with pytest.raises(BadEdit) as error:
        apply(edit(change), request(), "step 4")
    assert error.value.message.startswith(said)
    assert error.value.hint


def test_a_misspelt_tool_is_guessed() -> None:
    with pytest.raises(BadEdit, match="did you mean 'get_order'"):
        apply(edit(SetTool(name="get_oder", description="x")), request())


def test_an_edit_of_what_was_not_recorded_points_to_attach() -> None:
    with pytest.raises(BadEdit, match="arc attach"):
        apply(edit(ReplaceText("a", "b")), request(system=None))
    with pytest.raises(BadEdit, match="arc attach"):
        apply(edit(SetTool(name="a", description="b")), request(tools=None))


def test_a_tool_gets_a_description_or_a_schema_and_keeps_the_rest() -> None:
    described = apply(edit(SetTool(name="get_order", description="Always first.")), request())
    assert described.tools is not None
    assert described.tools[0] == Tool(
        name="get_order", description="Always first.", schema={"type": "object"}
    )
    shaped = apply(edit(SetTool(name="refund_order", schema={"type": "object"})), request())
    assert shaped.tools is not None
    assert shaped.tools[1].description == "Refund."
    assert described.tools[1].description == "Refund."


def test_a_message_says_something_else_and_keeps_its_calls() -> None:
    changed = apply(edit(SetMessage(index=1, text="Let me look.")), request())
    assert changed.context is not None
    said = changed.context.messages()[1].body["content"]
    assert [block["type"] for block in said] == ["text", "tool_use"]
    assert said[0]["text"] == "Let me look."


def test_a_message_the_conversation_has_not_reached_is_left_and_counted() -> None:
    editor = Editor(edit(SetMessage(index=3, text="x")))
    early = request()
    assert editor.request(early, "step 0") is early
    assert editor.unmet == ("has message 3",)
    later = request(context=extend(early.context, [heard("user", "And now?")]))
    assert editor.request(later, "step 1") is not later
    assert not editor.unmet


def test_a_message_that_another_has_replaced_is_left_as_it_is() -> None:
    editor = Editor(edit(SetMessage(index=0, text="x")))
    editor.request(request(), "step 0")
    compacted = request(context=extend(None, [heard("user", "Summary of what was said.")]))
    assert editor.request(compacted, "step 9") is compacted


def test_steps_share_what_an_edit_rebuilds() -> None:
    editor = Editor(edit(SetMessage(index=0, text="Refund order 7."), SetSystem("New.")))
    first = request()
    later = structs.replace(first, context=extend(first.context, [heard("user", "And?")]))
    one, two = editor.request(first, "step 0"), editor.request(later, "step 1")
    assert two.context is not None
    assert two.context.parent is one.context
    assert two.system is one.system


@pytest.mark.parametrize(
    "change",
    [
        SetSystem(PROMPT),
        SetSystem(PROMPT.rstrip()),
        SetSystem(PROMPT + "\n"),
        ReplaceText("at once", "at once"),
        SetTool(name="get_order", description="Look up."),
        SetMessage(index=0, text="Refund order 1042."),
    ],
)
def test_an_edit_that_changes_nothing_changes_no_key(change: Change) -> None:
    before = request()
    after = apply(edit(change), before)
    assert after is before
    assert Converter("m").sent(after).key(0) == Converter("m").sent(request()).key(0)


def test_the_digest_is_of_the_changes_and_the_thread_not_of_the_name() -> None:
    one, two = edit(SetSystem("a")), structs.replace(edit(SetSystem("a")), name="other")
    assert one.digest == two.digest
    assert one.digest != edit(SetSystem("b")).digest
    assert one.digest != structs.replace(one, thread="researcher").digest


def test_the_diff_shows_what_changes_and_nothing_else() -> None:
    lines = diff(
        edit(
            ReplaceText("Refund at once.", "Verify."),
            SetTool(name="refund_order", description="Refund a verified order."),
            SetMessage(index=0, text="Refund it."),
        ),
        request(),
    )
    assert "--- system" in lines
    assert "-Refund at once." in lines
    assert "+Verify." in lines
    assert "+Refund a verified order." in lines
    assert "+++ message 0" in lines
    assert not any("get_order" in line for line in lines)
    assert diff(edit(SetSystem(PROMPT)), request()) == []


# --- files


TOML = """
name = "verify first"
thread = "main"

[[change]]
kind = "replace_text"
anchor = "Refund at once."
text = "Verify."

[[change]]
kind = "set_tool"
target = "get_order"
description = "Always first."
schema = {type = "object", properties = {id = {type = "integer"}}}

[[change]]
kind = "set_message"
target = 0
text = "Refund it."

[[change]]
kind = "set_system"
text = "All of it."
"""


def test_every_kind_of_change_is_read_from_toml() -> None:
    read = files.from_toml(TOML, "try.toml", "try")
    assert read.name == "verify first"
    assert read.thread == "main"
    assert read.changes == (
        ReplaceText("Refund at once.", "Verify."),
        SetTool(
            name="get_order",
            description="Always first.",
            schema={"type": "object", "properties": {"id": {"type": "integer"}}},
        ),
        SetMessage(index=0, text="Refund it."),
        SetSystem("All of it."),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind =", "e.toml: is not TOML"),
        ("name = 'x'", "e.toml: no [[change]] table"),
        ("change = 3", "e.toml: no [[change]] table"),
        ("change = [3]", "e.toml: change 1: is not a table"),
        ("nam = 'x'", "e.toml: no key 'nam'; did you mean 'name'?"),
        ("[[change]]\ntext = 'x'", "e.toml: change 1: kind: is missing"),
        (
            "[[change]]\nkind = 'set_sytem'\ntext = 'x'",
            "e.toml: change 1: kind: unknown kind 'set_sytem'; did you mean 'set_system'?",
        ),
        (
            "[[change]]\nkind = 'set_system'\ntext = 'x'\n[[change]]\nkind = 'replace_text'"
            "\nancor = 'x'\ntext = 'y'",
            "e.toml: change 2: no key 'ancor'; did you mean 'anchor'?",
        ),
        ("[[change]]\nkind = 'set_system'\ntext = 3", "e.toml: change 1: Expected `str`"),
        ("[[change]]\nkind = 'set_message'\ntext = 'x'", "e.toml: change 1: Object missing"),
        (
            "[[change]]\nkind = 'set_message'\ntext = 'x'\ntarget = -1",
            "e.toml: change 1: target: must be 0 or more",
        ),
        ("[[change]]\nkind = 'set_tool'\ntarget = 'x'", "e.toml: change 1: changes nothing"),
        (
            "[[change]]\nkind = 'replace_text'\nanchor = ''\ntext = 'x'",
            "e.toml: change 1: anchor: is empty",
        ),
        (
            "[[change]]\nkind = 'set_tool'\ntarget = 'x'\nschema = {default = nan}",
            "e.toml: change 1: a number that is not finite",
        ),
        ("name = 3\n[[change]]\nkind = 'set_system'\ntext = 'x'", "e.toml: name: must be a string"),
    ],
)
def test_a_bad_file_is_named_with_the_key(text: str, said: str) -> None:
    with pytest.raises(BadEdit) as error:
        files.from_toml(text, "e.toml", "e")
    assert str(error.value).startswith(said)


def test_a_prompt_file_and_edit_files_make_one_edit(tmp_path: Path) -> None:
    prompt, file = tmp_path / "v2.txt", tmp_path / "try.toml"
    prompt.write_text("New prompt.\n")
    file.write_text(TOML)
    made = files.from_files(prompt, [file])
    assert made is not None
    assert made.name == "v2 + verify first"
    assert made.changes[0] == SetSystem("New prompt.\n")
    assert len(made.changes) == 5
    assert files.from_files(None, []) is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadEdit, match=r"none\.txt: cannot be read"):
        files.from_files(tmp_path / "none.txt", [])


# --- stored


def test_an_edit_is_stored_once_by_its_content_and_found_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        made = files.from_toml(TOML, "try.toml", "try")
        kept = edits.save(store, made)
        assert kept == made
        assert edits.save(store, structs.replace(made, name="again")).name == "verify first"
        assert edits.find(store, made.digest) == made
        assert edits.find(store, "verify first") == made
        assert edits.names(store) == [("verify first", made.digest)]
        with pytest.raises(NotFound):
            edits.find(store, "other")


def test_a_secret_in_an_edit_is_masked_before_it_is_hashed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        key = "sk-ant-" + "a1" * 20
        kept = edits.save(store, edit(SetSystem(f"Use {key}.")))
        assert key not in str(kept)
        assert edits.find(store, kept.digest) == kept
        assert edits.save(store, kept) == kept
