"""What a person sets: the file, `arc config`, the keys and themes the app takes from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from arc_tui import config
from arc_tui.config import AppConfig, BadConfig, Config, RedactConfig, read_config
from arc_tui.features.settings import command
from arc_tui.features.settings.view import build_settings
from arc_tui.settings import Settings, read_settings
from arc_tui.ui import keymap, themes
from tests.spoken import spoken


def written(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text)
    return file


def test_keys_by_ids_with_a_dot_quoted_or_not(tmp_path: Path) -> None:
    file = written(tmp_path, '[keys]\ntrace.tag = "ctrl+k"\n"runs.sort" = "f6,f11"\n')
    assert read_settings(file).keymap == {"trace.tag": "ctrl+k", "runs.sort": "f6,f11"}


def test_what_was_set_is_what_the_app_takes(tmp_path: Path) -> None:
    file = written(tmp_path, '[app]\ntheme = "nord"\ncolumns = "figures"\nmouse = false\n')
    assert read_settings(file) == Settings(theme="nord", columns="figures", mouse=False)
    assert read_settings(tmp_path / "none.toml") == Settings(theme=themes.AUTO)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[app]\ntheme = 'arc-lihgt'", "unknown theme 'arc-lihgt', did you mean 'arc-light'?"),
        ("[app]\ncolumns = 'price'", "[app] unknown columns 'price'; known: why"),
        ("[app]\nthem = 'nord'", "unknown key 'app.them', did you mean 'theme'?"),
        (
            "[keys]\ntrace.tga = 'a'",
            "'trace.tga' is not the id of a key, did you mean 'trace.tag'?",
        ),
        ("[keys]\ntrace.tag = 'contrl+k'", "there is no key 'contrl+k', did you mean 'ctrl+k'?"),
        ("[keys]\ntrace.tag = ''", "trace.tag: '' is not a key"),
        ("[keys]\ntrace.tag = ','", "The comma key is called comma"),
        ("[keys]\ntrace.tag = 'J'", "trace.tag = 'J': that key is trace.step_next there"),
        ("[keys]\ntrace.tag = 'j'", "trace.tag = 'j': that key is row.next there"),
        ("[keys]\napp.quit = 't'", "app.quit = 't': that key is audit.tag there"),
        ("[keys]\ntrace.tag = 3", "Expected `str`, got `int`"),
    ],
)  # fmt: skip
def test_what_the_app_cannot_use_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(BadConfig) as caught:
        read_settings(file)
    assert caught.value.message.startswith(f"{file}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "wanted",
    [
        {"trace.tag": "e", "trace.edit": "t"},  # they change places
        {"trace.tag": "P", "trace.probes": "f7"},
        {"runs.sort": "t"},  # tags are not given there
        {"trace.tag": "t,f7"},
        {"trace.find": "?", "app.help": "ctrl+l"},
        {"help.leave": "t"},  # a dialog hides what is behind it
    ],
)
def test_keys_that_never_meet_or_change_places_are_free(wanted: dict[str, str]) -> None:
    assert keymap.check_keymap(wanted).keys() == wanted.keys()


@pytest.mark.slow
def test_the_keys_there_are_by_default_do_not_clash() -> None:
    """Each id given the keys it has is nothing new to any other."""
    for name, entry in keymap.bound().items():
        assert keymap.check_keymap({name: ",".join(entry.keys)}) == {name: ",".join(entry.keys)}


def test_everything_bound_is_listed_with_what_it_does() -> None:
    assert len(keymap.bound()) > 200
    assert all(entry.does and entry.keys for entry in keymap.bound().values())
    assert keymap.bound()["trace.tag"].where == "a run"
    assert keymap.bound()["app.quit"].where == "everywhere"


# --- the file


def test_the_file_that_is_made_says_nothing_and_shows_everything(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    config.make(file)
    assert read_config(file) == Config()
    for shape in (AppConfig, RedactConfig, Config):
        for each in structs.fields(shape):
            assert each.encode_name in config.TEMPLATE
    said = "\n".join(
        line.removeprefix("# ")
        for line in config.TEMPLATE.splitlines()
        if not line.startswith("# ") or " = " in line
    )
    found = read_settings(written(tmp_path, said))
    assert found.keymap == {"trace.tag": "ctrl+k", "app.settings": "comma,ctrl+l"}


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    file = written(tmp_path, "[owners]\nloop = 'Ann'")
    said = spoken("config", "--init", cwd=tmp_path, ARC_CONFIG_DIR=str(tmp_path))
    assert said.code == 2
    assert f"{file} exists already" in said.err
    assert file.read_text() == "[owners]\nloop = 'Ann'"


def test_only_init_writes(tmp_path: Path) -> None:
    folder = tmp_path / "settings"
    for words in ((), ("--json",), ("keys",), ("--edit",)):
        spoken("config", *words, cwd=tmp_path, ARC_CONFIG_DIR=str(folder))
        assert not folder.exists()
    assert spoken("config", "--init", cwd=tmp_path, ARC_CONFIG_DIR=str(folder)).code == 0
    assert (folder / "config.toml").read_text() == config.TEMPLATE


# --- arc config


def test_every_setting_is_told_with_its_value_and_where_it_comes_from(tmp_path: Path) -> None:
    written(tmp_path, '[app]\ntheme = "auto"\n[owners]\nloop = "Ann"\n')
    said = spoken(
        "config", "--json", cwd=tmp_path, ARC_CONFIG_DIR=str(tmp_path), ARC_USER="bea",
        ANTHROPIC_API_KEY="sk-ant-secret", ANTHROPIC_BASE_URL="http://me:word@127.0.0.1:9",
    )  # fmt: skip
    view = json.loads(said.out)
    found = {each["name"]: (each["value"], each["origin"]) for each in view["settings"]}
    assert view["file"] == str(tmp_path / "config.toml")
    assert found["app.theme"] == ("auto", "file")
    assert found["app.mouse"] == ("true", "default")
    assert found["owners.loop"] == ("Ann", "file")
    assert found["ARC_USER"] == ("bea", "environment")
    assert found["ANTHROPIC_API_KEY"] == ("set", "environment")
    assert found["ANTHROPIC_BASE_URL"][1] == "environment"
    assert "sk-ant-secret" not in said.out
    assert "word" not in found["ANTHROPIC_BASE_URL"][0]


def test_a_setting_of_the_session_is_told_as_one(tmp_path: Path) -> None:
    file = written(tmp_path, '[app]\ntheme = "nord"')
    named = {each.name: each for each in build_settings(file, theme="arc-light").settings}
    assert (named["app.theme"].value, named["app.theme"].origin) == ("arc-light", "session")


def test_the_keys_are_listed_as_they_are_set(tmp_path: Path) -> None:
    written(tmp_path, '[keys]\ntrace.tag = "f7"\n')
    said = spoken("config", "keys", "--json", cwd=tmp_path, ARC_CONFIG_DIR=str(tmp_path))
    keys = {each["id"]: each["keys"] for each in json.loads(said.out)}
    assert keys["trace.tag"] == ["f7"]
    assert keys["trace.edit"] == ["e"]


def test_a_bad_file_is_one_sentence_with_code_2(tmp_path: Path) -> None:
    file = written(tmp_path, "[keys]\ntrace.tag = 'e'")
    said = spoken("config", cwd=tmp_path, ARC_CONFIG_DIR=str(tmp_path))
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"arc: {file}: [keys] trace.tag = 'e': that key is trace.edit there")


def test_edit_opens_the_file_and_says_what_is_wrong_with_it_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.KEYS == "keys"
    file = written(tmp_path, "")
    monkeypatch.delenv("VISUAL", raising=False)
    there = {"ARC_CONFIG_DIR": str(tmp_path), "EDITOR": "sed -i -e '$a [ownrs]'"}
    file.write_text("# mine\n")
    said = spoken("config", "--edit", cwd=tmp_path, **there)
    assert said.code == 2
    assert "unknown key 'ownrs', did you mean 'owners'?" in said.err
    assert file.read_text() == "# mine\n[ownrs]\n"


def test_without_a_file_edit_says_what_makes_one(tmp_path: Path) -> None:
    said = spoken("config", "--edit", cwd=tmp_path, ARC_CONFIG_DIR=str(tmp_path))
    assert said.code == 2
    assert "Try: arc config --init" in said.err
