"""What large files cost: smaller ones every day, as large as is promised where it is asked for."""

from __future__ import annotations

import pytest

from tests.faults import bounded
from tests.faults.bounded import MOST_TIMES
from tests.hostile import SEEDS


@pytest.mark.slow
def test_a_long_text_and_many_attributes_cost_a_multiple_of_their_size() -> None:
    found = [
        *bounded.costs("text", 16 << 20, ["codex"], []),
        *bounded.costs("fields", 200_000, [], ["chat"]),
    ]
    assert [each.said for each in found] == ["5 spans", "imported"]
    assert all(0 < each.times <= MOST_TIMES for each in found)


def test_a_run_has_a_place_for_each_in_every_format() -> None:
    for name in SEEDS:
        assert len(bounded.placed(name, "text", 5_000)) > 5_000
        assert bounded.placed(name, "fields", 50).count(b"field.") >= 50


@pytest.mark.slow
@pytest.mark.minutes
def test_values_as_large_as_is_promised_cost_a_multiple_of_their_size() -> None:
    assert [row.figure for row in bounded.sizes() if not row.kept] == []
