"""Runs pruned, and a pruning killed: one of a few runs every day, many where it is asked for."""

from __future__ import annotations

import os

import pytest

from tests.faults.pruned import rows

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")


@pytest.mark.process
def test_texts_of_pruned_runs_are_gone_and_a_killed_pruning_does_no_harm() -> None:
    assert [row for row in rows(runs=4, kills=1) if not row.kept] == []


@pytest.mark.slow
def test_the_same_of_many_runs_killed_often() -> None:
    assert [row for row in rows() if not row.kept] == []
