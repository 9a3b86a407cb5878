"""What a person adds to the rules: patterns, names of fields, and what is no secret.

`replay.redact.personal.PERSONAL` are ready-made rules that may be added.
"""

from __future__ import annotations

from msgspec import Struct

from replay.redact.rule import Rule


class Policy(Struct, frozen=True, kw_only=True):
    """Rules and names beside the built-in ones, and texts that are never masked."""

    rules: tuple[Rule, ...] = ()
    keys: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


NONE = Policy()
"""Nothing is added to the built-in rules."""
