"""Which ATIF documents tell one trace, and where are they?

A trajectory goes on in the file its `continued_trajectory_ref` names. Its sub-agents stand in
the document itself (1.7), in files beside it, or next to it in a bundle `{parent, child…}`.
Files are looked for in the folder of the main one and nowhere else.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.common import listed, obj, word
from replay.formats.source import Source, Tally
from replay.trace import Json

_PART = re.compile(r"(.+)\.(?:cont-\d+|summarization-\d+-\w+)\.json$")
_GOES_ON = re.compile(rb'"continued_trajectory_ref"\s*:\s*"([^"\\/\0]+)"')


class Document(Struct, frozen=True, kw_only=True, eq=False):
    """A trajectory with at least a list of steps. `name` is the source's own or its file's."""

    raw: dict[str, Any]
    name: str

    @property
    def steps(self) -> list[Json]:
        return listed(self.raw.get("steps"))

    @property
    def agent(self) -> dict[str, Any]:
        return obj(self.raw.get("agent"))


class Family:
    """The documents of one trace. Each is handed out once, so no reference leads in a circle.

    Raises BadTrace where the source holds no trajectory.
    """

    def __init__(self, source: Source, tally: Tally) -> None:
        self._tally = tally
        self._folder = None if source.display == "-" else source.path.resolve().parent
        self._files = {source.path.resolve()}
        self._waiting: dict[int, Document] = {}
        self._by_id: dict[str, Document] = {}
        self._by_session: dict[str, Document] = {}
        self.main, *others = _trajectories(source)
        self._adopt(self.main, *others)
        del self._waiting[id(self.main.raw)]

    def next_of(self, document: Document) -> Document | None:
        """The document that continues this one, None where none does or it is not there."""
        name = word(document.raw.get("continued_trajectory_ref"))
        if name is None:
            return None
        return self._taken(self._other_document(name, "continued_trajectory_ref"))

    def sent(self, reference: dict[str, Any], where: str) -> Document | None:
        """The sub-agent that a result refers to; None where it was told before or is not there.

        A session id is looked at last: since 1.7 the agents of a run may share it.
        """
        fields = ("trajectory_id", "trajectory_path", "session_id")
        own, path, session = (word(reference.get(name)) for name in fields)
        if own in self._by_id:
            return self._taken(self._by_id[own])
        if path is not None and (session not in self._by_session or self._inside(path)):
            return self._taken(self._other_document(path, where))
        if session in self._by_session:
            return self._taken(self._by_session[session])
        self._tally.problem(where, f"the sub-agent {own or session} is not recorded here")
        return None

    def rest(self) -> list[Document]:
        """The sub-agents in the document that nothing referred to."""
        found = list(self._waiting.values())
        self._waiting.clear()
        return found

    def _taken(self, document: Document | None) -> Document | None:
        return None if document is None else self._waiting.pop(id(document.raw), None)

    def _other_document(self, name: str, where: str) -> Document | None:
        """A file in the main one's folder or below it; anything else is a problem."""
        path = self._inside(name)
        if path is None:
            self._tally.problem(where, f"{name} is not beside the file")
            return None
        if path in self._files:
            return None
        self._files.add(path)
        try:
            raw = _opened(Source(path))
        except BadTrace as error:
            self._tally.problem(f"{name}: {error.where}", error.why)
            return None
        if not _is_trajectory(raw):
            self._tally.problem(name, "holds no ATIF trajectory")
            return None
        found = _document(raw, path.name)
        self._adopt(found)
        return found

    def _inside(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        try:
            path = (self._folder / name).resolve()
            return path if path.is_relative_to(self._folder) and path.is_file() else None
        except (OSError, ValueError):  # a name no file can have
            return None

    def _adopt(self, *documents: Document) -> None:
        """Know documents and all that are embedded in them."""
        found = list(documents)
        for document in found:
            self._waiting[id(document.raw)] = document
            if own := word(document.raw.get("trajectory_id")):
                self._by_id.setdefault(own, document)
            session = word(document.raw.get("session_id"))
            if session is not None and document is not self.main:
                self._by_session.setdefault(session, document)
            for index, raw in enumerate(listed(document.raw.get("subagent_trajectories"))):
                if isinstance(raw, dict) and isinstance(raw.get("steps"), list):
                    found.append(_document(raw, f"sub-agent {index}"))
                else:
                    self._tally.problem(f"subagent_trajectories {index}", "has no list of steps")


def _trajectories(source: Source) -> list[Document]:
    """The trajectories of a file, the main one first."""
    raw = _opened(source)
    if _is_trajectory(raw):
        return [_document(raw, source.name)]
    bundled = {name: each for name, each in obj(raw).items() if _is_trajectory(each)}
    if not bundled:
        why = "has no list of steps" if obj(raw).get("schema_version") else "is no trajectory"
        raise BadTrace(source.display, "", why)
    first = "parent" if "parent" in bundled else next(iter(bundled))
    return [
        _document(bundled.pop(first), first),
        *(_document(each, name) for name, each in bundled.items()),
    ]


def _opened(source: Source) -> Json:
    return source.document()


def _is_trajectory(raw: Json) -> bool:
    version = str(obj(raw).get("schema_version"))
    return version.startswith("ATIF-v") and isinstance(raw.get("steps"), list)


def _document(raw: dict[str, Any], otherwise: str) -> Document:
    name = word(raw.get("trajectory_id")) or word(raw.get("session_id")) or otherwise
    return Document(raw=raw, name=name)


def main_document(path: Path) -> Path | None:
    """The main file of a continuation or of a summarising sub-agent, if it leads to this one.

    Goes by the names Harbor gives: `X.json`, `X.cont-1.json`, `X.summarization-1-summary.json`.
    """
    found = _PART.match(path.name)
    if found is None:
        return None
    main = path.with_name(f"{found[1]}.json")
    return main if _leads(main, path.name) else None


def _leads(main: Path, name: str) -> bool:
    """Is the file named in the main one, or in one that continues it?"""
    here: Path | None = main
    seen: set[Path] = set()
    while here is not None and here not in seen:
        seen.add(here)
        try:
            data = Source(here).read()
        except BadTrace:
            return False
        if f'"{name}"'.encode() in data:
            return True
        further = _GOES_ON.search(data)
        here = main.parent / further[1].decode("utf-8", "replace") if further else None
    return False
