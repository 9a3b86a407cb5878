"""What an Inspect log is made of: members of a zip, samples with their long lists, attachments,
times.

Members are unpacked one at a time, bounded and checked. A sample's long lists stay bytes until
their turn; what stands elsewhere in it is put back where it is used.
"""

from __future__ import annotations

import io
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from operator import is_not
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from replay.depth import TOO_DEEP, is_deep, may_be_deep
from replay.errors import BadTrace
from replay.formats import common, source
from replay.formats.source import MAX_DOCUMENT_BYTES, Source, Tally, most_unpacked
from replay.trace import Json, Message

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
                    f"is a zip that cannot be opened: {_error_text(error)}",
                    "The log of a killed run may be truncated",
                ) from error
            tally.problem("the zip", f"is truncated; its {len(found)} complete members are read")
        self._members = {member.name: member for member in found}
        if len(self._members) < len(found):
            twice = len(found) - len(self._members)
            tally.problem("the zip", f"contains {twice} names more than once; the last is used")
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
        if member.size > MAX_DOCUMENT_BYTES:
            raise self._bad(name, "is larger than 1 GiB decompressed")
        if member.size > most_unpacked(member.packed):
            raise self._bad(name, "is compressed more than any run is")
        if member.method not in (_STORED, _DEFLATED, _ZSTD):
            raise self._bad(name, f"is compressed by the unsupported method {member.method}")
        if member.flags & _ENCRYPTED:
            raise self._bad(name, "is encrypted")
        try:
            data = _unpacked(self._packed(member), member.method, member.size)
        except _TROUBLE as error:
            raise self._bad(name, f"cannot be decompressed: {_error_text(error)}") from error
        if zlib.crc32(data) != member.crc:
            raise self._bad(name, "cannot be decompressed: its CRC does not match")
        return data

    def _bad(self, name: str, why: str) -> BadTrace:
        return BadTrace(self._display, name, why)

    def _packed(self, member: Member) -> bytes:
        self._stream.seek(member.at)
        _, *_, named, extra = _LOCAL.unpack(self._stream.read(_LOCAL.size))
        self._stream.seek(member.at + _LOCAL.size + named + extra)
        data = self._stream.read(member.packed)
        if len(data) < member.packed:
            raise EOFError("it is truncated")
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
        raise ValueError(_error_text(error)) from error


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


Parts: TypeAlias = dict[str, Raw]
"""An object whose fields are still bytes."""

_LONG = {
    "events", "transcript", "events_data", "message_pool", "attachments", "messages",
    "error_retries", "store", "timelines",
}  # fmt: skip
"""Fields that stay bytes. The store is the sum of its events' changes, timelines repeat spans."""

_SHORT = {
    "id", "epoch", "input", "choices", "target", "description", "sandbox", "files", "setup",
    "output", "score", "scores", "metadata", "model_usage", "role_usage", "model_fallbacks",
    "started_at", "completed_at", "total_time", "working_time", "uuid", "invalidation", "error",
    "limit", "turn_count", "token_limit", "token_limit_type", "token_limit_usage",
    "message_limit", "time_limit", "message_refs", "call_pool",
}  # fmt: skip


_parts = msgspec.json.Decoder(Parts).decode
_entries = msgspec.json.Decoder(list[Raw]).decode
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Record(Struct, frozen=True, eq=False, kw_only=True):
    """A sample. `pool` holds the messages that model events name by their places, `attachments`
    the texts that stand elsewhere; `strange` are names of fields that are not understood."""

    fields: dict[str, Any]
    events: list[Raw]
    pool: list[Raw]
    messages: list[Raw]
    attachments: dict[str, Raw]
    retries: list[Raw]
    strange: tuple[str, ...]

    def let_go(self) -> None:
        """Frees the bytes of a sample that has been read, while what was read is still stored."""
        for entries in (self.events, self.pool, self.messages, self.retries):
            entries.clear()
        self.attachments.clear()


class Entry(NamedTuple):
    """One sample as it stands in the log, and the log it stands in."""

    log: dict[str, Any]
    where: str
    sample: Record


def whole(data: bytes | Raw, path: str, where: str) -> Record:
    """The sample that a document is. Raises BadTrace where it is none."""
    found = parts(data)
    if found is None:
        found = parts(acceptable(data, path, where))
    if found is None:
        raise BadTrace(path, where, "is not an object")
    oldest = parts(found.get("transcript")) or {}
    pools = parts(found.get("events_data")) or {}
    return made(
        found,
        path,
        where,
        events=entries(found.get("events")) or entries(oldest.get("events")),
        pool=entries(pools.get("messages")) or entries(found.get("message_pool")),
        messages=entries(found.get("messages")),
        attachments={
            **(parts(oldest.get("content")) or {}),
            **(parts(found.get("attachments")) or {}),
        },
    )


def in_pieces(sample: Record) -> Record:
    """The sample with its long lists as pieces of their own, each freed once all of it was read:
    not held together by the document they were found in."""
    for raws in (sample.events, sample.pool, sample.messages, sample.retries):
        for start in range(0, len(raws), _A_PIECE):
            piece = slice(start, start + _A_PIECE)
            raws[piece] = _entries(b"[%b]" % b",".join(raws[piece]))
    for name, raw in sample.attachments.items():
        sample.attachments[name] = raw.copy()
    return sample


_A_PIECE = 256
"""So many entries of a list are held until the last of them was read."""


def made(
    found: Parts,
    path: str,
    where: str,
    *,
    events: list[Raw],
    pool: list[Raw],
    messages: list[Raw],
    attachments: dict[str, Raw],
) -> Record:
    """A record of these fields and lists. Raises BadTrace where a field cannot be decoded."""
    fields = {name: plain(raw, path, where) for name, raw in found.items() if name not in _LONG}
    return Record(
        fields=fields,
        events=events,
        pool=pool,
        messages=messages,
        attachments=attachments,
        retries=entries(found.get("error_retries")),
        strange=tuple(found.keys() - _LONG - _SHORT),
    )


# --- bytes


def parts(raw: bytes | Raw | None) -> Parts | None:
    """The fields of an object, None for anything else."""
    try:
        return _parts(raw) if raw is not None else None
    except _REFUSED:
        return None


def entries(raw: bytes | Raw | None) -> list[Raw]:
    """The entries of a list, [] for anything else."""
    try:
        return _entries(raw) if raw is not None else []
    except _REFUSED:
        return []


def plain(raw: bytes | Raw, path: str, where: str) -> Json:
    """The value of some JSON. Raises BadTrace where it is none, or nested too deeply."""
    return source.decode(bytes(raw), path, where)


# --- numbers that are none

_MOST_MENDED = 32
_BROKEN_AT = re.compile(r"invalid character \(byte (\d+)\)")
_NO_NUMBER = re.compile(rb"NaN|Infinity")


def acceptable(data: bytes | Raw, path: str, where: str) -> bytes | Raw:
    """The document as one that can be looked into piece by piece.

    Inspect writes NaN for a score that is none, which JSON has no word for. A few of them are
    replaced where they stand; a document that is odd in other ways is decoded and written anew.
    Raises BadTrace where it is no JSON.
    """
    mended = data
    for _ in range(_MOST_MENDED):
        try:
            _whole(mended)
            return mended
        except RecursionError as error:
            raise BadTrace(path, where, TOO_DEEP) from error
        except msgspec.DecodeError as error:
            broken = _BROKEN_AT.search(str(error))
            if broken is None:
                break
            nulled = _nulled(bytes(mended), int(broken[1]))
            if nulled is None:
                break
            mended = nulled
    return msgspec.json.encode(source.decode(bytes(data), path, where))


_whole = msgspec.json.Decoder(Raw).decode


def _nulled(data: bytes, at: int) -> bytes | None:
    """The document with null for the NaN or infinity at a place, None where none is there."""
    found = _NO_NUMBER.match(data, at)
    if found is None:
        return None
    start = at - 1 if data[at - 1 : at] == b"-" else at
    return data[:start] + b"null" + data[found.end() :]


_REFERENCES = ("attachment://", "tc://")
_REMOVED = "<base64-data-removed>"
_MARKS = (b'"attachment:', b'"tc:', b'"<base64')
"""How a text begins that is one of those, in JSON."""

NO_ATTACHMENT = "an attachment is not in the log"
NO_MEDIA = "images were not logged"


def _may_refer(data: bytes) -> bool:
    """Can JSON bytes hold a text that stands elsewhere? True only means: look closer."""
    attachment, tool, removed = _MARKS  # one by one: every event of a log comes by
    return attachment in data or tool in data or removed in data


class Attachments:
    """The texts of one sample that stand elsewhere in it; decodes what refers to them."""

    def __init__(self, raws: Mapping[str, Raw], path: str, where: str) -> None:
        self._raws = raws
        self._path, self._where = path, where
        self._texts: dict[str, Json] = {}
        self._flaw: str | None = None

    def read(self, raw: Raw) -> Json:
        """The value of some JSON with its attachments. Raises BadTrace where it is none."""
        data = bytes(raw)
        value = plain(data, self._path, self._where)
        return self.resolve(value) if _may_refer(data) else value

    def put_back(self, value: Json, data: bytes) -> Json:
        """A value that was decoded out of `data`, with its attachments.

        Raises BadTrace where it is nested too deeply.
        """
        if self.as_written(data):
            return value
        if is_deep(value):
            raise BadTrace(self._path, self._where, TOO_DEEP)
        return self.resolve(value)

    def as_written(self, data: bytes) -> bool:
        """Can what is in there be taken as it is? False only means: look closer."""
        return not _may_refer(data) and not may_be_deep(data)

    def message(self, raw: Raw) -> tuple[Message | None, str | None]:
        """A message as the model saw it (None: there is none), and what is missing from it."""
        self._flaw = None
        body = self.read(raw)
        return Message(dialect="inspect", body=body) if isinstance(body, dict) else None, self._flaw

    def resolve(self, value: Json) -> Json:
        """The value with every reference replaced by its text; one without a text stays.

        What holds no reference is the same object, so that a sample is not held twice.
        """
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            made = [self.resolve(entry) for entry in value]
            return made if any(map(is_not, made, value)) else value
        if isinstance(value, dict):
            new = {name: self.resolve(entry) for name, entry in value.items()}
            return new if any(map(is_not, new.values(), value.values())) else value
        return value

    def _text(self, text: str) -> Json:
        if text == _REMOVED:
            self._flaw = NO_MEDIA
        elif text.startswith(_REFERENCES):
            name = text.partition("://")[2]
            found = self._texts.get(name)
            if found is None and name in self._raws:
                found = self._texts[name] = self._attached(self._raws[name])
            if found is not None:
                return found
            self._flaw = NO_ATTACHMENT
        return text

    def _attached(self, raw: Raw) -> Json:
        try:
            return plain(raw, self._path, self._where)
        except BadTrace:
            return None


_LENGTH = len("2026-01-02T03:04:05.123456+00:00")
_ZONE = slice(26, None)
_LAST_NS = 2**62
"""No minute near the end of what a database column holds is trusted to end before it."""
_MINUTE, _SECOND, _MICROSECOND = slice(0, 16), slice(17, 19), slice(20, 26)


def ns(time: Json) -> int | None:
    """Nanoseconds since the epoch, None for what is no time."""
    if not isinstance(time, str):
        return None
    if len(time) != _LENGTH or time[16] != ":" or time[19] != ".":
        return common.ns(time)
    second, micro = time[_SECOND], time[_MICROSECOND]
    if not (time.isascii() and second.isdecimal() and micro.isdecimal()) or second > "59":
        return common.ns(time)
    begun = _minute_ns(time[_MINUTE], time[_ZONE])
    if begun is None or begun > _LAST_NS:
        return common.ns(time)
    return begun + int(second) * 10**9 + int(micro) * 1000


@lru_cache(maxsize=4096)
def _minute_ns(minute: str, zone: str) -> int | None:
    return common.ns(f"{minute}:00{zone}")
