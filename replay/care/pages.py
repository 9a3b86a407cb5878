"""The pages of a database file, read without SQLite: what is on them although others are damaged.

SQLite gives up a table at its first damaged page, and a file at its first page. Here each page
is read by itself, after the published file format: pages as the last commit left them (the log
beside the file included), trees of pages, and the rows on them. Nothing is written, nothing is
trusted: what does not parse is `Damaged`. This module knows of no table; `salvage` does.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from sys import byteorder
from typing import Literal, NamedTuple, TypeAlias

Value: TypeAlias = int | float | str | bytes | None
Record: TypeAlias = tuple[Value, ...]

INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13

_MAGIC = b"SQLite format 3\0"
_SIZES = tuple(1 << power for power in range(9, 17))
_DEEPEST = 30
"""More levels than a tree of the largest file can have."""


class Damaged(Exception):
    """A page, or a row on it, does not hold what one can hold."""

    def __init__(self, page: int, why: str) -> None:
        super().__init__(f"page {page}: {why}")
        self.page = page
        self.why = why


class Row(NamedTuple):
    """A row of a table by its number, or an entry of an index (`id` None)."""

    id: int | None
    values: Record


Found: TypeAlias = Row | Damaged


class Pages:
    """The pages of a file, by their number from 1, a context manager.

    Raises Damaged where the file has none at all.
    """

    def __init__(self, path: Path, *, size: int | None = None, reserved: int = 0) -> None:
        self._raw = path.read_bytes() if path.stat().st_size == 0 else _mapped(path)
        if len(self._raw) < _SIZES[0]:
            raise Damaged(1, "file shorter than one page")
        self.size = size or _page_size(self._raw)
        log = path.with_name(path.name + "-wal")
        self._log = log.read_bytes() if log.exists() else b""
        self._logged, committed, self.log_cut = _logged(self._log, self.size)
        self.count = committed or len(self._raw) // self.size
        self.usable = self.size - reserved  # which an encrypted file keeps of each page

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._raw, mmap.mmap):
            self._raw.close()

    def page(self, number: int) -> bytes:
        """The bytes of a page. Raises Damaged where the file has no such page."""
        at = self._logged.get(number)
        if at is not None:
            return self._log[at : at + self.size]
        found = self._raw[(number - 1) * self.size : number * self.size] if number > 0 else b""
        if len(found) < self.size or number > self.count:
            raise Damaged(number, "missing from the file")
        return found

    def kind(self, number: int) -> int:
        """The first byte of what a page says of itself: one of the four kinds, or anything."""
        return self.page(number)[100 if number == 1 else 0]

    # --- trees

    def tree(self, root: int, seen: set[int]) -> Iterator[int | Damaged]:
        """The leaves of a tree in their order. `seen` gets every page that was looked at."""
        left: list[tuple[int, int]] = [(root, 0)]
        while left:
            number, depth = left.pop()
            try:
                if number in seen or depth > _DEEPEST:
                    raise Damaged(number, "referenced twice in its b-tree")
                seen.add(number)
                if self.kind(number) in (LEAF_TABLE, LEAF_INDEX):
                    yield number
                else:
                    below = self.children(number)
                    left += [(child, depth + 1) for child in reversed(below)]
            except Damaged as damage:
                yield damage

    def children(self, number: int) -> list[int]:
        """The pages below an interior page. Raises Damaged."""
        page, start, kind = self._head(number)
        if kind not in (INTERIOR_TABLE, INTERIOR_INDEX):
            raise Damaged(number, "not a b-tree page")
        below = [_int(page, cell, 4) for cell in self._cells(number, page, start + 12)]
        return [*below, _int(page, start + 8, 4)]

    def rows(self, number: int) -> Iterator[Found]:
        """The rows of a leaf, or the entries of a page of an index, each with its fate."""
        try:
            page, start, kind = self._head(number)
            if kind == INTERIOR_TABLE:
                return
            interior = kind == INTERIOR_INDEX
            cells = self._cells(number, page, start + (12 if interior else 8))
        except Damaged as damage:
            yield damage
            return
        for cell in cells:
            try:
                yield self._row(number, page, cell + (4 if interior else 0), kind)
            except Damaged as damage:
                yield damage
            except UnicodeDecodeError:
                yield Damaged(number, "invalid text")
            except (IndexError, struct.error):
                yield Damaged(number, "truncated row")

    def overflow(self, number: int) -> Iterator[int]:
        """The pages that the rows of a page run over to, as far as they can be followed."""
        try:
            page, start, kind = self._head(number)
            if kind == INTERIOR_TABLE:
                return
            interior = kind == INTERIOR_INDEX
            cells = self._cells(number, page, start + (12 if interior else 8))
        except Damaged:
            return
        for cell in cells:
            try:
                size, at = _varint(page, cell + (4 if interior else 0))
                if kind == LEAF_TABLE:
                    _, at = _varint(page, at)
                local = self._local(size, kind)
                following = _int(page, at + local, 4) if local < size else 0
                passed: set[int] = set()
                while following and following not in passed:
                    passed.add(following)
                    yield following
                    following = _int(self.page(following), 0, 4)
            except (Damaged, IndexError):
                continue

    def free(self) -> set[int]:
        """The pages that hold nothing any more, as far as their list can be followed."""
        found: set[int] = set()
        try:
            trunk = _int(self.page(1), 32, 4)
            while trunk and trunk not in found:
                found.add(trunk)
                page = self.page(trunk)
                many = min(_int(page, 4, 4), self.usable // 4 - 2)
                found.update(_int(page, 8 + 4 * each, 4) for each in range(many))
                trunk = _int(page, 0, 4)
        except Damaged:
            pass
        return found

    def _head(self, number: int) -> tuple[bytes, int, int]:
        page = self.page(number)
        start = 100 if number == 1 else 0
        return page, start, page[start]

    def _cells(self, number: int, page: bytes, pointers: int) -> list[int]:
        """Where the cells of a page begin. Raises Damaged where that cannot be."""
        start = 100 if number == 1 else 0
        kind, many = page[start], _int(page, start + 3, 2)
        if kind not in (INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE):
            raise Damaged(number, "not a b-tree page")
        if pointers + 2 * many > self.usable:
            raise Damaged(number, "more cells than fit")
        return [_int(page, pointers + 2 * each, 2) for each in range(many)]

    # --- rows

    def _row(self, number: int, page: bytes, at: int, kind: int) -> Row:
        size, at = _varint(page, at)
        own: int | None = None
        if kind == LEAF_TABLE:
            own, at = _varint(page, at)
            own -= (own >> 63) << 64
        payload = self._payload(number, page, at, size, kind)
        return Row(own, _record(number, payload))

    def _local(self, size: int, kind: int) -> int:
        """How much of a payload of that size stands on its own page."""
        usable = self.usable
        most = usable - 35 if kind == LEAF_TABLE else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return size
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        return local if local <= most else least

    def _payload(self, number: int, page: bytes, at: int, size: int, kind: int) -> bytes:
        local = self._local(size, kind)
        if size > self.count * self.size or at + local > self.usable:
            raise Damaged(number, "row larger than its cell")
        if local == size:
            return page[at : at + size]
        parts, left = [page[at : at + local]], size - local
        following = _int(page, at + local, 4)
        while left > 0:
            if following == 0:
                raise Damaged(number, "truncated row")
            over = self.page(following)
            parts.append(over[4 : 4 + min(left, self.usable - 4)])
            left -= self.usable - 4
            following = _int(over, 0, 4)
        return b"".join(parts)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _page_size(raw: bytes | mmap.mmap) -> int:
    """What the file says of its pages, else the size by which most of them are of a known kind."""
    said = _int(raw[16:18], 0, 2)
    said = 65536 if said == 1 else said
    if raw[:16] == _MAGIC and said in _SIZES and len(raw) >= said:
        return said
    return max(_SIZES, key=lambda size: _plausible(raw, size))


_LOOKED_AT = 64


def _plausible(raw: bytes | mmap.mmap, size: int) -> float:
    """The share of some pages of that size that begin as pages of trees do."""
    starts = range(size, min(len(raw), size * _LOOKED_AT), size)
    kinds = (INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE)
    if not starts or len(raw) % size:
        return 0.0
    good = sum(
        raw[at] in kinds and 8 <= _int(raw[at + 5 : at + 7], 0, 2) < max(size, 65535) - 1
        and _int(raw[at + 3 : at + 5], 0, 2) * 2 + 8 <= _int(raw[at + 5 : at + 7], 0, 2) <= size
        for at in starts
    )  # fmt: skip
    return good / len(starts)


def _int(raw: bytes, at: int, width: Literal[1, 2, 4]) -> int:
    return int.from_bytes(raw[at : at + width], "big")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where the next thing begins."""
    value = 0
    for _ in range(8):
        byte = raw[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | raw[at], at + 1


_WIDTHS = (0, 1, 2, 3, 4, 6, 8)


def _record(number: int, payload: bytes) -> Record:
    """The values of a row. Raises Damaged, or UnicodeDecodeError for a text that is none."""
    head, at = _varint(payload, 0)
    if head > len(payload):
        raise Damaged(number, "row header longer than the row")
    body, values = head, list[Value]()
    while at < head:
        kind, at = _varint(payload, at)
        width = _WIDTHS[kind] if kind < 7 else 8 if kind == 7 else 0
        if kind >= 12:
            width = (kind - 12) // 2
        part = payload[body : body + width]
        if len(part) < width or kind in (10, 11):
            raise Damaged(number, "truncated value")
        body += width
        if kind == 0:
            values.append(None)
        elif kind < 7:
            values.append(int.from_bytes(part, "big", signed=True))
        elif kind == 7:
            values.append(struct.unpack(">d", part)[0])
        elif kind < 10:
            values.append(kind - 8)
        else:
            values.append(part.decode() if kind % 2 else part)
    if body != len(payload):
        raise Damaged(number, "row longer than its values")
    return tuple(values)


# --- the log beside the file

_LOG_HEAD, _FRAME_HEAD = 32, 24


def _logged(log: bytes, size: int) -> tuple[dict[int, int], int, bool]:
    """Where the log holds the last committed state of which page, how many pages the file then
    has (0: nothing is logged), and whether the log is damaged before its last commit."""
    if len(log) < _LOG_HEAD or log[:3] != b"\x37\x7f\x06" or _int(log, 8, 4) != size:
        return {}, 0, len(log) >= _LOG_HEAD
    big = bool(log[3] & 1)
    sums = _checksum(log[:24], (0, 0), big)
    if sums != (_int(log, 24, 4), _int(log, 28, 4)):
        return {}, 0, True
    kept: dict[int, int] = {}
    since: dict[int, int] = {}
    pages, salts, at = 0, log[16:24], _LOG_HEAD
    while at + _FRAME_HEAD + size <= len(log) and log[at + 8 : at + 16] == salts:
        body = at + _FRAME_HEAD
        sums = _checksum(log[at : at + 8], sums, big)
        sums = _checksum(log[body : body + size], sums, big)
        if sums != (_int(log, at + 16, 4), _int(log, at + 20, 4)):
            return kept, pages, _commits_later(log, at + _FRAME_HEAD + size, size, salts)
        since[_int(log, at, 4)] = body
        committed = _int(log, at + 4, 4)
        if committed:
            kept |= since
            since, pages = {}, committed
        at = body + size
    return kept, pages, False


def _commits_later(log: bytes, at: int, size: int, salts: bytes) -> bool:
    """Does the log go on, with a commit, after a place that does not hold?"""
    while at + _FRAME_HEAD + size <= len(log):
        if log[at + 8 : at + 16] == salts and _int(log, at + 4, 4):
            return True
        at += _FRAME_HEAD + size
    return False


def _checksum(raw: bytes, sums: tuple[int, int], big: bool) -> tuple[int, int]:
    words = array("I", raw)
    if big != (byteorder == "big"):
        words.byteswap()
    first, second = sums
    for low, high in zip(words[::2], words[1::2], strict=True):
        first = (first + low + second) & 0xFFFFFFFF
        second = (second + high + first) & 0xFFFFFFFF
    return first, second
