"""Questions that the database answers in another way than they are said give the same answers: on
made-up runs, on the demo's and on the shared ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arc_tui.features.runs.command import every_run, newest_runs
from replay.store.handle import Store
from replay.store.search import traces_saying
from taxonomy.failures import BYS
from taxonomy.held_out import hold
from taxonomy.judgements.schema import migrations, open_ledger
from taxonomy.query import filter as filters
from taxonomy.query.compile import saying
from taxonomy.query.failures import first_tools, starts_of, tag_rows
from taxonomy.query.filter import of_traces
from taxonomy.query.listing import run_order, run_rows
from tests.arc_tui.free_case import put_bundled
from tests.build import Part
from tests.replay.test_search import runs, said, written
from tests.shared import Imported
from tests.taxonomy.test_pareto import held_together
from tests.tries import often

WORDS = ("refund", "order", "error", "the", "search", "e", "import", "7", "nowhere", "id",
         "no such", "Order")  # fmt: skip


@pytest.mark.slow
@settings(max_examples=often(100), deadline=None)
@given(st.lists(runs.map(lambda some: some[0]), min_size=1, max_size=3), said)
@example([["groß Kelvin x\u0307a a_b"]], "a")
def test_a_word_is_said_by_the_runs_that_reading_finds(made: list[list[Part]], wanted: str) -> None:
    with closing(Store.open(":memory:", migrations)) as store:
        for number, parts in enumerate(made):
            written(store, parts, number)
        same_runs(store, [wanted, "order", "kelvin", "t", "x"])


def same_runs(store: Store, words: Sequence[str]) -> None:
    for word in words:
        read = run_order(store, of_traces(traces_saying(store, word)))
        for few in (0, 2_000):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(filters, "FEW", few)
                for page in (False, True):
                    said = saying(store, word, page=page)
                    assert run_order(store, said) == read, (word, few, page)
                    assert run_order(store, said, limit=2) == read[:2], (word, few, page)


def same_counts(store: Store) -> None:
    for by in (None, *BYS):
        for every in (False, True):
            held_together(store, by=by, every=every)
    rows = tag_rows(store, "outcome = 'failed'")
    steps = {(row.recording, row.step) for row in rows}
    assert first_tools(store, steps) == dict(_first_tools(store, steps))
    listed = run_rows(store)
    assert starts_of(store, [row.trace for row in listed]) == {
        row.trace: row.start_ns for row in listed
    }


def _first_tools(
    store: Store, steps: set[tuple[str, int]]
) -> Iterator[tuple[tuple[str, int], str]]:
    """Every tool call of every run looked at."""
    found: dict[tuple[str, int], tuple[int, str]] = {}
    calls = "SELECT t.key, s.step, s.seq, s.name FROM span s JOIN trace t ON t.id = s.trace"
    for key, step, seq, name in store.db.execute(f"{calls} WHERE s.kind = 'tool' AND t.complete"):
        if step is not None:
            found[key, step] = min(found.get((key, step), (seq, name)), (seq, name))
    yield from ((place, name) for place, (_, name) in found.items() if place in steps)


@pytest.mark.slow
def test_the_runs_of_the_demo(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("demo") / "arc.db"
    put_bundled(path)
    with open_ledger(path) as store:
        same_runs(store, WORDS)
        same_counts(store)


def test_the_shared_runs(real: Imported, others: Imported) -> None:
    for each in (real, others):
        with open_ledger(each.path) as store:
            same_runs(store, WORDS)
            same_counts(store)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", "outcome:failed", "refund", '"refund"', "nowhere"])
@pytest.mark.parametrize("shown", [False, True])
def test_the_newest_runs_are_the_first_of_all(
    words: str, shown: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("newest") / "arc.db"
    put_bundled(path)
    with open_ledger(path) as store:
        hold(store, run_rows(store))
        every = every_run(store, words, every=False, with_held_out=shown)
        for limit in (0, 1, 3, 1000):
            newest = newest_runs(store, words, limit, with_held_out=shown)
            assert [*newest.rows] == [*every.rows][: limit or None]
            assert newest.held == every.held
            assert newest.totals[:2] == every.totals[:2]
            assert newest.totals.cost_usd == pytest.approx(every.totals.cost_usd)
            assert newest.totals.complete == every.totals.complete
