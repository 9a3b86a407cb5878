"""The calibration screen: what it says of bundled runs held against labels, and its keys."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from arc_tui import importing
from arc_tui.app import ArcApp
from arc_tui.features.calibration.pages import (
    break_page,
    classes_page,
    missing_page,
    noise_lines,
    reliability,
)
from arc_tui.features.calibration.score_pages import AXIS, MANY, scatter, scores_page
from arc_tui.features.calibration.screen import CalibrationScreen
from arc_tui.features.calibration.tables import Column, Line, table_lines, text
from arc_tui.features.calibration.text import basis, sentence
from arc_tui.features.calibration.view import CalibrationState, build_state
from arc_tui.features.calibration.widgets import BREAK, CLASSES, NOTES, SCORES, WORST
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.places import fixtures
from replay.statistics import rate
from replay.store.handle import Store, now_ns
from replay.store.rows import step_rows, trace_row
from taxonomy.calibration.approval import Pair, trust
from taxonomy.calibration.noise import Cell, noise_table
from taxonomy.classes import FailureClass
from taxonomy.findings import Band, Candidate, Diagnosis, Finding, Item, StepScore
from taxonomy.judge import scores
from taxonomy.judge.scores import Judged
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give
from taxonomy.judgements.tags import Tag, put_tag
from taxonomy.metrics.agreement import confusion
from taxonomy.metrics.agreement import reliability as bins
from tests.screen import matches_golden, rows, settle
from tests.screen import text as drawn

EXPECTED: Mapping[str, Any] = json.loads((fixtures() / "expected.json").read_text())["traces"]
FAILED = [name for name in EXPECTED if EXPECTED[name]["decisive_step"] is not None]
JUDGE = scores.ScoreSet(mode="step", model="claude-x", rubric="3").by
SIZES = [(80, 24), (120, 40)]

Opened = tuple[Pilot[None], CalibrationScreen]


class CalibrationApp(ArcApp):
    """The app over a blank screen."""

    def get_default_screen(self) -> Screen[None]:
        return Screen()


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundled runs with hand-made diagnoses, so that no picture rests on what the rules say today,
    and a judge's scores."""
    path = tmp_path_factory.mktemp("db") / "arc.db"
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in EXPECTED]
        for _ in importing.import_paths(store, files):
            pass
        for name in EXPECTED:
            key = trace_row(store, name).trace
            steps = step_rows(store, key)
            diagnoses.keep(
                store, said_of(key, name, len(steps)), {row.step: row.span for row in steps}
            )
            put_judge(store, name, JUDGE)
    return path


def put_judge(store: Store, name: str, by: str, milder: float = 0.0) -> None:
    """A judge's scores of every step of a run."""
    key = trace_row(store, name).trace
    judged = [
        Judged(step=row.step, span=row.span,
               samples=(min(judges(name, row.step) + milder, 1.0),))
        for row in step_rows(store, key)
    ]  # fmt: skip
    scores.keep(store, key, by, judged)


def said_of(key: str, name: str, steps: int) -> Diagnosis:
    """Rules that are often right, sure of themselves where they are, and blind to `other`."""
    place, known = list(EXPECTED).index(name), EXPECTED[name]
    broke = known["decisive_step"]
    guess = 0 if broke is None else min(broke + (0, 0, 0, 1, 4)[place % 5], steps - 1)
    found = [FailureClass(each.replace("_", " ")) for each in known["classes"]]
    found = [each for each in found if each.value != "other"][: 1 + place % 2]
    if place % 8 == 3:
        found = [FailureClass.WRONG_TOOL]
    confident = 0.25 if guess != broke or place % 4 == 0 else 0.55
    candidate = Candidate(
        step=guess,
        weight=1.0,
        why="an error came back",
        signals=(),
        band=Band(low=confident, runs=30),
    )
    return Diagnosis(
        trace=key,
        shape=None,
        scores=tuple(
            StepScore(step=step, value=(0.25, 0.5, 1.0, 1.0)[(place + step) % 4], source="rule",
                      by="rubric")
            for step in range(steps)
        ),
        findings=tuple(
            Finding(failure=each, step=guess, why=f"looks like {each.value}", rule="made",
                    confidence=0.8)
            for each in found
        ),
        candidates=(candidate,) if place % 7 else (),
        published=place % 3 or None,
    )  # fmt: skip


@pytest.fixture
def db(bundled: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    copy = tmp_path / "arc.db"
    copy.write_bytes(bundled.read_bytes())
    return copy


def people_say(name: str, step: int) -> float:
    """A score of a step: well before the break, bad at it, middling after it."""
    broke = EXPECTED[name]["decisive_step"]
    if broke is None or step < broke:
        return 0.9 if step % 2 else 1.0
    return 0.1 if step == broke else (0.4, 0.7)[step % 2]


def judges(name: str, step: int) -> float:
    """A judge that is mostly near people, a little milder, and sometimes far off."""
    off = (0.1, 0.0, -0.1, 0.05, 0.0, 0.5)[(len(name) + step) % 6]
    return min(max(round(people_say(name, step) + off, 2), 0.0), 1.0)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """People's labels of every run, a rule's of three; two lines are of no use."""
    lines: list[dict[str, Any]] = []
    for name in EXPECTED:
        broke = EXPECTED[name]["decisive_step"]
        lines.append({"trace": name, "class": EXPECTED[name]["classes"], "by": "mei"})
        if broke is not None:
            lines.append({"trace": name, "at": {"step": broke}, "decisive": True, "by": "mei"})
    for name in FAILED[:9]:
        lines += [
            {"trace": name, "at": {"step": step}, "score": people_say(name, step), "by": "mei"}
            for step in range(4)
        ]
    lines += [{"trace": name, "class": ["loop"], "by": "mechanical"} for name in FAILED[:3]]
    lines.append({"trace": "traces/absent.jsonl", "class": []})
    return written(tmp_path / "shop.jsonl", lines, "oops")


def written(path: Path, lines: Sequence[Mapping[str, Any]], *more: str) -> Path:
    path.write_text("\n".join([*map(json.dumps, lines), *more]))
    return path


@asynccontextmanager
async def opened(
    db: Path, labels: Path | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Opened]:
    app = CalibrationApp(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = CalibrationScreen(db, labels)
        app.push_screen(screen)
        await settle(pilot)
        yield pilot, screen


async def turned(pilot: Pilot[None], screen: CalibrationScreen, tab: int) -> str:
    """The screen with another page in front."""
    screen.tab = tab
    await settle(pilot)
    return drawn(pilot.app)


# --- what it looks like


PAGES = {BREAK: "break", CLASSES: "classes", SCORES: "scores", WORST: "worst", NOTES: "notes"}


@pytest.mark.pilot
@pytest.mark.parametrize("size", SIZES)
async def test_the_pages_look_like_this(db: Path, labels: Path, size: tuple[int, int]) -> None:
    async with opened(db, labels, size) as (pilot, screen):
        for tab, name in PAGES.items():
            await turned(pilot, screen, tab)
            matches_golden(pilot.app, f"calibration_{name}_{size[0]}x{size[1]}")


@pytest.mark.pilot
async def test_it_looks_like_this_before_anyone_said_anything(db: Path) -> None:
    async with opened(db, None, (80, 24)) as (pilot, screen):
        matches_golden(pilot.app, "calibration_empty_80x24")
        for tab in PAGES:
            assert "arc label" in await turned(pilot, screen, tab) or tab == NOTES


@pytest.mark.pilot
async def test_a_wide_terminal_and_the_light_theme_draw_it_too(db: Path, labels: Path) -> None:
    async with opened(db, labels, (160, 48)) as (pilot, screen):
        pilot.app.theme = "arc-light"
        said = await turned(pilot, screen, SCORES)
        assert "judge claude-x (step) ↑ over people →" in said
        assert "people's bands (down)" in said


# --- what it says


def state_of(db: Path, labels: Path | None) -> CalibrationState:
    with open_ledger(db) as store:
        return build_state(store, labels, 0)


def page(lines: Sequence[Line]) -> str:
    return "\n".join(map(text, lines))


def test_the_first_line_is_what_a_person_in_a_hurry_needs(db: Path, labels: Path) -> None:
    state = state_of(db, labels)
    said = sentence(state, state.parts[0])
    assert re.match(r"The first candidate is the labelled step in \d+ of 16 runs, \.\d", said)
    assert "naive baselines: at best .50 and .94." in said
    assert re.search(r"Judge claude-x \(step\): r \.8\d \(\.\d\d–\.\d\d\), passes: ‹cal", said)


def test_people_s_labels_and_a_rule_s_are_never_in_one_figure(db: Path, labels: Path) -> None:
    state = state_of(db, labels)
    people, rule = state.parts
    assert "per run · by rule · 24 runs" in page(classes_page(state, people, 100, str))
    assert "per run · by rule · 3 runs" in page(classes_page(state, rule, 100, str))
    assert sentence(state, rule).startswith("Conformance to a rule's labels, not accuracy.")
    assert "by people · ‹calibration.view› shows a rule's" in basis(state, people)


def test_scores_given_in_the_database_are_labels_like_a_file_s(db: Path) -> None:
    with open_ledger(db) as store:
        for name in FAILED[:2]:
            key = trace_row(store, name).trace
            for row in step_rows(store, key)[:3]:
                given = people_say(name, row.step)
                give(store, HumanScore(
                    trace=key, span=row.span, step=row.step, value=given, by="mei"
                ))  # fmt: skip
    state = state_of(db, None)
    [part] = state.parts
    assert "6 scores by both" in page(scores_page(state, part, 0, 100, 30, str))
    assert "No label names the decisive step" in page(break_page(part.part.figures, 100))
    assert "No label names a class" in page(classes_page(state, part, 100, str))


def test_rubric_items_have_figures_and_a_verdict_of_their_own(db: Path, tmp_path: Path) -> None:
    window = scores.ScoreSet(mode="window", model="claude-x", rubric="2").by
    answers = []
    with open_ledger(db) as store:
        for place, name in enumerate(FAILED):
            row = step_rows(store, trace_row(store, name).trace)[0]
            item = Item(name="arguments grounded", held=place % 2 == 0)
            judged = Judged(step=0, span=row.span, samples=(float(place % 2 == 0),), items=(item,))
            scores.keep(store, row.trace, window, [judged])
            said = {"arguments grounded": place % 2 == 0}
            answers.append({"trace": name, "at": {"step": 0}, "items": said})
    state = state_of(db, written(tmp_path / "items.jsonl", answers))
    [part] = state.parts
    through = "Judge claude-x (window): 1 of 1 rubric item pass, passes: ‹calibration.keep›"
    assert f"{through} approves it." in sentence(state, part)
    shown = page(scores_page(state, part, 0, 120, 30, str))
    assert "no step scored by both" in shown
    assert "arguments grounded: passes: ‹calibration.keep› approves it" in shown


def test_a_judge_of_another_version_stands_beside_the_one_before(db: Path, labels: Path) -> None:
    newer = scores.ScoreSet(mode="step", model="claude-x", rubric="4").by
    with open_ledger(db) as store:
        for name in FAILED[:9]:
            put_judge(store, name, newer, milder=0.2)
    state = state_of(db, labels)
    said = page(scores_page(state, state.parts[0], 0, 120, 30, str))
    assert "source 1 of 3" in said
    assert f"changed: {JUDGE} → {newer}" in said
    assert f"! {newer}: never calibrated; its scores are not used" in said


def test_people_s_agreement_stands_beside_that_of_the_rules(db: Path) -> None:
    with open_ledger(db) as store:
        for by in ("mei", "ravi"):
            for name in FAILED[:3]:
                row = step_rows(store, trace_row(store, name).trace)[0]
                put_tag(store, Tag(trace=row.trace, span=row.span, step=0,
                                             failure=FailureClass.LOOP, by=by))  # fmt: skip
    state = state_of(db, None)
    assert "agreement of people" in page(classes_page(state, state.parts[0], 120, str))


def test_labels_that_point_nowhere_are_told_with_their_reasons(db: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.jsonl", [{"trace": "else\x1b[31mwhere", "class": []}])
    state = state_of(db, other)
    assert sentence(state, None) == "None of the 1 label of other.jsonl matches a run here."
    said = page(missing_page(state, 80, str))
    assert "where matches no run of this database" in said
    assert "\x1b" not in said


def test_the_picture_holds_every_pair_that_the_figures_are_over(db: Path, labels: Path) -> None:
    people, rule = state_of(db, labels).parts
    assert (people.made_by, rule.made_by) == ("people", "rule")
    assert not rule.scorers
    assert people.scorers[0].by == JUDGE
    for scorer in people.scorers:
        assert scorer.scatter is not None
        assert len(scorer.scatter.pairs) == scorer.agreements[0].r.n


# --- pictures


SCORE = st.floats(0, 1)


@given(st.lists(st.tuples(SCORE, SCORE), max_size=40))
def test_the_scatter_shows_every_point(points: list[tuple[float, float]]) -> None:
    lines = scatter([Pair(*point) for point in points], 30, 12)[:12]
    drawn_ = "".join(text(line)[AXIS:] for line in lines)
    shown = sum(QUARTERS_SHOWN.count(mark) for mark in drawn_)
    shown += sum(int(mark) for mark in drawn_ if mark.isdigit())
    many = drawn_.count(MANY)
    assert shown == len(points) if not many else shown + 10 * many <= len(points)


QUARTERS_SHOWN = "▘▝▖▗"


def test_the_scatter_has_people_across_and_the_other_up() -> None:
    lines = [text(line) for line in scatter([Pair(1.0, 0.0), Pair(0.0, 1.0)], 20, 10)]
    assert lines[0][AXIS] == "▘"
    assert lines[9][AXIS + 19] == "▗"
    assert (lines[0][:AXIS].strip(), lines[9][:AXIS].strip()) == ("1 ┤", "0 ┤")


@pytest.mark.parametrize(
    ("stated", "right", "n", "said"),
    [(0.5, 10, 20, "holds"), (0.9, 2, 20, "overconfident"), (0.1, 18, 20, "underconfident"),
     (0.9, 1, 2, "inconclusive")],
)  # fmt: skip
def test_a_confidence_is_told_as_what_it_is(stated: float, right: int, n: int, said: str) -> None:
    claims = [(stated, place < right) for place in range(n)]
    _, _, line, _ = reliability("candidate", bins(claims))
    assert text(line).endswith(said)
    assert f"{right}/{n}" in text(line)


def test_a_narrow_table_leaves_out_what_is_spared_first() -> None:
    columns = (Column(title="a"), Column(title="b", spare=2), Column(title="c", spare=1))
    rows_ = [("x" * 10, "y" * 10, "z" * 10)]
    assert "y" in text(table_lines(columns, rows_, 40)[1])
    assert text(table_lines(columns, rows_, 25)[1]).split() == ["x" * 10, "z" * 10]
    assert text(table_lines(columns, rows_, 12)[1]).split() == ["x" * 10]


# --- keys


async def press(pilot: Pilot[None], *keys: str) -> str:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
    return drawn(pilot.app)


@pytest.mark.pilot
async def test_keys_turn_pages_change_labels_and_scores(db: Path, labels: Path) -> None:
    async with opened(db, labels) as (pilot, screen):
        for key, tab in (("3", SCORES), ("tab", WORST), ("shift+tab", SCORES)):
            await press(pilot, key)
            assert screen.tab == tab
        assert "source 2 of 2" in await press(pilot, "v", "2")
        assert "by a rule · v shows people's" in await press(pilot, "v", "1")


@pytest.mark.pilot
async def test_a_disagreement_is_one_key_from_its_run_and_step(db: Path, labels: Path) -> None:
    async with opened(db, labels) as (pilot, screen):
        await turned(pilot, screen, WORST)
        first = screen.worst.rows[0].disagreement
        await press(pilot, "enter")
        run = pilot.app.screen
        assert isinstance(run, TraceScreen)
        assert (run.trace, run.step) == (first.trace, first.step)
        await press(pilot, "escape", "v", "2")
        assert {row.disagreement.about for row in screen.worst.rows} == {"break"}


@pytest.mark.pilot
async def test_looking_trusts_nobody_and_a_key_does(db: Path, labels: Path) -> None:
    async with opened(db, labels) as (pilot, screen):
        await turned(pilot, screen, SCORES)
        with open_ledger(db) as store:
            assert trust(store, JUDGE, now_ns()).state == "never calibrated"
        assert "status: approved until" in await press(pilot, "plus")
        with open_ledger(db) as store:
            assert trust(store, JUDGE, now_ns()).state == "approved"


@pytest.mark.pilot
async def test_other_labels_are_read_and_a_file_that_holds_none_changes_nothing(
    db: Path, labels: Path, tmp_path: Path
) -> None:
    async with opened(db, tmp_path / "absent.jsonl") as (pilot, _):
        assert "absent.jsonl: cannot be read" in " ".join(rows(pilot.app)[0].split())
        for path in (labels, tmp_path / "gone.jsonl"):
            await press(pilot, "o")
            pilot.app.screen.query_one(Input).value = str(path)
            pilot.app.screen.query_one(Input).focus()
            said = await press(pilot, "enter")
        assert "shop.jsonl: 76 labels on 24 runs" in said
        assert "gone.jsonl: cannot be read" in " ".join(said.split())


def test_noise_is_a_table_of_length_and_noise() -> None:
    nothing = confusion((), (), ())
    cells = [
        Cell(rule="binned", sigma=sigma, steps=steps, right=rate(right, 50),
             unclear=rate(0, 50), wrong=rate(50 - right, 50), confusion=nothing)
        for sigma, steps, right in ((0.0, 6, 50), (0.0, 12, 40), (0.1, 6, 20), (0.1, 12, 25))
    ]  # fmt: skip
    found = [text(line).split() for line in noise_lines(cells)]
    assert [".00", "1.00", ".80"] in found
    assert [".10", ".40", ".50"] in found


@pytest.mark.pilot
async def test_noise_is_counted_when_it_is_asked_for(db: Path) -> None:
    async with opened(db, None, (80, 40)) as (pilot, screen):
        await turned(pilot, screen, NOTES)
        screen.post_message(CalibrationScreen.NoiseCounted(tuple(islice(noise_table(), 5))))
        await settle(pilot)
        assert "shape by the binned rule: share classified correctly" in drawn(pilot.app)
        assert not screen.check_action("noise", ())
