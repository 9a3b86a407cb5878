"""`arc tag` and `arc tags` as they are typed: the queue, nothing wrong, agreement of people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.features.tagging import tag, tags
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
    return json.loads(run(db, tags, *arguments, "--json", by=by).stdout)


class TestTag:
    def test_whose_doing_it_was_is_said_and_kept(self, db: Path) -> None:
        said = run(db, tag, "26/1", "3", "loop", "--fault", "harness")
        assert "step 3: loop, the harness's doing" in said.stdout
        with open_ledger(db) as store:
            assert [each.fault for each in human_tags(store)] == [Attribution.HARNESS]

    def test_nothing_wrong_is_kept_listed_and_taken_back(self, db: Path) -> None:
        assert "nothing wrong" in run(db, tag, "4/2", "--nothing-wrong", "--note", "fine").stdout
        (kept,) = as_json(db, "--nothing-wrong")
        assert (kept["by"], kept["note"], kept["blind"]) == ("mei", "fine", False)
        assert "fine" in run(db, tags, "--nothing-wrong").stdout
        assert run(db, tag, "4/2", "--nothing-wrong", "--remove").return_value == 0
        assert run(db, tags, "--nothing-wrong").return_value == 1

    def test_undo_takes_back_one_word_after_the_other_the_last_first(self, db: Path) -> None:
        run(db, tag, "26/1", "3", "loop")
        run(db, tag, "26/1", "4", "wrong tool")
        run(db, tag, "4/2", "--nothing-wrong")
        assert "nothing wrong: taken back" in run(db, tag, "--undo").stdout
        assert run(db, tag, "--undo").stdout.endswith("step 4: wrong tool: taken back\n")
        with open_ledger(db) as store:
            assert [each.step for each in human_tags(store)] == [3]
        assert run(db, tag, "--undo").return_value == 0
        assert run(db, tag, "--undo").return_value == 1, "there is none left"

    def test_undo_leaves_the_words_of_others(self, db: Path) -> None:
        run(db, tag, "26/1", "3", "loop")
        with open_ledger(db) as store:
            (own,) = human_tags(store)
            put_tag(store, structs.replace(own, by="ada"))
        assert run(db, tag, "--undo").return_value == 0
        assert run(db, tag, "--undo").return_value == 1
        with open_ledger(db) as store:
            assert [each.by for each in human_tags(store)] == ["ada"]

    @pytest.mark.parametrize("words", [("26/1",), ("--note", "x"), ("--remove",)])
    def test_undo_stands_alone(self, words: tuple[str, ...], db: Path) -> None:
        with pytest.raises(click.UsageError, match="stands alone"):
            run(db, tag, "--undo", *words)

    def test_what_cannot_both_be_meant_is_refused(self, db: Path) -> None:
        run(db, tag, "26/1", "3", "loop")
        with pytest.raises(ArcError, match="take that tag back"):
            run(db, tag, "26/1", "--nothing-wrong")

    @pytest.mark.parametrize(
        "words", [("3",), (), ("3", "loop", "--nothing-wrong"), ("3", "--nothing-wrong")]
    )
    def test_a_step_with_its_class_or_nothing_wrong_alone(
        self, db: Path, words: tuple[str, ...]
    ) -> None:
        with pytest.raises(click.UsageError, match="give a STEP and a CLASS"):
            run(db, tag, "26/1", *words)


class TestQueue:
    def test_it_says_how_many_are_left_and_lists_them_in_order(self, db: Path) -> None:
        lines = run(db, tags, "--queue").stdout.splitlines()
        assert lines[0] == (
            "5 runs left for mei: untagged failure 3 of 3 · passed with warnings 1 of 1"
            " · audit sample 1 of 1"
        )
        assert [line.split()[1:4] for line in lines[2:4]] == [
            ["26", "1", "failed"], ["7", "0", "failed"],
        ]  # fmt: skip
        run(db, tag, "26/1", "3", "loop")
        assert "4 runs left" in run(db, tags, "--queue").stdout

    def test_the_same_as_json(self, db: Path) -> None:
        found = as_json(db, "--queue")
        assert (found["by"], found["blind"], found["waiting"][0]["step"]) == ("mei", False, 3)
        assert found["kinds"][0] == {"reason": "untagged failure", "waiting": 3, "of": 3}

    def test_the_blind_one_does_not_say_who_tagged_what(self, db: Path) -> None:
        assert run(db, tags, "--queue", "--blind").return_value == 1
        run(db, tag, "26/1", "3", "loop", by="ada")
        said = run(db, tags, "--queue", "--blind").stdout
        assert "1 run left for mei: second look 1 of 1" in said
        assert "ada" not in said
        assert "loop" not in said

    def test_one_question_at_a_time(self, db: Path) -> None:
        for words in (("--queue", "--agreement"), ("--queue", "loop")):
            with pytest.raises(click.UsageError, match="ask one of them"):
                run(db, tags, *words)
        with pytest.raises(click.UsageError, match="--blind goes with"):
            run(db, tags, "--blind")


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
            "ada": [("26/1", "5", "a"), ("7/0", "0", "l"), ("4/2", "--nothing-wrong")],
            "mei": [("26/1", "3", "l"), ("7/0", "1", "l"), ("4/2", "--nothing-wrong")],
        }.items():
            for each in words:
                run(db, tag, *each, by=by)

    def test_each_two_people_with_their_figures_and_where_they_part(self, db: Path) -> None:
        said = run(db, tags, "--agreement").stdout
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
        said = run(db, tags, "--agreement", "--blind")
        assert said.return_value == 1
        assert "no two people have a word on the same run with a blind second word" in said.stdout
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
    said = run(db, tags, "--agreement")
    assert said.return_value == 1
    assert "nobody has tagged a run here: arc tags --queue says what waits" in said.stdout
