"""Import of a collector's file against the same work done plainly, and its diagnosis.

The plain way reads each line with `json` and puts every span into a row with `sqlite-utils`, its
attributes as JSON beside it; every text runs through the same rules for secrets, and full-text
search is switched on. What makes the difference is that a file of growing contexts says most
things many times, and only what is said for the first time is searched for secrets, indexed and
written. Each side is a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import sqlite_utils
from msgspec import Struct
from sqlite_utils.db import Table

from arc_tui import importing
from replay.redact.redactor import Redactor
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from tests.bench import exports
from tests.bench.exports import Corpus
from tests.bench.measure import Row, peak_mb

Json = Any
Masked = Callable[[str], str]

SPAN_GOAL = "goal ≥ 2.5×"
DISK_GOAL = "goal ≤ 0.2"
MEMORY_MB = 300


class Cost(Struct):
    """What a process took: seconds of the wall and of the processor, its peak, what it wrote."""

    seconds: float
    processor_s: float
    peak_mb: float
    disk_bytes: int = 0


def rows(folder: Path, megabytes: int = exports.MEGABYTES) -> Iterator[Row]:
    """The corpus, its import, the plain ways, the diagnosis of what was imported."""
    source = folder / "corpus.jsonl"
    made = exports.write(source, megabytes)
    yield Row(
        f"the corpus: {made.traces} traces, {made.spans} spans, {made.bytes / 1e6:.0f} MB",
        f"said once {made.unique:.1%}, largest span {made.largest_span_bytes / 1e6:.2f} MB",
        "",
    )
    ours = _in_a_process("take_in", source, folder / "ours.db")
    plain = _in_a_process("plain_rows", source, folder / "plain.db")
    bare = _in_a_process("bare_rows", source, folder / "bare.db")
    yield Row("its import", _speed(made, ours), "")
    yield Row("plain rows, masked and searchable", _speed(made, plain), _times(plain, ours))
    yield Row("plain rows, neither", _speed(made, bare), _times(bare, ours, "no goal"))
    yield Row("on disk", _disk(made, ours), f"plain {_disk(made, plain)}, {DISK_GOAL}")
    allowed = MEMORY_MB + 3 * made.largest_span_bytes / 1e6
    yield Row(
        "the most memory held", f"{ours.peak_mb:.0f} MB",
        f"plain {plain.peak_mb:.0f} MB, goal < {allowed:.0f} MB",
    )  # fmt: skip
    said = _in_a_process("diagnose", source, folder / "ours.db")
    yield Row("the diagnosis of all its traces", _speed(made, said), "a row of its own, no goal")
    for part in (source, folder / "plain.db", folder / "bare.db"):
        part.unlink()
    yield from _long_rows(folder, megabytes)


def _long_rows(folder: Path, megabytes: int) -> Iterator[Row]:
    """One trace that is as long as traces get."""
    source = folder / "long.jsonl"
    made = exports.write_one(source, exports.LONG_STEPS * megabytes // exports.MEGABYTES)
    what = f"one trace: {made.spans} spans, {made.bytes / 1e6:.0f} MB"
    cost = _in_a_process("take_in", source, folder / "long.db")
    allowed = MEMORY_MB + 3 * made.largest_span_bytes / 1e6
    yield Row(what, _speed(made, cost), f"{_disk(made, cost)}, no goal")
    yield Row("the most memory held", f"{cost.peak_mb:.0f} MB", f"goal < {allowed:.0f} MB")


def _speed(made: Corpus, cost: Cost) -> str:
    return (
        f"{made.spans / cost.seconds:.0f} spans/s, {cost.seconds:.1f} s"
        f" ({cost.processor_s:.1f} s of processor)"
    )


def _times(theirs: Cost, ours: Cost, goal: str = SPAN_GOAL) -> str:
    return f"ours {theirs.processor_s / ours.processor_s:.2f}× as fast, {goal}"


def _disk(made: Corpus, cost: Cost) -> str:
    return f"{cost.disk_bytes / made.bytes:.2f} of the source"


def _in_a_process(work: str, source: Path, database: Path) -> Cost:
    done = subprocess.run(
        [sys.executable, "-m", __name__, work, str(source), str(database)],
        capture_output=True,
        check=True,
    )
    cost = msgspec.json.decode(done.stdout, type=Cost)
    cost.disk_bytes = sum(part.stat().st_size for part in database.parent.glob(database.name + "*"))
    return cost


# --- the work, each as a process


def take_in(source: Path, database: Path) -> None:
    """Import as `arc import` does before it diagnoses."""
    with open_ledger(database) as store:
        bring(store, source)
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def bring(store: Store, source: Path) -> None:
    """The traces of a file into a store."""
    importing.run_to_end(importing.take_in(store, [source]))


def diagnose(source: Path, database: Path) -> None:
    """The rules over all that was imported."""
    with open_ledger(database) as store:
        for _ in importing.diagnose_new(store):
            pass
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def plain_rows(source: Path, database: Path) -> None:
    """A row a span, every text masked, full-text search over all of it."""
    redactor = Redactor(b"bench")

    def masked(text: str) -> str:
        return text if redactor.clear(text.encode()) else redactor.text(text)

    table = _inserted(source, database, masked)
    table.enable_fts(["attributes"], create_triggers=True)


def bare_rows(source: Path, database: Path) -> None:
    """A row a span and nothing else."""
    _inserted(source, database, str)


def _inserted(source: Path, database: Path, masked: Masked) -> Table:
    table = sqlite_utils.Database(database)["span"]
    assert isinstance(table, Table)
    table.insert_all(_spans(source, masked), pk="id", batch_size=1000)
    return table


def _spans(source: Path, masked: Masked) -> Iterator[Json]:
    with source.open() as lines:
        for line in lines:
            for about in json.loads(line)["resourceSpans"]:
                for scope in about["scopeSpans"]:
                    yield from (_row(span, masked) for span in scope["spans"])


def _row(span: Json, masked: Masked) -> Json:
    given = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
    told = {key: masked(value) if isinstance(value, str) else value for key, value in given.items()}
    return {
        "id": span["traceId"] + span["spanId"],
        "trace": span["traceId"],
        "parent": span.get("parentSpanId"),
        "name": span["name"],
        "start_ns": int(span["startTimeUnixNano"]),
        "end_ns": int(span["endTimeUnixNano"]),
        "status": span["status"]["code"],
        "attributes": json.dumps(told),
    }


WORK: dict[str, Callable[[Path, Path], None]] = {
    each.__name__: each for each in (take_in, plain_rows, bare_rows, diagnose)
}


def main(work: str, source: str, database: str) -> None:
    """Do one of them and say what it took."""
    start = time.perf_counter()
    WORK[work](Path(source), Path(database))
    cost = Cost(time.perf_counter() - start, time.process_time(), peak_mb())
    sys.stdout.buffer.write(msgspec.json.encode(cost))


if __name__ == "__main__":
    main(*sys.argv[1:])
