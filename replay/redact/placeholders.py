"""What stands in the place of a secret."""

from __future__ import annotations

import re

PLACEHOLDER = re.compile(r"\[\[SECRET:[a-z0-9_]+:[0-9a-f]{8}\]\]")
MARK = "[[SECRET:"
"""How each begins."""


def masked_count(encoded: str) -> int:
    """How many placeholders a stored text holds."""
    return len(PLACEHOLDER.findall(encoded)) if MARK in encoded else 0
