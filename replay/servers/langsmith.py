"""LangSmith, by its API: projects ("sessions"), runs, feedback.

Facts of the published API, as its client uses it (langchain-ai/langsmith-sdk,
`python/langsmith/client.py` at commit bc8dd672, MIT).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from replay.formats import langsmith
from replay.formats.common import listed, ns, obj, word
from replay.formats.source import BytesSource, Tally, decoded
from replay.servers.connection import (
    Connection,
    ListedRun,
    Project,
    Refused,
    ServerError,
    cursor_errors,
    utc,
)
from replay.trace import Batch, Json

NAME = "langsmith"
TITLE = "LangSmith"
FORMAT = langsmith.NAME
VARIABLES = ("LANGSMITH_API_KEY",)
NEEDS_KEY = True
LOOKED_FOR = "/info"

_PREFIXES = ("", "/api/v1")
"""Below the second where the server is one's own."""

_PAGE = 100
_IDS = 50
_FIELDS = (
    "completion_tokens", "dotted_order", "end_time", "error", "events", "extra", "feedback_stats",
    "first_token_time", "id", "inputs", "name", "outputs", "parent_run_id", "prompt_tokens",
    "reference_example_id", "run_type", "session_id", "start_time", "status", "tags", "total_cost",
    "total_tokens", "trace_id",
)  # fmt: skip
_DETAILS = ("prompt_token_details", "completion_token_details")
"""Fields that a server may not know; it refuses a request for them then."""


def find(connection: Connection) -> str | None:
    """The path that its API is below, None where the server is none of LangSmith."""
    for prefix in _PREFIXES:
        info = obj(decoded(connection.probe(prefix + LOOKED_FOR) or b""))
        if word(info.get("version")) and {"batch_ingest_config", "instance_flags"} & info.keys():
            return prefix
    return None


def headers(key: str) -> dict[str, str]:
    return {"x-api-key": key}


def projects(connection: Connection, named: str | None) -> list[Project]:
    """Those of that name; where there is none, or none was named, all."""
    found = _projects(connection, [("name", named)]) if named is not None else []
    return found or _projects(connection, [])


def _projects(connection: Connection, params: list[tuple[str, str]]) -> list[Project]:
    return [
        Project(id=word(each.get("id")) or "", name=word(each.get("name")) or "")
        for each in _offset(connection, "/sessions", params)
    ]


def runs(
    connection: Connection, project: Project, from_ns: int, until_ns: int | None
) -> Iterator[ListedRun]:
    """Traces by their roots, the newest first. Raises ServerError."""
    asked: dict[str, Json] = {
        "session": [project.id],
        "is_root": True,
        "start_time": utc(from_ns),
        "select": ["id", "trace_id", "start_time"],
        "order": "desc",
    }
    if until_ns is not None:
        asked["filter"] = f'lt(start_time, "{utc(until_ns, up=True)}")'
    for each in _runs(connection, asked):
        name = word(each.get("trace_id")) or word(each.get("id"))
        start = ns(each.get("start_time"))
        if name is None or start is None:
            raise ServerError(f"{connection.name}: a run has no id or no start")
        yield ListedRun(id=name, start_ns=start)


def read(
    connection: Connection, project: Project, run: str, path: str, tally: Tally
) -> Iterator[Batch]:
    """One trace with what was said of its runs, by the reader of LangSmith's own exports. Raises
    ServerError."""
    asked: dict[str, Json] = {"session": [project.id], "trace": run}
    try:
        found = list(_runs(connection, {**asked, "select": [*_FIELDS, *_DETAILS]}))
    except Refused as error:
        if error.is_absent:
            raise
        found = list(_runs(connection, {**asked, "select": list(_FIELDS)}))
    if not found:
        raise Refused(f"{connection.name}: trace {run} has no runs", 404)
    ids = [word(each.get("id")) or "" for each in found]
    document = list(found)
    for at in range(0, len(ids), _IDS):
        params = [("run", each) for each in ids[at : at + _IDS]]
        document += _offset(connection, "/feedback", params)
    yield from langsmith.read(BytesSource(msgspec.json.encode(document), path), tally)


def _runs(connection: Connection, asked: dict[str, Json]) -> Iterator[dict[str, Json]]:
    cursor: str | None = None
    while True:
        more = {"cursor": cursor} if cursor is not None else {}
        with cursor_errors(connection, cursor):
            answer = obj(connection.post("/runs/query", {**asked, "limit": _PAGE, **more}))
        found = listed(answer.get("runs"))
        yield from map(obj, found)
        following = word(obj(answer.get("cursors")).get("next"))
        if following is None or not found:
            return
        if following == cursor:
            raise ServerError(f"{connection.name}: /runs/query gives the same page again and again")
        cursor = following


def _offset(
    connection: Connection, path: str, params: list[tuple[str, str]]
) -> list[dict[str, Json]]:
    """A whole list, whose pages begin at a number."""
    found: list[dict[str, Json]] = []
    while True:
        asked = [*params, ("limit", str(_PAGE)), ("offset", str(len(found)))]
        page = [obj(each) for each in listed(connection.get(path, asked))]
        found += page
        if len(page) < _PAGE:
            return found
