"""`python -m tests.bench [--mb N] [--most N] [WORD…]`: the rows whose name holds a word, or all.

Figures are from this machine and this run; the ratio is what holds elsewhere. The rows of `spans`
take a gigabyte of disk for their corpus, and as much again for each way of reading it: `--mb 50`
is a quick look. `app` needs databases that it builds once and keeps; `--most 10000` leaves out the
largest. `--peer phoenix` measures import beside another tool, which it installs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from replay.errors import ArcError
from tests.bench import (
    agents,
    app,
    bisecting,
    diagnosing,
    exports,
    gate,
    importing,
    layers,
    listing,
    peer,
    replaying,
    served,
    spending,
    suggest,
    taking,
)
from tests.bench.measure import Row

GROUPS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "commands": listing.commands,
    "agents": agents.rows,
    "replay": replaying.rows,
    "served": served.rows,
    "bisecting": bisecting.rows,
    "spending": spending.rows,
    "gate": gate.rows,
    "layers": layers.rows,
    "listing": listing.rows,
    "import": importing.rows,
    "spans": taking.rows,
    "diagnosis": diagnosing.rows,
    "suggest": suggest.rows,
    "app": app.rows,
}


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.bench", description="Speed as ratios.")
    asked.add_argument("words", nargs="*", metavar="WORD", help=", ".join(GROUPS))
    asked.add_argument("--mb", type=int, default=exports.MEGABYTES, help="size of the corpus")
    asked.add_argument(
        "--most", type=int, default=app.MOST, help="spans and runs the app is shown at most"
    )
    asked.add_argument("--peer", choices=["phoenix"], help="import beside another tool, alone")
    asked.add_argument(
        "--peer-env", type=Path, help="an environment of it, made where there is none"
    )
    given = asked.parse_args()
    groups = GROUPS | {
        "spans": partial(taking.rows, megabytes=given.mb),
        "app": partial(app.rows, most=given.most),
    }
    if given.peer:
        size = min(given.mb, peer.MEGABYTES)
        groups = {"peer": partial(peer.rows, megabytes=size, environment=given.peer_env)}
    try:
        _print_rows(groups, given.words)
    except ArcError as error:
        sys.exit(f"{error.message}\n{error.hint or ''}".rstrip())


def _print_rows(groups: dict[str, Callable[[Path], Iterator[Row]]], words: list[str]) -> None:
    print(f"{'what':<58} {'measured':<44} held against")
    with tempfile.TemporaryDirectory(prefix="arc-bench-") as folder:
        for name, rows in groups.items():
            if not words or any(word in name for word in words):
                for row in rows(Path(folder)):
                    print(f"{row.what:<58} {row.figure:<44} {row.limit}", flush=True)


if __name__ == "__main__":
    main()
