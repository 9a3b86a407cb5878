"""Edits of every kind in TOML files, read and written."""

from __future__ import annotations

import pytest

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
    SetObservation,
    SetParameter,
    SetSystem,
    SetTool,
    SummariseBefore,
)
from replay.edit.files import KINDS, from_toml, to_toml
from replay.errors import BadEdit

FILE = '''
[[change]]
kind = "patch_system"
text = """
@@ -1 +1 @@
-Refund at once.
+Verify.
"""

[[change]]
kind = "replace_text"
target = "tool get_order"
anchor = "Look"
text = "Read"

[[change]]
kind = "rename_tool"
target = "get_order"
text = "look_up"

[[change]]
kind = "remove_tool"
target = "find_product"

[[change]]
kind = "insert_message"
target = -1
role = "system"
text = "Obey."

[[change]]
kind = "set_observation"
target = 4
call = 1
text = "no such order"
is_error = true

[[change]]
kind = "inject_constraint"
text = "Never refund more than 50."

[[change]]
kind = "inject_constraint"
target = 3
text = "Think."

[[change]]
kind = "summarise_before"
target = 6
text = "So far."

[[change]]
kind = "set_model"
text = "big"

[[change]]
kind = "set_effort"
text = "max"

[[change]]
kind = "set_parameter"
target = "temperature"
value = 0.2

[[change]]
kind = "set_parameter"
target = "seed"
'''

CHANGES: tuple[Change, ...] = (
    PatchSystem("@@ -1 +1 @@\n-Refund at once.\n+Verify.\n"),
    ReplaceText("Look", "Read", "tool get_order"),
    RenameTool("get_order", "look_up"),
    RemoveTool("find_product"),
    InsertMessage(-1, "system", "Obey."),
    SetObservation(step=4, call=1, text="no such order", is_error=True),
    InjectConstraint("Never refund more than 50."),
    InjectConstraint("Think.", 3),
    SummariseBefore(6, "So far."),
    SetModel("big"),
    SetEffort("max"),
    SetParameter("temperature", 0.2),
    SetParameter("seed"),
)


def test_the_newer_kinds_of_change_are_read_from_toml() -> None:
    assert from_toml(FILE, "e.toml", "e").changes == CHANGES


def test_every_kind_has_a_word() -> None:
    assert set(KINDS) == {
        "set_system", "patch_system", "replace_text", "inject_constraint", "set_tool",
        "rename_tool", "remove_tool", "set_message", "insert_message", "set_observation",
        "summarise_before", "set_model", "set_effort", "set_parameter",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("kind = 'patch_system'\ntext = ' '", "text: is empty"),
        (
            "kind = 'replace_text'\nanchor = 'a'\ntext = 'b'\ntarget = 'mesage 3'",
            'target: unknown target \'mesage 3\'. Try: "system", "tool NAME" or "message N"',
        ),
        (
            "kind = 'replace_text'\nanchor = 'a'\ntext = 'b'\ntarget = 'message -1'",
            "target: unknown target 'message -1'",
        ),
        ("kind = 'inject_constraint'\ntext = ''", "text: is empty"),
        ("kind = 'inject_constraint'\ntext = 'x'\ntarget = -1", "target: must be 0 or more"),
        (
            "kind = 'rename_tool'\ntarget = 'a'\ntext = 'b c'",
            "text: 'b c' is not a valid tool name",
        ),
        ("kind = 'rename_tool'\ntarget = 'a'\ntxt = 'b'", "no key 'txt'; did you mean 'text'?"),
        (
            "kind = 'remove_tol'\ntarget = 'a'",
            "kind: unknown kind 'remove_tol'; did you mean 'remove_t",
        ),
        ("kind = 'remove_tool'\ntarget = 3", "Expected `str`, got `int` - at `$.target`"),
        (
            "kind = 'insert_message'\ntarget = -2\nrole = 'user'\ntext = 'x'",
            "target: must be 0 or more; -1 inserts before all messages",
        ),
        (
            "kind = 'insert_message'\ntarget = 2\nrole = 'usr'\ntext = 'x'",
            "role: unknown role 'usr'; did you mean 'user'?",
        ),
        ("kind = 'insert_message'\ntarget = 2\nrole = 'user'\ntext = ''", "text: is empty"),
        ("kind = 'insert_message'\ntarget = 2\ntext = 'x'", "Object missing required field `role`"),
        (
            "kind = 'insert_message'\ntarget = -1\nrole = 'assistant'\ntext = 'x'",
            "role: a conversation cannot start with an assistant message",
        ),
        ("kind = 'set_observation'\ntarget = -1\ntext = 'x'", "target: must be 0 or more"),
        ("kind = 'set_observation'\ntarget = 1\ncall = -1\ntext = 'x'", "call: must be 0 or more"),
        ("kind = 'summarise_before'\ntarget = -1\ntext = 'x'", "target: must be 0 or more"),
        ("kind = 'set_model'\ntext = ''", "text: is empty"),
        (
            "kind = 'set_parameter'\ntarget = 'model'",
            'target: model is no setting; Try: kind = "set_model"'.replace("; Try", ". Try"),
        ),
        ("kind = 'set_parameter'\ntarget = 'Top P'", "target: 'Top P' is no name of a setting"),
        ("kind = 'set_parameter'", "Object missing required field `target`"),
        ("kind = 'set_effort'\ntext = 'hihg'", "text: no effort 'hihg'; did you mean 'high'?"),
        ("kind = 'set_tool'\ntarget = 'a'\nschema = '{'", "Input data was truncated"),
    ],
)
def test_a_bad_change_is_named_with_its_file_and_key(table: str, said: str) -> None:
    good = "[[change]]\nkind = 'set_model'\ntext = 'm'\n"
    with pytest.raises(BadEdit) as error:
        from_toml(f"{good}[[change]]\n{table}", "e.toml", "e")
    assert str(error.value).startswith(f"e.toml: change 2: {said}")


SCHEMA = {
    "type": "object",
    "properties": {"id": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "a b\u202e": {}},
    "required": ["id"],
}


@pytest.mark.parametrize(
    "change",
    [
        *CHANGES,
        SetSystem('One.\r\nTwo "quoted" \\ three.\n'),
        SetSystem("\n  Leading and trailing. \n\n"),
        SetSystem('"""\\'),
        SetMessage(0, "[[SECRET:anthropic:0011aabb]]"),
        SetTool("t", schema=SCHEMA),
        SetTool("t", "d", {**SCHEMA, "default": None}),
        SetTool("t", schema={}),
    ],
)
def test_a_change_written_to_a_file_is_read_back_as_it_was(change: Change) -> None:
    edit = Edit(name='say "hi"', changes=(change, SetModel("m")), thread="researcher")
    assert from_toml(to_toml(edit), "e.toml", "e") == edit


def test_a_written_file_reads_like_one_written_by_hand() -> None:
    edit = Edit(name="try", changes=(SetSystem("One.\nTwo.\n"), SetEffort("low")))
    assert to_toml(edit) == (
        'name = "try"\n\n[[change]]\nkind = "set_system"\ntext = """\nOne.\nTwo.\n"""\n\n'
        '[[change]]\nkind = "set_effort"\ntext = "low"\n'
    )


def test_nothing_that_a_terminal_obeys_is_written() -> None:
    edit = Edit(name="\x1b[2J", changes=(SetSystem("a\x9b\u202eb\U000e0041\n\tc"),))
    written = to_toml(edit)
    assert all(char in "\n\t" or char.isprintable() for char in written)
    assert from_toml(written, "e.toml", "e") == edit


@pytest.mark.parametrize(
    ("changes", "digest"),
    [
        (
            (SetSystem("Be kind."),),
            "sha256:340eb28c940e56f8de010eb88225901fc013f6e012474663e11e82704203fac8",
        ),
        (
            (ReplaceText("at once", "later"),),
            "sha256:8d980a78f31e00652950d6fcf15e1313f9120bcb481571b0dabff0daaaf6ce02",
        ),
        (
            (SetTool("get_order", "Always first."),),
            "sha256:731e6e10ba7e498d3d0a18f789021e20b0b0a2df0d974280601c93c08cd055da",
        ),
        (
            (SetTool("get_order", schema={"type": "object"}),),
            "sha256:89ed8f17c72e2d0759760dcc56d91c52e7e205cd30054fca56f53380862ede52",
        ),
        (
            (SetMessage(2, "Hi."),),
            "sha256:30311eec2208cabfe987a8f00a90437f8dc10453a52f525c77032086b8b80580",
        ),
    ],
)
def test_the_digest_of_an_edit_that_is_stored_somewhere_stays(
    changes: tuple[Change, ...], digest: str
) -> None:
    assert Edit(name="n", changes=changes).digest == digest


def test_the_digest_of_several_changes_in_a_thread_stays() -> None:
    changes = (
        SetSystem("Be kind."),
        ReplaceText("a", "b"),
        SetTool("t", "d", {"type": "object"}),
        SetMessage(0, "x"),
    )
    assert Edit(name="n", changes=changes, thread="researcher").digest == (
        "sha256:1eca967b476bfcf735c28be84f1924da24f8a72ecb3f84eb51b1fa97be4d8b9e"
    )
