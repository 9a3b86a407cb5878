"""Edits kept: listed, renamed, found by name or digest; and the command that prints them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import EDIT
from replay import kept
from replay.edit.changes import Edit, RenameTool, SetSystem
from replay.edit.files import from_toml
from replay.errors import ArcError, BadEdit, NotFound
from replay.locked.run import Core
from replay.store import edits
from replay.store.handle import Store

ONE = Edit(name="verify first", changes=(SetSystem("Verify.\n"), RenameTool("a", "b")))
TWO = Edit(name="be kind", changes=(SetSystem("Be kind."),))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arc.db") as opened:
        yield opened


def test_edits_are_listed_with_what_they_change_and_how_often_they_were_tried(
    store: Store,
) -> None:
    edits.save(store, TWO)
    for trace in ("one", "two"):
        kept.keep(store, Core(trace=trace, edit=TWO.digest, model="tiny", rows=()))
    edits.save(store, ONE)
    listed = edits.listed(store)
    assert [(each.name, each.changes, each.replays) for each in listed] == [
        (ONE.name, ONE.changes, 0), (TWO.name, TWO.changes, 2),
    ]  # fmt: skip
    assert [each.edit for each in listed] == [ONE, TWO]
    assert listed[0].added_ns >= listed[1].added_ns


def test_an_edit_is_found_by_name_digest_or_the_beginning_of_it(store: Store) -> None:
    edits.save(store, ONE)
    edits.save(store, TWO)
    bare = ONE.digest.partition(":")[2]
    for name in (ONE.name, ONE.digest, bare, edits.short(ONE.digest), ONE.digest[:20]):
        assert edits.find(store, name) == ONE
    with pytest.raises(NotFound, match="did you mean verify first"):
        edits.find(store, "verify frist")
    with pytest.raises(ArcError, match=r"'sha256' matches 2 edits\. Try: one of "):
        edits.find(store, "sha256")
    with pytest.raises(NotFound):
        edits.find(store, "")


def test_two_edits_of_one_name_are_both_kept_and_told_apart_by_digest(store: Store) -> None:
    other = structs.replace(TWO, name=ONE.name)
    edits.save(store, ONE)
    assert edits.save(store, other) == other
    with pytest.raises(ArcError) as error:
        edits.find(store, ONE.name)
    assert error.value.message == "'verify first' matches 2 edits"
    assert edits.short(ONE.digest) in error.value.hint
    assert edits.short(other.digest) in error.value.hint


def test_a_renamed_edit_is_the_same_edit(store: Store) -> None:
    edits.save(store, ONE)
    renamed = edits.rename(store, ONE.digest, "careful")
    assert renamed == structs.replace(ONE, name="careful")
    assert edits.find(store, "careful") == renamed
    assert edits.names(store) == [("careful", ONE.digest)]
    with pytest.raises(NotFound):
        edits.find(store, ONE.name)
    with pytest.raises(NotFound):
        edits.rename(store, TWO.digest, "x")
    with pytest.raises(BadEdit):
        edits.rename(store, ONE.digest, " ")


def test_a_secret_in_a_new_name_is_masked(store: Store) -> None:
    edits.save(store, ONE)
    key = "sk-ant-" + "a1" * 20
    assert key not in edits.rename(store, ONE.digest, f"with {key}").name


# --- the command


def run(store: Store, *arguments: str) -> Result:
    result = CliRunner().invoke(EDIT, [*arguments, "--db", str(store.path)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_the_command_lists_what_is_kept(store: Store) -> None:
    nothing = run(store, "list")
    assert (nothing.return_value, "No edits yet." in nothing.stderr) == (0, True)
    edits.save(store, ONE)
    out = run(store, "list").stdout
    assert edits.short(ONE.digest) in out
    assert "system prompt set; tool a renamed to b" in out
    (row,) = json.loads(run(store, "list", "--json").stdout)
    assert (row["name"], row["digest"], row["replays"]) == (ONE.name, ONE.digest, 0)
    assert row["changes"][1] == {"kind": "rename_tool", "target": "a", "text": "b"}


def test_the_command_prints_an_edit_as_a_file_that_can_be_tried_again(store: Store) -> None:
    key = "sk-ant-" + "b2" * 20
    kept = edits.save(store, structs.replace(ONE, changes=(SetSystem(f"Use {key}.\n"),)))
    out = run(store, "show", edits.short(kept.digest)).stdout
    assert key not in out
    assert "[[SECRET:" in out
    assert from_toml(out, "e.toml", "e") == kept
    assert edits.save(store, from_toml(out, "e.toml", "e")).digest == kept.digest
    assert json.loads(run(store, "show", ONE.name, "--json").stdout)["digest"] == kept.digest
    with pytest.raises(NotFound):
        run(store, "show", "none")
