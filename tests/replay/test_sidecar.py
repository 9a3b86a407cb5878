"""What lies beside a trace of the check that judged it: kept as reference, cut where it is long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from replay.formats.intake import Source
from replay.formats.sidecar import Sidecar
from replay.trace import Batch, Header, Json


def beside(path: Path, **own: Json) -> dict[str, Json] | None:
    """The reference of a trace whose source has some of its own."""
    header = Header(format="built", source_id="built", reference=dict(own) or None)
    return Sidecar.beside(Source(path)).fill(Batch(header=header)).header.reference


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
