"""What of reading a run is plain functions: filter, copies, levels, found texts, time."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from arc_tui.features.trace.copies import call_json, command_of, copies_of
from arc_tui.features.trace.lanes import fit_time, has_times, time_words, zooms
from arc_tui.features.trace.search import (
    BadFilter,
    Term,
    filter_branches,
    matching_steps,
    terms,
)
from arc_tui.ui import format
from arc_tui.ui.document import (
    Block,
    Fold,
    Row,
    fold_at,
    hidden_beyond,
    hiding,
    laid_out_json,
    lay_out,
    level_around,
    level_at,
    pattern,
    row_text,
    value,
)
from arc_tui.views.lane_scale import draw
from arc_tui.views.step import CallView, build_step
from arc_tui.views.trace import Lane, TraceView, build_trace
from arc_tui.views.tree import Branch, visible
from replay.store.rows import StepRow
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import sample

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=30,
)


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> TraceView:
    path = tmp_path_factory.mktemp("sifting") / "arc.db"
    key = sample.put_failed(path)
    with open_ledger(path) as store:
        return build_trace(store, key)


# --- the filter


def test_a_filter_is_terms_that_may_be_quoted_and_turned_round() -> None:
    assert terms('tool:bash -is:error "no such  file" it\'s') == [
        Term("tool", "bash"), Term("is", "error", True), Term("", "no such  file"),
        Term("", "it's"),
    ]  # fmt: skip
    assert terms('  tool:"" -  ') == [Term("", "-")]
    with pytest.raises(BadFilter, match="no step kind matches 'eror'"):
        terms("is:eror")


@given(st.text(max_size=40))
def test_whatever_is_typed_is_read_or_refused(typed: str) -> None:
    with suppress(BadFilter):
        assert all(term.text for term in terms(typed))


@pytest.mark.parametrize(
    ("typed", "steps"),
    [
        ("tool:get_r", {2, 5, 6, 7}),
        ("is:error", {5, 6, 7}),
        ("is:candidate", {3, 5}),
        ("is:repeat", {5, 6, 7}),
        ("is:answer", {0, 3, 10, 11}),
        ("tool:get -is:error", {1, 2, 8}),
        ("says:", {0, 3, 10, 11}),
        ("tool:get_r is:candidate", {5}),
        ('"quoted by nobody"', set()),
    ],
)
def test_a_filter_means_these_steps(view: TraceView, typed: str, steps: set[int]) -> None:
    assert matching_steps(view, terms(typed), lambda _: ()) == steps


def names(tree: tuple[Branch, ...]) -> set[str]:
    return {row.branch.id for row in visible(tree, _All(), ())}


class _All(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


@given(st.sets(st.integers(0, 11)))
def test_a_filtered_tree_holds_the_steps_meant_and_what_they_hang_from(steps: set[int]) -> None:
    tree = TREE
    kept = filter_branches(tree, steps)
    shown = [row.branch for row in visible(kept, _All(), ()) if row.branch.role == "step"]
    own = {branch.step for branch in shown}
    assert steps <= own
    assert all(branch.step in steps or branch.below for branch in shown)
    assert names(kept) <= names(tree)
    assert names(filter_branches(tree, range(12))) == names(tree)


def branch(name: str, role: Any, step: int | None, *below: Branch, count: int = 1) -> Branch:
    return Branch(
        id=name, role=role, label=name, step=step, status="ok", spans=(name,), below=below,
        count=count,
    )  # fmt: skip


TREE = (
    branch("0", "step", 0),
    branch("r", "repeat", 1, *(branch(str(n), "step", n) for n in range(1, 4)), count=3),
    branch("4", "step", 4, branch("4a", "call", 4, branch("sub", "thread", None,
           *(branch(str(n), "step", n) for n in range(5, 9)))), branch("4b", "call", 4)),
    branch("x", "other", None, *(branch(str(n), "step", n) for n in range(9, 12))),
)  # fmt: skip


def test_of_a_repeat_only_what_is_meant_is_counted() -> None:
    (left,) = filter_branches(TREE, {1, 3})
    assert (left.role, left.count) == ("repeat", 2)
    (alone,) = filter_branches(TREE, {3})
    assert (alone.role, alone.step) == ("step", 3)


# --- copies


def test_what_can_be_copied_of_a_step_begins_with_what_is_nearest(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    key = sample.put_failed(path)
    with open_ledger(path) as store:
        step = build_step(store, key, 8)
    found = copies_of(step, '{"topic": "refund"}', "refund")
    assert [copy.name for copy in found][:4] == [
        "the value under the cursor", "the text under the cursor",
        "the call of ask_specialist as JSON", "the result of ask_specialist",
    ]  # fmt: skip
    assert found[0].text == "refund"
    assert found[-1].text == f"arc show {key[:12]} 8"
    assert json.loads(found[2].text) == {
        "name": "ask_specialist", "arguments": {"about": "NQNU5R"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": "ls -l\n"}, "ls -l"),
        ({"command": ["bash", "-lc", "ls -l"]}, "bash -lc 'ls -l'"),
        ({"cmd": "pwd"}, "pwd"),
        ({"path": "x"}, None),
        ({"command": {"a": 1}}, None),
        ([1], None),
    ],
)
def test_what_a_shell_was_asked_to_run_is_a_command(arguments: Any, command: str | None) -> None:
    call = CallView(name="Bash", arguments=json.dumps(arguments))
    assert command_of(call) == command


def test_a_call_whose_arguments_are_no_json_keeps_them_as_a_text() -> None:
    call = CallView(name="x", arguments='{"a": ', parsed=False)
    assert json.loads(call_json(call)) == {"name": "x", "arguments": '{"a": '}
    assert command_of(call) is None


@given(st.text(max_size=60))
def test_what_is_copied_holds_nothing_that_is_obeyed_and_all_that_is_shown(text: str) -> None:
    kept, left_out = format.drop_controls(text)
    assert format.plain(kept) == kept.replace("\t", "    ")
    assert len(kept) + left_out == len(text.replace("\r\n", "\n"))


# --- levels of JSON


@given(JSONS)
@pytest.mark.slow
def test_every_level_ends_where_json_ends_it(value_: Any) -> None:
    text = msgspec.json.format(msgspec.json.encode(value_), indent=2).decode()
    at = 0
    for line in text.split("\n"):
        level = level_at(text, at)
        assert (level is not None) == line.endswith(("{", "["))
        if level is not None:
            inner = text[level.start : level.last_end].rstrip(",").strip()
            member = inner if inner[0] in "{[" else f"{{{inner}}}"
            json.loads(member)
            assert level.lines == len(inner.split("\n")) - 2
            around = level_around(text, level.end + 1)
            assert around is not None
            assert around.start == level.start or level.lines == 0
        at += len(line) + 1


def test_a_folded_level_hides_its_lines_and_unfolds_again() -> None:
    block = value(json.dumps({"a": [1, 2, {"b": "c" * 60}], "d": 1}), key="v")
    rows = list(lay_out((block,), 40, ()))
    key, start = fold_at(rows[1])
    assert (row_text(rows[1]).strip(), start) == ('"a": [', rows[1].start)
    folded = list(lay_out((block,), 40, {key}))
    assert [row_text(row).strip() for row in folded] == ["{", '"a": [', '"d": 1', "}"]
    assert folded[1].level is not None
    assert folded[1].level.closes == "],"
    inside = next(row for row in rows if row_text(row).strip() == "2,")
    assert fold_at(inside)[0] == key
    assert fold_at(Row(Block(text="no json", key="x"), 0, 7))[0] == ""


@given(JSONS, st.sets(st.integers(0, 20)))
def test_with_any_levels_folded_every_row_is_of_the_text_and_in_its_order(
    value_: Any, folded: set[int]
) -> None:
    block = value(msgspec.json.encode([value_] * 3).decode(), key="v")
    keys = {fold_at(row)[0] for place, row in enumerate(lay_out((block,), 30, ()))
            if place in folded}  # fmt: skip
    rows = list(lay_out((block,), 30, keys))
    starts = [row.start for row in rows]
    assert starts == sorted(starts)
    assert len(rows) <= len(list(lay_out((block,), 30, ())))


# --- found texts


def test_a_text_is_found_in_any_case_over_any_gap_from_the_start_of_a_word() -> None:
    wanted = pattern("24-hour  Window")
    assert wanted is not None
    assert wanted.search("the 24-HOUR\n window")
    assert wanted.search(r'"the 24-hour\nwindow"')
    assert not wanted.search("124-hour window")
    assert pattern("  ") is None
    assert pattern("(a+") is not None


def test_what_hides_a_text_is_named() -> None:
    wanted = pattern("needle")
    assert wanted is not None
    long = Block(text="x " * 3000 + "needle", key="long")
    fold = Fold(key="fold", line="3 messages", inside=lambda: (long,))
    assert hiding((long,), wanted, (), folds=False) == frozenset({"long"})
    assert hiding((long,), wanted, {"long"}, folds=False) == frozenset()
    assert hiding((Block(text="needle"),), wanted, (), folds=False) == frozenset()
    assert hiding((fold,), wanted, (), folds=False) is None
    assert hiding((fold,), wanted, (), folds=True) == frozenset({"fold", "long"})


def test_a_long_value_that_shows_a_text_stays_folded_until_the_rest_is_gone_to() -> None:
    wanted = pattern("needle")
    assert wanted is not None
    text = "needle" + " x" * 1900 + " needle " + "y " * 900
    late, early = Block(text=text + "needle", key="long"), Block(text=text, key="long")
    assert hiding((late,), wanted, (), folds=False) == frozenset()
    assert hidden_beyond(late, wanted, ())
    assert not hidden_beyond(late, wanted, {"long"})
    assert not hidden_beyond(early, wanted, ())


@given(JSONS)
def test_json_is_laid_out_or_left(value_: Any) -> None:
    encoded = msgspec.json.encode({"v": value_}).decode()
    laid = laid_out_json(encoded)
    assert laid is not None
    assert json.loads(laid) == json.loads(encoded)
    assert laid_out_json(encoded[:-1]) is None


# --- time


def timed(view: TraceView, *times: tuple[int | None, int | None]) -> list[StepRow]:
    return [
        structs.replace(view.steps[0], step=step, start_ns=start, end_ns=end)
        for step, (start, end) in enumerate(times)
    ]


def test_a_step_stands_in_every_column_in_which_it_runs(view: TraceView) -> None:
    steps = timed(view, (0, 40), (60, 70), (None, None), (65, 100))
    bins = fit_time(steps, 10, around=None, near=0)
    assert bins.inside == ((0,), (0,), (0,), (0,), (0,), (), (1, 3), (1, 3), (3,), (3,))
    assert [bins.column(step) for step in range(4)] == [0, 6, None, 6]
    assert bins.step_at(5) == 0, "the one before a gap"
    assert bins.step_at(10) is None
    lane = Lane(name="latency", values=(1.0, 5.0, 9.0, 2.0), worst="high")
    assert draw(lane, bins).blocks[5:8] == (" ", "▄", "▄")
    said = time_words(steps, bins)
    assert said.endswith("of the run · 1 step without a time")


def test_what_times_are_known_is_told_and_derived_ones_are_called_so(view: TraceView) -> None:
    assert not has_times(timed(view, (None, None), (None, 5)))
    assert not has_times(timed(view, (7, None), (7, 7)))
    assert has_times(timed(view, (7, None), (8, None)))
    derived = [structs.replace(row, time_quality="derived") for row in timed(view, (0, 1), (5, 9))]
    assert "times derived" in time_words(derived, fit_time(derived, 9, around=None, near=0))
    unknown = [structs.replace(row, time_quality="none") for row in derived]
    assert not has_times(unknown)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30),
       st.integers(1, 60))  # fmt: skip
def test_every_step_with_a_time_has_its_columns(times: list[tuple[int, int]], width: int) -> None:
    row = StepRow(**{each.name: None for each in structs.fields(StepRow)} | {"trace": ""})  # type: ignore[arg-type]
    steps = [
        structs.replace(row, step=step, start_ns=start, end_ns=end, time_quality="exact")
        for step, (start, end) in enumerate(times)
    ]
    bins = fit_time(steps, width, around=None, near=0)
    assert bins.count == (width if times else 0)
    for step in range(len(times)):
        column = bins.column(step)
        assert column is not None
        assert step in bins.inside[column]


def test_levels_of_zoom_show_less_than_everything() -> None:
    assert zooms(5) == (0,)
    assert zooms(12) == (0, 5)
    assert zooms(500) == (0, 60, 15, 5)
