"""A golden set held against the runs of a database: how it stands, what it still measures."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay import messages, written
from replay.statistics import Rate, rate
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.classes import FailureClass
from taxonomy.golden import grader
from taxonomy.golden.checks import RULES, grade_run
from taxonomy.golden.sets import (
    FEW,
    MANY,
    GoldenSet,
    GoldenTask,
    JudgeCheck,
    RuleCheck,
    check_kind,
    content_digest,
    golden_of,
    prompt_digest,
    tools_text,
)
from taxonomy.query.failures import count_first_words
from taxonomy.query.listing import prompt_texts

Kind: TypeAlias = Literal[
    "edited", "file missing", "pinned file", "unlisted file", "unknown rule", "size",
    "contaminated", "saturated", "stale prompt", "stale tools", "check disagrees",
    "class without task",
]  # fmt: skip

ADVICE: frozenset[Kind] = frozenset({"size", "class without task", "unlisted file"})
"""What is worth knowing and makes no set unfit."""


class SetFinding(Struct, frozen=True, kw_only=True):
    """Something about a set, or about one `task` of it, and what to do about it."""

    kind: Kind
    text: str
    task: str | None = None
    hint: str = ""

    @property
    def is_advice(self) -> bool:
        return self.kind in ADVICE


class TaskRow(Struct, frozen=True, kw_only=True):
    """A task and its runs in the database; `passed` counts those whose outcome is known, `met` the
    newest that meet its checks, of those that are decided."""

    id: str
    task: str
    failure: FailureClass | None = msgspec.field(name="class")
    checks: tuple[str, ...]
    k: int
    since: int | None
    runs: int
    passed: Rate
    met: Rate
    reason: str
    findings: tuple[str, ...] = ()


class Coverage(Struct, frozen=True, kw_only=True):
    """A class: how many failed runs show it first, how many tasks came from it."""

    failure: FailureClass = msgspec.field(name="class")
    runs: int
    tasks: int


class Measurement(Struct, frozen=True, kw_only=True):
    """Runs of the set that belong together; `rate` is the mean over the tasks they are of."""

    name: str
    tasks: int
    runs: int
    rate: float


class Audit(Struct, frozen=True, kw_only=True):
    """A set held against the runs of a database."""

    folder: str
    golden: str
    rows: tuple[TaskRow, ...]
    findings: tuple[SetFinding, ...]
    coverage: tuple[Coverage, ...]
    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...]

    @property
    def problems(self) -> tuple[SetFinding, ...]:
        return tuple(each for each in self.findings if not each.is_advice)


def audit(store: Store, found: GoldenSet) -> Audit:
    """All that can be told of a set: how it stands, what it measures, what its runs say."""
    names = {task.task for task in found.tasks}
    runs: dict[str, list[TraceRow]] = defaultdict(list)
    wanted = msgspec.json.encode(sorted(names)).decode()
    for row in trace_rows(store, "task IN (SELECT value FROM json_each(?))", (wanted,)):
        if row.task is not None:
            runs[row.task].append(row)
    coverage = _coverage(store, found.tasks)
    measured = _measurements(found.tasks, runs)
    graded = _grades(store, found.tasks, runs)
    notes: list[str] = []
    findings_ = (
        *_of_files(found),
        *_of_size(found.tasks),
        *_find_overlaps(store, found.tasks, notes),
        *_find_saturation(measured),
        *_stale(store, found, runs, notes),
        *_disagreeing(found.tasks, graded),
        *_uncovered_classes(coverage),
    )
    return Audit(
        folder=written.called(str(found.folder)),
        golden=found.golden.stamp,
        rows=tuple(_rows(found, runs, graded, findings_)),
        findings=findings_,
        coverage=coverage,
        measurements=measured,
        notes=tuple(notes),
    )


def _rows(
    found: GoldenSet,
    runs: Mapping[str, Sequence[TraceRow]],
    graded: Mapping[str, Grades],
    said: Sequence[SetFinding],
) -> Iterator[TaskRow]:
    since = {entry.id: entry.since for entry in found.manifest.task}
    for task in found.tasks:
        own = runs.get(task.task, ())
        known = [row for row in own if row.outcome != "unknown"]
        met = [each for _, each in graded[task.id] if each is not None]
        yield TaskRow(
            id=task.id,
            task=task.task,
            failure=task.origin.failure if task.origin else None,
            checks=tuple(map(check_kind, task.check)),
            k=task.k,
            since=since.get(task.id),
            runs=len(own),
            passed=rate(sum(row.outcome == "passed" for row in known), len(known)),
            met=rate(sum(met), len(met)),
            reason=task.reason,
            findings=tuple(each.kind for each in said if each.task == task.id),
        )


def _of_files(found: GoldenSet) -> Iterator[SetFinding]:
    version = found.manifest.version
    for name in found.edited:
        yield SetFinding(
            kind="edited", task=name, text=f"edited by hand since version {version}",
            hint=f'git checkout its file, or arc golden check --accept {name} --because "…"',
        )  # fmt: skip
    for name in found.absent:
        yield SetFinding(
            kind="file missing", task=name, text="its file is gone",
            hint=f'git checkout its file, or arc golden rm {name} --because "…"',
        )  # fmt: skip
    for file in found.spoilt:
        yield SetFinding(
            kind="pinned file", text=f"pinned/{file} is gone or not what its name says",
            hint="git checkout it",
        )  # fmt: skip
    for file in found.unlisted:
        yield SetFinding(
            kind="unlisted file", text=f"{file} is no task of the set",
            hint='arc golden check --accept TASK --because "…", if it came by a merge',
        )  # fmt: skip
    for task in found.tasks:
        for check in task.check:
            if isinstance(check, RuleCheck) and check.absent not in RULES:
                yield SetFinding(
                    kind="unknown rule", task=task.id,
                    text=f"rule '{check.absent}' does not exist: the check decides nothing",
                )  # fmt: skip


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _of_size(tasks: Sequence[GoldenTask]) -> Iterator[SetFinding]:
    if len(tasks) < FEW:
        yield SetFinding(
            kind="size", text=f"{_count(len(tasks), 'task')}, under {FEW}: small drops unseen"
        )
    elif len(tasks) > MANY:
        yield SetFinding(kind="size", text=f"{len(tasks)} tasks, over {MANY}: costly to run often")


# --- contamination


OVERLAP = 13
"""Words of a task in a row that stand in a prompt by no accident."""


def _grams(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return zip(*(words[at:] for at in range(OVERLAP)), strict=False)


def _find_overlaps(
    store: Store, tasks: Sequence[GoldenTask], notes: list[str]
) -> Iterator[SetFinding]:
    """Tasks whose text stands in what agents were told."""
    by_gram: dict[tuple[str, ...], list[GoldenTask]] = defaultdict(list)
    short = 0
    for task in tasks:
        grams = set(_grams(task.text))
        short += not grams
        for gram in grams:
            by_gram[gram].append(task)
    if short:
        notes.append(f"{short} of {len(tasks)} tasks under {OVERLAP} words: overlap not looked for")
    hits: dict[tuple[str, str], tuple[str, ...]] = {}
    for place, of, text in prompt_texts(store) if by_gram else ():
        plain = " ".join(text.split())
        for gram in _grams(text):
            for task in by_gram.get(gram, ()):
                # A conversation that goes on begins with the task itself.
                itself = of == task.task and " ".join(task.text.split()) in plain
                if not itself:
                    hits.setdefault((task.id, place), gram)
    for (name, place), gram in hits.items():
        yield SetFinding(
            kind="contaminated", task=name,
            text=f"{OVERLAP} words of its text are in {place}: \"{' '.join(gram)}\"",
            hint=f'take it out of there, or arc golden rm {name} --because "contaminated"',
        )  # fmt: skip


SATURATED = 0.92
"""Three measurements in a row above it (article 000): the set no longer measures, or was seen."""
IN_A_ROW = 3


def _measurements(
    tasks: Sequence[GoldenTask], runs: Mapping[str, Sequence[TraceRow]]
) -> tuple[Measurement, ...]:
    """Runs of an evaluation, else of one set, variant, model and day, oldest first; those of fewer
    than half of the tasks are none."""
    groups: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    begun: dict[str, int] = {}
    for own in runs.values():
        for row in own:
            if row.outcome == "unknown":
                continue
            at = row.start_ns or row.imported_ns
            name = _measured_in(row, at)
            groups[name][row.task or ""].append(row.outcome == "passed")
            begun[name] = min(begun.get(name, at), at)
    of = {task.task for task in tasks}
    found = [
        Measurement(
            name=name,
            tasks=len(group),
            runs=sum(map(len, group.values())),
            rate=math.fsum(sum(each) / len(each) for each in group.values()) / len(group),
        )
        for name, group in sorted(groups.items(), key=lambda each: begun[each[0]])
        if 2 * len(group) >= len(of)
    ]
    return tuple(found)


def _measured_in(row: TraceRow, at_ns: int) -> str:
    labels = msgspec.json.decode(row.labels)
    if "eval_id" in labels:
        return f"evaluation {labels['eval_id']}"
    golden = golden_of(row)
    day = datetime.fromtimestamp(at_ns / 1e9, tz=UTC).date().isoformat()
    parts = (golden.stamp if golden else None, row.variant, row.models, day)
    return " · ".join(part for part in parts if part)


def _find_saturation(measured: Sequence[Measurement]) -> Iterator[SetFinding]:
    last = measured[-IN_A_ROW:]
    if len(last) == IN_A_ROW and all(each.rate > SATURATED for each in last):
        rates = ", ".join(f"{each.rate:.3f} of {each.tasks} tasks" for each in last)
        yield SetFinding(
            kind="saturated",
            text=f"pass rate above {SATURATED} in {IN_A_ROW} measurements in a row: {rates}",
            hint="add harder tasks; the model may have seen these",
        )


# --- pins, verdicts, classes


def _stale(
    store: Store, found: GoldenSet, runs: Mapping[str, Sequence[TraceRow]], notes: list[str]
) -> Iterator[SetFinding]:
    """Tasks whose newest run had another prompt or other tools than they are pinned to."""
    unseen = [task.id for task in found.tasks if not runs.get(task.task)]
    if unseen:
        notes.append(f"{len(unseen)} of {len(found.tasks)} tasks without a run: pins not compared")
    for task in found.tasks:
        own = runs.get(task.task, ())
        newest = max(own, key=lambda row: (row.start_ns or 0, row.imported_ns), default=None)
        if newest is None:
            continue
        step = read.part(store, newest.trace, (0,)).get(0)
        if step is None:
            continue
        request, run = step.ask.request, newest.trace[:8]
        prompt = request.system and prompt_digest(messages.text(request.system))
        if prompt and task.pin.prompt and prompt != task.pin.prompt:
            yield SetFinding(
                kind="stale prompt", task=task.id,
                text=f"prompt of run {run} is not the pinned one",
                hint="a change to be gated, or a task to be added anew for the new prompt",
            )  # fmt: skip
        if request.tools is None or task.pin.tools is None:
            continue
        text = tools_text(request.tools)
        if content_digest(text, ".tools.json") != task.pin.tools:
            pinned = found.pinned_text(task.pin.tools, ".tools.json")
            yield SetFinding(
                kind="stale tools", task=task.id,
                text=f"tools of run {run} are not the pinned ones{_tools_differ(pinned, text)}",
            )  # fmt: skip


def _tools_differ(pinned: str | None, text: str) -> str:
    """Which tools are added, removed, changed."""
    if pinned is None:
        return ""
    before, after = (
        {each["name"]: each for each in msgspec.json.decode(tools)} for tools in (pinned, text)
    )
    parts = [f"+{name}" for name in after if name not in before]
    parts += [f"-{name}" for name in before if name not in after]
    parts += [f"~{name}" for name in after if name in before and after[name] != before[name]]
    return f": {' '.join(parts)}"


GRADED = 20
"""Newest runs of a task that its checks are held against."""

Grades: TypeAlias = Sequence[tuple[TraceRow, bool | None]]
"""Runs of a task with what its checks say of them."""


def _grades(
    store: Store, tasks: Sequence[GoldenTask], runs: Mapping[str, Sequence[TraceRow]]
) -> dict[str, Grades]:
    """By task, its newest runs graded."""
    found: dict[str, Grades] = {}
    for task in tasks:
        own = sorted(runs.get(task.task, ()), key=lambda row: (row.start_ns or 0, row.imported_ns))
        found[task.id] = [
            (row, grader.overall(grade_run(task, read.load(store, row.trace))))
            for row in own[-GRADED:]
        ]
    return found


def _disagreeing(tasks: Sequence[GoldenTask], graded: Mapping[str, Grades]) -> Iterator[SetFinding]:
    """Checks that say otherwise than the outcomes of runs: one of the two is wrong."""
    for task in tasks:
        known = [each for each in graded[task.id] if each[0].outcome != "unknown"]
        decided = sum(met is not None for _, met in known)
        # A run without one failure may have failed by another.
        whole = not any(isinstance(check, RuleCheck | JudgeCheck) for check in task.check)
        lenient = sum(met is True and row.outcome == "failed" for row, met in known) * whole
        strict = sum(met is False and row.outcome == "passed" for row, met in known)
        for words, ended, count in (
            ("met by", "failed", lenient), ("not met by", "passed", strict),
        ):  # fmt: skip
            if count:
                yield SetFinding(
                    kind="check disagrees", task=task.id,
                    text=f"{words} {_count(count, 'run')} that {ended}, of {decided} graded",
                    hint="read one of them, then mend the check or the outcome",
                )  # fmt: skip


def _coverage(store: Store, tasks: Iterable[GoldenTask]) -> tuple[Coverage, ...]:
    runs: Counter[FailureClass] = Counter()
    for each in count_first_words(store):
        runs[each.failure] += each.runs
    own = Counter(task.origin.failure for task in tasks if task.origin and task.origin.failure)
    return tuple(Coverage(failure=each, runs=runs[each], tasks=own[each]) for each in FailureClass)


def _uncovered_classes(coverage: Iterable[Coverage]) -> Iterator[SetFinding]:
    for each in coverage:
        if each.runs and not each.tasks:
            yield SetFinding(
                kind="class without task",
                text=f"{each.failure.value}, {_count(each.runs, 'failed run')}",
                hint=f"arc failures --runs '{each.failure.value}', then arc golden add RUN",
            )
