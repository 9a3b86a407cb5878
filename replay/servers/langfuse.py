"""Langfuse, by its public API: traces with their observations and scores.

Facts of the published API (langfuse/langfuse, `fern/apis/server/definition` at commit 62751446,
MIT outside the folders `ee`). Version 3 lists traces, and has a whole one in one answer; version 4
has observations alone, whose traces are put together here from what stands on each.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import msgspec

from replay.errors import ArcError
from replay.formats import langfuse
from replay.formats.common import listed, ns, obj, word
from replay.formats.source import BytesSource, Tally, decoded
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
from replay.trace import Batch, Json

NAME = "langfuse"
TITLE = "Langfuse"
FORMAT = langfuse.NAME
VARIABLES = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
NEEDS_KEY = True
LOOKED_FOR = "/api/public/health"

_BASE = "/api/public"
_PAGE = 50
_OBSERVATIONS = 500
_SCORES = 100
_CUT = 200
"""Version 4 cuts a value of the metadata to so many characters, unless it is asked for by name."""

_FIELDS = "core,basic,time,io,metadata,model,usage,prompt,trace_context"


def find(connection: Connection) -> str | None:
    """The path that its API is below, None where the server is none of Langfuse."""
    health = obj(decoded(connection.probe(LOOKED_FOR) or b""))
    return "" if word(health.get("version")) and word(health.get("status")) else None


def headers(key: str) -> dict[str, str]:
    """`key` is the public and the secret one with a colon between. Raises ArcError."""
    public, _, secret = key.partition(":")
    if not public or not secret:
        raise ArcError(
            "a key of Langfuse has two parts", "Try: the public key, a colon and the secret key"
        )
    return {"Authorization": f"Basic {b64encode(key.encode()).decode()}"}


def projects(connection: Connection, _named: str | None) -> list[Project]:
    """The one that the key belongs to."""
    found = obj(connection.get(f"{_BASE}/projects")).get("data")
    return [
        Project(id=word(each.get("id")) or "", name=word(each.get("name")) or "")
        for each in map(obj, listed(found))
    ]


def runs(
    connection: Connection, _project: Project, from_ns: int, until_ns: int | None
) -> Iterator[ListedRun]:
    """Traces, the newest first. Raises ServerError."""
    params = [
        ("fromTimestamp", utc(from_ns)),
        ("orderBy", "timestamp.desc"),
        ("fields", "core,observations"),
    ]
    if until_ns is not None:
        params.append(("toTimestamp", utc(until_ns, up=True)))
    try:
        for each in _pages_by_number(connection, f"{_BASE}/traces", params, _PAGE):
            start = ns(each.get("timestamp"))
            name = word(each.get("id"))
            if name is None or start is None:
                raise ServerError(f"{connection.name}: a trace has no id or no time")
            ids = each.get("observations")
            # a trace without observations is one span here
            spans = max(len(ids), 1) if isinstance(ids, list) else None
            yield ListedRun(id=name, start_ns=start, spans=spans)
    except Refused as error:
        if not error.is_absent:
            raise
        yield from _by_roots(connection, from_ns, until_ns)


def _by_roots(connection: Connection, from_ns: int, until_ns: int | None) -> Iterator[ListedRun]:
    """The traces of a version 4: those with an observation that hangs below none. A trace counts
    once, by the newest of these."""
    params = [("fromStartTime", utc(from_ns)), ("isRootObservation", "true"), ("fields", "core")]
    if until_ns is not None:
        params.append(("toStartTime", utc(until_ns, up=True)))
    seen: set[str] = set()
    for each in _pages_by_cursor(connection, f"{_BASE}/v2/observations", params, _OBSERVATIONS):
        name, start = word(each.get("traceId")), ns(each.get("startTime"))
        if name is not None and start is not None and name not in seen:
            seen.add(name)
            yield ListedRun(id=name, start_ns=start)


def read(
    connection: Connection, _project: Project, run: str, path: str, tally: Tally
) -> Iterator[Batch]:
    """One trace, by the reader of Langfuse's own exports. Raises ServerError."""
    document: Json
    try:
        document = connection.get(f"{_BASE}/traces/{segment(run)}")
    except Refused as error:
        if not error.is_absent:
            raise
        document = _put_together(connection, run)
        if document is None:
            raise
    yield from langfuse.read(BytesSource(msgspec.json.encode(document), path), tally)


def _put_together(connection: Connection, run: str) -> Json:
    """A trace of a version 4 as version 3 has it; None where it has no observation."""
    asked = [("traceId", run), ("fields", _FIELDS)]
    where = f"{_BASE}/v2/observations"
    found = list(_pages_by_cursor(connection, where, asked, _OBSERVATIONS))
    if not found:
        return None
    cut = sorted(
        {
            name
            for each in found
            for name, value in obj(each.get("metadata")).items()
            if "," not in name and isinstance(value, str) and len(value) >= _CUT
        }
    )
    if cut:
        asked.append(("expandMetadata", ",".join(cut)))
        found = list(_pages_by_cursor(connection, where, asked, _OBSERVATIONS))
    root = next(
        (each for each in found if each.get("isRootObservation")),
        min(found, key=lambda each: ns(each.get("startTime")) or 2**63),
    )
    of_root = ("tags", "release", "version", "userId", "sessionId", "environment", "metadata")
    return {
        "id": run,
        "timestamp": root.get("startTime"),
        "name": root.get("traceName"),
        **{name: root.get(name) for name in (*of_root, "input", "output")},
        "observations": found,
        "scores": list(_scores(connection, run)),
    }


def _scores(connection: Connection, run: str) -> Iterator[dict[str, Json]]:
    """Scores of a version 4, in the words of those of version 3."""
    asked = [("traceId", run), ("fields", "details,subject")]
    for each in _pages_by_cursor(connection, f"{_BASE}/v3/scores", asked, _SCORES):
        about = obj(each.get("subject"))
        on = about.get("id") if about.get("kind") == "observation" else None
        yield {**each, "traceId": run, "observationId": on}


def _pages_by_number(
    connection: Connection, path: str, params: Params, limit: int
) -> Iterator[dict[str, Json]]:
    """The items of a list whose pages have numbers."""
    page = 1
    while True:
        asked = [*params, ("limit", str(limit)), ("page", str(page))]
        answer = obj(connection.get(path, asked))
        found = listed(answer.get("data"))
        yield from map(obj, found)
        pages = obj(answer.get("meta")).get("totalPages")
        last = page >= pages if isinstance(pages, int) else len(found) < limit
        if last or not found:
            return
        page += 1


def _pages_by_cursor(
    connection: Connection, path: str, params: Params, limit: int
) -> Iterator[dict[str, Json]]:
    """The items of a list whose pages have a cursor. As `pages_by_cursor`."""
    return pages_by_cursor(
        connection, path, params, limit, lambda page: obj(page.get("meta")).get("cursor")
    )
