"""Where the rules come from that a person adds to the built-in ones for secrets.

A program says it once, whoever records may say it for what he records; a database that is opened
and writes is told them. The built-in rules are compiled only then: a reader needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.redact import Policy, Redactor

_sources: list[Callable[[], Policy]] = []
_said: ContextVar[Policy | None] = ContextVar("said", default=None)


def mask_with(source: Callable[[], Policy]) -> None:
    """From now on redactors are made with what `source` says; it is asked when one is needed."""
    _sources[:] = [source]


@contextmanager
def masked_by(policy: Policy | None) -> Iterator[None]:
    """Redactors that are made in the body have this policy, whatever the program says; None: the
    program's."""
    token = _said.set(policy)
    try:
        yield
    finally:
        _said.reset(token)


def redactor(key: bytes) -> Redactor:
    """One under a database's key."""
    from replay.redact import Policy, Redactor

    policy = _said.get()
    if policy is None:
        policy = _sources[0]() if _sources else Policy()
    return Redactor(key, policy)
