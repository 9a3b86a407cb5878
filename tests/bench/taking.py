"""Import of a collector's file against the same work done plainly, and its diagnosis.

The plain way reads each line with `json` and puts every span into a row with `sqlite-utils`, its
attributes as JSON beside it; every text runs through the same rules for secrets, and full-text
search is switched on. What makes the difference is that a file of growing contexts says most
things many times, and only what is said for the first time is searched for secrets, indexed and
written. Each side is a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from arc_tui import importing
from arc_tui.import_tasks import diagnosis_of
from arc_tui.workers import cores
from replay import formats
from replay.formats.source import Source, Tally
from replay.redact.redactor import Redactor
from replay.store.handle import Store
from replay.store.write import Finished, Writer
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import open_ledger
from tests.bench import exports
from tests.bench.exports import Corpus
from tests.bench.measure import Row, peak_mb

if TYPE_CHECKING:
    from sqlite_utils.db import Table

Json = Any
T = TypeVar("T")
Masked = Callable[[str], str]

DISK_GOAL = "goal ≤ 0.2"
MEMORY_MB = 300
RUNS_A_GROUP = 8
"""So many runs are written together, about as many spans as an import writes at once."""


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
    yield Row("plain rows, neither", _speed(made, bare), _times(bare, ours))
    yield Row("on disk", _disk(made, ours), f"plain {_disk(made, plain)}, {DISK_GOAL}")
    allowed = MEMORY_MB + 3 * made.largest_span_bytes / 1e6
    yield Row(
        "the most memory held", f"{ours.peak_mb:.0f} MB",
        f"plain {plain.peak_mb:.0f} MB, goal < {allowed:.0f} MB",
    )  # fmt: skip
    said = _in_a_process("diagnose", source, folder / "ours.db")
    yield Row("the diagnosis of all its traces", _speed(made, said), "a row of its own, no goal")
    whole = _in_a_process("import_all", source, folder / "whole.db")
    yield Row(
        f"both, with as many processes as cores ({cores()})",
        _speed(made, whole),
        f"plain rows, neither, {bare.seconds:.1f} s: {whole.seconds / bare.seconds:.1f} times as"
        " long, goal ≤ 2.5",
    )
    yield from _stage_rows(made, source, folder / "stages.db")
    for name in ("plain.db", "bare.db", "whole.db", "stages.db"):
        (folder / name).unlink()
    source.unlink()
    yield from _long_rows(folder, megabytes)


class Stages(Struct):
    """Processor seconds of each part of an import and what it keeps; `statements`, which are
    counted in a run of their own, are what it asks of SQLite."""

    read_s: float
    prepare_s: float
    write_s: float
    diagnose_s: float
    keep_s: float
    disk_bytes: int
    statements: int


def _stage_rows(made: Corpus, source: Path, database: Path) -> Iterator[Row]:
    """Where the time goes, and what more processes can take of it: one writes, the others share
    what is left."""
    found = msgspec.json.decode(_output("stages", source, database), type=Stages)
    database.unlink()
    counted = msgspec.json.decode(_output("statements", source, database), type=Stages)
    parts = {
        "reading": found.read_s,
        "masks and digests": found.prepare_s,
        "writing": found.write_s,
        "diagnosis": found.diagnose_s,
        "keeping it": found.keep_s,
    }
    shared = found.read_s + found.prepare_s + found.diagnose_s
    alone = found.write_s + found.keep_s
    yield Row(
        "processor seconds of its parts",
        ", ".join(f"{name} {seconds:.1f}" for name, seconds in parts.items()),
        f"one process writes ({alone:.1f} s); {shared:.1f} s can be shared: with many files at"
        f" most {(alone + shared) / max(alone, shared / 8):.1f} times as fast on 8 cores"
        " (reckoned, not measured)",
    )
    yield Row(
        "counts that depend on no clock",
        f"{counted.statements / made.spans:.2f} SQL statements and"
        f" {found.disk_bytes / made.spans:.0f} bytes a span",
        "a row written is a statement",
    )


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


def _times(theirs: Cost, ours: Cost) -> str:
    return f"ours {theirs.processor_s / ours.processor_s:.2f}× as fast, no goal"


def _disk(made: Corpus, cost: Cost) -> str:
    return f"{cost.disk_bytes / made.bytes:.2f} of the source"


def _output(work: str, source: Path, database: Path) -> bytes:
    command = [sys.executable, "-m", __name__, work, str(source), str(database)]
    return subprocess.run(command, capture_output=True, check=True).stdout


def _in_a_process(work: str, source: Path, database: Path) -> Cost:
    cost = msgspec.json.decode(_output(work, source, database), type=Cost)
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


def import_all(source: Path, database: Path) -> None:
    """All that `arc import` does, with its processes."""
    forked = importing.fork_for([source], cores())
    with closing(forked), open_ledger(database) as store:
        for _ in importing.import_paths(store, [source], jobs=cores(), forked=forked):
            pass
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def stages(source: Path, database: Path, *, counting: bool) -> None:
    """The same in one process, its parts one after the other for each trace. Where it is `counting`
    statements its seconds mean nothing: each is written out with all of its values for that."""
    spent = [0.0] * 5
    ran = [0]

    def timed(stage: int, work: Iterator[T]) -> Iterator[T]:
        while True:
            start = time.process_time()
            try:
                item = next(work)
            except StopIteration:
                return
            finally:
                spent[stage] += time.process_time() - start
            yield item

    def count(_: str) -> None:
        ran[0] += 1

    with open_ledger(database) as store:
        writer = Writer(store)
        if counting:
            store.db.set_trace_callback(count)
        keys: list[str] = []
        read = timed(0, formats.load(Source(source), Tally()))
        prepared = timed(1, writer.prepare(read))
        while group := list(islice(prepared, RUNS_A_GROUP)):
            start = time.process_time()
            keys += [each.id for each in writer.keep(group) if isinstance(each, Finished)]
            spent[2] += time.process_time() - start
        redactor = store.redactor
        made = timed(3, (diagnosis_of(store, key, redactor) for key in keys))
        while said := list(islice(made, RUNS_A_GROUP)):
            start = time.process_time()
            diagnoses.keep_all(store, said)
            spent[4] += time.process_time() - start
        store.db.set_trace_callback(None)
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    found = Stages(
        read_s=spent[0],
        prepare_s=spent[1] - spent[0],  # which waits for what is read
        write_s=spent[2],
        diagnose_s=spent[3],
        keep_s=spent[4],
        disk_bytes=database.stat().st_size,
        statements=ran[0],
    )
    sys.stdout.buffer.write(msgspec.json.encode(found))


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
    import sqlite_utils  # here: with pandas it starts threads, and where there are some none forks
    from sqlite_utils.db import Table

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
    each.__name__: each for each in (take_in, plain_rows, bare_rows, diagnose, import_all)
}


def main(work: str, source: str, database: str) -> None:
    """Do one of them and say what it took."""
    if work in ("stages", "statements"):
        stages(Path(source), Path(database), counting=work == "statements")
        return
    start = time.perf_counter()
    WORK[work](Path(source), Path(database))
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = time.process_time() + others.ru_utime + others.ru_stime
    cost = Cost(time.perf_counter() - start, processor_s, peak_mb())
    sys.stdout.buffer.write(msgspec.json.encode(cost))


if __name__ == "__main__":
    main(*sys.argv[1:])
