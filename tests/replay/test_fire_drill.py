"""The fire drill: it finds a switch that works, and one that does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from replay.doctor.fire_drill import AGENT, Drill, run_drill
from replay.models.protocol import VARIABLE
from replay.stop_order import stop, stop_order
from tests.replay.live_case import clean_environment
from tests.spoken import spoken

ARC = (sys.executable, "-m", "arc_tui")

UNRECORDED = """
import os, subprocess, sys
words = sys.argv[sys.argv.index("--") + 1:]
sys.exit(subprocess.run(words).returncode)
"""
"""An `arc record` that records nothing and heeds no order."""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch, tmp_path)


@pytest.mark.process
def test_a_recorded_agent_is_stopped_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = tmp_path / "kill"
    kill.touch()
    monkeypatch.setenv(VARIABLE, str(kill))
    db = tmp_path / "data" / "arc.db"
    db.parent.mkdir()
    stop(db, by="ann", because="as it was", at_once=False)
    found = run_drill(db, "bob", ARC)
    assert found.failures == ()
    assert (found.in_flight, found.answered, found.recorded) == (1, 1, 1)
    assert found.calls == found.calls_recorded >= 2
    assert (found.refused, found.error) == (1, "PermissionDeniedError")
    assert found.took_ns is not None
    assert found.raised_ns is not None
    assert found.raised_ns > 0
    assert found.took_ns < 30e9
    monkeypatch.delenv(VARIABLE)
    order = stop_order(db)
    assert order is not None
    assert order.because == "as it was"
    assert [each.name for each in db.parent.iterdir()] == ["arc.db.stop"]


@pytest.mark.process
def test_a_switch_that_stops_nothing_fails_the_drill(tmp_path: Path) -> None:
    arc = (sys.executable, "-c", UNRECORDED)
    found = run_drill(tmp_path / "arc.db", "bob", arc, patience_s=3)
    assert found.took_ns is None
    assert found.failures == (
        "no call was refused after the order to stop",
        "the recording does not hold exactly one run",
        "a new run was not refused",
    )


@pytest.mark.process
def test_what_two_threads_of_the_agent_report_stands_in_lines_of_its_own() -> None:
    reporting = AGENT[AGENT.index("reporting =") : AGENT.index("def stream")]
    program = f"""
import json, sys, threading, time
sys.setswitchinterval(1e-6)
{reporting}
threads = [threading.Thread(target=lambda: [report("called") for _ in range(2000)]) for _ in "ab"]
for each in threads: each.start()
for each in threads: each.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["event"] for each in events] == ["called"] * 4000


@pytest.mark.process
def test_an_agent_that_cannot_run_fails_the_drill(tmp_path: Path) -> None:
    arc = (sys.executable, "-c", "import sys; sys.exit('no recorder here')")
    found = run_drill(tmp_path / "arc.db", "bob", arc)
    assert found == Drill(failures=("the agent made no call: no recorder here",))


@pytest.mark.process
def test_the_command_says_how_long_it_took(tmp_path: Path) -> None:
    done = spoken("--db", "arc.db", "doctor", "--fire-drill", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert json.loads(done.out)["failures"] == []
    refused = spoken("--db", "arc.db", "doctor", "--fire-drill", "--live", cwd=tmp_path)
    assert refused.code == 2
    assert "--fire-drill takes neither --live nor --markdown" in refused.err


def test_the_doctor_says_that_recording_is_stopped(tmp_path: Path) -> None:
    stop(tmp_path / "arc.db", by="ann", because="refunds went out twice", at_once=False)
    done = spoken("--db", "arc.db", "doctor", cwd=tmp_path)
    assert "refunds went out twice. New runs are refused; runs under way finish." in done.out
    assert "Try: arc stop --off" in done.out
