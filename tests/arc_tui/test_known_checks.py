"""Failing checks stand with what is known for certain, at the step that wrote what they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arc_tui.features.compare.run import build_compare
from arc_tui.features.trace.pages import why_page
from arc_tui.views.brief import brief_text
from arc_tui.views.known import NAMED, KnownLine, check_lines, gold_lines
from arc_tui.views.step import build_step
from arc_tui.views.trace import build_diagnose, build_trace
from replay.trace import Header, Outcome
from taxonomy.diagnosis import diagnose
from taxonomy.findings import (
    CheckReport,
    FailedCheck,
    GoldComparison,
    GoldDifference,
    RedEdit,
)
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import put
from tests.arc_tui.test_gold import texts
from tests.build import Part, call, step, trace
from tests.faults import hostile

RED = (Path(__file__).parents[1] / "taxonomy/check_output/pytest.txt").read_text()
WROTE = call("Write", "ok", file_path="/w/orders.py", content="def total(lines):\n    return 22\n")


def run(path: Path, *parts: Part, printed: str) -> str:
    """A failed run whose verifier printed that; its id."""
    head: dict[str, Any] = {"reference": {"check": {"printed": printed}}}
    outcome = Outcome(status="failed", value=0.0, by="verifier")
    made = trace(parts, outcome="failed", header=head)
    header = Header(format="built", source_id="1", task="a", outcome=outcome, **head)
    return put(path, header, made.spans, diagnose(made))


def test_each_check_has_its_line_with_step_values_and_where_it_was_read(tmp_path: Path) -> None:
    key = run(tmp_path / "arc.db", step("I write.", WROTE), "Done.", printed=RED)
    with open_ledger(tmp_path / "arc.db") as store:
        known = build_trace(store, key).known
        summary, *lines = [each.line for each in known]
        assert summary == "check · 6 checks failed in grader output"
        assert "check · step 0 · test_total_counts_each_piece: expected 42, found 22" in lines
        (first,) = [each for each in known if "expected 42" in each.fact]
        assert first.details == (
            ("wrote", "total in /w/orders.py by Write"), ("message", "assert 22 == 42"),
            ("failed at", "test_orders.py:7"), ("read in", "grader output"),
        )  # fmt: skip
        missing = next(each for each in known if "receipt_is_written" in each.fact)
        assert missing.step is None  # nobody wrote what it names
        said = build_diagnose(store, key)
        assert (said.known, len(said.checks.failed)) == (known, 6)
        assert said.candidates[0].step == 0
        assert any(line.startswith("1. step 0 · check · wrote ") for line in said.lines())
        assert "- check · step 0 · test_total_counts_each_piece" in brief_text(store, key)


def test_why_shows_the_check_at_the_step_that_wrote_it(tmp_path: Path) -> None:
    key = run(tmp_path / "arc.db", step("I write.", WROTE), "Done.", printed=RED)
    with open_ledger(tmp_path / "arc.db") as store:
        view = build_trace(store, key)
        for at, there in ((0, True), (1, False)):
            page = why_page(view, build_step(store, key, at, rows=view.steps, said=view.diagnosis))
            shown = "test_total_counts_each_piece: expected 42, found 22  check" in texts(page)
            assert shown is there


def test_compare_has_the_checks_of_both(tmp_path: Path) -> None:
    key = run(tmp_path / "arc.db", step("I write.", WROTE), "Done.", printed=RED)
    with open_ledger(tmp_path / "arc.db") as store:
        view = build_compare(store, key, key)
        known = build_trace(store, key).known
    assert view.a.known == view.b.known == known


def test_many_checks_of_one_cause_share_a_line_that_names_and_counts_the_others() -> None:
    failed = tuple(
        FailedCheck(name=f"t.py::test_{n}", runner="pytest", message="no", place="log")
        for n in range(14)
    )
    summary, line = check_lines(CheckReport(failed=failed, unnamed=3))
    assert summary.fact == "17 checks failed: 14 in log, 3 not named by what ran them"
    assert line.fact.startswith("test_0: no; also failed: test_1, test_2, ")
    assert line.fact.endswith(f"test_{NAMED}, and {13 - NAMED} more")
    assert len([label for label, _ in line.details if label == "also failed"]) == 13


def test_nothing_is_said_where_no_check_is_known() -> None:
    assert check_lines(CheckReport()) == ()
    one = CheckReport(failed=(FailedCheck(name="a", runner="test", place="grader output"),))
    assert check_lines(one) == (
        KnownLine(kind="check", fact="a failed", details=(("read in", "grader output"),)),
    )


def test_a_line_holds_nothing_of_a_run_that_a_terminal_obeys() -> None:
    bad = hostile.PLANTED
    edit = RedEdit(step=1, span="s", path=bad, tool=bad, check=bad, green=0, red=2)
    wrong = GoldDifference(kind="wrong argument", tool=bad, step=1)
    gold = GoldComparison(differences=(wrong,), failed=(wrong,))
    lines = (*check_lines(CheckReport(red_edit=edit)), *gold_lines(gold))
    assert {each.kind for each in lines} == {"check", "gold"}
    for each in lines:
        assert not hostile.obeyed(each.line), ascii(each.line)
        assert "\n" not in each.line
