"""Files into the database and what the rules say of them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from arc_tui.import_runner import EarlyDiagnoses, TaskRunner, describe_loss, fork_workers
from arc_tui.import_tasks import (
    LEAST_SPANS,
    DiagnoseRun,
    FileRead,
    ReadFile,
    boundary,
    diagnosis_of,
    free_memory,
)
from arc_tui.places import fixtures
from arc_tui.ui.format import count
from arc_tui.workers import Forked, Lost
from replay import files, formats
from replay.errors import ArcError, BadTrace
from replay.formats.source import Problem, Source, Tally
from replay.store.backup import copy, dated, tell_copied
from replay.store.connection import connect
from replay.store.content import Masks
from replay.store.handle import Store, now_ns
from replay.store.prepare import Prepared, Preparer, Refused
from replay.store.rows import source_ids, span_counts, trace_rows
from replay.store.trouble import StoreTooOld
from replay.store.write import SPANS_TOGETHER, Finished, Writer
from replay.trace import Batch
from taxonomy.audit.probes import audit_one
from taxonomy.findings import Audited
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import open_ledger

RUNS_TOGETHER = 64
"""So many diagnoses are kept in one transaction."""

DIAGNOSIS = "diagnosis"
"""Stands for the path of a file once all are read and the rules look at what came."""


class FileReport(Struct, frozen=True, kw_only=True):
    """What one file gave. `error` is the sentence of a file that could not be read; `bug` says that
    it was arc that failed."""

    path: str
    format: str | None = None
    traces: tuple[Finished, ...] = ()
    counts: dict[str, float] = {}
    unknown: dict[str, int] = {}
    problems: tuple[Problem, ...] = ()
    error: str | None = None
    bug: bool = False

    @property
    def exit_code(self) -> int:
        """3 where arc itself failed on it, 2 where it could not be read, else 0."""
        return 3 if self.bug else 2 if self.error is not None else 0

    @property
    def spans(self) -> int:
        return sum(trace.spans for trace in self.traces)

    @property
    def steps(self) -> int:
        return sum(trace.steps for trace in self.traces)

    @property
    def duplicates(self) -> int:
        return sum(trace.verdict in ("duplicate", "lesser") for trace in self.traces)

    @property
    def others(self) -> tuple[str, ...]:
        """A sentence for each recording of a run of which a fuller one is there."""
        less = [(each.id, each.fuller) for each in self.traces if each.fuller is not None]
        less += [(other, each.id) for each in self.traces for other in each.outdone]
        return tuple(
            f"{each[:8]} is another recording of run {fuller[:8]}, which holds more:"
            " lists show that one"
            for each, fuller in less
        ) + tuple(
            f"{each.id[:8]} was imported before with more in it: kept that"
            for each in self.traces
            if each.verdict == "lesser"
        )


class ImportReport(Struct, frozen=True, kw_only=True):
    """What an import gave: a report a file that was read, files nobody claimed, and a sentence for
    each run that the rules failed on."""

    files: tuple[FileReport, ...] = ()
    skipped: tuple[str, ...] = ()
    undiagnosed: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(file.error for file in self.files if file.error) + self.undiagnosed

    @property
    def exit_code(self) -> int:
        """The worst of the files; 3 where the rules failed on a run."""
        return 3 if self.undiagnosed else max((file.exit_code for file in self.files), default=0)


class Progress(Struct, frozen=True, kw_only=True):
    """Where an import stands: `done` of `total` files, the current one, traces so far."""

    done: int
    total: int
    path: str
    traces: int

    @property
    def diagnoses(self) -> bool:
        """Are these runs that the rules look at, and no files?"""
        return self.path == DIAGNOSIS


def import_paths(
    store: Store,
    paths: Iterable[Path],
    *,
    format: str | None = None,
    task_from: str | None = None,
    pins: Mapping[str, str] | None = None,
    replace: bool = False,
    jobs: int | None = None,
    forked: Forked | None = None,
) -> Generator[Progress | ImportReport, None, None]:
    """Import files and folders (`-` is standard input), then diagnose what is new, with so many
    processes beside this one, which writes (None: as many as there are cores, none where there is
    little to do; 1: none), first those that are `forked`. What comes of it is the same.

    Yields progress; the last value is the report.
    """
    early = EarlyDiagnoses(store)
    with closing(TaskRunner(store, jobs, forked)) as runner:
        report = yield from take_in(
            store,
            paths,
            format=format,
            task_from=task_from,
            pins=pins,
            replace=replace,
            runner=runner,
            early=early,
        )
        runner.settle()
        if any(each.spans >= LEAST_SPANS for file in report.files for each in file.traces):
            free_memory(store)
        undiagnosed = yield from diagnose_new(store, runner, early)
    yield structs.replace(report, undiagnosed=undiagnosed)


def take_in(
    store: Store,
    paths: Iterable[Path],
    *,
    format: str | None = None,
    task_from: str | None = None,
    pins: Mapping[str, str] | None = None,
    replace: bool = False,
    live_until_ns: int | None = None,
    all_named: bool = True,
    runner: TaskRunner | None = None,
    early: EarlyDiagnoses | None = None,
) -> Generator[Progress, None, ImportReport]:
    """Import files and folders, undiagnosed; yields progress and returns the report. What is
    diagnosed `early`, while other processes read, is not kept yet.

    With `live_until_ns` their traces are still going on, and live until then.

    A file that was named (unless these are not `all_named`, but found), or that a format claims,
    and cannot be read is an error in the report, and the others are imported all the same: also
    where what goes wrong with it is a bug.
    """
    if format:
        formats.named(format)  # no file need be opened to say that there is none
    named, found = sources_of(paths)
    tasks = [
        ReadFile(
            source=source,
            named=asked,
            size=files.size(source.path),
            format=format,
            task_from=task_from,
            pins=pins,
        )
        for source, asked in [(s, all_named) for s in named] + [(s, False) for s in found]
    ]
    reports: list[FileReport] = []
    skipped: list[str] = []
    traces = 0
    writer = Writer(store, replace=replace, live_until_ns=live_until_ns)
    reading = (runner or TaskRunner(store, 1)).read(tasks, *([early.work] if early else []))
    for done, task in enumerate(tasks):
        path = task.source.display
        now = Progress(done=done, total=len(tasks), path=path, traces=traces)
        yield now  # before a large file is searched for what it can be cut into
        _, given = next(reading)
        report = yield from _import_file(writer, path, given, now, early, runner)
        if report is None:
            skipped.append(path)
            continue
        if report.bug:  # what it remembers to have written may have been taken back
            writer = Writer(store, replace=replace, live_until_ns=live_until_ns)
        traces += len(report.traces)
        reports.append(_mask(store, report))
    for _ in reading:  # what the last one gave is taken to its end
        pass
    return ImportReport(files=tuple(reports), skipped=tuple(skipped))


def _import_file(
    writer: Writer,
    path: str,
    given: Iterator[object],
    now: Progress,
    early: EarlyDiagnoses | None = None,
    runner: TaskRunner | None = None,
) -> Generator[Progress, None, FileReport | None]:
    """Write what one file gives, yielding progress after each trace; closed early, it drops the
    unfinished one. None where nobody asked for the file or claims it."""
    finished: list[Finished] = []
    bugs: list[str] = []
    error: str | None = None
    end: FileRead | None = None
    with boundary(f"{path}: cannot be read", bugs):
        try:
            for group in _groups(path, given):
                if isinstance(group, FileRead):
                    end = group
                    continue
                for each in writer.keep(group):
                    if isinstance(each, BadTrace):  # this trace; others of the file may be fine
                        error = str(each)
                        continue
                    finished.append(each)
                    if early is not None:
                        early.note(each)
                    yield structs.replace(now, traces=now.traces + len(finished))
                if early is not None and runner is not None:
                    early.hand_out(runner)
        finally:
            _drop_unfinished(writer)
    if end is None and not bugs:
        return None
    end = end or FileRead()
    return FileReport(
        path=path,
        format=end.format,
        traces=tuple(finished),
        counts=end.counts,
        unknown=end.unknown,
        problems=end.problems,
        error=next(iter(bugs), end.error or error),
        bug=bool(bugs) or end.bug,
    )


def take_batches(
    store: Store,
    batches: Iterable[Batch],
    tally: Tally,
    now: Progress,
    *,
    format: str,
    replace: bool = False,
) -> Generator[Progress, None, FileReport]:
    """Import traces that were read elsewhere than from a file, undiagnosed; yields progress after
    each and returns what came of `now.path`. `replace` as of `Writer`."""

    def pieces() -> Iterator[object]:
        yield from Preparer(Masks(store.redactor)).prepare(batches)
        yield FileRead(
            format=format,
            counts=dict(tally.counts),
            unknown=dict(tally.unknown),
            problems=tuple(tally.problems),
        )

    report = yield from _import_file(Writer(store, replace=replace), now.path, pieces(), now)
    assert report is not None
    return _mask(store, report)


def _groups(path: str, given: Iterator[object]) -> Iterator[list[Prepared | Refused] | FileRead]:
    """What a file gives in groups that are worth a transaction, put together while nothing is
    locked. Where its reading ended with a bug, the last group is left out."""
    group: list[Prepared | Refused] = []
    spans = 0
    for each in given:
        if isinstance(each, (FileRead, Lost)):
            end = each if isinstance(each, FileRead) else FileRead(error=describe_loss(path, each))
            if group and not end.bug:
                yield group
            yield end
            return
        assert isinstance(each, (Prepared, Refused))
        group.append(each)
        spans += each.spans if isinstance(each, Prepared) else 0
        if spans >= SPANS_TOGETHER:
            yield group
            group, spans = [], 0


def fork_for(paths: Iterable[Path], jobs: int | None) -> Forked:
    """Processes for an import of these that is to come, forked before its database is opened."""
    found = (file for path in paths for file in (_files(path) if path.is_dir() else (path,)))
    return fork_workers((Source(each) for each in found if not files.is_special(each)), jobs)


T = TypeVar("T")


def run_to_end(work: Generator[Progress, None, T]) -> T:
    """What the work comes to, for who shows no progress."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            found: T = ended.value
            return found


def _mask(store: Store, report: FileReport) -> FileReport:
    """What is said of a file quotes what stands in it: no secret of it either."""
    mask = store.redactor.text
    return structs.replace(
        report,
        error=mask(report.error) if report.error is not None else None,
        problems=tuple(
            Problem(where=mask(each.where), why=mask(each.why)) for each in report.problems
        ),
        unknown={mask(name): many for name, many in report.unknown.items()},
    )


def _drop_unfinished(writer: Writer) -> None:
    for key in writer.unfinished:
        writer.drop(key)


def sources_of(paths: Iterable[Path]) -> tuple[list[Source], list[Source]]:
    """Sources that were named and sources found in named folders; parts of others left out."""
    named: list[Source] = []
    found: list[Source] = []
    for path in paths:
        if str(path) == "-":
            named.append(Source.stdin())
        elif path.is_dir():
            found.extend(map(Source, _files(path)))
        else:
            named.append(Source(path))
    return formats.with_parts(named), found


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            if not name.startswith(".") and formats.part_of(path) is None:
                yield path


def diagnose_new(
    store: Store, runner: TaskRunner | None = None, early: EarlyDiagnoses | None = None
) -> Generator[Progress, None, tuple[str, ...]]:
    """As `diagnose_each`, of every trace the rules have not seen as it is, or whose scores ran
    out; of none where nothing can be kept."""
    waiting = () if store.read_only else diagnoses.undiagnosed(store)
    return diagnose_each(store, waiting, runner, early)


def diagnose_each(
    store: Store,
    waiting: Sequence[str],
    runner: TaskRunner | None = None,
    early: EarlyDiagnoses | None = None,
) -> Generator[Progress, None, tuple[str, ...]]:
    """Let the rules look at these traces, where they have not done so `early`.

    Yields progress; returns a sentence for each trace that they failed on, which stays undiagnosed.
    """
    bugs: list[str] = []
    made: list[diagnoses.Kept] = []
    early = early or EarlyDiagnoses(store)
    left = [key for key in waiting if key not in early]
    spans = span_counts(store, left)
    tasks = [DiagnoseRun(key=key, size=spans.get(key, 0)) for key in left]
    with closing(TaskRunner(store)) as own:
        said = (runner or own).diagnose(tasks)
        for done, key in enumerate(waiting):
            yield Progress(done=done, total=len(waiting), path=DIAGNOSIS, traces=done)
            for each in early.pop(key) if key in early else next(said)[1]:
                if isinstance(each, diagnoses.Kept):
                    made.append(each)
                else:
                    assert isinstance(each, (str, Lost))
                    what = f"run {key[:8]}"
                    bugs.append(each if isinstance(each, str) else describe_loss(what, each))
            if len(made) >= RUNS_TOGETHER:
                diagnoses.keep_all(store, made)
                made.clear()
        diagnoses.keep_all(store, made)
    return tuple(bugs)


def audit_each(
    store: Store, waiting: Sequence[str], found: dict[str, tuple[Audited, ...]]
) -> Generator[Progress, None, tuple[str, ...]]:
    """Audit these runs into `found`, as `diagnose_each` lets the rules look at them."""
    bugs: list[str] = []
    at_ns = now_ns()
    for done, key in enumerate(waiting):
        yield Progress(done=done, total=len(waiting), path="audit", traces=done)
        with boundary(f"run {key[:8]}: cannot be audited", bugs):
            found[key] = audit_one(store, key, at_ns)
    return tuple(bugs)


def diagnose_one(store: Store, key: str) -> None:
    """Diagnose one trace and keep what is said."""
    diagnoses.keep_all(store, [diagnosis_of(store, key, store.redactor)])


def make_demo(path: Path, *, reset: bool = False) -> None:
    """Fill the demo database where it has no runs, as of `begin_demo`."""
    missing = begin_demo(path, reset=reset)
    if missing:
        with open_ledger(path) as store:
            for _ in import_paths(store, missing):
                pass


def begin_demo(path: Path, *, reset: bool = False) -> tuple[Path, ...]:
    """What is still to be imported into the demo database; nothing where it has runs.

    `reset` begins again, and so does a database of an arc before 0.1, of which a copy is kept.
    Raises ArcError where this would delete runs that are not the demo's.
    """
    reset = _keep_before(path) or reset
    if reset and path.exists():
        _refuse_to_delete_others(path)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    with open_ledger(path) as store:
        return () if trace_rows(store, every=True) else (fixtures() / "traces",)


def _keep_before(path: Path) -> bool:
    """Copy a database that cannot be brought up to date; is it one?"""
    if not path.exists():
        return False
    try:
        open_ledger(path).close()
    except StoreTooOld as old:
        if not old.last:
            raise
        _refuse_to_delete_others(path)
        with closing(connect(path)) as db:
            tell_copied(copy(db, path, dated(path)).path)
        return True
    return False


def _refuse_to_delete_others(path: Path) -> None:
    own = {file.stem for file in (fixtures() / "traces").iterdir()}
    with open_ledger(path, before=True) as store:
        others = [name for name in source_ids(store) if name not in own]
    if others:
        is_ = "is" if len(others) == 1 else "are"
        raise ArcError(
            f"{path} was not reset: it contains {count(len(others), 'run')} that {is_}"
            " not the demo's",
            "Try: arc demo --db OTHER.db",
        )
