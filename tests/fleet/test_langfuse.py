"""Langfuse's tables: what was replaced or deleted does not count, a trace that is copied is the one
that was exported, and what cannot be told is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from replay.fleet.dialects import find_dialect
from replay.fleet.langfuse import CUT
from replay.fleet.spans import read_traces
from replay.fleet.stores import BadFleet, FleetStore
from replay.formats import langfuse as export
from replay.formats.source import Source, Tally
from replay.trace import Batch, ModelCall
from taxonomy.fleet.compile import NO_OUTCOME
from tests.fleet import langfuse
from tests.fleet.conftest import RUNS, Store
from tests.fleet.test_questions import ask
from tests.shared import DATA, needs_shared

pytestmark = [pytest.mark.process, pytest.mark.slow]

Json = dict[str, Any]
BEFORE, AFTER = "2026-11-22 09:00:00.000", "2026-11-22 11:00:00.000"


def pulled(fleet: Store, database: str, traces: Sequence[str]) -> dict[str, Batch]:
    connection = fleet.connect(database)
    dialect = find_dialect(connection, FleetStore(url=fleet.url(database)))
    batches = read_traces(connection, dialect, [(trace, 0) for trace in traces], Tally())
    found = {batch.header.source_id: batch for batch in batches}
    connection.close()
    return found


def kept(fleet: Store, database: str, table: str, rows: Sequence[Json]) -> None:
    fleet.insert(f"{database}.{table}", rows)


# --- copies of real traces


def plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, order="sorted"))


@pytest.fixture(scope="module")
def captures() -> dict[str, Path]:
    """A file for each real trace, by its id."""
    found: dict[str, Path] = {}
    for path in sorted((DATA / "langfuse").rglob("*.json")):
        document = msgspec.json.decode(path.read_bytes())
        if "trace" in document:
            found.setdefault(document["trace"]["id"], path)
    return found


@needs_shared
@pytest.mark.data
def test_a_real_trace_that_is_copied_is_the_one_that_was_exported(
    fleet: Store, captures: dict[str, Path]
) -> None:
    """From version 3, and from version 4 where it was copied from version 3: the whole. As version
    4 writes it, attributes stand as other values do, and the trace says what its root does."""
    traces = [
        langfuse.trace_of(msgspec.json.decode(path.read_bytes())) for path in captures.values()
    ]
    fleet.fill_langfuse("real3", langfuse.tables_v3("real3"), langfuse.rows_v3(traces))
    copied = langfuse.rows_v4(traces, copied=True)
    fleet.fill_langfuse("real4", langfuse.tables_v4("real4"), copied)
    fleet.fill_langfuse("real4own", langfuse.tables_v4("real4own"), langfuse.rows_v4(traces))
    whole = [pulled(fleet, database, [*captures]) for database in ("real3", "real4")]
    own = pulled(fleet, "real4own", [*captures])
    assert len(captures) > 20
    for trace, path in captures.items():
        (file,) = export.read(Source(path), Tally())
        for found in whole:
            header = {**plain(found[trace].header), "path": file.header.path}
            assert header == plain(file.header), path
            assert plain(found[trace].spans) == plain(file.spans), path
            assert sorted(map(repr, found[trace].scores)) == sorted(map(repr, file.scores)), path
        assert told(own[trace]) == told(file), path


def told(batch: Batch) -> list[Any]:
    """Spans with their places, what was said and what it cost."""
    return [
        (
            type(span), span.id, span.parent, span.name, span.start_ns, span.end_ns, span.status,
            (plain(span.request.context), plain(span.request.system), plain(span.response),
             plain(span.usage), plain(span.cost)) if isinstance(span, ModelCall) else None,
        )
        for span in batch.spans
    ]  # fmt: skip


# --- rows that do not count


def worse(rows: Sequence[Json], **more: Any) -> list[Json]:
    """Other versions of rows, in which everything failed."""
    said = {"level": "ERROR", "status_message": "not this one", "usage_details": {"input": 9}}
    return [{**row, **{n: v for n, v in said.items() if n in row}, **more} for row in rows]


@pytest.mark.parametrize("version", [3, 4])
def test_the_latest_version_of_a_row_counts_and_none_that_is_deleted(
    fleet: Store, exported: list[Json], version: int
) -> None:
    database = f"replaced{version}"
    make, tables = (
        (langfuse.rows_v3, langfuse.tables_v3) if version == 3
        else (langfuse.rows_v4, langfuse.tables_v4)
    )  # fmt: skip
    fleet.fill_langfuse(database, tables(database), make(exported))
    spans = "observations" if version == 3 else "events_full"
    column = "id" if version == 3 else "span_id"
    rows = make(exported)
    kept(fleet, database, spans, worse(rows[spans], event_ts=BEFORE))
    gone = [{**row, column: f"{row[column]}-gone"} for row in worse(rows[spans])]
    kept(fleet, database, spans, gone)
    kept(fleet, database, spans, [{**row, "event_ts": AFTER, "is_deleted": 1} for row in gone])
    kept(fleet, database, spans, worse(gone, event_ts=BEFORE, is_deleted=1))
    failed = [
        {**row, "id": f"{row['id']}-gone", "name": "outcome", "data_type": "CATEGORICAL",
         "string_value": "failed", "observation_id": None}
        for row in rows["scores"]
    ]  # fmt: skip
    kept(fleet, database, "scores", failed)
    kept(fleet, database, "scores", [{**r, "event_ts": AFTER, "is_deleted": 1} for r in failed])
    clean = f"langfuse{version}"
    for query in ("", "outcome:failed", "outcome:passed", "errors>0", "tool.error", "tokens>900"):
        found = ask(fleet, database, query).rows
        assert found == ask(fleet, clean, query).rows, query
    trace = next(run.trace for run in found if run.steps > 2)
    assert plain(pulled(fleet, database, [trace])) == plain(pulled(fleet, clean, [trace]))


def test_a_span_whose_type_was_changed_is_counted_and_copied_once(
    fleet: Store, exported: list[Json]
) -> None:
    """The table is sorted by type, so the older row is never replaced."""
    run = next(each for each in exported if len(each["observations"]) > 3)
    rows = langfuse.rows_v3([run])
    fleet.fill_langfuse("retyped", langfuse.tables_v3("retyped"), rows)
    before = [{**row, "type": "SPAN", "event_ts": BEFORE} for row in rows["observations"]]
    kept(fleet, "retyped", "observations", before)
    (found,) = ask(fleet, "retyped", "").rows
    assert found == next(r for r in ask(fleet, "langfuse3", "").rows if r.trace == run["id"])
    assert len(pulled(fleet, "retyped", [run["id"]])[run["id"]].spans) == found.spans


def test_one_project_is_asked_and_never_another(fleet: Store, exported: list[Json]) -> None:
    other = [{**each, "id": f"other-{each['id']}"} for each in exported[:5]]
    for trace in other:
        trace["observations"] = [
            {**row, "traceId": trace["id"], "id": f"other-{row['id']}"}
            for row in trace["observations"]
        ]
    fleet.fill_langfuse("two", langfuse.tables_v3("two"), langfuse.rows_v3(exported))
    for table, rows in langfuse.rows_v3(other, project_id="p'2").items():
        kept(fleet, "two", table, rows)
    with pytest.raises(BadFleet, match="runs of several projects: p'2, p-1") as said:
        ask(fleet, "two", "")
    assert "--project" in said.value.hint
    assert len(ask(fleet, "two", "", project="p-1").rows) == RUNS
    mine = ask(fleet, "two", "", project="p'2").rows
    assert {run.trace for run in mine} < {each["id"] for each in other}
    assert mine
    with pytest.raises(BadFleet, match="no runs of a project 'p-3'"):
        ask(fleet, "two", "", project="p-3")
    with pytest.raises(BadFleet, match="has no projects"):
        ask(fleet, "maps", "", project="p-1")


# --- what cannot be told


def test_without_scores_that_tell_how_runs_ended_failed_means_errors(
    fleet: Store, exported: list[Json]
) -> None:
    rows = langfuse.rows_v3(exported)
    rows["scores"] = [row for row in rows["scores"] if row["name"] in ("quality", "failed")]
    fleet.fill_langfuse("unscored", langfuse.tables_v3("unscored"), rows)
    failed = ask(fleet, "unscored", "outcome:failed")
    assert NO_OUTCOME in failed.notes
    assert [r.trace for r in failed.rows] == [
        r.trace for r in ask(fleet, "unscored", "errors>0").rows
    ]
    assert {run.outcome for run in failed.rows} == {"unknown"}


def test_a_table_without_a_column_is_refused_and_the_column_is_named(fleet: Store) -> None:
    fleet.fill_langfuse("lacking", langfuse.tables_v3("lacking"), {})
    fleet.client.command("ALTER TABLE lacking.observations DROP COLUMN usage_details")
    with pytest.raises(BadFleet, match=r"without observations\.usage_details"):
        ask(fleet, "lacking", "")


def test_an_older_table_without_the_newer_columns_is_read(
    fleet: Store, exported: list[Json]
) -> None:
    fleet.fill_langfuse("older", langfuse.tables_v3("older"), langfuse.rows_v3(exported[:6]))
    for table, column in (
        ("observations", "environment"), ("observations", "tool_definitions"),
        ("traces", "environment"),
    ):  # fmt: skip
        fleet.client.command(f"ALTER TABLE older.{table} DROP COLUMN {column}")
    found = ask(fleet, "older", "steps>0").rows
    assert found
    assert pulled(fleet, "older", [found[0].trace])[found[0].trace].spans


def test_texts_that_are_cut_are_listed_with_a_note_and_not_copied(
    fleet: Store, exported: list[Json]
) -> None:
    rows = langfuse.rows_v4(exported)
    cut = [
        {**row, "input": row["input"][:200], "output": row["output"][:200],
         "metadata_values": [value[:200] for value in row["metadata_values"]]}
        for row in rows["events_full"]
    ]  # fmt: skip
    fleet.fill_langfuse(
        "core", langfuse.tables_v4("core", cut=True), {"events_core": cut, "scores": rows["scores"]}
    )
    found = ask(fleet, "core", "")
    assert len(found.rows) == RUNS
    assert CUT in found.notes
    with pytest.raises(BadFleet, match="a copy would not be the run"):
        pulled(fleet, "core", [found.rows[0].trace])


def test_of_both_versions_the_newer_is_asked_once_it_has_runs(
    fleet: Store, exported: list[Json]
) -> None:
    fleet.fill_langfuse("both", langfuse.tables_v3("both"), langfuse.rows_v3(exported))
    events, _ = langfuse.tables_v4("both")
    fleet.client.command(events)
    alone = ask(fleet, "both", "")
    assert len(alone.rows) == RUNS
    assert not alone.notes
    one = next(each for each in exported if len(each["observations"]) > 1)
    kept(fleet, "both", "events_full", langfuse.rows_v4([one])["events_full"])
    newer = ask(fleet, "both", "")
    assert [run.trace for run in newer.rows] == [one["id"]]
    assert newer.notes == (
        "Langfuse v3 has runs here too, which are not asked."
        " Try: arc fleet add NAME URL --langfuse 3",
    )
    for version, runs in (("3", RUNS), ("4", 1)):
        named = ask(fleet, "both", "", langfuse=version)
        assert len(named.rows) == runs
        assert not named.notes
