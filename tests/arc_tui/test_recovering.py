"""`arc db verify`, `arc db recover` and `arc db backup` as a user types them, on a database that
has something of everything and has come to harm."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from arc_tui.commands import cli
from arc_tui.places import fixtures
from replay.care.pages import Pages
from replay.errors import NotFound, StoreUnusable
from replay.store.rows import trace_row
from taxonomy.judgements.schema import open_ledger
from tests.faults.holdings import TAGGED, TOUR, arc, damage, furnish, holdings


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "arc.db"
    furnish(path)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "arc.db"))


def run(path: Path, *words: str) -> tuple[int, str]:
    """The code of a command, and what it says."""
    done = CliRunner().invoke(cli, ["--db", str(path), *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def as_json(path: Path, *words: str) -> Any:
    done = CliRunner().invoke(cli, ["--db", str(path), *words, "--json"], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout)


def pages_of(path: Path, name: str) -> list[int]:
    """The leaves of a table or an index."""
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)
        ).fetchone()
    with Pages(path) as pages:
        return [leaf for leaf in pages.tree(root, set()) if isinstance(leaf, int)]


def spoil(path: Path, *numbers: int, keep: float = 0.0) -> bytes:
    """Write noise over pages, all but the first part of each; the file as it is then."""
    with Pages(path) as pages:
        size = pages.size
    raw, chance = bytearray(path.read_bytes()), random.Random(3)
    for number in numbers:
        start = (number - 1) * size + int(size * keep)
        end = number * size
        raw[start:end] = chance.randbytes(end - start)
    path.write_bytes(raw)
    return bytes(raw)


def recovered(path: Path) -> Any:
    return as_json(path, "db", "recover")


# --- a sound database


@pytest.mark.slow
def test_of_a_sound_database_everything_comes_over(path: Path) -> None:
    before = holdings(path)
    assert as_json(path, "db", "verify")["findings"] == []
    code, said = run(path, "db", "recover")
    new = path.with_name("arc.recovered.db")
    traces = len(before["trace"])
    assert code == 0
    assert f"{traces} of {traces} traces whole" in said
    assert holdings(new) == before
    assert damage(new) == []
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    assert {each.name for each in path.parent.iterdir()} == {"arc.db", new.name}


@pytest.mark.slow
def test_nothing_is_asked_again_for_what_was_paid_for(path: Path) -> None:
    spoil(path, pages_of(path, "message")[-1])
    recovered(path)
    new = path.with_name("arc.recovered.db")
    with open_ledger(path.with_name("arc.recovered.db")) as store:
        problems = json.loads(trace_row(store, TOUR).problems)
    if not problems:
        assert " · 0 calls · " in arc(new, "replay", TOUR, "--model", "demo", "-k", "3")


@pytest.mark.slow
def test_what_is_there_already_is_not_written_over(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("mine")
    with pytest.raises(StoreUnusable, match="already exists"):
        run(path, "db", "recover", "--into", str(other))
    with pytest.raises(StoreUnusable, match="already exists"):
        run(path, "db", "backup", str(other))
    assert other.read_text() == "mine"


@pytest.mark.parametrize(
    "words",
    [
        (
            "db",
            "verify",
        ),
        ("db", "backup"),
        ("db", "recover"),
    ],
)
def test_where_there_is_no_database_none_is_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(NotFound, match="no database"):
        run(tmp_path / "none.db", *words)
    assert list(tmp_path.iterdir()) == []


def test_a_backup_says_what_is_in_it(path: Path, tmp_path: Path) -> None:
    code, said = run(path, "db", "backup", str(tmp_path / "copy.db"))
    assert code == 0
    assert "copy.db" in said
    assert "tags" in said
    assert holdings(tmp_path / "copy.db") == holdings(path)
    told = as_json(path, "db", "backup", str(tmp_path / "again.db"))
    assert told["rows"]["answer"] == len(holdings(path)["answer"])


# --- a damaged one


@pytest.mark.slow
def test_a_lost_page_of_content_is_named_and_the_rest_is_kept(path: Path) -> None:
    before = holdings(path)
    spoiled = spoil(path, pages_of(path, "message")[1])
    code, said = run(path, "db", "verify")
    assert code == 1
    assert "damage: message, page" in said
    done = recovered(path)
    lost = {each["trace"] for each in done["incomplete"]}
    assert lost
    assert all(f"trace {key[:8]}" in said for key in lost)
    new = path.with_name("arc.recovered.db")
    after = holdings(new)
    assert damage(new) == []
    for key, row in before["trace"].items():
        if key in lost:
            assert "recovered from a damaged file" in after["trace"][key][7]
        else:
            assert after["trace"][key] == row
    for table in ("tag", "clearance", "answer", "replay", "edit"):
        assert after[table] == before[table]
    assert path.read_bytes() == spoiled


@pytest.mark.slow
def test_importing_the_source_again_completes_what_was_lost(path: Path) -> None:
    whole = holdings(path)["trace"]
    spoil(path, pages_of(path, "span")[1])
    lost = [each["trace"] for each in recovered(path)["incomplete"]]
    assert lost
    new = path.with_name("arc.recovered.db")
    arc(
        new, "import", *(str(each) for each in (fixtures() / "traces").glob("*.jsonl")), "--replace"
    )
    now = holdings(new)["trace"]
    assert [now[key][:7] for key in lost] == [whole[key][:7] for key in lost]


@pytest.mark.slow
def test_a_trace_whose_own_row_is_lost_keeps_its_id_and_its_steps(path: Path) -> None:
    before = holdings(path)
    spoil(path, *pages_of(path, "trace"))
    done = recovered(path)
    after = holdings(path.with_name("arc.recovered.db"))
    assert done["whole"] == 0
    assert after["trace"].keys() == before["trace"].keys()
    for key, row in before["trace"].items():
        assert after["trace"][key][0] == row[0], "the same content"
        assert after["trace"][key][2:4] == row[2:4], "the same task and trial"
    assert after["tag"] == before["tag"]


@pytest.mark.slow
def test_without_its_first_page_a_file_still_has_everything(path: Path) -> None:
    before = holdings(path)
    spoil(path, 1)
    code, said = run(path, "db", "verify")
    assert code == 1
    assert "is not a database, or its beginning is damaged" in said
    recovered(path)
    after = holdings(path.with_name("arc.recovered.db"))
    for table in ("trace", "tag", "clearance", "answer", "replay", "edit"):
        assert after[table].keys() == before[table].keys()
    assert after["answer"] == before["answer"]


@pytest.mark.slow
def test_a_page_that_leads_to_others_costs_nothing(path: Path) -> None:
    before = holdings(path)
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'span'").fetchone()
    spoil(path, root)
    done = recovered(path)
    assert done["incomplete"] == []
    assert holdings(path.with_name("arc.recovered.db")) == before


@pytest.mark.slow
@pytest.mark.parametrize("index", ["sqlite_autoindex_message_1", "span_words_data", "trace_run"])
def test_an_index_that_is_damaged_costs_nothing(path: Path, index: str) -> None:
    before = holdings(path)
    spoil(path, pages_of(path, index)[0])
    code, said = run(path, "db", "verify")
    assert code == 1
    assert "readable" in said
    assert recovered(path)["incomplete"] == []
    new = path.with_name("arc.recovered.db")
    assert holdings(new) == before
    assert arc(new, "search", "order")


@pytest.mark.slow
def test_tags_of_a_lost_page_are_named_and_said_again(path: Path) -> None:
    before = holdings(path)
    spoil(path, pages_of(path, "tag")[0])
    _, said = run(path, "db", "verify")
    assert "tag trace" in said
    done = recovered(path)
    after = holdings(path.with_name("arc.recovered.db"))
    assert done["said_again"]
    assert after["tag"].keys() == before["tag"].keys()
    lost = [key for key, row in before["tag"].items() if after["tag"][key] != row]
    assert {after["tag"][key]["note"] for key in lost} == {None}
    assert {after["tag"][key]["step"] for key in lost} <= {
        before["tag"][key]["step"] for key in lost
    }


@pytest.mark.slow
def test_an_answer_that_is_lost_is_named_by_its_key(path: Path) -> None:
    before = holdings(path)
    spoil(path, *pages_of(path, "answer")[:1])
    done = recovered(path)
    after = holdings(path.with_name("arc.recovered.db"))
    lost = before["answer"].keys() - after["answer"].keys()
    named = " ".join(done["lost_rows"])
    assert lost
    assert all(key[1][:40] in named for key in lost)


@pytest.mark.slow
def test_a_row_that_says_otherwise_than_its_digest_is_lost_and_named(path: Path) -> None:
    with open_ledger(path) as store:
        key = trace_row(store, TAGGED).trace
        with store.writing() as db:
            db.execute(
                "UPDATE span SET name = 'forged' WHERE kind = 'tool' AND trace ="
                " (SELECT id FROM trace WHERE key = ?)",
                (key,),
            )
    found = as_json(path, "db", "verify")["findings"]
    assert f"trace {key[:8]}" in found[0]["where"]
    (partial,) = recovered(path)["incomplete"]
    assert partial["trace"] == key
    assert "forged" not in arc(path.with_name("arc.recovered.db"), "show", key)


def test_bytes_that_are_no_text_are_damage_and_no_crash(path: Path) -> None:
    with open_ledger(path) as store, store.writing() as db:
        db.execute("UPDATE message SET body = CAST(X'7BFF7D' AS TEXT) WHERE id = 2")
        db.execute("UPDATE tag SET note = CAST(X'FF' AS TEXT) WHERE id = 1")
        db.execute("UPDATE answer SET body = '{' WHERE rowid = 1")
        db.execute("UPDATE replay SET core = replace(core, 'demo', 'omed') WHERE id = 1")
    places = [each["where"] for each in as_json(path, "db", "verify")["findings"]]
    for wanted in ("message row 2 of trace", "tag trace", "answer key", "replay digest"):
        assert any(place.startswith(wanted) for place in places), (wanted, places)


@pytest.mark.slow
def test_what_is_in_the_log_alone_is_saved_too(path: Path, tmp_path: Path) -> None:
    with open_ledger(path) as store:
        store.db.execute("PRAGMA wal_autocheckpoint = 0")
        with store.writing() as db:
            db.execute("UPDATE tag SET note = 'said last'")
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{tmp_path / 'torn.db'}{ending}")
    recovered(tmp_path / "torn.db")
    tags = holdings(tmp_path / "torn.recovered.db")["tag"]
    assert {row["note"] for row in tags.values()} == {"said last"}


@pytest.mark.slow
def test_an_encrypted_file_is_not_taken_for_a_damaged_one(path: Path, tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(random.Random(4).randbytes(100_000))
    with pytest.raises(StoreUnusable, match="is encrypted"):
        run(tmp_path / "noise.db", "db", "recover")
    copy = tmp_path / "copy.db"  # nobody has looked at it while it was whole
    copy.write_bytes(random.Random(4).randbytes(8192) + path.read_bytes()[8192:])
    assert recovered(copy)["incomplete"] == []


def test_a_file_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"short")
    with pytest.raises(StoreUnusable, match="nothing readable"):
        run(tmp_path / "x.db", "db", "recover")


def test_no_rows_are_lost_to_tables_that_nobody_thought_of(path: Path) -> None:
    """Every table is read, or is known to follow from others."""
    from replay.care.salvage import DERIVED
    from replay.store.schema import BOOK

    with closing(sqlite3.connect(path)) as db:
        without = [
            row[0]
            for row in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%WITHOUT ROWID%'"
            )
        ]
    assert all(name.startswith(DERIVED) for name in without if name != BOOK)


def test_a_rescue_leaves_nothing_where_it_cannot_write(path: Path) -> None:
    with pytest.raises(StoreUnusable, match="into"):
        run(path, "db", "recover", "--into", str(path.parent / "none" / "new.db"))
    assert os.listdir(path.parent) == ["arc.db"]
