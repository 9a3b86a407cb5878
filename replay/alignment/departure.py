"""From which row on do two runs stay apart?

They part at a row that differs. They are together again when, since then, they were together in as
many rows as they were apart, or in `LONG` of them: a detour of one step is over after one step in
common, and a long way apart is not mended by the one last step that every run ends with. This is
the counter of a cumulative sum test (Page, "Continuous inspection schemes", Biometrika 41, 1954),
up by one for a row apart, down by one for a row together, never below nothing and never above
`LONG`. The lasting departure is the row at which the counter left nothing for the last time; where
it stands at nothing in the end there is none. Rows of which nobody can tell move it neither way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

LONG = 3
"""Rows together after which any departure is over."""

Standing: TypeAlias = Literal["together", "apart", "open"]
"""How two runs stand to each other in a row; `open` where comparing cannot tell."""


class Parting(Struct, frozen=True, kw_only=True):
    """How two runs part. Rows count from 0.

    `first` is the first row apart, None where there is none; `lasting` the one from which on they
    stay apart, None where they are together again in the end. `again` counts how often they came
    together again before that.
    """

    first: int | None = None
    lasting: int | None = None
    again: int = 0


def parting(standings: Iterable[Standing]) -> Parting:
    """How two runs part, by how they stand in each row."""
    first: int | None = None
    since: int | None = None
    again = apart = 0
    for row, standing in enumerate(standings):
        if standing == "apart":
            first = row if first is None else first
            since = row if since is None else since
            apart = min(apart + 1, LONG)
        elif standing == "together" and since is not None:
            apart -= 1
            if not apart:
                since = None
                again += 1
    return Parting(first=first, lasting=since, again=again)
