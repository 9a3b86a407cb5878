"""How often what is random is tried: less at a desk than under `CI`."""

from __future__ import annotations

import os

CI = bool(os.environ.get("CI"))

EXAMPLES = 8
"""Of each property at a desk. Under `CI` it is Hypothesis' own hundred, always the same ones."""


def often(many: int) -> int:
    """How many of so many examples are tried: a quarter of them at a desk."""
    return many if CI else max(min(many, EXAMPLES), many // 4)
