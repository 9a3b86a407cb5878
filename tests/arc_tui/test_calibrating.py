"""`arc calibrate` and `arc label` as a user types them, and the figures that ship with arc."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.features.calibration.command import calibrate
from arc_tui.features.calibration.label_command import label
from arc_tui.features.calibration.view import KEPT
from arc_tui.places import fixtures
from arc_tui.ui.tables import short
from replay.errors import ArcError, NotFound
from replay.store.handle import now_ns
from replay.store.rows import trace_rows
from taxonomy.calibration import approval
from taxonomy.calibration.approval import trusted_scores
from taxonomy.classes import FailureClass
from taxonomy.findings import Item
from taxonomy.judge import scores
from taxonomy.judge.scores import Judged
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import opinions
from taxonomy.judgements.tags import CleanMark, Tag, mark_clean, put_tag
from tests.bench.calibrating import encoded, measured
from tests.bench.calibration_results import markdown, shipped
from tests.shared import Imported, needs_shared

EXPECTED = json.loads((fixtures() / "expected.json").read_text())["traces"]
FAILED = [name for name in EXPECTED if EXPECTED[name]["decisive_step"] is not None]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the bundled runs of which is written down what is true."""
    path = tmp_path_factory.mktemp("db") / "arc.db"
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in EXPECTED]
        for _ in importing.import_paths(store, files):
            pass
    return path


@pytest.fixture
def db(bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it that a test may change; at the keyboard sits Mei."""
    monkeypatch.setenv("ARC_USER", "mei")
    copy = tmp_path / "arc.db"
    copy.write_bytes(bundled.read_bytes())
    return copy


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """What is written down, as a label file; one line points nowhere and one is no label."""
    lines = [json.dumps(each) for name in EXPECTED for each in labels_of(name)]
    lines += [json.dumps({"trace": "traces/absent.jsonl", "class": []}), "oops"]
    path = tmp_path / "shop.jsonl"
    path.write_text("\n".join(lines))
    return path


def labels_of(name: str) -> list[dict[str, Any]]:
    known = EXPECTED[name]
    whole = {"trace": name, "at": None, "class": known["classes"], "by": "us"}
    if known["decisive_step"] is None:
        return [whole]
    step = {"step": known["decisive_step"]}
    return [whole, {"trace": name, "at": step, "decisive": True, "by": "us"}]


def run(command: click.Command, *arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def as_json(command: click.Command, *arguments: object) -> Any:
    return json.loads(run(command, *arguments, "--json").stdout)


class TestLabels:
    @pytest.mark.slow
    def test_the_figures_are_those_of_the_labelled_runs(self, db: Path, labels: Path) -> None:
        view = as_json(calibrate, "--db", db, "--labels", labels)
        (part,) = view["parts"]
        figures = part["figures"]
        assert figures["made_by"] == "people"
        assert (figures["runs"], figures["decisive"]) == (len(EXPECTED), len(FAILED))
        ours = figures["localisation"][0]
        assert ours["name"] == "candidates"
        assert set(ours["over_all"]["exact"]) == {"value", "n", "low", "high"}
        assert ours["over_all"]["exact"]["n"] == len(FAILED)
        assert ours["over_all"]["top_3"]["value"] > 0.5
        table = figures["classes"][0]
        labelled = sum(row["tp"] + row["fn"] for row in table["rows"])
        assert labelled == sum(len(set(EXPECTED[name]["classes"])) for name in EXPECTED)

    def test_what_was_taken_for_what_is_printed_and_encoded(self, db: Path, labels: Path) -> None:
        (part,) = as_json(calibrate, "--db", db, "--labels", labels)["parts"]
        found = part["taken_for"]
        assert found["rows"][-1] == found["columns"][-1] == "none"
        assert sum(map(sum, found["counts"])) >= len(EXPECTED)
        text = run(calibrate, "--db", db, "--labels", labels).stdout
        assert "labels (down) and findings of the rules (across), by run" in text

    def test_a_label_of_no_use_is_counted_and_listed(self, db: Path, labels: Path) -> None:
        view = as_json(calibrate, "--db", db, "--labels", labels)
        assert len(view["unusable"]) == 2
        assert {each["trace"] for each in view["unusable"]} == {None, "traces/absent.jsonl"}
        text = run(calibrate, "--db", db, "--labels", labels).stdout
        assert f"{view['read'] - 2} of {view['read']} labels match a run" in text
        assert "traces/absent.jsonl matches no run of this database" in text

    def test_the_text_says_what_each_figure_rests_on(self, db: Path, labels: Path) -> None:
        text = run(calibrate, "--db", db, "--labels", labels).stdout
        assert f"break point: {len(FAILED)} runs with a decisive step" in text
        assert "the best possible in hindsight" in text
        assert "best constant step (" in text
        assert "recall (TPR)" in text
        assert "TNR" in text
        assert "worst disagreements, " in text

    def test_labels_of_a_rule_are_conformance_in_a_part_of_their_own(
        self, db: Path, tmp_path: Path
    ) -> None:
        lines = [
            {"trace": name, "class": EXPECTED[name]["classes"], "by": by}
            for name, by in zip(FAILED, ["mechanical", "mei"] * len(FAILED), strict=False)
        ]
        path = tmp_path / "mixed.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        parts = as_json(calibrate, "--db", db, "--labels", path)["parts"]
        assert [part["figures"]["made_by"] for part in parts] == ["people", "rule"]
        assert sum(part["figures"]["labels"] for part in parts) == len(FAILED)
        text = run(calibrate, "--db", db, "--labels", path).stdout
        assert "conformance to a rule's labels; not accuracy" in text

    def test_no_label_on_any_run_is_unanswered(self, db: Path, tmp_path: Path) -> None:
        path = tmp_path / "other.jsonl"
        path.write_text('{"trace": "elsewhere.json", "class": []}')
        assert run(calibrate, "--db", db, "--labels", path).return_value == 2

    def test_foreign_words_in_a_note_reach_no_terminal(self, db: Path, tmp_path: Path) -> None:
        path = tmp_path / "hostile.jsonl"
        hostile = {"trace": "\x1b[31mx", "class": []}
        noted = {"trace": FAILED[0], "class": ["loop", "wrong_tool"], "note": "\x1b]0;x"}
        path.write_text("\n".join(map(json.dumps, (hostile, noted))))
        assert "\x1b" not in run(calibrate, "--db", db, "--labels", path).stdout


class TestPeople:
    def test_a_score_is_kept_replaced_and_taken_back(self, db: Path) -> None:
        name = FAILED[0]
        assert run(label, "--db", db, name, 1, "0.3").stdout.endswith("step 1: 0.30\n")
        run(label, "--db", db, name, 1, "0.4", "--note", "half of it")
        with open_ledger(db) as store:
            (kept,) = opinions(store)
        assert (kept.value, kept.by, kept.note, kept.step) == (0.4, "mei", "half of it", 1)
        assert run(label, "--db", db, name, 1, "--remove").return_value == 0
        assert run(label, "--db", db, name, 1, "--remove").return_value == 1

    def test_undo_takes_back_what_was_said_last(self, db: Path) -> None:
        run(label, "--db", db, FAILED[0], 1, "0.3")
        run(label, "--db", db, FAILED[0], 2, "0.6", "--item", "tool choice=yes")
        run(label, "--db", db, FAILED[0], 1, "0.4")
        assert run(label, "--db", db, "--undo").stdout.endswith("step 1: 0.40: removed\n")
        assert "step 2: 0.60 · tool choice yes: removed" in run(label, "--db", db, "--undo").stdout
        assert run(label, "--db", db, "--undo").return_value == 1, "there is none left"

    def test_a_score_outlives_another_look_of_the_rules(self, db: Path) -> None:
        run(label, "--db", db, FAILED[0], 1, "0.3")
        with open_ledger(db) as store:
            key = opinions(store)[0].trace
            importing.diagnose_one(store, key)
            assert len(opinions(store)) == 1

    def test_items_are_answered_beside_a_score_or_alone_and_taken_back(self, db: Path) -> None:
        name = FAILED[0]
        said = run(label, "--db", db, name, 1, "--item", "arguments_grounded=no")
        assert said.stdout.endswith("step 1: arguments grounded no\n")
        run(label, "--db", db, name, 1, "0.3", "--note", "invented", "--item", "result read=yes")
        run(label, "--db", db, name, 1, "--item", "tool choice=no", "--item", "result read=?")
        with open_ledger(db) as store:
            (kept,) = opinions(store)
        assert (kept.value, kept.note) == (0.3, "invented")
        assert kept.items == {"arguments grounded": False, "tool choice": False}
        for item in kept.items:
            run(label, "--db", db, name, 1, "--item", f"{item}=?")
        run(label, "--db", db, name, 1, "--remove")
        with open_ledger(db) as store:
            assert list(opinions(store)) == []

    def test_an_answer_that_is_taken_back_leaves_nothing_behind(self, db: Path) -> None:
        run(label, "--db", db, FAILED[0], 1, "--item", "tool choice=no")
        assert run(label, "--db", db, FAILED[0], 1, "--item", "tool choice=?").return_value == 0
        assert run(label, "--db", db, FAILED[0], 1, "--item", "tool choice=?").return_value == 1
        with open_ledger(db) as store:
            assert list(opinions(store)) == []

    @pytest.mark.parametrize(
        ("item", "why"),
        [("charm=yes", "no rubric item 'charm'; tool choice"), ("tool choice", "write NAME=yes"),
         ("tool choice=perhaps", "write NAME=yes")],
    )  # fmt: skip
    def test_what_is_no_answer_to_an_item_is_refused(self, db: Path, item: str, why: str) -> None:
        with pytest.raises(click.UsageError, match=why):
            run(label, "--db", db, FAILED[0], 1, "--item", item)

    @pytest.mark.parametrize("arguments", [["1"], ["1", "0.4", "--remove"], ["1", "1.5"]])
    def test_what_is_no_score_is_refused(self, db: Path, arguments: list[str]) -> None:
        with pytest.raises(click.UsageError):
            run(label, "--db", db, FAILED[0], *arguments)

    def test_a_step_that_is_not_there_is_refused(self, db: Path) -> None:
        with pytest.raises(NotFound, match=r"no step '99'\. Steps: 0 to 7"):
            run(label, "--db", db, FAILED[0], 99, "0.4")

    def test_without_a_file_tags_and_scores_are_the_labels(self, db: Path) -> None:
        for step, score in enumerate(("0.9", "0.9", "0.1")):
            run(label, "--db", db, FAILED[0], step, score)
        with open_ledger(db) as store:
            (first, *_) = opinions(store)
            tag = Tag(
                trace=first.trace, span=first.span, step=0, failure=FailureClass.LOOP, by="mei"
            )
            put_tag(store, tag)
        view = as_json(calibrate, "--db", db)
        assert (view["source"], view["read"]) == (KEPT, 4)
        (figures,) = [part["figures"] for part in view["parts"]]
        assert figures["scores"][0]["r"]["n"] >= 1
        assert {row["name"]: row["tp"] + row["fn"] for row in figures["classes"][0]["rows"]}[
            "loop"
        ] == 1

    def test_the_verdict_on_a_source_of_scores_is_kept_for_later(self, db: Path) -> None:
        for step, score in enumerate(("0.9", "0.9", "0.1")):
            run(label, "--db", db, FAILED[0], step, score)
        text = run(calibrate, "--db", db).stdout
        assert "not approved" in text
        by = as_json(calibrate, "--db", db)["parts"][0]["figures"]["gates"][0]["by"]
        with open_ledger(db) as store:
            kept = approval.standing(store, by, 0)
        assert kept is not None
        assert not kept.passed
        assert kept.checked_ns > 0

    def test_a_run_found_clean_is_a_label_and_one_given_beside_suggestions_is_told(
        self, db: Path
    ) -> None:
        with open_ledger(db) as store:
            for row, blind in zip(trace_rows(store), (True, False), strict=False):
                given = CleanMark(trace=row.trace, by="mei", blind=blind)
                mark_clean(store, given)
        (part,) = as_json(calibrate, "--db", db)["parts"]
        assert part["figures"]["classes"][0]["n"] == 2
        assert (part["placed_here"], part["prompted"]) == (2, 1)
        assert "1 of 2 tags and clean marks are not blind" in run(calibrate, "--db", db).stdout

    def test_no_labels_are_no_failure_but_no_approval_either(self, db: Path) -> None:
        assert run(calibrate, "--db", db).return_value == 0
        checked = run(calibrate, "--db", db, "--check")
        assert checked.return_value == 1
        assert "No judge has scored or classified here." in checked.stderr


PEOPLE = (0.9, 0.9, 0.6, 0.4, 0.1, 0.2, 0.7, 0.5)
"""A person's scores of eight steps, over all four bands."""


class TestJudges:
    """A judge whose template changed: scores of both, and what people said of the same steps."""

    OLD, NEW = "judge:step:m:1-aaaaaaaa", "judge:step:m:1-bbbbbbbb"
    WINDOW = "judge:window:m:1-aaaaaaaa"

    def places(self, db: Path) -> list[tuple[str, int]]:
        """As many steps as people scored, of runs long enough."""
        with open_ledger(db) as store:
            rows = trace_rows(store)
        return [(row.trace, step) for row in rows for step in range(row.steps)][: len(PEOPLE)]

    def judge(self, db: Path, by: str, *values: float, held: bool | None = None) -> None:
        with open_ledger(db) as store:
            for (key, step), value in zip(self.places(db), values, strict=True):
                items = (Item(name="arguments grounded", held=value > 0.5, because="seen"),)
                said = Judged(step=step, span="s", samples=(value,), items=items)
                scores.keep(store, key, by, [said])

    def people(self, db: Path, folder: Path) -> Path:
        lines = [
            {"trace": key, "at": {"step": step}, "score": score, "by": "mei",
             "items": {"arguments grounded": score > 0.5}}
            for (key, step), score in zip(self.places(db), PEOPLE, strict=True)
        ]  # fmt: skip
        path = folder / "people.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        return path

    def test_a_judge_that_follows_people_is_trusted_and_the_rules_look_again(
        self, db: Path, tmp_path: Path
    ) -> None:
        self.judge(db, self.OLD, *PEOPLE)
        labels = self.people(db, tmp_path)
        (part,) = as_json(calibrate, "--db", db, "--labels", labels)["parts"]
        found = next(each for each in part["scatters"] if each["by"] == self.OLD)
        assert [(pair["human"], pair["other"]) for pair in found["pairs"]] == [
            (score, score) for score in PEOPLE
        ]
        assert [row[at] for at, row in enumerate(found["bands"]["counts"])] == [2, 2, 2, 2]
        text = run(calibrate, "--db", db, "--labels", labels).stdout
        assert f"people's bands (down) and those of {self.OLD} (across)" in text
        assert f"{self.OLD}: approved for 30 days, r 1.00" in text
        with open_ledger(db) as store:
            key = self.places(db)[0][0]
            assert any(each.by == self.OLD for each in trusted_scores(store, key, now_ns()))
        checked = run(calibrate, "--db", db, "--labels", labels, "--check")
        assert checked.return_value == 0

    def test_another_template_is_not_calibrated_until_it_was_held_against_labels(
        self, db: Path, tmp_path: Path
    ) -> None:
        self.judge(db, self.OLD, *PEOPLE)
        labels = self.people(db, tmp_path)
        run(calibrate, "--db", db, "--labels", labels)
        self.judge(db, self.NEW, *(1 - value for value in PEOPLE))
        other = tmp_path / "other.jsonl"
        other.write_text(json.dumps({"trace": self.places(db)[0][0], "class": ["loop"]}))
        text = run(calibrate, "--db", db, "--labels", other).stdout
        assert f"{self.NEW}: not calibrated since the template changed" in text
        (line,) = as_json(calibrate, "--db", db, "--labels", other)["unchecked"]
        assert (line["since"], line["changed"]) == (self.OLD, ["template"])

        view = as_json(calibrate, "--db", db, "--labels", labels, "--drift")
        (moved,) = view["drifts"]
        assert (moved["before"], moved["after"]) == (self.OLD, self.NEW)
        assert moved["r"]["value"] == pytest.approx(-1)
        assert moved["people_before"]["r"]["value"] == pytest.approx(1)
        assert moved["people_after"]["r"]["value"] == pytest.approx(-1)
        assert [row["trust"]["state"] for row in view["sets"]] == ["approved", "never calibrated"]
        text = run(calibrate, "--db", db, "--labels", labels, "--drift").stdout
        assert f"the template changed: {self.OLD} → {self.NEW}" in text
        assert f"{self.NEW}: not calibrated since the template changed" in text
        assert "r with people, before → after" in text

        assert "not calibrated" not in run(calibrate, "--db", db, "--labels", labels).stdout
        states = [
            row["trust"]["state"] for row in as_json(calibrate, "--db", db, "--drift")["sets"]
        ]
        assert states == ["approved", "not approved"]

    def test_a_window_is_trusted_item_by_item(self, db: Path, tmp_path: Path) -> None:
        self.judge(db, self.WINDOW, *PEOPLE)
        labels = self.people(db, tmp_path)
        (part,) = as_json(calibrate, "--db", db, "--labels", labels)["parts"]
        judged = [each for each in part["items"] if each["by"] == self.WINDOW]
        assert [(each["item"], each["agreed"]["value"]) for each in judged] == [
            ("arguments grounded", 1.0)
        ]
        assert part["item_gates"][0]["missing"][0] == "4 of at least 5 labels say yes"
        text = run(calibrate, "--db", db, "--labels", labels).stdout
        assert "rubric items" in text
        assert f"{self.WINDOW}, arguments grounded: not approved: 4 of at least 5" in text
        assert "rubric items are approved one by one" in text

    def test_labels_of_a_rule_decide_no_trust(self, db: Path, tmp_path: Path) -> None:
        self.judge(db, self.OLD, *PEOPLE)
        path = self.people(db, tmp_path)
        path.write_text(path.read_text().replace('"mei"', '"mechanical"'))
        text = run(calibrate, "--db", db, "--labels", path).stdout
        assert "labels made by a rule approve no judge" in text
        assert "may be trusted" not in text
        with open_ledger(db) as store:
            assert approval.kept(store, self.OLD) is None

    def test_no_judge_has_nothing_to_drift(self, db: Path) -> None:
        done = run(calibrate, "--db", db, "--drift")
        assert done.return_value == 0
        assert "No judge scores yet." in done.stdout

    def test_several_files_are_one_set_of_labels(self, db: Path, tmp_path: Path) -> None:
        first, second = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
        first.write_text(json.dumps({"trace": FAILED[0], "class": ["loop"], "strength": "weak"}))
        second.write_text('oops\n{"trace": "' + FAILED[1] + '", "class": []}')
        view = as_json(calibrate, "--db", db, "--labels", first, "--labels", second)
        assert (view["source"], view["read"]) == ("one.jsonl, two.jsonl", 3)
        assert view["parts"][0]["figures"]["runs"] == 2
        assert view["parts"][0]["strengths"] == {"weak": 1}
        text = run(calibrate, "--db", db, "--labels", first, "--labels", second).stdout
        assert "left out: two.jsonl line 1: is not a label" in text
        assert "2 labels on 2 runs (1 weak)" in text

    def test_when_the_verdict_expires_the_rules_look_again(self, db: Path, tmp_path: Path) -> None:
        self.judge(db, self.OLD, *PEOPLE)
        run(calibrate, "--db", db, "--labels", self.people(db, tmp_path))
        with open_ledger(db) as store:
            assert undiagnosed(store) == []
            later = undiagnosed(store, at_ns=now_ns() + approval.EXPIRES_NS)
        assert set(later) == {key for key, _ in self.places(db)}


class TestOtherQuestions:
    def test_the_audit_sample_says_who_has_looked(self, db: Path) -> None:
        drawn = as_json(calibrate, "--db", db, "--audit", "--share", "0.5")
        assert 0 < len(drawn["rows"]) < drawn["runs"] == len(EXPECTED)
        first = drawn["rows"][0]["trace"]
        run(label, "--db", db, first, 0, "0.9")
        again = as_json(calibrate, "--db", db, "--audit", "--share", "0.5")
        assert [row["trace"] for row in again["rows"]] == [row["trace"] for row in drawn["rows"]]
        assert again["rows"][0]["seen_by"] == ["mei"]
        assert first[:8] in run(calibrate, "--db", db, "--audit", "--share", "0.5").stdout

    @pytest.mark.slow
    def test_noise_needs_no_database(self, tmp_path: Path) -> None:
        path = tmp_path / "none.db"
        text = run(calibrate, "--db", path, "--noise").stdout
        assert "shape by the binned rule" in text
        assert "shape by the published rule" in text
        assert not path.exists()

    def test_two_questions_at_once_are_refused(self, db: Path) -> None:
        with pytest.raises(click.UsageError, match="cannot be combined"):
            run(calibrate, "--db", db, "--audit", "--noise")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.256, ".26"), (1.0, "1.00"), (0.0, ".00"), (-0.1, "-.10"), (-0.001, ".00"), (None, "–")],
)
def test_a_figure_is_short(value: float | None, text: str) -> None:
    assert short(value) == text


class TestSources:
    """`--sources`: candidates on label files, beside naive guesses."""

    @pytest.mark.slow
    def test_a_folder_of_label_files_is_a_table_a_file(self, db: Path, tmp_path: Path) -> None:
        other = tmp_path / "more"
        other.mkdir()
        names = list(EXPECTED)
        for file, own in (("a", names[::2]), ("b", names[1::2])):
            lines = [json.dumps(each) for name in own for each in labels_of(name)]
            (other / f"{file}.jsonl").write_text("\n".join(lines))
        printed = run(calibrate, "--db", db, "--sources", other).stdout
        assert "a: " in printed
        assert "gain over the best naive baseline of each source" in printed
        assert "random step" in printed
        view = as_json(calibrate, "--db", db, "--sources", other)
        assert {each["name"] for each in view["sources"]} == {"a", "b"}
        assert sum(each["runs"] for each in view["sources"]) == len(FAILED)
        assert sum(each["clean"] for each in view["sources"]) == len(EXPECTED) - len(FAILED)
        for each in view["sources"]:
            names = [guesser["name"] for guesser in each["localisation"]]
            assert names[:2] == ["arc, all it shows", "arc, candidates alone"]
            assert "best constant step of the other sources" in names

    def test_labels_of_no_run_are_named_and_leave_nothing_to_say(
        self, db: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "away.jsonl"
        path.write_text(json.dumps({"trace": "elsewhere.json", "at": {"step": 1}, "by": "us"}))
        result = run(calibrate, "--db", db, "--sources", path)
        assert result.return_value == 2
        assert "left out: away: no label matches a run" in result.stdout
        assert "arc import" in result.stdout

    def test_a_folder_without_label_files_and_a_file_without_labels_are_refused(
        self, db: Path, tmp_path: Path
    ) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        with pytest.raises(ArcError, match="contains no label file"):
            run(calibrate, "--db", db, "--sources", empty)
        (tmp_path / "bad.jsonl").write_text("oops")
        with pytest.raises(ArcError, match="contains no label"):
            run(calibrate, "--db", db, "--sources", tmp_path / "bad.jsonl")

    def test_it_goes_alone(self, db: Path, labels: Path) -> None:
        with pytest.raises(click.UsageError, match="cannot be combined"):
            run(calibrate, "--db", db, "--sources", labels, "--labels", labels)
        with pytest.raises(click.UsageError, match="--check goes with --labels alone"):
            run(calibrate, "--db", db, "--sources", labels, "--check")


class TestShipped:
    def test_the_figures_that_ship_have_their_day_and_versions(self) -> None:
        results = shipped()
        assert results is not None
        assert results.date
        assert results.engine
        text = markdown(results)
        assert results.date in text
        for known in results.sets:
            assert f"| {known.name}" in text

    def test_candidates_are_not_measured_on_what_they_were_made_with(self) -> None:
        results = shipped()
        assert results is not None
        found = [figures for known in results.sets for figures in known.figures]
        assert sum(each.fitted for each in found) > 100
        assert all(each.fitted == each.decisive for each in found)
        names = [guesser.name for each in found for guesser in each.localisation]
        assert "candidates" not in names

    def test_they_are_kept_as_they_would_be_written(self) -> None:
        results = shipped()
        assert results is not None
        assert encoded(results) == (fixtures() / "calibration.json").read_bytes()

    @pytest.mark.data
    @needs_shared
    def test_a_set_measured_today_has_the_figures_of_its_labels(self, real: Imported) -> None:
        with open_ledger(real.path) as store:
            found = measured(store, "tb_claude_code")
        (figures,) = found.figures
        assert (found.labels, figures.labels, figures.made_by) == (8, 8, "rule")
        per_run = figures.classes[0].rows
        assert {row.name: row.recall.value for row in per_run}["gave up"] == 1.0
