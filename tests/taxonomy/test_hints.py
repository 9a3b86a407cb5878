"""A finding that says it is unsure stands in the diagnosis, and is counted nowhere."""

from __future__ import annotations

import pytest
from msgspec import structs

from arc_tui import importing
from arc_tui.places import fixtures
from replay.store import read
from replay.store.rows import trace_rows
from taxonomy.judgements import diagnoses
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.failures import tag_rows

TOUR = fixtures() / "traces" / "shop-many-wishes-v5-0.jsonl"


@pytest.mark.parametrize(("confidence", "counted"), [(None, 1), (0.5, 1), (0.49, 0)])
def test_a_hint_is_no_suggestion(confidence: float | None, counted: int) -> None:
    with open_ledger(":memory:") as store:
        list(importing.import_paths(store, [TOUR]))
        (row,) = trace_rows(store)
        said = diagnosis(store, row.trace)
        assert said is not None
        unsure = structs.replace(said.findings[0], confidence=confidence)
        trace = read.load(store, row.trace)
        spans = {step.index: step.ask.id for step in trace.steps}
        diagnoses.keep(store, structs.replace(said, findings=(unsure,)), spans)
        assert len(tag_rows(store, "trace = ?", (row.trace,))) == counted
        kept = diagnosis(store, row.trace)
        assert kept is not None
        assert kept.findings == (unsure,)
