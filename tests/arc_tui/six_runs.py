"""The six runs of `sample.put_runs` as the `db` of a module that imports it; Mei sits at the
keyboard."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def db(six_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them that a test may change."""
    monkeypatch.setenv("ARC_USER", "mei")
    return Path(shutil.copy(six_runs, tmp_path / "arc.db"))
