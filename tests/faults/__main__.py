"""`python -m tests.faults [PART]…` runs the trials and prints the table."""

from __future__ import annotations

import sys
from importlib import import_module

from rich.console import Console
from rich.table import Table

from tests.faults import Row

PARTS: tuple[str, ...] = (
    "killed",
    "damaged",
    "pruned",
    "encrypted",
    "hostile",
    "effects",
    "leaked",
)
"""Modules of this package, each with `rows() -> Iterator[Row]`."""


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - set(PARTS)
    if unknown:
        raise SystemExit(
            f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}"
        )
    found: list[Row] = []
    for part in PARTS:
        if not wanted or part in wanted:
            found += import_module(f"tests.faults.{part}").rows()
    table = Table("promise", "trial", "reached")
    for row in found:
        table.add_row(row.promise, row.trial, row.figure if row.kept else f"[red]{row.figure}[/]")
    Console(width=160).print(table)
    return 0 if all(row.kept for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
