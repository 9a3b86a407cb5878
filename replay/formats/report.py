"""A page of `arc report`: HTML that holds the runs it shows, in `arc/1`.

The runs stand in an element of their own, packed and as lines of base64; the line before them says
which spans were masked when the page was written, and so have other digests than where it was made.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from replay.errors import BadTrace
from replay.formats import arc
from replay.formats.source import BytesSource, Head, Source, Tally, most_unpacked
from replay.trace import Batch, Level

NAME = "report"
TITLE = "Page of `arc report`"
FILES = ".html"
FIDELITY = (Level.EXACT, Level.REBUILT, Level.SUPPLIED, Level.PARTIAL, Level.NONE)
LACKS = "whatever the source of its runs did not record"
VERIFIED = "real files"

VERSION = "arc-report/1"
GENERATOR = f'<meta name="generator" content="{VERSION}">'
"""Stands in the head of every such page."""

_EMBEDDED = b'<script type="application/json" id="arc-runs">'
_RUNS = b'<script type="application/vnd.arc.trace" id="arc-trace">'
_END = b"</script>"
_LINE = 4096
"""Characters of base64 in a line; a multiple of four."""


class EmbeddedRun(Struct, frozen=True, kw_only=True):
    """A run in the page: its id, the digest of its content where it was `recorded` and as it is in
    the page, and the spans in which that differs, because something in them was masked."""

    trace: str
    recorded: str
    digest: str
    masked: tuple[str, ...] = ()


def embed(held: Sequence[EmbeddedRun], lines: bytes) -> bytes:
    """The elements that hold runs, of which `lines` are those of `arc/1`."""
    packed = base64.b64encode(gzip.compress(lines, mtime=0))
    rows = (packed[at : at + _LINE] for at in range(0, len(packed), _LINE))
    said = msgspec.json.encode(held).replace(b"<", b"\\u003c")
    return b"\n".join([_EMBEDDED + said + _END, _RUNS, *rows, _END])


def sniff(head: Head) -> bool:
    return head.starts(b"<!doctype html>") and head.has(re.escape(GENERATOR.encode()))


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """The runs of a page, as they were recorded but for what was masked in it."""
    held: list[EmbeddedRun] = []
    packed: list[bytes] = []
    inside = found = False
    for number, line in source.lines():
        line = line.strip()
        if inside and line == _END:
            inside = False
        elif inside:
            packed.append(line)
        elif line == _RUNS:
            if found:
                raise BadTrace(source.display, f"line {number}", "begins a second list of runs")
            inside = found = True
        elif line.startswith(_EMBEDDED) and line.endswith(_END):
            held = _read_embedded(line[len(_EMBEDDED) : -len(_END)], source, number)
    if not found:
        raise BadTrace(source.display, "", "is a page of `arc report` that holds no run")
    if inside:
        raise BadTrace(source.display, "end", "is truncated inside the runs that it holds")
    for each in held:
        if each.masked:
            spans = ", ".join(each.masked)
            tally.problem(f"trace {each.trace[:8]}", f"masked in the report, in spans {spans}")
    yield from arc.read(BytesSource(_unpack(b"".join(packed), source), source.display), tally)


def _read_embedded(data: bytes, source: Source, number: int) -> list[EmbeddedRun]:
    try:
        return msgspec.json.decode(data, type=list[EmbeddedRun])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadTrace(source.display, f"line {number}", f"is not {VERSION}: {error}") from error


def _unpack(packed: bytes, source: Source) -> bytes:
    """The lines of `arc/1`; no more than a file as large may hold."""
    try:
        data = base64.b64decode(packed, validate=True)
        most = most_unpacked(len(data))
        lines = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise BadTrace(source.display, "its runs", f"cannot be unpacked: {error}") from error
    if len(lines) > most:
        raise BadTrace(source.display, "its runs", "unpack to far more than a run can be")
    return lines
