"""The monthly review: what is drawn, what counts as read, when it is due, what it shows."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import cli
from arc_tui.views import monthly_review as view
from replay.errors import ArcError
from replay.statistics import rate
from replay.store import answers
from replay.store.handle import Store
from replay.store.rows import TraceRow, step_rows, trace_rows
from taxonomy.classes import FailureClass
from taxonomy.held_out import hold
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give
from taxonomy.judgements.tags import CleanMark, Tag, mark_clean, put_tag
from taxonomy.metrics.grounding import distance
from taxonomy.monthly_review import (
    CLEAN,
    DAY_NS,
    Draw,
    compare_reading,
    draw,
    draws,
    last_draw,
    reads,
    size_for,
)
from taxonomy.queue import queue
from tests.arc_tui import sample
from tests.arc_tui.sample import FAILED, PASSED
from tests.build import trace

SHORT = trace(sample.PARTS[:4], task="Hi.").spans


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten failed runs that rules suggest a class of, and thirty in which they find nothing."""
    path = tmp_path_factory.mktemp("monthly") / "arc.db"
    for trial in range(10):
        spans = sample.failed_run().spans
        sample.put(path, sample.header("26", str(trial), FAILED), spans, sample.SAID)
    for trial in range(30):
        sample.put(path, sample.header("5", str(trial), PASSED), SHORT, sample.HEALTHY)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "arc.db"))


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with open_ledger(path) as opened:
        yield opened


def rows(store: Store) -> list[TraceRow]:
    return list(trace_rows(store))


def tagged(
    store: Store, run: str, failure: FailureClass, *, by: str = "mei", sub: str | None = None,
    step: int = 0, blind: bool = False,
) -> None:  # fmt: skip
    key = next(row.trace for row in rows(store) if row.run == run)
    span = step_rows(store, key)[step].span
    put_tag(
        store,
        Tag(trace=key, span=span, step=step, failure=failure, by=by, sub=sub, blind=blind),
    )


def cleared(store: Store, run: str, *, by: str = "mei") -> None:
    key = next(row.trace for row in rows(store) if row.run == run)
    mark_clean(store, CleanMark(trace=key, by=by))


def aged(store: Store, days: int) -> Draw:
    """The last draw as if it had been made so many days ago."""
    given = last_draw(store)
    assert given is not None
    older = structs.replace(given, drawn_ns=given.drawn_ns - days * DAY_NS)
    with store.writing() as db:
        db.execute("DELETE FROM setting WHERE name LIKE 'monthly review %'")
    answers.keep(store, f"monthly review {older.drawn_ns:020d}", older)
    return older


class TestDraw:
    @pytest.mark.parametrize(
        ("population", "size"),
        [(0, 0), (12, 12), (50, 50), (51, 50), (1_000, 50), (1_001, 51), (2_000, 100),
         (90_000, 100)],
    )  # fmt: skip
    def test_its_size_is_a_twentieth_within_fifty_and_a_hundred(
        self, population: int, size: int
    ) -> None:
        assert size_for(population) == size

    def test_each_kind_of_run_has_its_share(self, store: Store) -> None:
        made = draw(store, rows(store), size=8, seed="a")
        assert len(made.runs) == 8
        said = Counter(each.said for each in made.runs)
        assert said[CLEAN] == 6
        assert sum(count for word, count in said.items() if word != CLEAN) == 2

    def test_the_same_seed_draws_the_same_and_another_one_others(
        self, path: Path, tmp_path: Path
    ) -> None:
        drawn = []
        for name, seed in (("1", "a"), ("2", "a"), ("3", "b")):
            with open_ledger(Path(shutil.copy(path, tmp_path / f"{name}.db"))) as each:
                drawn.append(draw(each, rows(each)[:: -1 if name == "2" else 1], size=8, seed=seed))
        first, again, other = ([each.run for each in made.runs] for made in drawn)
        assert first == again != other

    def test_it_is_remembered_and_never_draws_a_run_again(self, store: Store) -> None:
        first = draw(store, rows(store), size=25, seed="a")
        second = draw(store, rows(store), size=25, seed="b")
        assert last_draw(store) == second
        assert [each.seed for each in draws(store)] == ["a", "b"]
        assert len(second.runs) == 15
        assert not {each.run for each in first.runs} & {each.run for each in second.runs}
        with pytest.raises(ArcError, match="all 40 that match were drawn before"):
            draw(store, rows(store))

    def test_runs_without_steps_and_of_held_out_tasks_are_not_drawn(
        self, path: Path, store: Store
    ) -> None:
        sample.put(path, sample.header("1", "0", FAILED), trace([]).spans)
        held = hold(store, rows(store)).tasks
        made = draw(store, rows(store), size=100)
        names = {row.run: row.task for row in rows(store)}
        assert held
        assert not {names[each.run] for each in made.runs} & {*held, "1"}
        with pytest.raises(ArcError, match="have no steps, or held-out tasks"):
            draw(store, [row for row in rows(store) if row.task == "1"])


class TestRead:
    def test_a_word_after_the_draw_is_a_reading_and_one_before_is_none(self, store: Store) -> None:
        before = rows(store)[0].run
        cleared(store, before)
        made = draw(store, rows(store), size=40)
        assert reads(store, made) == {}
        cleared(store, made.runs[0].run if made.runs[0].run != before else made.runs[1].run)
        assert len(reads(store, made)) == 1

    def test_a_score_of_a_person_is_one_too_but_not_an_older_score(self, store: Store) -> None:
        old, new, *_ = rows(store)
        give(store, HumanScore(trace=old.trace, span="s", step=0, value=0.5, by="mei"))
        made = draw(store, rows(store), size=40)
        give(store, HumanScore(trace=new.trace, span="s", step=0, value=0.5, by="mei"))
        (read,) = reads(store, made).values()
        assert (read.run, read.said, read.shape) == (new.run, None, None)

    def test_the_first_reader_counts_with_their_earliest_step(self, store: Store) -> None:
        made = draw(store, rows(store), size=40)
        run = next(each.run for each in made.runs if each.said != CLEAN)
        tagged(store, run, FailureClass.LOOP, step=3)
        tagged(store, run, FailureClass.BAD_ARGS, step=1)
        tagged(store, run, FailureClass.GAVE_UP, by="ada")
        read = reads(store, made)[run]
        assert (read.by, read.said, read.blind) == ("mei", "bad args", False)

    def test_a_shape_is_said_by_a_sub_label_and_is_no_class(self, store: Store) -> None:
        made = draw(store, rows(store), size=40)
        run = made.runs[0].run
        tagged(store, run, FailureClass.OTHER, sub="late drift")
        assert (reads(store, made)[run].said, reads(store, made)[run].shape) == (None, "late drift")
        tagged(store, run, FailureClass.LOOP, step=2)
        assert reads(store, made)[run].said == "loop"

    def test_a_shape_is_that_of_three_scores_of_the_reader(self, store: Store) -> None:
        made = draw(store, rows(store), size=40)
        each = made.runs[0]
        for step, value in enumerate((0.9, 0.2, 0.1)):
            give(store, HumanScore(trace=each.trace, span="s", step=step, value=value, by="mei"))
        assert reads(store, made)[each.run].shape == "early collapse"


class TestQueue:
    def test_drawn_runs_come_first_in_their_order_until_read(self, store: Store) -> None:
        made = draw(store, rows(store), size=8)
        waiting = queue(store, "mei").waiting
        assert [each.run for each in waiting[:8]] == [each.run for each in made.runs]
        assert {each.reason for each in waiting[:8]} == {"monthly review"}
        cleared(store, made.runs[0].run, by="ada")
        assert queue(store, "mei").waiting[0].run == made.runs[1].run

    def test_read_blind_they_open_at_the_start(self, store: Store) -> None:
        draw(store, rows(store), size=40)
        blind = queue(store, "mei", blind=True).waiting
        assert len(blind) == 40
        assert {each.step for each in blind} == {0}

    def test_they_wait_no_more_once_the_next_draw_is_due(self, store: Store) -> None:
        draw(store, rows(store), size=8)
        aged(store, 29)
        assert queue(store, "mei").waiting[0].reason == "monthly review"
        aged(store, 1)
        assert "monthly review" not in {each.reason for each in queue(store, "mei").waiting}


class TestDue:
    def test_it_is_due_after_thirty_days(self, store: Store) -> None:
        made = draw(store, rows(store), size=8)
        day = [made.overdue(made.drawn_ns + days * DAY_NS) for days in (0, 29, 30, 42)]
        assert day == [None, None, 0, 12]

    def test_who_never_drew_is_not_reminded(self, store: Store) -> None:
        assert view.overdue(store) == ""
        draw(store, rows(store), size=8)
        assert view.overdue(store) == ""
        aged(store, 42)
        assert view.overdue(store) == (
            "monthly review: due since 12 days. Try: arc review --audit --draw"
        )


class TestShown:
    def test_people_against_rules_and_the_evaluation(self, store: Store) -> None:
        drawn, others = rows(store)[::2], rows(store)[1::2]
        made = draw(store, drawn, size=20)
        wrong = next(each for each in made.runs if each.said != CLEAN)
        for each in made.runs:
            if each is wrong or each.said == CLEAN:
                cleared(store, each.run)
            else:
                tagged(store, each.run, FailureClass(each.said), blind=True)
        found = compare_reading(store, made, others)
        assert (found.read, found.of, found.blind) == (20, 20, 4)
        assert found.classes.same == rate(19, 20)
        assert found.classes.said[CLEAN] + 1 == found.classes.read[CLEAN] == 16
        assert sum(found.classes.evaluated.values()) == len(others)
        assert found.classes.apart == distance(found.classes.evaluated, found.classes.read)

    def test_nothing_read_says_nothing(self, store: Store) -> None:
        found = compare_reading(store, draw(store, rows(store), size=8))
        assert (found.read, found.classes.same.value, found.classes.apart) == (0, None, None)
        assert found.drawn_apart is None

    @pytest.mark.parametrize(
        ("read", "says"),
        [
            (
                60,
                "loop 10 points less than in the evaluation (n = 60 against 60); within 15: alike",
            ),
            (49, "a hint: under 50 runs"),
        ],
    )
    def test_the_articles_thresholds_are_said(self, read: int, says: str) -> None:
        evaluated = {"loop": 24, CLEAN: 36}
        few = round(read * 0.3)
        found = distance(evaluated, {"loop": few, CLEAN: read - few})
        assert found is not None
        assert says in view.apart_text("classes", found, "people")

    def test_twenty_three_points_are_apart_as_in_the_article(self) -> None:
        slow = "steady degradation"
        found = distance({slow: 15, "other": 85}, {slow: 38, "other": 62})
        assert found is not None
        said = view.apart_text("shapes", found, "people")
        assert "steady degradation 23 points more than in the evaluation" in said
        assert "over 20: the evaluation's tasks are not like these runs" in said


def arc(db: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(db), "review", *words])


class TestCommand:
    def test_it_draws_once_and_then_says_how_far_reading_is(self, path: Path, store: Store) -> None:
        first = arc(path, "--audit", "--size", "8", "--seed", "a").stdout
        assert first.startswith("0 of 8 read · drawn ")
        assert "8 of 40 runs drawn, seed a" in first
        given = last_draw(store)
        assert given is not None
        cleared(store, given.runs[0].run)
        again = arc(path, "--audit").stdout
        assert again.startswith("1 of 8 read")
        assert "agreement of people with rules and judges" in again
        assert "0 of 1 read blind" in again
        assert "evaluation: no run matches 'label:arc.golden'" in again
        assert len(draws(store)) == 1

    def test_runs_of_the_evaluation_are_compared_with_and_never_drawn(
        self, path: Path, store: Store
    ) -> None:
        said = json.loads(arc(path, "--audit", "--evaluation", "task=5", "--json").stdout)
        assert {each["stratum"].split(" · ")[0] for each in said["draw"]["runs"]} != {CLEAN}
        names: dict[str, Any] = {row.run: row.task for row in rows(store)}
        assert {names[each["run"]] for each in said["draw"]["runs"]} == {"26"}
        assert sum(said["shown"]["classes"]["evaluated"].values()) == 30

    def test_when_due_it_says_so_and_what_draws_anew(self, path: Path, store: Store) -> None:
        arc(path, "--audit", "--size", "8")
        aged(store, 42)
        said = arc(path, "--audit").stdout
        assert "next draw due since 12 days. Try: arc review --audit --draw" in said
        assert "monthly review: due since 12 days" in arc(path).stderr
        doctor = CliRunner().invoke(cli, ["--db", str(path), "doctor"]).stdout
        assert "monthly review" in doctor
        assert "due since 12 days" in doctor
        assert "0 of 8 read" in arc(path, "--audit", "--draw", "--size", "8").stdout
        assert len(draws(store)) == 2

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--draw",), "need --audit"),
            (("task:5",), "need --audit"),
            (("--audit", "--blind"), "--audit and --blind cannot be combined"),
            (("--audit", "--size", "0"), "0 is not in the range"),
            (("--audit", "nosuchrun"), "No run to draw: none matches"),
            (("--audit", "--evaluation", "nosuch:1"), "unknown field 'nosuch'"),
            (("--audit", "nosuch:1"), "unknown field 'nosuch'"),
        ],
    )
    def test_bad_input_draws_nothing(
        self, path: Path, store: Store, words: tuple[str, ...], says: str
    ) -> None:
        result = arc(path, *words)
        told = result.stderr or str(result.exception)
        assert result.exit_code != 0
        assert says in told
        assert draws(store) == []

    def test_what_belongs_to_a_draw_is_refused_without_one(self, path: Path) -> None:
        arc(path, "--audit", "--size", "8")
        said = arc(path, "--audit", "--size", "9")
        assert "QUERY, --size and --seed are of a new draw: add --draw" in said.stderr
