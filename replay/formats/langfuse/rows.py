"""The rows of an export: which is a trace, an observation or a score, and of which trace."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from replay.errors import BadTrace
from replay.formats.fields import listed, obj, word
from replay.formats.intake import MAX_LINE_BYTES, Head, Source, Tally
from replay.formats.services.records import readable, records, values

_COLUMNS = ({"traceId", "startTime"}, {"trace_id", "start_time", "parent_observation_id"})
_TRACES = ({"id", "timestamp", "sessionId", "bookmarked"}, {"id", "timestamp", "sessionId", "tags"})
_NOTHING: tuple[Any, ...] = (None, "", {}, [], "{}", "[]", "null")


class Sort(StrEnum):
    TRACE = "trace"
    OBSERVATION = "observation"
    SCORE = "score"


class Row(NamedTuple):
    sort: Sort
    trace: str
    record: dict[str, Any]


def rows(source: Source, tally: Tally) -> Iterator[Row]:
    """Every row that says which trace it belongs to."""
    if is_table(source.head):
        for number, record in _table(source):
            yield from _of(record, f"line {number}", tally)
        return
    for where, value in values(source, tally):
        for record in records(value, "data"):
            yield from _of(record, where, tally)


def is_table(head: Head) -> bool:
    """Is the first line the names of the columns of an exported table?"""
    first = head.data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if b"," not in first or len(first) > 8192:
        return False
    names = {name.strip(' "\r') for name in first.decode("utf-8", "replace").split(",")}
    return any(columns <= names for columns in (*_COLUMNS, *_TRACES))


def merged(records_: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Several accounts of one thing as one: what one of them leaves empty another may tell."""
    found: dict[str, Any] = {}
    for record in records_:
        for name, value in record.items():
            if name not in found or found[name] in _NOTHING:
                found[name] = value
    return found


def _of(record: dict[str, Any], where: str, tally: Tally) -> Iterator[Row]:
    about = obj(record.get("trace"))
    if about:
        yield from _trace(
            {**about, "observations": listed(about.get("observations"))}, where, tally
        )
        for sort, name in ((Sort.OBSERVATION, "observations"), (Sort.SCORE, "scores")):
            yield from _below(record, word(about.get("id")), sort, name)
        return
    trace = word(record.get("traceId"))
    if trace is not None and ("startTime" in record or "type" in record):
        yield Row(Sort.OBSERVATION, trace, record)
    elif trace is not None and "name" in record and "value" in record:
        yield Row(Sort.SCORE, trace, record)
    elif "timestamp" in record or "observations" in record:
        yield from _trace(record, where, tally)
    else:
        tally.problem(where, "is no trace, observation or score")


def _trace(record: dict[str, Any], where: str, tally: Tally) -> Iterator[Row]:
    name = word(record.get("id"))
    if name is None:
        tally.problem(where, "is a trace without an id")
        return
    yield Row(Sort.TRACE, name, {n: v for n, v in record.items() if n != "observations"})
    yield from _below(record, name, Sort.OBSERVATION, "observations")
    yield from _below(record, name, Sort.SCORE, "scores")


def _below(record: dict[str, Any], trace: str | None, sort: Sort, name: str) -> Iterator[Row]:
    """What a trace has in a list of its own; a list of ids alone tells nothing."""
    for each in listed(readable(record.get(name))):
        found = word(obj(each).get("traceId")) or trace
        if obj(each) and found is not None:
            yield Row(sort, found, each)


def _table(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table of text, empty cells left out; cells hold the JSON of their values."""
    csv.field_size_limit(MAX_LINE_BYTES)
    with source.open() as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", "replace", newline="")
        reader = csv.DictReader(text, restkey="")
        try:
            for row in reader:
                row.pop("", None)
                yield reader.line_num, {_camel(n): v for n, v in row.items() if v}
        except (csv.Error, OSError, EOFError, ValueError) as error:
            where = f"line {reader.line_num}"
            raise BadTrace(source.display, where, f"is no row of a table: {error}") from error


def _camel(name: str) -> str:
    """A column's name as the API writes it."""
    first, *rest = name.split("_")
    return first + "".join(each.title() for each in rest)
