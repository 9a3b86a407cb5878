"""Captures of real clients are read as what happened: those beside the checkout, and our own.

A case that is read wrong stands in `WRONG` with what is wrong; it fails once that is mended.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.captures.truth import differences_of
from tests.shared import DATA, needs_shared

OURS = Path(__file__).resolve().parents[2] / "fixtures" / "captures"

WRONG: Mapping[str, str] = {}


def cases(folder: Path) -> list[object]:
    """A case for each capture in a folder, those in `WRONG` expected to fail."""
    return [
        pytest.param(
            path.parent,
            id=path.parent.name,
            marks=pytest.mark.xfail(strict=True, reason=why)
            if (why := WRONG.get(path.parent.name))
            else (),
        )
        for path in sorted(folder.glob("*/expected.json"))
    ]


@needs_shared
@pytest.mark.data
@pytest.mark.parametrize("capture", cases(DATA / "clients"))
def test_a_capture_of_a_real_client_is_read_as_it_happened(capture: Path) -> None:
    assert differences_of(capture) == []


@pytest.mark.parametrize("capture", cases(OURS))
@pytest.mark.slow
def test_a_capture_of_ours_is_read_as_it_happened(capture: Path) -> None:
    assert differences_of(capture) == []
