"""Findings of a scan as a table in ClickHouse, for those who count there.

A row is a finding, known by the store, the trace, and its number among the findings of that trace.
One that is written again takes the place of the one before, and one that a later scan does not find
any more is marked as deleted: `FINAL` leaves out both. No other table is touched, none is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from replay.fleet.connection import WritingConnection, identifier
from replay.fleet.stores import BadFleet
from replay.store.handle import now_ns
from taxonomy.judgements.scans import ScanFinding, ScannedRun

COLUMNS: Mapping[str, str] = {
    "fleet": "LowCardinality(String)",
    "trace": "String",
    "place": "UInt32",
    "recording": "String",
    "began": "Nullable(DateTime64(9, 'UTC'))",
    "outcome": "LowCardinality(String)",
    "step": "Int32",
    "span": "String",
    "class": "LowCardinality(String)",
    "sub": "LowCardinality(String)",
    "attribution": "LowCardinality(String)",
    "confidence": "Nullable(Float64)",
    "why": "String",
    "evidence": "String",
    "tool": "String",
    "by": "LowCardinality(String)",
    "engine": "LowCardinality(String)",
    "written": "DateTime64(6, 'UTC')",
    "deleted": "UInt8",
}
"""The columns and their types; texts are "" where nothing is known. `place` numbers the findings of
a trace, `recording` is the id that a pull gives the run, `evidence` is JSON, `engine` the version
of the rules, `written` when the row was."""

KEY = ("fleet", "trace", "place")

TOGETHER = 200
"""Traces that are written together."""

_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def check_table_name(table: str) -> None:
    """Raises BadFleet where a table of findings cannot be called so."""
    if not _NAMES.fullmatch(table):
        raise BadFleet(f"'{table}' cannot name a table", "Try: --into NAME/arc_findings")


class FindingsTable:
    """The table of that name, in the database of a connection, for the findings of one store."""

    def __init__(self, connection: WritingConnection, table: str, fleet: str, engine: str) -> None:
        """Nothing is written yet. Raises BadFleet where a table of that name is another's,
        FleetError."""
        check_table_name(table)
        self._connection, self._table = connection, table
        self._fleet, self._engine = fleet, engine
        self._is_there = self._check()

    @property
    def name(self) -> str:
        return f"{self._connection.name}/{self._table}"

    def create(self) -> None:
        """Make the table where there is none. Raises FleetError."""
        if self._is_there:
            return
        columns = ", ".join(f"{identifier(name)} {type_}" for name, type_ in COLUMNS.items())
        self._connection.create(
            f"CREATE TABLE IF NOT EXISTS {identifier(self._table)} ({columns})"
            f" ENGINE = ReplacingMergeTree(written, deleted) ORDER BY ({', '.join(KEY)})"
        )
        self._is_there = self._check()  # another may have made one of that name meanwhile
        if not self._is_there:
            raise BadFleet(
                f"{self._connection.name}: the user may not read the table '{self._table}'",
                "Try: a user with SELECT and INSERT on it",
            )

    def put(self, runs: Sequence[ScannedRun]) -> None:
        """Write the findings of these runs in place of those that are there of them. Raises
        FleetError."""
        for at in range(0, len(runs), TOGETHER):
            some = runs[at : at + TOGETHER]
            written = _moment(now_ns(), 6)
            rows = [self._row(run, each, written) for run in some for each in run.findings]
            keys = {(row["trace"], row["place"]) for row in rows}
            gone = [
                {"fleet": self._fleet, "trace": trace, "place": place, "engine": self._engine,
                 "written": written, "deleted": 1}
                for trace, place in self._places([run.trace for run in some])
                if (trace, place) not in keys
            ]  # fmt: skip
            self._connection.insert(self._table, [*rows, *gone])

    def _check(self) -> bool:
        """Is the table there? Raises BadFleet where it is not one of these."""
        found = self._connection.rows(
            "SELECT name, type FROM system.columns"
            " WHERE database = currentDatabase() AND table = {table:String}",
            {"table": self._table},
        )
        columns = {str(name): str(type_) for name, type_ in found}
        if not columns:
            return False
        wrong = [
            f"{name} {type_}"
            for name, type_ in COLUMNS.items()
            if _bare(columns.get(name, "")) != _bare(type_)
        ]
        if wrong:
            raise self._other(f"it has no column {', '.join(wrong[:3])}")
        ((engine, key),) = self._connection.rows(
            "SELECT engine, sorting_key FROM system.tables"
            " WHERE database = currentDatabase() AND name = {table:String}",
            {"table": self._table},
        )
        if not engine.endswith("ReplacingMergeTree") or key != ", ".join(KEY):
            raise self._other(f"it is no ReplacingMergeTree ordered by {', '.join(KEY)}")
        return True

    def _other(self, why: str) -> BadFleet:
        return BadFleet(
            f"{self._connection.name}: the table '{self._table}' is not one of findings: {why}",
            "Try: --into NAME/TABLE, with the name of a new table",
        )

    def _places(self, traces: Sequence[str]) -> Iterator[tuple[str, int]]:
        """What is there of these traces."""
        found = self._connection.rows(
            f"SELECT trace, place FROM {identifier(self._table)} FINAL"
            " WHERE fleet = {fleet:String} AND trace IN {traces:Array(String)} AND deleted = 0",
            {"fleet": self._fleet, "traces": list(traces)},
        )
        return ((str(trace), int(place)) for trace, place in found)

    def _row(self, run: ScannedRun, found: ScanFinding, written: str) -> dict[str, Any]:
        return {
            "fleet": self._fleet,
            "trace": run.trace,
            "place": found.place,
            "recording": run.key or "",
            "began": None if run.start_ns is None else _moment(run.start_ns, 9),
            "outcome": run.outcome,
            "step": found.step,
            "span": found.span,
            "class": found.failure.value,
            "sub": found.sub or "",
            "attribution": found.attribution.value if found.attribution else "",
            "confidence": found.confidence,
            "why": found.why,
            "evidence": msgspec.json.encode(found.evidence).decode(),
            "tool": found.tool or "",
            "by": found.by,
            "engine": self._engine,
            "written": written,
            "deleted": 0,
        }


def _bare(type_: str) -> str:
    """A type without what only tells how it is stored."""
    return re.sub(r"LowCardinality\((.*)\)", r"\1", type_)


def _moment(ns: int, digits: int) -> str:
    """A moment in UTC with so many digits of a second, as ClickHouse reads it."""
    seconds, rest = divmod(ns, 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{whole}.{rest:09}"[: 20 + digits]
