"""The trace of the tour in a database: imported once, copied for each test that asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arc_tui.free_case import put_tour


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tour") / "arc.db"
    put_tour(path)
    return path


@pytest.fixture
def db(bundled: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    copy = tmp_path / "arc.db"
    copy.write_bytes(bundled.read_bytes())
    return copy
