"""A database scrubbed, and a scrubbing killed: a few runs every day, many where asked for."""

from __future__ import annotations

import os

import pytest

from tests.faults.scrubbed import rows

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")


@pytest.mark.process
def test_late_rules_reach_every_text_and_a_killed_scrubbing_does_no_harm() -> None:
    assert [row for row in rows(runs=4, kills=2) if not row.kept] == []


@pytest.mark.slow
def test_the_same_of_many_runs_killed_often() -> None:
    assert [row for row in rows(runs=20, kills=25) if not row.kept] == []
