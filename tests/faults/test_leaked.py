"""Secrets that were planted are nowhere, and what only looks like one is where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from tests.build import call, step, trace
from tests.faults import bugs, clipboard, hostile, leaked, outputs
from tests.faults.planted import found_in, indexed
from tests.faults.secrets import Planted, secrets
from tests.hostile import SEEDS
from tests.replay.locked_case import stored

QUICK = 6
"""Texts of each format that get a secret; `-m slow` plants one in every text."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_REDACT_KEY", "trial")


@pytest.mark.slow
def test_every_secret_is_masked_in_every_setting() -> None:
    leak = leaked.in_texts()
    assert leak.planted > 1000
    assert not leak.found


def test_what_only_looks_like_a_secret_stays() -> None:
    assert not leaked.touched()


def test_what_tells_who_somebody_is_is_masked_where_it_is_asked_for() -> None:
    leak = leaked.of_persons()
    assert leak.planted > 200
    assert not leak.found


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


Kept = tuple[Path, list[Planted]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ARC_REDACT_KEY", "trial")
        return outputs.planted(tmp_path_factory.mktemp("kept"), 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", outputs.READING)
def test_no_command_prints_or_leaves_a_secret(name: str, kept: Kept) -> None:
    assert not outputs.printed(*kept, [name]).found


def test_nothing_copied_bundled_or_indexed_has_a_secret(kept: Kept) -> None:
    assert not outputs.copied(*kept).found
    assert not outputs.bundled(*kept).found
    assert not outputs.searched(*kept).found


def test_what_is_there_would_be_found_in_what_leaves(kept: Kept) -> None:
    word = [Planted("said", "", ("Every one of these runs",))]
    assert outputs.printed(kept[0], word, ["search"]).found
    assert outputs.copied(kept[0], word).found
    assert outputs.bundled(kept[0], word).found
    assert outputs.searched(kept[0], [Planted("said", "", ("every sentence",))]).planted == 0
    with open_ledger(kept[0]) as store:
        assert indexed(store, ["sentence"]) == ["sentence"]


@pytest.mark.pilot
async def test_no_screen_draws_copies_or_logs_a_secret(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_DATA_DIR", str(kept[0].parent))
    leak, _ = await outputs.shown(*kept, most=6, screens=2)
    assert not leak.found


@pytest.mark.pilot
async def test_what_is_copied_holds_what_was_said_and_no_secret(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two screens; `-m slow` has all of them."""
    monkeypatch.setenv("ARC_DATA_DIR", str(kept[0].parent))
    keys = hostile.runs_of(kept[0])[:1]
    found = await clipboard.copies(kept[0], keys, ("compare", "settings"))
    assert found["settings"]
    copied = "\n".join(found["compare"])
    assert "[[SECRET:" in copied
    assert not outputs.left(kept[1], copied.encode())


@pytest.mark.slow
def test_what_is_told_of_a_bug_holds_what_it_met_and_no_secret(tmp_path: Path) -> None:
    some = [*secrets()][::60]
    assert not bugs.of_the_app(some).found
    assert not bugs.of_a_command(some, tmp_path / "arc.db").found
    word = [Planted("said", "no secret at all", ("no secret",))]
    assert len(bugs.of_the_app(word).found) == len(bugs.KINDS)
    assert len(bugs.of_a_command(word, tmp_path / "arc.db").found) == len(bugs.KINDS)


@pytest.mark.slow
def test_what_an_import_says_of_a_broken_file_tells_no_secret_of_it(tmp_path: Path) -> None:
    assert not outputs.refused(tmp_path, 1).found


@pytest.mark.slow
def test_no_text_of_another_tools_database_brings_a_secret(tmp_path: Path) -> None:
    leak = outputs.of_tools(tmp_path, 6)
    assert leak.planted > 10
    assert not leak.found


@pytest.mark.slow
@pytest.mark.minutes
def test_nothing_at_all_that_leaves_has_a_secret(tmp_path: Path) -> None:
    assert [row for row in leaked.rows() if not row.kept] == []
