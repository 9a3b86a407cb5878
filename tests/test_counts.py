"""No operation that is counted has become more than what was last accepted (`counts.json`)."""

from __future__ import annotations

import pytest

from tests.bench import counts
from tests.bench.counts import Count


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("counter", counts.COUNTERS)
def test_no_count_has_grown(counter: str) -> None:
    """Less work: `python -m tests.bench --counts --keep`; more, where it is worth it: the same, and
    the commit says why."""
    found = counts.counted(counter)
    known = counts.accepted()[counter]
    assert counts.worse(found, known) == {}
    assert found.keys() <= known.keys(), "count them with: python -m tests.bench --counts --keep"


def test_a_count_that_grows_is_worse() -> None:
    found = {"a": Count("a", 10.6), "b": Count("b", 10.4), "c": Count("c", 12, 1.3)}
    assert counts.worse(found, dict.fromkeys("abc", 10.0)) == {"a": (10.0, 10.6)}
