"""Where the real traces lie, and the mark for tests that read them.

The folder stands beside the checkout and is not part of the project; where it is absent, those
tests are skipped and say so. Under `CI` they run and fail.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

needs_shared = pytest.mark.skipif(
    not DATA.is_dir() and not os.environ.get("CI"),
    reason="the shared folder of real traces is not beside this checkout",
)
