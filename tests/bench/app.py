"""The app: first frame beside an empty one, a key's repaint at any length, a long message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.measure import Row


def rows(folder: Path) -> Iterator[Row]:
    yield from ()
