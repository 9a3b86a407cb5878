"""The members of a zip: which there are, and one at a time unpacked, bounded and checked.

The standard library lists a zip with zstd members, which Inspect has written since 0.3.206, but
reads them only from Python 3.14 on; members are therefore unpacked here. A zip whose end is
missing, because the process that wrote it was killed or the copy was cut, has lost its directory:
its members are then found by the headers that each of them begins with.
"""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from replay.errors import BadTrace
from replay.formats import intake
from replay.formats.intake import Source, Tally

ZIP = b"PK\x03\x04"

_STORED, _DEFLATED, _ZSTD = 0, 8, 93
_LOCAL = struct.Struct("<4s5H3I2H")
"""Signature, version, flags, method, time, date, CRC, packed and full size, lengths of the name
and of the extra field."""
_ENCRYPTED, _SIZES_FOLLOW = 1, 8
"""Bits of the flags. Where the sizes follow the data, a member ends only where the next begins."""
_SIZE_IN_EXTRA = 0xFFFFFFFF
_ZIP64 = 1
_TROUBLE = (
    zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, ValueError, RuntimeError,
    OverflowError,
)  # fmt: skip


class Member(NamedTuple):
    """A member by its header; `at` is where that stands in the file."""

    name: str
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    at: int


class Archive:
    """The members of one zip by name. Raises BadTrace where none can be found."""

    def __init__(self, stream: IO[bytes], source: Source, tally: Tally) -> None:
        self._stream, self._display = stream, source.display
        try:
            with zipfile.ZipFile(stream) as opened:
                found = [_listed(info) for info in opened.infolist()]
        except _TROUBLE as error:
            found = list(self._begun())
            if not found:
                raise BadTrace(
                    self._display,
                    "",
                    f"is a zip that cannot be opened: {_said(error)}",
                    "a log whose run was killed may lack its end",
                ) from error
            tally.problem("the zip", f"has lost its end; {len(found)} whole members are read")
        self._members = {member.name: member for member in found}
        if len(self._members) < len(found):
            twice = len(found) - len(self._members)
            tally.problem("the zip", f"holds {twice} names more than once; the last counts")
        _apart(found, self._display)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def size(self, name: str) -> int:
        """Bytes of a member unpacked, as the zip says."""
        return self._members[name].size

    def read(self, name: str) -> bytes:
        """A member unpacked. Raises BadTrace with its name."""
        member = self._members[name]
        if member.size > intake.MAX_DOCUMENT_BYTES:
            raise self._bad(name, "is larger than 1 GiB when unpacked")
        if member.size > intake.most_unpacked(member.packed):
            raise self._bad(name, "is packed smaller than any run is; unpack it first")
        if member.method not in (_STORED, _DEFLATED, _ZSTD):
            raise self._bad(name, f"is packed by method {member.method}")
        if member.flags & _ENCRYPTED:
            raise self._bad(name, "is encrypted")
        try:
            data = _unpacked(self._packed(member), member.method, member.size)
        except _TROUBLE as error:
            raise self._bad(name, f"cannot be unpacked: {_said(error)}") from error
        if zlib.crc32(data) != member.crc:
            raise self._bad(name, "cannot be unpacked: its CRC does not match")
        return data

    def _bad(self, name: str, why: str) -> BadTrace:
        return BadTrace(self._display, name, why)

    def _packed(self, member: Member) -> bytes:
        self._stream.seek(member.at)
        _, *_, named, extra = _LOCAL.unpack(self._stream.read(_LOCAL.size))
        self._stream.seek(member.at + _LOCAL.size + named + extra)
        data = self._stream.read(member.packed)
        if len(data) < member.packed:
            raise EOFError("it ends before its end")
        return data

    def _begun(self) -> Iterator[Member]:
        """The whole members from the start of the file on, until one is cut or unclear."""
        end, at = self._stream.seek(0, io.SEEK_END), 0
        while True:
            self._stream.seek(at)
            head = self._stream.read(_LOCAL.size)
            if len(head) < _LOCAL.size or not head.startswith(ZIP):
                return
            _, _, flags, method, _, _, crc, packed, size, named, extra = _LOCAL.unpack(head)
            name = self._stream.read(named).decode("utf-8", "replace")
            if packed == _SIZE_IN_EXTRA or size == _SIZE_IN_EXTRA:
                size, packed = _large(self._stream.read(extra), size, packed)
            after = at + _LOCAL.size + named + extra + packed
            if flags & _SIZES_FOLLOW or after > end:
                return
            yield Member(name, method, flags, crc, packed, size, at)
            at = after


def _apart(found: list[Member], display: str) -> None:
    """Members that share their bytes are small on disk and without end when read."""
    end, before = 0, ""
    for member in sorted(found, key=lambda each: each.at):
        if member.at < end:
            why = f"is a zip whose members {before} and {member.name} overlap"
            raise BadTrace(display, member.name, why)
        end, before = member.at + _LOCAL.size + member.packed, member.name


def _listed(info: zipfile.ZipInfo) -> Member:
    return Member(
        info.filename,
        info.compress_type,
        info.flag_bits,
        info.CRC,
        info.compress_size,
        info.file_size,
        info.header_offset,
    )


def _large(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    """Sizes of 4 GiB and more, which stand in an extra field; unchanged where there is none."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == _ZIP64 and length >= 16 and at + 20 <= len(extra):
            found: tuple[int, int] = struct.unpack_from("<QQ", extra, at + 4)
            return found
        at += 4 + length
    return size, packed


def _unpacked(data: bytes, method: int, size: int) -> bytes:
    """No more than one byte beyond what the member says it holds, whatever it holds."""
    if method == _STORED:
        return data
    if method == _DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    try:
        with zstd.ZstdFile(io.BytesIO(data)) as opened:  # of as many frames as there are
            return bytes(opened.read(size + 1))
    except zstd.ZstdError as error:
        raise ValueError(_said(error)) from error


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
