"""What lies beside a trace of the check that judged it: kept as reference, cut where it is long."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from replay.formats.sidecars import Sidecar
from replay.formats.source import Source
from replay.trace import Batch, Header, Json


def beside(path: Path, **own: Json) -> dict[str, Json] | None:
    """The reference of a trace whose source has some of its own."""
    header = Header(format="built", source_id="built", reference=dict(own) or None)
    return Sidecar.find(Source(path)).fill(Batch(header=header)).header.reference


def trial(folder: Path, printed: str = "", **result: Any) -> Path:
    (folder / "agent").mkdir()
    (folder / "verifier").mkdir()
    (folder / "result.json").write_text(json.dumps({"task_name": "fix", **result}))
    if printed:
        (folder / "verifier" / "test-stdout.txt").write_text(printed)
    return folder / "agent" / "trajectory.json"


def test_what_the_verifier_printed_its_tests_and_what_ended_the_trial(tmp_path: Path) -> None:
    ended = {"exception_type": "AgentTimeoutError", "exception_message": "after 900 seconds"}
    path = trial(tmp_path, "1 failed", exception_info=ended)
    tests = {"results": {"tests": [{"name": "test_one", "status": "failed", "duration": 3}]}}
    (tmp_path / "verifier" / "ctrf.json").write_text(json.dumps(tests))
    assert beside(path) == {
        "check": {"printed": "1 failed", "tests": {"test_one": "failed"}},
        "ended_by": "AgentTimeoutError: after 900 seconds",
    }


def test_a_trial_of_the_first_terminal_bench_tells_its_tests_and_its_outcome(
    tmp_path: Path,
) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "panes").mkdir()
    (tmp_path / "panes" / "post-test.txt").write_text("1 failed, 1 passed in 0.10s")
    told = {
        "task_id": "hello-world", "trial_name": "hello-world.1-of-1.x", "instruction": "Say hello.",
        "is_resolved": False, "failure_mode": "agent_timeout",
        "parser_results": {"test_a": "passed", "test_b": "failed"},
    }  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(told))
    path = tmp_path / "sessions" / "agent.jsonl"
    assert beside(path) == {
        "check": {
            "printed": "1 failed, 1 passed in 0.10s",
            "tests": {"test_a": "passed", "test_b": "failed"},
        },
        "ended_by": "agent_timeout",
        "asked": "Say hello.",
    }
    assert outcome(path) == "failed"
    found = Sidecar.find(Source(path))
    assert (found.task, found.trial) == ("hello-world", "hello-world.1-of-1.x")


def test_a_long_print_keeps_its_end_and_says_what_is_left_out(tmp_path: Path) -> None:
    found = beside(trial(tmp_path, "x" * 30_000 + "1 failed"))
    assert found is not None
    check = found["check"]
    assert isinstance(check, dict)
    printed = check["printed"]
    assert isinstance(printed, str)
    assert printed.startswith("[10008 characters before this left out]\n")
    assert printed.endswith("1 failed")


def test_a_row_of_the_index_tells_the_task_s_text_and_its_tests(tmp_path: Path) -> None:
    row = {"file": "a.jsonl", "instruction": "Do it.", "tests": {"test_a": "failed"},
           "failure_mode": "unset"}  # fmt: skip
    (tmp_path / "index.jsonl").write_text(json.dumps(row))
    assert beside(tmp_path / "a.jsonl") == {
        "check": {"tests": {"test_a": "failed"}},
        "asked": "Do it.",
    }


def test_the_source_s_own_reference_stays_and_wins(tmp_path: Path) -> None:
    path = trial(tmp_path, "1 failed")
    assert beside(path, target="8", check="own") == {"target": "8", "check": "own"}


def test_nothing_beside_it_leaves_no_reference(tmp_path: Path) -> None:
    assert beside(tmp_path / "alone.json") is None


# --- where an index lies, and which files it names


def outcome(path: Path) -> str:
    header = Header(format="built", source_id="built")
    return Sidecar.find(Source(path)).fill(Batch(header=header)).header.outcome.status


def index(folder: Path, *rows: tuple[str, bool]) -> None:
    lines = (json.dumps({"file": name, "is_resolved": passed}) for name, passed in rows)
    (folder / "index.jsonl").write_text("\n".join(lines))


def run(folder: Path, *parts: str) -> Path:
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return path


@pytest.mark.parametrize("named", ["x.jsonl.gz", "sub/x.jsonl.gz", "./sub/x.jsonl.gz", "{whole}"])
def test_an_index_one_folder_above_is_seen(tmp_path: Path, named: str) -> None:
    path = run(tmp_path, "sub", "x.jsonl.gz")
    index(tmp_path, ("other.jsonl.gz", False), (named.format(whole=path), True))
    assert outcome(path) == "passed"


def test_an_index_is_seen_from_within_the_folder_and_through_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(tmp_path, "runs", "sub", "x.jsonl")
    index(tmp_path / "runs", ("sub/x.jsonl", True))
    (tmp_path / "linked.jsonl").symlink_to(path)
    (tmp_path / "folder").symlink_to(path.parent)
    for each in (tmp_path / "linked.jsonl", tmp_path / "folder" / "x.jsonl"):
        assert outcome(each) == "passed", each
    for where in (path.parent, tmp_path / "runs", tmp_path):
        monkeypatch.chdir(where)
        assert outcome(Path(os.path.relpath(path))) == "passed", where
    monkeypatch.chdir(path.parent)
    (path.parents[1] / "result.json").write_text(json.dumps({"task_name": "fix"}))
    assert Sidecar.find(Source(Path("x.jsonl"))).task == "fix", "a trial's record likewise"


def test_a_row_that_could_be_another_file_s_tells_of_none(tmp_path: Path) -> None:
    one, two = run(tmp_path, "a", "t.json"), run(tmp_path, "b", "t.json")
    index(tmp_path, ("t.json", True))
    assert (outcome(one), outcome(two)) == ("unknown", "unknown")
    index(tmp_path, ("a/t.json", True), ("b/t.json", False))
    assert (outcome(one), outcome(two)) == ("passed", "failed")
    index(tmp_path, ("a/t.json", True), ("a/t.json", False))
    assert outcome(one) == "unknown", "two rows that disagree"
    above = run(tmp_path, "t.json")
    two.unlink()
    index(tmp_path, ("t.json", True))
    assert (outcome(above), outcome(one)) == ("passed", "unknown")


def test_the_nearer_index_is_asked_first_and_a_broken_one_tells_nothing(tmp_path: Path) -> None:
    path = run(tmp_path, "sub", "x.jsonl")
    index(tmp_path, ("sub/x.jsonl", False))
    index(tmp_path / "sub", ("x.jsonl", True))
    assert outcome(path) == "passed"
    (tmp_path / "sub" / "index.jsonl").write_bytes(b'\xff\n[1]\n{"file": 3}\n{"file"')
    assert outcome(path) == "failed"
    (tmp_path / "sub" / "index.jsonl").unlink()
    os.mkfifo(tmp_path / "sub" / "index.jsonl")
    assert outcome(path) == "failed", "a pipe is no index, and is not waited for"
