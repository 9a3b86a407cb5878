"""The real traces beside the checkout, imported all together as a user would.

Counts per file are compared format by format (`tests/replay`); here is what only shows when the
folders meet one database.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from arc_tui.jobs import importing
from replay.store import Store, check, read
from replay.store.rows import trace_row, trace_rows
from taxonomy.classes import FailureClass, Fault
from taxonomy.ledger import diagnosis, open_ledger
from tests.arc_tui.test_commands import spoken
from tests.shared import DATA, needs_shared

pytestmark = needs_shared

FOLDERS = ("tau_bench", "docent", "claude_code_runs", "terminal_bench")
LABELLED = ("trail_swe", "whowhen", "toolbench", "openinference")


def imported(store: Store, *paths: Path) -> importing.ImportReport:
    *_, report = importing.import_paths(store, paths)
    assert isinstance(report, importing.ImportReport)
    return report


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, importing.ImportReport]:
    path = tmp_path_factory.mktemp("shared") / "arc.db"
    with open_ledger(path) as store:
        return path, imported(store, *(DATA / name for name in FOLDERS + LABELLED))


@pytest.fixture
def store(made: tuple[Path, importing.ImportReport]) -> Store:
    return open_ledger(made[0])


def test_the_folders_of_the_issue_import_without_an_error(
    made: tuple[Path, importing.ImportReport],
) -> None:
    _, report = made
    assert [file.error for file in report.files if file.error] == []
    assert sum(len(file.traces) for file in report.files) == 293 + 14 + 126 + 300 + 30


def test_the_rules_have_something_to_say_of_every_run_that_people_labelled(store: Store) -> None:
    rows = [row for row in trace_rows(store, every=True) if row.path and row.steps]
    labelled = [row for row in rows if any(f"data/{name}/" in str(row.path) for name in LABELLED)]
    said = [diagnosis(store, row.trace) for row in labelled]
    assert len(said) == 14 + 126 + 300 + 4
    assert all(each is not None for each in said)


def test_importing_them_again_changes_nothing(store: Store) -> None:
    before = [
        store.db.execute("SELECT * FROM trace ORDER BY id").fetchall(),
        store.db["span"].count,
    ]
    report = imported(store, DATA / "terminal_bench", DATA / "docent")
    assert {trace.verdict for file in report.files for trace in file.traces} == {"duplicate"}
    after = [store.db.execute("SELECT * FROM trace ORDER BY id").fetchall(), store.db["span"].count]
    assert after == before


def test_two_recordings_of_a_trial_are_linked_and_counted_once(store: Store) -> None:
    trials = [row for row in trace_rows(store, every=True) if "terminal_bench" in (row.path or "")]
    assert len(trials) == 27
    assert len({row.run for row in trials}) == 14
    assert sum(row.preferred for row in trials) == 14


def test_every_digest_of_them_follows_from_what_is_stored(store: Store) -> None:
    assert not list(check.content(store))
    for row in trace_rows(store, every=True):
        assert not list(check.trace_digests(store, row.trace))
        assert len(read.load(store, row.trace).steps) == row.steps


def test_the_airline_run_breaks_where_a_three_day_old_booking_is_taken_for_a_fresh_one(
    store: Store,
) -> None:
    row = trace_row(store, "26/1")
    said = diagnosis(store, row.trace)
    assert said is not None
    first = said.candidates[0]
    assert (row.outcome, first.step) == ("failed", 3)
    assert "24 h" in first.why
    step = read.part(store, row.trace, [3])[3]
    assert step.ask.place.message == 8


def test_runs_whose_calls_are_garbled_are_the_harness_s_fault(store: Store) -> None:
    row = trace_row(store, "fix-git/fix-git__cCozJVA")
    said = diagnosis(store, row.trace)
    assert said is not None
    found = said.findings[0]
    assert (found.failure, found.sub) == (FailureClass.OTHER, "malformed calls")
    assert found.fault is Fault.HARNESS


PLANTED = rb"AKIA[0-9A-Z]{16}|(?<=SECRET_ACCESS_KEY=)[A-Za-z0-9/+]{40}|gh[po]_\w{36}|hf_\w{34}"


def test_planted_secrets_never_reach_the_database(tmp_path: Path) -> None:
    trial = next((DATA / "terminal_bench").glob("sanitize-git-repo*"))
    seen = (trial / "verifier" / "test-stdout.txt").read_bytes()
    planted = set(re.findall(PLANTED, seen))
    assert len(planted) >= 2
    chat = [{"role": "user", "content": seen.decode()}, {"role": "assistant", "content": "Done."}]
    (tmp_path / "chat.json").write_text(json.dumps(chat))
    folder = tmp_path / "db"
    with open_ledger(folder / "arc.db") as store:
        imported(store, trial, tmp_path / "chat.json")
    written = b"".join(file.read_bytes() for file in folder.iterdir())
    assert [secret for secret in planted if secret in written] == []
    assert b"[[SECRET:" in written


def test_a_docent_run_has_real_latency_tokens_and_exact_requests(store: Store) -> None:
    rows = [row for row in trace_rows(store) if (row.path or "").endswith("docent/log.eval")]
    assert len(rows) == 15
    assert all(row.tokens_complete and row.cost_complete for row in rows)
    assert all(row.duration_ns and row.fidelity == "exact" for row in rows)


def test_a_replay_of_a_garbled_run_says_that_no_prompt_answers_it(
    made: tuple[Path, importing.ImportReport], tmp_path: Path
) -> None:
    said = spoken("--db", str(made[0]), "replay", "fix-git/fix-git__cCozJVA", cwd=tmp_path)
    assert said.code == 2
    assert "no prompt edit can answer it" in said.err
