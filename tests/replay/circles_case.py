"""Databases whose pages somebody has led in circles, or to one page many times over."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

TABLE_INNER, INDEX_INNER = 5, 2
LEAF_OF = {13: TABLE_INNER, 5: TABLE_INNER, 10: INDEX_INNER, 2: INDEX_INNER}
LEVELS = 9


def roots(path: Path) -> dict[str, int]:
    """The first page of each table and index, by name; the list of them is left alone."""
    with closing(sqlite3.connect(path)) as db:
        return dict(
            db.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0").fetchall()
        )


def lead_to_one_page(path: Path, root: int) -> None:
    """Each of nine inner pages lists the next one hundreds of times, and the last what the root
    held: more rows than can ever be read."""
    data, size = _read(path)
    inner = LEAF_OF[data[(root - 1) * size]]
    first = len(data) // size + 1
    kept = first + LEVELS
    cell = _first_cell(data, size, root, inner)
    data += bytes(size) * LEVELS + data[(root - 1) * size : root * size]
    for level in range(LEVELS):
        _make_inner(data, size, first + level, first + level + 1, inner, cell)
    _make_inner(data, size, root, first, inner, cell)
    assert kept == len(data) // size
    _write(path, data, size)


def lead_in_a_circle(path: Path, root: int) -> None:
    """The root lists a page that lists the root."""
    data, size = _read(path)
    inner = LEAF_OF[data[(root - 1) * size]]
    cell = _first_cell(data, size, root, inner)
    other = len(data) // size + 1
    data += bytes(size)
    _make_inner(data, size, other, root, inner, cell)
    _make_inner(data, size, root, other, inner, cell)
    _write(path, data, size)


def lead_free_pages_in_a_circle(path: Path) -> None:
    """The list of free pages claims very many, and is one page that follows itself."""
    data, size = _read(path)
    page = len(data) // size + 1
    data += bytes(size)
    struct.pack_into(">II", data, (page - 1) * size, page, 0)
    struct.pack_into(">II", data, 32, page, 100_000)
    _write(path, data, size)


def _read(path: Path) -> tuple[bytearray, int]:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    data = bytearray(path.read_bytes())
    return data, struct.unpack_from(">H", data, 16)[0]


def _write(path: Path, data: bytearray, size: int) -> None:
    struct.pack_into(">I", data, 28, len(data) // size)
    path.write_bytes(data)


def _first_cell(data: bytearray, size: int, page: int, inner: int) -> bytes:
    """What stands behind the page's number in a cell of an inner page: a row's number, or a key."""
    if inner == TABLE_INNER:
        return b"\x01"
    at = (page - 1) * size
    is_inner = data[at] == INDEX_INNER
    if not struct.unpack_from(">H", data, at + 3)[0]:
        return b"\x02\x02\x00"  # a record of one NULL
    start = at + struct.unpack_from(">H", data, at + (12 if is_inner else 8))[0]
    start += 4 if is_inner else 0
    length = data[start]
    if length > 127:
        return b"\x02\x02\x00"
    return bytes(data[start : start + 1 + length])


def _make_inner(
    data: bytearray, size: int, number: int, target: int, inner: int, cell: bytes
) -> None:
    """Make the page one that lists another page as often as it can, and nothing else."""
    at, length = (number - 1) * size, 4 + len(cell)
    cells = min(400, (size - 12) // (length + 2))
    content = size - length * cells
    data[at : at + size] = bytes(size)
    struct.pack_into(">BHHHBI", data, at, inner, 0, cells, content, 0, target)
    for place in range(cells):
        struct.pack_into(">H", data, at + 12 + 2 * place, content + length * place)
        start = at + content + length * place
        data[start : start + length] = struct.pack(">I", target) + cell
