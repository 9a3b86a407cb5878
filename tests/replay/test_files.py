"""Only regular files are read, and no temporary one outlives its process: not even one that is
killed, where the file needs no name; else it is gone with the next start."""

from __future__ import annotations

import gzip
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replay import files
from replay.care import rewriting
from replay.errors import BadTrace
from replay.formats.source import Source
from replay.store import encryption
from tests.hostile import SEEDS, written
from tests.replay.test_parquet import AGENT, needs_duckdb
from tests.replay.test_parquet import written as table

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 60
SAID = "plainly said"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own folder for temporary files, and none that this process had before."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(files, "_own", None)
    yield folder
    if files._own is not None:
        files._leave(files._own)
        os.close(files._own.handle)


def arc(tmp_path: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A start of `arc`, which has to come to its end."""
    return subprocess.run(
        [sys.executable, "-m", "arc_tui", "--db", str(tmp_path / "arc.db"), *words],
        cwd=ROOT,
        input=given,
        capture_output=True,
        timeout=LONGEST_S,
        check=False,
        env={**os.environ, "ARC_DATA_DIR": str(tmp_path / "data")},
    )


def named(*folders: Path) -> list[Path]:
    """The files in these folders that could be read after a power cut."""
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in found if path.stat().st_size and not path.is_symlink()]


# --- what is no regular file


def _linked(path: Path) -> None:
    os.mkfifo(f"{path}.pipe")
    path.symlink_to(f"{path}.pipe")


def _bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # the name of one may not be long


SPECIAL: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a link to a pipe": _linked,
    "a socket": _bound,
    "a device that never ends": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.process
@pytest.mark.parametrize("what", SPECIAL)
def test_what_is_no_file_stops_no_import(what: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "run.json").write_bytes(written(SEEDS["atif"]()))
    for name in ("a.jsonl", "result.json", "reward.txt", "index.jsonl", "report.json", "z.db"):
        SPECIAL[what](runs / name)
    done = arc(tmp_path, "import", str(runs))
    assert done.returncode == 0, done.stderr
    assert b"1 trace from 1 file" in done.stdout
    assert b"skipped" in done.stdout
    done = arc(tmp_path, "import", str(runs / "a.jsonl"))
    assert done.returncode == 2
    assert b"cannot be read: it is " in done.stderr
    assert b", not a regular file" in done.stderr


def test_a_pipe_that_takes_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(written(SEEDS["codex"]()))
    source = Source(path)
    assert source.head.data
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadTrace, match="it is a named pipe, not a regular file"):
        source.read()


# --- standard input


@pytest.mark.parametrize("name", SEEDS)
def test_standard_input_is_read_like_a_file_and_leaves_no_name(
    name: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arc_tui import importing
    from taxonomy.judgements.schema import open_ledger

    given = written(SEEDS[name]())
    for data in (given, gzip.compress(given)):
        with _piped(data, monkeypatch), open_ledger(":memory:") as store:
            *_, report = importing.import_paths(store, [Path("-")], format=name)
        assert isinstance(report, importing.ImportReport)
        assert [(file.error, len(file.traces) > 0) for file in report.files] == [(None, True)]
        assert named(temporary) == []


@contextmanager
def _piped(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    take, give = os.pipe()
    with os.fdopen(take) as taking:
        with os.fdopen(give, "wb") as giving:
            assert len(data) < 1 << 16
            giving.write(data)
        monkeypatch.setattr(sys, "stdin", taking)
        yield


def test_what_is_read_by_name_has_one_in_a_private_folder_alone(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _piped(b"SQLite format 3\0" + SAID.encode(), monkeypatch):
        source = Source.stdin()
    (only,) = named(temporary)
    assert only == source.head.file
    assert only.stat().st_mode & 0o777 == 0o600
    around = [each for each in only.parents if temporary in each.parents]
    assert [each.stat().st_mode & 0o077 for each in around] == [0, 0, 0]
    assert source.read().endswith(SAID.encode())
    del source
    assert named(temporary) == []


@pytest.mark.process
@needs_duckdb
def test_a_table_and_a_database_come_by_a_pipe_too(tmp_path: Path) -> None:
    data = table(tmp_path / "spans.parquet", AGENT).read_bytes()
    done = arc(tmp_path, "import", "-", given=data)
    assert b"1 trace from 1 file" in done.stdout, done.stderr


# --- kills

MAKING = {
    "a spool": "held = files.Spool(io.BytesIO(SAID)); ",
    "a spool that needs a name": "sys.stdin = io.TextIOWrapper(io.BytesIO(b'PAR1' + SAID));"
    " held = Source.stdin(); ",
    "a private folder": "made = files.private_folder(); folder = made.__enter__();"
    " files.new(folder / 'copy').write_bytes(SAID); ",
    "a part": "made = files.temporary_for(target); part = made.__enter__(); part.write_bytes(SAID);"
    " part.with_name(part.name + '-journal').write_bytes(SAID); ",
    "a folder of parts": "made = files.temporary_for(target, folder=True);"
    " (made.__enter__() / 'rows.db').write_bytes(SAID); ",
    "what is put": "os.fsync = lambda _: ready(); files.put(io.BytesIO(SAID), target); ",
}
"""What a process makes, and is then killed."""

NAMELESS = {"a spool", "what is put"}

CHILD = f"""
import io, os, sys
from pathlib import Path
from replay import files
from replay.formats.source import Source
SAID, target = {SAID.encode()!r}, Path(sys.argv[1])
def ready():
    print("ready", flush=True)
    import time
    time.sleep({LONGEST_S})
"""


def _killed(code: str, *words: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", f"{CHILD}\n{code}\nready()", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGKILL)


@pytest.mark.process
@pytest.mark.parametrize("what", MAKING)
@pytest.mark.parametrize("word", ["doctor", "ls"])
def test_what_a_killed_process_left_is_gone_with_the_next_start(
    what: str, word: str, tmp_path: Path, temporary: Path
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "arc.db").write_bytes(b"as it was")
    _killed(MAKING[what], str(beside / "arc.db"))
    left = [path for path in named(temporary, beside) if SAID.encode() in path.read_bytes()]
    assert bool(left) == (what not in NAMELESS)
    done = arc(tmp_path, word)
    if word == "doctor":
        for path in left:
            one = path.parent if path.name == "rows.db" else path
            assert str(one).encode() in done.stdout
        assert (b"removed leftovers of a killed process" in done.stdout) == bool(left)
    assert named(temporary, beside) == [beside / "arc.db"]
    assert (beside / "arc.db").read_bytes() == b"as it was"
    assert [each.name for each in beside.iterdir()] == ["arc.db"]


@pytest.mark.slow
def test_doctor_finds_parts_that_no_process_has_a_note_of(tmp_path: Path) -> None:
    part = tmp_path / "arc.db.0123abcd.part"
    part.write_bytes(b"x")
    with files.temporary_for(tmp_path / "arc.db") as mine:
        done = arc(tmp_path, "doctor")
        assert mine.exists()  # of a process that is alive
    assert str(part).encode() in done.stdout
    assert not part.exists()


@pytest.mark.slow
def test_what_a_living_process_has_is_left_to_it(tmp_path: Path) -> None:
    with files.private_folder() as folder, files.temporary_for(tmp_path / "arc.db") as part:
        files.new(folder / "copy").write_bytes(b"mine")
        assert arc(tmp_path, "doctor").returncode in (0, 1)
        assert (folder / "copy").read_bytes() == b"mine"
        assert part.exists()
    assert files.sweep(tmp_path) == ()
    assert named(tmp_path / "tmp") == []


def test_a_folder_that_others_may_look_into_is_not_used(temporary: Path) -> None:
    base = temporary / f"arc-{os.getuid()}"
    base.mkdir(0o777)
    base.chmod(0o777)
    with (
        pytest.raises(PermissionError, match="not a private folder of yours"),
        files.private_folder(),
    ):
        pass
    base.rmdir()
    base.symlink_to(temporary)
    with (
        pytest.raises(PermissionError, match="not a private folder of yours"),
        files.private_folder(),
    ):
        pass
    assert files.sweep() == ()


def test_a_file_is_put_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "bundle.arc"
    for numbers in (files._NUMBERS, tmp_path / "none"):  # without them it has a name meanwhile
        monkeypatch.setattr(files, "_NUMBERS", numbers)
        for text in (b"first", b"second"):
            (tmp_path / "given").write_bytes(text)
            with (tmp_path / "given").open("rb") as given:
                files.put(given, target)
            assert target.read_bytes() == text
            assert target.stat().st_mode & 0o777 == 0o600
            assert sorted(each.name for each in tmp_path.iterdir()) == [
                "bundle.arc",
                "given",
                "tmp",
            ]


# --- a database made plain

KEY = "a key of some length"
KILLS = 12

DECRYPT = """
import os, sys
from replay.store import encryption as keys; from replay.care import rewriting
from pathlib import Path
print("ready", flush=True)
sys.stdin.readline()
rewriting.decrypt(Path(sys.argv[1]))
"""


@pytest.mark.process
def test_a_killed_decrypt_leaves_no_plaintext(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlcipher3")
    monkeypatch.setenv(encryption.KEY, KEY)
    folder = tmp_path / "db"
    folder.mkdir()
    whole = folder / "arc.db"
    with sqlite3.connect(whole) as db:
        db.execute("CREATE TABLE said (words TEXT)")
        db.executemany(
            "INSERT INTO said VALUES (?)", ((f"{SAID} {n}" * 20,) for n in range(20_000))
        )
    db.close()
    rewriting.encrypt(whole, KEY)
    sealed = whole.read_bytes()
    assert SAID.encode() not in sealed
    chance, life_s, kills = random.Random(7), 1.0, 0
    for _ in range(KILLS):
        whole.write_bytes(sealed)
        with subprocess.Popen(
            [sys.executable, "-c", DECRYPT, str(whole)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, encryption.KEY: KEY},
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdout.readline()
            began = time.monotonic()
            child.stdin.write(b"go\n")
            child.stdin.flush()
            try:
                child.wait(chance.uniform(0, life_s))
                life_s = time.monotonic() - began
            except subprocess.TimeoutExpired:
                kills += 1
            child.kill()
        if encryption.look_again(whole) is None:  # it was finished
            continue
        for path in named(folder, temporary):
            assert SAID.encode() not in path.read_bytes(), path
        files.sweep()
        assert {each.name for each in folder.iterdir()} <= {"arc.db", "arc.db-journal"}
    assert kills > KILLS // 3
