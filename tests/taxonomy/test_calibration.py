"""Labels against a database of runs whose right answers are known."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from replay.store.handle import Store
from replay.trace import Header, Outcome
from taxonomy.calibration.approval import BANDS, item_agreements
from taxonomy.calibration.disagreement import Disagreement, disagreements, scatters, taken_for
from taxonomy.calibration.labelled import labelled_runs
from taxonomy.calibration.labels import At, Label, place
from taxonomy.calibration.report import Calibration, calibrate
from taxonomy.classes import FailureClass
from taxonomy.findings import Band, Candidate, Diagnosis, Finding, Item, Signal, StepScore
from taxonomy.judge import scores
from taxonomy.judge.scores import Judged
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give
from taxonomy.metrics.agreement import Detection
from taxonomy.step_scores import GROUNDED, VERIFIED
from tests.arc_tui.sample import put
from tests.build import step, trace

STEPS = 8
BAND = Band(low=0.6, runs=30)
SIGN = Signal(name="first error", weight=1.0, phrase="failed")


def said(
    *candidates: int,
    found: tuple[tuple[FailureClass, int], ...] = (),
    scores: tuple[float, ...] = (),
    published: int | None = None,
    band: Band | None = None,
) -> Diagnosis:
    """What the rules say of a run of eight steps."""
    return Diagnosis(
        trace="",
        shape=None,
        published=published,
        candidates=tuple(
            Candidate(step=at, weight=1.0, why="failed", signals=(SIGN,), band=band)
            for at in candidates
        ),
        findings=tuple(
            Finding(failure=failure, step=at, why="seen", rule="made") for failure, at in found
        ),
        scores=tuple(
            StepScore(step=at, value=value, source="rule", by="made")
            for at, value in enumerate(scores)
        ),
    )


LOOP, GAVE_UP, BAD_ARGS = FailureClass.LOOP, FailureClass.GAVE_UP, FailureClass.BAD_ARGS

RUNS = {
    "hit": said(3, 5, found=((LOOP, 3),), scores=(0.9, 0.9, 0.8, 0.2, 0.3, 0.3, 0.2, 0.1),
                published=3, band=BAND),
    "near": said(5, 4, found=((LOOP, 5), (BAD_ARGS, 1)), band=BAND, published=6,
                 scores=(0.9, 0.4, 0.8, 0.7, 0.1, 0.2, 0.3, 0.3)),
    "silent": said(scores=(0.9,) * 8),
}  # fmt: skip
"""A run whose first candidate is right, one that is off by one, one without a candidate."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibration") / "arc.db"
    parts = [step(f"Step {at}.") for at in range(STEPS)]
    for name, diagnosis in RUNS.items():
        head = Header(
            format="built", source_id=name, path=f"/runs/{name}.json", outcome=Outcome(),
            labels={"category": "even" if name == "hit" else "odd"},
        )  # fmt: skip
        put(path, head, trace(parts, task=name).spans, diagnosis)
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Iterator[Store]:
    with open_ledger(shutil.copy(made, tmp_path / "arc.db")) as opened:
        yield opened


def at(run: str, place_: int | None = None, **more: object) -> Label:
    label = Label(trace=f"{run}.json", at=None if place_ is None else At(step=place_), by="mei")
    return structs.replace(label, **more)


DECISIVE = (
    at("hit", 3, decisive=True, classes=(LOOP,)),
    at("near", 4, decisive=True, classes=(LOOP,)),
    at("near", 0, decisive=True, strength="weak"),
    at("silent", 2, decisive=True, classes=(GAVE_UP,), note="stops short"),
)


def measured(store: Store, *labels: Label) -> tuple[Calibration, tuple[Disagreement, ...]]:
    placed, unusable = place(store, labels)
    assert unusable == ()
    runs = labelled_runs(store, placed)
    return calibrate("people", runs), disagreements(runs)


def row(figures: Calibration, per: str, failure: FailureClass) -> Detection:
    table = next(table for table in figures.classes if table.per == per)
    return next(row for row in table.rows if row.name == failure.value)


class TestWhereItBroke:
    def test_candidates_stand_beside_the_published_rule_and_the_first_bad_score(
        self, store: Store
    ) -> None:
        figures, _ = measured(store, *DECISIVE)
        exact = {each.name: each.over_all.exact.value for each in figures.localisation}
        assert exact == pytest.approx(
            {"candidates": 1 / 3, "published rule": 1 / 3, "first score under 0.5 · made": 1 / 3}
        )
        ours = figures.localisation[0]
        assert ours.abstained.value == pytest.approx(1 / 3)
        assert ours.over_all.top_3.value == pytest.approx(2 / 3)
        assert ours.over_answered.within_1.value == 1.0
        assert ours.over_answered.mean_distance == 0.5

    def test_a_blind_constant_is_fitted_to_the_labels_themselves(self, store: Store) -> None:
        figures, _ = measured(store, *DECISIVE)
        known = figures.baselines
        assert known is not None
        assert known.constant.exact.value == pytest.approx(1 / 3)
        assert known.constant.within_1.value == 1.0  # step 3 is next to 2 and to 4

    def test_several_decisive_rows_are_alternatives_of_one_run(self, store: Store) -> None:
        figures, _ = measured(store, *DECISIVE)
        assert (figures.labels, figures.runs, figures.decisive, figures.weak) == (4, 3, 3, 1)

    def test_labels_without_a_decisive_step_measure_no_place(self, store: Store) -> None:
        figures, _ = measured(store, at("hit", 3, classes=(LOOP,)), at("near", decisive=True))
        assert figures.decisive == 0
        assert figures.baselines is None
        assert figures.localisation == ()

    def test_what_first_candidates_state_is_held_against_how_often_they_were_right(
        self, store: Store
    ) -> None:
        figures, _ = measured(store, *DECISIVE)
        (band,) = figures.stated
        assert (band.low, band.right.value, band.right.n, band.holds) == (0.6, 0.5, 2, False)


class TestWhichClass:
    def test_a_run_shows_a_class_or_not(self, store: Store) -> None:
        figures, _ = measured(store, *DECISIVE)
        loop, gave_up, args = (row(figures, "run", each) for each in (LOOP, GAVE_UP, BAD_ARGS))
        assert (loop.tp, loop.fp, loop.fn, loop.tn) == (2, 0, 0, 1)
        assert (gave_up.tp, gave_up.fn) == (0, 1)
        assert (args.fp, args.tn) == (1, 2)

    def test_a_step_shows_a_class_only_where_it_stands(self, store: Store) -> None:
        figures, _ = measured(store, *DECISIVE)
        loop = row(figures, "step", LOOP)
        assert (loop.tp, loop.fp, loop.fn, loop.tn) == (1, 1, 1, 3 * STEPS - 3)

    def test_each_run_stands_where_its_label_meets_what_was_found(self, store: Store) -> None:
        placed, _ = place(store, DECISIVE)
        found = taken_for(labelled_runs(store, placed), "rule")
        assert found is not None
        assert found.rows == found.columns == ("bad args", "gave up", "loop", "none")
        cells = {
            (one, other): count
            for one, counts in zip(found.rows, found.counts, strict=True)
            for other, count in zip(found.columns, counts, strict=True)
            if count
        }
        assert cells == {("loop", "loop"): 2, ("none", "bad args"): 1, ("gave up", "none"): 1}

    def test_no_label_of_a_class_is_no_table(self, store: Store) -> None:
        placed, _ = place(store, [at("hit", 3, decisive=True)])
        assert taken_for(labelled_runs(store, placed), "rule") is None

    def test_the_mean_over_labelled_classes_leaves_out_what_was_only_found(
        self, store: Store
    ) -> None:
        figures, _ = measured(store, *DECISIVE)
        table = figures.classes[0]
        assert (table.macro_labelled.value, table.macro_labelled.classes) == (0.5, 2)
        assert table.macro_all.value == pytest.approx(1 / 3)
        assert table.macro_all.classes == 3

    def test_a_label_that_says_none_is_a_verdict_and_one_that_says_nothing_is_not(
        self, store: Store
    ) -> None:
        figures, _ = measured(store, at("hit", classes=()), at("near", 1, score=0.5))
        assert figures.classes[0].n == 1
        assert row(figures, "run", LOOP).fp == 1
        assert [table.per for table in figures.classes] == ["run"]

    def test_a_hint_is_not_a_finding(self, store: Store) -> None:
        key = store.db.execute("SELECT key FROM trace WHERE source_id = 'silent'").fetchone()[0]
        hint = Finding(failure=GAVE_UP, step=2, why="might have", rule="made", confidence=0.3)
        diagnosis = structs.replace(RUNS["silent"], trace=key, findings=(hint,))
        diagnoses.keep(store, diagnosis, {})
        figures, _ = measured(store, *DECISIVE)
        assert row(figures, "run", GAVE_UP).tp == 0
        assert [each.right.n for each in figures.findings.bins] == [1]


class TestWhichScore:
    HUMAN = (0.9, 0.9, 0.9, 0.3, 0.3, 0.1, 0.1, 0.1)

    def labels(self) -> list[Label]:
        return [at("hit", place_, score=score) for place_, score in enumerate(self.HUMAN)]

    def test_people_s_scores_are_paired_with_those_of_the_same_step(self, store: Store) -> None:
        figures, _ = measured(store, *self.labels(), at("near", 4, score=0.2))
        together, even, odd = figures.scores
        assert (together.by, together.category, together.r.n) == ("made", None, 9)
        assert (together.r.value or 0) > 0.9
        assert [even.category, odd.category] == ["even", "odd"]
        assert (even.achieved.tp, even.achieved.tn) == (3, 5)
        (gate,) = figures.gates
        assert gate.missing == (
            "odd: 1 of at least 5 labels",
            "odd: labels in 1 of at least 3 bands (not achieved)",
        )
        assert gate.covers("even")

    def test_a_step_that_two_people_scored_is_one_pair_with_the_mean_of_theirs(
        self, store: Store
    ) -> None:
        both = [at("hit", place_, score=score - 0.1, by="ravi")
                for place_, score in enumerate(self.HUMAN)]  # fmt: skip
        alone, _ = measured(store, *self.labels())
        figures, _ = measured(store, *self.labels(), *both)
        assert figures.labels == 16
        assert figures.scores[0].r.n == alone.scores[0].r.n == 8
        assert figures.scores[0].r.value == pytest.approx(alone.scores[0].r.value)
        assert figures.scores[0].bias == pytest.approx(alone.scores[0].bias + 0.05)

    def test_the_picture_holds_every_pair_that_the_figures_are_over(self, store: Store) -> None:
        placed, _ = place(store, [*self.labels(), at("near", 4, score=0.2)])
        runs = labelled_runs(store, placed)
        (found,) = scatters(runs)
        assert (found.by, found.source, len(found.pairs)) == ("made", "rule", 9)
        assert found.bands.rows == found.bands.columns == BANDS
        assert sum(map(sum, found.bands.counts)) == 9
        assert found.bands.counts[-1][-1] == 2  # people's .9 beside .9, .9; .8 is a band lower
        assert {pair.category for pair in found.pairs} == {"even", "odd"}

    def test_a_score_of_the_run_is_held_against_the_mean_of_its_steps(self, store: Store) -> None:
        figures, (found,) = measured(store, at("silent", score=0.4))
        assert figures.scores[0].bias == pytest.approx(0.5)
        assert found.step is None
        assert found.off == pytest.approx(0.5)

    def test_what_people_said_in_the_database_is_no_rater_of_itself(self, store: Store) -> None:
        placed, _ = place(store, [at("hit", 3, score=0.1)])
        given = HumanScore(trace=placed[0].trace, span="s", step=3, value=0.1, by="mei")
        give(store, given)
        figures, _ = measured(store, at("hit", 3, score=0.1))
        assert [each.by for each in figures.scores] == ["made"]


class TestWhichItem:
    """The judge answers two items of run `hit`; a person answers them too, here and there."""

    BY = "judge:window:m:1-aaaaaaaa"

    def judge(self, store: Store, *answers: tuple[str, bool | None]) -> None:
        """The judge's answer to an item at step 0, 1, …"""
        placed, _ = place(store, [at("hit")])
        given = [
            Judged(
                step=step,
                span=f"s{step}",
                samples=(0.5,),
                items=(Item(name=name, held=held, because="seen"),),
            )
            for step, (name, held) in enumerate(answers)
        ]
        scores.keep(store, placed[0].trace, self.BY, given)

    def test_an_item_has_its_own_kappa_true_positive_and_true_negative_rate(
        self, store: Store
    ) -> None:
        answers = (True, True, True, False, False, True, None)
        people = (True, True, True, False, False, False, True)
        self.judge(store, *((GROUNDED, each) for each in answers))
        labels = [at("hit", step, items={GROUNDED: held}) for step, held in enumerate(people)]
        placed, _ = place(store, labels)
        (found,) = item_agreements(labelled_runs(store, placed))
        assert (found.by, found.item, found.labels, found.undecided) == (self.BY, GROUNDED, 7, 1)
        assert (found.yes.value, found.agreed.value) == (3 / 6, 5 / 6)
        assert (found.held.recall.value, found.held.recall.n) == (1.0, 3)
        assert (found.held.specificity.value, found.held.specificity.n) == (2 / 3, 3)
        assert found.held.kappa.value == pytest.approx(2 / 3)

    def test_an_answer_of_two_people_counts_once_and_not_at_all_where_they_differ(
        self, store: Store
    ) -> None:
        self.judge(store, *((GROUNDED, True) for _ in range(3)))
        answers = {0: (True, True), 1: (True, False), 2: (False, False)}
        labels = [
            at("hit", step, items={GROUNDED: held}, by=by)
            for step, said in answers.items()
            for by, held in zip(("mei", "ravi"), said, strict=True)
        ]
        placed, _ = place(store, labels)
        (found,) = item_agreements(labelled_runs(store, placed))
        assert (found.labels, found.yes.value, found.agreed.value) == (2, 0.5, 0.5)

    def test_an_item_that_a_source_never_answers_is_none_of_its_items(self, store: Store) -> None:
        self.judge(store, (GROUNDED, True), (GROUNDED, False))
        labels = [at("hit", 0, items={GROUNDED: True, VERIFIED: True})]
        placed, _ = place(store, labels)
        assert [each.item for each in item_agreements(labelled_runs(store, placed))] == [GROUNDED]

    def test_answers_that_part_are_disagreements_with_their_reason(self, store: Store) -> None:
        self.judge(store, (GROUNDED, True), (GROUNDED, False))
        labels = [at("hit", step, items={GROUNDED: False}, note="made up") for step in (0, 1)]
        _, (found,) = measured(store, *labels)
        assert (found.about, found.step, found.note) == ("item", 0, "made up")
        assert found.labelled == "arguments grounded: no"
        assert found.found == f"yes (seen) · {self.BY}"

    def test_an_answer_alone_is_no_score(self, store: Store) -> None:
        self.judge(store, (GROUNDED, True))
        figures, _ = measured(store, at("hit", 0, items={GROUNDED: True}))
        assert (figures.scores, figures.gates, figures.classes) == ((), (), ())


class TestDisagreements:
    def test_the_worst_come_first_each_with_its_step_and_note(self, store: Store) -> None:
        _, found = measured(store, *DECISIVE, at("hit", 0, score=0.1), at("near", 0, score=0.8))
        told = [(each.about, each.step, each.off and round(each.off, 2)) for each in found]
        assert told == [
            ("break", 4, 1),
            ("break", 2, None),
            ("class", 2, None),
            ("class", 1, None),
            ("score", 0, 0.8),
            ("score", 0, 0.1),
        ]
        assert found[1].found == "no candidate"
        assert found[1].note == "stops short"
        assert found[3].labelled == "not labelled"
        assert found[3].found.startswith("bad args")

    def test_agreement_is_no_disagreement(self, store: Store) -> None:
        label = at("hit", 3, decisive=True, classes=(LOOP,), score=0.2)
        assert measured(store, label)[1] == ()
