"""An Inspect log opened: its header and its samples, one at a time.

An `.eval` is a zip with a member for every sample (deflated; since 0.3.206 zstd); a `.json` holds
them all in one document, where they stay bytes until their turn. A run that crashed left no
`header.json`: `_journal/start.json` then says what was run.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from replay.errors import BadTrace
from replay.formats import intake
from replay.formats.fields import obj
from replay.formats.intake import Source, Tally, decode
from replay.trace import Json

ZIP = b"PK\x03\x04"
HEADERS = ("header.json", "_journal/start.json")

_METHODS = {0, 8, 93}
"""Stored, deflated, zstd: what Inspect has written."""


class Entry(NamedTuple):
    """One sample as it stands in the log, and the log it stands in."""

    log: dict[str, Any]
    where: str
    sample: dict[str, Any]


_Found: TypeAlias = tuple[dict[str, Any], str, Callable[[], Json]]


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
        if not isinstance(sample, dict):
            tally.problem(where, "is not an object")
            continue
        good += 1
        yield Entry(log, where, sample)
    if first is not None and not good:
        raise first


# --- .eval


def _zipped(source: Source, tally: Tally) -> Iterator[_Found]:
    with source.open() as stream, _Archive(stream, source.display) as archive:
        log = archive.header(tally)
        for name in archive.names:
            if name.startswith("samples/") and name.endswith(".json"):
                yield log, name, partial(archive.member, name)


class _Archive:
    """The members of a zip by name, each bounded in size; trouble of any kind is BadTrace."""

    def __init__(self, stream: IO[bytes], display: str) -> None:
        # The standard library reads zstd members from 3.14 on.
        if sys.version_info >= (3, 14):
            import zipfile

            from compression import zstd
        else:
            from backports import zstd
            from backports.zstd import zipfile
        self._trouble = (
            zipfile.BadZipFile, zlib.error, zstd.ZstdError, struct.error,
            OSError, EOFError, ValueError, RuntimeError, OverflowError,
        )  # fmt: skip
        self._display = display
        try:
            self._zip = zipfile.ZipFile(stream)
        except self._trouble as error:
            raise BadTrace(
                display,
                "",
                f"is a zip that cannot be opened: {_said(error)}",
                "a log whose run was killed may lack its end",
            ) from error
        self._members = {info.filename: info for info in self._zip.infolist()}

    def __enter__(self) -> _Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def header(self, tally: Tally) -> dict[str, Any]:
        """The log without its samples, {} where no header can be read."""
        present = [name for name in HEADERS if name in self._members]
        for name in present:
            try:
                return obj(self.member(name))
            except BadTrace as error:
                tally.problem(error.where, error.why)
        if not present:
            tally.problem("header.json", "is missing, and so is _journal/start.json")
        return {}

    def member(self, name: str) -> Json:
        """A member as JSON. Raises BadTrace with its name."""
        info = self._members[name]
        if info.file_size > intake.MAX_DOCUMENT_BYTES:
            raise BadTrace(self._display, name, "is larger than 1 GiB when unpacked")
        if info.compress_type not in _METHODS:
            raise BadTrace(self._display, name, f"is packed by method {info.compress_type}")
        try:
            data = self._zip.read(info)
        except self._trouble as error:
            raise BadTrace(self._display, name, f"cannot be unpacked: {_said(error)}") from error
        return decode(data, self._display, name)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


# --- .json


class _Document(Struct):
    version: Json = None
    status: Json = None
    eval: Json = None
    error: Json = None
    samples: list[Raw] | None = None


def _listed(source: Source, _: Tally) -> Iterator[_Found]:
    data = source.read()
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError):
        yield from _mended(data, source.display)
        return
    log = {name: getattr(document, name) for name in ("version", "status", "eval", "error")}
    for index, raw in enumerate(document.samples or ()):
        where = f"samples[{index}]"
        yield log, where, partial(decode, bytes(raw), source.display, where)


def _mended(data: bytes, display: str) -> Iterator[_Found]:
    """A document msgspec refuses (it holds NaN, broken UTF-8), decoded as a whole."""
    document = decode(data, display, "")
    if not isinstance(document, dict):
        raise BadTrace(display, "", "is not an object")
    samples = document.pop("samples", None)
    for index, sample in enumerate(samples if isinstance(samples, list) else ()):
        yield document, f"samples[{index}]", partial(_itself, sample)


def _itself(sample: Json) -> Json:
    return sample
