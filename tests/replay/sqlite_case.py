"""SQLite files as other tools keep them, written here from those tools' own schemas.

Phoenix 20 (`phoenix/db/models.py`), MLflow 3.17 (`mlflow/store/tracking/dbmodels/models.py`), llm
0.27 and 0.36 (`llm/migrations.py`): the tables and columns that tell of runs, and some that do not,
with the types, keys and indexes they have there. Files that these versions made themselves were
read as well while this was written; none is kept here.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from replay.formats import load, sniff, sqlite
from replay.formats.source import Source, Tally
from replay.trace import Batch

Value = dict[str, Any]
Entry = tuple[str, Value]
"""A table and a row of it."""

OLDER_PHOENIX = """
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE projects (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR NOT NULL UNIQUE);
CREATE TABLE project_sessions (id INTEGER NOT NULL PRIMARY KEY, session_id VARCHAR NOT NULL);
CREATE TABLE "traces" (
    id INTEGER NOT NULL, project_rowid INTEGER NOT NULL, trace_id VARCHAR NOT NULL,
    start_time TIMESTAMP NOT NULL, end_time TIMESTAMP NOT NULL, project_session_rowid INTEGER,
    CONSTRAINT pk_traces PRIMARY KEY (id), CONSTRAINT uq_traces_trace_id UNIQUE (trace_id));
CREATE TABLE spans (
    id INTEGER NOT NULL, trace_rowid INTEGER NOT NULL, span_id VARCHAR NOT NULL,
    parent_id VARCHAR, name VARCHAR NOT NULL, span_kind VARCHAR NOT NULL,
    start_time TIMESTAMP NOT NULL, end_time TIMESTAMP NOT NULL, attributes JSONB NOT NULL,
    events JSONB NOT NULL,
    status_code VARCHAR DEFAULT 'UNSET' NOT NULL CHECK (status_code IN ('OK', 'ERROR', 'UNSET')),
    status_message VARCHAR NOT NULL, cumulative_error_count INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT pk_spans PRIMARY KEY (id), CONSTRAINT uq_spans_span_id UNIQUE (span_id));
CREATE INDEX ix_spans_trace_rowid ON spans (trace_rowid);
CREATE TABLE "span_annotations" (
    id INTEGER NOT NULL PRIMARY KEY, span_rowid INTEGER NOT NULL, name VARCHAR NOT NULL,
    label VARCHAR, score FLOAT, explanation VARCHAR, metadata JSONB NOT NULL DEFAULT '{}',
    annotator_kind VARCHAR NOT NULL);
CREATE TABLE "trace_annotations" (
    id INTEGER NOT NULL PRIMARY KEY, trace_rowid INTEGER NOT NULL, name VARCHAR NOT NULL,
    label VARCHAR, score FLOAT, explanation VARCHAR, annotator_kind VARCHAR NOT NULL);
CREATE TABLE span_costs (
    id INTEGER NOT NULL PRIMARY KEY, span_rowid INTEGER NOT NULL, trace_rowid INTEGER NOT NULL,
    total_cost FLOAT);
"""
PHOENIX = (
    OLDER_PHOENIX
    + """
CREATE INDEX ix_spans_session_id
    ON spans (CAST(JSON_EXTRACT(attributes, '$."session"."id"') AS VARCHAR));
"""
)

LLM = """
CREATE TABLE [_llm_migrations] ([name] TEXT PRIMARY KEY, [applied_at] TEXT);
CREATE TABLE [conversations] ([id] TEXT PRIMARY KEY, [name] TEXT, [model] TEXT);
CREATE TABLE [attachments] (
    [id] TEXT PRIMARY KEY, [type] TEXT, [path] TEXT, [url] TEXT, [content] BLOB);
CREATE TABLE [schemas] ([id] TEXT PRIMARY KEY, [content] TEXT);
CREATE TABLE "responses" (
    [id] TEXT PRIMARY KEY, [model] TEXT, [prompt] TEXT, [system] TEXT, [prompt_json] TEXT,
    [options_json] TEXT, [response] TEXT, [response_json] TEXT, [conversation_id] TEXT,
    [duration_ms] INTEGER, [datetime_utc] TEXT, [input_tokens] INTEGER, [output_tokens] INTEGER,
    [token_details] TEXT, [schema_id] TEXT, [resolved_model] TEXT, [reasoning] TEXT);
CREATE VIRTUAL TABLE [responses_fts] USING FTS5 ([prompt], [response], content=[responses]);
CREATE TABLE [prompt_attachments] (
    [response_id] TEXT, [attachment_id] TEXT, [order] INTEGER,
    PRIMARY KEY ([response_id], [attachment_id]));
CREATE TABLE [fragments] ([id] INTEGER PRIMARY KEY, [hash] TEXT, [content] TEXT, [source] TEXT);
CREATE TABLE "prompt_fragments" (
    [response_id] TEXT, [fragment_id] INTEGER, [order] INTEGER,
    PRIMARY KEY ([response_id], [fragment_id], [order]));
CREATE TABLE "system_fragments" (
    [response_id] TEXT, [fragment_id] INTEGER, [order] INTEGER,
    PRIMARY KEY ([response_id], [fragment_id], [order]));
CREATE TABLE [tools] (
    [id] INTEGER PRIMARY KEY, [hash] TEXT, [name] TEXT, [description] TEXT, [input_schema] TEXT,
    [plugin] TEXT);
CREATE TABLE [tool_responses] (
    [tool_id] INTEGER, [response_id] TEXT, PRIMARY KEY ([tool_id], [response_id]));
CREATE TABLE [tool_calls] (
    [id] INTEGER PRIMARY KEY, [response_id] TEXT, [tool_id] INTEGER, [name] TEXT,
    [arguments] TEXT, [tool_call_id] TEXT);
CREATE TABLE [tool_results] (
    [id] INTEGER PRIMARY KEY, [response_id] TEXT, [tool_id] INTEGER, [name] TEXT, [output] TEXT,
    [tool_call_id] TEXT, [exception] TEXT);
CREATE TABLE [tool_results_attachments] (
    [tool_result_id] INTEGER, [attachment_id] TEXT, [order] INTEGER,
    PRIMARY KEY ([tool_result_id], [attachment_id]));
"""

STORE = """
CREATE TABLE [messages] (
    [hash] TEXT PRIMARY KEY, [parent_hash] TEXT, [role] TEXT, [provider_metadata] TEXT);
CREATE TABLE [parts] (
    [id] INTEGER PRIMARY KEY, [message_hash] TEXT, [position] INTEGER, [type] TEXT,
    [tool_name] TEXT, [text] TEXT, [payload] TEXT);
CREATE UNIQUE INDEX [idx_parts_message_hash_position] ON [parts] ([message_hash], [position]);
CREATE TABLE [threads] (
    [id] TEXT PRIMARY KEY, [name] TEXT, [tip_message_hash] TEXT, [forked_from] TEXT,
    [datetime_utc] TEXT);
CREATE TABLE [turns] (
    [id] TEXT PRIMARY KEY, [thread_id] TEXT, [parent_message_hash] TEXT, [tip_message_hash] TEXT,
    [model] TEXT, [resolved_model] TEXT, [options_json] TEXT, [schema_id] TEXT,
    [input_tokens] INTEGER, [output_tokens] INTEGER, [token_details] TEXT, [duration_ms] INTEGER,
    [datetime_utc] TEXT, [response_json] TEXT);
CREATE TABLE [turn_tools] (
    [turn_id] TEXT, [tool_id] INTEGER, [instance_id] INTEGER, PRIMARY KEY ([turn_id], [tool_id]));
CREATE VIEW message_tree AS SELECT hash FROM messages;
"""
"""What llm 0.36 adds."""


def made(path: Path, schema: str, rows: Iterable[Entry] = ()) -> Path:
    """A file of that schema, with rows as (table, values); objects and lists become JSON."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(schema)
        for table, row in rows:
            names = ", ".join(f"[{name}]" for name in row)
            marks = ", ".join("?" * len(row))
            values = [json.dumps(v) if isinstance(v, (dict, list)) else v for v in row.values()]
            db.execute(f"INSERT INTO [{table}] ({names}) VALUES ({marks})", values)
    return path


def read(path: Path) -> tuple[list[Batch], Tally]:
    """The traces of a file, which only the one format claims."""
    tally = Tally()
    source = Source(path)
    assert sniff(source) is sqlite
    return list(load(source, tally)), tally


# --- MLflow

MLFLOW = """
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE experiments (
    experiment_id INTEGER NOT NULL, name VARCHAR(256) NOT NULL,
    CONSTRAINT experiment_pk PRIMARY KEY (experiment_id));
CREATE TABLE "trace_info" (
    request_id VARCHAR(50) NOT NULL, experiment_id INTEGER NOT NULL, timestamp_ms BIGINT NOT NULL,
    execution_time_ms BIGINT, status VARCHAR(50) NOT NULL, request_preview VARCHAR(1000),
    trace_name VARCHAR(4096), session_id VARCHAR(250), total_cost FLOAT,
    CONSTRAINT trace_info_pk PRIMARY KEY (request_id));
CREATE TABLE "trace_tags" (
    "key" VARCHAR(250) NOT NULL, value VARCHAR(8000), request_id VARCHAR(50) NOT NULL,
    CONSTRAINT trace_tag_pk PRIMARY KEY ("key", request_id));
CREATE TABLE "trace_request_metadata" (
    "key" VARCHAR(250) NOT NULL, value VARCHAR(8000), request_id VARCHAR(50) NOT NULL,
    CONSTRAINT trace_request_metadata_pk PRIMARY KEY ("key", request_id));
CREATE TABLE "spans" (
    trace_id VARCHAR(50) NOT NULL, experiment_id INTEGER NOT NULL, span_id VARCHAR(50) NOT NULL,
    parent_span_id VARCHAR(50), name TEXT, type VARCHAR(500), status VARCHAR(50) NOT NULL,
    start_time_unix_nano BIGINT NOT NULL, end_time_unix_nano BIGINT,
    duration_ns BIGINT GENERATED ALWAYS AS (end_time_unix_nano - start_time_unix_nano) STORED,
    content TEXT NOT NULL, CONSTRAINT spans_pk PRIMARY KEY (trace_id, span_id));
CREATE TABLE "assessments" (
    assessment_id VARCHAR(50) NOT NULL PRIMARY KEY, trace_id VARCHAR(50) NOT NULL,
    name VARCHAR(250) NOT NULL, assessment_type VARCHAR(20) NOT NULL, value TEXT NOT NULL,
    error TEXT, source_type VARCHAR(50) NOT NULL, source_id VARCHAR(250), span_id VARCHAR(50),
    rationale TEXT, valid BOOLEAN NOT NULL);
"""

SECOND = 1_795_226_616_000_000_000


def tracked(name: str = "tr-1", at: int = 0, **more: Any) -> Entry:
    row = {"request_id": name, "experiment_id": 1, "timestamp_ms": at, "status": "OK"}
    return "trace_info", row | more


def observed(
    name: str, kind: str, parent: str | None, at: int, inputs: Any, outputs: Any, **more: Any
) -> Entry:
    """A span of a second in trace `tr-1`; ids are the hex digits of names of up to eight letters,
    written as MLflow 3 writes them."""
    attributes = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs}
    attributes |= {"mlflow.spanOutputs": outputs, "mlflow.traceRequestId": "tr-1", **more}
    content: Value = {
        "trace_id": base64.b64encode(bytes(15) + b"t").decode(),
        "span_id": base64.b64encode(_bytes(name)).decode(),
        "parent_span_id": base64.b64encode(_bytes(parent)).decode() if parent else None,
        "name": name,
        "start_time_unix_nano": SECOND + at * 10**9,
        "end_time_unix_nano": SECOND + (at + 1) * 10**9,
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "events": [],
        "attributes": {n: json.dumps(v) for n, v in attributes.items()},
    }
    return "spans", {
        "trace_id": "tr-1",
        "experiment_id": 1,
        "span_id": hexed(name),
        "status": "OK",
        "start_time_unix_nano": content["start_time_unix_nano"],
        "content": content,
    }


def _bytes(name: str) -> bytes:
    return name.encode().rjust(8, b"\0")


def hexed(name: str) -> str:
    return _bytes(name).hex()


# --- Phoenix


def span(name: str, kind: str, parent: str | None, at: int, **more: Any) -> Entry:
    """A span of a second, in the first trace."""
    row = {
        "trace_rowid": 1,
        "span_id": name,
        "parent_id": parent,
        "name": name,
        "span_kind": kind,
        "start_time": f"2026-07-09 00:00:{at:02}.000000",
        "end_time": f"2026-07-09 00:00:{at + 1:02}.000000",
        "attributes": {},
        "events": [],
        "status_code": "OK",
        "status_message": "",
    }
    return "spans", row | more


def trace(key: int, name: str, session: int | None = None) -> Entry:
    at = "2026-07-09 00:00:00.000000"
    about = {"start_time": at, "end_time": at, "project_session_rowid": session}
    return "traces", {"id": key, "project_rowid": 1, "trace_id": name, **about}


PROJECT = ("projects", {"id": 1, "name": "shop"})


# --- llm


def turn(name: str, after: str | None, tip: str, at: int, **more: Any) -> Entry:
    """A call of thread `c1`."""
    row = {
        "id": name,
        "thread_id": "c1",
        "parent_message_hash": after,
        "tip_message_hash": tip,
        "model": "gpt-5",
        "datetime_utc": f"2026-07-09T00:00:{at:02}.000000+00:00",
        "duration_ms": 1000,
    }
    return "turns", row | more


def message(name: str, after: str | None, role: str, *parts: Value) -> list[Entry]:
    """A message of the store and its parts."""
    rows: list[Entry] = [("messages", {"hash": name, "parent_hash": after, "role": role})]
    for at, part in enumerate(parts):
        rows.append(("parts", {"message_hash": name, "position": at, **part}))
    return rows


def said(text: str) -> Value:
    return {"type": "text", "text": text}


def response(name: str, at: int, **more: Any) -> Entry:
    """A call of the older kind, in conversation `c1`."""
    row = {
        "id": name,
        "model": "gpt-4o",
        "conversation_id": "c1",
        "datetime_utc": f"2025-07-09T00:00:{at:02}.000000+00:00",
        "duration_ms": 1000,
    }
    return "responses", row | more


TOOL = (
    "tools",
    {
        "id": 1,
        "name": "get_order",
        "description": "Look up an order.",
        "input_schema": {"type": "object"},
    },
)
