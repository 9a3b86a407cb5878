"""The disambiguation protocol: its table, which symptom a run shows, the change, the reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from replay.edit.changes import InjectConstraint, RenameTool, SummariseBefore
from replay.edit.editor import Editor
from replay.locked.tally import BreakTest
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.classes import FailureClass, Shape
from taxonomy.diagnosis import diagnose
from taxonomy.findings import Diagnosis, Finding, StepScore
from taxonomy.probes import presets, result
from taxonomy.probes.presets import Given, Preset, Unfit, midpoint, preset
from taxonomy.probes.result import COLUMNS, LogLine, decided, meaning
from taxonomy.probes.symptoms import BY_NAME, PROBES, ProbeEntry, Symptom, symptom, symptoms, unfit
from tests.build import Part, call, error, heard, step, tool, trace

TOOLS = (tool("get_order", "Look one up.", order_id={}), tool("refund_order", order_id={}))
READ = call("get_order", {"order_id": "1042", "total": "$42.50"}, order_id="1042")


def run_of(*parts: Part, **more: object) -> Trace:
    said = {"system": "Be brief.", "tools": TOOLS, "task": "Refund order 1042.", **more}
    return trace(parts, **said)  # type: ignore[arg-type]


LONG = run_of(*[step(READ) if at % 2 else step(f"Word {at}.") for at in range(9)], "Done.")


def said(
    *findings: tuple[int, FailureClass],
    shape: Shape | None = None,
    scores: Sequence[float] = (),
) -> Diagnosis:
    return Diagnosis(
        trace="t",
        shape=shape,
        scores=tuple(
            StepScore(step=at, value=value, source="rule", by="rubric")
            for at, value in enumerate(scores)
        ),
        findings=tuple(
            Finding(failure=failure, step=at, why="as the rule says", rule="a rule")
            for at, failure in findings
        ),
        candidates=(),
    )


# --- the table


ARTICLE = """
wrong answer, step 1–2 | hallucination | goal misread
right middle, wrong late | capability gap | context loss
wrong tool called | goal misread | tool selection
gradual decline | capability gradient | accumulated context
"""
"""By symptom: what it is where the failure persists, and where it is repaired."""


def test_the_table_has_the_rows_of_the_article() -> None:
    rows = [
        (probe.symptom.value, probe.persists.classification, probe.repairs.classification)
        for probe in PROBES
    ]
    assert [" | ".join(row) for row in rows] == ARTICLE.split("\n")[1:-1]


def test_each_side_of_a_probe_is_one_of_its_two_candidates() -> None:
    for probe in PROBES:
        sides = {probe.persists.classification, probe.repairs.classification}
        assert sides == set(probe.candidates)
        assert probe.persists.intervention != probe.repairs.intervention
    assert len({probe.key for probe in PROBES}) == len({probe.symptom for probe in PROBES}) == 4


# --- the symptom


@pytest.mark.parametrize(
    ("diagnosis", "at", "expected"),
    [
        (said((3, FailureClass.WRONG_TOOL)), 3, Symptom.WRONG_TOOL),
        (said(), 0, Symptom.WRONG_AT_START),
        (said(), 1, Symptom.WRONG_AT_START),
        (said(scores=[0.9] * 9), 7, Symptom.WRONG_LATE),
        (said(), 9, Symptom.WRONG_LATE),
        (said(shape=Shape.STEADY_DEGRADATION), 4, Symptom.DECLINE),
        (said(scores=[0.9, 0.9, 0.9, 0.2, 0.2, 0.2]), 8, None),
        (said((4, FailureClass.BAD_ARGS)), 8, None),
        (said(), 4, None),
        (said((3, FailureClass.WRONG_TOOL)), 4, None),
    ],
)
def test_a_symptom_is_read_off_place_class_and_shape(
    diagnosis: Diagnosis, at: int, expected: Symptom | None
) -> None:
    noted = symptom(diagnosis, LONG, at)
    assert (noted.symptom if noted else None) == expected


def test_all_that_fit_are_named_the_most_particular_first() -> None:
    found = symptoms(said((0, FailureClass.WRONG_TOOL), shape=Shape.STEADY_DEGRADATION), LONG, 0)
    assert [each.symptom for each in found] == [
        Symptom.WRONG_TOOL,
        Symptom.WRONG_AT_START,
        Symptom.DECLINE,
    ]


def test_a_tag_of_a_person_says_wrong_tool_too() -> None:
    noted = symptom(said(), LONG, 4, {FailureClass.WRONG_TOOL})
    assert noted is not None
    assert noted.why == "so a person tagged it"


def test_where_none_fits_it_says_why() -> None:
    assert "step 5 of 10" in unfit(said(shape=Shape.HEALTHY), LONG, 4)
    assert "shape is healthy" in unfit(said(shape=Shape.HEALTHY), LONG, 4)


# --- the change


def made(name: str, case: Trace, at: int, **given: object) -> Preset:
    found = preset(BY_NAME[name], case, at, **given)  # type: ignore[arg-type]
    assert isinstance(found, Preset), found
    return found


def why_not(name: str, case: Trace, at: int) -> str:
    found = preset(BY_NAME[name], case, at)
    assert isinstance(found, Unfit)
    return found.why


MADE_UP = run_of(
    step(call("refund_order", error("order not found"), order_id="1099")), "I am sorry."
)


def test_the_constraint_is_made_from_what_the_rules_found() -> None:
    assert diagnose(MADE_UP).findings[0].step == 0
    found = made("constraint", MADE_UP, 0)
    (change,) = found.edit.changes
    assert isinstance(change, InjectConstraint)
    assert change.step == 0
    assert "1099" in found.text
    assert "1099" in found.by
    assert found.steps == (0,)


def test_without_a_source_the_constraint_is_yours_to_say() -> None:
    assert "--constraint TEXT" in why_not("constraint", LONG, 4)
    found = made("constraint", LONG, 4, constraint="Refunds need a receipt.")
    assert (found.text, found.by) == ("Refunds need a receipt.", "yours")


def test_every_tool_the_step_offers_is_renamed_and_nothing_else() -> None:
    found = made("rename", LONG, 1)
    assert found.edit.changes == (
        RenameTool("get_order", "tool_1"),
        RenameTool("refund_order", "tool_2"),
    )
    request = Editor(found.edit, LONG).request(LONG.steps[1].ask.request, "step 1", 1)
    assert [each.name for each in request.tools or ()] == ["tool_1", "tool_2"]
    assert [each.description for each in request.tools or ()] == [e.description for e in TOOLS]
    assert found.notices == ()
    told = run_of(step(READ), "Done.", system="Call get_order first.")
    assert "the prompt still contains get_order" in made("rename", told, 0).notices[0]


def test_new_names_are_none_that_is_offered_already() -> None:
    case = run_of(step(READ), "Done.", tools=(tool("tool_1"), tool("b")))
    assert [e.new for e in made("rename", case, 0).edit.changes if isinstance(e, RenameTool)] == [
        "tool_2",
        "tool_3",
    ]


def test_a_summary_stands_for_what_came_before_and_the_tail_is_asked_too() -> None:
    found = made("summary", LONG, 7)
    assert found.steps == (7, 8, 9)
    assert found.edit.changes == (SummariseBefore(7, found.text),)
    assert found.by == presets.BY_RULE
    middle = made("midpoint", LONG, 7)
    assert middle.steps == (5, 6, 7, 8, 9)
    assert midpoint(LONG, 7) == 5
    assert midpoint(LONG, 3) == 3


def test_nothing_can_be_summarised_at_the_start() -> None:
    for name in ("summary", "midpoint"):
        assert why_not(name, LONG, 0) == "there is nothing before step 0 to summarise"


def test_what_cannot_be_asked_again_says_why_and_nothing_else() -> None:
    """Also the constraint in one's own words: they would not help."""
    bare = run_of(step(READ), step(READ), "Done.", tools=None)
    for probe in PROBES:
        found = preset(probe, bare, 1, constraint="Refunds need a receipt.")
        assert isinstance(found, Unfit)
        assert found.why == (
            "Cannot replay step 1: tools were called, but tool definitions not recorded"
            " (`arc attach` adds them)"
        )


def test_a_probe_that_would_leave_its_step_as_it_was_says_so() -> None:
    """After a compaction the conversation no longer holds what the probe changes, but a step
    before it does."""
    last = LONG.steps[9]
    fresh = LONG.steps[0].ask.request.context
    request = structs.replace(last.ask.request, context=fresh)
    later = structs.replace(last, ask=structs.replace(last.ask, request=request))
    case = structs.replace(LONG, steps=(*LONG.steps[:9], later))
    assert why_not("midpoint", case, 9) == "the edit does not change the request of step 9"


def test_a_summary_that_was_written_says_by_whom() -> None:
    found = made("summary", LONG, 7, written=Given(text="They want a refund.", by="written by m"))
    assert (found.text, found.by) == ("They want a refund.", "written by m")


def test_the_extract_holds_what_was_said_and_seen_before_the_step_and_nothing_after() -> None:
    case = run_of(
        step(READ),
        heard("And order 1050?"),
        step(call("get_order", error("not found"), order_id="1050")),
        step(call("get_order", "secret", order_id="1099")),
        "Done.",
    )
    text = presets.extract(case, 2)
    assert text.splitlines() == [
        "Summary of the conversation so far.",
        "The user said: “Refund order 1042.”",
        "The user said: “And order 1050?”",
        "Done so far, and what it showed:",
        '- get_order(order_id="1042") showed: order_id 1042; total $42.50',
        '- get_order(order_id="1050") failed: not found',
    ]
    assert presets.extract(run_of("Done.", task=None), 0) == ""


def test_a_long_extract_shortens_its_oldest_results_and_says_so() -> None:
    reads = [step(call("get_order", "x" * 590, order_id=str(at))) for at in range(40)]
    text = presets.extract(run_of(*reads, "Done."), 40)
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert "(The oldest results are shortened.)" in text
    assert len(lines) == 40
    assert len(lines[0]) < 100 < len(lines[-1])
    assert len(text) < 9_000


# --- the reading


def counts(control: int, control_n: int, edited: int, edited_n: int) -> BreakTest:
    return BreakTest(
        detector="a rule", control=control, control_n=control_n, edited=edited, edited_n=edited_n
    )


@pytest.mark.parametrize(
    ("test", "result"),
    [
        (counts(8, 8, 0, 8), "repairs"),
        (counts(8, 8, 8, 8), "persists"),
        (counts(5, 5, 0, 5), "repairs"),
        (counts(5, 5, 5, 5), "persists"),
        (counts(3, 3, 0, 3), "undecided"),
        (counts(3, 3, 3, 3), "undecided"),
        (counts(1, 1, 1, 1), "undecided"),
        (counts(8, 8, 4, 8), "undecided"),
        (counts(2, 8, 0, 8), "undecided"),
        (counts(0, 8, 8, 8), "undecided"),
        (counts(8, 8, 0, 0), "undecided"),
        (counts(20, 20, 18, 20), "persists"),
        (counts(8, 8, 1, 8), "repairs"),
        (counts(8, 8, 3, 8), "partial"),
        (counts(20, 20, 9, 20), "partial"),
        (counts(20, 20, 15, 20), "partial"),
        (counts(100, 100, 25, 100), "partial"),
        (counts(100, 100, 3, 100), "repairs"),
        (counts(12, 20, 20, 20), "undecided"),
    ],
)
def test_a_result_is_said_only_where_the_samples_tell(test: BreakTest, result: str) -> None:
    assert decided(test).result == result


def test_the_counts_and_the_test_stand_beside_the_result() -> None:
    why = decided(counts(8, 8, 0, 8)).why
    assert "0/8 with the probe, 8/8 without" in why
    assert "Fisher p = 0.00016" in why
    assert "too few samples" in decided(counts(3, 3, 0, 3)).why
    assert "mostly absent" in decided(counts(2, 8, 0, 8)).why
    assert decided(None).why == "no answer without the probe could be judged"


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_a_result_is_total_and_a_cause_is_named_only_with_it(
    a: int, b: int, c: int, d: int
) -> None:
    found = decided(counts(min(a, b), b, min(c, d), d))
    for probe in PROBES:
        assert (meaning(probe, found.result) is None) == (found.result in ("undecided", "partial"))
    if found.result in ("repairs", "partial"):
        assert found.p is not None
        assert found.p <= 0.05
        assert found.left is not None
        assert (found.left.high < 0.5 and found.left.low <= 0.1) == (found.result == "repairs")
    if found.result == "persists":
        assert found.likely is not None
        assert found.likely <= 0.05


# --- the log


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "arc.db") as opened:
        yield opened


LINE = LogLine(
    trace="59fa599b00000000",
    task="refund | late",
    step=4,
    symptom=Symptom.WRONG_LATE.value,
    assumed=False,
    probe="summary",
    result="repairs",
    classification="context loss",
    intervention="chunking or summaries",
    model="demo",
    detector="a rule",
    control=(8, 8),
    edited=(0, 8),
    digest="sha256:abc",
    at_ns=1_767_225_600_000_000_000,
)


def test_a_line_has_the_seven_columns_of_the_article() -> None:
    assert tuple("date task_id symptom probe result classification intervention".split()) == COLUMNS
    assert LINE.line == (
        "2026-01-01 | refund / late | right middle, wrong late | summary | repairs | context loss"
        " | chunking or summaries"
    )
    open_ = structs.replace(
        LINE, task=None, result="undecided", classification=None, intervention=None, assumed=True
    )
    assert open_.line == (
        "2026-01-01 | 59fa599b | right middle, wrong late (assumed) | summary | undecided | – | –"
    )


def test_the_same_replay_keeps_its_line_and_its_date_and_another_probe_gets_its_own(
    store: Store,
) -> None:
    first = result.keep(store, structs.replace(LINE, at_ns=0))
    assert result.keep(store, structs.replace(LINE, at_ns=0)) == first
    result.keep(store, structs.replace(LINE, probe="midpoint"))
    result.keep(store, structs.replace(LINE, digest="sha256:def"))
    kept = result.kept(store)
    assert [each.probe for each in kept] == ["summary", "midpoint", "summary"]
    assert first.at_ns > 0


def test_a_probe_is_known_by_its_name() -> None:
    assert [BY_NAME[probe.name] for probe in PROBES] == list(PROBES)
    assert all(isinstance(probe, ProbeEntry) for probe in PROBES)
