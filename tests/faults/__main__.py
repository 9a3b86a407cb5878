"""`python -m tests.faults [PART]…` runs the trials and prints the table."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from importlib import import_module

from rich.console import Console
from rich.table import Table

from tests.faults import REACHED, Part, Row, reached, write_reached

PARTS: tuple[str, ...] = (
    "killed",
    "damaged",
    "pruned",
    "scrubbed",
    "encrypted",
    "leaked",
    "hostile",
    "bounded",
    "fuzzed",
    "effects",
)
"""Modules of this package, each with `rows() -> Iterator[Row]`."""


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    asked.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    asked.add_argument("--seconds", type=float, help="how long `fuzzed` looks, over all formats")
    asked.add_argument("--keep", action="store_true", help=f"write the figures to {REACHED.name}")
    given = asked.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        asked.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    today = datetime.now(UTC).date().isoformat()
    found = {
        part: Part(measured=today, rows=_rows(part, given.seconds))
        for part in PARTS
        if part in (given.parts or PARTS)
    }
    rows = [row for part in found.values() for row in part.rows]
    _print(rows)
    if given.keep:
        kept = reached() | found
        write_reached({part: kept[part] for part in PARTS if part in kept})
    return 0 if all(row.kept for row in rows) else 1


def _rows(part: str, seconds: float | None) -> tuple[Row, ...]:
    asked = {"seconds": seconds} if part == "fuzzed" and seconds else {}
    return tuple(import_module(f"tests.faults.{part}").rows(**asked))


def _print(rows: list[Row]) -> None:
    table = Table("promise", "trial", "reached")
    for row in rows:
        table.add_row(row.promise, row.trial, row.figure if row.kept else f"[red]{row.figure}[/]")
    Console(width=160).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
