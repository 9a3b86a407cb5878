"""How many steps of the real traces can be asked again: as they are, after the best offers that
nothing speaks against, and with inferred tools; and after tools were attached to one run by hand.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_tui.attachment import attach_best
from replay.plan import plans
from replay.store import read
from replay.store.edits import Supplement, attach
from replay.store.gaps import infer_tools
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from replay.trace import Level
from taxonomy.judgements.schema import open_ledger
from tests.shared import FOLDERS, LABELLED, OTHERS, Imported, imported_once, needs_shared

pytestmark = [needs_shared, pytest.mark.data]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """All but the large ones in one database: what one folder lacks another might hold."""
    places = FOLDERS + LABELLED + OTHERS
    return imported_once(tmp_path_factory.mktemp("every"), "every", places)


@pytest.fixture
def store(every: Imported, tmp_path: Path) -> Iterator[Store]:
    """A copy that a test may change."""
    with open_ledger(Path(shutil.copy(every.path, tmp_path / "arc.db"))) as opened:
        yield opened


def askable(store: Store, row: TraceRow) -> Counter[Level]:
    """The steps of a run that can be asked, by their fidelity."""
    trace = read.load(store, row.trace)
    model = (row.models or "claude").split(",")[0]
    found = (plan for plan in plans(trace, None, model, None) if plan.refusal is None)
    return Counter(plan.step.ask.fidelity.level for plan in found)


def all_askable(store: Store) -> Counter[str]:
    """Of all runs, by format."""
    found: Counter[str] = Counter()
    for row in trace_rows(store):
        found[row.format] += askable(store, row).total()
    return found


def test_steps_that_can_be_asked_with_and_without_offers(store: Store) -> None:
    rows = trace_rows(store)
    steps = Counter({row.format: 0 for row in rows})
    for row in rows:
        steps[row.format] += row.steps
    bare = all_askable(store)
    assert bare.total() / steps.total() < 0.5

    recorded = [each for each in attach_best(store, "", inferred=False) if each.what]
    with_offers = all_askable(store)
    inferred = [each for each in attach_best(store, "", inferred=True) if each.what]
    with_inferred = all_askable(store)
    for name, many in steps.most_common():
        print(name, many, bare[name], with_offers[name], with_inferred[name])
    print("offers accepted", len(recorded), "inferred", len(inferred))
    print("steps", bare.total(), with_offers.total(), with_inferred.total(), steps.total())
    assert all(each.source and each.evidence for each in recorded)
    assert not any(each.source for each in inferred)
    assert with_offers.total() > bare.total(), "the database holds some of what runs lack"
    assert with_inferred.total() >= 0.6 * steps.total()
    for each in inferred:
        (row,) = (row for row in trace_rows(store, every=True) if row.trace == each.trace)
        assert set(askable(store, row)) <= {*Level} - {Level.SUPPLIED}, "inferred is no more"


def test_tools_attached_to_one_airline_run_are_offered_to_all_others(store: Store) -> None:
    """The file stands in for that of the benchmark: the names and arguments of its tools."""
    rows = trace_rows(store, "format = 'tau-bench'")
    first = max(rows, key=lambda row: row.calls)
    called = infer_tools(store, first.trace).tools
    attach(store, first.trace, Supplement(name="tools.json", tools=called))
    done = list(attach_best(store, "format:tau-bench", inferred=False))
    accepted = [each for each in done if each.what and each.source]
    print("accepted", len(accepted), "of", len(rows) - 1)
    assert len(accepted) == len(rows) - 1
    assert {each.evidence[0].split(",")[0] for each in accepted} == {"same system prompt"}
    found = sum((askable(store, row) for row in rows), Counter[Level]())
    print("airline", found, sum(row.steps for row in rows))
    assert set(found) == {Level.SUPPLIED}
    assert found.total() > 0.99 * sum(row.steps for row in rows)
