"""`arc db export` and `arc db import`: what cannot be made again comes back, and nothing unsaid."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from arc_tui.commands import cli
from replay import kept
from replay.care import rewriting
from replay.care.export import ROWS
from replay.errors import ArcError
from replay.free.recorded_results import Stub
from replay.store import answers, edits, encryption
from replay.store.edits import Supplement
from replay.store.handle import Store
from replay.store.rows import trace_row, trace_rows
from replay.trace import Tool
from taxonomy import held_out
from taxonomy.findings import Item, StepScore
from taxonomy.goals import Goal, Goals, Task, first_seen
from taxonomy.judgements.care import EXPORTED
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import keep_scores
from taxonomy.judgements.tags import human_words
from tests.faults.holdings import TAGGED, TOUR, arc, damage, furnish, holdings, some_traces

EVERYTHING = [each.kind() for each in (*ROWS, *EXPORTED)]
AGAIN = {"diagnosis", "trace"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a row of every kind."""
    path = tmp_path_factory.mktemp("made") / "arc.db"
    furnish(path)
    with open_ledger(path) as store:
        add_the_rest(store)
    return path


def add_the_rest(store: Store) -> None:
    """What `furnish` leaves out."""
    row = trace_row(store, TOUR)
    trace = row.trace
    tools = (Tool(name="look_up", schema={"type": "object"}),)
    edits.attach(store, trace, Supplement(name="mine", system="Be brief.", tools=tools))
    edits.attach(store, trace_row(store, TAGGED).trace, Supplement(name="x", system="Be kind."))
    stub = Stub(tool="look_up", arguments={}, result="nothing", is_error=True)
    kept.put(store, trace, stub, source="a screen")
    sent = answers.intend(store, "http://h", "m", {"one": ("key", 0)})
    answers.sent(store, "http://h", sent, "batch_1")
    held_out.hold(store, trace_rows(store))
    goal = Goal(text="Reads the order", tool="get_*", owner="orders")
    first_seen(store, Goals(task=(Task(match="*", goal=(goal,)),)), "goals.toml")
    judged = StepScore(step=1, value=0.25, source="judge", by="m · items 1", items=(
        Item(name="grounded", held=False, because="a value of nowhere"),
    ))  # fmt: skip
    keep_scores(store, trace, [judged])
    with store.writing() as db:
        db.execute(
            "INSERT INTO suggestion (trace, place, span, step, class, sub, fault, why, by, source,"
            " confidence, evidence) VALUES (?, 0, 'x', 1, 'loop', NULL, 'agent', 'again', 'm',"
            " 'judge', 0.5, '[]')",
            (trace,),
        )


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "arc.db"))


@pytest.fixture
def file(db: Path, tmp_path: Path) -> Path:
    """An export without the runs themselves."""
    return exported(db, tmp_path / "export.jsonl", "--runs", "none")


class Done(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


def run(db: Path, *words: str, input: str | None = None) -> Done:
    done = CliRunner().invoke(cli, ["--db", str(db), "db", *words], input, standalone_mode=False)
    if isinstance(done.exception, ArcError):
        return Done(2, done.stdout, str(done.exception))
    if done.exception is not None:
        raise done.exception
    return Done(done.return_value, done.stdout, done.stderr)


def exported(db: Path, target: Path, *words: str) -> Path:
    done = run(db, "export", str(target), *words)
    assert done.code == 0, done
    return target


def taken(db: Path, file: Path, code: int = 0) -> dict[str, Any]:
    done = run(db, "import", str(file), "--json")
    assert done.code == code, done
    found: dict[str, Any] = json.loads(done.out)
    return found


def kinds(file: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in file.read_text().splitlines():
        kind = json.loads(line)["record"]
        found[kind] = found.get(kind, 0) + 1
    return found


def beside(path: Path) -> dict[str, Any]:
    """All that a person made or paid for, by table."""
    return {name: rows for name, rows in holdings(path).items() if name not in AGAIN}


def notes(path: Path) -> list[tuple[str, str]]:
    with open_ledger(path) as store:
        return store.db.execute("SELECT name, value FROM setting ORDER BY name").fetchall()


def words(path: Path) -> int:
    """How many tags and clean marks are known of the runs that are there."""
    with open_ledger(path) as store:
        return len(human_words(store))


@pytest.mark.slow
def test_what_a_person_made_comes_back_after_the_runs_were_imported_again(
    db: Path, file: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.db"
    taken(new, file)
    arc(new, "import", *map(str, some_traces()))
    assert beside(new) == beside(db)
    assert notes(new) == notes(db)
    assert damage(new) == []
    assert arc(new, "ls", "--include-held-out") == arc(db, "ls", "--include-held-out")
    assert arc(new, "tag", "list") == arc(db, "tag", "list")
    prompt = str(some_traces()[0].parents[1] / "demo" / "prompts" / "v6.md")
    known = holdings(new)["answer"]
    arc(new, "replay", TAGGED, "--model", "demo", "--system", prompt)
    assert holdings(new)["answer"] == known, "every answer was found again"


@pytest.mark.slow
def test_nothing_that_can_be_exported_is_missing_from_the_trial(file: Path) -> None:
    assert set(EVERYTHING) <= set(kinds(file))


@pytest.mark.slow
def test_every_table_is_exported_or_made_again(db: Path) -> None:
    known = {each.TABLE for each in (*ROWS, *EXPORTED)}
    made_again = {
        "trace", "span", "step", "message", "context", "toolset", "model_call", "tool_call",
        "source_score", "message_step", "latency", "diagnosis", "audit", "claim", "environment",
        "scan", "scan_partition", "scan_run", "scan_finding", "first_word", "_sqlite_migrations",
    }  # fmt: skip
    with open_ledger(db) as store:
        tables = store.db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
            " AND name NOT LIKE '%\\_words%' ESCAPE '\\'"
        )
        assert {row[0] for row in tables} == known | made_again


def test_every_column_of_a_row_is_exported(db: Path) -> None:
    with open_ledger(db) as store:
        for each in (*ROWS, *EXPORTED):
            columns = store.db.execute(f"PRAGMA table_info({each.TABLE})").fetchall()
            assert set(each.columns()) | {"id"} == {row[1] for row in columns} | {"id"}


@pytest.mark.slow
def test_runs_whose_file_is_not_known_come_along_whole(db: Path, tmp_path: Path) -> None:
    file = exported(db, tmp_path / "export.jsonl")
    new = tmp_path / "new.db"
    merged = taken(new, file)
    assert merged["added"]["recording"] == len(some_traces())
    assert (merged["waiting"], merged["missing"]) == ({}, [])
    assert holdings(new) == holdings(db)
    assert damage(new) == []
    assert arc(new, "ls") == arc(db, "ls")
    again = exported(new, tmp_path / "again.jsonl")
    assert again.read_bytes() == file.read_bytes()


def test_a_run_whose_file_is_there_stays_there(tmp_path: Path) -> None:
    trace = tmp_path / "chat.jsonl"
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    trace.write_text(json.dumps({"messages": messages}) + "\n")
    db = tmp_path / "arc.db"
    arc(db, "import", str(trace))
    with open_ledger(db) as store:
        assert trace_rows(store)[0].path == str(trace)
    assert "recording" not in kinds(exported(db, tmp_path / "there.jsonl"))
    assert "recording" in kinds(exported(db, tmp_path / "all.jsonl", "--runs", "all"))
    trace.unlink()
    assert "recording" in kinds(exported(db, tmp_path / "gone.jsonl"))


@pytest.mark.slow
def test_twice_the_same_changes_nothing(file: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    first, before = taken(new, file), beside(new)
    second = taken(new, file)
    assert second["same"] == first["added"]
    assert second["added"] == second["left"] == {}
    assert beside(new) == before


@pytest.mark.slow
def test_what_waits_for_a_run_is_counted_and_counts_when_it_is_there(
    file: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.db"
    done = run(new, "import", str(file))
    assert done.code == 0, done
    assert "of 16 runs not imported yet" in " ".join(done.out.split())
    assert words(new) == 0
    arc(new, "import", *map(str, some_traces()))
    merged = taken(new, file)
    assert (merged["waiting"], merged["missing"]) == ({}, [])
    assert words(new) == 26 + 6


@pytest.mark.slow
def test_a_run_under_another_name_is_known_by_its_content(
    db: Path, file: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.db"
    arc(new, "import", *map(str, some_traces()))
    with open_ledger(new) as store, store.writing() as changing:
        changing.execute("UPDATE trace SET key = 'ff' || substr(key, 3)")
        changing.execute("DELETE FROM diagnosis")
    merged = taken(new, file)
    assert set(merged["waiting"]) == {"replay"}, "its digest holds the name of the run"
    tags = {("ff" + trace[2:], *rest) for trace, *rest in holdings(db)["tag"]}
    assert set(holdings(new)["tag"]) == tags


@pytest.mark.slow
def test_a_run_with_other_content_is_named(file: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    arc(new, "import", *map(str, some_traces()))
    with open_ledger(new) as store, store.writing() as changing:
        (key,) = changing.execute("SELECT min(key) FROM trace").fetchone()
        changing.execute("UPDATE trace SET content = 'sha256:0' WHERE key = ?", (key,))
    assert taken(new, file)["changed"] == [key]


@pytest.mark.slow
def test_what_the_database_says_otherwise_stays_and_is_counted(
    db: Path, file: Path, tmp_path: Path
) -> None:
    with open_ledger(db) as store, store.writing() as changing:
        changing.execute("UPDATE tag SET note = 'another' WHERE id = (SELECT min(id) FROM tag)")
        (trace, by) = changing.execute("SELECT trace, by FROM clearance LIMIT 1").fetchone()
        changing.execute("DELETE FROM clearance WHERE trace = ? AND by = ?", (trace, by))
        changing.execute(
            "INSERT INTO tag (trace, span, step, class, by, source, evidence, tagged_ns)"
            " VALUES (?, 's', 0, 'loop', ?, 'human', '[]', 1)",
            (trace, by),
        )
    before = holdings(db)
    done = run(db, "import", str(file))
    assert done.code == 1
    assert "skipped, different ones already here: 1 tag, 1 clean mark" in done.err
    assert holdings(db) == before


def test_masks_of_another_key_are_said(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "aB3" * 30
    messages = [{"role": "user", "content": f"my key is {secret}"}]
    messages.append({"role": "assistant", "content": "thank you"})
    trace = tmp_path / "chat.jsonl"
    trace.write_text(json.dumps({"messages": messages}) + "\n")
    db, new, first = (tmp_path / name for name in ("arc.db", "new.db", "first.db"))
    for each in (db, new):
        arc(each, "import", str(trace))
    file = exported(db, tmp_path / "export.jsonl", "--runs", "all")
    assert secret not in file.read_text()
    assert taken(new, file, code=1)["other_key"]
    assert not taken(first, file)["other_key"]
    arc(first, "import", str(trace))
    assert holdings(first)["trace"] == holdings(db)["trace"]


# --- files


@pytest.mark.slow
def test_an_export_is_private_and_never_written_over(db: Path, tmp_path: Path) -> None:
    target = tmp_path / "export.jsonl"
    exported(db, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    target.write_text("mine")
    done = run(db, "export", str(target))
    assert (done.code, target.read_text()) == (2, "mine")
    assert "already exists" in done.err
    missing = run(db, "export", str(tmp_path / "none" / "export.jsonl"))
    assert missing.code == 2
    assert "cannot be written" in missing.err


def test_there_must_be_a_database_to_export(tmp_path: Path) -> None:
    done = run(tmp_path / "none.db", "export", str(tmp_path / "export.jsonl"))
    assert done.code == 2
    assert not (tmp_path / "none.db").exists()


@pytest.mark.slow
def test_a_damaged_row_is_left_out_and_said(db: Path, tmp_path: Path) -> None:
    with sqlite3.connect(db) as changing:
        changing.execute("UPDATE answer SET body = '{' WHERE rowid = 1")
        changing.execute("UPDATE edit SET body = replace(body, 'a', 'b') WHERE rowid = 1")
    changing.close()
    done = run(db, "export", str(tmp_path / "export.jsonl"))
    assert done.code == 1
    assert "left out, damaged: 1 saved edit, 1 answer. Try: arc db verify" in done.err


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sqlcipher3") is None, reason="the extra `crypt` is not installed")
def test_of_an_encrypted_database_it_says_that_the_file_is_plain(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(encryption.KEY, "correct horse battery")
    rewriting.encrypt(db, "correct horse battery")
    done = run(db, "export", str(tmp_path / "export.jsonl"))
    assert done.code == 0, done
    assert "the database is encrypted; this file is not" in done.err
    assert set(EVERYTHING) <= set(kinds(tmp_path / "export.jsonl"))


@pytest.mark.slow
def test_an_export_is_read_from_a_pipe(file: Path, tmp_path: Path) -> None:
    done = run(tmp_path / "new.db", "import", "-", input=file.read_text())
    assert done.code == 0, done
    assert "added: " in done.out


# --- what is no export


def _line(kind: str, **more: object) -> Callable[[list[str]], list[str]]:
    """The first line of that kind with other values."""

    def changed(lines: list[str]) -> list[str]:
        at = next(at for at, line in enumerate(lines) if f'"record":"{kind}"' in line)
        return [*lines[:at], json.dumps({**json.loads(lines[at]), **more}), *lines[at + 1 :]]

    return changed


WRONG: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "empty": (lambda lines: [], "not an arc export"),
    "no JSON": (lambda lines: ["hello"], "not an arc export"),
    "another JSON": (lambda lines: ['{"messages": []}'], "not an arc export"),
    "no head": (lambda lines: lines[1:], "not an arc export"),
    "a later version": (_line("arc-export", version=2), "export version 2 is not supported"),
    "cut off": (lambda lines: lines[:-1], "truncated: no end marker"),
    "cut off within a line": (lambda lines: [*lines[:-1], lines[-1][:9]], "data was truncated"),
    "a line missing": (lambda lines: [*lines[:-2], lines[-1]], "counts"),
    "more behind the end": (lambda lines: [*lines, lines[-2]], "follows the end marker"),
    "a second head": (lambda lines: [lines[0], *lines], "not an arc export"),
    "an unknown kind": (_line("tag", record="word"), "Invalid value 'word'"),
    "an unknown field": (_line("tag", more=1), "unknown field `more`"),
    "an unknown class": (_line("tag", **{"class": "nice"}), "Invalid enum value 'nice'"),
    "a number beyond all": (_line("tag", step=2**70), "at `$.step`"),
    "evidence that is none": (_line("tag", evidence=[1]), "tag: Expected"),
    "an edit of another digest": (_line("edit", digest="sha256:0"), "edit: content does not match"),
    "a replay of another run": (_line("replay", trace_key="0"), "replay: content does not match"),
    "a supplement of another": (_line("supplement", system="x"), "supplement: content does not"),
    "no supplement": (_line("attached", supplement="sha256:0"), "is missing before it"),
    "a key among the notes": (_line("note", name="redact_key"), "name reserved by arc"),
    "nested too deeply": (
        lambda lines: [*lines[:-1], '{"record":"note","name":"n","value":' + "[" * 9999],
        "is nested too deeply",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("way", WRONG)
def test_what_is_no_whole_export_changes_nothing(way: str, file: Path, tmp_path: Path) -> None:
    change, sentence = WRONG[way]
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(change(file.read_text().splitlines())) + "\n")
    new = tmp_path / "new.db"
    done = run(new, "import", str(bad))
    assert done.code == 2, done
    assert sentence in done.err
    assert str(bad) in done.err
    assert not any(beside(new).values())
    assert notes(new) == []


def test_a_database_is_no_export(db: Path, tmp_path: Path) -> None:
    done = run(tmp_path / "new.db", "import", str(db))
    assert done.code == 2
    assert "not an arc export" in done.err


@pytest.mark.slow
def test_a_recording_that_cannot_be_read_takes_everything_back(db: Path, tmp_path: Path) -> None:
    file = exported(db, tmp_path / "export.jsonl")
    text = file.read_text()
    for bad in (
        text.replace('"line":{"kind":"end"}', '"line":{"kind":"end","more":1}', 1),
        text.replace('"record":"run"', '"record":"note","name":"x","value":{}, "old":"run"', 1),
    ):
        file.write_text(bad)
        done = run(tmp_path / "new.db", "import", str(file))
        assert done.code == 2, done
        assert holdings(tmp_path / "new.db")["trace"] == {}
