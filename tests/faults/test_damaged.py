"""Damaged pages of every kind: a few every day, two hundred where it is asked for."""

from __future__ import annotations

import pytest

from tests.faults import damaged

EVERYDAY = 7
"""A page of each kind."""


@pytest.mark.slow
def test_of_a_damaged_page_what_is_lost_is_named_and_the_rest_is_saved() -> None:
    found = damaged.trials(EVERYDAY, seed=1)
    assert len(found.kinds) >= EVERYDAY - 1
    assert (found.unnamed, found.unsound, found.touched) == ([], [], 0)
    assert found.whole > found.traces // 2


@pytest.mark.slow
@pytest.mark.minutes
def test_two_hundred_damaged_pages() -> None:
    assert [row.figure for row in damaged.rows() if not row.kept] == []
