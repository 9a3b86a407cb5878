"""`arc gold`: gold of one's own is kept by task, and runs are held against it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arc_tui.features.compare.run import build_compare
from arc_tui.features.compare.view import known_facts
from arc_tui.places import fixtures
from arc_tui.views.known import gold_lines
from arc_tui.views.trace import build_trace
from replay.errors import ArcError
from replay.store.rows import trace_rows
from taxonomy.findings import GoldComparison
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.judgements.golds import BadGold, keep_gold, kept_gold, read_gold, remove_gold
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.test_export import exported, taken
from tests.faults.holdings import TOUR, arc
from tests.spoken import Spoken, spoken

CHAT = {
    "task": "refunds",
    "messages": [
        {"role": "user", "content": "Refund order 1."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function",
             "function": {"name": "refund_order", "arguments": '{"id": "1", "amount": 7}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "assistant", "content": "Done."},
    ],
}  # fmt: skip
TASK = "(?P<task>refunds)"
REFUND = {"tool": "refund_order", "arguments": {"id": "1", "amount": 5}}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    run = tmp_path / "refunds.jsonl"
    run.write_text(json.dumps(CHAT) + "\n")
    arc(path, "import", str(run), "--task-from", TASK)
    with open_ledger(path) as store:
        assert [row.task for row in trace_rows(store)] == ["refunds"]
    return path


def gold_file(folder: Path, *lines: Any, name: str = "gold.jsonl") -> Path:
    file = folder / name
    texts = (each if isinstance(each, str) else json.dumps(each) for each in lines)
    file.write_text("\n".join(texts) + "\n")
    return file


def said(db: Path, *words: str) -> Spoken:
    return spoken("--db", str(db), *words, cwd=db.parent)


def facts(db: Path) -> list[str]:
    """What is known of the run, once the rules looked at it again."""
    arc(db, "show", "last")
    with open_ledger(db) as store:
        return [each.line for each in build_trace(store, "last").known]


def test_gold_of_one_s_own_is_held_against_a_run_at_once(db: Path, tmp_path: Path) -> None:
    assert facts(db) == []
    done = said(
        db, "gold", "import", str(gold_file(tmp_path, {"task": "refunds", "actions": [REFUND]}))
    )
    assert (done.code, done.out) == (0, "gold of 1 task: 1 new\n")
    with open_ledger(db) as store:
        assert len(undiagnosed(store)) == 1
    assert facts(db) == [
        "gold · 0 of 1 call made · your gold, unknown if first seen before the run",
        "gold · step 0 · refund_order · amount: expected 5, was 7",
    ]
    with open_ledger(db) as store:
        view = build_compare(store, "last", "last")
        assert undiagnosed(store) == []
    assert "A · gold · step 0 · refund_order · amount: expected 5, was 7" in known_facts(view)
    figures = json.loads(arc(db, "stats", "--json"))
    assert figures["calls"][0]["f1"]["value"] == 0.0


def test_gold_that_is_removed_is_not_held_against_a_run_any_more(db: Path, tmp_path: Path) -> None:
    arc(db, "gold", "import", str(gold_file(tmp_path, {"task": "refunds", "actions": [REFUND]})))
    assert facts(db)
    assert arc(db, "gold", "rm", "refunds") == "removed: gold of task refunds\n"
    assert facts(db) == []
    done = said(db, "gold", "rm", "refunds")
    assert (done.code, done.err) == (2, "arc: no gold of task 'refunds'\n")


def test_the_same_content_keeps_the_time_it_was_first_seen(db: Path, tmp_path: Path) -> None:
    file = gold_file(tmp_path, {"task": "refunds", "answer": "7"}, {"task": "b", "answer": "8"})
    arc(db, "gold", "import", str(file))
    with open_ledger(db) as store:
        first = {each.task: each.first_seen_ns for each in kept_gold(store)}
    gold_file(tmp_path, {"answer": "7", "task": "refunds"}, {"task": "b", "answer": "9"})
    found = json.loads(arc(db, "gold", "import", str(file), "--json"))
    assert found == {"added": [], "changed": ["b"], "same": ["refunds"], "no_run": ["b"]}
    with open_ledger(db) as store:
        again = {each.task: each.first_seen_ns for each in kept_gold(store)}
    assert again["refunds"] == first["refunds"]
    assert again["b"] > first["b"]


def test_a_task_that_no_run_has_is_a_note(db: Path, tmp_path: Path) -> None:
    done = said(db, "gold", "import", str(gold_file(tmp_path, {"task": "other", "answer": "x"})))
    assert done.code == 0
    assert done.err == "no run yet of 1 task: other. Try: arc ls --columns task\n"


def test_the_list_says_what_there_is(db: Path, tmp_path: Path) -> None:
    assert "No gold yet." in said(db, "gold", "list").err
    arc(db, "gold", "import", str(gold_file(
        tmp_path, {"task": "refunds", "actions": [REFUND], "order": "sequence", "plan": ["a", "b"]}
    )))  # fmt: skip
    (row,) = json.loads(arc(db, "gold", "list", "--json"))
    assert (row["task"], row["runs"], row["name"]) == ("refunds", 1, "gold.jsonl")
    assert row["body"] == {"actions": [REFUND], "order": "sequence", "plan": ["a", "b"]}
    *_, line = arc(db, "gold", "list").splitlines()
    assert line.split()[:6] == ["refunds", "1", "sequence", "–", "2", "1"]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["nonsense"], "line 1: is not JSON"),
        (["{}"], "line 1: Object missing required field `task`"),
        (['{"task": "a", "answer": "x", "reward": 1}'], "line 1: Object contains unknown field"),
        (['{"task": "a"}'], "line 1: gives none of actions, answer and plan"),
        (['{"task": " ", "answer": "x"}'], "line 1: its task has no name"),
        (['{"task": "a", "answer": "x"}', "", '{"task": "a", "answer": "y"}'],
         "line 3: task 'a' has gold in line 1 already"),
        (['{"task": "a", "actions": [], "order": "loose"}'], "line 1: Invalid enum value 'loose'"),
        (['{"task": "a", "actions": [{"name": "x"}]}'], "line 1: Object contains unknown field"),
        (['{"task": "a", "actions": [], "order": "graph"}'], "does not say what comes before what"),
        (['{"task": "a", "actions": [{"tool": "x"}], "order": "graph", "after": [[0, 1]]}'],
         "`after` names action 1, and there are 1"),
        (['{"task": "a", "actions": [{"tool": "x"}], "order": "graph", "after": [[0, 0]]}'],
         "`after` puts action 0 before itself"),
        (['{"task": "a", "actions": [{"tool": "x"}], "after": [[0, 0]]}'],
         "`after` is of the order graph, and order is any"),
        (['{"task": "a", "answer": "\\ud800"}'], "line 1: is not JSON: is not UTF-8"),
        (["[" * 100_000], "line 1: is not JSON"),
        (["", " "], "holds no gold"),
    ],
)  # fmt: skip
def test_a_file_with_a_mistake_is_refused_in_one_sentence_and_changes_nothing(
    lines: list[str], why: str, db: Path, tmp_path: Path
) -> None:
    good = '{"task": "good", "answer": "x"}'
    file = gold_file(tmp_path, *lines, *([] if why.startswith("holds") else [good]))
    done = said(db, "gold", "import", str(file))
    assert done.code == 2
    assert why in " ".join(done.err.split()), done.err
    assert len(done.err.splitlines()) <= 2
    with open_ledger(db) as store:
        assert kept_gold(store) == ()


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gold.jsonl"
    file.write_bytes(b'{"task": "\xff"}\n')
    with pytest.raises(ArcError, match="is not UTF-8"):
        read_gold(file)
    with pytest.raises(BadGold, match="holds no gold"):
        read_gold(gold_file(tmp_path, ""))


def test_secrets_in_gold_are_masked(db: Path, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    action = {"tool": "login", "arguments": {"token": token}}
    arc(db, "gold", "import", str(gold_file(tmp_path, {"task": "refunds", "actions": [action]})))
    assert token not in arc(db, "gold", "list", "--json")
    assert token.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("arc.db*"))


def test_gold_goes_along_in_an_export_and_is_judged_by_there(db: Path, tmp_path: Path) -> None:
    arc(db, "gold", "import", str(gold_file(tmp_path, {"task": "refunds", "actions": [REFUND]})))
    file = exported(db, tmp_path / "export.jsonl")
    new = tmp_path / "new.db"
    arc(new, "import", str(tmp_path / "refunds.jsonl"), "--task-from", TASK)
    merged = taken(new, file)
    assert merged["added"]["gold"] == 1
    assert "gold · step 0 · refund_order · amount: expected 5, was 7" in facts(new)
    with open_ledger(db) as old, open_ledger(new) as store:
        assert kept_gold(old) == kept_gold(store)


def test_the_summary_says_whose_each_part_is() -> None:
    late = "hindsight: first seen after the run began"
    for own, summary in (
        ((), "gold of the source"),
        (("actions",), f"your gold, {late}"),
        (("answer",), f"gold of the source; answer: your gold, {late}"),
    ):
        gold = GoldComparison(differences=(), matched=1, gold=1, own=own, hindsight=True)
        assert gold_lines(gold)[0].fact == f"1 of 1 call made · {summary}"


def test_gold_first_seen_after_a_run_began_is_hindsight(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    arc(db, "import", str(fixtures() / "traces" / f"{TOUR}.jsonl"))
    file = gold_file(tmp_path, {"task": "many-wishes", "actions": []})
    arc(db, "gold", "import", str(file))
    assert facts(db)[0].endswith("your gold, hindsight: first seen after the run began")
    with open_ledger(db) as store:
        (row,) = trace_rows(store)
        assert row.start_ns is not None
        remove_gold(store, "many-wishes")
        keep_gold(store, read_gold(file), file.name, at_ns=row.start_ns - 1)
    assert facts(db)[0].endswith("your gold, first seen before the run")
