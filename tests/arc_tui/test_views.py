"""The views: what a tree folds, what a list finds, before any screen draws them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from arc_tui.ui.document import Block
from arc_tui.views.runs import run_rows
from arc_tui.views.step import COMPARED, StepView, build_step
from arc_tui.views.step_pages import results_page
from arc_tui.views.trace import EMPTY_TRACE, build_trace
from arc_tui.views.tree import path_to, visible
from replay.store.write import Writer
from replay.trace import Batch, Json, OtherSpan, ToolCall
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.language import BadQuery
from tests.build import call, step, trace


def labels(tmp_path: Path, *arguments: dict[str, Json]) -> list[tuple[str, int]]:
    """The visible rows of a run that calls `todo` with each of the arguments in turn."""
    made = trace([step("", call("todo", "ok", **given)) for given in arguments])
    with open_ledger(tmp_path / "arc.db") as store:
        writer = Writer(store)
        key = writer.write(Batch(header=made.header, spans=made.spans, last=True))
        writer.finish(key)
        view = build_trace(store, key)
    assert all(path_to(view.tree, span.id) for span in made.spans[1:])
    return [(row.branch.label, row.branch.count) for row in visible(view.tree, (), ())]


def test_the_same_call_again_and_again_is_one_row(tmp_path: Path) -> None:
    assert labels(tmp_path, {"n": 1}, {"n": 1}, {"n": 1}, {"n": 2}) == [
        ("todo 1", 3),
        ("todo 2", 1),
    ]


def test_calls_that_only_read_alike_stay_apart(tmp_path: Path) -> None:
    one, other = {"list": [{"do": "a"}]}, {"list": [{"do": "b"}]}
    assert labels(tmp_path, one, other) == [("todo", 1), ("todo", 1)]


def test_what_the_harness_did_for_a_call_starts_folded_below_it(tmp_path: Path) -> None:
    made = trace([step("", call("run", "ok", cmd="ls"))])
    act = next(span for span in made.spans if isinstance(span, ToolCall))
    inner = OtherSpan(id="inner", name="sandbox exec", parent=act.id, operation="sandbox")
    with open_ledger(tmp_path / "arc.db") as store:
        writer = Writer(store)
        key = writer.write(Batch(header=made.header, spans=(*made.spans, inner), last=True))
        writer.finish(key)
        tree = build_trace(store, key).tree
    (row,) = visible(tree, (), ())
    assert (row.branch.label, row.open) == ("run ls", False)
    assert [each.branch.label for each in visible(tree, {row.branch.id}, ())][1] == "sandbox exec"


def test_a_list_is_searched_by_words_and_by_column(tmp_path: Path) -> None:
    made = trace([step("", call("todo", "ok"))])
    with open_ledger(tmp_path / "arc.db") as store:
        writer = Writer(store)
        writer.finish(writer.write(Batch(header=made.header, spans=made.spans, last=True)))
        key = run_rows(store)[0].trace
        assert run_rows(store, key[:6])
        assert run_rows(store, f"format:{made.header.format}")
        assert not run_rows(store, "outcome:passed")
        with pytest.raises(BadQuery, match="unknown outcome 'nonsense'"):
            run_rows(store, "outcome:nonsense")


def test_a_call_says_how_slow_it_was_among_all_calls_of_its_tool(tmp_path: Path) -> None:
    made = trace([step("", call("search", "ok", n=n)) for n in range(COMPARED)])
    spans = [*made.spans]
    for place, span in enumerate(made.spans):
        if isinstance(span, ToolCall):
            spans[place] = structs.replace(span, end_ns=(span.start_ns or 0) + place * 10**8)
    with open_ledger(tmp_path / "arc.db") as store:
        writer = Writer(store)
        key = writer.write(Batch(header=made.header, spans=tuple(spans), last=True))
        writer.finish(key)
        slowest, middle = (build_step(store, key, at) for at in (COMPARED - 1, COMPARED // 2))
        store.db.execute("UPDATE latency SET spans = 0 WHERE latency_ns = 200000000")
        few = build_step(store, key, COMPARED - 1)
    assert "slower than 95 % of 20 calls of search" in plain(slowest)
    assert "slower than 50 % of 20 calls of search" in plain(middle)
    assert "slower than" not in plain(few)


def plain(view: StepView) -> str:
    document = results_page(EMPTY_TRACE, view)
    return "\n".join(block.text for block in document if isinstance(block, Block))
