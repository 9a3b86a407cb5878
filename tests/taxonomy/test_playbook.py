"""What a playbook says of a failure, what it is refused for, and whose failures it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.store.handle import Store
from taxonomy.classes import Attribution
from taxonomy.failures import Pareto, pareto
from taxonomy.owners import NOBODY, owners_from
from taxonomy.playbook import NO_PLAYBOOK, BadPlaybook, Entry, Playbook, read_playbook
from tests.taxonomy.pareto_case import BAD, LOOP, OTHER, empty, found, put

TEXT = """
[loop]
owner = "runtime"
rollback = "Deploy v7."
guard = "--max-steps 40"

["other / cap hit"]
guard = "Raise the cap."

[other]
owner = "triage"
guard = "Read it."

["attribution:environment"]
rollback = "Fail over."

["attribution:agent"]
owner = "prompting"
"""


def written(folder: Path, text: str = TEXT) -> Playbook:
    file = folder / "playbook.toml"
    file.write_text(text, "utf-8")
    return read_playbook(file)


def test_a_sub_label_goes_before_its_class_and_that_before_the_agent(tmp_path: Path) -> None:
    book = written(tmp_path)
    assert book.of(LOOP) == Entry(owner="runtime", rollback="Deploy v7.", guard="--max-steps 40")
    assert book.of(OTHER, "cap hit") == Entry(owner="triage", guard="Raise the cap.")
    assert book.of(OTHER, "else") == Entry(owner="triage", guard="Read it.")
    assert book.of(BAD) == Entry(owner="prompting")
    assert book.of(LOOP, None, Attribution.ENVIRONMENT) == Entry(rollback="Fail over.")
    assert book.of(LOOP, None, Attribution.USER) == Entry()


def test_its_owners_take_the_place_of_those_of_the_settings(tmp_path: Path) -> None:
    settings = owners_from({"loop": "someone", "bad args": "tools"})
    owners = written(tmp_path).owners(settings)
    assert [owners.of(each) for each in (LOOP, BAD, OTHER)] == ["runtime", "tools", "triage"]
    assert NO_PLAYBOOK.owners(settings) == settings
    assert written(tmp_path, "").owners(NOBODY) == NOBODY


def test_each_bar_has_its_rollback_and_guard_and_what_has_none_is_listed(tmp_path: Path) -> None:
    store = empty()
    put(store, "a", found(LOOP, 0))
    put(store, "b", found(BAD, 0))
    put(store, "c", found(OTHER, 0, Attribution.ENVIRONMENT))
    counted = pareto(store, playbook=written(tmp_path))
    assert {bar.label: (bar.rollback, bar.guard) for bar in counted.all_bars} == {
        "loop": ("Deploy v7.", "--max-steps 40"),
        "bad args": (None, None),
        "other (environment)": ("Fail over.", None),
    }
    assert counted.without_playbook == ("bad args",)
    assert lacking(store, "") == ("bad args", "loop", "other (environment)")
    assert pareto(store).without_playbook is None


def lacking(store: Store, text: str) -> tuple[str, ...] | None:
    counted: Pareto = pareto(store, playbook=Playbook(file=text))
    return counted.without_playbook


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[lop]\nowner = 'a'", "playbook.toml: 'lop': unknown failure class, did you mean 'loop'?"),
        (
            "['attribution:envronment']\nowner = 'a'",
            "'attribution:envronment': unknown attribution",
        ),
        ("[loop]\nrolback = 'a'", "[loop] unknown key 'rolback', did you mean 'rollback'?"),
        ("[loop]\nguard = 3", "[loop] guard is no text"),
        ("[loop]\nguard = ' '", "[loop] guard is no text"),
        ("[loop]", "[loop] is empty"),
        ("loop = 'runtime'", "'loop' is no table"),
        ("[[loop]]\nowner = 'a'", "'loop' is no table"),
        ("[loop]\nowner = 'a'\n[Loop]\nowner = 'b'", "'Loop' stands there twice"),
        ("[loop", "playbook.toml: invalid TOML: "),
        ("<<<<<<< ours\n[loop]", "playbook.toml: invalid TOML: "),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadPlaybook) as refused:
        written(tmp_path, text)
    assert why in refused.value.message


def test_bytes_and_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "playbook.toml").write_bytes(b"\xff\xfe[loop]")
    with pytest.raises(BadPlaybook, match="invalid TOML"):
        read_playbook(tmp_path / "playbook.toml")
    with pytest.raises(BadPlaybook, match="cannot be read: No such file"):
        read_playbook(tmp_path / "none.toml")
    with pytest.raises(BadPlaybook, match="cannot be read: Is a directory"):
        read_playbook(tmp_path)
