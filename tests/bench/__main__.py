"""`python -m tests.bench [--keep] [--full] [WORD…]`: the rows of each group whose name holds a
word, or of all.

Figures are from this machine and this run; the ratio is what holds elsewhere. All of it takes a
quarter of an hour; `--full` adds what takes longer: a gigabyte of OTLP, the app on 100 000 spans
and runs, lists of 300 000 runs and 10M spans, a trace store of 1M spans, and Phoenix beside the
import, which it installs.
`--keep` writes the rows into `docs/reference/speed.md`, in place of what was there of the same
groups. `--counts` counts operations instead, and shows them beside those that were accepted; with
`--keep` it accepts them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from replay.errors import ArcError
from tests.bench import (
    agents,
    app,
    bisecting,
    counts,
    diagnosing,
    exports,
    fleet,
    gate,
    importing,
    kept,
    keys,
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
from tests.docs import DOCS, rendered

Rows = Callable[[Path], Iterator[Row]]

GROUPS: dict[str, Rows] = {
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
    "spans": partial(taking.rows, megabytes=50),
    "diagnosis": diagnosing.rows,
    "suggest": suggest.rows,
    "app": partial(app.rows, most=10_000),
    "keys": partial(keys.rows, most=10_000),
}
"""The rows of each, in the order of the table."""

FULL: dict[str, Rows] = {
    "spans": taking.rows,
    "app": app.rows,
    "keys": keys.rows,
    "many": listing.full_rows,
    "fleet": fleet.rows,
    "phoenix": partial(peer.rows, megabytes=peer.MEGABYTES, environment=None),
}
"""Those that stand in their place, or beside them, where all is asked for."""

PAGE = DOCS / "reference" / "speed.md"


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once
    asked = argparse.ArgumentParser(prog="python -m tests.bench", description="Speed as ratios.")
    asked.add_argument("words", nargs="*", metavar="WORD", help=", ".join((*GROUPS, *FULL)))
    asked.add_argument("--full", action="store_true", help="also what takes longer")
    asked.add_argument("--keep", action="store_true", help="write the result into the documents")
    asked.add_argument("--counts", action="store_true", help="count operations, measure no time")
    asked.add_argument("--mb", type=int, help="size of the corpus of `spans` and `phoenix`")
    asked.add_argument("--most", type=int, help="spans and runs the app is shown at most")
    asked.add_argument(
        "--peer-env", type=Path, help="an environment of Phoenix, made where there is none"
    )
    given = asked.parse_args()
    try:
        if given.counts:
            _check(given.words, counts.COUNTERS)
            _print_counts(given.words, keep=given.keep)
        else:
            groups = GROUPS | FULL if given.full else GROUPS
            more = "" if given.full else f"; with --full: {', '.join(FULL)}"
            _check(given.words, groups, more)
            _print_rows(_sized(groups, given), given.words, keep=given.keep)
    except ArcError as error:
        sys.exit(f"{error.message}\n{error.hint or ''}".rstrip())
    if given.keep:
        PAGE.write_text(rendered(PAGE.read_text()))


def _check(words: list[str], names: Collection[str], more: str = "") -> None:
    """Raises ArcError for a word that is in none of these names."""
    for word in words:
        if not any(word in name for name in names):
            raise ArcError(
                f"no group has '{word}' in its name", f"Groups: {', '.join(names)}{more}"
            )


def _sized(groups: Mapping[str, Rows], given: argparse.Namespace) -> dict[str, Rows]:
    """The groups in the sizes that were asked for."""
    sized = dict(groups)
    if given.mb:
        sized["spans"] = partial(taking.rows, megabytes=given.mb)
    if given.most:
        sized["app"] = partial(app.rows, most=given.most)
        sized["keys"] = partial(keys.rows, most=given.most)
    if "phoenix" in sized and (given.mb or given.peer_env):
        size = min(given.mb or exports.MEGABYTES, peer.MEGABYTES)
        sized["phoenix"] = partial(peer.rows, megabytes=size, environment=given.peer_env)
    return sized


def _print_rows(groups: Mapping[str, Rows], words: list[str], *, keep: bool) -> None:
    print(f"{'what':<58} {'measured':<44} held against")
    for name, rows in groups.items():
        if words and not any(word in name for word in words):
            continue
        began, found = time.perf_counter(), []
        with tempfile.TemporaryDirectory(prefix="arc-bench-") as folder:  # no group meets another's
            for row in rows(Path(folder)):
                print(f"{row.what:<58} {row.figure:<44} {row.limit}", flush=True)
                found.append(row)
        if keep:
            kept.keep(name, found, time.perf_counter() - began)


def _print_counts(words: list[str], *, keep: bool) -> None:
    grown = 0
    print(f"{'what':<64} {'counted':>12} {'accepted':>12}")
    for counter in counts.COUNTERS:
        if words and not any(word in counter for word in words):
            continue
        found, known = counts.counted(counter), counts.accepted().get(counter, {})
        worse = counts.worse(found, known)
        for name, count in found.items():
            before = f"{known[name]:,.10g}" if name in known else "–"
            mark = "  grown" if name in worse else ""
            print(f"{name:<64} {round(count.value, 2):>12,.10g} {before:>12}{mark}", flush=True)
        grown += len(worse)
        if keep:
            counts.accept(counter, found)
    if grown and not keep:
        sys.exit(1)


if __name__ == "__main__":
    main()
