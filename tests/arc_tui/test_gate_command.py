"""`arc gate` as a person and as a CI run call it: verdict, exit code, files, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from arc_tui.features.gate.text import LISTED, junit, markdown
from arc_tui.places import fixtures
from arc_tui.views.gate import GateRequest, GateView, build_gate
from replay.errors import ArcError
from taxonomy.golden.sets import read_set
from taxonomy.held_out import hold
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.listing import run_rows
from tests.arc_tui.free_case import put_bundled
from tests.arc_tui.gate_case import SAME, WORSE, put_both, put_runs
from tests.shared import DATA, needs_shared
from tests.spoken import Spoken, spoken

OLD_NEW = ("--baseline", "variant=old", "--candidate", "variant=new")

HOSTILE = '<b>|`a``b`|\n@octo [x](https://evil.example) www.evil.example "q" \x1b[31m ]]> ﷐ \ufffe'


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def gate(db: Path, *words: str) -> Spoken:
    return spoken("--db", str(db), "gate", *(words or OLD_NEW), cwd=db.parent)


def words(said: Spoken) -> str:
    """What was printed, whatever its columns."""
    return " ".join(said.out.split())


def view_of(db: Path, **more: Any) -> GateView:
    with open_ledger(db) as store:
        request = GateRequest(baseline="variant=old", candidate="variant=new", **more)
        return build_gate(store, request)


class TestVerdict:
    @pytest.mark.slow
    def test_a_regression_is_named_with_its_figures_and_leaves_with_1(self, db: Path) -> None:
        said = gate(put_both(db))
        assert said.code == 1, said.err
        head, why, power, *_ = said.out.splitlines()
        assert head == (
            "Regression: pass@1 1.00 → .50, change -.50, p < .001; 12 tasks, 12 worse, 0 better."
        )
        assert why == (
            "Blocked: the drop of 50 points is at least the 3 points that count, and p < .001 is"
            " below .05."
        )
        assert re.fullmatch(
            r"A drop of \d+ points, spread over these 12 tasks, would be blocked in 80 % of"
            " repeats; a smaller one, less often.",
            power,
        )
        assert "pass^4 1.00 (.76–1.00), n = 12 .00 (.00–.24), n = 12" in words(said)

    def test_no_regression_says_what_could_not_be_seen(self, db: Path) -> None:
        said = gate(put_both(db, {"a": (3, 1), "b": (2, 2)}, {"a": (3, 1), "b": (2, 2)}))
        assert said.code == 0
        assert said.out.startswith("No regression shown: pass@1 .62 → .62, change .00, p = 1;")
        assert (
            "No drop would reliably be shown by these 2 tasks: that takes 5 tasks that change."
            in said.out
        )

    @pytest.mark.slow
    def test_too_little_power_is_no_answer_where_power_is_required(self, db: Path) -> None:
        put_both(db, after=SAME)
        said = gate(db, *OLD_NEW, "--require-power")
        assert said.code == 2
        assert said.out.startswith("No answer: too little power: pass@1 1.00 → 1.00")
        assert "Required: 3 points." in said.out
        assert gate(db, *OLD_NEW, "--require-power", ".6").code == 0

    def test_unknown_outcomes_are_counted_as_nothing_and_said(self, db: Path) -> None:
        put_both(db, {"a": (4, 0), "b": (4, 0)}, {"a": (2, 0, 2), "b": (0, 0, 4)})
        said = gate(db)
        assert said.code == 0
        assert "pass@1 1.00 → 1.00" in said.out
        assert "No outcome in one of the groups, not compared: b." in said.out
        assert "Candidate: 6 runs without an outcome, not counted as failed." in said.out

    def test_tasks_in_one_group_only_and_runs_without_one_are_said(self, db: Path) -> None:
        put_both(db, {"a": (1,), "b": (1,), None: (1,)}, {"a": (1,), "c": (0, 1)})
        said = gate(db)
        assert "In baseline only, not compared: b." in said.out
        assert "In candidate only, not compared: c." in said.out
        assert "Baseline: 1 run without a task, not compared." in said.out

    @pytest.mark.slow
    def test_lost_tasks_are_said_and_block_where_asked(self, db: Path) -> None:
        put_both(db, {**SAME, "gone": (4, 0)}, {**SAME, "gone": (0, 4)})
        said = gate(db)
        assert said.code == 0
        assert "1 task always passed before and never now: gone." in said.out
        strict = gate(db, *OLD_NEW, "--strict")
        assert strict.code == 1
        assert "Blocked by --strict: 1 task always passed before and never now: gone." in strict.out

    @pytest.mark.slow
    def test_cost_blocks_where_asked_and_is_no_answer_where_unknown(self, db: Path) -> None:
        put_runs(db, "old", SAME, usd=0.25)
        put_runs(db, "new", SAME, usd=0.50)
        assert gate(db).code == 0
        dear = gate(db, *OLD_NEW, "--max-cost-rise", ".5")
        assert dear.code == 1
        assert "cost per resolved task rises by +100 % to +100 %, more than 50 %." in dear.out
        assert "$0.25 ($0.25–$0.25) $0.50 ($0.50–$0.50)" in words(dear)
        put_runs(db, "newer", SAME)
        unknown = gate(db, "--baseline", "variant=old", "--candidate", "variant=newer",
                       "--max-cost-rise", ".5")  # fmt: skip
        assert unknown.code == 2
        assert unknown.out.startswith("No answer: cost unknown")

    @pytest.mark.slow
    def test_checks_of_two_kinds_are_said(self, db: Path) -> None:
        put_runs(db, "old", SAME, by="tests")
        put_runs(db, "new", SAME, by="judge")
        assert "Outcomes are by tests in baseline, by judge in candidate" in gate(db).out

    @pytest.mark.slow
    def test_held_out_tasks_take_part_only_where_asked(self, db: Path) -> None:
        put_both(db)
        with open_ledger(db) as store:
            tasks = hold(store, run_rows(store)).tasks
        assert tasks
        said = gate(db)
        runs = 8 * len(tasks)
        assert f"{runs} runs of held-out tasks hidden." in said.out
        assert f"{12 - len(tasks)} tasks" in said.out
        assert "12 tasks" in gate(db, *OLD_NEW, "--include-held-out").out

    def test_json_has_every_task_and_the_decision(self, db: Path) -> None:
        said = gate(put_both(db), *OLD_NEW, "--json")
        assert said.code == 1
        found = json.loads(said.out)
        assert found["decision"]["reasons"] == ["drop"]
        assert found["decision"]["p"] < 0.001
        assert len(found["rows"]) == 12
        assert found["rows"][0]["candidate"]["passed"] == 2
        assert len(found["rows"][0]["candidate"]["traces"]) == 4


class TestGolden:
    def test_runs_of_two_golden_sets_are_not_compared(self, db: Path) -> None:
        put_runs(db, "old", SAME, labels={"arc.golden": "1 ab12"})
        put_runs(db, "new", WORSE, labels={"arc.golden": "2 cd34"})
        said = gate(db)
        assert said.code == 2
        assert "runs of different golden sets are not compared: '1 ab12' and '2 cd34'" in said.err

    @pytest.mark.slow
    def test_runs_of_one_set_are_and_one_that_names_none_is_said(self, db: Path) -> None:
        put_runs(db, "old", SAME, labels={"arc.golden": "1 ab12"})
        put_runs(db, "new", WORSE, labels={"arc.golden": "1 ab12"})
        put_runs(db, "newer", WORSE)
        assert "Golden set" not in gate(db).out
        unnamed = gate(db, "--baseline", "variant=old", "--candidate", "variant=newer")
        assert unnamed.code == 1
        assert "Golden set of candidate not recorded" in unnamed.out

    @pytest.mark.slow
    def test_a_golden_set_names_the_tasks_and_all_of_them_have_to_be_run(
        self, tmp_path: Path
    ) -> None:
        db = tmp_path / "arc.db"
        put_bundled(db, "shop-many-wishes-v5-0", "shop-stock-v4-0")
        assert spoken("--db", str(db), "golden", "add", "shop-many-wishes-v5-0", cwd=tmp_path,
                      ).code == 0  # fmt: skip
        stamp = read_set(tmp_path / "golden").golden.stamp
        counts = {"many-wishes": (4, 0), "other": (4, 0)}
        put_runs(db, "old", counts, labels={"arc.golden": stamp})
        put_runs(db, "new", {**counts, "other": (0, 4)}, labels={"arc.golden": stamp})
        said = gate(db, *OLD_NEW, "--golden", "golden")
        assert said.code == 0, said.err
        assert "1 task, 0 worse, 0 better." in said.out
        assert spoken("--db", str(db), "golden", "add", "shop-stock-v4-0", "--check",
                      "contains:stock", cwd=tmp_path).code == 0  # fmt: skip
        older = gate(db, *OLD_NEW, "--golden", "golden")
        assert older.code == 2
        assert f"baseline: runs of golden set '{stamp}', and golden is '2 " in older.err
        put_runs(db, "before", counts)
        put_runs(db, "after", counts)
        unfinished = gate(db, "--baseline", "variant=before", "--candidate", "variant=after",
                          "--golden", "golden")  # fmt: skip
        assert unfinished.code == 2
        assert unfinished.out.startswith("No answer: golden tasks without outcomes: pass@1 ")
        assert "Golden tasks without outcomes in both groups: stock." in unfinished.out
        (tmp_path / "golden" / "stock.toml").unlink()
        assert "golden: not as it was frozen" in gate(db, *OLD_NEW, "--golden", "golden").err
        assert "no golden set there" in gate(db, *OLD_NEW, "--golden", "none").err


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--baseline", "colour:red", "--candidate", "variant=new"), "baseline: unknown field"),
            (("--baseline", "variant=old", "--candidate", "cost>("), "candidate: "),
            (("--baseline", "variant=old", "--candidate", "variant=none"),
             "candidate: no run matches 'variant=none'"),
            (("--baseline", "variant=old", "--candidate", "variant=old"),
             "48 runs are in both baseline and candidate"),
            (("--baseline", "variant=old", "--candidate", "variant:"), "candidate: "),
            ((*OLD_NEW, "--alpha", "0"), "'--alpha'"),
            ((*OLD_NEW, "--alpha", "1.5"), "'--alpha'"),
            ((*OLD_NEW, "--alpha", "nan"), "'--alpha'"),
            ((*OLD_NEW, "--min-drop", "-1"), "'--min-drop'"),
            ((*OLD_NEW, "--min-drop", "nan"), "'--min-drop'"),
            ((*OLD_NEW, "--require-power", "2"), "'--require-power'"),
            ((*OLD_NEW, "--max-cost-rise", "nan"), "'--max-cost-rise'"),
            ((*OLD_NEW, "--md", "-", "--json"), "--md - or --json, not both"),
            (("--candidate", "variant=old"), "Missing option '--baseline'"),
            ((*OLD_NEW, "--junit", "no/such/place.xml"), "no/such/place.xml: cannot be written"),
            ((*OLD_NEW, "--junit", "."), "is a directory"),
        ],
    )  # fmt: skip
    def test_bad_input_is_one_sentence_and_2(
        self, db: Path, words: tuple[str, ...], said: str
    ) -> None:
        found = gate(put_both(db), *words)
        assert found.code == 2, found.out
        assert said in found.err
        assert "Traceback" not in found.err

    def test_runs_without_tasks_or_outcomes_cannot_be_compared(self, db: Path) -> None:
        put_both(db, {None: (3,)}, {"a": (0, 0, 3)})
        assert "baseline: none of 3 runs names its task" in gate(db).err
        swapped = gate(db, "--baseline", "variant=new", "--candidate", "variant=old")
        assert swapped.code == 2
        assert "baseline: none of 3 runs has an outcome" in swapped.err

    def test_groups_without_a_task_in_common_are_nothing_to_compare(self, db: Path) -> None:
        said = gate(put_both(db, {"a": (1,)}, {"b": (1,)}))
        assert said.code == 2
        assert "nothing to compare: no task is in both groups" in said.err

    def test_an_empty_group_says_where_held_out_runs_are(self, db: Path) -> None:
        put_both(db)
        with open_ledger(db) as store:
            task = sorted(hold(store, run_rows(store)).tasks)[0]
        said = gate(db, "--baseline", f'variant=old task="{task}"', "--candidate", "variant=new")
        assert said.code == 2
        assert "--include-held-out" in said.err


class TestFiles:
    @pytest.mark.slow
    def test_junit_has_a_case_a_task_and_fails_where_the_gate_blocks(self, db: Path) -> None:
        put_both(db, {**SAME, "here": (1,)}, WORSE)
        said = gate(db, *OLD_NEW, "--junit", "gate.xml")
        assert said.code == 1
        (suite,) = checked_junit((db.parent / "gate.xml").read_bytes())
        cases = {case.get("name"): case for case in suite.findall("testcase")}
        assert {*cases} == {"verdict", "here", *SAME}
        assert suite.get("failures") == "13"
        assert suite.get("skipped") == "1"
        failure = cases["task 00"].find("failure")
        assert failure is not None
        assert failure.get("message") == "worse than the baseline: 4/4 → 2/4"

    @pytest.mark.slow
    def test_a_green_gate_has_no_failed_case_even_where_a_task_is_worse(self, db: Path) -> None:
        put_both(db, SAME, {**SAME, "task 03": (3, 1)})
        (suite,) = checked_junit(junit(view_of(db)))
        assert (suite.get("failures"), suite.get("errors")) == ("0", "0")

    def test_no_answer_is_an_error_of_the_verdict(self, db: Path) -> None:
        put_both(db, SAME, SAME)
        said = gate(db, *OLD_NEW, "--require-power", "--junit", "gate.xml")
        assert said.code == 2
        (suite,) = checked_junit((db.parent / "gate.xml").read_bytes())
        assert (suite.get("failures"), suite.get("errors")) == ("0", "1")

    @pytest.mark.slow
    def test_hostile_names_are_text_in_both(self, db: Path) -> None:
        put_both(db, {**SAME, HOSTILE: (4, 0)}, {**SAME, HOSTILE: (0, 4)})
        view = view_of(db)
        (suite,) = checked_junit(junit(view))
        names = [case.get("name") or "" for case in suite.findall("testcase")]
        assert any("<b>|`a``b`|" in name for name in names)
        assert not any("\x1b" in name or "\ufffe" in name for name in names)
        text = markdown(view)
        row = next(line for line in text.splitlines() if "<code>&#60;b&#62;" in line)
        assert row.count("|") == 5
        outside = re.sub(r"(`+) ?.*? ?\1(?!`)|<code>.*?</code>", "", text)
        assert "<b>" not in outside
        assert "@octo" not in outside
        assert "https://evil" not in outside
        assert "www.evil" not in outside
        assert "](" not in outside
        assert "\x1b" not in text

    @pytest.mark.slow
    def test_markdown_is_narrow_and_counts_what_it_leaves_out(self, db: Path) -> None:
        many = {f"{'long name of a task ' * 6}{at:03}": (4, 0) for at in range(LISTED + 10)}
        put_both(db, many, dict.fromkeys(many, (1, 3)))
        said = gate(db, *OLD_NEW, "--md", "-")
        assert said.code == 1
        rows = [line for line in said.out.splitlines() if line.startswith("|")]
        assert max(map(len, rows)) <= 100
        assert "10 more tasks changed." in said.out
        assert said.out.startswith("### arc gate: regression\n")

    def test_markdown_is_written_beside_the_table(self, db: Path) -> None:
        said = gate(put_both(db), *OLD_NEW, "--md", "summary.md")
        assert said.out.startswith("Regression: ")
        assert (db.parent / "summary.md").read_text().startswith("### arc gate: regression\n")


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled runs of the last version of the prompt."""
    path = tmp_path_factory.mktemp("locked") / "arc.db"
    put_bundled(path, *(each.stem for each in (fixtures() / "traces").glob("*-v8-?.jsonl")))
    return path


@pytest.mark.slow
class TestLocked:
    """On the bundled runs, by the demo model."""

    @staticmethod
    def locked(db: Path, prompt: str, *words: str) -> Spoken:
        edit = str(fixtures() / "demo" / "prompts" / f"{prompt}.md")
        return gate(db, "--baseline", "variant=v8", "--locked", edit, "-k", "3", *words)

    def test_an_edit_that_acts_otherwise_is_blocked_and_nothing_is_said_of_outcomes(
        self, bundled: Path
    ) -> None:
        said = self.locked(bundled, "v5")
        assert said.code == 1, said.err
        assert said.out.startswith(
            "Acts otherwise at healthy steps: responses that match the recording 1.00 → "
        )
        assert "not outcomes: no run was played to its end" in said.out
        assert "pass@1" not in said.out
        assert "egression" not in said.out
        assert "cost per resolved" not in said.out
        assert "by demo, rule-based" in said.out
        assert "At recorded breaks: fixed " in said.out

    def test_an_edit_that_acts_alike_is_not(self, bundled: Path) -> None:
        said = self.locked(bundled, "v7", "--json")
        assert said.code == 0
        found = json.loads(said.out)
        assert found["kind"] == "decisions"
        assert found["decision"]["status"] == "green"
        assert found["decision"]["tasks"] > 5
        assert found["rows"][0]["baseline"]["n"] == 9
        assert found["decision"]["smallest_drop"] > 0.2

    def test_nothing_is_kept_of_it_but_the_answers(self, bundled: Path) -> None:
        self.locked(bundled, "v7")
        kept = spoken("--db", str(bundled), "edit", "list", "--json", cwd=bundled.parent)
        assert json.loads(kept.out) == []

    def test_runs_that_all_passed_are_as_good(self, bundled: Path) -> None:
        edit = str(fixtures() / "demo" / "prompts" / "v5.md")
        said = gate(bundled, "--baseline", "variant=v8 outcome:passed", "--locked", edit, "-k", "2")
        assert said.code == 1, said.err
        assert "At recorded breaks" not in said.out

    def test_an_estimate_asks_nothing(self, bundled: Path) -> None:
        said = self.locked(bundled, "v6", "--model", "claude-opus-4-8", "--estimate")
        assert said.code == 0
        assert "live calls at first" in said.out

    def test_reports_speak_of_decisions(self, bundled: Path) -> None:
        said = self.locked(bundled, "v5", "--md", "-", "--junit", "locked.xml")
        assert said.out.startswith("### arc gate: acts otherwise at healthy steps\n")
        assert "| | control<br>`variant=v8` | edited<br>`v5` |" in said.out
        checked_junit((bundled.parent / "locked.xml").read_bytes())

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--baseline", "variant=v8"), "name either --candidate QUERY or --locked EDIT"),
            (("--baseline", "variant=v8", "--candidate", "variant=v7", "--locked", "v5"),
             "name either --candidate QUERY or --locked EDIT"),
            (("--baseline", "variant=v8", "--locked", "no-such-edit"), "no-such-edit"),
            (("--baseline", "variant=none", "--locked", "PROMPT"), "variant=none"),
            (("--baseline", "variant=v8", "--locked", "PROMPT", "--max-cost-rise", ".1"),
             "--max-cost-rise needs runs"),
            (("--baseline", "variant=v8", "--candidate", "variant=v7", "--live"),
             "--live needs --locked"),
            (("--baseline", "variant=v8", "--locked", "PROMPT", "--live", "--model",
              "claude-opus-4-8"), "no key"),
            (("--baseline", "variant=v8", "--locked", "SAME"), "reaches no healthy step"),
        ],
    )  # fmt: skip
    def test_bad_input(self, bundled: Path, words: tuple[str, ...], said: str) -> None:
        prompts = fixtures() / "demo" / "prompts"
        named = {"PROMPT": str(prompts / "v5.md"), "SAME": str(prompts / "v8.md")}
        found = gate(bundled, *(named.get(word, word) for word in words))
        assert found.code == 2, found.out
        assert said in found.err
        assert "Traceback" not in found.err


CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "property": set(),
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
    "skipped": set(),
    "error": set(),
    "failure": set(),
    "system-out": set(),
}
ATTRIBUTES = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"skipped", "time", "timestamp"}),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name"}, {"classname", "time", "group"}),
    "skipped": (set(), {"message", "type"}),
    "error": (set(), {"message", "type"}),
    "failure": (set(), {"message", "type"}),
    "system-out": (set(), set()),
}
"""What the schema of the xUnit plugin of Jenkins has of what we write: the required attributes of
an element, and those it may have."""


def checked_junit(content: bytes) -> list[ElementTree.Element]:
    """The suites of a report, which must be as the schema has it."""
    root = ElementTree.fromstring(content)
    assert root.tag == "testsuites"
    for element in root.iter():
        required, allowed = ATTRIBUTES[element.tag]
        assert required <= {*element.attrib} <= required | allowed, element.attrib
        assert {child.tag for child in element} <= CHILDREN[element.tag]
    suites = root.findall("testsuite")
    for suite in suites:
        assert [each.tag for each in suite][:1] == ["properties"]
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(name) == str(sum(case.find(tag) is not None for case in cases))
    return suites


def test_a_gate_without_a_pair_is_refused(db: Path) -> None:
    put_both(db, {"a": (1,)}, {"a": (0, 0, 1), "b": (1,)})
    with pytest.raises(ArcError, match="nothing to compare: 1 task in both groups"):
        view_of(db)


@pytest.mark.data
@needs_shared
def test_two_halves_of_the_same_real_runs_show_no_regression_and_a_worse_model_does(
    tmp_path: Path,
) -> None:
    """50 airline tasks of four trials each by one agent; twelve coding tasks by four models."""
    db = tmp_path / "arc.db"
    folders = [str(DATA / name) for name in ("tau_bench", "claude_code_runs")]
    assert spoken("--db", str(db), "import", *folders, cwd=tmp_path).code == 0
    for first, second in (("01", "23"), ("02", "13"), ("03", "12")):
        halves = (" or ".join(f"trial={trial}" for trial in each) for each in (first, second))
        queries = [f"format:tau* ({each})" for each in halves]
        said = gate(db, "--baseline", queries[0], "--candidate", queries[1], "--json")
        assert said.code == 0
        found = json.loads(said.out)["decision"]
        assert found["tasks"] == 50
        assert found["smallest_drop"] >= 0.15
        overall = (found["baseline"]["value"] + found["candidate"]["value"]) / 2
        assert overall == pytest.approx(0.42)
    worse = gate(db, "--baseline", "format:claude* model:dsw4xd",
                 "--candidate", "format:claude* model:41qhry")  # fmt: skip
    assert worse.code == 1, worse.out
