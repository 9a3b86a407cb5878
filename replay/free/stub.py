"""A stub: what a tool would have said, as the user knows or decides it.

A stub is data, never code: one call and the one result it gets, whenever it is made. It answers
what the tape cannot, and a run that used one says so.

```toml
[[stub]]
tool = "get_order"
arguments = { order_id = "1039" }
result = '{"status": "delivered", "total": 12900}'
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import tomli_w
from msgspec import Struct

from replay import digests, written
from replay.action import Act
from replay.edit.changes import meant
from replay.errors import BadEdit
from replay.trace import Json

_KEYS = ("tool", "arguments", "result", "is_error")


class Stub(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result a call gets: its text, and whether it is an error."""

    tool: str
    arguments: dict[str, Json]
    result: str
    is_error: bool = False

    @property
    def call(self) -> Act:
        return Act(tool=self.tool, arguments=self.arguments)

    @property
    def digest(self) -> str:
        """Identity of the call and what it gets."""
        return digests.digest(
            "stub", self.tool, digests.canonical(self.arguments), self.result, str(self.is_error)
        )

    def answers_same(self, other: Stub) -> bool:
        """Do both answer one call?"""
        return self.tool == other.tool and digests.same(self.arguments, other.arguments)


def from_file(file: Path) -> tuple[Stub, ...]:
    """The stubs of a TOML file. Raises BadEdit naming the file and the key."""
    return from_toml(written.from_file(file), str(file))


def from_toml(text: str, where: str) -> tuple[Stub, ...]:
    """The `[[stub]]` tables of a TOML text. Raises BadEdit naming `where` and the key."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadEdit(f"{where}: is not TOML: {error}") from error
    _refuse_unknown(document, ("stub",), where)
    tables = document.get("stub")
    if not isinstance(tables, list) or not tables:
        raise BadEdit(f"{where}: holds no [[stub]] table")
    found: list[Stub] = []
    for at, table in enumerate(tables, 1):
        stub = _stub(table, f"{where}: stub {at}")
        for earlier, other in enumerate(found, 1):
            if stub.answers_same(other):
                raise BadEdit(f"{where}: stub {at}: answers the same call as stub {earlier}")
        found.append(stub)
    return tuple(found)


def to_toml(stubs: Iterable[Stub]) -> str:
    """The file that `from_toml` reads back as these stubs.

    Each is a table of its own, so that one can be pasted below others. Its arguments are JSON text,
    as most results are: TOML has no null.
    """
    return "\n".join(map(_table, stubs))


def _stub(table: Json, where: str) -> Stub:
    if not isinstance(table, dict):
        raise BadEdit(f"{where}: is not a table")
    _refuse_unknown(table, _KEYS, where)
    for key in ("tool", "result"):
        if key not in table:
            raise BadEdit(f"{where}: {key}: is missing")
    try:
        return msgspec.json.decode(digests.encode({"arguments": {}, **_parsed(table)}), type=Stub)
    except ValueError as error:
        raise BadEdit(
            f"{where}: {error}",
            "tool and result are texts, arguments a table, is_error true or false",
        ) from error


def _parsed(table: dict[str, Json]) -> dict[str, Json]:
    """Arguments may be given as JSON text: TOML has no null."""
    given = table.get("arguments")
    return {**table, "arguments": written.from_json(given)} if isinstance(given, str) else table


def _refuse_unknown(table: dict[str, Json], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise BadEdit(f"{where}: no key {key!r}", meant(key, known))


def _table(stub: Stub) -> str:
    arguments = digests.encode(stub.arguments).decode()
    lines = [
        "[[stub]]",
        f"tool = {_quoted(stub.tool)}",
        f"arguments = {_quoted(arguments)}",
        f"result = {_quoted(stub.result)}",
    ]
    if stub.is_error:
        lines.append("is_error = true")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string, as it stands where TOML allows that: JSON is full of quotes."""
    if text.isprintable() and "'" not in text:
        return f"'{text}'"
    lines = text.split("\n")
    if len(lines) > 1 and all(map(str.isprintable, lines)) and "'''" not in f"{text}'":
        return f"'''\n{text}'''"
    return tomli_w.dumps({"text": text}).removeprefix("text = ").removesuffix("\n")
