"""`arc fleet scan`: what rules say of runs in a store is what they say of them here; a scan that
was stopped goes on, and no run is counted twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from operator import lt
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from arc_tui import importing
from arc_tui.commands import cli
from arc_tui.features.fleet import scan as scanning
from arc_tui.features.fleet.run import FleetRequest
from arc_tui.importing import run_to_end
from replay.errors import ArcError
from replay.fleet.connection import Bounds
from replay.fleet.stores import variable
from taxonomy.fleet.compile import Window
from taxonomy.judgements import scans
from taxonomy.judgements.schema import open_ledger
from tests.fleet import failing
from tests.fleet.conftest import BAD, PASSWORD, RUNS, Store
from tests.fleet.corpus import BEGAN_NS, DAY_NS
from tests.fleet.test_command import LONG_AGO, arc, refused
from tests.replay.otlp_case import hexed

pytestmark = [pytest.mark.process, pytest.mark.slow]

ALL = Window(BEGAN_NS - DAY_NS, BEGAN_NS + 30 * DAY_NS)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv(variable("prod"), PASSWORD)


@pytest.fixture
def prod(scanned: Store) -> Store:
    arc("fleet", "add", "prod", scanned.url("scanned"))
    return scanned


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of a few runs each."""
    from taxonomy.fleet import partitions

    monkeypatch.setattr(partitions, "TOGETHER", 12)


def to_end(work: Generator[object, None, scanning.ScanReport]) -> scanning.ScanReport:
    return run_to_end(work)  # type: ignore[arg-type]


def local_cluster(workers: int) -> Any:
    import distributed

    cluster: Any = distributed
    return cluster.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    )


def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "arc.db"


_FOUND = (
    "SELECT r.key, f.place, f.step, f.span, f.class, f.sub, f.fault, f.why, f.by, f.confidence,"
    " f.evidence FROM scan_run r JOIN scan_finding f ON f.scan = r.scan AND f.source = r.trace"
    " ORDER BY 1, 2"
)
_SAID = (
    "SELECT trace, place, step, span, class, sub, fault, why, by, confidence, evidence"
    " FROM suggestion WHERE source = 'rule' ORDER BY 1, 2"
)
_RUNS = (
    "SELECT key, trace, title, task, trial, agent, models, variant, outcome, start_ns, steps,"
    " calls, errors, input_tokens, output_tokens, cost_usd, why, why_step FROM scan_run ORDER BY 1"
)
_ROWS = (
    "SELECT trace, source_id, title, task, trial, agent, models, variant, outcome, start_ns, steps,"
    " calls, errors, input_tokens, output_tokens, cost_usd, why, why_step FROM runs ORDER BY 1"
)


def told(path: Path, *sql: str) -> list[list[Any]]:
    with open_ledger(path) as store:
        return [store.db.execute(each).fetchall() for each in sql]


def same_as_pulled(tmp_path: Path) -> None:
    """What was scanned, held against a pull of the same runs into a database of its own, with the
    same key for secrets."""
    other = tmp_path / "pulled.db"
    found, found_runs = told(database(tmp_path), _FOUND, _RUNS)
    with open_ledger(database(tmp_path)) as store, open_ledger(other) as empty, empty.writing():
        (key,) = store.db.execute("SELECT value FROM setting WHERE name = 'redact_key'").fetchone()
        empty.db.execute("INSERT OR REPLACE INTO setting VALUES ('redact_key', ?)", (key,))
    arc("fleet", "pull", "prod", *LONG_AGO, "--limit", "0", "--db", str(other))
    said, rows = told(other, _SAID, _ROWS)
    assert found == said
    assert found_runs == rows
    assert len(rows) == RUNS + BAD
    assert len({each[4] for each in found}) > 1  # of several classes
    assert "[[SECRET:" in str(found_runs)
    assert failing.SECRET not in str(found_runs) + str(found)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.usefixtures("many")
def test_a_scan_says_of_each_run_what_a_pull_says(
    prod: Store, tmp_path: Path, workers: str
) -> None:
    said = arc("fleet", "scan", "prod", *LONG_AGO, "--workers", workers)
    assert f"prod: {RUNS + BAD} runs scanned" in said.stdout
    assert "20 ms a run, assumed until a scan has measured it" in said.stderr
    same_as_pulled(tmp_path)


@pytest.mark.parametrize("form", ["json", "signoz", "no_lookup"])
def test_each_kind_of_store_can_be_scanned(fleet: Store, tmp_path: Path, form: str) -> None:
    arc("fleet", "add", "prod", fleet.url(form))
    report = json.loads(arc("fleet", "scan", "prod", *LONG_AGO, "--json").stdout)
    assert report["scan"]["runs"] == RUNS
    assert report["failed"] == report["unread"] == []
    (rows,) = told(database(tmp_path), _RUNS)
    assert len(rows) == RUNS


@pytest.mark.usefixtures("many")
def test_partitions_hold_each_run_once_and_are_the_same_each_time(prod: Store) -> None:
    request = FleetRequest(fleet="prod", query="", window=ALL, bounds=Bounds(), limit=None)
    with open_ledger(":memory:") as store:
        plan = scanning.plan_scan(store, request, "a", None)
        again = scanning.plan_scan(store, request, "a", None)
    assert plan.partitions == again.partitions
    assert sum(part.traces for part in plan.partitions) == RUNS + BAD + RUNS // 3
    assert len({part.from_ns for part in plan.partitions}) > 2  # days
    by_day: dict[int, list[scans.Partition]] = {}
    for part in plan.partitions:
        by_day.setdefault(part.from_ns, []).append(part)
    for parts in by_day.values():
        assert [parts[0].low, *(part.high for part in parts)] == [
            *(part.low for part in parts), 1024,
        ]  # fmt: skip


@pytest.mark.usefixtures("many")
def test_a_query_narrows_a_scan_and_a_later_one_takes_its_place(
    prod: Store, tmp_path: Path
) -> None:
    arc("fleet", "scan", "prod", *LONG_AGO)
    arc("fleet", "scan", "prod", "outcome:failed", *LONG_AGO)
    pulled, (other,) = told(database(tmp_path), _RUNS, "SELECT count(*) FROM scan")
    assert {row[8] for row in pulled} == {"failed"}
    assert other == (1,)
    listed = json.loads(
        arc("fleet", "ls", "prod", "outcome:failed", *LONG_AGO, "--limit", "0", "--json").stdout
    )
    assert {row[1] for row in pulled} == {each["run"]["trace"] for each in listed["runs"]}


def stopped_after(
    prod: Store, tmp_path: Path, partitions: int, *more: str, findings: int = 0
) -> None:
    """A scan whose process is killed once so many partitions and findings were kept."""
    words = (*LONG_AGO, "--workers", "1", *more)
    command = [sys.executable, "-m", "tests.fleet.scan_process", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while any(map(lt, _kept(database(tmp_path)), (partitions, findings))):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()


def _kept(path: Path) -> tuple[int, int]:
    """(partitions, findings) that are kept so far."""
    if not path.exists():
        return 0, 0
    with open_ledger(path) as store:
        kept = scans.kept_scans(store)
        return sum(scan.done for scan in kept), sum(scan.findings for scan in kept)


def test_a_scan_that_was_killed_goes_on_and_counts_no_run_twice(
    prod: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_TEST_TOGETHER", "6")
    stopped_after(prod, tmp_path, 2)
    before, _ = _kept(database(tmp_path))
    unfinished = arc("failures", "--fleet", "prod")
    assert f"unfinished: {before} of" in unfinished.stderr
    report = arc("fleet", "scan", "prod", *LONG_AGO)
    assert "goes on with the scan begun 20" in report.stderr
    assert f"{before} of " in report.stderr
    assert f"prod: {RUNS + BAD} runs scanned" in report.stdout
    same_as_pulled(tmp_path)


def workers_of(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in found.split()]


@pytest.mark.usefixtures("many")
def test_a_worker_that_is_killed_costs_nothing(prod: Store, tmp_path: Path) -> None:
    request = FleetRequest(fleet="prod", query="", window=ALL, bounds=Bounds(), limit=None)
    before = set(workers_of(os.getpid()))
    with open_ledger(database(tmp_path)) as store:
        plan = scanning.plan_scan(store, request, "2020", None)
        work = scanning.run_scan(store, plan, scanning.in_processes(plan, 2))
        for _ in range(3):
            next(work)
        killed = set(workers_of(os.getpid())) - before
        for each in killed:
            os.kill(each, signal.SIGKILL)
        assert killed
        report = to_end(work)
    assert report.exit_code == 0
    same_as_pulled(tmp_path)


@pytest.mark.usefixtures("many")
def test_a_partition_that_fails_each_time_is_listed_and_tried_again_alone(
    prod: Store, tmp_path: Path
) -> None:
    """A store that reads too little for the partitions of a day, then enough."""
    request = FleetRequest(fleet="prod", query="", window=ALL, bounds=Bounds(), limit=None)
    with open_ledger(database(tmp_path)) as store:
        plan = scanning.plan_scan(store, request, "2020", None)
        tight = structs.replace(plan, setup=structs.replace(plan.setup, bounds=Bounds(rows=50)))
        report = to_end(scanning.run_scan(store, tight, scanning.in_processes(tight, 2)))
        assert report.exit_code == 2
        assert 0 < len(report.failed) < len(plan.partitions)
        assert "more rows than it may" in report.failed[0].why
        assert report.scan.finished_ns is None
    said = arc("fleet", "scan", "prod", *LONG_AGO)
    assert f"in {len(report.failed)} partition" in said.stderr
    same_as_pulled(tmp_path)


def test_a_run_that_cannot_be_read_is_counted_and_named(
    scanned: Store, runs: Path, tmp_path: Path
) -> None:
    scanned.fill("broken", runs)
    scanned.client.command(  # bytes that are no text, as a store may well hold
        "INSERT INTO broken.otel_traces SELECT * REPLACE ('00000000000000ff' AS SpanId,"
        " mapUpdate(SpanAttributes, map('note', unhex('ff'))) AS SpanAttributes)"
        f" FROM broken.otel_traces WHERE TraceId = '{hexed(failing.UNREADABLE, 32)}'"
        " AND SpanName LIKE 'chat%' LIMIT 1"
    )
    arc("fleet", "add", "prod", scanned.url("broken"))
    said = arc("fleet", "scan", "prod", *LONG_AGO)
    assert f"{RUNS + BAD} runs scanned, 1 could not be read" in said.stdout
    why = "left out: its attributes hold bytes that are not text"
    assert f"  {hexed(failing.UNREADABLE, 32)}: {why}" in said.stdout
    failures = arc("failures", "--fleet", "prod")
    assert f"{RUNS + BAD - 1} runs, 1 could not be read)" in failures.stderr


# --- failures over a scan


def test_failures_of_a_scan_are_those_of_the_same_runs_here(
    prod: Store, local_failing: Path, tmp_path: Path
) -> None:
    arc("fleet", "scan", "prod", *LONG_AGO)
    for words in ((), ("--by", "tool"), ("--by", "model"), ("--every",), ("--by", "owner")):
        mine = json.loads(arc("failures", "--fleet", "prod", *words, "--json").stdout)["pareto"]
        here = json.loads(arc("failures", *words, "--json", "--db", str(local_failing)).stdout)
        for each in (mine, here):
            for bar in (*each["bars"], *each["apart"]):
                bar["runs"] = sorted((run["trace"], run["step"]) for run in bar["runs"])
        assert mine == here, words
        assert sum(len(bar["runs"]) for bar in mine["bars"]) > 3


@pytest.fixture(scope="module")
def local_failing(tmp_path_factory: pytest.TempPathFactory, runs: Path) -> Path:
    path = tmp_path_factory.mktemp("local") / "arc.db"
    with open_ledger(path) as store:
        for _ in importing.import_paths(store, [runs]):
            pass
    return path


def test_the_runs_behind_a_bar_say_how_to_pull_them_and_one_that_was_is_linked(
    prod: Store, tmp_path: Path
) -> None:
    arc("fleet", "scan", "prod", *LONG_AGO)
    said = arc("failures", "--fleet", "prod", "--runs", "loop").stdout
    hint = next(line for line in said.splitlines() if "not here" in line)
    assert "▒○" in said
    words = hint.partition("Try: arc ")[2].split()
    assert "1 run pulled" in arc(*words).stdout
    rows = json.loads(arc("failures", "--fleet", "prod", "--runs", "loop", "--json").stdout)
    assert [row["local"] for row in rows if row["local"]] == [
        row["trace"] for row in rows if row["local"]
    ]
    assert sum(row["local"] is not None for row in rows) == 1
    assert len(arc("failures", "--runs", "loop", "--json").stdout) > 10  # and counted here too


# --- what is kept of it here


def kept_tables(path: Path) -> list[int]:
    names = ("scan", "scan_partition", "scan_run", "scan_finding")
    return [rows[0][0] for rows in told(path, *(f"SELECT count(*) FROM {n}" for n in names))]


def test_a_store_that_is_forgotten_takes_its_findings_along(
    prod: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arc("fleet", "add", "test", prod.url("scanned"), "--no-check")
    monkeypatch.setenv(variable("test"), PASSWORD)
    arc("fleet", "scan", "test", *LONG_AGO)
    kept = kept_tables(database(tmp_path))
    arc("fleet", "scan", "prod", *LONG_AGO)
    found = f"{kept[3]} findings of {RUNS + BAD} scanned runs"
    said = refused("fleet", "rm", "prod")
    assert said == (
        f"{found} would be forgotten with prod. Try: arc fleet rm prod --keep-findings, or --yes"
    )
    assert "prod\t" in arc("fleet", "ls").stdout
    assert arc("fleet", "rm", "prod", "--yes").stdout == f"forgot prod, and {found}\n"
    assert kept_tables(database(tmp_path)) == kept
    assert "no scan of 'prod'" in refused("failures", "--fleet", "prod")
    assert "no fleet 'prod'" in refused("fleet", "rm", "prod", "--yes")
    # kept, though the store has no name any more, and forgotten later
    assert arc("fleet", "rm", "test", "--keep-findings").stdout == "forgot test\n"
    assert kept_tables(database(tmp_path)) == kept
    report = json.loads(arc("fleet", "rm", "test", "--yes", "--json").stdout)
    assert report == {"name": "test", "scans": 1, "runs": RUNS + BAD, "findings": kept[3]}
    assert kept_tables(database(tmp_path)) == [0, 0, 0, 0]


def test_no_database_is_made_to_forget_a_store(prod: Store, tmp_path: Path) -> None:
    assert arc("fleet", "rm", "prod").stdout == "forgot prod\n"
    assert not database(tmp_path).exists()


def test_a_run_that_is_pruned_here_counts_in_a_scan_without_what_quotes_it(
    prod: Store, tmp_path: Path
) -> None:
    arc("fleet", "scan", "prod", *LONG_AGO)
    arc("fleet", "pull", "prod", "outcome:failed", *LONG_AGO, "--limit", "0")
    bars = "SELECT class, count(*) FROM scan_finding GROUP BY 1 ORDER BY 1"
    quoted = (
        "SELECT count(*) FROM scan_finding f JOIN scan_run r ON f.scan = r.scan AND f.source ="
        " r.trace WHERE r.outcome = 'failed' AND (f.evidence <> '[]' OR f.why <> '')"
    )
    before = told(database(tmp_path), bars, _RUNS)
    assert told(database(tmp_path), quoted) != [[(0,)]]
    arc("db", "prune", "outcome:failed", "--yes")
    assert told(database(tmp_path), quoted) == [[(0,)]]
    after = told(database(tmp_path), bars, _RUNS)
    assert after[0] == before[0]
    assert [row[1] for row in after[1]] == [row[1] for row in before[1]]
    failed = [row for row in after[1] if row[8] == "failed"]
    assert failed
    assert not any(row[2] or row[16] for row in failed)
    assert any(row[2] for row in after[1])
    assert arc("failures", "--fleet", "prod").stdout


# --- what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fleet", "scan", "staging"), "no fleet 'staging'"),
        (("fleet", "scan", "prod", "tag:loop"), "tag cannot be asked of this store"),
        (("fleet", "scan", "prod", "--since", "yesterday"), "'yesterday' is no time"),
        (("failures", "--fleet", "prod"), "no scan of 'prod'. Try: arc fleet scan prod"),
        (
            ("fleet", "scan", "prod", *LONG_AGO, "--dask", "tcp://127.0.0.1:1"),
            "no dask scheduler answers at tcp://127.0.0.1:1",
        ),
        (
            ("fleet", "scan", "prod", *LONG_AGO, "--dask", "nowhere://x"),
            "no dask scheduler answers at nowhere://x",
        ),
    ],
)
def test_bad_input_gets_a_sentence(prod: Store, words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("fleet", "scan", "prod", "--dask", "tcp://127.0.0.1:1", "--workers", "2"),
        ("failures", "--fleet", "prod", "outcome:failed"),
        ("failures", "--fleet", "prod", "--agreement"),
    ],
)
def test_what_cannot_be_combined_is_said(prod: Store, words: tuple[str, ...]) -> None:
    import click

    with pytest.raises(click.UsageError):
        cli.main(list(words), standalone_mode=False)


def test_a_long_scan_is_asked_about_before_it_begins(prod: Store, tmp_path: Path) -> None:
    with open_ledger(database(tmp_path)) as store:  # as if a run took a minute here
        asked = scans.ScanQuestion(fleet="prod", query="x", since="1d", until=None, engine="")
        part = scans.Partition(place=0, from_ns=0, until_ns=1, low=0, high=1024, traces=1)
        scan = scans.begin_scan(store, asked, (0, 1), [part], has_outcomes=True)
        scans.keep_partition(store, scan.id, 0, [scans.ScannedRun(trace="t")], 60 * 10**9)
        scans.finish_scan(store, scan.id)
    sentence = refused("fleet", "scan", "prod", *LONG_AGO)
    assert "the scan takes about 1.5 core hours. Try: --yes" in sentence
    with open_ledger(database(tmp_path)) as store:
        assert scans.kept_scans(store)[0].id == scan.id
    assert "runs scanned" in arc("fleet", "scan", "prod", *LONG_AGO, "--yes").stdout


def test_the_password_stands_on_no_command_line(prod: Store, tmp_path: Path) -> None:
    request = FleetRequest(fleet="prod", query="", window=ALL, bounds=Bounds(), limit=None)
    before = set(workers_of(os.getpid()))
    with open_ledger(database(tmp_path)) as store:
        plan = scanning.plan_scan(store, request, "2020", None)
        assert plan.setup.password is None  # what a cluster is sent
        work = scanning.run_scan(store, plan, scanning.in_processes(plan, 1))
        next(work)
        next(work)
        begun = set(workers_of(os.getpid())) - before
        lines = [Path(f"/proc/{each}/cmdline").read_bytes() for each in begun]
        to_end(work)
    assert lines
    assert not any(PASSWORD.encode() in line for line in lines)


# --- dask


@pytest.fixture
def cluster(prod: Store) -> Iterator[Any]:
    made = local_cluster(2)
    yield made
    made.close(timeout=20)


@pytest.mark.usefixtures("many")
def test_a_cluster_says_the_same(prod: Store, cluster: Any, tmp_path: Path) -> None:
    said = arc("fleet", "scan", "prod", *LONG_AGO, "--dask", cluster.scheduler_address)
    assert f"prod: {RUNS + BAD} runs scanned" in said.stdout
    same_as_pulled(tmp_path)


@pytest.mark.usefixtures("many")
def test_a_worker_of_a_cluster_that_is_killed_costs_nothing(
    prod: Store, cluster: Any, tmp_path: Path
) -> None:
    request = FleetRequest(fleet="prod", query="", window=ALL, bounds=Bounds(), limit=None)
    with open_ledger(database(tmp_path)) as store:
        plan = scanning.plan_scan(store, request, "2020", None)
        work = scanning.run_scan(store, plan, scanning.on_cluster(plan, cluster.scheduler_address))
        next(work)
        next(work)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        report = to_end(work)
    assert report.exit_code == 0
    same_as_pulled(tmp_path)


def test_a_scheduler_that_ends_ends_the_scan_which_goes_on_with_another(
    prod: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taxonomy.fleet import partitions

    monkeypatch.setattr(partitions, "TOGETHER", 3)
    request = FleetRequest(fleet="prod", query="", window=ALL, bounds=Bounds(), limit=None)
    first = local_cluster(1)
    with open_ledger(database(tmp_path)) as store:
        plan = scanning.plan_scan(store, request, LONG_AGO[1], None)
        work = scanning.run_scan(store, plan, scanning.on_cluster(plan, first.scheduler_address))
        next(work)
        next(work)
        first.close(timeout=20)
        with pytest.raises(ArcError, match="answers no more"):
            to_end(work)
        done = scans.kept_scans(store)[0].done
        assert 0 < done < len(plan.partitions)
    assert f"{done} of {len(plan.partitions)}" in arc("fleet", "scan", "prod", *LONG_AGO).stderr
    same_as_pulled(tmp_path)
