"""What is here to be opened: the traces that agents left of their work in a folder.

Looked at are the sessions that Claude Code, Codex, Gemini CLI, Qwen Code, Copilot CLI, Cline CLI
and opencode keep of the folder, and the folder's own files and those of the folders in it. The
newest comes first; what no importer can read is no offer. The agents keep their sessions elsewhere:
Claude Code and Qwen Code in a folder named for the one they worked in, Codex by the day, Gemini CLI
and opencode by project, the others each in one folder. Each of these names may be that of another
folder, so what a session says of where it began decides.

What can be opened here, in words: `arc open --latest --list` and the choices of the runs screen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from heapq import merge
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from msgspec import Struct

from arc_tui.ui import format
from replay import formats
from replay.errors import BadTrace
from replay.formats import cline, opencode
from replay.formats.database import tables
from replay.formats.opencode import opened
from replay.formats.source import Source, Tally, decode

MOST = 12
"""Offers that are shown; older files are hardly what someone came for."""

_LOOKED_AT = 300
"""Files of one place, the newest: a folder may hold any number."""

_READ_BYTES = 32 * 1024 * 1024
"""A larger file is offered for its beginning, without a title."""

_TRACES = re.compile(
    r"\.(eval|jsonl?|ndjson|traj|csv|pb|parquet|db|sqlite3?)(\.gz|\.zst)?$", re.IGNORECASE
)
"""Files worth a look among the many of a project. What they are, their content decides."""

_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")|<cwd>([^<]*)</cwd>')
_DIRECTORY = re.compile(rb'"directory"\s*:\s*("(?:[^"\\]|\\.)*")()')
"""How opencode calls it."""

_PROJECT = re.compile(rb'"projectHash"\s*:\s*"([0-9a-f]{64})"')
"""Gemini CLI writes a digest of the folder."""

_ANY_FOLDER = re.compile(r"[^a-zA-Z0-9]")
_LONGEST_NAME = 200
"""Claude Code cuts a longer name and puts a digest behind it."""


class Offer(Struct, frozen=True, kw_only=True):
    """A file that can be opened: its format, what its first run is about (None where that is not
    known), when it was last written and how large it is."""

    path: str
    format: str
    title: str | None
    changed_ns: int
    bytes: int


class _File(NamedTuple):
    """A file that may hold traces. `of` is the folder whose sessions are wanted;
    where a session `must_name_folder`, one that names none is not of it."""

    changed_ns: int
    path: Path
    bytes: int
    of: Path | None = None
    must_name_folder: bool = False


def look(folder: Path) -> Iterator[Offer]:
    """What can be opened of a folder (absolute), newest first, each when it is asked for."""
    places = (
        _newest(_claude_code(folder), of=folder),
        _newest(_codex(), of=folder, must_name_folder=True),
        _newest(_gemini_cli(), of=folder, must_name_folder=True),
        _newest(_one_folder(), of=folder, must_name_folder=True),
        _newest(_opencode(), of=folder, must_name_folder=True),
        _newest(_own(folder)),
    )
    for file in merge(*places, key=lambda file: -file.changed_ns):
        offer = _offer(file)
        if offer is not None:
            yield offer


def _newest(
    paths: Iterable[Path], *, of: Path | None = None, must_name_folder: bool = False
) -> list[_File]:
    found = []
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            continue
        if S_ISREG(state.st_mode):
            found.append(_File(state.st_mtime_ns, path, state.st_size, of, must_name_folder))
    return sorted(found, reverse=True)[:_LOOKED_AT]


def _offer(file: _File) -> Offer | None:
    """The file, where an importer reads it and it is of the folder that was asked for."""
    source = Source(file.path)
    try:
        claimed = formats.sniff(source)
        if claimed is None or formats.part_of(file.path) is not None:
            return None
        if file.of is not None and not _is_of(
            source, claimed.NAME, file.of, must_name_folder=file.must_name_folder
        ):
            return None
        title = None  # a database of all folders may begin with a session of another one
        if file.bytes <= _READ_BYTES and not (
            file.must_name_folder and tables(source.head) is not None
        ):
            first = next(formats.load(source, Tally(), format=claimed), None)
            if first is None:
                return None
            title = first.header.title
    except BadTrace:
        return None
    return Offer(
        path=str(file.path),
        format=claimed.NAME,
        title=title,
        changed_ns=file.changed_ns,
        bytes=file.bytes,
    )


def _is_of(source: Source, format: str, folder: Path, *, must_name_folder: bool) -> bool:
    """Did this session (of a database: any of them) begin in the folder? Unless it
    `must_name_folder`, silence says yes."""
    head, ways = _about(source, format).head, {folder, folder.resolve()}
    if format == opencode.NAME and tables(head) is not None:
        with opened(source, Tally()) as database:
            return any(Path(str(each.get("directory"))) in ways for each in database.sessions())
    project = _PROJECT.search(head.data)
    if project is not None:
        return project[1].decode() in {sha256(os.fsencode(way)).hexdigest() for way in ways}
    found = (_DIRECTORY if format == opencode.NAME else _CWD).search(head.data)
    if found is None:
        return not must_name_folder
    quoted, plain = found.groups()
    began_in = decode(quoted, head.name, "cwd") if quoted else plain.decode("utf-8", "replace")
    return Path(str(began_in)) in ways


def _about(source: Source, format: str) -> Source:
    """The file that says where a session began: Cline CLI keeps that beside the messages."""
    beside = source.path.with_name(source.name.replace(".messages.json", ".json"))
    return Source(beside) if format == cline.NAME and beside.is_file() else source


def _claude_code(folder: Path) -> Iterator[Path]:
    given = os.environ.get("CLAUDE_CONFIG_DIR")
    projects = (Path(given) if given else Path.home() / ".claude") / "projects"
    for each in {folder, folder.resolve()}:
        name = _ANY_FOLDER.sub("-", str(each))
        if len(name) <= _LONGEST_NAME:
            yield from (projects / name).glob("*.jsonl")
        else:
            yield from projects.glob(f"{name[:_LONGEST_NAME]}-*/*.jsonl")


def _codex() -> Iterator[Path]:
    """Of all folders: only the files themselves say of which they are."""
    given = os.environ.get("CODEX_HOME")
    home = Path(given) if given else Path.home() / ".codex"
    return (home / "sessions").glob("*/*/*/rollout-*.jsonl*")


def _gemini_cli() -> Iterator[Path]:
    """Of all folders: a session says of which it is by a digest."""
    given = os.environ.get("GEMINI_CLI_HOME")
    home = Path(given) if given else Path.home()
    return (home / ".gemini" / "tmp").glob("*/chats/session-*.json*")


def _one_folder() -> Iterator[Path]:
    """Of all folders: the sessions of Qwen Code, Copilot CLI and Cline CLI say where they began."""
    qwen = _home("QWEN_RUNTIME_DIR") or _home("QWEN_HOME") or Path.home() / ".qwen"
    yield from qwen.glob("projects/*/chats/*.jsonl")
    copilot = _home("COPILOT_HOME") or Path.home() / ".copilot"
    yield from copilot.glob("session-state/*/events.jsonl")
    yield from copilot.glob("session-state/*.jsonl")
    kept = _home("CLINE_DATA_DIR") or Path.home() / ".cline" / "data"
    yield from kept.glob("sessions/*/*.messages.json")


def _home(name: str) -> Path | None:
    given = os.environ.get(name)
    return Path(given) if given else None


def _opencode() -> Iterator[Path]:
    """Of all folders: the storage folder of earlier releases, the databases of later ones."""
    given = os.environ.get("XDG_DATA_HOME")
    home = (Path(given) if given else Path.home() / ".local" / "share") / "opencode"
    yield from (home / "storage" / "session").glob("*/ses_*.json")
    yield from home.glob("opencode*.db")


def _own(folder: Path) -> Iterator[Path]:
    """The files of a folder and of the folders in it (`logs/*.eval`), hidden ones left out."""
    for each in sorted(_entries(folder)):
        if each.is_dir():
            yield from (path for path in _entries(each) if _TRACES.search(path.name))
        elif _TRACES.search(each.name):
            yield each


def _entries(folder: Path) -> list[Path]:
    """What stands in a folder and is not hidden; nothing where it cannot be looked into."""
    try:
        return [each for each in folder.iterdir() if not each.name.startswith(".")]
    except OSError:
        return []


TITLE = 60


class OfferWords(Struct, frozen=True, kw_only=True):
    """An offer as text: what it is about, how long ago it was written, how large it is, and its
    file, by its way from the folder where it lies in it."""

    title: str
    age: str
    size: str
    file: str


def offer_words(offer: Offer, folder: Path, now_ns: int) -> OfferWords:
    """The words for an offer of `folder`."""
    path = Path(offer.path)
    file = str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
    return OfferWords(
        title=format.cut(format.one_line(offer.title or path.name), TITLE),
        age=_ago(max(now_ns - offer.changed_ns, 0) // 10**9),
        size=format.file_size(offer.bytes),
        file=format.one_line(file),
    )


def _ago(seconds: int) -> str:
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit:
            return f"{format.count(seconds // unit, name)} ago"
    return "just now"
