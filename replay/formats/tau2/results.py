"""Where are the simulations of a tau2 source, and what holds for all of them?

Results are one document, or a folder: `results.json` with a file a simulation in `simulations`
beside it; a simulation may also stand alone. A document is read once as bytes and its simulations
decoded one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from replay.errors import BadTrace
from replay.formats.fields import listed, obj, word
from replay.formats.intake import Source, Tally, decode
from replay.trace import Json

FOLDER = "simulations"
_MAIN = "results.json"


class _Document(Struct):
    """Results as they are written, each part still JSON."""

    info: Raw = Raw(b"null")
    tasks: Raw = Raw(b"null")
    simulations: list[Raw] | None = None
    simulation_index: Raw = Raw(b"null")
    termination_reason: Raw = Raw(b"null")


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """What a source says of all its simulations; empty beside one that stands alone."""

    info: dict[str, Any] = {}
    tasks: dict[str, dict[str, Any]] = {}


class Simulation(Struct, frozen=True, kw_only=True, eq=False):
    """One run of a task. `where` names it in problems."""

    raw: dict[str, Any]
    where: str


def simulations(source: Source, tally: Tally) -> tuple[Setting, Iterator[Simulation]]:
    """The setting and the simulations. Raises BadTrace where the source holds no results."""
    data = source.read()
    try:
        document = msgspec.json.decode(data, type=_Document)
        parts = document.simulations
        info, tasks = bytes(document.info), bytes(document.tasks)
        alone = bytes(document.termination_reason) != b"null"
        setting = _setting(decode(info, source.display, ""), decode(tasks, source.display, ""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _plain(decode(data, source.display, ""), source, tally)
    if parts is not None and (parts or not _folder(source)):
        return setting, _decoded(parts, source, tally)
    if alone:
        return _plain(decode(data, source.display, ""), source, tally)
    return setting, _beside(source, tally)


def _plain(raw: Json, source: Source, tally: Tally) -> tuple[Setting, Iterator[Simulation]]:
    """Of a document that holds what strict JSON does not, or one simulation alone."""
    whole = obj(raw)
    if isinstance(whole.get("simulations"), list):
        setting = _setting(whole.get("info"), whole.get("tasks"))
        return setting, _objects(enumerate(whole["simulations"]), tally)
    if "task_id" in whole and ("messages" in whole or "termination_reason" in whole):
        return Setting(), iter((Simulation(raw=whole, where="simulation"),))
    raise BadTrace(source.display, "", "holds no list of `simulations` and is none itself")


def _setting(info: Json, tasks: Json) -> Setting:
    named = ((word(obj(task).get("id")), obj(task)) for task in listed(tasks))
    return Setting(info=obj(info), tasks={name: task for name, task in named if name is not None})


def _decoded(parts: list[Raw], source: Source, tally: Tally) -> Iterator[Simulation]:
    for index, part in enumerate(parts):
        where = f"simulation {index}"
        try:
            raw = decode(bytes(part), source.display, where)
        except BadTrace as error:
            tally.problem(where, error.why)
            continue
        yield from _objects([(index, raw)], tally)


def _objects(entries: Any, tally: Tally) -> Iterator[Simulation]:
    for index, raw in entries:
        if isinstance(raw, dict):
            yield Simulation(raw=raw, where=f"simulation {index}")
        else:
            tally.problem(f"simulation {index}", "is not an object")


# --- results kept in a folder


def part_of(path: Path) -> Path | None:
    """The results that a simulation's file belongs to."""
    main = path.parent.parent / _MAIN
    return main if path.parent.name == FOLDER and main.is_file() else None


def _folder(source: Source) -> Path | None:
    if source.display == "-":
        return None
    folder = source.path.parent / FOLDER
    return folder if folder.is_dir() else None


def _beside(source: Source, tally: Tally) -> Iterator[Simulation]:
    """The simulations of the folder. Raises BadTrace where there is none."""
    folder = _folder(source)
    if folder is None:
        raise BadTrace(source.display, "", f"holds no simulations, and no folder `{FOLDER}`")
    for path in sorted(folder.glob("*.json")):
        try:
            raw = Source(path).document()
        except BadTrace as error:
            tally.problem(path.name, error.why)
            continue
        if isinstance(raw, dict):
            yield Simulation(raw=raw, where=path.name)
        else:
            tally.problem(path.name, "is not an object")
