"""`python -m tests.bench [WORD…]`: the rows whose name holds a word, or all of them.

Figures are from this machine and this run; the ratio is what holds elsewhere. Rows of `design` that
need parts which do not exist yet (OTLP import, search, peers) are not here.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import app, bisecting, diagnosing, importing, listing, replaying, spending
from tests.bench.measure import Row

GROUPS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "commands": listing.commands,
    "replay": replaying.rows,
    "bisecting": bisecting.rows,
    "spending": spending.rows,
    "listing": listing.rows,
    "import": importing.rows,
    "diagnosis": diagnosing.rows,
    "app": app.rows,
}


def main(words: list[str]) -> None:
    chosen = [name for name in GROUPS if not words or any(word in name for word in words)]
    print(f"{'what':<58} {'measured':<44} held against")
    with tempfile.TemporaryDirectory(prefix="arc-bench-") as folder:
        for name in chosen:
            for row in GROUPS[name](Path(folder)):
                print(f"{row.what:<58} {row.figure:<44} {row.limit}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
