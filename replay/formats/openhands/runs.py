"""Where are the runs of an OpenHands source, and which events has each?

An evaluation writes a run a line, its events under `history`. A trajectory saved alone is a list
of events, or an event a line. A conversation kept by the runtime or the SDK is a folder with a
file an event; the first of them stands for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.fields import listed, obj
from replay.formats.intake import Head, Source, Tally, decode
from replay.formats.openhands import runtime, sdk
from replay.formats.openhands.happened import Happened
from replay.trace import Json

_FILE = re.compile(r"event-(\d+)(?:-.*)?\.json|(\d+)\.json")
_MAX_FOLDER = 200_000


class Event(Struct, frozen=True, kw_only=True, eq=False):
    """One event at its place among those of its run."""

    index: int
    raw: dict[str, Any]

    @property
    def happened(self) -> Happened:
        if sdk.is_event(self.raw):
            return sdk.happened(self.raw, self.index)
        return runtime.happened(self.raw, self.index)


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """One run: what the source says of it, and its events. `line` is None for a whole file."""

    about: dict[str, Any]
    events: list[Event]
    line: int | None = None


def is_event(raw: Json) -> bool:
    return isinstance(raw, dict) and (sdk.is_event(raw) or runtime.is_event(raw))


def runs(source: Source, tally: Tally) -> Iterator[Run]:
    """The runs of a source. Raises BadTrace where it holds none."""
    if not source.head.starts(b"{"):
        yield from _listed(source, tally)
        return
    loose: list[Json] = []
    found = False
    for line, raw in _objects(source, tally):
        if isinstance(raw.get("history"), list):
            found = True
            yield Run(about=raw, events=_events(raw["history"], tally), line=line)
        elif is_event(raw):
            loose.append(raw)
        else:
            tally.problem(f"line {line}", "is no run: it holds no `history`")
    if len(loose) == 1 and _number(source.path) is not None:
        loose = [*_folder(source, loose[0], tally)]
    if loose:
        yield Run(about=_state(source.path), events=_events(loose, tally))
    elif not found:
        raise BadTrace(source.display, "", "holds no run with a `history` of events")


def _listed(source: Source, tally: Tally) -> Iterator[Run]:
    document = source.document()
    entries = listed(document)
    if any(is_event(entry) for entry in entries):
        yield Run(about={}, events=_events(entries, tally))
        return
    told = [obj(entry) for entry in entries if isinstance(obj(entry).get("history"), list)]
    if not told:
        raise BadTrace(source.display, "", "holds no events and no run with a `history` of them")
    for about in told:
        yield Run(about=about, events=_events(about["history"], tally))


def _objects(source: Source, tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, one a line, or one over many lines."""
    if _is_one_object(source.head):
        yield 1, obj(source.document())
    else:
        yield from source.records(tally)


def _is_one_object(head: Head) -> bool:
    """Does the first line of the file end in the midst of an object?"""
    first, newline, _ = head.data.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if not newline:
        return False
    try:
        decode(first, head.name, "line 1")
    except BadTrace:
        return True
    return False


def _events(entries: list[Json], tally: Tally) -> list[Event]:
    """The events in their order. The oldest histories hold pairs of action and observation."""
    flat: list[Json] = []
    for entry in entries:
        flat.extend(entry if isinstance(entry, list) else [entry])
    found: list[Event] = []
    for index, raw in enumerate(flat):
        if is_event(raw):
            found.append(Event(index=index, raw=raw))
        else:
            tally.problem(f"event {index}", "is neither an action nor an observation")
    return found


# --- a folder of events


def part_of(path: Path) -> Path | None:
    """The first file of the folder of events that this file belongs to."""
    if path.parent.name != "events" or _number(path) is None:
        return None
    found = _files(path.parent)
    return found[0] if found and found[0] != path else None


def _number(path: Path) -> int | None:
    match = _FILE.fullmatch(path.name)
    return int((match[1] or match[2])[:18]) if match is not None else None


def _files(folder: Path) -> tuple[Path, ...]:
    try:
        return _sorted(folder, folder.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=2)
def _sorted(folder: Path, _changed_ns: int) -> tuple[Path, ...]:
    numbered = [
        (number, path) for path in folder.iterdir() if (number := _number(path)) is not None
    ]
    return tuple(path for _, path in sorted(numbered)[:_MAX_FOLDER])


def _folder(source: Source, first: Json, tally: Tally) -> Iterator[Json]:
    """The events of the files beside the first one, where it stands in such a folder."""
    yield first
    if source.display == "-" or source.path.parent.name != "events":
        return
    for path in _files(source.path.parent):
        if path.name == source.path.name:
            continue
        try:
            yield Source(path).document()
        except BadTrace as error:
            tally.problem(path.name, error.why)


def _state(path: Path) -> dict[str, Any]:
    """What the SDK keeps of a conversation beside its events."""
    place = path.parent.parent / "base_state.json"
    if path.parent.name != "events" or not place.is_file():
        return {}
    try:
        state = obj(Source(place).document())
    except BadTrace:
        return {}
    return {"base_state": state}
