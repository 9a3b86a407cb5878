"""`arc fleet scan --into`: findings as a table in ClickHouse, the same as those that are kept here,
each once however often it is written; no other table is touched."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.fleet.connection import FleetError
from replay.fleet.stores import variable
from taxonomy.fleet import findings_table
from taxonomy.fleet.findings_table import FindingsTable
from taxonomy.judgements import scans
from taxonomy.judgements.schema import open_ledger
from tests.fleet.conftest import BAD, PASSWORD, RUNS, Store
from tests.fleet.server import CLERK, VIEWER
from tests.fleet.test_command import LONG_AGO, arc, refused
from tests.fleet.test_scan import database, stopped_after, told

pytestmark = [pytest.mark.process, pytest.mark.slow]

_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path / "data"))
    for name in ("prod", "team", "clerk"):
        monkeypatch.setenv(variable(name), PASSWORD)


@pytest.fixture
def team(scanned: Store) -> Iterator[str]:
    """A database of findings: `prod` is read as a user who may do nothing else, `team` may write,
    and `clerk` may not make tables."""
    name = f"findings{next(_NUMBERS)}"
    scanned.client.command(f"CREATE DATABASE {name}")
    arc("fleet", "add", "prod", scanned.url("scanned", VIEWER))
    arc("fleet", "add", "team", scanned.url(name), "--no-check")
    arc("fleet", "add", "clerk", scanned.url(name, CLERK), "--no-check")
    yield name
    scanned.client.command(f"DROP DATABASE {name}")


_SAID = (
    "SELECT f.source, f.place, r.key, r.start_ns, r.outcome, f.step, f.span, f.class,"
    " coalesce(f.sub, ''), coalesce(f.fault, ''), f.confidence, f.why, f.evidence,"
    " coalesce(f.tool, ''), f.by, (SELECT engine FROM scan) FROM scan_run r"
    " JOIN scan_finding f ON f.scan = r.scan AND f.source = r.trace ORDER BY 1, 2"
)


def written(store: Store, table: str, final: str = "FINAL") -> list[tuple[Any, ...]]:
    found = store.client.query(
        "SELECT trace, place, recording, toUnixTimestamp64Nano(began), outcome, step, span, class,"
        f" sub, attribution, confidence, why, evidence, tool, by, engine FROM {table} {final}"
        " WHERE fleet = 'prod' ORDER BY trace, place"
    )
    return list(map(tuple, found.result_rows))


def kept(tmp_path: Path) -> list[tuple[Any, ...]]:
    (found,) = told(database(tmp_path), _SAID)
    return list(map(tuple, found))


_COUNTS = """
SELECT class, uniqExact(trace) FROM {} FINAL
WHERE outcome = 'failed' AND coalesce(confidence, 1) >= 0.5 GROUP BY class
"""
"""As the guide has it."""


def tables(store: Store) -> list[tuple[Any, ...]]:
    """Each table with its rows, but for the one of findings."""
    found = store.client.query(
        "SELECT database, name, total_rows FROM system.tables WHERE total_rows IS NOT NULL"
        " AND database NOT IN ('system') AND NOT startsWith(database, 'findings') ORDER BY 1, 2"
    )
    return list(map(tuple, found.result_rows))


@pytest.mark.parametrize("user", ["team", "clerk"])
def test_the_table_has_what_is_kept_here_and_each_finding_once(
    scanned: Store, team: str, tmp_path: Path, user: str
) -> None:
    before = tables(scanned)
    said = arc("fleet", "scan", "prod", *LONG_AGO, "--into", "team/arc_findings")
    found = written(scanned, f"{team}.arc_findings")
    assert len(found) > 10
    assert found == kept(tmp_path)
    assert f"{len(found)} findings in the table team/arc_findings: count them with FINAL" in (
        said.stdout
    )
    again = arc("fleet", "scan", "prod", *LONG_AGO, "--into", f"{user}/arc_findings", "--json")
    report = json.loads(again.stdout)
    assert (report["table"], report["scan"]["findings"]) == (f"{user}/arc_findings", len(found))
    assert written(scanned, f"{team}.arc_findings") == found
    assert tables(scanned) == before
    counted = scanned.client.query(_COUNTS.format(f"{team}.arc_findings")).result_rows
    with open_ledger(database(tmp_path)) as store:
        words = scans.scan_words(store, scans.kept_scans(store)[0].id, every=True)
    assert dict(counted) == Counter(
        failure for failure, _ in {(each.failure.value, each.trace) for each in words}
    )


def test_nothing_is_written_without_the_option(scanned: Store, team: str, tmp_path: Path) -> None:
    report = json.loads(arc("fleet", "scan", "prod", *LONG_AGO, "--json").stdout)
    assert report["table"] is None
    assert report["scan"]["findings"] > 10
    assert not scanned.client.query(f"SHOW TABLES FROM {team}").result_rows


def test_a_scan_that_was_killed_writes_no_finding_twice(
    scanned: Store, team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_TEST_TOGETHER", "6")
    stopped_after(scanned, tmp_path, 2, "--into", "team/arc_findings", findings=1)
    begun = written(scanned, f"{team}.arc_findings")
    assert begun
    said = arc("fleet", "scan", "prod", *LONG_AGO, "--into", "team/arc_findings")
    assert "goes on with the scan" in said.stderr
    found = written(scanned, f"{team}.arc_findings")
    assert found == kept(tmp_path)
    assert len(found) > len(begun)
    keys = scanned.client.query(
        f"SELECT uniqExact(fleet, trace, place) FROM {team}.arc_findings"
    ).result_rows
    assert keys == [(len(found),)]


def test_a_scan_that_began_without_a_table_is_in_it_as_a_whole(
    scanned: Store, team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_TEST_TOGETHER", "6")
    stopped_after(scanned, tmp_path, 2, findings=1)
    arc("fleet", "scan", "prod", *LONG_AGO, "--into", "team/arc_findings")
    assert written(scanned, f"{team}.arc_findings") == kept(tmp_path)


def test_what_a_later_scan_does_not_find_any_more_counts_no_more(
    scanned: Store, team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings_table, "TOGETHER", 2)
    run = scans.ScannedRun(trace="run", outcome="failed")
    arc("fleet", "scan", "prod", *LONG_AGO, "--into", "team/arc_findings")
    found = written(scanned, f"{team}.arc_findings")
    fuller = max({row[0] for row in found}, key=lambda trace: [r[0] for r in found].count(trace))
    connection = _writing(scanned, team)
    FindingsTable(connection, "arc_findings", "prod", "later").put(
        [run, scans.ScannedRun(trace=fuller), run]
    )
    left = written(scanned, f"{team}.arc_findings")
    assert left == [row for row in found if row[0] != fuller]
    connection.close()


def _writing(store: Store, database: str) -> Any:
    from replay.fleet.connection import Bounds, WritingConnection
    from replay.fleet.stores import address_of

    return WritingConnection("team", address_of(store.url(database)), PASSWORD, Bounds())


# --- what is refused


@pytest.mark.parametrize(
    ("into", "said"),
    [
        ("arc_findings", "the user may not write there. Try: --into NAME/TABLE, NAME of a user"),
        ("clerk/arc_findings", "the user may not write there. Try: --into NAME/TABLE"),
        ("team/", "'' cannot name a table. Try: --into NAME/arc_findings"),
        ("team/a-b", "'a-b' cannot name a table"),
        ("team/x; DROP TABLE y", "'x; DROP TABLE y' cannot name a table"),
        ("nobody/arc_findings", "no fleet 'nobody'"),
        (
            "team/clicks",
            "team: the table 'clicks' is not one of findings: it has no column fleet"
            " LowCardinality(String), trace String, place UInt32",
        ),
        (
            "team/plain",
            "the table 'plain' is not one of findings: it is no ReplacingMergeTree ordered by"
            " fleet, trace, place",
        ),
    ],
)
def test_a_table_that_cannot_be_written_is_refused_by_name(
    scanned: Store, team: str, into: str, said: str
) -> None:
    scanned.client.command(f"CREATE TABLE {team}.clicks (at DateTime, who String) ENGINE = Memory")
    columns = ", ".join(f"`{name}` {type_}" for name, type_ in findings_table.COLUMNS.items())
    scanned.client.command(
        f"CREATE TABLE {team}.plain ({columns}) ENGINE = MergeTree ORDER BY (fleet, trace, place)"
    )
    assert said in refused("fleet", "scan", "prod", *LONG_AGO, "--into", into)
    assert [row[0] for row in scanned.client.query(f"SHOW TABLES FROM {team}").result_rows] == [
        "clicks", "plain",
    ]  # fmt: skip


def test_a_server_of_traces_has_no_tables(scanned: Store, team: str) -> None:
    arc("fleet", "add", "phoenix", "https://phoenix.example.com", "--server", "phoenix",
        "--no-check")  # fmt: skip
    said = refused("fleet", "scan", "prod", *LONG_AGO, "--into", "phoenix/arc_findings")
    assert "'phoenix' is a server of traces, not a store in ClickHouse" in said


def test_a_table_that_goes_away_ends_the_scan_which_goes_on(
    scanned: Store, team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taxonomy.fleet import partitions

    monkeypatch.setattr(partitions, "TOGETHER", 12)
    put, parts = FindingsTable.put, itertools.count()

    def put_twice(self: FindingsTable, runs: Any) -> None:
        if next(parts) == 2:
            raise FleetError("team (127.0.0.1:1): cannot be reached", "")
        put(self, runs)

    monkeypatch.setattr(FindingsTable, "put", put_twice)
    words = ("fleet", "scan", "prod", *LONG_AGO, "--into", "team/arc_findings")
    assert "cannot be reached" in refused(*words)
    said = arc(*words)
    assert "2 of" in said.stderr
    assert f"prod: {RUNS + BAD} runs scanned" in said.stdout
    assert written(scanned, f"{team}.arc_findings") == kept(tmp_path)
