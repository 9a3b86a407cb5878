"""What did the rules say of runs of a trace store that are not here?

A scan is a question to one store, cut into partitions. What was found in one is kept in one
transaction with the mark that it is done: a scan that was stopped goes on with the partitions that
are left, and no run is counted twice. Of each store the newest finished scan is kept, and one that
goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from replay.care.prune import removing
from replay.store.handle import Store, now_ns
from replay.store.rows import columns, rows
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Evidence
from taxonomy.judgements.schema import NOT_A_HINT


class ScanQuestion(Struct, frozen=True, kw_only=True):
    """What a scan asks: the store, the query, and the stretch of time as a person wrote it.
    Asked again, it is the same scan that goes on. `engine` is the version of the rules."""

    fleet: str
    query: str
    since: str
    until: str | None
    engine: str


class Partition(Struct, frozen=True, kw_only=True):
    """The traces that began in a stretch of time, in ns since the epoch, and whose hash is `low` or
    above and below `high`; `traces` is how many there were when the scan began."""

    place: int
    from_ns: int
    until_ns: int
    low: int
    high: int
    traces: int


class ScanFinding(Struct, frozen=True, kw_only=True):
    """What a rule says of a step, as a diagnosis here keeps it; `tool` is the first that the step
    called."""

    place: int
    step: int
    span: str
    failure: FailureClass
    sub: str | None
    attribution: Attribution | None
    why: str
    by: str
    confidence: float | None
    evidence: tuple[Evidence, ...]
    tool: str | None


class ScannedRun(Struct, frozen=True, kw_only=True):
    """A run of a store that the rules looked at: what lists say of it, masked, and the `findings`.

    `trace` is its id in the store, `key` the one that a pull gives its recording. `why` and
    `why_step` are the first break candidate. `problem` says why it could not be read or diagnosed.
    """

    trace: str
    key: str | None = None
    title: str | None = None
    task: str | None = None
    trial: str | None = None
    agent: str | None = None
    models: str | None = None
    variant: str | None = None
    outcome: Literal["passed", "failed", "unknown"] = "unknown"
    start_ns: int | None = None
    steps: int = 0
    calls: int = 0
    errors: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    why: str | None = None
    why_step: int | None = None
    problem: str | None = None
    findings: tuple[ScanFinding, ...] = ()


class Scan(Struct, frozen=True, kw_only=True):
    """A scan as it is kept: `partitions` of which `done` are; the `runs` found so far, of which
    `unread` could not be read, and the `findings` in them; `cpu_ns` is what workers took for the
    done ones. `has_outcomes` tells whether the store had outcomes when it began."""

    id: int
    fleet: str
    query: str
    since: str
    until: str | None
    from_ns: int
    until_ns: int
    has_outcomes: bool
    started_ns: int
    finished_ns: int | None
    partitions: int
    done: int
    runs: int
    unread: int
    findings: int
    cpu_ns: int


_SCAN = """
SELECT s.id, s.fleet, s.query, s.since, s.until, s.from_ns, s.until_ns, s.has_outcomes,
  s.started_ns, s.finished_ns, count(p.place) AS partitions, count(p.done_ns) AS done,
  (SELECT count(*) FROM scan_run r WHERE r.scan = s.id) AS runs,
  (SELECT count(*) FROM scan_run r WHERE r.scan = s.id AND r.problem IS NOT NULL) AS unread,
  (SELECT count(*) FROM scan_finding f WHERE f.scan = s.id) AS findings,
  coalesce(sum(p.cpu_ns), 0) AS cpu_ns
FROM scan s LEFT JOIN scan_partition p ON p.scan = s.id
WHERE {} GROUP BY s.id ORDER BY s.started_ns DESC, s.id DESC
"""


def _scans(store: Store, where: str, values: Sequence[Any] = ()) -> list[Scan]:
    return list(rows(store.db.execute(_SCAN.format(where), list(values)), Scan))


def unfinished_scan(store: Store, asked: ScanQuestion) -> Scan | None:
    """The scan of this question that is not at its end, None where there is none."""
    found = _scans(
        store,
        "s.finished_ns IS NULL AND s.fleet = ? AND s.query = ? AND s.since = ? AND s.until IS ?"
        " AND s.engine = ?",
        (asked.fleet, asked.query, asked.since, asked.until, asked.engine),
    )
    return found[0] if found else None


def begin_scan(
    store: Store,
    asked: ScanQuestion,
    window: tuple[int, int],
    partitions: Iterable[Partition],
    *,
    has_outcomes: bool,
) -> Scan:
    """Keep what is to be done before any of it is. An earlier scan of that store which did not come
    to its end goes."""
    with store.writing() as db:
        _delete(store, "fleet = ? AND finished_ns IS NULL", (asked.fleet,))
        made = db.execute(
            "INSERT INTO scan (fleet, query, since, until, engine, from_ns, until_ns, has_outcomes,"
            " started_ns) VALUES (?,?,?,?,?,?,?,?,?)",
            (asked.fleet, asked.query, asked.since, asked.until, asked.engine, *window,
             has_outcomes, now_ns()),
        ).lastrowid  # fmt: skip
        db.executemany(
            "INSERT INTO scan_partition (scan, place, from_ns, until_ns, low, high, traces)"
            " VALUES (?,?,?,?,?,?,?)",
            [
                (made, part.place, part.from_ns, part.until_ns, part.low, part.high, part.traces)
                for part in partitions
            ],
        )
    return _scans(store, "s.id = ?", (made,))[0]


def scan_of(store: Store, scan: int) -> Scan:
    """A scan as it stands now."""
    return _scans(store, "s.id = ?", (scan,))[0]


def partitions_left(store: Store, scan: int) -> list[Partition]:
    """The partitions that are still to be done, in their order."""
    cursor = store.db.execute(
        f"SELECT {columns(Partition)} FROM scan_partition WHERE scan = ? AND done_ns IS NULL"
        " ORDER BY place",
        (scan,),
    )
    return list(rows(cursor, Partition))


_RUN = [name for name in ScannedRun.__struct_fields__ if name != "findings"]
_PUT_RUN = (
    f"INSERT OR REPLACE INTO scan_run (scan, part, {', '.join(_RUN)})"
    f" VALUES ({', '.join('?' * (len(_RUN) + 2))})"
)


def keep_partition(
    store: Store, scan: int, place: int, found: Iterable[ScannedRun], cpu_ns: int
) -> None:
    """Keep what was found in a partition, and that it is done, in one transaction; of one that is
    done already nothing."""
    with store.writing() as db:
        done = db.execute(
            "UPDATE scan_partition SET done_ns = ?, cpu_ns = ?"
            " WHERE scan = ? AND place = ? AND done_ns IS NULL",
            (now_ns(), cpu_ns, scan, place),
        )
        if not done.rowcount:
            return
        for run in found:
            db.execute(_PUT_RUN, [scan, place, *(getattr(run, name) for name in _RUN)])
            db.execute("DELETE FROM scan_finding WHERE scan = ? AND source = ?", (scan, run.trace))
            db.executemany(
                "INSERT INTO scan_finding (scan, source, place, step, span, class, sub, fault, why,"
                " by, confidence, evidence, tool) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
                [
                    (scan, run.trace, each.place, each.step, each.span, each.failure.value,
                     each.sub, each.attribution.value if each.attribution else None, each.why,
                     each.by, each.confidence, msgspec.json.encode(each.evidence).decode(),
                     each.tool)
                    for each in run.findings
                ],
            )  # fmt: skip


_FINDING = ", ".join(
    {"failure": "class", "attribution": "fault"}.get(name, name)
    for name in ScanFinding.__struct_fields__
)


def kept_runs(store: Store, scan: int) -> Iterator[list[ScannedRun]]:
    """The runs of a scan with their findings, those of each partition that is done together."""
    done = store.db.execute(
        "SELECT place FROM scan_partition WHERE scan = ? AND done_ns IS NOT NULL ORDER BY place",
        (scan,),
    ).fetchall()
    for (place,) in done:
        found: dict[str, list[ScanFinding]] = {}
        for source, *row in store.db.execute(
            f"SELECT source, {_FINDING} FROM scan_finding WHERE scan = ?1 AND source IN"
            " (SELECT trace FROM scan_run WHERE scan = ?1 AND part = ?2) ORDER BY source, place",
            (scan, place),
        ):
            named = dict(zip(ScanFinding.__struct_fields__, row, strict=True))
            named["evidence"] = msgspec.json.decode(named["evidence"])
            found.setdefault(source, []).append(msgspec.convert(named, ScanFinding))
        yield [
            structs.replace(run, findings=tuple(found.get(run.trace, ())))
            for run, _ in scanned_runs(store, scan, f"part = {int(place)}")
        ]


def finish_scan(store: Store, scan: int) -> None:
    """The scan is at its end: earlier ones of its store go."""
    with store.writing() as db:
        db.execute("UPDATE scan SET finished_ns = ? WHERE id = ?", (now_ns(), scan))
        _delete(store, "fleet = (SELECT fleet FROM scan WHERE id = ?) AND id <> ?", (scan, scan))


def forget_scans(store: Store, fleet: str) -> None:
    """Delete all that scans of a store kept; its bytes are overwritten."""
    with removing(store):
        _delete(store, "fleet = ?", (fleet,))


def forget_texts(store: Store, recordings: str) -> None:
    """Of runs whose recordings (the JSON of their ids) are pruned here, delete what quotes them.
    That they were scanned, and which classes they showed, still counts."""
    of_them = "trace FROM scan_run WHERE key IN (SELECT value FROM json_each(?))"
    with store.writing() as db:
        db.execute(
            "UPDATE scan_finding SET why = '', evidence = '[]', tool = NULL"
            f" WHERE (scan, source) IN (SELECT scan, {of_them})",
            (recordings,),
        )
        db.execute(
            f"UPDATE scan_run SET title = NULL, why = NULL WHERE (scan, trace) IN (SELECT scan,"
            f" {of_them})",
            (recordings,),
        )


def _delete(store: Store, where: str, values: Sequence[Any]) -> None:
    with store.writing() as db:
        for table in ("scan_finding", "scan_run", "scan_partition"):
            db.execute(
                f"DELETE FROM {table} WHERE scan IN (SELECT id FROM scan WHERE {where})", values
            )
        db.execute(f"DELETE FROM scan WHERE {where}", values)


def scans_of(store: Store, fleet: str) -> list[Scan]:
    """All scans of a store, also unfinished ones, the newest first."""
    return _scans(store, "s.fleet = ?", (fleet,))


def kept_scans(store: Store) -> list[Scan]:
    """Of each store that was scanned, by name, the newest scan that is at its end; else the one
    that goes on, as far as it is."""
    found: dict[str, Scan] = {}
    for scan in _scans(store, "1"):
        known = found.get(scan.fleet)
        if known is None or (known.finished_ns is None and scan.finished_ns is not None):
            found[scan.fleet] = scan
    return [found[name] for name in sorted(found)]


def measured_pace(store: Store, fleet: str) -> float | None:
    """The CPU seconds that a run of this store took so far, None before any."""
    runs, cpu_ns = store.db.execute(
        "SELECT count(*), (SELECT sum(cpu_ns) FROM scan_partition WHERE scan IN"
        "   (SELECT id FROM scan WHERE fleet = ?1))"
        " FROM scan_run WHERE scan IN (SELECT id FROM scan WHERE fleet = ?1)",
        (fleet,),
    ).fetchone()
    return cpu_ns / 1e9 / runs if runs and cpu_ns else None


# --- what was found


class ScanWord(Struct, frozen=True, kw_only=True):
    """What a rule says of a run of a scan that failed. `key` is the run's recording as a pull names
    it, `local` that recording where it is here."""

    trace: str
    key: str
    local: str | None
    title: str | None
    task: str | None
    trial: str | None
    models: str | None
    variant: str | None
    start_ns: int | None
    failure: FailureClass = msgspec.field(name="class")
    sub: str | None
    attribution: Attribution | None
    step: int
    span: str
    why: str
    by: str
    tool: str | None


_WORD = ", ".join(
    "fault AS attribution" if name == "attribution" else name
    for name in ScanWord.__struct_encode_fields__
)
_LOCAL = "(SELECT t.key FROM trace t WHERE t.key = r.key AND t.complete)"


def scan_words(
    store: Store, scan: int, *, every: bool = False, without: Collection[str] = ()
) -> list[ScanWord]:
    """Of each failed run of a scan the earliest word that is no hint, or `every` one; runs of the
    tasks `without` left out."""
    first = "" if every else "WHERE nth = 1"
    cursor = store.db.execute(
        f"SELECT {_WORD} FROM ("
        f" SELECT r.trace, r.key, {_LOCAL} AS local, r.title, r.task, r.trial, r.models, r.variant,"
        "   r.start_ns, f.class, f.sub, f.fault, f.step, f.span, f.why, f.by, f.tool,"
        "   row_number() OVER (PARTITION BY r.trace ORDER BY f.step, f.class) AS nth"
        " FROM scan_run r JOIN scan_finding f ON f.scan = r.scan AND f.source = r.trace"
        f" WHERE r.scan = ? AND r.outcome = 'failed' AND {NOT_A_HINT} AND {_WITHOUT}) {first}"
        " ORDER BY trace, step, class",
        (scan, _tasks_json(without)),
    )
    return list(rows(cursor, ScanWord))


def scanned_runs(
    store: Store, scan: int, where: str = "1", *, without: Collection[str] = ()
) -> list[tuple[ScannedRun, str | None]]:
    """Runs of a scan without their findings, each with its recording here where it was pulled."""
    cursor = store.db.execute(
        f"SELECT {', '.join(_RUN)}, {_LOCAL} AS local FROM scan_run r"
        f" WHERE scan = ? AND ({where}) AND {_WITHOUT} ORDER BY trace",
        (scan, _tasks_json(without)),
    )
    return [(ScannedRun(**dict(zip(_RUN, row, strict=False))), row[len(_RUN)]) for row in cursor]


UNSAID = (
    "outcome = 'failed' AND NOT EXISTS (SELECT 1 FROM scan_finding f WHERE f.scan = r.scan"
    f" AND f.source = r.trace AND {NOT_A_HINT})"
)
"""The condition of failed runs of which no rule says anything."""


def scan_outcomes(store: Store, scan: int, *, without: Collection[str] = ()) -> dict[str, int]:
    """How many runs of a scan that could be read ended how."""
    found = store.db.execute(
        "SELECT outcome, count(*) FROM scan_run r"
        f" WHERE scan = ? AND problem IS NULL AND {_WITHOUT} GROUP BY outcome",
        (scan, _tasks_json(without)),
    )
    return dict(found.fetchall())


_WITHOUT = "coalesce(r.task, '') NOT IN (SELECT value FROM json_each(?))"


def _tasks_json(tasks: Collection[str]) -> str:
    return msgspec.json.encode(sorted(tasks)).decode()
