"""Did it leave the road? Two actions compared, by rules that always hold and rules of the user."""

from replay.compare.actions import (
    RULES,
    VERSION,
    Difference,
    Kind,
    PathChange,
    compare,
)
from replay.compare.rules import PLAIN, BadRule, PathRule, Rules, rules_from

__all__ = [
    "PLAIN",
    "RULES",
    "VERSION",
    "BadRule",
    "Difference",
    "Kind",
    "PathChange",
    "PathRule",
    "Rules",
    "compare",
    "rules_from",
]
