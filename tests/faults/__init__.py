"""What is promised about loss and leaks, and how far it was put to the test.

`python -m tests.faults` runs every trial and prints one table; `-m slow` tests run the same trials,
half as many of what takes long, the everyday tests a few of each. With `--keep` what was reached is
kept in `reached.json`, from which the table of `docs/reference/faults.md` is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

REACHED = Path(__file__).with_name("reached.json")


class Row(Struct, frozen=True, kw_only=True):
    """One promise, what was done to break it, and the figure reached, as words for the table."""

    promise: str
    trial: str
    figure: str
    kept: bool


class Part(Struct, frozen=True, kw_only=True):
    """The rows of a module of this package, and the day they were measured."""

    measured: str
    rows: tuple[Row, ...]


def reached() -> dict[str, Part]:
    """What was last kept, by module."""
    if not REACHED.exists():
        return {}
    return msgspec.json.decode(REACHED.read_bytes(), type=dict[str, Part])


def write_reached(parts: Mapping[str, Part]) -> None:
    REACHED.write_bytes(msgspec.json.format(msgspec.json.encode(parts), indent=2) + b"\n")
