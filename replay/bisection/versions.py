"""What is held against each other: a name, an edit, and for a free run the step it begins at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from replay.bisection.rounds import Outcome, SampleRequest
from replay.edit.changes import Edit
from replay.errors import BadEdit
from replay.models.cached import Cached
from replay.trace import Fidelity


class Version(Struct, frozen=True, kw_only=True):
    """One of the versions to be held against each other. `edit` None asks as recorded.

    `start` is the step a free run of it begins at, None for the first of the thread.
    """

    name: str
    edit: Edit | None
    start: int | None = None


class CannotAsk(BadEdit):
    """A step that cannot be asked again, whatever is edited: its request is not known, or cannot
    be sent."""


class Evidence(NamedTuple):
    """One sample of a version: the key of what was stored of it, and whether it was bad."""

    version: int
    sample: int
    key: str | None
    bad: Outcome


def first_reasons(found: Iterable[tuple[int, str | None]]) -> dict[int, str]:
    """By version, the first reason that is given."""
    reasons: dict[int, str] = {}
    for version, why in found:
        if why is not None:
            reasons.setdefault(version, why)
    return reasons


class Asked(Protocol):
    """Versions whose samples can be had: answers at one step (`trials`), whole runs (`rollouts`).

    `name` says by whose word a sample is bad.
    """

    model: Cached

    @property
    def name(self) -> str: ...

    @property
    def fidelity(self) -> Fidelity | None:
        """That of the requests that are asked or grown from."""
        ...

    @property
    def evidence(self) -> list[Evidence]: ...

    @property
    def lost(self) -> dict[int, str]:
        """By version, why a first sample could not be judged."""
        ...

    def add(self, version: Version) -> int:
        """One more version; its number. Raises BadEdit where it does not apply."""
        ...

    def outcomes(self, wishes: Sequence[SampleRequest]) -> list[Outcome]:
        """Ask for samples and judge them, in their order."""
        ...
