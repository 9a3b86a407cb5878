"""Where the rules come from that a person adds to the built-in ones for secrets.

A program says it once; a database that is opened and writes is told them. The built-in rules are
compiled only then: a reader needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.redact import Policy, Redactor

_sources: list[Callable[[], Policy]] = []


def mask_with(source: Callable[[], Policy]) -> None:
    """From now on redactors are made with what `source` says; it is asked when one is needed."""
    _sources[:] = [source]


def redactor(key: bytes) -> Redactor:
    """One under a database's key."""
    from replay.redact import Policy, Redactor

    return Redactor(key, _sources[0]() if _sources else Policy())
