"""`python -m tests.bench [--mb N] [WORD…]`: the rows whose name holds a word, or all of them.

Figures are from this machine and this run; the ratio is what holds elsewhere. The rows of `spans`
take a gigabyte of disk for their corpus, and as much again for each way of reading it: `--mb 50`
is a quick look.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench import (
    app,
    bisecting,
    diagnosing,
    exports,
    importing,
    listing,
    replaying,
    spending,
    taking,
)
from tests.bench.measure import Row

GROUPS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "commands": listing.commands,
    "replay": replaying.rows,
    "bisecting": bisecting.rows,
    "spending": spending.rows,
    "listing": listing.rows,
    "import": importing.rows,
    "spans": taking.rows,
    "diagnosis": diagnosing.rows,
    "app": app.rows,
}


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.bench", description="Speed as ratios.")
    asked.add_argument("words", nargs="*", metavar="WORD", help=", ".join(GROUPS))
    asked.add_argument("--mb", type=int, default=exports.MEGABYTES, help="size of the corpus")
    given = asked.parse_args()
    groups = GROUPS | {"spans": partial(taking.rows, megabytes=given.mb)}
    print(f"{'what':<58} {'measured':<44} held against")
    with tempfile.TemporaryDirectory(prefix="arc-bench-") as folder:
        for name, rows in groups.items():
            if not given.words or any(word in name for word in given.words):
                for row in rows(Path(folder)):
                    print(f"{row.what:<58} {row.figure:<44} {row.limit}", flush=True)


if __name__ == "__main__":
    main()
