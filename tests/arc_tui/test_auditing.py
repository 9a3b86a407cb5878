"""`arc audit`: rates with n, findings that name the step, what is kept, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arc_tui.features.audit.view import AuditRequest, AuditView, run_audit
from replay.store.handle import Store, now_ns
from replay.store.rows import trace_rows
from taxonomy.audit.probes import BY_NAME, audit_version
from taxonomy.held_out import hold
from taxonomy.judgements.audits import DAY_NS, kept_audits
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.audit_case import put_audited
from tests.spoken import Spoken, on_a_terminal, spoken


@pytest.fixture
def db(tmp_path: Path) -> Path:
    put_audited(tmp_path / "arc.db")
    return tmp_path / "arc.db"


def audit(db: Path, *words: str) -> Spoken:
    return spoken("--db", str(db), "audit", *words, cwd=db.parent)


def lines(said: Spoken) -> list[str]:
    """What was printed, whatever its columns."""
    return [" ".join(line.split()) for line in said.out.splitlines()]


def test_rates_stand_over_the_findings_with_their_step_and_quote(db: Path) -> None:
    said = audit(db)
    assert said.code == 0, said.err
    assert said.err == "auditing 3 runs\n"
    found = lines(said)
    assert found[0] == "3 runs audited, 2 with a finding"
    assert "faithfulness stated intents 1/2 .50 (.09–.91) 1/2 .50 (.09–.91) 0 0" in found
    assert "instruction broken instructions 1/1 1.00 (.21–1.00) 1/1 1.00 (.21–1.00) 0 0" in found
    assert "false claim claims – – 0 0" in found
    rows = [line.split("\t") for line in said.out.splitlines() if "\t" in line]
    assert rows[0] == ["id", "run", "step", "result", "what", "quote"]
    assert rows[1][1:4] == ["word", "0", "unfaithful"]
    assert rows[1][5] == "I'll read config.py first."
    assert rows[2][1:4] == ["tests", "1", "broken"]
    assert rows[2][5] == "Fix it without editing the tests."


def test_what_was_audited_is_kept_and_read_again(db: Path) -> None:
    first = json.loads(audit(db, "--json").out)
    again = audit(db, "--json")
    assert again.err == ""
    assert json.loads(again.out)["rows"] == first["rows"]
    with open_ledger(db) as store:
        keys = [row[0] for row in store.db.execute("SELECT key FROM trace")]
        assert len(kept_audits(store, keys, audit_version())) == 3


def test_a_query_a_probe_and_a_limit_narrow_it(db: Path) -> None:
    passed = json.loads(audit(db, "outcome:passed", "--json").out)
    assert (passed["runs"], passed["rows"]) == (1, [])
    one = json.loads(audit(db, "--probe", "instruction", "--json").out)
    assert [rate["probe"] for rate in one["rates"]] == ["instruction"]
    assert [row["result"] for row in one["rows"]] == ["broken"]
    said = audit(db, "--limit", "1")
    assert said.out.count("\t") == 2 * 5
    assert "1 of 2 shown. Try: --limit 0" in said.err


def test_the_json_has_the_evidence_and_the_age(db: Path) -> None:
    view = json.loads(audit(db, "--json").out)
    assert view["age"]["new"] == 0
    assert view["age"]["days"] == 0
    row = view["rows"][0]
    assert [each["role"] for each in row["evidence"]] == ["says", "called"]
    assert (row["sub"], row["is_tagged"]) == ("unfaithful", False)


def test_an_old_audit_is_called_stale_before_a_new_one(db: Path) -> None:
    audit(db)
    with open_ledger(db) as store:
        age(store, 91)
    doctor = spoken("--db", str(db), "doctor", cwd=db.parent)
    assert "91 days ago: stale after 90" in doctor.out
    assert "Try: arc audit" in doctor.out
    said = audit(db)
    assert "before this audit: last audit" in said.out
    assert "91 days ago: stale after 90" in said.out
    assert "stale" not in audit(db).out


def age(store: Store, days: int) -> None:
    """As if every audit had been made so many days ago."""
    with store.writing() as db:
        db.execute("UPDATE audit SET audited_ns = ?", (now_ns() - days * DAY_NS,))


def test_the_doctor_says_that_no_audit_was_made(db: Path) -> None:
    said = spoken("--db", str(db), "doctor", cwd=db.parent)
    assert "No audit yet. Try: arc audit" in said.out
    empty = spoken("--db", str(db.parent / "new.db"), "doctor", cwd=db.parent)
    assert "audit" not in empty.out


def test_held_out_runs_are_left_out_unless_asked_for(db: Path) -> None:
    with open_ledger(db) as store:
        held = hold(store, trace_rows(store)).tasks
    assert len(held) == 1
    said = audit(db, "--json")
    assert json.loads(said.out)["runs"] == 2
    assert "1 run of held-out tasks hidden (--include-held-out shows them)" in said.err
    assert json.loads(audit(db, "--include-held-out", "--json").out)["runs"] == 3


def test_a_database_that_may_only_be_read_is_audited_and_nothing_is_kept(db: Path) -> None:
    audit(db, "outcome:passed")
    with open_ledger(db, to_read=True) as store:
        assert store.read_only
        *_, view = run_audit(store, AuditRequest())
    assert isinstance(view, AuditView)
    assert (view.audited, len(view.rows), view.age.new) == (3, 2, 2)


def test_on_a_terminal_the_findings_are_a_table(db: Path) -> None:
    said = on_a_terminal("--db", str(db), "audit", cwd=db.parent)
    assert "▒" in said.out
    assert "unfaithful" in said.out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--probe", "honesty"), 2, "'honesty' is not one of"),
        (("colour:red",), 2, "colour"),
        (("--limit", "-1"), 2, "--limit"),
        (("task=nosuch",), 0, "No runs match 'task=nosuch'."),
    ],
)
def test_what_cannot_be_asked_is_said(
    words: tuple[str, ...], code: int, sentence: str, db: Path
) -> None:
    said = audit(db, *words)
    assert said.code == code
    assert sentence in said.err
    assert said.out == ""


def test_without_runs_it_says_how_to_get_some(tmp_path: Path) -> None:
    said = audit(tmp_path / "arc.db")
    assert (said.code, said.out) == (0, "")
    assert said.err == "No runs yet. Try: arc import PATH\n"


def test_the_probes_stand_in_the_help(db: Path) -> None:
    said = audit(db, "--help")
    for name in BY_NAME:
        assert name in said.out
