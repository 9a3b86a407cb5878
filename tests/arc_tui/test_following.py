"""`arc import --follow`: a session that is being written fills in, and is over when it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from arc_tui.app import ArcApp
from arc_tui.features.imports.following import LIVE_FOR_NS, follow
from arc_tui.importing import FileReport
from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow, trace_rows
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.opening import until
from tests.screen import settle

ROOT = Path(__file__).resolve().parents[2]


def said(number: int, role: str, content: Any, session: str = "s-1", **more: Any) -> str:
    """A line of a Claude Code session."""
    before = f"m-{number - 1}" if number else None
    stamp = f"2026-11-22T05:00:{number:02d}.000Z"
    message = {"role": role, "content": content, **more}
    return (
        json.dumps(
            {
                "type": role, "sessionId": session, "uuid": f"m-{number}", "parentUuid": before,
                "timestamp": stamp, "isSidechain": False, "cwd": "/shop", "version": "2.1.0",
                "userType": "external", "message": message,
            }
        )
        + "\n"
    )  # fmt: skip


def answer(number: int, text: str, session: str = "s-1") -> str:
    return said(
        number, "assistant", [{"type": "text", "text": text}], session,
        id=f"msg_{number}", model="claude-demo", stop_reason="end_turn", type="message",
        usage={"input_tokens": 10, "output_tokens": 5},
    )  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "s-1.jsonl"
    path.parent.mkdir()
    path.write_text(said(0, "user", "cancel order 7") + answer(1, "which one?"))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_ledger(tmp_path / "arc.db")) as found:
        yield found


def append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(lines)


def acting(*acts: Callable[[], object]) -> Callable[[float], bool]:
    """A pause that does one thing each time it is waited, and after the last one ends."""
    left = list(acts)

    def pause(seconds: float) -> bool:
        assert seconds > 0
        if not left:
            return False
        left.pop(0)()
        return True

    return pause


def row(store: Store) -> TraceRow:
    (found,) = trace_rows(store, every=True)
    return found


def test_a_session_fills_in_while_it_is_written(session: Path, store: Store) -> None:
    seen: list[tuple[int, bool]] = []

    def look_and_write() -> None:
        seen.append((row(store).steps, row(store).live))
        append(session, said(2, "user", "the first"), answer(3, "done"))

    def look() -> None:
        seen.append((row(store).steps, row(store).live))

    reports = list(follow(store, [session], acting(look_and_write, look)))
    assert seen == [(1, True), (2, True)]
    assert [report.steps for report in reports] == [1, 2]
    assert (row(store).steps, row(store).live) == (2, False)


def test_a_line_that_is_half_written_is_read_when_it_is_whole(session: Path, store: Store) -> None:
    line = answer(3, "done")
    append(session, said(2, "user", "the first"), line[:40])
    reports = list(follow(store, [session], acting(lambda: append(session, line[40:]))))
    assert [report.error for report in reports] == [None, None]
    assert [report.steps for report in reports] == [1, 2]


def test_what_has_not_changed_is_not_read_again(session: Path, store: Store) -> None:
    reports = list(follow(store, [session], acting(*[lambda: None] * 5)))
    assert len(reports) == 1


def test_a_new_session_of_a_folder_is_followed_too(session: Path, store: Store) -> None:
    (session.parent / "notes.txt").write_text("nobody's")
    other = session.with_name("s-2.jsonl")
    lines = said(0, "user", "hello", "s-2") + answer(1, "hi", "s-2")
    reports = list(follow(store, [session.parent], acting(lambda: other.write_text(lines))))
    assert [Path(report.path).name for report in reports] == ["s-1.jsonl", "s-2.jsonl"]
    assert len(trace_rows(store)) == 2


def test_a_session_nobody_writes_any_more_is_not_live(session: Path, store: Store) -> None:
    long_ago_ns = now_ns() - 2 * LIVE_FOR_NS
    os.utime(session, ns=(long_ago_ns, long_ago_ns))
    states: list[tuple[bool, bool]] = []

    def look() -> None:
        found = row(store)
        states.append((found.live, diagnosis(store, found.trace) is None))

    list(follow(store, [session], acting(look)))
    assert states == [(False, False)]


def test_the_rules_look_at_a_live_session_when_following_ends(session: Path, store: Store) -> None:
    undiagnosed: list[bool] = []
    list(
        follow(
            store, [session],
            acting(lambda: undiagnosed.append(diagnosis(store, row(store).trace) is None)),
        )
    )  # fmt: skip
    assert undiagnosed == [True]
    assert diagnosis(store, row(store).trace) is not None


def test_a_file_that_cannot_be_read_does_not_end_the_following(
    session: Path, store: Store, tmp_path: Path
) -> None:
    lost = tmp_path / "lost.jsonl"
    lost.write_text("nothing that any format knows\n")
    reports: list[FileReport] = list(follow(store, [lost, session], acting()))
    assert [report.error is None for report in reports] == [False, True]


def test_a_session_that_is_gone_stays_as_it_was_read(session: Path, store: Store) -> None:
    list(follow(store, [session], acting(session.unlink)))
    assert row(store).steps == 1


@pytest.mark.pilot
async def test_an_open_run_fills_in_and_ctrl_c_ends_the_following(
    session: Path, tmp_path: Path
) -> None:
    db = tmp_path / "arc.db"
    process = subprocess.Popen(
        [sys.executable, "-m", "arc_tui", "import", "--follow", "--db", str(db), str(session)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline().endswith("s-1.jsonl: 1 step, 2 spans\n")
        app = ArcApp(db)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await settle(pilot)
            await pilot.press("enter")
            await until(pilot, "● live · 1 step ")
            append(session, said(2, "user", "the first"), answer(3, "done"))
            await until(pilot, "● live · 2 steps")
            process.send_signal(signal.SIGINT)
            assert process.wait(300) == 0
            assert process.stderr.read() == "1 trace followed\n"
            await until(pilot, "outcome unknown · 2 steps")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.slow
def test_standard_input_cannot_be_followed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "arc_tui", "import", "--follow", "-",
         "--db", str(tmp_path / "arc.db")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--follow" in done.stderr
