"""A detector at the break: does another answer still show what a rule found?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from arc_tui import importing
from arc_tui.places import fixtures
from replay.action import Act, Action, action
from replay.predicate import Detector
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Json, Trace
from taxonomy.classes import FailureClass
from taxonomy.detectors import detector_at
from taxonomy.diagnosis import diagnose
from taxonomy.findings import Finding
from taxonomy.judgements.schema import open_ledger
from tests.build import call, step, trace

TOUR, BREAK = "shop-many-wishes-v5-0", 4


@pytest.fixture(scope="module")
def tour() -> Iterator[Trace]:
    with open_ledger(":memory:") as store:
        list(importing.import_paths(store, [fixtures() / "traces" / f"{TOUR}.jsonl"]))
        yield _loaded(store)


def _loaded(store: Store) -> Trace:
    return read.load(store, trace_row(store, TOUR).trace)


@pytest.fixture
def detector(tour: Trace) -> Detector:
    found = detector_at(tour, diagnose(tour).findings, BREAK)
    assert found is not None
    return found


def calls(tool: str, **arguments: Json) -> Action:
    return Action(calls=(Act(tool=tool, arguments=arguments),))


def test_the_recorded_action_shows_what_was_found_in_it(tour: Trace, detector: Detector) -> None:
    ask = tour.steps[BREAK].ask
    assert detector.name == "hallucinated state, by rule"
    assert detector.step == BREAK
    assert detector.shows(action(ask.response, ask.error)) is True


def test_another_invented_value_shows_it_too(detector: Detector) -> None:
    assert (
        detector.shows(calls("refund_order", order_id="1039", amount=4321, reason="late")) is True
    )


def test_looking_first_does_not_show_it(detector: Detector) -> None:
    assert detector.shows(calls("get_order", order_id="1039")) is False
    assert detector.shows(Action(text="Which order do you mean?")) is False


def test_of_an_answer_that_was_cut_off_nothing_is_known(detector: Detector) -> None:
    assert detector.shows(Action(text="I wi", cut="cut at the token limit")) is None


def test_what_the_detector_says_does_not_depend_on_what_came_after(
    tour: Trace, detector: Detector
) -> None:
    short = structs.replace(tour, steps=tour.steps[: BREAK + 1])
    again = detector_at(short, diagnose(tour).findings, BREAK)
    assert again is not None
    for given in (calls("get_order", order_id="1039"), calls("refund_order", amount=4321)):
        assert again.shows(given) == detector.shows(given)


def test_where_nothing_was_found_there_is_no_detector(tour: Trace) -> None:
    findings = diagnose(tour).findings
    assert detector_at(tour, findings, 0) is None
    assert detector_at(tour, findings, None) is None


@pytest.fixture
def looping() -> tuple[Trace, Detector]:
    same = [step(call("search", "nothing found", query="x")) for _ in range(4)]
    made = trace(same)
    at = 2
    finding = Finding(failure=FailureClass.LOOP, step=at, why="again", rule="loop")
    found = detector_at(made, [finding], at)
    assert found is not None
    return made, found


def test_a_loop_goes_on_where_every_call_was_made_before(
    looping: tuple[Trace, Detector],
) -> None:
    _, detector = looping
    assert detector.shows(calls("search", query="x")) is True
    assert detector.shows(calls("search", query="y")) is False
    assert detector.shows(Action(text="I cannot find it.")) is None


def test_refused_arguments_are_known_only_of_the_recorded_call() -> None:
    made = trace([step(call("book", "error: no such date", date="32 May"))])
    finding = Finding(failure=FailureClass.BAD_ARGS, step=0, why="refused", rule="bad args")
    detector = detector_at(made, [finding], 0)
    assert detector is not None
    assert detector.shows(calls("book", date="32 May")) is True
    assert detector.shows(calls("book", date="30 May")) is None
