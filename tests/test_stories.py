"""What is true of the bundled runs, held against what importer, rules, signals and shapes say.

`fixtures/expected.json` was written by hand, from reading the runs. `MISSES` is what the rules do
not see of it, or see too much: the product's honesty report. A miss that is mended must leave the
table, or the test fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arc_tui import importing
from arc_tui.places import fixtures
from replay.store.backup import counts
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_row
from taxonomy.findings import Diagnosis
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import open_ledger

ROOT = Path(__file__).resolve().parents[1]

EXPECTED: dict[str, dict[str, Any]] = json.loads((fixtures() / "expected.json").read_text())[
    "traces"
]

MISSES: dict[str, set[str]] = {
    # what only the policy or the shop's own records could tell
    "shop-big-refund-v3-0": {"-other"},
    "shop-late-refund-v6-0": {"-other"},
    "shop-not-hers-v4-0": {"-other"},
    # dollars where cents were wanted: the shop took them
    "shop-refund-v1-0": {"-bad args"},
    "shop-find-and-refund-v1-0": {"-bad args"},
    # its scores fall slowly: the first clear failure among them is three steps late
    "shop-prefix-v1-0": {"step"},
    # a polite end after a false start reads as giving up
    "shop-where-is-it-v7-0": {"+gave up"},
}
"""By trace: a class the rules miss (`-class`) or add (`+class`), and `step` where no candidate is
the decisive step."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = open_ledger(tmp_path_factory.mktemp("stories") / "arc.db")
    for _ in importing.import_paths(made, [fixtures() / "traces"]):
        pass
    return made


def told(store: Store, name: str) -> tuple[TraceRow, Diagnosis]:
    row = trace_row(store, name)
    said = diagnosis(store, row.trace)
    assert said is not None
    return row, said


@pytest.mark.parametrize("name", EXPECTED)
def test_the_importer_reads_what_happened(store: Store, name: str) -> None:
    row, _ = told(store, name)
    assert (row.outcome, row.steps) == (EXPECTED[name]["outcome"], EXPECTED[name]["steps"])
    assert row.fidelity == "exact"
    assert row.problems == "[]"


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name]["shape"]])
def test_the_shape_is_the_one_its_scores_were_written_for(store: Store, name: str) -> None:
    _, said = told(store, name)
    assert said.shape is not None
    assert said.shape.value == EXPECTED[name]["shape"].replace("_", " ")


@pytest.mark.parametrize("name", EXPECTED)
def test_the_rules_see_what_is_there_but_for_the_listed_misses(store: Store, name: str) -> None:
    _, said = told(store, name)
    expected = EXPECTED[name]
    wanted = {each.replace("_", " ") for each in expected["classes"]}
    if expected["outcome"] == "passed":  # what is wrong with a run that passed is a warning
        assert bool(said.warnings) == expected["suspect"]
        return
    found = {finding.failure.value for finding in said.findings}
    missed = {f"-{each}" for each in wanted - found} | {f"+{each}" for each in found - wanted}
    if expected["decisive_step"] not in [candidate.step for candidate in said.candidates]:
        missed.add("step")
    assert missed == MISSES.get(name, set())


def test_a_healthy_run_has_no_candidate(store: Store) -> None:
    for name in ("shop-long-v8-0", "shop-compare-v8-0", "shop-many-wishes-v8-0"):
        assert told(store, name)[1].candidates == ()


def test_every_bundled_trace_is_imported_and_verified(store: Store) -> None:
    files = list((fixtures() / "traces").glob("*.jsonl"))
    found = counts(store.db)["trace"]
    assert found == len(files) > 50


def test_the_fixtures_hold_no_path_of_a_machine() -> None:
    for path in Path(fixtures()).rglob("*"):
        if path.is_file():
            assert str(ROOT).encode() not in path.read_bytes()
