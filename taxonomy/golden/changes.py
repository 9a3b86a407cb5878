"""What changes a golden set: tasks added, removed, or accepted as they were edited by hand.

All files are written whole; the manifest comes last, so that until then nothing has changed.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec
import tomli_w
from msgspec import Struct, structs

from replay import digests, files
from replay.errors import NotFound
from replay.trace import Json
from taxonomy.golden.sets import (
    FILE,
    MANIFEST,
    PINNED,
    BadGolden,
    Change,
    Entry,
    GoldenSet,
    GoldenTask,
    Manifest,
    Pins,
    content_digest,
    pin_name,
    pins_of,
    read_set,
    read_task,
    set_digest,
    short,
    task_problems,
)


class Pinned(Struct, frozen=True, kw_only=True):
    """What a task pins: the content of its prompt, tools and results; None: not recorded."""

    prompt: str | None = None
    tools: str | None = None
    results: str | None = None

    @property
    def pins(self) -> Pins:
        return Pins(
            **{
                name: None if text is None else content_digest(text, suffix)
                for (name, text), suffix in zip(
                    structs.asdict(self).items(), (".txt", ".tools.json", ".results.json"),
                    strict=True,
                )
            }
        )  # fmt: skip


def add_tasks(found: GoldenSet, given: Iterable[tuple[GoldenTask, Pinned]], on: date) -> GoldenSet:
    """The set with more tasks, written. Raises BadGolden where one is there already or a file
    cannot be written; then the manifest is as it was."""
    _refuse_edited(found)
    entries = list(found.manifest.task)
    version = found.manifest.version + 1
    texts: dict[str, str] = {}
    for task, pinned in given:
        wrong = next(task_problems(task), None)
        if wrong is not None:
            raise BadGolden(f"task '{task.id}': {wrong}")
        same = next((entry for entry in entries if entry.id == task.id), None)
        if same is not None:
            raise BadGolden(
                f"task '{task.id}' is in the set since version {same.since}", "Try: --id NAME"
            )
        taken = {MANIFEST, *(entry.file.lower() for entry in entries), *found.unlisted}
        file = file_name(task.id, taken)
        for (digest, suffix), text in zip(
            pins_of(task.pin), filter(None, structs.astuple(pinned)), strict=True
        ):
            texts[f"{PINNED}/{pin_name(digest)}{suffix}"] = text
        texts[file] = _toml(task)
        entries.append(Entry(id=task.id, file=file, digest=task.digest, since=version, added=on))
    return _freeze(found, texts, entries, found.manifest.change, on)


def remove_task(found: GoldenSet, id: str, because: str, on: date) -> GoldenSet:
    """The set without a task, written; the reason stays. Raises NotFound, BadGolden."""
    entry = _entry(found, id)
    _refuse_edited(found, but=id)
    change = _change(found, entry, "removed", because, on)
    kept = [each for each in found.manifest.task if each.id != id]
    done = _freeze(found, {}, kept, (*found.manifest.change, change), on)
    (found.folder / entry.file).unlink(missing_ok=True)
    return done


def accept_edit(found: GoldenSet, id: str, because: str, on: date) -> GoldenSet:
    """The set with a task frozen as it was edited by hand; or with one whose file stands there and
    which another branch's manifest lacks, as after a merge. Raises NotFound, BadGolden."""
    if all(entry.id != id for entry in found.manifest.task):
        return _adopt(found, id, on)
    entry = _entry(found, id)
    task = found.task(id)
    if id not in found.edited:
        raise BadGolden(f"task '{id}' is as it was frozen: nothing to accept")
    change = _change(found, entry, "edited", because, on)
    entries = [
        structs.replace(each, digest=task.digest) if each.id == id else each
        for each in found.manifest.task
    ]
    return _freeze(found, {}, entries, (*found.manifest.change, change), on)


def _adopt(found: GoldenSet, id: str, on: date) -> GoldenSet:
    """The set with the task of an unlisted file."""
    for name in found.unlisted:
        if FILE.fullmatch(name) is None:
            continue
        task = read_task(found.folder / name)
        if task.id == id:
            since = found.manifest.version + 1
            entry = Entry(id=id, file=name, digest=task.digest, since=since, added=on)
            entries = [*found.manifest.task, entry]
            return _freeze(found, {}, entries, found.manifest.change, on)
    raise NotFound("golden task", id, [entry.id for entry in found.manifest.task][:5])


def _entry(found: GoldenSet, id: str) -> Entry:
    for entry in found.manifest.task:
        if entry.id == id:
            return entry
    raise NotFound("golden task", id, [entry.id for entry in found.manifest.task][:5])


def _change(
    found: GoldenSet, entry: Entry, how: Literal["removed", "edited"], because: str, on: date
) -> Change:
    if not because.strip():
        raise BadGolden("the reason is empty", 'Try: --because "why"')
    version = found.manifest.version + 1
    return Change(
        id=entry.id, how=how, digest=entry.digest, version=version, date=on, because=because
    )


def _refuse_edited(found: GoldenSet, but: str | None = None) -> None:
    """A set that is not as it was frozen does not grow: the edits would go along unseen."""
    edited = [each for each in (*found.edited, *found.absent) if each != but]
    if edited:
        raise BadGolden(
            f"{found.folder}: task '{edited[0]}' is not as it was frozen",
            "Try: arc golden check",
        )


def _freeze(
    found: GoldenSet,
    texts: Mapping[str, str],
    entries: Iterable[Entry],
    changes: tuple[Change, ...],
    on: date,
) -> GoldenSet:
    """Write the files, then the manifest: until that is there, nothing has changed."""
    entries = tuple(sorted(entries, key=lambda each: each.id))
    manifest = Manifest(
        version=found.manifest.version + 1,
        digest=set_digest(entries),
        frozen=on,
        task=entries,
        change=changes,
    )
    texts = {**texts, MANIFEST: _HEAD + _manifest_toml(manifest)}
    write_files(found.folder, texts)
    return read_set(found.folder)


_HEAD = "# Frozen by arc golden. Tasks are added and removed by it; what is removed stays here.\n"


def _manifest_toml(manifest: Manifest) -> str:
    """Each entry a table of lines, so that a change of one is a change of its lines alone."""
    value = msgspec.to_builtins(manifest, builtin_types=(date,))
    lists = {name: value.pop(name) for name in ("task", "change")}
    parts = [tomli_w.dumps(value)]
    for name, entries in lists.items():
        parts += [f"[[{name}]]\n{tomli_w.dumps(entry)}" for entry in entries]
    return "\n".join(parts)


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files by their names, each whole or not at all. Raises BadGolden."""
    try:
        for name, text in texts.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            files.put(io.BytesIO(text.encode()), file)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadGolden(
            f"{error.filename or folder}: cannot be written: {why}", "Try: another folder"
        ) from error


def _toml(task: GoldenTask) -> str:
    value = msgspec.to_builtins(task)
    for check in value["check"]:
        for action in check.get("actions", ()):
            if _has_null(action.get("arguments")):
                action["arguments"] = json.dumps(action["arguments"], ensure_ascii=False)
    return tomli_w.dumps(value, multiline_strings=True)


def _has_null(value: Json) -> bool:
    if isinstance(value, dict):
        return any(each is None or _has_null(each) for each in value.values())
    if isinstance(value, list):
        return any(each is None or _has_null(each) for each in value)
    return False


def file_name(id: str, taken: Iterable[str] = ()) -> str:
    """The file of a task: its id where that is a plain name that no other file has, whatever the
    case of its letters; else with a part of the id's digest."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", id).strip("-.") or "task"
    name = f"{plain[:60]}.toml"
    if plain == id and len(plain) <= 60 and name.lower() not in {each.lower() for each in taken}:
        return name
    return f"{plain[:60]}-{short(digests.digest('task', id))[:8]}.toml"
