"""The last result of each group of rows, in `speed.json`: the page of speed is made of it."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.bench.measure import Row

KEPT = Path(__file__).with_name("speed.json")


class Result(Struct, frozen=True, kw_only=True):
    """The rows of a group, the day and what they were measured on. `seconds` is what all took."""

    date: str
    machine: str
    seconds: float
    rows: tuple[Row, ...]


def results() -> dict[str, Result]:
    """By the name of their group, in the order in which they were first kept."""
    if not KEPT.exists():
        return {}
    return msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Result])


def keep(group: str, rows: Sequence[Row], seconds: float) -> None:
    """In place of what was kept of the group."""
    result = Result(
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        seconds=round(seconds, 1),
        rows=tuple(rows),
    )
    text = msgspec.json.encode(results() | {group: result})
    KEPT.write_bytes(msgspec.json.format(text, indent=1) + b"\n")


def machine() -> str:
    """How many cores, how busy they were, and the versions that matter for speed."""
    busy = f", load {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{os.cpu_count()} cores{busy}, Python {platform.python_version()},"
        f" SQLite {sqlite3.sqlite_version}"
    )


def markdown() -> str:
    """How long all groups took together, then a table a group, with the day and the machine above
    it."""
    found = results()
    taken = sum(result.seconds for result in found.values())
    return "\n\n".join(
        (
            f"{len(found)} groups, measured in {taken / 60:.0f} minutes together: "
            + ", ".join(f"{name} {result.seconds:.0f} s" for name, result in found.items())
            + ".",
            *(_section(name, result) for name, result in found.items()),
        )
    )


def _section(name: str, result: Result) -> str:
    rows = (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in result.rows)
    return "\n".join(
        (
            f"### {name}",
            "",
            f"{result.date}, {result.machine}; measured in {result.seconds:.0f} s.",
            "",
            "| what | measured | held against |",
            "| --- | --- | --- |",
            *rows,
        )
    )
