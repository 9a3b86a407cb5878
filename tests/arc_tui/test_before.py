"""A database of an arc before 0.1: refused in one sentence, and carried over by an export.

`before_0_1.db.gz` was written by the last of them, with something of everything in it.
"""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from arc_tui import importing
from arc_tui.places import fixtures
from replay.care.export import ROWS
from replay.errors import ArcError
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.schema import BOOK, migrations
from replay.store.trouble import StoreTooOld
from taxonomy.classes import Attribution
from taxonomy.judgements.care import EXPORTED, GoldRow
from taxonomy.judgements.schema import migrations as judgements
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.test_export import beside, exported, kinds, run, taken, words
from tests.faults.holdings import TAGGED, TOUR, arc, damage

FILE = Path(__file__).with_name("before_0_1.db.gz")

CARRIED = [each for each in (*ROWS, *EXPORTED) if each is not GoldRow]
"""What that arc knew of."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    with gzip.open(FILE) as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    return path


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(f"SELECT count(1) FROM {table}").fetchone()[0])


@pytest.mark.parametrize(
    "command", ["ls", "show last", "stats", "failures", "db verify", "db backup", "db recover"]
)
def test_every_command_refuses_it_and_says_how_to_carry_over(command: str, old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(StoreTooOld) as refused:
        arc(old, *command.split())
    assert str(refused.value) == (
        f"{old}: was written by an arc before 0.1 and cannot be upgraded. Try: arc db"
        " export FILE, which still reads it; then arc db import FILE --db NEW.db"
    )
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.slow
def test_an_export_carries_over_all_that_a_person_made(old: Path, tmp_path: Path) -> None:
    before = old.read_bytes()
    file = exported(old, tmp_path / "export.jsonl")
    assert old.read_bytes() == before
    assert {each.kind() for each in CARRIED} <= set(kinds(file))
    new = tmp_path / "new.db"
    merged = taken(new, file)
    assert merged["added"]["recording"] == 2
    assert (merged["left"], merged["missing"]) == ({}, [])
    for each in CARRIED:
        if each.TABLE not in {"score", "suggestion"}:  # the rules make theirs again
            assert count(new, each.TABLE) == count(old, each.TABLE), each
    assert words(new) == count(old, "tag") + count(old, "clearance")
    assert damage(new) == []
    assert beside(new)["tag"]


@pytest.mark.slow
def test_it_is_carried_over_to_runs_that_are_imported_again(old: Path, tmp_path: Path) -> None:
    file = exported(old, tmp_path / "export.jsonl", "--runs", "none")
    new = tmp_path / "new.db"
    assert len(taken(new, file)["missing"]) == 2
    traces = fixtures() / "traces"
    arc(new, "import", *(str(traces / f"{name}.jsonl") for name in (TOUR, TAGGED)))
    assert words(new) == count(old, "tag") + count(old, "clearance")
    known = count(new, "answer")
    prompt = fixtures() / "demo" / "prompts" / "v6.md"
    arc(new, "replay", TAGGED, "--model", "demo", "--system", str(prompt))
    assert count(new, "answer") == known, "every answer was found again"


def test_nothing_can_be_imported_into_it(old: Path, tmp_path: Path) -> None:
    file = exported(old, tmp_path / "export.jsonl")
    assert "cannot be upgraded" in run(old, "import", str(file)).err


def test_one_that_is_still_older_says_what_must_be_done_first(old: Path) -> None:
    with closing(sqlite3.connect(old)) as db, db:
        db.execute(f"DELETE FROM {BOOK} WHERE name = ?", (judgements.before[-1],))
    for command in ("ls", "db export x.jsonl"):
        with pytest.raises(StoreTooOld, match="open it once with the last arc"):
            arc(old, *command.split())


@pytest.mark.slow
def test_the_demo_is_made_again_and_a_copy_of_the_old_one_is_kept(
    tmp_path: Path, old: Path
) -> None:
    demo = tmp_path / "demo.db"
    shutil.move(old, demo)
    importing.make_demo(demo)
    with open_ledger(demo) as store:
        assert len(trace_rows(store)) == len(list((fixtures() / "traces").iterdir()))
    (copy,) = tmp_path.glob("demo-*.db")
    assert count(copy, "tag") == 4
    importing.make_demo(demo)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_demo_with_other_runs_is_left_alone(old: Path) -> None:
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("UPDATE trace SET source_id = 'mine' WHERE id = 1")
    before = old.read_bytes()
    with pytest.raises(ArcError, match="contains 1 run that is not the demo's"):
        importing.make_demo(old)
    assert old.read_bytes() == before


def test_attributions_under_their_earlier_names_are_renamed(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    with Store.open(path, judgements.first(1)) as store:
        for number, fault in enumerate(("harness", "check", "user", None)):
            store.db.execute(
                "INSERT INTO tag (trace, span, step, class, fault, by, source, evidence, tagged_ns)"
                " VALUES ('t', ?, 0, 'loop', ?, 'mei', 'human', '[]', 0)", (str(number), fault),
            )  # fmt: skip
        store.db.commit()
    with open_ledger(path) as store:
        found = [row[0] for row in store.db.execute("SELECT fault FROM tag ORDER BY span")]
    assert found == ["environment", "grader", "user", None]
    assert msgspec.json.decode(b'"harness"', type=Attribution) is Attribution.ENVIRONMENT


def test_each_set_begins_with_one_migration(tmp_path: Path) -> None:
    assert (migrations.names[0], judgements.names[0]) == ("0001_recordings", "0001_judgements")
    with Store.open(tmp_path / "arc.db") as store:
        assert not set(migrations.applied(store.db)) & set(migrations.before)
