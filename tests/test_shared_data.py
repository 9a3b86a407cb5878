"""The real traces beside the checkout: each file by itself, and all together as a user would.

First every file is held against the table of `tests/shared_files.py` and the counts that were taken
independently of any importer; then comes what only shows when the folders meet one database.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from replay import formats
from replay.care import check
from replay.errors import BadTrace
from replay.formats.source import Source, Tally
from replay.store import read
from replay.store.backup import counts
from replay.store.handle import Store
from replay.store.rows import trace_row, trace_rows
from taxonomy.classes import Attribution, FailureClass
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import open_ledger
from tests.shared import DATA, LABELLED, Imported, imported, needs_shared
from tests.shared_files import ROWS, Row, files
from tests.spoken import spoken

pytestmark = needs_shared

# --- every file by itself

FILES = files()
EXPECTED: Mapping[str, Mapping[str, Any]] = (
    json.loads((DATA / "expected.json").read_text()) if DATA.is_dir() else {}
)


def test_somebody_said_what_every_file_is() -> None:
    new = [path.relative_to(DATA).as_posix() for path in FILES.get(None, [])]
    assert new == [], "add a row to tests/shared_files.py"
    assert [row.pattern for row in ROWS if not FILES.get(row)] == []


@pytest.mark.data
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.pattern)
def test_a_file_is_claimed_by_one_format_and_holds_what_was_counted_in_it(row: Row) -> None:
    counts: Counter[str] = Counter()
    for path in FILES.get(row, []):
        source = Source(path)
        claims = [found.NAME for found in formats.formats() if found.sniff(source.head)]
        # Nearly every format holds lists of messages; so a chat is what nothing else claims.
        assert claims[:1] + [each for each in claims[1:] if each != "chat"] == [
            name for name in [row.format] if name
        ], path
        if row.format is None:
            continue
        tally = read_whole(source, row)
        check_counts(EXPECTED.get(path.relative_to(DATA).as_posix(), {}), tally.counts, path)
        counts.update(tally.counts)
    for folder in {path.parent for path in FILES.get(row, [])}:
        check_counts(EXPECTED.get(folder.relative_to(DATA).as_posix(), {}), counts, folder)


def read_whole(source: Source, row: Row) -> Tally:
    """Read a claimed file to its end, as its row says that it can be."""
    tally = Tally()
    refused, traces = "", 0
    try:
        for batch in formats.load(source, tally):
            traces += batch.last
    except BadTrace as error:
        refused = error.why
    assert (row.refusal is not None) == bool(refused), (source.display, refused)
    assert (row.refusal or "") in refused
    assert bool(traces) == (row.traces and not row.refusal), source.display
    return tally


UNDER = {"types": "type ", "kinds": "kind ", "events": "events."}
"""Counts of a kind, and what stands before its name in an importer's tally."""

OF_THE_RUN = {"format", "is_resolved", "reward", "exit_status", "total_cost_usd", "total_cost",
              "duration_s", "duration_ms", "num_turns"}  # fmt: skip
"""What is said of a run and is no count of records; the tests of its format look at it."""


def check_counts(row: Mapping[str, Any], counts: Mapping[str, float], where: Path) -> None:
    for name, wanted in row.items():
        if name in OF_THE_RUN:
            continue
        if isinstance(wanted, dict):
            named = {UNDER.get(name, "") + each: value for each, value in wanted.items()}
            check_counts(named, counts, where)
        else:
            assert counts.get(name, 0) == wanted, (where, name)


# --- all of them in one database


@pytest.fixture
def store(real: Imported) -> Iterator[Store]:
    with open_ledger(real.path) as opened:
        yield opened


@pytest.fixture
def copied(real: Imported, tmp_path: Path) -> Iterator[Store]:
    """A copy of it that a test may change."""
    with open_ledger(shutil.copy(real.path, tmp_path / "arc.db")) as opened:
        yield opened


def test_the_folders_of_the_issue_import_without_an_error(real: Imported) -> None:
    report = real.report
    assert [file.error for file in report.files if file.error] == []
    assert sum(len(file.traces) for file in report.files) == 293 + 14 + 126 + 300 + 30


def test_the_rules_have_something_to_say_of_every_run_that_people_labelled(store: Store) -> None:
    rows = [row for row in trace_rows(store, every=True) if row.path and row.steps]
    labelled = [row for row in rows if any(f"data/{name}/" in str(row.path) for name in LABELLED)]
    said = [diagnosis(store, row.trace) for row in labelled]
    assert len(said) == 14 + 126 + 300 + 4
    assert all(each is not None for each in said)


@pytest.mark.data
def test_importing_them_again_changes_nothing(copied: Store) -> None:
    store = copied
    before = [
        store.db.execute("SELECT * FROM trace ORDER BY id").fetchall(),
        counts(store.db),
    ]
    report = imported(store, DATA / "terminal_bench", DATA / "docent")
    assert {trace.verdict for file in report.files for trace in file.traces} == {"duplicate"}
    after = [store.db.execute("SELECT * FROM trace ORDER BY id").fetchall(), counts(store.db)]
    assert after == before


def test_two_recordings_of_a_trial_are_linked_and_counted_once(store: Store) -> None:
    trials = [row for row in trace_rows(store, every=True) if "terminal_bench" in (row.path or "")]
    assert len(trials) == 27
    assert len({row.run for row in trials}) == 14
    assert sum(row.preferred for row in trials) == 14


@pytest.mark.data
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
    assert found.attribution is Attribution.ENVIRONMENT


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
    real: Imported, tmp_path: Path
) -> None:
    said = spoken("--db", str(real.path), "replay", "fix-git/fix-git__cCozJVA", cwd=tmp_path)
    assert said.code == 2
    assert "a prompt edit cannot fix it" in said.err
