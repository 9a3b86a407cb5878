"""Inspect logs: `.eval` archives and `.json` documents, one trace a sample.

Inspect records each request as it was made, so most are exact. The path of a sample: the log is
opened here (a zip by `archive`), a sample taken out as fields and bytes and read (`sample`): its
events are put into a tree (`tree`), where tools find their spans; the tree becomes spans (`spans`),
a model event with its context (`model_calls`), attachments put back as they are decoded; what the
scorers said becomes outcome and scores. Samples of old logs may hold no events, only messages.

An `.eval` is a zip with a member for every sample, or, for large ones, a folder of them: a shell
with the sample's fields, and its events, messages and attachments in chunks. A `.json` holds all
samples in one document, where they stay bytes until their turn. A run that crashed left no
`header.json`: `_journal/start.json` then says what was run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from replay.errors import BadTrace
from replay.formats.common import obj
from replay.formats.inspect import archive
from replay.formats.inspect.archive import (
    ZIP,
    Archive,
    Entry,
    Parts,
    Record,
    acceptable,
    in_pieces,
    made,
    parts,
    plain,
    whole,
)
from replay.formats.inspect.sample import read_sample
from replay.formats.source import MAX_DOCUMENT_BYTES, Head, Source, Tally
from replay.trace import Batch, Level

NAME = "inspect"
TITLE = "Inspect logs"
FILES = ".eval, .json; often in logs/"
FIDELITY = (Level.EXACT, Level.PARTIAL, Level.NONE)
LACKS = "in old logs, the tools; inputs that the log leaves out"
VERIFIED = "real files"

_OPENING = re.compile(rb'\s*\{\s*"(version|status|eval)"\s*:')
_NEAR = 4096
"""Where in a document its `eval` has begun: only `version` and `status` come before it."""


def sniff(head: Head) -> bool:
    if head.data.startswith(ZIP):
        members = any(name.encode() in head.data for name in HEADERS)
        return members or head.name.endswith(".eval")
    data = head.data.removeprefix(b"\xef\xbb\xbf")
    near = Head(name=head.name, data=data[:_NEAR])
    return _OPENING.match(data) is not None and near.has(
        rb'"eval"\s*:\s*\{', rb'"(eval_id|run_id|task_id)"\s*:'
    )


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a sample. Raises BadTrace as `entries` does."""
    empty = True
    for entry in entries(source, tally):
        empty = False
        yield from read_sample(entry, source.display, tally)
    if empty:
        tally.problem("samples", "none in the log")


# --- the log opened

HEADERS = ("header.json", "_journal/start.json")

_PART = re.compile(
    r"(samples/.+_epoch_\d+)/(?:sample|metadata|skeleton|(messages|events|calls|attachments)/"
    r"(\d{1,12}|stats|uuids))\.json"
)

_Found: TypeAlias = tuple[dict[str, Any], str, Callable[[], Record]]


def entries(source: Source, tally: Tally) -> Iterator[Entry]:
    """Every sample that can be read; one that cannot is a problem under its member's name.

    Raises BadTrace where the log cannot be opened, or holds samples of which none can be read.
    """
    found = _zipped if source.head.data.startswith(ZIP) else _listed
    good, first = 0, None
    for log, where, load in found(source, tally):
        try:
            sample = load()
        except BadTrace as error:
            first = first or error
            tally.problem(error.where, error.why)
            continue
        good += 1
        yield Entry(log, where, sample)
    if first is not None and not good:
        raise first


# --- .eval


def _zipped(source: Source, tally: Tally) -> Iterator[_Found]:
    with source.open() as stream:
        archive = Archive(stream, source, tally)
        log = _header(archive, source.display, tally)
        chunked = _chunked(archive)
        for name in archive.names:
            part = _PART.fullmatch(name)
            if part is not None and part[1] in chunked:
                if name.endswith("/sample.json"):
                    chunks = _Chunks(archive, part[1], chunked[part[1]], source.display, tally)
                    yield log, part[1], chunks.record
            elif name.startswith("samples/") and name.endswith(".json"):
                yield log, name, partial(_in_one, archive, source, name)


def _header(archive: Archive, display: str, tally: Tally) -> dict[str, Any]:
    """The log without its samples, {} where no header can be read."""
    present = [name for name in HEADERS if name in archive]
    for name in present:
        try:
            log = obj(plain(archive.read(name), display, name))
        except BadTrace as error:
            tally.problem(error.where, error.why)
            continue
        return log if name == HEADERS[0] else {"status": "started", **log}
    if not present:
        tally.problem("header.json", "is missing, and so is _journal/start.json")
    return {}


def _in_one(archive: Archive, source: Source, name: str) -> Record:
    return in_pieces(whole(archive.read(name), source.display, name))


# --- samples in chunks

_Starts: TypeAlias = dict[str, dict[int, str]]
"""Of each sequence its chunks' members by the place of their first entry, which names them."""


def _chunked(archive: Archive) -> dict[str, _Starts]:
    """The folders of the samples that are kept in chunks."""
    found: dict[str, _Starts] = {}
    shells: set[str] = set()
    for name in archive.names:
        part = _PART.fullmatch(name)
        if part is not None:
            starts = found.setdefault(part[1], {})
            if name.endswith("/sample.json"):
                shells.add(part[1])
            elif part[3] is not None and part[3].isdecimal():
                starts.setdefault(part[2], {})[int(part[3])] = name
    return {folder: starts for folder, starts in found.items() if folder in shells}


class _Chunks:
    """One sample put together from its chunks; those that cannot be read are problems."""

    def __init__(
        self, archive: Archive, folder: str, starts: _Starts, path: str, tally: Tally
    ) -> None:
        self._archive, self._folder, self._path, self._tally = archive, folder, path, tally
        self._starts = starts

    def record(self) -> Record:
        """The sample. Raises BadTrace where its shell cannot be read, or all is too large."""
        shell, metadata = f"{self._folder}/sample.json", f"{self._folder}/metadata.json"
        if self._size() > MAX_DOCUMENT_BYTES:
            raise BadTrace(self._path, self._folder, "is larger than 1 GiB decompressed")
        found = parts(self._read(shell))
        if found is None:
            raise BadTrace(self._path, shell, "is not an object")
        if metadata in self._archive:
            found["metadata"] = Raw(bytes(self._read(metadata)))
        pool = self._unbroken("messages")
        return made(
            found,
            self._path,
            self._folder,
            events=[raw for _, raw in self._entries("events")],
            pool=pool,
            messages=_named(found, pool),
            attachments={str(place): raw for place, raw in self._entries("attachments")},
        )

    def _size(self) -> int:
        return sum(
            self._archive.size(name)
            for sequence in _READ
            for name in self._starts.get(sequence, {}).values()
        )

    def _read(self, name: str) -> bytes | Raw:
        return acceptable(self._archive.read(name), self._path, name)

    def _entries(self, sequence: str) -> Iterator[tuple[int, Raw]]:
        """(place, entry) of a sequence in order."""
        for start, name in sorted(self._starts.get(sequence, {}).items()):
            try:
                found = archive.entries(self._read(name))
            except BadTrace as error:
                self._tally.problem(error.where, error.why)
                continue
            yield from enumerate(found, start)

    def _unbroken(self, sequence: str) -> list[Raw]:
        """The entries up to the first that is missing: places after it would be others'."""
        found: list[Raw] = []
        for place, raw in self._entries(sequence):
            if place != len(found):
                self._tally.problem(f"{self._folder}/{sequence}", f"lacks entry {len(found)}")
                break
            found.append(raw)
        return found


_READ = ("messages", "events", "attachments")


def _named(found: Parts, pool: list[Raw]) -> list[Raw]:
    """The sample's messages, which a shell names by ranges of the pool."""
    try:
        ranges = msgspec.json.decode(found.get("message_refs", b"[]"), type=list[tuple[int, int]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [raw for start, stop in ranges if start >= 0 for raw in pool[start:stop]]


# --- .json


class _Document(Struct):
    version: Raw = Raw(b"null")
    status: Raw = Raw(b"null")
    eval: Raw = Raw(b"null")
    error: Raw = Raw(b"null")
    samples: Raw = Raw(b"[]")


def _listed(source: Source, _: Tally) -> Iterator[_Found]:
    data = acceptable(source.read(), source.display, "")
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadTrace(source.display, "", "is not an object") from error
    log = {
        name: plain(getattr(document, name), source.display, name)
        for name in ("version", "status", "eval", "error")
    }
    for index, raw in enumerate(archive.entries(document.samples)):
        where = f"samples[{index}]"
        yield log, where, partial(whole, raw, source.display, where)
