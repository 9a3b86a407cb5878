"""The file of settings: what may stand in it, and how it says no."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arc_tui.config import BadConfig, Config, config_file, read_config, read_owners, read_redaction
from arc_tui.features.record.live import LiveWriter
from replay.store import handle
from replay.trace import Batch, Header
from taxonomy.classes import Attribution, FailureClass
from taxonomy.owners import NOBODY
from tests.build import call, step, trace
from tests.faults.planted import found_in
from tests.spoken import spoken


def written(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text)
    return file


def test_without_a_file_everything_is_at_its_default(tmp_path: Path) -> None:
    assert read_config(tmp_path / "config.toml") == Config()
    assert read_owners(tmp_path / "config.toml") == NOBODY


def test_the_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path))
    written(tmp_path, '[owners]\nloop = "Ann"')
    assert config_file() == tmp_path / "config.toml"
    assert read_config().owners == {"loop": "Ann"}
    monkeypatch.delenv("ARC_CONFIG_DIR")
    assert config_file().parent.name == "arc"


def test_owners_of_classes_sub_labels_and_faults(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "[owners]\n"
        'bad_args = "tools team"\n'
        '"other / cap hit" = "ops"\n'
        'other = "triage"\n'
        '"attribution:environment" = "platform"\n',
    )
    owners = read_owners(file)
    assert owners.of(FailureClass.BAD_ARGS) == "tools team"
    assert owners.of(FailureClass.OTHER, "cap hit") == "ops"
    assert owners.of(FailureClass.OTHER, "arithmetic") == "triage"
    assert owners.of(FailureClass.LOOP) is None
    assert owners.of(FailureClass.BAD_ARGS, attribution=Attribution.ENVIRONMENT) == "platform"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[owner]\nloop = 'Ann'",
            "unknown key 'owner', did you mean 'owners'?"
            " (known: owners, redact, record, app, keys, models)",
        ),
        (
            "colour = 'red'",
            "unknown key 'colour' (known: owners, redact, record, app, keys, models)",
        ),
        ("[owners]\nloops = 'Ann'", "[owners] 'loops': unknown failure class, did you mean 'loop'"),
        (
            "[owners]\n'attribution:cosmos' = 'Ann'",
            "[owners] 'attribution:cosmos': unknown attribution",
        ),
        ("[owners]\nloop = ' '", "[owners] 'loop' names no owner"),
        ("[owners]\nloop = 3", "Expected `str`, got `int`"),
        ("owners = 'Ann'", "Expected `object`, got `str`"),
        ("[owners", "invalid TOML"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_with_the_file_and_the_key(
    text: str, says: str, tmp_path: Path
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(BadConfig) as caught:
        read_owners(file)
    assert caught.value.message.startswith(f"{file}: ")
    assert says in str(caught.value)


def test_bytes_that_are_no_text_and_a_folder_in_its_place_are_said(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfig, match="invalid TOML"):
        read_config(tmp_path / "config.toml")
    with pytest.raises(BadConfig, match="cannot be read"):
        read_config(tmp_path)


@pytest.mark.parametrize("words", [(), ("demo-less.jsonl",), ("failures",)])
def test_a_mistake_in_it_is_one_sentence_before_anything_is_opened(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = written(tmp_path, "[ownrs]\nloop = 'Ann'")
    (tmp_path / "demo-less.jsonl").write_text("{}")
    said = spoken(*words, cwd=tmp_path, ARC_CONFIG_DIR=str(tmp_path))
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == [
        f"arc: {file}: unknown key 'ownrs', did you mean 'owners'?"
        " (known: owners, redact, record, app, keys, models)"
    ]


def test_rules_for_secrets_come_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        "[redact]\nkeys = ['badge no']\nallow = ['E-7']\n"
        "[redact.patterns]\nbadge = 'E-[0-9]{1,6}'\n"
    )
    said = read_redaction(file)
    assert [rule.name for rule in said.rules] == ["badge"]
    assert (said.keys, said.allow) == (("badge no",), ("E-7",))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[redact.patterns]\nmine = '('", r"\[redact\] patterns: mine is not a regular expression"),
        ("[redact.patterns]\nmine = '(a+)+b'", "may never end"),
        ("[redact]\nkeys = ['7']", r"\[redact\] keys: '7' has no letters"),
        ("[redact]\nkey = ['a']", "did you mean 'keys'"),
    ],
)
def test_a_rule_for_secrets_that_cannot_be_used_is_a_sentence(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(BadConfig, match=why):
        read_redaction(file)


def test_a_command_masks_by_the_rules_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[redact.patterns]\nbadge = 'E-[0-9]{1,6}'\n")
    run = [{"role": "user", "content": "mine is E-4711"}, {"role": "assistant", "content": "Fine."}]
    (tmp_path / "run.json").write_text(json.dumps(run))
    where = str(tmp_path)
    taken = spoken("import", "run.json", "--db", "arc.db", cwd=tmp_path, ARC_CONFIG_DIR=where)
    assert taken.code == 0
    said = spoken("show", "last", "0", "--db", "arc.db", cwd=tmp_path, ARC_CONFIG_DIR=where).out
    assert "mine is [[SECRET:badge:" in said
    assert "4711" not in said


def test_what_tells_who_somebody_is_is_masked_where_the_file_asks_for_it(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[redact]\npii = true\n[redact.patterns]\nbadge = 'E-[0-9]{1,6}'\n")
    names = [rule.name for rule in read_redaction(file).rules]
    assert names[0] == "badge"
    assert {"email", "phone", "ssn", "ip_address"} <= set(names)


def test_what_is_listened_to_is_masked_by_the_rules_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("[redact]\npii = true\nkeys = ['badge']\n")
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setattr(handle, "_sources", [read_redaction])
    run = trace([step("I write to ada@mail.de.", call("look_up", "ok", badge="a b c"))])
    writer = LiveWriter(tmp_path / "arc.db")
    header = Header(format="built", source_id="1", title="for ada@mail.de")
    writer.put(Batch(header=header, spans=run.spans, last=True), over=True)
    writer.close()
    assert found_in(tmp_path / "arc.db", ["ada@mail", "a b c"]) == []
