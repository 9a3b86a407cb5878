"""How bytes reach a format: opened, decompressed, bounded, decoded with places for errors.

Readers that need a path (databases, tables of columns) get an ordinary file.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import sys
import weakref
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

import msgspec
from msgspec import Struct

from replay import files
from replay.depth import TOO_DEEP, is_deep, may_be_deep, may_be_huge, whole, without_huge
from replay.errors import BadTrace
from replay.trace import Json

HEAD_BYTES = 64 * 1024
MAX_LINE_BYTES = 128 * 1024 * 1024
MAX_DOCUMENT_BYTES = 1024 * 1024 * 1024

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BUFFER = 1 << 20
"""Bytes read at a time: lines come in half the time of the usual 8 kB."""

NAMED = (b"SQLite format 3\0", b"PAR1")
"""How files begin that their readers open by name: databases, tables of columns."""

_NOWHERE = Path(os.devnull, "-")
"""Where standard input lies: nothing lies beside it."""

_ALWAYS_UNPACKED = 64 * 1024 * 1024
_MOST_RATIO = 500
"""Runs repeat themselves: a hundredth of their size is usual, a bomb's is a thousandth and less."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class Problem(Struct, frozen=True, kw_only=True):
    """Something a source has that could not be used; the rest of it was."""

    where: str
    why: str


class Tally:
    """What an importer says it read, in the source's own words, and what it met on the way.

    `counts` are records of the source (events, messages, calls…), `unknown` names fields that were
    met and not understood, `problems` what was left out and why. `places` say where each problem
    stands beside those of other tallies of the source: at the `place` that was set last.
    """

    def __init__(self) -> None:
        self.counts: defaultdict[str, float] = defaultdict(int)
        self.unknown: Counter[str] = Counter()
        self.problems: list[Problem] = []
        self.place = 0
        self.places: list[int] = []

    def problem(self, where: str, why: str) -> None:
        self.problems.append(Problem(where=where, why=why))
        self.places.append(self.place)


class Head(Struct, frozen=True, kw_only=True):
    """The beginning of a source, decompressed: what a sniffer may look at. `file` is where it lies,
    None where it is compressed: what names a database or a table of columns stands further in."""

    name: str
    data: bytes
    file: Path | None = None

    def has(self, *patterns: bytes) -> bool:
        """Do all the regular expressions occur in the head?"""
        return all(re.search(pattern, self.data) for pattern in patterns)

    def starts(self, *prefixes: bytes) -> bool:
        """Does the first non-blank byte sequence match one of these?"""
        return self.data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(prefixes)

    def lines(self) -> list[bytes]:
        """Complete lines of the head, and the last one where the source is no longer than it."""
        found = self.data.splitlines()
        if len(self.data) >= HEAD_BYTES and not self.data.endswith(b"\n"):
            found = found[:-1]
        return [line for line in found if line.strip()]


class Parts:
    """Files that were named together with some main files, and tell of the traces in these.

    `left` counts the main files still to be read, the present one left out; `seen` are the traces
    that were found in one.
    """

    def __init__(self, paths: list[Path], mains: int) -> None:
        self.paths, self.left = paths, mains
        self.seen: set[str] = set()


class Source:
    """One file (or standard input, spooled to disk), decompressed on the fly. `parts` are read with
    it."""

    parts: Parts | None = None

    def __init__(
        self, path: Path, *, display: str | None = None, spool: files.Spool | None = None
    ) -> None:
        self.path = path
        self.display = display or str(path)
        self._spool = spool

    @classmethod
    def stdin(cls) -> Source:
        """Standard input, kept in a temporary file so that it can be read twice: one without a
        name, but where it can only be read by one. The file lives as long as the source."""
        begin = sys.stdin.buffer.read(max(map(len, NAMED)))
        if not begin.startswith(NAMED):
            return cls(_NOWHERE, display="-", spool=files.Spool(sys.stdin.buffer, begin))
        with ExitStack() as undo:
            path = files.new(undo.enter_context(files.private_folder()) / "stdin")
            with path.open("wb") as copy:
                copy.write(begin)
                shutil.copyfileobj(sys.stdin.buffer, copy)
            source = cls(path, display="-")
            weakref.finalize(source, undo.pop_all().close)
        return source

    @property
    def is_special(self) -> bool:
        """Is it a pipe, a socket or a device, which cannot be read as files are?"""
        return self._spool is None and files.is_special(self.path)

    @property
    def alone(self) -> Source | None:
        """The same source for another process; None where it can be read in this one alone: it is
        no file, or others are read with it."""
        if self.parts is not None or self._spool is not None or files.is_special(self.path):
            return None
        return Source(self.path, display=self.display)

    @property
    def name(self) -> str:
        """The file's name without a compression suffix."""
        return re.sub(r"\.(gz|zst)$", "", self.path.name)

    @cached_property
    def head(self) -> Head:
        """Up to 64 KiB from the start. Raises BadTrace where the file cannot be read."""
        with self.open() as stream:
            try:
                data = stream.read(HEAD_BYTES)
            except (OSError, EOFError, ValueError) as error:
                raise BadTrace(self.display, "start", f"cannot be decompressed: {error}") from error
        plain = not self._magic().startswith((_GZIP, _ZSTD))
        named = plain and self._spool is None
        return Head(name=self.name, data=data, file=self.path if named else None)

    def open(self) -> IO[bytes]:
        """The decompressed bytes from the start."""
        try:
            packed = self.packed()
            magic = self._magic()
            if magic.startswith(_GZIP):
                return _bounded(packed, cast(IO[bytes], gzip.GzipFile(fileobj=packed)), zlib.error)
            return _bounded(packed, *_open_zstd(packed)) if magic == _ZSTD else packed
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise BadTrace(self.display, "", f"cannot be read: {why}") from error

    def packed(self) -> IO[bytes]:
        """The bytes as they are, compressed or not. Raises OSError."""
        return self._spool.open() if self._spool is not None else files.opened(self.path, _BUFFER)

    def _magic(self) -> bytes:
        with self.packed() as plain:
            return plain.read(4)

    def read(self) -> bytes:
        """The whole document. Raises BadTrace above 1 GiB or where the compression is broken."""
        try:
            with self.open() as stream:
                data = stream.read(MAX_DOCUMENT_BYTES + 1)
        except (OSError, EOFError, ValueError) as error:
            raise BadTrace(self.display, "", f"is truncated: {error}") from error
        if len(data) > MAX_DOCUMENT_BYTES:
            raise BadTrace(
                self.display, "", "is one JSON document of more than 1 GiB", "Try: split it by run"
            )
        return data

    def document(self) -> Json:
        """The whole source as one JSON value. Raises BadTrace with the byte where it breaks."""
        return decode(self.read(), self.display, "")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(number from 1, bytes) of every line that is not blank."""
        with self.open() as stream:
            number = 0
            while True:
                try:
                    line = stream.readline(MAX_LINE_BYTES + 1)
                except (OSError, EOFError, ValueError) as error:
                    raise BadTrace(
                        self.display, f"after line {number}", f"is truncated: {error}"
                    ) from error
                if not line:
                    return
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise BadTrace(
                        self.display,
                        f"line {number}",
                        f"is longer than {MAX_LINE_BYTES >> 20} MiB",
                        "Each event must be on one line",
                    )
                if not line.isspace():
                    yield number, line

    def records(self, tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, object) of a JSON Lines source.

        A broken last line is a file still being written: a problem, not an error. A broken line
        elsewhere is one too when good lines follow; a source whose lines are all broken is bad.
        """
        good = 0
        broken: list[BadTrace] = []
        for number, line in self.lines():
            try:
                value = decode(line, self.display, f"line {number}")
            except BadTrace as error:
                broken.append(error)
                tally.problem(error.where, error.why)
                continue
            if not isinstance(value, dict):
                tally.problem(f"line {number}", "is not a JSON object")
                continue
            good += 1
            yield number, value
        if broken and not good:
            raise broken[0]

    def values(self, tally: Tally) -> Iterator[Json]:
        """The value of each line; a broken line is a problem."""
        for number, line in self.lines():
            try:
                yield decode(line, self.display, f"line {number}")
            except BadTrace as error:
                tally.problem(error.where, error.why)


class BytesSource(Source):
    """A source that is no file; `display` is what errors call it."""

    def __init__(self, data: bytes, display: str) -> None:
        super().__init__(_NOWHERE, display=display)
        self._data = data

    def open(self) -> IO[bytes]:
        return self.packed()

    def packed(self) -> IO[bytes]:
        return io.BytesIO(self._data)


def _bounded(packed: IO[bytes], unpacking: IO[bytes], broken: type[Exception]) -> IO[bytes]:
    most = most_unpacked(os.fstat(packed.fileno()).st_size)
    return io.BufferedReader(_Unpacked(packed, unpacking, most, broken), _BUFFER)


def most_unpacked(packed: int) -> int:
    """Bytes that so many may be unpacked to: more is no run, but made to keep its reader busy."""
    return max(_ALWAYS_UNPACKED, packed * _MOST_RATIO)


class _Unpacked(io.RawIOBase):
    """A file as it is unpacked, no further than it may be. Raises ValueError there, and where the
    unpacking raises what it calls `broken`."""

    def __init__(
        self, packed: IO[bytes], unpacking: IO[bytes], most: int, broken: type[Exception]
    ) -> None:
        self._packed, self._unpacking = packed, unpacking
        self._left, self._broken = most, broken

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._unpacking.read(len(buffer))
        except self._broken as error:
            raise ValueError(str(error)) from error
        self._left -= len(found)
        if self._left < 0:
            raise ValueError(
                f"it decompresses to more than {_MOST_RATIO} times its size; decompress it first"
            )
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._unpacking.close()
        self._packed.close()
        super().close()


def _open_zstd(packed: IO[bytes]) -> tuple[IO[bytes], type[Exception]]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return cast(IO[bytes], zstd.open(packed, "rb")), zstd.ZstdError


def decode(data: bytes, path: str, where: str) -> Json:
    """JSON bytes as plain values; BadTrace says where they stop being JSON.

    Texts that msgspec refuses but JSON in the wild holds are taken in: invalid UTF-8 and lone
    surrogates become U+FFFD; NaN, infinities and whole numbers that no float can hold become None.
    What is nested deeper than readers can bear is refused.
    """
    value, odd = _decoded(data, path, where)
    if may_be_deep(data) and is_deep(value):
        raise BadTrace(path, where, TOO_DEEP)
    return mended(value) if odd or may_be_huge(data) else value


def _decoded(data: bytes, path: str, where: str) -> tuple[Json, bool]:
    """The value, and whether it holds what JSON should not."""
    try:
        return msgspec.json.decode(data), False
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        first = error
    try:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        return json.loads(text, parse_constant=lambda _: None, parse_int=whole), True
    except RecursionError as error:
        raise BadTrace(path, where, TOO_DEEP) from error
    except ValueError:
        raise BadTrace(path, where, f"is not JSON: {_reason(first)}") from first


def _reason(error: Exception) -> str:
    text = str(error)
    return "it is truncated" if "truncated" in text else text


def mended(value: Json) -> Json:
    """The value without what no JSON text can hold: halves of characters, infinities, and whole
    numbers that readers take for such."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [mended(entry) for entry in value]
    if isinstance(value, dict):
        return {mended(name): mended(entry) for name, entry in value.items()}
    return without_huge(value)


_CHUNK_BYTES = 1024 * 1024


@contextmanager
def plain_file(source: Source, magic: bytes) -> Iterator[Path]:
    """The path of the source where its file begins with `magic`; else that of a decompressed
    copy, which is gone afterwards. Raises BadTrace where the copy would be larger than 1 GiB."""
    with source.packed() as opened:
        if opened.read(len(magic)) == magic:
            yield source.path
            return
    with files.private_folder() as folder:
        path = files.new(folder / "copy")
        with path.open("wb") as copy:
            for chunk in _chunks(source):
                copy.write(chunk)
        yield path


def _chunks(source: Source) -> Iterator[bytes]:
    size = 0
    try:
        with source.open() as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > MAX_DOCUMENT_BYTES:
                    raise BadTrace(
                        source.display,
                        "",
                        "is larger than 1 GiB decompressed",
                        "Try: decompress it first",
                    )
                yield chunk
    except (OSError, EOFError, ValueError) as error:
        raise BadTrace(source.display, "", f"is truncated: {error}") from error


def decoded(line: bytes) -> Json:
    """The JSON value of a line, None where it is none."""
    try:
        return decode(line, "", "")
    except BadTrace:
        return None


def decoded_text(text: Json, path: str, where: str, tally: Tally) -> Json:
    """The value of a JSON text that stands in a column; None for none, and for a broken one, which
    is a problem."""
    if not isinstance(text, str):
        return None
    try:
        return decode(text.encode("utf-8", "replace"), path, where)
    except BadTrace as error:
        tally.problem(error.where, error.why)
        return None
