"""Who was taken for what: every class of a run and every pair of scores stands in its cell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taxonomy.calibration.disagreement import crossed
from taxonomy.classes import FailureClass


def test_a_run_with_several_classes_counts_where_it_is_taken_for_another() -> None:
    wrong, bad, loop = FailureClass.WRONG_TOOL, FailureClass.BAD_ARGS, FailureClass.LOOP
    assert list(crossed(set(), set())) == [("none", "none")]
    assert list(crossed({loop}, {loop})) == [("loop", "loop")]
    assert list(crossed({loop, wrong}, {loop, bad})) == [
        ("loop", "loop"),
        ("wrong tool", "bad args"),
    ]
    assert list(crossed({wrong}, set())) == [("wrong tool", "none")]
    assert list(crossed(set(), {bad})) == [("none", "bad args")]


@given(st.frozensets(st.sampled_from(FailureClass)), st.frozensets(st.sampled_from(FailureClass)))
def test_every_class_of_a_run_is_counted(
    labelled: frozenset[FailureClass], found: frozenset[FailureClass]
) -> None:
    pairs = list(crossed(labelled, found))
    assert {one for one, _ in pairs} - {"none"} == {each.value for each in labelled}
    assert {other for _, other in pairs} - {"none"} == {each.value for each in found}
