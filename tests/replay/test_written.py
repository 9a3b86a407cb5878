"""Half of a character in what a person wrote: refused in words, wherever it comes in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from arc_tui import attachment
from arc_tui.features.bisect import versions
from arc_tui.places import fixtures
from arc_tui.ui import editor
from replay.edit import files
from replay.edit.changes import Change, Edit
from replay.edit.files import KINDS
from replay.errors import ArcError, BadEdit
from replay.free import recorded_results
from replay.written import from_json, half, refuse_halves
from taxonomy import goals

LONE = "\ud83d"
"""The first half of an emoji, as a tool that cuts texts at a width leaves it."""

RUN = fixtures() / "traces" / "shop-many-wishes-v5-0.jsonl"
RAW = b"b\xff"


@pytest.mark.parametrize("value", [f"a{LONE}", {"x": [1, LONE]}, {LONE: 1}, ("a", LONE), "\udcff"])
def test_half_a_character_is_found_at_any_depth(value: Any) -> None:
    assert "half of a character" in str(half(value))


@pytest.mark.parametrize("value", ["", "é \U0001f600 \ufffd", {"x": [1, None, "y"]}, 3.5, None])
def test_whole_characters_are_none(value: Any) -> None:
    assert half(value) is None


def _filled(kind: type[Change]) -> dict[str, Any]:
    """Values for all of a kind's fields, a lone surrogate in each that is a text."""
    known: dict[str, Any] = {
        "str": LONE, "str | None": LONE, "int": 0, "int | None": None, "bool | None": None,
        "dict[str, Json] | None": {"description": LONE}, "Json": LONE,
    }  # fmt: skip
    return {name: known[str(kind.__annotations__[name])] for name in kind.__struct_fields__}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_change_of_any_kind_is_refused_in_words(kind: type[Change]) -> None:
    texts = [name for name, value in _filled(kind).items() if value not in (0, None)]
    assert texts
    for name in texts:
        plain: dict[str, Any] = {
            each: value if each == name or value in (0, None) else "text"
            for each, value in _filled(kind).items()
        }
        with pytest.raises(BadEdit, match="half of a character"):
            Edit(name="x", changes=(kind(**plain),))


def test_files_of_a_user_are_refused_in_words(tmp_path: Path) -> None:
    raw = tmp_path / "raw.md"
    raw.write_bytes(b"Be \xed\xa0\xbd kind.")
    escaped = tmp_path / "escaped.toml"
    escaped.write_text('[[change]]\nkind = "set_system"\ntext = "\\ud83d"\n')
    schema = tmp_path / "schema.toml"
    schema.write_text(
        '[[change]]\nkind = "set_tool"\ntarget = "a"\nschema = \'{"title": "\\ud83d"}\'\n'
    )
    stubs = tmp_path / "stubs.toml"
    stubs.write_text('[[stub]]\ntool = "a"\narguments = \'{"q": "\\ud83d"}\'\nresult = "x"\n')
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "a\\ud83d"}]')
    for read in (
        lambda: files.from_files(raw, []),
        lambda: files.from_files(None, [raw]),
        lambda: files.from_files(None, [escaped]),
        lambda: files.from_files(None, [schema]),
        lambda: recorded_results.stubs_from_file(raw),
        lambda: recorded_results.stubs_from_file(stubs),
        lambda: versions.of_files([raw]),
        lambda: attachment.supplement(raw, None),
        lambda: attachment.supplement(None, raw),
        lambda: attachment.supplement(None, tools),
        lambda: goals.read(raw),
    ):
        with pytest.raises(ArcError, match=r"UTF-8|[Uu]nicode|utf-8") as caught:
            read()
        assert str(tmp_path) in caught.value.message


def test_what_an_editor_leaves_is_not_changed_without_a_word(tmp_path: Path) -> None:
    program = tmp_path / "editor"
    program.write_text(f"#!{sys.executable}\nimport sys\nopen(sys.argv[1], 'wb').write(b'\\xff')\n")
    program.chmod(0o700)
    with pytest.raises(ArcError, match="nothing was changed"):
        editor.edit("text", [str(program)])


def test_json_of_a_user_says_what_is_wrong() -> None:
    for text, why in (('"\\ud83d"', "half of"), ("[", "truncated"), ("[" * 99_999, "deeply")):
        with pytest.raises(ValueError, match=why):
            from_json(text)
    assert from_json('{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_the_first_text_that_is_not_utf_8_is_named() -> None:
    refuse_halves("a", None, "é")
    with pytest.raises(ArcError, match=r"'b.*' is not UTF-8"):
        refuse_halves("a", None, "b\udcff", "c\udcff")


def arc(folder: Path, *words: str | bytes, **environment: str | bytes) -> tuple[int, str]:
    """A command in a process of its own: only there are the bytes of a word what was typed."""
    known = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
    known |= {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    known[b"ARC_CONFIG_DIR"] = os.fsencode(folder)
    done = subprocess.run(
        [sys.executable, "-m", "arc_tui", "--db", str(folder / "arc.db"), *words],
        capture_output=True, env=known, check=False,
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="words are bytes on POSIX alone")
def test_words_of_a_command_that_are_not_utf_8_are_refused_and_files_called_so_are_read(
    tmp_path: Path,
) -> None:
    named = tmp_path / os.fsdecode(RAW + b".jsonl")
    named.write_bytes(RUN.read_bytes())
    code, said = arc(tmp_path, "import", os.fsencode(named))
    assert (code, "1 trace from 1 file" in said) == (0, True), said
    prompt = tmp_path / os.fsdecode(RAW + b".md")
    prompt.write_text("You help in a shop.")
    code, said = arc(tmp_path, "replay", "last", "--model", "demo", "--system", os.fsencode(prompt))
    assert code in (0, 1), said
    for words in (
        ("tag", "add", "last", "1", "loop", "--note", RAW),
        ("label", "last", "1", "0.5", "--note=" + os.fsdecode(RAW)),
        ("show", RAW),
        ("search", RAW),
        ("replay", "last", "--model", RAW),
        ("record", "--task", RAW, "--", "true"),
        (
            "experiment",
            "probe",
            "last",
            "--probe",
            "constraint",
            "--constraint",
            RAW,
            "--model",
            "demo",
        ),
    ):
        code, said = arc(tmp_path, *words)
        assert (code, "is not UTF-8" in said) == (2, True), said
    code, said = arc(tmp_path, "tag", "add", "last", "1", "loop", ARC_USER=RAW)
    assert (code, "is not UTF-8" in said) == (2, True), said
