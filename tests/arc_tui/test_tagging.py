"""`arc tag` and `arc review` as typed: tags, clean marks, the queue, agreement of people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import TAG
from arc_tui.features.tagging import review
from arc_tui.views.queue import Visit, build_compared
from replay.errors import ArcError
from taxonomy.classes import Attribution, FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import CleanMark, Tag, clean_marks, human_tags, human_words, put_tag
from taxonomy.queue import queue
from tests.arc_tui.six_runs import db

__all__ = ["db"]


def run(db: Path, command: click.Command, *arguments: str, by: str = "mei") -> Result:
    result = CliRunner().invoke(
        command, [*arguments, "--db", str(db)], standalone_mode=False, env={"ARC_USER": by}
    )
    if result.exception is not None:
        raise result.exception
    return result


def as_json(db: Path, *arguments: str, by: str = "mei") -> Any:
    return json.loads(run(db, TAG, "list", *arguments, "--json", by=by).stdout)


class TestTag:
    def test_the_attribution_is_shown_and_stored(self, db: Path) -> None:
        said = run(db, TAG, "add", "26/1", "3", "loop", "--attribution", "environment")
        assert "step 3 · loop · attribution: environment" in said.stdout
        with open_ledger(db) as store:
            assert [each.attribution for each in human_tags(store)] == [Attribution.ENVIRONMENT]

    def test_a_clean_mark_is_stored_listed_and_removed(self, db: Path) -> None:
        said = run(db, TAG, "add", "4/2", "--clean", "--note", "fine").stdout
        assert said.endswith(": clean\n")
        (kept,) = as_json(db, "--clean")
        assert (kept["by"], kept["note"], kept["blind"]) == ("mei", "fine", False)
        assert "fine" in run(db, TAG, "list", "--clean").stdout
        assert run(db, TAG, "rm", "4/2", "--clean").return_value == 0
        assert run(db, TAG, "rm", "4/2", "--clean").return_value == 1, "there is none left"
        assert run(db, TAG, "list", "--clean").stdout == ""

    def test_a_tag_is_removed_once(self, db: Path) -> None:
        run(db, TAG, "add", "26/1", "3", "loop")
        assert run(db, TAG, "rm", "26/1", "3", "loop").return_value == 0
        assert run(db, TAG, "rm", "26/1", "3", "loop").return_value == 1

    def test_undo_takes_back_one_after_the_other_the_last_first(self, db: Path) -> None:
        run(db, TAG, "add", "26/1", "3", "loop")
        run(db, TAG, "add", "26/1", "4", "wrong tool")
        run(db, TAG, "add", "4/2", "--clean")
        assert run(db, TAG, "undo").stdout.endswith(": clean\n")
        assert run(db, TAG, "undo").stdout.endswith("step 4 · wrong tool\n")
        with open_ledger(db) as store:
            assert [each.step for each in human_tags(store)] == [3]
        assert run(db, TAG, "undo").return_value == 0
        assert run(db, TAG, "undo").return_value == 1, "there is none left"

    def test_undo_leaves_the_tags_of_others(self, db: Path) -> None:
        run(db, TAG, "add", "26/1", "3", "loop")
        with open_ledger(db) as store:
            (own,) = human_tags(store)
            put_tag(store, structs.replace(own, by="ada"))
        assert run(db, TAG, "undo").return_value == 0
        assert run(db, TAG, "undo").return_value == 1
        with open_ledger(db) as store:
            assert [each.by for each in human_tags(store)] == ["ada"]

    def test_what_cannot_both_be_meant_is_refused(self, db: Path) -> None:
        run(db, TAG, "add", "26/1", "3", "loop")
        with pytest.raises(ArcError, match=r"step 3 of this run loop\. Try: arc tag rm"):
            run(db, TAG, "add", "26/1", "--clean")

    @pytest.mark.parametrize("command", ["add", "rm"])
    @pytest.mark.parametrize("words", [("3",), ()])
    def test_a_step_needs_its_class(self, db: Path, command: str, words: tuple[str, ...]) -> None:
        with pytest.raises(click.UsageError, match="give a STEP and a CLASS"):
            run(db, TAG, command, "26/1", *words)

    @pytest.mark.parametrize("words", [("3", "loop"), ("3",), ("--attribution", "user")])
    def test_clean_is_about_the_whole_run(self, db: Path, words: tuple[str, ...]) -> None:
        with pytest.raises(click.UsageError, match="whole run"):
            run(db, TAG, "add", "26/1", "--clean", *words)


class TestQueue:
    def test_it_says_how_many_are_left_and_lists_them_in_order(self, db: Path) -> None:
        lines = run(db, review).stdout.splitlines()
        assert lines[0] == (
            "5 runs left for mei: untagged failure 3 of 3 · passed with warnings 1 of 1"
            " · audit sample 1 of 1"
        )
        assert [line.split()[1:4] for line in lines[2:4]] == [
            ["26", "1", "failed"], ["7", "0", "failed"],
        ]  # fmt: skip
        run(db, TAG, "add", "26/1", "3", "loop")
        assert "4 runs left" in run(db, review).stdout

    def test_the_same_as_json(self, db: Path) -> None:
        found = json.loads(run(db, review, "--json").stdout)
        assert (found["by"], found["blind"], found["waiting"][0]["step"]) == ("mei", False, 3)
        assert found["kinds"][0] == {"reason": "untagged failure", "waiting": 3, "of": 3}

    def test_the_blind_one_does_not_say_who_tagged_what(self, db: Path) -> None:
        assert run(db, review, "--blind").stdout == ""
        run(db, TAG, "add", "26/1", "3", "loop", by="ada")
        said = run(db, review, "--blind").stdout
        assert "1 run left for mei: second look 1 of 1" in said
        assert "ada" not in said
        assert "loop" not in said

    def test_one_question_at_a_time(self, db: Path) -> None:
        for words in (("--clean", "--agreement"), ("--agreement", "loop")):
            with pytest.raises(click.UsageError, match="cannot be combined"):
                run(db, TAG, "list", *words)
        with pytest.raises(click.UsageError, match="needs --agreement"):
            run(db, TAG, "list", "--blind")


class TestVisit:
    def test_it_knows_its_place_and_what_it_came_to(self, db: Path) -> None:
        with open_ledger(db) as store:
            visit = Visit(queue=queue(store, "mei"))
        assert visit.at(3).line == "queue 4 of 5 · passed with warnings"
        assert visit.at(4).last
        said = CleanMark(trace=visit.at(1).here.trace, by="mei")
        assert visit.place_of(said) == 1


class TestAgreement:
    @pytest.fixture(autouse=True)
    def _said(self, db: Path) -> None:
        for by, words in {
            "ada": [("26/1", "5", "a"), ("7/0", "0", "l"), ("4/2", "--clean")],
            "mei": [("26/1", "3", "l"), ("7/0", "1", "l"), ("4/2", "--clean")],
        }.items():
            for each in words:
                run(db, TAG, "add", *each, by=by)

    def test_each_two_people_with_their_figures_and_where_they_part(self, db: Path) -> None:
        said = run(db, TAG, "list", "--agreement").stdout
        assert "ada and mei say the same class in 2/3 .67 (.21–.94) of their runs, κ .50" in said
        assert "ada: bad args at step 5  mei: loop at step 3  2" in said
        assert "nothing wrong  1     0         0         1.00" in said

    def test_the_same_as_json(self, db: Path) -> None:
        found = as_json(db, "--agreement")
        assert found["people"] == {"ada": 3, "mei": 3}
        (pair,) = found["pairs"]
        assert (pair["n"], pair["independent"], pair["same"]["n"]) == (3, 0, 3)
        assert (pair["exact"]["value"], pair["within_1"]["value"]) == (0.0, 0.5)
        parted = [(each["task"], each["apart"]) for each in found["partings"]]
        assert parted == [("26", 2), ("7", 1)]

    def test_only_what_was_said_blind_is_independent(self, db: Path) -> None:
        said = run(db, TAG, "list", "--agreement", "--blind")
        assert (
            "no two people tagged the same run with a blind second review (ada 3, mei 3)."
            " Try: arc review --blind" in said.stdout
        )
        with open_ledger(db) as store:
            for kept in human_tags(store):
                if (kept.by, kept.failure) == ("mei", FailureClass.LOOP):
                    put_tag(store, Tag(
                        trace=kept.trace, span=kept.span, step=kept.step, by="mei",
                        failure=kept.failure, blind=True,
                    ))  # fmt: skip
        (pair,) = as_json(db, "--agreement", "--blind")["pairs"]
        assert pair["n"] == pair["independent"] == 2

    def test_beside_one_s_own_word_stand_the_others(self, db: Path) -> None:
        with open_ledger(db) as store:
            runs = {each.trace: each.run for each in human_words(store)}
            trace = next(kept.trace for kept in human_tags(store) if kept.step == 5)
            compared = build_compared(store, runs[trace], "mei")
            cleared = build_compared(store, runs[clean_marks(store)[0].trace], "mei")
        assert compared.lines == (
            "you: loop at step 3 · ada: bad args at step 5 · another class, 2 steps apart",
        )
        assert not compared.same
        assert cleared.same


def test_without_a_word_it_says_what_to_do(db: Path) -> None:
    said = run(db, TAG, "list", "--agreement")
    assert "No tags yet. Try: arc review" in said.stdout
