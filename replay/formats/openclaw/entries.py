"""Which entries of an OpenClaw session make up one thread, and in what order?

Entries form a tree: each names its parent, and going back to an earlier one begins a new branch.
The way from the last entry to the root is the thread, the rest are abandoned branches. Sessions of
the first version name no parents and are in the order of their lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from replay.formats.fields import obj, word
from replay.formats.intake import Tally
from replay.formats.normal import ns
from replay.trace import Json, Place

MESSAGE, COMPACTION = "message", "compaction"
SUMMARY, CUSTOM = "branch_summary", "custom_message"
_SILENT = {"custom", "label", "model_change", "session", "session_info", "thinking_level_change"}
_KNOWN = {MESSAGE, COMPACTION, SUMMARY, CUSTOM} | _SILENT


class Entry(Struct, frozen=True, kw_only=True, eq=False):
    """One line. `above` is the entry it follows, `at_ns` when it was written."""

    number: int
    kind: str
    record: dict[str, Json]
    id: str | None
    above: Entry | None
    at_ns: int | None

    @property
    def message(self) -> dict[str, Json]:
        return obj(self.record.get("message"))

    @property
    def role(self) -> str:
        return word(self.message.get("role")) or ""

    @property
    def place(self) -> Place:
        return Place(span=self.id, message=self.number - 1, line=self.number)


def is_entry(record: Json) -> bool:
    """Does this JSON value stand in such a session?"""
    if not isinstance(record, dict):
        return False
    if record.get("type") == "session":
        return {"id", "timestamp", "cwd"} <= record.keys()
    placed = {"id", "parentId", "timestamp"} <= record.keys()
    said = record.get("message")
    return placed and record.get("type") == MESSAGE and isinstance(said, dict) and "role" in said


def entries(records: Iterable[tuple[int, dict[str, Any]]], tally: Tally) -> list[Entry]:
    """The entries of a session in the order of their lines; kinds not known are counted."""
    found: list[Entry] = []
    home: dict[str, Entry] = {}
    for number, record in records:
        kind = word(record.get("type")) or ""
        tally.counts["messages" if kind == MESSAGE else "other_entries"] += 1
        if kind not in _KNOWN:
            tally.unknown[kind or "entry without a type"] += 1
        entry = Entry(
            number=number,
            kind=kind,
            record=record,
            id=word(record.get("id")),
            above=_above(record, found, home, tally, number),
            at_ns=ns(record.get("timestamp")),
        )
        found.append(entry)
        if entry.id is not None and kind != "session":
            if entry.id in home:
                tally.problem(f"line {number}", f"a second entry is called {entry.id}")
            home[entry.id] = entry
    return found


def _above(
    record: dict[str, Any],
    found: list[Entry],
    home: dict[str, Entry],
    tally: Tally,
    number: int,
) -> Entry | None:
    """The entry named as parent. Files only grow at their end, so it stands before its child."""
    previous = found[-1] if found else None
    if "parentId" not in record:
        return previous
    named = word(record["parentId"])
    if named is None:
        return None
    if named not in home:
        tally.problem(f"line {number}", f"its parent {named} is not above it in the file")
    return home.get(named, previous)


def strands(found: list[Entry]) -> list[list[Entry]]:
    """The thread, then the abandoned branches; each begins below an entry of an earlier one."""
    main: set[int] = set()
    entry = found[-1] if found else None
    while entry is not None:
        main.add(entry.number)
        entry = entry.above
    strands: list[list[Entry]] = [[each for each in found if each.number in main]]
    tips: dict[int, list[Entry]] = {}
    for entry in found:
        if entry.number in main:
            continue
        strand = tips.pop(entry.above.number, None) if entry.above is not None else None
        if strand is None:
            strand = []
            strands.append(strand)
        strand.append(entry)
        tips[entry.number] = strand
    return strands
