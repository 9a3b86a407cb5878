"""Langfuse: a trace with its observations, pages of its API, and what its tables export.

The path of a file: values of JSON, JSON Lines or a table of text become rows of three sorts
(`rows`), gathered by trace; an observation becomes a span (`observations`, `usage`); what is said
of the trace itself makes the header, and its scores are scores with their source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.fields import known, word
from replay.formats.intake import Head, Source, Tally
from replay.formats.langfuse.observations import of_trace, raw
from replay.formats.langfuse.rows import Sort, is_table, merged, rows
from replay.formats.normal import number
from replay.formats.otlp import names
from replay.formats.otlp.records import Raw
from replay.formats.services.groups import Groups, Record
from replay.formats.services.records import joined, readable, usd
from replay.formats.services.traces import agent_of, made_of, root_of, spans, title_of
from replay.trace import Batch, Header, Json, Level, SourceScore

NAME = "langfuse"
TITLE = "Langfuse (traces, observations, table exports in JSON and CSV)"
FILES = ".json, .jsonl, .csv"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "often the tools; in table exports what the columns leave out"

_OBSERVATION = (rb'"traceId"\s*:', rb'"(?:parentObservationId|startTime)"\s*:', rb'"type"\s*:')
_TRACE = (rb'"observations"\s*:\s*\[', rb'"(?:htmlPath|sessionId|projectId|scores|totalCost)"\s*:')
_DOWNLOAD = (rb'^\W*\{\s*"trace"\s*:\s*\{\s*"id"\s*:', rb'"(?:projectId|timestamp)"\s*:')
_ROW = (rb'"bookmarked"\s*:', rb'"(?:sessionId|traceId)"\s*:', rb'"timestamp"\s*:')
_FORMS = (_OBSERVATION, _TRACE, _DOWNLOAD, _ROW)


def sniff(head: Head) -> bool:
    if head.starts(b"{", b"["):
        return b'"resourceSpans"' not in head.data and any(head.has(*form) for form in _FORMS)
    return is_table(head)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id. Raises BadTrace where there is no row of a trace."""
    groups = Groups()
    found = False
    for sort, trace, record in rows(source, tally):
        groups.add(trace, {"sort": sort, "row": record})
        found = True
    if not found:
        raise BadTrace(source.display, "", "holds no trace and no observation with an id")
    for name, held in groups.taken():
        yield _batch(name, held, source.display, tally)


def _batch(name: str, held: list[Record], path: str, tally: Tally) -> Batch:
    about = merged(each["row"] for each in held if each["sort"] == Sort.TRACE)
    observations = _by_id(each["row"] for each in held if each["sort"] == Sort.OBSERVATION)
    tally.counts["observations"] += len(observations)
    raws: list[Raw] = []
    for row in observations:
        tally.counts[f"type {word(row.get('type'))}"] += 1
        raws += made_of(row, f"observation {row.get('id')}", raw, tally)
    if not raws:
        raws = [of_trace(name, about)]
    found = spans(raws, tally)
    root = root_of(raws)
    given = readable(about.get("input"))
    given = (
        given if given is not None or root is None else root.attributes.get(names.GIVEN.names[0])
    )
    rows_ = [about, *observations]
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(found, given, _first(rows_, "name", "traceName")),
        variant=_prompt(observations),
        agent=agent_of(found),
        labels=_labels(rows_),
        reported_cost_usd=usd(about.get("totalCost")) or None,
    )
    scored = [each["row"] for each in held if each["sort"] == Sort.SCORE]
    ids = {each.id for each in raws}
    scores = tuple(_score(row, ids) for row in _by_id(scored))
    tally.counts["scores"] += len(scores)
    return Batch(header=header, spans=found, scores=scores, last=True)


def _by_id(rows_: Any) -> list[Record]:
    """Rows of one id as one: a download has each observation with its texts and without."""
    several: dict[str, list[Record]] = {}
    for at, row in enumerate(rows_):
        several.setdefault(word(row.get("id")) or f"\0{at}", []).append(row)
    return [merged(each) for each in several.values()]


def _first(rows_: list[Record], *fields: str) -> str | None:
    words = (word(row.get(field)) for row in rows_ for field in fields)
    return next((each for each in words if each is not None), None)


def _prompt(observations: list[Record]) -> str | None:
    """The version of the prompt that the calls were made with."""
    for row in observations:
        name, version = word(row.get("promptName")), word(row.get("promptVersion"))
        if name or version:
            return " ".join(filter(None, (name, version)))
    return None


def _labels(rows_: list[Record]) -> dict[str, str]:
    return known(
        session=_first(rows_, "sessionId"),
        user=_first(rows_, "userId"),
        environment=_first(rows_, "environment"),
        release=_first(rows_[:1], "release"),
        version=_first(rows_[:1], "version"),
        tags=joined(readable(rows_[0].get("tags"))),
    )


def _score(row: Record, ids: set[str]) -> SourceScore:
    """A score: of an observation of the trace, else of the whole run; a category is a label."""
    kind, value = row.get("dataType"), row.get("value")
    label = word(row.get("stringValue")) or word(value if isinstance(value, str) else None)
    on: Json = row.get("observationId")
    return SourceScore(
        name=word(row.get("name")) or "score",
        by=word(row.get("source")) or "source",
        span=on if isinstance(on, str) and on in ids else None,
        value=None if kind == "CATEGORICAL" else number(value),
        label=label,
        explanation=word(row.get("comment")),
    )
