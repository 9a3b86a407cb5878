"""Runs as a matrix: as `arc ls --matrix` prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import cli
from arc_tui.features.runs.command import _blocks
from replay.trace import ModelCall, Outcome
from tests.arc_tui.sample import header, put
from tests.build import step, trace

GRID = {
    "refund": {"v1": "pppp", "v2": "ffff"},
    "where is it": {"v1": "pfpf", "v2": "pppp"},
    "new": {"v2": "pu"},
    "unjudged": {"v1": "u"},
}
"""Tasks, and the outcomes of their trials by variant: passed, failed, unknown."""

OUTCOMES = {"p": "passed", "f": "failed", "u": "unknown"}


def put_grid(path: Path, grid: dict[str, dict[str, str]] = GRID) -> None:
    for task, variants in grid.items():
        for variant, trials in variants.items():
            for trial, letter in enumerate(trials):
                spans = [
                    structs.replace(span, response=structs.replace(span.response, model="large"))
                    if isinstance(span, ModelCall) and span.response is not None
                    else span
                    for span in trace([step("Done.", usd=0.25)]).spans
                ]
                known = header(task, str(trial), Outcome(status=OUTCOMES[letter]))  # type: ignore[arg-type]
                put(
                    path,
                    structs.replace(known, variant=variant, source_id=f"{task} {variant} {trial}"),
                    spans,
                )


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    put_grid(path)
    return path


def arc(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(path), "ls", *words])


def test_columns_in_figures_then_tasks_by_column(grid: Path) -> None:
    done = arc(grid, "--matrix")
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    v1, v2 = lines[1], lines[2]
    assert v1[:6] == ["v1", "large", "9", "1", ".75", "(.20–.97)"]
    assert v1[-1] == "$0.33"  # eight runs of known outcome, six resolved
    assert v2[-1] == "$0.45"
    rows = {line[0]: line[1:] for line in lines[5:9]}
    assert rows["refund"] == ["1.00", "4/4", "0/4"]
    assert rows["new"] == ["–", "1/1", "1?"]
    assert rows["unjudged"] == ["–", "1?"]


def test_k_is_asked_for(grid: Path) -> None:
    found = json.loads(arc(grid, "--matrix", "-k", "2", "--json").stdout)
    (v1, v2) = found["columns"]
    assert found["k"] == 2
    assert v1["pass_hat"]["value"] == pytest.approx((1 + 1 / 6) / 2)
    assert (v2["pass_hat"]["n"], v2["short"]) == (2, 1)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ((), "refund"),
        (("--sort", "-changed"), "where is it"),
        (("--sort", "task"), "new"),
        (("--sort", "-task"), "where is it"),
        (("--sort", "passed"), "refund"),
    ],
)
def test_rows_are_sorted_as_asked(grid: Path, words: tuple[str, ...], first: str) -> None:
    found = json.loads(arc(grid, "--matrix", "--json", *words).stdout)
    assert found["rows"][0]["task"] == first


def test_rows_left_out_are_counted(grid: Path) -> None:
    done = arc(grid, "--matrix", "--limit", "1")
    assert "1 of 4 shown. Try: --limit 0" in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--matrix", "--all"), "--all cannot be combined with --matrix"),
        (("--matrix", "--columns", "task"), "--columns cannot be combined with --matrix"),
        (("--matrix", "--sort", "chnged"), "no matrix order 'chnged'"),
        (("--matrix", "--sort", "cost"), "no matrix order 'cost'"),
        (("-k", "2"), "-k cannot be used without --matrix"),
        (("--matrix", "-k", "0"), "0 is not in the range"),
        (("--matrix", "outcome:maybe"), "unknown outcome 'maybe'"),
    ],
)
def test_what_cannot_be_meant_is_refused(grid: Path, words: tuple[str, ...], why: str) -> None:
    done = arc(grid, *words)
    said = getattr(done.exception, "message", None) or done.output
    assert why in said


def test_no_run_of_a_task(tmp_path: Path) -> None:
    assert "No runs of a task yet." in arc(tmp_path / "arc.db", "--matrix").stderr
    put_grid(tmp_path / "arc.db")
    assert (
        "No runs of a task match 'nosuch'." in arc(tmp_path / "arc.db", "--matrix", "nosuch").stderr
    )


def test_columns_that_do_not_fit_a_line_stand_below() -> None:
    left, cells = [["task", "change"]], [["variant-1", "variant-2", "v3"]]
    assert list(_blocks(left, cells, 200)) == [(0, 3)]
    assert list(_blocks(left, cells, 30)) == [(0, 1), (1, 3)]
    assert list(_blocks(left, cells, 3)) == [(0, 1), (1, 2), (2, 3)]  # one is always shown
