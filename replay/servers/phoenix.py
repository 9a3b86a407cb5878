"""Phoenix, by its REST API: projects, traces, spans, annotations.

Facts of the published API (Arize-ai/phoenix, `schemas/openapi.json` at commit 9478f954, Elastic
License 2.0): no code of it is here, and it is no dependency.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import structs

from replay.formats import openinference
from replay.formats.common import listed, ns, obj, word
from replay.formats.genai.logs import annotation
from replay.formats.source import BytesSource, Tally
from replay.servers.connection import (
    Connection,
    ListedRun,
    Params,
    Project,
    Refused,
    ServerError,
    pages_by_cursor,
    segment,
    utc,
)
from replay.trace import Batch, Json, SourceScore

NAME = "phoenix"
TITLE = "Phoenix"
FORMAT = openinference.NAME
VARIABLES = ("PHOENIX_API_KEY",)
NEEDS_KEY = False
LOOKED_FOR = "/arize_phoenix_version"

_PAGE = 100
_SPANS = 500
_IDS = 50
"""So many ids stand in one address."""


def find(connection: Connection) -> str | None:
    """The path that its API is below, None where the server is none of Phoenix."""
    found = connection.probe(LOOKED_FOR)
    return "" if found and re.fullmatch(rb"\s*\"?\d+\.\d+[\w.+-]*\"?\s*", found) else None


def headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def projects(connection: Connection, _named: str | None) -> list[Project]:
    """All projects; experiments' own are left out."""
    return [
        Project(id=word(each.get("id")) or "", name=word(each.get("name")) or "")
        for each in _pages(connection, "/v1/projects", [], _PAGE)
    ]


def runs(
    connection: Connection, project: Project, from_ns: int, until_ns: int | None
) -> Iterator[ListedRun]:
    """Traces, the newest first. The server sorts them by time and cuts its pages by the order in
    which they came in, so that a page by its cursor can leave some out: the next page is asked for
    by the time of the last trace instead. Raises ServerError."""
    path = f"/v1/projects/{segment(project.id)}/traces"
    seen: set[str] = set()
    while True:
        params = [("start_time", utc(from_ns)), ("limit", str(_PAGE)), ("include_spans", "true")]
        if until_ns is not None:
            params.append(("end_time", utc(until_ns, up=True)))
        answer = obj(connection.get(path, params))
        page = [obj(each) for each in listed(answer.get("data"))]
        new = [each for each in page if word(each.get("trace_id")) not in seen]
        for each in new:
            name, start = word(each.get("trace_id")), ns(each.get("start_time"))
            if name is None or start is None:
                raise ServerError(f"{connection.name}: a trace in {path} has no id or no start")
            seen.add(name)
            until_ns = start + 1000  # the server keeps microseconds; the bound is exclusive
            spans = each.get("spans")
            yield ListedRun(
                id=name, start_ns=start, spans=len(spans) if isinstance(spans, list) else None
            )
        if answer.get("next_cursor") is None:
            return
        if not new:
            raise ServerError(
                f"{connection.name}: {len(page)} traces and more began in the same microsecond",
                "ask for the time before it by --until",
            )


def read(
    connection: Connection, project: Project, run: str, path: str, tally: Tally
) -> Iterator[Batch]:
    """One trace, by the reader of Phoenix' own exports, with what was said of its spans and of the
    whole. Raises ServerError."""
    base = f"/v1/projects/{segment(project.id)}"
    spans = list(_pages(connection, f"{base}/spans", [("trace_id", run)], _SPANS))
    said: dict[str, list[dict[str, object]]] = {}
    ids = [word(obj(each.get("context")).get("span_id")) or "" for each in spans]
    for at in range(0, len(ids), _IDS):
        asked = [("span_ids", each) for each in ids[at : at + _IDS]]
        for each in _annotations(connection, f"{base}/span_annotations", asked):
            said.setdefault(word(each.get("span_id")) or "", []).append(each)
    document = {
        "data": [
            {**span, "annotations": said[name]} if name in said else span
            for span, name in zip(spans, ids, strict=True)
        ]
    }
    whole = tuple(
        _score(each)
        for each in _annotations(connection, f"{base}/trace_annotations", [("trace_ids", run)])
    )
    for batch in openinference.read(BytesSource(msgspec.json.encode(document), path), tally):
        yield structs.replace(batch, scores=(*batch.scores, *whole))


def _score(said: dict[str, object]) -> SourceScore:
    return annotation({**said, **obj(said.get("result"))}, None)


def _annotations(connection: Connection, path: str, params: Params) -> Iterator[dict[str, object]]:
    """None where the server is older than such a list."""
    try:
        yield from _pages(connection, path, params, 1000)
    except Refused as error:
        if not error.is_absent:
            raise


def _pages(
    connection: Connection, path: str, params: Params, limit: int
) -> Iterator[dict[str, Json]]:
    """The items of a list. As `pages_by_cursor`."""
    return pages_by_cursor(connection, path, params, limit, lambda page: page.get("next_cursor"))
