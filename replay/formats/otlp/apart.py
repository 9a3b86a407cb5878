"""Which file of log records belongs to a file of spans?

Exporters and the collector write each signal into a file of its own: `traces.jsonl`, `logs.jsonl`.
Two files of one folder belong together where their names differ in that word alone, so a record
that was written in a span finds it, whatever the folder holds besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from replay.errors import BadTrace
from replay.formats.intake import Source
from replay.formats.otlp import protobuf

_LOGS = re.compile(r"(?<![a-zA-Z])(?:logs?|events?)(?![a-zA-Z])")
_SPANS = re.compile(r"(?<![a-zA-Z])(?:traces?|spans?)(?![a-zA-Z])")
_OF_LOGS = ("logs", "log", "events", "event")
_OF_SPANS = ("traces", "trace", "spans", "span")


def spans_of(path: Path) -> Path | None:
    """The file of spans that this file of log records belongs to."""
    for other in _named(path, _LOGS, _OF_SPANS):
        if _holds(path, b"resourceLogs") and _holds(other, b"resourceSpans"):
            return other
    return None


def logs_of(path: Path) -> list[Path]:
    """The files of log records that belong to this file of spans."""
    return [other for other in _named(path, _SPANS, _OF_LOGS) if spans_of(other) == path]


def _named(path: Path, word: re.Pattern[str], others: tuple[str, ...]) -> Iterator[Path]:
    """The files beside this one whose name has one of the others in place of its word."""
    if word.search(path.name) is None:
        return
    for other in others:
        named = path.with_name(word.sub(other, path.name, count=1))
        if named.is_file():
            yield named


def _holds(path: Path, field: bytes) -> bool:
    """Is this OTLP with that field first? In protobuf the two are not told apart by their head."""
    try:
        head = Source(path).head
    except BadTrace:
        return False
    if protobuf.looks_like(head.data):
        return True
    return head.starts(b"{") and head.has(rb'\A\W*"' + field + rb'"\s*:')
