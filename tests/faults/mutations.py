"""A file changed a little: bytes turned round, and where it is JSON, values put where others stand.

What is made of the same file by the same chance is the same. A mutation knows no format: what one
holds it learns from the file, whose own names and values it puts in other places.
"""

from __future__ import annotations

import copy
import json
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from random import Random
from typing import Any

from replay.depth import is_deep
from tests.hostile import ODD, Value, Way, places

MOST_BYTES = 64 * 1024
"""Of what is made; more only takes longer."""

_HERE = "put it here "
_ODD = tuple(ODD.values())
_NUMBERS = (
    0,
    1,
    -1,
    7,
    255,
    1 << 31,
    1 << 53,
    1 << 63,
    1 << 64,
    -(1 << 63),
    0.5,
    -0.0,
    1e308,
    10**309,
    -(10**400),
    5e-324,
)
_BYTES = (b"\0", b"\xff", b"\n", b'"', b"\\", b"{", b"[", b"}", b"]", b"\x1b", b"\xed\xa0\x80")
_ZIP = b"PK\x03\x04"
_NO_ZIP = (
    zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError,
    ValueError, IndexError, OverflowError,
)  # fmt: skip


def mutated(data: bytes, chosen: Random) -> bytes:
    """The file with one to five changes."""
    values = _values(data)
    if values is not None and chosen.random() < 0.9:
        made = _restructured(values, chosen)
    elif data.startswith(_ZIP) and chosen.random() < 0.7:
        made = _repacked(data, chosen)
    else:
        made = data
    if made is data or chosen.random() < 0.1:
        for _ in range(chosen.randint(1, 5)):
            made = chosen.choice(_ON_BYTES)(made, chosen)
    return made[:MOST_BYTES]


def _repacked(data: bytes, chosen: Random) -> bytes:
    """The zip with one of its members changed."""
    made = BytesIO()
    try:
        with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
            changed = chosen.choice(old.namelist())
            for name in old.namelist():
                held = old.read(name)
                new.writestr(name, mutated(held, chosen) if name == changed else held)
    except _NO_ZIP:
        return data
    return made.getvalue()


# --- bytes


def _flipped(data: bytes, chosen: Random) -> bytes:
    if not data:
        return b"\0"
    at = chosen.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chosen.randrange(8)]) + data[at + 1 :]


def _inserted(data: bytes, chosen: Random) -> bytes:
    at = chosen.randint(0, len(data))
    return data[:at] + chosen.choice(_BYTES) * chosen.choice((1, 1, 1, 300)) + data[at:]


def _overwritten(data: bytes, chosen: Random) -> bytes:
    at, new = chosen.randint(0, len(data)), chosen.randbytes(chosen.choice((1, 2, 4, 8)))
    return data[:at] + chosen.choice((new, b"\xff" * len(new))) + data[at + len(new) :]


def _without(data: bytes, chosen: Random) -> bytes:
    at = chosen.randint(0, len(data))
    return data[:at] + data[at + chosen.randint(1, 64) :]


def _cut(data: bytes, chosen: Random) -> bytes:
    return data[: chosen.randint(0, len(data))]


def _repeated(data: bytes, chosen: Random) -> bytes:
    at, length = chosen.randint(0, len(data)), chosen.randint(1, 1000)
    return data[: at + length] + data[at:]


_ON_BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flipped, _flipped, _inserted, _overwritten, _overwritten, _without, _cut, _repeated,
)  # fmt: skip


# --- values


def _values(data: bytes) -> list[Value] | None:
    """The document, or the lines that are JSON; None where it is no JSON, or too deep to walk."""
    found: list[Value] = []
    for text in (data, *data.splitlines()):
        try:
            found.append(json.loads(text))
        except (ValueError, RecursionError):
            continue
        if text is data:
            break
    return None if not found or any(map(is_deep, found)) else found


def _restructured(values: list[Value], chosen: Random) -> bytes:
    """The values with one to five changes, as lines."""
    values = copy.deepcopy(values)
    raw: dict[str, bytes] = {}
    for _ in range(chosen.randint(1, 5)):
        found = list(places(values))
        if found:
            _change(values, chosen.choice(found), found, raw, chosen)
    made = b"\n".join(json.dumps(each).encode() for each in values) + b"\n"
    for mark, odd in raw.items():
        made = made.replace(json.dumps(mark).encode(), odd)
    return made


def _change(
    values: list[Value], way: Way, found: list[Way], raw: dict[str, bytes], chosen: Random
) -> None:
    holder, last = _at(values, way[:-1]), way[-1]
    match chosen.randrange(10):
        case 0 | 1:
            mark = f"{_HERE}{len(raw)}"
            raw[mark] = chosen.choice(_ODD)
            holder[last] = mark
        case 2 | 3:
            holder[last] = copy.deepcopy(_at(values, chosen.choice(found)))
        case 4:
            del holder[last]
        case 5:
            _double(holder, last, found, chosen)
        case 6:
            holder[last] = chosen.choice(({}, [], "", None, True, *_NUMBERS))
        case 7:
            holder[last] = chosen.choice(([holder[last]], {"a": holder[last]}, str(holder[last])))
        case 8:
            holder[last] = _text_changed(holder[last], chosen)
        case _:
            if isinstance(holder, list):
                chosen.shuffle(holder)
            else:
                holder[_name(found, chosen)] = holder.pop(last)


def _double(holder: Any, last: Any, found: list[Way], chosen: Random) -> None:
    if isinstance(holder, list):
        holder.insert(chosen.randint(0, len(holder)), copy.deepcopy(holder[last]))
    else:
        holder[_name(found, chosen)] = copy.deepcopy(holder[last])


def _text_changed(value: Value, chosen: Random) -> Value:
    """A text that holds JSON with a change inside; any other value as such a text."""
    if isinstance(value, str):
        inside = _values(value.encode("utf-8", "replace"))
        if inside is not None and isinstance(inside[0], (dict, list)):
            return _restructured(inside, chosen).decode("utf-8", "replace")
        return _flipped(value.encode("utf-8", "replace"), chosen).decode("utf-8", "replace")
    return json.dumps(value)


def _at(values: Any, way: Way) -> Any:
    for name in way:
        values = values[name]
    return values


def _name(found: list[Way], chosen: Random) -> str:
    """A name that a field of the file has."""
    return str(chosen.choice(found)[-1])
