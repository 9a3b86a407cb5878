"""A store in ClickHouse answers as the database here does on the same runs, run by run."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from replay.fleet.connection import Bounds, Connection, FleetError, Rows
from replay.fleet.dialect import Dialect
from replay.fleet.dialects import find_dialect
from replay.fleet.stores import BadFleet, FleetStore
from taxonomy.fleet.compile import LACKS, NO_OUTCOME, Window, compile_text
from taxonomy.fleet.listing import FleetList, list_runs
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.compile import runs_meant
from taxonomy.query.fields import BY_NAME, FIELDS
from taxonomy.query.language import BadQuery
from taxonomy.query.listing import RunRow, run_rows
from tests.fleet import exporter
from tests.fleet.classes import CASES
from tests.fleet.conftest import RUNS, Store, imported
from tests.fleet.corpus import BEGAN_NS, DAY_NS
from tests.replay.otlp_case import hexed

pytestmark = [pytest.mark.process, pytest.mark.slow]

ALL = Window(BEGAN_NS - DAY_NS, BEGAN_NS + 30 * DAY_NS)
FORMS = ("maps", "json", "no_lookup", "signoz", "langfuse3", "langfuse4")


@pytest.fixture
def database_here(database: str, request: pytest.FixtureRequest) -> Path:
    """The same runs, imported from files of the form of a store."""
    name = "local_langfuse" if database.startswith("langfuse") else "local"
    found: Path = request.getfixturevalue(name)
    return found


def ask(fleet: Store, database: str, query: str, window: Window = ALL, **more: object) -> FleetList:
    connection = fleet.connect(database)
    url = fleet.url(database)
    dialect = find_dialect(connection, FleetStore(url=url, **more))  # type: ignore[arg-type]
    found = list_runs(connection, dialect, query, window, limit=None)
    connection.close()
    return found


def here(path: Path, query: str) -> list[RunRow]:
    with open_ledger(path) as store:
        return list(run_rows(store, runs_meant(store, query)))


@pytest.mark.parametrize("database", FORMS)
def test_each_run_is_counted_as_here(fleet: Store, database_here: Path, database: str) -> None:
    found = {each.trace: each for each in ask(fleet, database, "").rows}
    rows = {row.source_id: row for row in here(database_here, "")}
    assert found.keys() == rows.keys()
    assert len(found) == RUNS
    for trace, run in found.items():
        row = rows[trace]
        counted = (
            run.spans, run.steps, run.calls, run.errors, run.input_tokens, run.output_tokens,
            run.models, run.agent, run.outcome, run.start_ns, run.start_ns + run.duration_ns,
        )  # fmt: skip
        assert counted == (
            row.spans, row.steps, row.calls, row.errors, row.input_tokens, row.output_tokens,
            row.models, row.agent, row.outcome, row.start_ns, row.end_ns,
        )  # fmt: skip


@pytest.mark.parametrize("form", ["maps", "json", "signoz"])
def test_a_failed_call_of_a_model_is_an_error_as_here(
    fleet: Store, cases: Path, tmp_path: Path, form: str
) -> None:
    rows = here(imported(tmp_path / "arc.db", cases), "")
    found = ask(fleet, f"class_{form}", "").rows
    assert {run.trace: run.errors for run in found} == {row.source_id: row.errors for row in rows}
    erred = ask(fleet, f"class_{form}", "errors>0").rows
    assert {run.trace for run in erred} == {row.source_id for row in rows if row.errors}
    assert any(case.error and not any(call.failed for call in case.calls) for case in CASES)


QUERIES = (
    "outcome:failed", "outcome:passed", "outcome:unknown", "not outcome:failed",
    "tool:refund_order", "tool:refund*", "tool.error", "tool.error:get_order",
    "step.error", "step.error:timeout", "model:claude*", "model:gpt-4o-mini",
    "model=gpt-4o-mini", "agent:supp", "agent:nobody",
    "steps>3", "steps=1", "calls<2", "errors>0", "errors=0", "tokens>=900", "tokens<200",
    "output>36", "duration>1s", "step.tokens>300", "step.duration>400ms", "source:7",
    "label:service=support", "label:environment=pr*", 'variant:""', "claude", "supp*",
    '"on its way"', '"café 3"', "says:W7", "start>=2025", "before:2020",
    "outcome:failed tool:refund_order", "(errors>0 or steps>4) not model:claude*",
    "not (tool:search_docs or tool:get_order)",
)  # fmt: skip


OF_LANGFUSE = (
    *(query for query in QUERIES if query != "label:service=support"),
    "label:session=s3", "label:version=v1", "label:tags=shop", "label:release=r", "variant:support",
    'variant="support 2"',
)  # fmt: skip


@pytest.mark.parametrize("database", FORMS)
def test_a_question_means_the_same_runs_as_here(
    fleet: Store, database_here: Path, database: str
) -> None:
    telling = 0
    for query in OF_LANGFUSE if database.startswith("langfuse") else QUERIES:
        found = {each.trace for each in ask(fleet, database, query).rows}
        assert found == {row.source_id for row in here(database_here, query)}, query
        telling += 0 < len(found) < RUNS
    assert telling > len(QUERIES) / 2  # most of them tell runs apart


def dialect_of(fleet: Store) -> Dialect:
    connection = fleet.connect("maps")
    found = find_dialect(connection, FleetStore(url=fleet.url("maps")))
    connection.close()
    return found


def test_every_field_is_compiled_or_refused_by_name(fleet: Store) -> None:
    dialect = dialect_of(fleet)
    assert {BY_NAME[name].name for name in LACKS} == LACKS.keys()
    for field in FIELDS:
        query = "label:service=x" if field.name == "label" else field.example
        if field.name not in LACKS:
            compile_text(query, dialect, ALL, lambda: True)
            continue
        with pytest.raises(BadQuery, match=rf"^{field.name} cannot be asked of this store: "):
            compile_text(query, dialect, ALL, lambda: True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("outcom:failed", "did you mean 'outcome'"),
        ("tag:loop", "tag cannot be asked of this store"),
        ("label:difficulty=hard", "known: label:session"),
        ("cost>1", "prices are known here alone"),
        ("steps>many", "'many' is not a number"),
        ("tool:", "missing value"),
        ("since:yesterday", "is not a day"),
        ("start:unknown", "every run of a store has a start"),
    ],
)
def test_what_cannot_be_asked_is_said(fleet: Store, query: str, said: str) -> None:
    with pytest.raises(BadQuery, match=said.replace("(", r"\(")):
        compile_text(query, dialect_of(fleet), ALL, lambda: True)


def test_without_outcomes_failed_means_errors_and_says_so(fleet: Store) -> None:
    failed = ask(fleet, "no_outcome", "outcome:failed")
    erred = ask(fleet, "no_outcome", "errors>0")
    assert [each.trace for each in failed.rows] == [each.trace for each in erred.rows]
    assert NO_OUTCOME in failed.notes
    assert NO_OUTCOME not in ask(fleet, "maps", "outcome:failed").notes
    with pytest.raises(BadQuery, match="no run in this time has an outcome"):
        ask(fleet, "no_outcome", "outcome:passed")


@pytest.mark.parametrize("database", FORMS)
def test_a_window_holds_the_runs_that_began_in_it_whole(fleet: Store, database: str) -> None:
    """Also a run that was under way at its beginning is not counted as one that began there."""
    every = sorted(ask(fleet, database, "").rows, key=lambda run: run.start_ns)
    middle = every[len(every) // 2]
    window = Window(middle.start_ns, middle.start_ns + 10 * 60 * 10**9)
    found = ask(fleet, database, "", window).rows
    expected = [run for run in every if window.from_ns <= run.start_ns < window.until_ns]
    assert sorted(found, key=lambda run: run.start_ns) == expected
    late = Window(middle.start_ns + 1, window.until_ns)
    assert middle.trace not in {run.trace for run in ask(fleet, database, "steps>0", late).rows}


def test_a_run_of_days_is_one_that_began_with_its_first_span(fleet: Store, made: Path) -> None:
    """The exporter writes what it has: each insert has its own earliest span."""
    fleet.client.command("CREATE DATABASE days")
    for statement in exporter.tables("days.otel_traces"):
        fleet.client.command(statement)
    rows = [row for row in exporter.rows(made) if row["TraceId"] == hexed("run7", 32)]
    for days, row in enumerate(rows):
        row["Timestamp"] = f"{BEGAN_NS // 10**9 + days * 2 * 86_400}.0"
        fleet.client.raw_insert(
            "days.otel_traces", insert_block=msgspec.json.encode(row), fmt="JSONEachRow"
        )
    late = Window(BEGAN_NS + 5 * DAY_NS, BEGAN_NS + 30 * DAY_NS)
    assert ask(fleet, "days", "", late).rows == ()
    (run,) = ask(fleet, "days", "").rows
    assert run.spans == len(rows)
    assert run.start_ns == BEGAN_NS // 10**9 * 10**9


def test_the_newest_come_first_and_a_limit_says_that_there_are_more(fleet: Store) -> None:
    connection = fleet.connect("maps")
    found = list_runs(connection, dialect_of(fleet), "", ALL, limit=7)
    connection.close()
    starts = [run.start_ns for run in found.rows]
    assert starts == sorted(starts, reverse=True)
    assert len(starts) == 7
    assert found.more


@pytest.mark.parametrize("database", FORMS)
def test_a_page_takes_one_question_for_its_ids_and_one_for_its_sums(
    fleet: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And outcomes are asked only of a table of their own. What a span is stands in the sums once:
    a store takes longer to understand a long question than to answer it."""
    connection = fleet.connect(database)
    dialect = find_dialect(connection, FleetStore(url=fleet.url(database)))
    asked: list[str] = []
    rows = Connection.rows

    def counted(self: Connection, sql: str, values: Mapping[str, Any] | None = None) -> Rows:
        asked.append(sql)
        return rows(self, sql, values)

    monkeypatch.setattr(Connection, "rows", counted)
    found = list_runs(connection, dialect, "tool.error:get_order", ALL, limit=None)
    connection.close()
    assert found.rows
    own = dialect.outcome.table != dialect.table
    ids, of_page, *outcomes = asked
    assert len(outcomes) == own
    assert of_page.count(dialect.kind) == 1
    assert ids.count(dialect.kind) == len(dialect.tools)


@pytest.mark.parametrize("database", ["maps", "days_apart", "no_lookup"])
def test_any_limit_gives_the_first_of_all(fleet: Store, made: Path, database: str) -> None:
    """Parts of a window asked one after another leave no run out and give none twice, also where
    runs go on for days."""
    if database == "days_apart":
        fleet.client.command(f"CREATE DATABASE {database}")
        for statement in exporter.tables(f"{database}.otel_traces"):
            fleet.client.command(statement)
        for at, row in enumerate(exporter.rows(made)):
            began = BEGAN_NS // 10**9 + at * 7_000
            row["Timestamp"] = f"{began + zlib.crc32(row['SpanId'].encode()) % 400_000}.5"
            fleet.insert(f"{database}.otel_traces", [row])
            if at == 100:
                break
    window = Window(BEGAN_NS - DAY_NS, BEGAN_NS + 13 * DAY_NS)
    connection = fleet.connect(database)
    dialect = find_dialect(connection, FleetStore(url=fleet.url(database)))
    for query in ("", "tool.error", "not tool.error", "errors=0"):
        every = list_runs(connection, dialect, query, window, limit=None)
        assert len(every.rows) > 2
        for limit in (1, 4, len(every.rows) - 1, len(every.rows), 500):
            some = list_runs(connection, dialect, query, window, limit=limit)
            assert some.rows == every.rows[:limit], (query, limit)
            assert some.more == (limit < len(every.rows))
    connection.close()


def test_only_the_services_that_were_named_are_asked(fleet: Store) -> None:
    assert len(ask(fleet, "maps", "", services=("support",)).rows) == RUNS
    assert ask(fleet, "maps", "", services=("shop-web",)).rows == ()


@pytest.mark.parametrize(
    "hostile",
    [
        'tool:"x\' OR 1=1 --"',
        'source:"\\\\"',
        'agent:"\'); DROP TABLE otel_traces; --"',
        '"a\' {x:String} \\\\"',
        'model:"{v0:String}"',
    ],
)
def test_a_text_stays_a_text(fleet: Store, hostile: str) -> None:
    assert ask(fleet, "maps", hostile).rows == ()
    assert len(ask(fleet, "maps", "").rows) == RUNS


def test_bounds_end_a_question_with_a_sentence(fleet: Store) -> None:
    connection = fleet.connect("maps", Bounds(seconds=1))
    with pytest.raises(FleetError, match="took longer than it may"):
        connection.rows("SELECT count() FROM numbers(200000000000) WHERE number % 3 = 1")
    connection.close()
    little = fleet.connect("maps", Bounds(rows=3))
    with pytest.raises(FleetError, match="more rows than it may"):
        little.rows("SELECT number FROM numbers(10)")
    little.close()
    blind = fleet.connect("maps", Bounds(bytes_read=1000))
    with pytest.raises(FleetError, match="reads more than it may"):
        blind.rows("SELECT sum(length(SpanName)), sum(Duration) FROM otel_traces")
    blind.close()


def test_nothing_is_ever_written(fleet: Store) -> None:
    connection = fleet.connect("maps")
    with pytest.raises(FleetError):
        connection.rows("CREATE TABLE mine (a Int8) ENGINE = Memory")
    connection.close()


def test_tables_of_something_else_are_named(fleet: Store) -> None:
    connection = fleet.connect("other")
    with pytest.raises(BadFleet, match="no known table of spans in database 'other'") as said:
        find_dialect(connection, FleetStore(url=fleet.url("other")))
    connection.close()
    assert "Tables there: clicks" in str(said.value)
    assert "TraceId" in str(said.value)
