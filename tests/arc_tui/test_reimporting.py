"""A source that is imported again: grown, changed, or broken since. Nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from arc_tui.commands import cli
from replay.store.rows import trace_rows
from replay.trace import Json
from taxonomy.calibration.labels import Names
from taxonomy.judgements.schema import open_ledger
from tests.faults.holdings import damage, holdings
from tests.shared import DATA, needs_shared

WORDS = ("cancel order 7", "which one?", "the red one", "it is cancelled", "and refund it", "done")


def session(path: Path, *said: str) -> Path:
    """A session of Claude Code that has come so far, the user and the agent in turn."""
    lines = []
    for number, text in enumerate(said):
        role = "assistant" if number % 2 else "user"
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        known = {"id": f"msg_{number}", "model": "claude-demo", "stop_reason": "end_turn"}
        line = {
            "type": role, "sessionId": "s-1", "uuid": f"m-{number}",
            "parentUuid": f"m-{number - 1}" if number else None,
            "timestamp": f"2026-11-22T05:00:{number:02d}.000Z", "isSidechain": False,
            "message": message | known if role == "assistant" else message,
        }  # fmt: skip
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines))
    return path


def stream(path: Path, *said: str) -> Path:
    """What Claude Code printed of the same session: no prompt that opened it, no parents, no stop
    reasons, and a line that ends it."""
    lines: list[dict[str, Json]] = [
        {"type": "system", "subtype": "init", "uuid": "i", "session_id": "s-1"}
    ]
    for number, text in list(enumerate(said))[1:]:
        role = "assistant" if number % 2 else "user"
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        known = {"id": f"msg_{number}", "model": "claude-demo", "stop_reason": None}
        lines.append({
            "type": role, "session_id": "s-1", "uuid": f"m-{number}",
            "message": message | known if role == "assistant" else message,
        })  # fmt: skip
    lines.append({"type": "result", "subtype": "success", "uuid": "r", "session_id": "s-1"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def arc(db: Path, *words: str) -> Result:
    result = CliRunner().invoke(cli, ["--db", str(db), *words], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def test_a_session_that_grew_keeps_its_id_and_its_tags(db: Path, tmp_path: Path) -> None:
    arc(db, "import", str(session(tmp_path / "s.jsonl", *WORDS[:2])))
    arc(db, "tag", "add", "last", "0", "loop", "--note", "asks at once")
    before = holdings(db)
    assert arc(db, "import", str(session(tmp_path / "s.jsonl", *WORDS))).return_value == 0
    after = holdings(db)
    assert after["trace"].keys() == before["trace"].keys()
    assert [row[5] for row in after["trace"].values()] == [3]
    assert after["tag"] == before["tag"]
    assert damage(db) == []


def test_a_recording_that_says_otherwise_is_refused_in_words(db: Path, tmp_path: Path) -> None:
    arc(db, "import", str(session(tmp_path / "s.jsonl", *WORDS)))
    before = holdings(db)
    other = session(tmp_path / "other.jsonl", "cancel order 8", *WORDS[1:])
    good = Path(__file__).parents[2] / "fixtures" / "traces" / "shop-warranty-v3-0.jsonl"
    result = arc(db, "import", str(other), str(good))
    assert result.return_value == 2
    assert "differs from the stored recording of the same run" in result.stderr
    assert "Try: --replace, to store the new one" in result.stderr
    after = holdings(db)
    (key,) = before["trace"]
    assert after["trace"][key] == before["trace"][key]
    assert len(after["trace"]) == 2, "the other file is imported all the same"
    assert damage(db) == []
    assert arc(db, "import", str(other), "--replace").return_value == 0
    assert holdings(db)["trace"][key] != before["trace"][key]


def test_a_file_that_was_cut_off_since_changes_nothing(db: Path, tmp_path: Path) -> None:
    path = session(tmp_path / "s.jsonl", *WORDS)
    arc(db, "import", str(path))
    before = holdings(db)
    path.write_bytes(path.read_bytes()[:700])
    again = arc(db, "import", str(path))
    assert again.return_value == 0
    assert "was imported before with more in it: kept that" in again.stdout
    assert holdings(db)["trace"] == before["trace"]
    assert damage(db) == []


def linked(db: Path) -> dict[str, str]:
    """By recording its run, where each is imported again and nothing is refused."""
    with open_ledger(db) as store:
        every = trace_rows(store, every=True)
        assert len(trace_rows(store)) == 1, "lists count the run once"
        return {row.trace: row.run for row in every}


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("turned", [False, True])
def test_a_session_and_its_stream_are_two_recordings_of_one_run(
    tmp_path: Path, calls: int, turned: bool
) -> None:
    db = tmp_path / "arc.db"
    files = [str(session(tmp_path / "s.jsonl", *WORDS)), str(stream(tmp_path / "o.jsonl", *WORDS))]
    if turned:
        files.reverse()
    for words in [files] if calls == 1 else [files[:1], files[1:]]:
        assert arc(db, "import", *words).return_value == 0
    assert len(linked(db)) == 2
    assert len(set(linked(db).values())) == 1
    assert "2 already imported" in arc(db, "import", *files).stdout
    assert damage(db) == []


def test_a_stream_alone_is_found_by_the_id_of_its_session(db: Path, tmp_path: Path) -> None:
    arc(db, "import", str(stream(tmp_path / "o.jsonl", *WORDS)))
    with open_ledger(db) as store:
        (row,) = Names(trace_rows(store, every=True)).find("s-1")
    assert row.steps == 3


@needs_shared
@pytest.mark.parametrize("turned", [False, True])
def test_the_real_session_and_its_stream_are_two_recordings_of_one_run(
    tmp_path: Path, turned: bool
) -> None:
    db = tmp_path / "arc.db"
    folder = DATA / "clients" / "claude_code"
    files = [str(folder / "projects"), str(folder / "stream.jsonl")]
    for each in files[::-1] if turned else files:
        assert arc(db, "import", each).return_value == 0
    assert len(linked(db)) == 2
    assert len(set(linked(db).values())) == 1


@needs_shared
@pytest.mark.parametrize("turned", [False, True])
def test_the_session_of_codex_is_shown_rather_than_what_exec_printed(
    tmp_path: Path, turned: bool
) -> None:
    db = tmp_path / "arc.db"
    folder = DATA / "clients" / "codex"
    files = [str(folder / "sessions"), str(folder / "exec.jsonl")]
    said = ""
    for each in files[::-1] if turned else files:
        result = arc(db, "import", each)
        assert result.return_value == 0
        said += result.stdout
    assert said.count("is another recording of run") == 1
    assert len(set(linked(db).values())) == 1
    with open_ledger(db) as store:
        (row,) = trace_rows(store)
    assert (row.steps, row.calls, row.errors, row.input_tokens) == (3, 3, 1, 600)
