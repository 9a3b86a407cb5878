"""`arc search`: the runs that say a text, on a terminal and as JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from arc_tui.features.runs.command import find
from replay.store.rows import trace_rows
from replay.store.write import Writer
from replay.trace import Batch, Header, Outcome
from taxonomy.held_out import hidden, hold
from taxonomy.judgements.schema import open_ledger
from tests.build import call, error, step, trace


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    with open_ledger(path) as store:
        for number in range(6):
            made = trace(
                [step(f"I refund order {number}.", call("refund", error("no such order")))],
                task=None,
            )
            head = Header(format="built", source_id=f"run {number}", task=f"task {number}",
                          outcome=Outcome(status="failed"))  # fmt: skip
            writer = Writer(store)
            writer.finish(writer.write(Batch(header=head, spans=made.spans, last=True)))
    return path


def asked(db: Path, *words: str) -> Result:
    return CliRunner().invoke(
        find, [*words, "--db", str(db)], standalone_mode=False, catch_exceptions=False
    )


def test_runs_that_say_a_text_are_listed_with_the_step_and_the_words(db: Path) -> None:
    result = asked(db, "REFUND", "order", "3")
    assert result.return_value == 0
    assert "task 3" in result.output
    assert "I refund order 3." in result.output
    assert "task 4" not in result.output


def test_as_json_each_run_stands_once_and_the_limit_is_kept(db: Path) -> None:
    rows = msgspec.json.decode(asked(db, "no such order", "--limit", "4", "--json").stdout)
    assert [row["task"] for row in rows] == ["task 5", "task 4", "task 3", "task 2"]
    assert {row["step"] for row in rows} == {0}
    assert "First 4 shown" in asked(db, "such", "--limit", "4").stderr
    assert "--limit" not in asked(db, "such", "--limit", "6").stderr


def test_a_text_that_no_run_says_is_a_no(db: Path) -> None:
    result = asked(db, "cancelled")
    assert (result.return_value, result.stdout) == (1, "")
    assert "No runs match 'cancelled'." in result.stderr


def test_runs_of_held_out_tasks_are_found_only_when_asked_for(db: Path) -> None:
    with open_ledger(db) as store:
        hold(store, trace_rows(store))
        held = hidden(store)
    assert held
    seen = msgspec.json.decode(asked(db, "refund", "--json").stdout)
    assert len(seen) == 6 - len(held)
    every = msgspec.json.decode(asked(db, "refund", "--json", "--include-held-out").stdout)
    assert len(every) == 6
