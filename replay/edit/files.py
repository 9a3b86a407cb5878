"""Edits as the user writes them: a prompt in a file, changes in a TOML file.

```toml
name = "verify first"

[[change]]
kind = "replace_text"
anchor = "Refund at once."
text = "Look the order up, then refund."

[[change]]
kind = "set_tool"
target = "get_order"
description = "Look an order up. Always call it before a refund."
```

What a change of each kind takes is said by its class in `replay.edit.changes`; `target` is what it
means.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

import msgspec
import tomli_w
from msgspec import structs

from replay import digests, written
from replay.edit.changes import Change, Edit, SetSystem, meant
from replay.edit.places import edit_problem
from replay.errors import BadEdit
from replay.trace import Json

KINDS: dict[str, type[Change]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(Change)
}


def from_files(system: Path | None, files: Sequence[Path]) -> Edit | None:
    """The edit that `--system FILE` and `--edit FILE.toml` name together, None for none.

    Raises BadEdit naming the file and the key.
    """
    changes: list[Change] = []
    names: list[str] = []
    if system is not None:
        changes.append(SetSystem(written.from_file(system)))
        names.append(written.called(system.stem))
    threads: set[str] = set()
    for file in files:
        read = from_toml(written.from_file(file), str(file), written.called(file.stem))
        changes.extend(read.changes)
        names.append(read.name)
        threads.update([read.thread] if read.thread else [])
    if len(threads) > 1:
        raise BadEdit(f"{files[-1]}: thread: two files name different threads")
    thread = threads.pop() if threads else None
    return Edit(name=" + ".join(names), changes=tuple(changes), thread=thread) if names else None


# --- reading


def from_toml(text: str, where: str, name: str) -> Edit:
    """An edit from TOML: `name` and `thread` where given, and `[[change]]` tables.

    Raises BadEdit naming `where`, the change and the key.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadEdit(f"{where}: is not TOML: {error}") from error
    refuse_unknown(document, ("name", "thread", "change"), where)
    tables = document.get("change")
    if not isinstance(tables, list) or not tables:
        raise BadEdit(f"{where}: no [[change]] table")
    changes = tuple(_change(table, f"{where}: change {at}") for at, table in enumerate(tables, 1))
    for key in ("name", "thread"):
        if not isinstance(document.get(key, ""), str):
            raise BadEdit(f"{where}: {key}: must be a string")
    return Edit(name=document.get("name", name), changes=changes, thread=document.get("thread"))


def _change(table: Json, where: str) -> Change:
    if not isinstance(table, dict):
        raise BadEdit(f"{where}: is not a table")
    kind = KINDS.get(str(table.get("kind")))
    if kind is None:
        given = table.get("kind")
        said = "kind: is missing" if given is None else f"kind: unknown kind {given!r}"
        raise BadEdit(f"{where}: {said}", meant(str(given), KINDS))
    fields = [each.encode_name for each in structs.fields(kind)]
    refuse_unknown(table, ("kind", *fields), where)
    try:
        change = msgspec.json.decode(digests.encode(_with_schema(table)), type=kind)
    except ValueError as error:
        raise BadEdit(f"{where}: {error}", f"{table['kind']} takes {', '.join(fields)}") from error
    wrong = edit_problem(change)
    if wrong is not None:
        raise BadEdit(f"{where}: {wrong.sentence}", wrong.hint)
    return change


def _with_schema(table: dict[str, Json]) -> dict[str, Json]:
    """A schema may be given as JSON text: TOML has no null."""
    schema = table.get("schema")
    return {**table, "schema": written.from_json(schema)} if isinstance(schema, str) else table


def refuse_unknown(table: dict[str, Json], known: Iterable[str], where: str) -> None:
    """Raises BadEdit for a key that a table of a file may not have."""
    for key in table:
        if key not in known:
            raise BadEdit(f"{where}: no key {key!r}", meant(key, known))


# --- writing


def to_toml(edit: Edit) -> str:
    """The edit as a file that `from_toml` reads back to an equal one.

    Whatever a terminal would obey stands escaped in it.
    """
    thread = {} if edit.thread is None else {"thread": edit.thread}
    parts = [_dumped({"name": edit.name, **thread})]
    for change in edit.changes:
        table: dict[str, Json] = msgspec.to_builtins(change)
        schema = table.get("schema")
        if schema is not None and not _has_null(schema):
            del table["schema"]
            parts.append(f"[[change]]\n{_dumped(table)}")
            parts.append(_dumped({"change": {"schema": schema}}))
            continue
        as_text = {} if schema is None else {"schema": digests.encode(schema).decode()}
        parts.append(f"[[change]]\n{_dumped({**table, **as_text})}")
    return "\n".join(parts)


def _dumped(table: dict[str, Json]) -> str:
    carriage = b"\\r\\n" in digests.encode(
        table
    )  # which the writer would not keep in several lines
    text = tomli_w.dumps(table, multiline_strings=not carriage, indent=2)
    return "".join(char if char in "\n\t" or char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    """Only within a text does anything stand that needs it."""
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _has_null(value: Json) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None
