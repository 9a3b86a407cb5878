"""Reports and patches beside a run: which verdict counts, and what is read of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.formats.sidecars import Verdict, first_line, verdict_of
from replay.formats.source import Source
from replay.trace import Outcome

NAME = "org__repo-1"
TESTS = {
    "FAIL_TO_PASS": {"success": ["test_a"], "failure": ["test_b"]},
    "PASS_TO_PASS": {"success": ["test_c"], "failure": []},
}


def run(folder: Path) -> Source:
    """The file of a run two folders below."""
    path = folder / "runs" / NAME / f"{NAME}.traj"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return Source(path)


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def test_an_instance_s_own_report_tells_the_outcome_and_the_tests(tmp_path: Path) -> None:
    source = run(tmp_path)
    report = {NAME: {"resolved": False, "patch_exists": True, "tests_status": TESTS}}
    write(source.path.parent / "report.json", report)
    found = verdict_of(source, NAME)
    assert found.outcome == Outcome(status="failed", value=0.0, by="report.json")
    assert found.reference == {
        "check": {"tests": {"test_a": "passed", "test_b": "failed", "test_c": "passed"}}
    }


@pytest.mark.parametrize(
    ("name", "listing", "status"),
    [
        ("report.json", "resolved_ids", "passed"),
        ("results.json", "unresolved_ids", "failed"),
        ("results/results.json", "no_generation", "failed"),
        ("report.json", "error_ids", "unknown"),
    ],
)
def test_a_run_s_report_lists_the_instance(
    name: str, listing: str, status: str, tmp_path: Path
) -> None:
    source = run(tmp_path)
    write(tmp_path / name, {listing: ["other", NAME]})
    assert verdict_of(source, NAME).outcome.status == status


def test_the_nearest_report_counts(tmp_path: Path) -> None:
    source = run(tmp_path)
    write(tmp_path / "report.json", {"resolved_ids": [NAME]})
    write(source.path.parent / "report.json", {NAME: {"resolved": False}})
    assert verdict_of(source, NAME).outcome.status == "failed"


@pytest.mark.parametrize("name", ["runs/preds.json", f"runs/{NAME}/{NAME}.pred"])
def test_the_name_a_patch_was_handed_in_under_is_the_variant(name: str, tmp_path: Path) -> None:
    source = run(tmp_path)
    row = {"instance_id": NAME, "model_name_or_path": "gpt-x", "model_patch": "diff"}
    write(tmp_path / name, {NAME: row} if name.endswith("json") else row)
    assert verdict_of(source, NAME).variant == "gpt-x"


def test_patches_may_stand_a_line_each(tmp_path: Path) -> None:
    source = run(tmp_path)
    rows = [{"instance_id": each, "model_name_or_path": f"by {each}"} for each in ("other", NAME)]
    text = "\n\n".join(map(json.dumps, rows)) + "\n"
    (tmp_path / "all_preds.jsonl").write_text(text)
    assert verdict_of(source, NAME).variant == f"by {NAME}"


@pytest.mark.parametrize(
    "report",
    ["{", "[]", "7", '{"org__repo-1": 7}', '{"org__repo-1": {"resolved": "yes"}}',
     '{"resolved_ids": {"org__repo-1": 1}}', '{"resolved_ids": [["org__repo-1"]]}'],
)  # fmt: skip
def test_a_report_that_makes_no_sense_says_nothing(report: str, tmp_path: Path) -> None:
    source = run(tmp_path)
    for name in ("report.json", "preds.json"):
        (source.path.parent / name).write_text(report)
    assert verdict_of(source, NAME) == Verdict()


def test_standard_input_and_a_run_without_an_instance_have_nothing_beside(tmp_path: Path) -> None:
    source = run(tmp_path)
    write(source.path.parent / "report.json", {"resolved_ids": [NAME]})
    assert verdict_of(source, None) == Verdict()
    assert verdict_of(Source(source.path, display="-"), NAME) == Verdict()


@pytest.mark.parametrize(
    ("told", "title"),
    [
        ("We solve this.\nISSUE:\nIt crashes\nbadly", "It crashes"),
        ("<pr_description>\nConsider the following PR description:\nIt crashes\n", "It crashes"),
        ("Look:\n<issue_description>\nIt crashes\n</issue_description>", "It crashes"),
        ("Please solve this issue: It crashes\n", "It crashes"),
        ("\n It crashes\nbadly", "It crashes"),
        ("", None),
    ],
)
def test_a_title_is_the_issue_s_first_line(told: str, title: str | None) -> None:
    assert first_line(told) == title
