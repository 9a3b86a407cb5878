"""What processes beside the one that writes do: the same as one alone, whoever of them ends."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from typing_extensions import override

from arc_tui import import_runner, importing
from arc_tui.import_runner import EARLY_BYTES, EarlyDiagnoses, TaskRunner
from arc_tui.import_tasks import LEAST_SPANS, DiagnoseRun, ImportSetup, ReadFile
from arc_tui.places import fixtures
from arc_tui.workers import HANDED_AT_ONCE, Forked, Lost, Task, Workers
from replay.errors import ArcError, StoreUnusable
from replay.store.handle import Store
from replay.store.write import Finished
from taxonomy.findings import StepScore
from taxonomy.judgements.diagnoses import Kept, undiagnosed
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import keep_scores
from tests.bench import exports
from tests.database_rows import rows_of
from tests.replay import test_codex as codex
from tests.spoken import spoken

pytestmark = pytest.mark.process


class Count(Struct, frozen=True, kw_only=True):
    """Counts to `upto`; before `at` it ends its process, until `times` have."""

    upto: int
    size: int = 1
    at: int | None = None
    times: int = 0
    marks: Path | None = None

    def run(self, setup: str) -> Iterator[str]:
        for number in range(self.upto):
            if number == self.at:
                self._end()
            yield f"{setup} {number}"

    def _end(self) -> None:
        assert self.marks is not None
        ended = len(list(self.marks.iterdir()))
        if ended < self.times:
            (self.marks / str(ended)).touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Refuse(Struct, frozen=True, kw_only=True):
    size: int = 1

    def run(self, setup: str) -> Iterator[str]:
        yield "first"
        raise ArcError("the disk is full", "Try: another disk")


class Shout(Struct, frozen=True, kw_only=True):
    """Says much: a megabyte so many times."""

    times: int
    size: int = 1

    def run(self, setup: str) -> Iterator[str]:
        for number in range(self.times):
            yield str(number) * 1_000_000


class Touch(Struct, frozen=True, kw_only=True):
    """Makes a file."""

    path: Path
    size: int = 1

    def run(self, setup: str) -> Iterator[str]:
        self.path.touch()
        yield setup


def given(most: int, tasks: Sequence[Count | Refuse]) -> list[list[object]]:
    with closing(Workers(most, "n")) as workers:
        return [list(items) for items in workers.run(tasks)]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_tasks_give_comes_in_their_order(most: int) -> None:
    tasks = [Count(upto=many, size=many) for many in (300, 0, 2, 50, 1)]
    assert given(most, tasks) == [[f"n {n}" for n in range(task.upto)] for task in tasks]


def test_a_worker_that_is_killed_goes_on_where_it_stood(tmp_path: Path) -> None:
    tasks = [Count(upto=3), Count(upto=50, at=20, times=1, marks=tmp_path), Count(upto=2)]
    assert given(1, tasks) == [[f"n {n}" for n in range(task.upto)] for task in tasks]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_task_at_which_workers_end_twice_is_lost_and_no_other(tmp_path: Path) -> None:
    tasks = [Count(upto=3), Count(upto=50, at=20, times=9, marks=tmp_path), Count(upto=2)]
    first, second, third = given(1, tasks)
    assert (first, third) == (["n 0", "n 1", "n 2"], ["n 0", "n 1"])
    assert second[-1] == Lost(by=signal.SIGKILL)
    assert second[:-1] == [f"n {n}" for n in range(len(second) - 1)]
    # The first may have ended before anything of the task before was taken from it.
    assert len(list(tmp_path.iterdir())) in (2, 3)


def test_what_a_task_raises_is_raised_here() -> None:
    with closing(Workers(2, "n")) as workers:
        items = next(workers.run([Refuse(), Count(upto=1)]))
        assert next(items) == "first"
        with pytest.raises(StoreUnusable, match="the disk is full") as refused:
            next(items)
        assert refused.value.hint == "Try: another disk"


def test_what_is_handed_out_is_done_while_much_waits_and_after_all_is_done(tmp_path: Path) -> None:
    with closing(Workers(1, "n")) as workers:
        done: list[list[str]] = []
        assert not workers.has_room  # nobody runs yet
        items = next(workers.run([Shout(times=40)]))
        first = next(items)
        while workers.has_room:
            workers.hand(Touch(path=tmp_path / str(workers._running[0].pending)), done.append)
        give_up = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < HANDED_AT_ONCE:  # though nobody takes what it gives
            assert time.monotonic() < give_up
        assert [first, *items] == [str(number) * 1_000_000 for number in range(40)]
        assert len(done) == HANDED_AT_ONCE
        workers.hand(Refuse(), done.append)
        workers.hand(Count(upto=2), done.append)
        workers.settle()
        assert done[HANDED_AT_ONCE:] == [["n 0", "n 1"]]
        assert [list(items) for items in workers.run([Count(upto=1)])] == [["n 0"]]


def test_what_was_handed_to_a_worker_that_is_killed_is_missed_by_nobody(tmp_path: Path) -> None:
    with closing(Workers(1, "n")) as workers:
        done: list[list[str]] = []
        items = next(workers.run([Shout(times=40)]))
        next(items)
        workers.hand(Count(upto=1, at=0, times=9, marks=tmp_path), done.append)
        workers.hand(Count(upto=1), done.append)
        assert len(list(items)) == 39
        workers.settle()
        assert done == []
        assert not workers.has_room  # whoever ended it is not handed out again
        assert len(list(tmp_path.iterdir())) == 1


def test_processes_end_with_the_import_that_is_left(tmp_path: Path) -> None:
    with closing(Workers(2, "n")) as workers:
        next(workers.run([Count(upto=10**9), Count(upto=10**9)]))
        assert len(children()) == 2
    assert not children()


def test_nothing_is_imported_from_the_folder_somebody_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('read from the folder')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert given(1, [Count(upto=2)]) == [["n 0", "n 1"]]


def forked_tasks(marks: str) -> None:
    """What two forked workers give, one of which is ended, and whether the last process of
    theirs has ended."""
    forked = Forked(2)
    tasks = [Count(upto=3), Count(upto=50, at=20, times=1, marks=Path(marks)), Count(upto=2)]
    with closing(forked), closing(Workers(2, "n", forked)) as workers:
        started = len(forked_children())
        print(json.dumps([started, [list(items) for items in workers.run(tasks)]]))
    assert not forked_children()


def forked_children() -> set[str]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(listed.read_text().split())


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_forked_workers_do_the_same_and_are_started_afresh_where_one_is_killed(
    tmp_path: Path,
) -> None:
    code = "import sys; from tests.arc_tui.test_workers import forked_tasks as do; do(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    started, given = json.loads(done.stdout)
    assert started == 2
    assert given == [[f"n {n}" for n in range(upto)] for upto in (3, 50, 2)]
    assert len(list(tmp_path.iterdir())) == 1


def test_where_there_are_threads_nothing_is_forked() -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        with closing(Forked(2)) as forked:
            assert forked.take() is None
    finally:
        done.set()
        other.join()


# --- an import


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many runs in one file, one long run, a few of other formats, files that cannot be read."""
    runs = tmp_path_factory.mktemp("runs")
    exports.write(runs / "b.jsonl", 2)
    exports.write_one(runs / "a.jsonl", 60, seed=9)
    lines = [json.dumps(each) + "\n" for each in codex.WHOLE]
    (runs / "d-begun.jsonl").write_text("".join(lines[:9]))
    (runs / "d-grown.jsonl").write_text("".join(lines))
    (runs / "e.jsonl").write_text("".join(lines))
    (runs / "broken.jsonl").write_bytes((runs / "a.jsonl").read_bytes()[:700])
    (runs / "note.txt").write_text("no trace")
    return runs


def imported(database: Path, folder: Path, jobs: int) -> importing.ImportReport:
    with open_ledger(database) as store:
        work = importing.import_paths(store, [folder, fixtures() / "traces"], jobs=jobs)
        *_, report = work
    assert isinstance(report, importing.ImportReport)
    return report


@pytest.fixture
def alone(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of an import without workers."""
    monkeypatch.setenv("ARC_REDACT_KEY", "key")
    imported(tmp_path / "alone.db", folder, 1)
    return tmp_path / "alone.db"


@pytest.mark.parametrize("jobs", [2, 3])
def test_the_database_is_the_same_for_any_number_of_workers(
    alone: Path, folder: Path, tmp_path: Path, jobs: int
) -> None:
    report = imported(tmp_path / "other.db", folder, jobs)
    assert rows_of(tmp_path / "other.db") == rows_of(alone)
    assert report == imported(tmp_path / "again.db", folder, 1)
    assert any(file.error for file in report.files)
    assert report.skipped == (str(folder / "note.txt"),)


def test_the_command_makes_the_same_database_of_shares_that_forked_workers_read(
    alone: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from arc_tui import commands, import_tasks; from replay.formats.otlp import shares\n"
        "import_tasks.SHARE_BYTES = shares.SHARE_BYTES = 200_000; commands.main()"
    )
    words = ["--db", str(tmp_path / "other.db"), "import", "--jobs", "2", str(folder)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words, str(fixtures() / "traces")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr  # for the broken file
    assert rows_of(tmp_path / "other.db") == rows_of(alone)


def test_an_import_leaves_its_database_in_one_file(tmp_path: Path) -> None:
    """Whoever copies it then copies all: no process is left that holds on to its log."""
    done = spoken(
        "--db", "arc.db", "import", "--jobs", "2", str(fixtures() / "traces"), cwd=tmp_path
    )
    assert done.code == 0, done.err
    assert [each.name for each in tmp_path.iterdir()] == ["arc.db"]


class Eager(TaskRunner):
    """Does all the other work there is before it gives the next, as where others take long."""

    def read(
        self, tasks: Sequence[ReadFile], meanwhile: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[ReadFile, Iterator[object]]]:
        def first(items: Iterator[object]) -> Iterator[object]:
            while True:
                while meanwhile():
                    pass
                try:
                    yield next(items)
                except StopIteration:
                    return

        for task, items in super().read(tasks, meanwhile):
            yield task, first(items)


@pytest.mark.parametrize("most", [0, 20_000, EARLY_BYTES])
def test_what_is_diagnosed_early_is_as_what_is_diagnosed_last(
    alone: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(import_runner, "EARLY_BYTES", most)
    with open_ledger(tmp_path / "other.db") as store:
        early = EarlyDiagnoses(store)
        paths = [folder, fixtures() / "traces"]
        runner = Eager(store, 1)
        importing.run_to_end(importing.take_in(store, paths, runner=runner, early=early))
        waiting = undiagnosed(store)
        done = sum(key in early for key in waiting)
        assert importing.run_to_end(importing.diagnose_new(store, runner, early)) == ()
        assert not undiagnosed(store)
    assert rows_of(tmp_path / "other.db") == rows_of(alone)
    if most == EARLY_BYTES:
        assert done > len(waiting) * 0.8  # all but those of the last file, and those read again
    else:
        assert 0 < done < len(waiting) / 2


def test_a_run_that_a_later_file_says_more_of_is_diagnosed_by_that(
    folder: Path, tmp_path: Path
) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        early = EarlyDiagnoses(store)
        done = [
            importing.run_to_end(importing.take_in(store, [folder / name])).files[0].traces[0]
            for name in ("d-begun.jsonl", "d-grown.jsonl", "e.jsonl")
        ]
        assert [each.verdict for each in done] == ["new", "grown", "duplicate"]
        for each in done[:2]:
            early.note(each)
            while early.work():
                pass
            assert each.id in early
        early.note(done[2])  # which may have brought what the first lacked
        assert done[2].id not in early
        assert not early.work()


class Slow(TaskRunner):
    """Has what is handed out done when it is asked to."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 1)
        self.waiting: list[Callable[[], None]] = []

    @property
    @override
    def has_room(self) -> bool:
        return True

    @override
    def hand(self, task: DiagnoseRun, done: Callable[[list[Any]], None]) -> None:
        self.waiting.append(lambda: done(list(task.run(self._setup))))


def test_what_a_worker_said_of_a_run_that_was_read_again_since_counts_no_more(
    folder: Path, tmp_path: Path
) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        early, runner = EarlyDiagnoses(store), Slow(store)
        begun, grown = (
            importing.run_to_end(importing.take_in(store, [folder / name])).files[0].traces[0]
            for name in ("d-begun.jsonl", "d-grown.jsonl")
        )
        early.note(begun)
        early.hand_out(runner)
        early.note(grown)
        early.hand_out(runner)
        before, after = runner.waiting
        before()
        assert begun.id not in early
        after()
        assert begun.id in early


def test_a_long_run_is_not_diagnosed_beside_what_is_read(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        early, runner = EarlyDiagnoses(store), Slow(store)
        for name, spans in (("a", LEAST_SPANS), ("b", LEAST_SPANS - 1)):
            early.note(Finished(id=name, verdict="new", spans=spans, steps=1))
        early.hand_out(runner)
        assert len(runner.waiting) == 1


class Line:
    """Of a session, as its reader holds it: two that refer to each other stay until they are looked
    for."""

    other: Line

    @classmethod
    def left_over(cls) -> weakref.ref[Line]:
        one, two = cls(), cls()
        one.other, two.other = two, one
        return weakref.ref(one)


@pytest.fixture
def _no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collections")
@pytest.mark.parametrize(("spans", "stays"), [(LEAST_SPANS, False), (LEAST_SPANS - 1, True)])
def test_a_long_run_is_diagnosed_without_what_is_left_of_its_reading(
    spans: int, stays: bool, folder: Path, tmp_path: Path
) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        report = importing.run_to_end(importing.take_in(store, [folder / "a.jsonl"]))
        key = report.files[0].traces[0].id
        left = Line.left_over()
        said = DiagnoseRun(key=key, size=spans).run(ImportSetup(store.redactor, None, store))
        assert isinstance(next(said), Kept)
        assert (left() is not None) == stays


@pytest.mark.usefixtures("_no_collections")
def test_who_writes_a_long_run_holds_nothing_of_it_while_others_diagnose_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "LEAST_SPANS", 1)
    with open_ledger(tmp_path / "arc.db") as store:
        left = Line.left_over()
        events = importing.import_paths(store, [folder / "a.jsonl"], jobs=1)
        held = [
            left() is not None
            for each in events
            if isinstance(each, importing.Progress) and each.diagnoses
        ]
        assert held
        assert not any(held)


def test_a_run_that_a_judge_has_scored_waits_for_the_other_runs(
    folder: Path, tmp_path: Path
) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        (file,) = importing.run_to_end(importing.take_in(store, [folder / "a.jsonl"])).files
        (run,) = file.traces
        score = StepScore(step=0, source="judge", by="j", value=0.5, span="s")
        keep_scores(store, run.id, [score])
        early = EarlyDiagnoses(store)
        early.note(run)
        while early.work():
            pass
        assert run.id not in early


def test_an_import_whose_workers_are_killed_goes_on(
    alone: Path, folder: Path, tmp_path: Path
) -> None:
    killed = set[int]()
    with open_ledger(tmp_path / "other.db") as store:
        work = importing.import_paths(store, [folder, fixtures() / "traces"], jobs=2)
        for number, _ in enumerate(work):
            if number in (3, 12):  # while files are read, and later
                killed |= kill_children()
    assert killed
    assert rows_of(tmp_path / "other.db") == rows_of(alone)


def test_an_import_that_was_killed_is_made_whole_by_the_next(
    alone: Path, folder: Path, tmp_path: Path
) -> None:
    database = tmp_path / "other.db"
    command = [sys.executable, "-m", "arc_tui", "--db", str(database), "import", "--jobs", "2"]
    command += [str(folder), str(fixtures() / "traces")]
    running = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while running.poll() is None and traces(database) < 3:
        pass
    running.kill()
    running.wait()
    assert traces(database) >= 3
    imported(database, folder, 2)
    for query in (
        "SELECT key, content, preferred, steps, cost_usd FROM trace ORDER BY key",
        "SELECT trace, content, body FROM diagnosis ORDER BY trace",
        "SELECT digest, masked FROM message ORDER BY digest",
    ):
        assert answers(database, query) == answers(alone, query)


def test_a_file_at_which_the_workers_end_is_named_and_the_others_come_in(
    folder: Path, tmp_path: Path
) -> None:
    class Ending(TaskRunner):
        """Workers that end at one file, after its first batch."""

        def read(
            self, tasks: Sequence[ReadFile], meanwhile: Callable[[], bool] = lambda: False
        ) -> Iterator[tuple[ReadFile, Iterator[object]]]:
            for task, items in super().read(tasks, meanwhile):
                broken = task.source.name == "b.jsonl"
                yield task, iter([next(items), Lost(by=9)]) if broken else items

    with open_ledger(tmp_path / "arc.db") as store:
        runner = Ending(store, 1)
        report = importing.run_to_end(importing.take_in(store, [folder], runner=runner))
    found = {Path(file.path).name: file for file in report.files}
    assert found["b.jsonl"].error == (
        f"{folder / 'b.jsonl'}: the process that worked on it ended twice (signal 9). Try: --jobs 1"
    )
    assert len(found["b.jsonl"].traces) == 1
    assert found["a.jsonl"].error is None
    assert len(found["a.jsonl"].traces) == 1


def test_a_file_is_named_before_any_process_looks_into_it(folder: Path, tmp_path: Path) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        work = importing.import_paths(store, [folder], jobs=2)
        first = next(work)
        assert not children()
        assert isinstance(first, importing.Progress)
        assert (first.done, first.path) == (0, str(folder / "a.jsonl"))
        next(work)
        assert children()
        work.close()


def test_few_bytes_start_no_process(folder: Path, tmp_path: Path) -> None:
    with open_ledger(tmp_path / "arc.db") as store:
        for _ in importing.import_paths(store, [folder / "a.jsonl"]):
            assert not children()


def test_what_comes_by_standard_input_is_read_here(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "arc_tui", "--db", "arc.db", "import", "--jobs", "2", "-"]
    done = subprocess.run(
        [*command, str(folder / "b.jsonl")],
        input=(folder / "a.jsonl").read_bytes(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert "traces from 2 files (otlp)" in done.stdout.decode()


@pytest.mark.parametrize("jobs", ["0", "-1", "65", "many"])
def test_a_number_of_jobs_that_is_none_is_refused(tmp_path: Path, jobs: str) -> None:
    done = spoken("import", "--jobs", jobs, ".", cwd=tmp_path)
    assert done.code == 2
    assert "--jobs" in done.err


@pytest.mark.parametrize("other", ["--check", "--follow"])
def test_jobs_go_with_an_import_alone(tmp_path: Path, other: str) -> None:
    done = spoken("import", "--jobs", "2", other, ".", cwd=tmp_path)
    assert done.code == 2
    assert "--jobs" in done.err


def traces(database: Path) -> int:
    try:
        return int(answers(database, "SELECT count(1) FROM trace WHERE complete")[0][0])
    except StoreUnusable:
        return 0


def answers(database: Path, query: str) -> list[tuple[int, ...]]:
    with Store.open(database, to_read=True) as store:
        return store.db.execute(query).fetchall()


def children() -> set[int]:
    """The processes of workers that this one started."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
    return {
        int(pid) for pid, parent, state, *args in rows
        if int(parent) == os.getpid() and "arc_tui.workers" in "".join(args) and state[0] != "Z"
    }  # fmt: skip


def kill_children() -> set[int]:
    found = children()
    for each in found:
        os.kill(each, signal.SIGKILL)
    return found


def test_unordered_tasks_are_tried_again_and_then_say_why_they_failed(tmp_path: Path) -> None:
    once, thrice = tmp_path / "once", tmp_path / "thrice"
    for each in (once, thrice):
        each.mkdir()
    tasks: list[Task] = [
        Count(upto=3), Count(upto=2, at=1, times=1, marks=once), Refuse(),
        Count(upto=2, at=0, times=9, marks=thrice), Count(upto=1),
    ]  # fmt: skip
    with closing(Workers(2, "n")) as workers:
        given = dict(workers.run_unordered(tasks, 3))
    assert given.keys() == set(range(5))
    assert given[0] == ["n 0", "n 1", "n 2"]
    assert given[1] == ["n 0", "n 1"]  # the worker of the first try was ended
    assert isinstance(given[2], ArcError)
    assert str(given[2]) == "the disk is full. Try: another disk"
    assert given[3] == Lost(by=signal.SIGKILL)
    assert len(list(thrice.iterdir())) == 3
    assert given[4] == ["n 0"]
