"""The real traces beside the checkout, each step that may be a break as `arc show` prints it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from arc_tui.cli.reading import step_in_full
from arc_tui.jobs.probe.plan import Wanted
from arc_tui.jobs.probe.probing import offered
from arc_tui.views.trace.view import TraceView, build_trace
from replay.store import Store
from replay.store.rows import trace_rows
from taxonomy.ledger import open_ledger
from tests.shared import Imported, needs_shared

pytestmark = needs_shared


@pytest.fixture(params=["real", "others", pytest.param("large", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    found: Imported = request.getfixturevalue(request.param)
    with open_ledger(found.path) as opened:
        yield opened


def views(store: Store) -> Iterator[TraceView]:
    """Every run that has a step which may be the break."""
    for row in trace_rows(store, every=True):
        view = build_trace(store, row.trace)
        if view.marked:
            yield view


def test_every_candidate_is_shown_and_each_probe_has_its_price_or_why_it_cannot_be_run(
    store: Store,
) -> None:
    shown = 0
    for view in views(store):
        for step in view.marked:
            detail = step_in_full(store, view, step)
            assert msgspec.json.encode(detail)
            listed = offered(store, Wanted(trace=view.run.trace, step=step, model="a-model"))
            assert len(listed.offers) == 4
            for offer in listed.offers:
                can = offer.why_not is None
                where = view.run.path, step, offer.name
                assert (offer.estimate is not None) == can, where
                assert bool(offer.text) == bool(offer.command) == can, where
            shown += 1
    assert shown > 100
