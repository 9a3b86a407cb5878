"""The golden set: a frozen, versioned collection of tasks with checks, in the user's repository.

A folder holds `manifest.toml`, a TOML file a task, and in `pinned/` the prompts, tools and recorded
results that tasks name by their digests. The manifest freezes it: the version counts every change,
the digest is over all tasks, and what was removed or edited stays there with its reason. A task
whose content is not what the manifest says was edited by hand. Layout and comments do not count.

A run is stamped with the set that it was measured on: its label `arc.golden` is
`"<version> <digest>"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay import digests, written
from replay.errors import ArcError, NotFound
from replay.patterns import Pattern, Unusable
from replay.predicate import BadPredicate, predicate
from replay.store.rows import TraceRow
from replay.trace import GOLDEN, Header, Json, Tool
from taxonomy.classes import FailureClass
from taxonomy.metrics.calls import predecessors
from taxonomy.metrics.gold import Order

FOLDER = "golden"
"""Where a set stands in a repository, unless another folder is named."""

MANIFEST = "manifest.toml"
PINNED = "pinned"
FEW, MANY = 30, 200
"""How many tasks a set should have, at least and at most."""


class BadGolden(ArcError):
    """A golden set that cannot be used; the message names the file and what is wrong in it."""


class GoldenVersion(Struct, frozen=True, kw_only=True):
    """Which set a run was measured on. Two versions of a set measure different things."""

    version: int
    digest: str

    @property
    def stamp(self) -> str:
        return f"{self.version} {self.digest}"


_STAMPED = re.compile(r"([1-9][0-9]{0,8}) ([0-9a-f]{12,64})")


def golden_of(run: TraceRow | Header | Mapping[str, str]) -> GoldenVersion | None:
    """The golden set that a run (or its labels) is stamped with, None where it is with none."""
    found = _STAMPED.fullmatch(stamp_of(run) or "")
    return GoldenVersion(version=int(found[1]), digest=found[2]) if found else None


def stamp_of(run: TraceRow | Header | Mapping[str, str]) -> str | None:
    """The stamp as it stands, whether or not it is one of ours: two that differ are two sets."""
    labels = run if isinstance(run, Mapping) else run.labels
    known = msgspec.json.decode(labels) if isinstance(labels, str) else labels
    stamp = known.get(GOLDEN)
    return None if stamp is None else str(stamp)


# --- what stands in the files


class Action(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call to be made; without `arguments`, with whichever. They may be given as a JSON text,
    since TOML has no null."""

    tool: str
    arguments: dict[str, Json] | str | None = None

    @property
    def value(self) -> dict[str, Json]:
        """The action as the grader reads it. Raises ValueError where its text is no JSON object."""
        if self.arguments is None:
            return {"tool": self.tool}
        given = self.arguments
        if isinstance(given, str):
            given = written.from_json(given)
            if not isinstance(given, dict):
                raise ValueError("is no JSON object")
        return {"tool": self.tool, "arguments": given}


class _Check(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ActionsCheck(_Check, frozen=True, kw_only=True, tag_field="kind", tag="actions"):
    """Each action is made, in the `order` (with `graph`, `after` are pairs of places, earlier and
    later); of the tools `only` no other call is made. Calls that failed count for nothing."""

    actions: tuple[Action, ...]
    order: Order = "any"
    after: tuple[tuple[int, int], ...] = ()
    only: tuple[str, ...] = ()


class PredicateCheck(_Check, frozen=True, kw_only=True, tag_field="kind", tag="predicate"):
    """The calls and the last words of the whole run meet an expectation (as `--expect` reads it)"""

    expect: str


class RuleCheck(_Check, frozen=True, kw_only=True, tag_field="kind", tag="rule"):
    """A rule of `arc` finds nothing in the run. No other tool can run it."""

    absent: str


class JudgeCheck(_Check, frozen=True, kw_only=True, tag_field="kind", tag="judge"):
    """A question about the run that a judge answers by yes."""

    item: str


class AnswerCheck(_Check, frozen=True, kw_only=True, tag_field="kind", tag="answer"):
    """One of `texts` is in the answer, or in anything that the run says. For `contains` and
    `equals` letter case, white space and the commas of numbers do not count."""

    texts: tuple[str, ...]
    how: Literal["contains", "regex", "equals"] = "contains"
    where: Literal["answer", "run"] = "answer"


Check: TypeAlias = ActionsCheck | PredicateCheck | RuleCheck | JudgeCheck | AnswerCheck


class Origin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The run that a task came from, and what was said to be wrong in it, by whom."""

    run: str
    failure: FailureClass | None = msgspec.field(default=None, name="class")
    sub: str | None = None
    step: int | None = None
    by: str | None = None
    why: str | None = None


class Pins(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Digests of the prompt and the tools that a task was measured with, and of what its run's
    calls returned. None: not recorded."""

    prompt: str | None = None
    tools: str | None = None
    results: str | None = None


class GoldenTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One task: `id` in the set, the `task` that its runs are named by, the `text` the user says
    and what they say `then`, a text after each answer.

    `k`: how many times it is to be run. All checks have to be met.
    """

    id: str
    task: str
    text: str
    k: int
    reason: str
    check: tuple[Check, ...]
    then: tuple[str, ...] = ()
    origin: Origin | None = None
    pin: Pins = Pins()

    @property
    def digest(self) -> str:
        """Of the content, however it is laid out."""
        value = msgspec.to_builtins(self)
        for check in value["check"]:
            for action in check.get("actions", ()):
                if isinstance(action.get("arguments"), str):
                    action["arguments"] = json.loads(action["arguments"])
        return short(digests.digest("golden task", digests.canonical(value)))


def short(digest: str) -> str:
    return digest.partition(":")[2][:16]


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task in the manifest; `since` is the version that it came with, `added` the day."""

    id: str
    file: str
    digest: str
    since: int
    added: date


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that was removed or edited: what it was, and why."""

    id: str
    how: Literal["removed", "edited"]
    digest: str
    version: int
    date: date
    because: str


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What freezes a set. `change` only grows."""

    version: int
    digest: str
    frozen: date
    task: tuple[Entry, ...] = ()
    change: tuple[Change, ...] = ()


class GoldenSet(Struct, frozen=True, kw_only=True):
    """A set as it stands in its folder. `edited` are the ids of tasks that are not as they were
    frozen, `absent` those whose file is gone, `unlisted` files of no task of the manifest, `spoilt`
    pinned files that are not what their names say."""

    folder: Path
    manifest: Manifest
    tasks: tuple[GoldenTask, ...] = ()
    edited: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    spoilt: tuple[str, ...] = ()

    @property
    def golden(self) -> GoldenVersion:
        return GoldenVersion(version=self.manifest.version, digest=self.manifest.digest)

    @property
    def intact(self) -> bool:
        """Is everything as it was frozen?"""
        return not (self.edited or self.absent or self.spoilt)

    def task(self, id: str) -> GoldenTask:
        """Raises NotFound."""
        for each in self.tasks:
            if each.id == id:
                return each
        raise NotFound("golden task", id, [each.id for each in self.tasks][:5])

    def pinned_text(self, digest: str | None, suffix: str) -> str | None:
        """The content of a pinned file, None where nothing is pinned or the file is gone."""
        if digest is None:
            return None
        file = self.folder / PINNED / f"{pin_name(digest)}{suffix}"
        return written.from_file(file) if file.is_file() else None


EMPTY = Manifest(version=0, digest="", frozen=date.min)


# --- reading


def read_set(folder: Path) -> GoldenSet:
    """The set in a folder. Raises BadGolden where there is none, or a file of it cannot be read."""
    if not (folder / MANIFEST).exists():
        raise BadGolden(f"{folder}: no golden set there", "Try: arc golden add RUN")
    return _tasks_of(folder, _decode(folder / MANIFEST, Manifest))


def read_or_new(folder: Path) -> GoldenSet:
    """The same, an empty one where there is none. Raises BadGolden where task files stand there
    without their manifest."""
    if (folder / MANIFEST).exists():
        return read_set(folder)
    found = sorted(folder.glob("*.toml")) if folder.is_dir() else []
    if found:
        raise BadGolden(
            f"{folder}: has {found[0].name} and no {MANIFEST}",
            f"Try: git checkout {folder / MANIFEST}, or another --dir",
        )
    return GoldenSet(folder=folder, manifest=EMPTY)


def _tasks_of(folder: Path, manifest: Manifest) -> GoldenSet:
    _check_manifest(folder / MANIFEST, manifest)
    tasks: list[GoldenTask] = []
    edited: list[str] = []
    absent: list[str] = []
    for entry in manifest.task:
        file = folder / entry.file
        if not file.exists():
            absent.append(entry.id)
            continue
        task = read_task(file)
        if task.id != entry.id:
            raise BadGolden(f"{file}: is of task '{task.id}', and {MANIFEST} has '{entry.id}'")
        tasks.append(task)
        if task.digest != entry.digest:
            edited.append(task.id)
    listed = {MANIFEST, *(entry.file for entry in manifest.task)}
    unlisted = [file.name for file in sorted(folder.glob("*.toml")) if file.name not in listed]
    return GoldenSet(
        folder=folder,
        manifest=manifest,
        tasks=tuple(tasks),
        edited=tuple(edited),
        absent=tuple(absent),
        unlisted=tuple(map(written.called, unlisted)),
        spoilt=tuple(_spoilt(folder, tasks)),
    )


def _decode(file: Path, type_: type[Any]) -> Any:
    try:
        text = written.from_file(file)
    except ArcError as error:
        raise BadGolden(error.message, error.hint) from error
    line = next((at for at, each in enumerate(text.splitlines(), 1) if _CONFLICT.match(each)), 0)
    if line:
        raise BadGolden(
            f"{file}: line {line}: has the marks of a merge conflict",
            "Try: take one side, then arc golden check",
        )
    try:
        return msgspec.toml.decode(text, type=type_)
    except RecursionError as error:
        raise BadGolden(f"{file}: invalid TOML: nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadGolden(
            f"{file}: {written.toml_problem(error)}", f"Try: git diff {file}"
        ) from error


_CONFLICT = re.compile(r"<{7} |={7}$|>{7} ")
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.toml")
"""The names that a task's file may have: none is a path."""


def _check_manifest(file: Path, manifest: Manifest) -> None:
    seen: set[str] = set()
    for entry in manifest.task:
        if FILE.fullmatch(entry.file) is None or entry.file == MANIFEST:
            raise BadGolden(f"{file}: '{entry.file}' is no name of a task's file")
        for name in (f"task '{entry.id}'", f"file '{entry.file}'"):
            if name in seen:
                raise BadGolden(f"{file}: {name} is there twice", f"Try: git diff {file}")
            seen.add(name)
    if manifest.version < 1 or manifest.digest != set_digest(manifest.task):
        raise BadGolden(
            f"{file}: its digest is not that of its tasks: it was edited by hand",
            f"Try: git checkout {file}",
        )


def set_digest(entries: Iterable[Entry]) -> str:
    pairs = sorted((entry.id, entry.digest) for entry in entries)
    return short(digests.digest("golden set", digests.canonical(pairs)))


def read_task(file: Path) -> GoldenTask:
    """The task in a file. Raises BadGolden."""
    task: GoldenTask = _decode(file, GoldenTask)
    wrong = next(task_problems(task), None)
    if wrong is not None:
        raise BadGolden(f"{file}: {wrong}", f"Try: git diff {file}")
    return task


def task_problems(task: GoldenTask) -> Iterator[str]:
    """What a task cannot be used with."""
    wrong = written.half(msgspec.to_builtins(task))
    if wrong is not None:
        yield wrong
    if not task.id.strip() or not task.task.strip():
        yield "its id or its task has no name"
    if not task.text.strip():
        yield "its text is empty: what does the user say?"
    if not 1 <= task.k <= 1000:
        yield f"k is {task.k}, not from 1 to 1000"
    if not task.check:
        yield "has no check"
    for at, check in enumerate(task.check, 1):
        for wrong in _check_problems(check):
            yield f"check {at} ({check_kind(check)}): {wrong}"


def check_kind(check: Check) -> str:
    """The word that names it in the file."""
    return str(check.__struct_config__.tag)


def _check_problems(check: Check) -> Iterator[str]:
    match check:
        case ActionsCheck():
            yield from _action_problems(check)
        case PredicateCheck():
            try:
                predicate(check.expect)
            except BadPredicate as error:
                yield error.message
        case RuleCheck() | JudgeCheck():
            words = check.absent if isinstance(check, RuleCheck) else check.item
            if not words.strip():
                yield "names nothing"
        case AnswerCheck():
            if not check.texts or not all(each.strip() for each in check.texts):
                yield "a text is empty" if check.texts else "has no texts"
            for text in check.texts if check.how == "regex" else ():
                try:
                    Pattern(text)
                except Unusable as error:
                    yield f"'{text}' {error}"


def _action_problems(check: ActionsCheck) -> Iterator[str]:
    if not check.actions and not check.only:
        yield "has neither actions nor only, and would always be met"
    for at, action in enumerate(check.actions, 1):
        try:
            if not action.value["tool"].strip():
                yield f"action {at} names no tool"
        except ValueError as error:
            yield f"the arguments of action {at}: {error}"
    size = len(check.actions)
    if (check.order == "graph") != bool(check.after):
        yield "`after` belongs to the order graph"
    elif any(not 0 <= place < size for pair in check.after for place in pair):
        yield f"`after` names an action that is not there: there are {size}, counted from 0"
    elif any(each >> at & 1 for at, each in enumerate(predecessors(size, "graph", check.after))):
        yield "`after` puts an action before itself"


def _spoilt(folder: Path, tasks: Iterable[GoldenTask]) -> Iterator[str]:
    """Pinned files that are gone or not what their digests say."""
    for digest, suffix in dict.fromkeys(pin for task in tasks for pin in pins_of(task.pin)):
        file = folder / PINNED / f"{pin_name(digest)}{suffix}"
        try:
            if content_digest(written.from_file(file), suffix) != digest:
                yield file.name
        except (ArcError, ValueError):
            yield file.name


def pins_of(pin: Pins) -> Iterator[tuple[str, str]]:
    """(digest, ending of the file) of what is pinned."""
    for digest, suffix in ((pin.prompt, ".txt"), (pin.tools, ".tools.json"),
                           (pin.results, ".results.json")):  # fmt: skip
        if digest is not None:
            yield digest, suffix


def pin_name(digest: str) -> str:
    return re.sub(r"[^0-9a-f]", "", digest)[:16] or "none"


def content_digest(text: str, suffix: str) -> str:
    """The digest of a prompt, of tools or of results by their meaning, not their layout."""
    if suffix == ".txt":
        return prompt_digest(text)
    return short(digests.digest(suffix, digests.canonical(written.from_json(text))))


def prompt_digest(text: str) -> str:
    """Of a system prompt's words: the same prompt in another provider's message is the same."""
    return short(digests.digest("prompt", text.replace("\r\n", "\n")))


def tools_text(tools: Iterable[Tool]) -> str:
    """Tools as they are pinned: by name, since their order tells no agent apart."""
    values = [digests.tool_value(tool) for tool in sorted(tools, key=lambda each: each.name)]
    return json.dumps(values, indent=1, ensure_ascii=False)
