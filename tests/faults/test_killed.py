"""Killed at any moment: a few times every day, two hundred times where it is asked for."""

from __future__ import annotations

import os

import pytest

from tests.faults import killed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")


@pytest.mark.process
@pytest.mark.parametrize("subject", killed.SUBJECTS)
def test_what_is_killed_is_valid_and_the_next_run_completes_it(subject: str) -> None:
    found = killed.trial(subject, 2)
    assert found.kills == 2
    assert found.broken == []


@pytest.mark.slow
@pytest.mark.minutes
def test_killed_two_hundred_times_nothing_is_lost() -> None:
    rows = list(killed.rows())
    assert [row.figure for row in rows if not row.kept] == []
