"""What a person should look at next, in which order, and when a run is done."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from replay.errors import ArcError
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_rows
from replay.trace import Outcome
from taxonomy.calibration.disagreement import audit_sample
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give
from taxonomy.judgements.tags import (
    CleanMark,
    Tag,
    clean_marks,
    human_tags,
    mark_clean,
    put_tag,
    unmark_clean,
)
from taxonomy.queue import Reason, Waiting, queue
from tests.arc_tui import sample
from tests.arc_tui.sample import FAILED, PASSED
from tests.build import trace

SHORT = trace(sample.PARTS[:4], task="Hi.").spans
WARNED = structs.replace(sample.HEALTHY, warnings=("used an id never observed",))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two failed runs, one that passed with a warning, and thirty that just passed."""
    path = tmp_path_factory.mktemp("queue") / "arc.db"
    sample.put(path, sample.header("4", "0", PASSED), SHORT, WARNED)
    sample.put(path, sample.header("26", "1", FAILED), sample.failed_run().spans, sample.SAID)
    for trial in range(30):
        sample.put(path, sample.header("5", str(trial), PASSED), SHORT, sample.HEALTHY)
    sample.put(path, sample.header("7", "0", FAILED), SHORT, sample.HEALTHY)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "arc.db"))


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with open_ledger(path) as opened:
        yield opened


def tagged(store: Store, each: Waiting, by: str, *, step: int = 0, blind: bool = False) -> None:
    span = step_rows(store, each.trace)[step].span
    put_tag(
        store,
        Tag(trace=each.trace, span=span, step=step, failure=FailureClass.LOOP, by=by, blind=blind),
    )


def reasons(store: Store, by: str = "mei", *, blind: bool = False) -> list[tuple[str, Reason]]:
    return [
        (f"{each.task}/{each.trial}", each.reason) for each in queue(store, by, blind=blind).waiting
    ]


class TestOrder:
    @pytest.mark.slow
    def test_failures_come_first_then_warnings_then_the_audit_sample(self, store: Store) -> None:
        drawn = {
            f"{row.task}/{row.trial}"
            for row in trace_rows(store)
            if row.trace in audit_sample(row.trace for row in trace_rows(store))
        }
        found = reasons(store)
        assert found[:3] == [
            ("26/1", "untagged failure"),
            ("7/0", "untagged failure"),
            ("4/0", "passed with warnings"),
        ]
        assert {name for name, _ in found[3:]} == drawn - {"26/1", "7/0", "4/0"} != set()
        assert {reason for _, reason in found[3:]} == {"audit sample"}
        assert found == reasons(store)

    @pytest.mark.slow
    def test_every_run_stands_in_it_once_and_the_kinds_count_what_waits(self, store: Store) -> None:
        found = queue(store, "mei")
        assert len({each.run for each in found.waiting}) == len(found.waiting)
        assert sum(kind.waiting for kind in found.kinds) == len(found.waiting)
        assert [(kind.waiting, kind.of) for kind in found.kinds[:2]] == [(2, 2), (1, 1)]

    def test_a_run_opens_at_its_first_candidate_else_at_its_start(self, store: Store) -> None:
        assert [each.step for each in queue(store, "mei").waiting[:2]] == [3, 0]

    def test_a_run_without_steps_has_nothing_to_tag(self, path: Path, store: Store) -> None:
        sample.put(path, sample.header("1", "0", Outcome(status="failed")), trace([]).spans)
        assert "1/0" not in dict(reasons(store))


class TestDone:
    def test_a_failure_that_anybody_tagged_waits_for_nobody(self, store: Store) -> None:
        tagged(store, queue(store, "mei").waiting[0], "ada")
        assert reasons(store)[0] == ("7/0", "untagged failure")

    def test_a_run_with_nothing_wrong_is_not_offered_again(self, store: Store) -> None:
        for each in queue(store, "mei").waiting:
            mark_clean(store, CleanMark(trace=each.trace, by="mei"))
        assert queue(store, "mei").waiting == ()
        assert {reason for _, reason in reasons(store, "ada")} == {"audit sample"}

    def test_the_audit_sample_waits_for_each_person_and_a_score_is_a_look(
        self, store: Store
    ) -> None:
        drawn = [each for each in queue(store, "mei").waiting if each.reason == "audit sample"]
        first = drawn[0]
        give(store, HumanScore(trace=first.trace, span="s", step=0, value=0.5, by="mei"))
        name = f"{first.task}/{first.trial}"
        assert name not in dict(reasons(store))
        assert name in dict(reasons(store, "ada"))


class TestBlind:
    def test_it_holds_what_others_have_a_word_on_and_this_person_has_not(
        self, store: Store
    ) -> None:
        failed, other, warned, *_ = queue(store, "mei").waiting
        tagged(store, failed, "ada")
        tagged(store, other, "mei")
        mark_clean(store, CleanMark(trace=warned.trace, by="ada"))
        assert reasons(store, blind=True) == [("4/0", "second look"), ("26/1", "second look")]
        assert reasons(store, "ada", blind=True) == [("7/0", "second look")]

    def test_where_it_opens_says_nothing_of_what_the_rules_think(self, store: Store) -> None:
        tagged(store, queue(store, "mei").waiting[0], "ada")
        assert [each.step for each in queue(store, "mei", blind=True).waiting] == [0]

    def test_a_blind_word_stays_one_when_it_is_given_again(self, store: Store) -> None:
        failed = queue(store, "mei").waiting[0]
        tagged(store, failed, "mei", blind=True)
        tagged(store, failed, "mei")
        assert [tag.blind for tag in human_tags(store)] == [True]


class TestClearance:
    def test_a_tag_takes_back_that_nothing_is_wrong(self, store: Store) -> None:
        failed = queue(store, "mei").waiting[0]
        for by in ("mei", "ada"):
            mark_clean(store, CleanMark(trace=failed.trace, by=by))
        tagged(store, failed, "mei")
        assert [each.by for each in clean_marks(store)] == ["ada"]

    def test_nothing_is_wrong_is_refused_of_a_run_that_the_same_person_tagged(
        self, store: Store
    ) -> None:
        failed = queue(store, "mei").waiting[0]
        tagged(store, failed, "mei", step=3)
        with pytest.raises(ArcError, match="mei tagged step 3 of this run loop"):
            mark_clean(store, CleanMark(trace=failed.trace, by="mei"))
        mark_clean(store, CleanMark(trace=failed.trace, by="ada"))

    def test_it_can_be_taken_back_and_a_secret_in_its_note_is_masked(self, store: Store) -> None:
        given = CleanMark(trace="t", by="mei", note="used ghp_" + "a1B2" * 9)
        mark_clean(store, given)
        (kept,) = clean_marks(store)
        assert "[[SECRET:" in (kept.note or "")
        assert unmark_clean(store, given)
        assert not unmark_clean(store, given)
