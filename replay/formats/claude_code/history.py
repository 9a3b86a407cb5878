"""Which lines of a session say again what was said before, here or in another session?

A line may stand twice in a file; a compaction writes lines again under new ids. A session that
goes on from another one repeats its lines: under their old ids in the file of the new session
(older versions, which began a new session with every resume), or under new ids that name the old
(`forkedFrom`, a fork). What was said in another session is context here, and its calls are that
session's: they are neither told nor counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.claude_code.line import Line, first_text
from replay.formats.claude_code.lines import decoded, is_line, lines
from replay.formats.fields import listed, obj
from replay.formats.intake import Source, Tally
from replay.trace import Json, Message

_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def without_repeats(found: Iterable[Line]) -> list[Line]:
    """The lines without those that say again what a line before said.

    The uuid alone does not tell: an answer that came in one piece is written as several lines of
    one uuid. Under a new uuid, a repeated line has the parent and the time of the first; what
    follows it follows the first.
    """
    kept: list[Line] = []
    same_id: dict[str, list[Line]] = {}
    same_place: dict[tuple[str, int], list[Line]] = {}
    first_of: dict[str, str] = {}
    for line in found:
        if line.parent in first_of:
            line = structs.replace(line, parent=first_of[line.parent])
        before = same_id.setdefault(line.uuid, []) if line.uuid else []
        if any(_same(line, each) for each in before):
            continue
        if line.uuid and line.parent and line.at_ns is not None and line.speaks:
            there = same_place.setdefault((line.parent, line.at_ns), [])
            first = next((each for each in there if _same(line, each)), None)
            if first is not None and first.uuid:
                first_of[line.uuid] = first.uuid
                continue
            there.append(line)
        before.append(line)
        kept.append(line)
    return kept


def _same(line: Line, other: Line) -> bool:
    return line.kind == other.kind and line.message == other.message


def as_shown(found: list[Line]) -> list[Line]:
    """The lines with results as the model saw them: `content-replacement` lines tell which were
    too long for it, and what it was shown instead."""
    shown: dict[str | None, Json] = {}
    for line in found:
        if line.kind == "content-replacement":
            for each in map(obj, listed(line.record.get("replacements"))):
                call, text = first_text(each, "toolUseId"), each.get("replacement")
                if call is not None and isinstance(text, str):
                    shown[call] = text
    if not shown:
        return found
    return [_replaced(line, shown) for line in found]


def _replaced(line: Line, shown: dict[str | None, Json]) -> Line:
    if line.message is None or not any(result.call_id in shown for result in line.results):
        return line
    content = [
        {**block, "content": shown[block["tool_use_id"]]}
        if isinstance(block, dict) and _call_of(block) in shown
        else block
        for block in listed(line.message.body["content"])
    ]
    body = {**line.message.body, "content": content}
    return structs.replace(line, message=Message(dialect="anthropic", body=body))


def _call_of(block: dict[str, Json]) -> str | None:
    return first_text(block, "tool_use_id") if block.get("type") == "tool_result" else None


# --- other sessions


class Session(Struct, frozen=True, kw_only=True, eq=False):
    """The lines of a session, those it has from others among them marked; `goes_on` names these."""

    lines: list[Line]
    goes_on: tuple[str, ...] = ()


def sessions(found: dict[str, list[Line]], source: Source) -> dict[str, Session]:
    """The sessions of a file, each with what it goes on from.

    A session that has a file of its own beside this one is told there.
    """
    own_name = source.name.removesuffix(".jsonl")
    made: dict[str, Session] = {}
    for name, own in found.items():
        if name == own_name or own_name not in found or _file_of(name, source) is None:
            made[name] = _with_history(name, own, found, source)
    return made


def _with_history(
    name: str, own: list[Line], found: dict[str, list[Line]], source: Source
) -> Session:
    forked = (first_text(obj(line.record.get("forkedFrom")), "sessionId") for line in own)
    goes_on = [*dict.fromkeys(session for session in forked if session)]
    before: list[Line] = []
    for other, its in found.items():
        if other != name:
            above = _above(own, its)
            goes_on += [other] if above else []
            before += above
    if before:
        own = sorted([*before, *own], key=lambda line: line.number)
    if source.display != "-" and name == source.name.removesuffix(".jsonl"):
        for other, uuids in _earlier(own, source):
            goes_on.append(other)
            own = [_copied(line) if line.uuid in uuids else line for line in own]
    if not any(line.kind == "assistant" and line.speaks and not line.copied for line in own):
        return Session(lines=[structs.replace(line, copied=False) for line in found[name]])
    return Session(lines=own, goes_on=tuple(goes_on))


def _copied(line: Line) -> Line:
    return structs.replace(line, copied=True)


def _above(own: list[Line], its: list[Line]) -> list[Line]:
    """The lines of another session that these go on from, up to its beginning; with an answer all
    its lines, and the results of its calls."""
    known = {line.uuid for line in own}
    by_id = {line.uuid: line for line in its if line.uuid and line.uuid not in known}
    wanted: set[str] = set()
    for line in own:
        above = line.parent
        while above in by_id and above not in wanted:
            wanted.add(above)
            above = by_id[above].parent
    if not wanted:
        return []
    answers = {by_id[each].answer for each in wanted} - {None}
    asked = {call for line in its if line.answer in answers for call in line.asked}
    return [
        _copied(line)
        for line in its
        if line.uuid in wanted
        or line.answer in answers
        or any(result.call_id in asked for result in line.results)
    ]


def _file_of(name: str, source: Source) -> Path | None:
    """The file of a session of that name beside the source."""
    if source.display == "-" or Path(name).name != name:
        return None
    found = (source.path.with_name(f"{name}{suffix}") for suffix in _SUFFIXES)
    return next((path for path in found if path != source.path and path.is_file()), None)


def _earlier(own: list[Line], source: Source) -> list[tuple[str, frozenset[str]]]:
    """The sessions beside this one that begin with its first line and ended before it did, with
    the uuids of their lines."""
    first = next((line.uuid for line in own if line.uuid and not line.sidechain), None)
    folder = source.path.parent
    found = _beginnings(folder, folder.stat().st_mtime_ns)[1].get(first or "", ())
    told = []
    for path in found:
        if path != source.path:
            its, last_ns = _uuids(path)
            if last_ns < _last_ns(own):
                told.append((_stem(path), its))
    return told


@lru_cache(maxsize=8)
def _beginnings(folder: Path, changed_ns: int) -> tuple[int, dict[str, list[Path]]]:
    """The session files of a folder by the uuid of their first line, as of its last change."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.jsonl*")):
        if path.name.endswith(_SUFFIXES) and not path.name.startswith("agent-"):
            first = _first_uuid(path)
            if first is not None:
                found.setdefault(first, []).append(path)
    return changed_ns, found


def _first_uuid(path: Path) -> str | None:
    try:
        head = Source(path).head
    except BadTrace:
        return None
    records = filter(is_line, map(decoded, head.lines()))
    return next((first_text(r, "uuid") for r in records if first_text(r, "uuid")), None)


def _uuids(path: Path) -> tuple[frozenset[str], int]:
    """The uuids of a file's lines, and its last time; what cannot be read has none."""
    tally = Tally()
    uuids, last_ns = set(), 0
    try:
        for line in lines(Source(path).records(tally), tally):
            uuids.add(line.uuid or "")
            last_ns = max(last_ns, line.at_ns or 0)
    except BadTrace:
        pass
    return frozenset(uuids - {""}), last_ns


def _last_ns(own: list[Line]) -> int:
    return max((line.at_ns or 0 for line in own), default=0)


def _stem(path: Path) -> str:
    return next(path.name.removesuffix(end) for end in _SUFFIXES if path.name.endswith(end))
