"""Secrets that were planted are nowhere, and what only looks like one is where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.store import Store
from tests.build import call, step, trace
from tests.faults import leaked
from tests.faults.planted import found_in
from tests.hostile import SEEDS
from tests.replay.locked_case import stored

QUICK = 6
"""Texts of each format that get a secret; `-m slow` plants one in every text."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_REDACT_KEY", "trial")


def test_every_secret_is_masked_in_every_setting() -> None:
    leak = leaked.in_texts()
    assert leak.planted > 1000
    assert not leak.found


def test_what_only_looks_like_a_secret_stays() -> None:
    assert not leaked.touched()


def test_a_search_for_it_would_find_what_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "arc.db"
    file.write_bytes(b"x ghp_1 y")
    assert found_in(file, ["ghp_1", "ghp_2"]) == ["ghp_1"]


@pytest.mark.parametrize("name", SEEDS)
def test_no_text_of_a_format_brings_a_secret_into_a_file(name: str, tmp_path: Path) -> None:
    assert not leaked.in_format(name, tmp_path, QUICK).found


def test_nothing_kept_beside_a_tape_holds_a_secret(tmp_path: Path) -> None:
    assert not leaked.beside(tmp_path, 2).found


def test_the_line_of_a_call_has_neither_a_named_secret_nor_half_a_key(tmp_path: Path) -> None:
    key = "sk-" + "ant-" + "a1" * 20
    lines = [
        call("login", "ok", password="hunterhunter"),
        call("ask", "ok", text="x" * 140 + " " + key),
    ]
    with Store.open(tmp_path / "arc.db") as store:
        stored(store, trace([step(line) for line in lines]).spans)
        briefs = [row[0] for row in store.db.execute("SELECT brief FROM span WHERE kind = 'tool'")]
    assert len(briefs) == 2
    assert not [said for said in briefs if "hunter" in said or "sk-" in said]


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_no_text_at_all_of_a_format_brings_one(name: str, tmp_path: Path) -> None:
    assert not leaked.in_format(name, tmp_path).found
