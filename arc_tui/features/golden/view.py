"""What the golden screen shows: the tasks of a set and what was found of it, one row each."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from replay.errors import ArcError
from replay.store.handle import Store
from replay.store.rows import trace_row
from taxonomy.golden.audit import Audit, SetFinding, TaskRow, audit
from taxonomy.golden.checks import Draft, NothingToCheck, draft_task, read_check
from taxonomy.golden.sets import BadGolden, GoldenSet, GoldenTask, read_or_new
from taxonomy.query.failures import tags_of


class GoldenRow(Struct, frozen=True, eq=False, kw_only=True):
    """A task with its runs, or something found of the set as a whole."""

    row: TaskRow | None = None
    task: GoldenTask | None = None
    findings: tuple[SetFinding, ...] = ()

    @property
    def is_problem(self) -> bool:
        return any(not each.is_advice for each in self.findings)


class GoldenView(Struct, frozen=True, eq=False, kw_only=True):
    """A set and its rows; `audit` None: there is no set in the folder yet, or it cannot be read,
    and `trouble` says why."""

    folder: Path
    trouble: str = ""
    audit: Audit | None = None
    rows: tuple[GoldenRow, ...] = ()


def build_golden(store: Store, folder: Path) -> GoldenView:
    """The set in a folder held against the runs."""
    try:
        found = read_or_new(folder)
    except BadGolden as error:
        return GoldenView(folder=folder, trouble=str(error))
    if not found.manifest.version:
        return GoldenView(folder=folder)
    said = audit(store, found)
    return GoldenView(folder=folder, audit=said, rows=(*_tasks(found, said), *_others(said)))


def _tasks(found: GoldenSet, said: Audit) -> tuple[GoldenRow, ...]:
    return tuple(
        GoldenRow(
            row=row,
            task=found.task(row.id),
            findings=tuple(each for each in said.findings if each.task == row.id),
        )
        for row in said.rows
    )


def _others(said: Audit) -> tuple[GoldenRow, ...]:
    """Findings of no task that has a row, the problems first."""
    shown = {row.id for row in said.rows}
    others = [each for each in said.findings if each.task not in shown]
    return tuple(
        GoldenRow(findings=(each,)) for each in sorted(others, key=lambda each: each.is_advice)
    )


class Prefilled(Struct, frozen=True, eq=False, kw_only=True):
    """A task made from a run and not written; or why no check of it can be prefilled."""

    trace: str
    draft: Draft | None
    lacks: str = ""


def prefill(
    store: Store, trace: str, step: int | None, name: str | None = None, check: str | None = None
) -> Prefilled:
    """A task of a run: of the tag at a step, where there is one. Raises ArcError."""
    tagged = any(each.step == step for each in tags_of(store, trace))
    checks = [read_check(check)] if check else []
    try:
        draft = draft_task(
            store, trace_row(store, trace), id=name, checks=checks, step=step if tagged else None
        )
    except NothingToCheck as error:
        return Prefilled(trace=trace, draft=None, lacks=_sentence(error))
    return Prefilled(trace=trace, draft=draft)


def _sentence(error: ArcError) -> str:
    return f"{error.message[:1].upper()}{error.message[1:]}."
