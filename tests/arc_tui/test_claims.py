"""Two processes that ask one question pay for it once, whatever becomes of the first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.models.live import MOST_AT_ONCE
from replay.store import answers
from replay.store.handle import Store, now_ns
from tests.arc_tui.bisect_case import TOUR, prompt
from tests.messages_api import FAULTS, MESSAGES, MessagesApi
from tests.replay.live_case import MODEL

ROOT = Path(__file__).resolve().parents[2]
WORDS = (
    "replay", TOUR, "--system", str(prompt(4)), "-k", "2", "--model", MODEL, "--json",
    "--live", "--max-calls", "99",
)  # fmt: skip


class Process:
    """`arc replay` as another terminal would run it."""

    def __init__(self, db: Path, *more: str) -> None:
        self.running = subprocess.Popen(
            [sys.executable, "-m", "arc_tui", "--db", str(db), *WORDS, *more],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def settle(self) -> None:
        """Wait until it has said what it will ask, and a little longer: then it asks, or waits for
        who asks the same."""
        assert self.running.stderr is not None
        assert "live calls at first" in self.running.stderr.readline()
        time.sleep(2)

    def end(self) -> Any:
        """What it printed, once it ended well."""
        out, err = self.running.communicate(timeout=300)
        assert self.running.returncode in {0, 1}, err
        return json.loads(out)


def bodies(api: MessagesApi) -> list[str]:
    return sorted(json.dumps(each.body) for each in api.received if each.path == MESSAGES)


@pytest.fixture(params=["cheap", "fast"])
def schedule(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def alone(db: Path, api: MessagesApi, tmp_path: Path, schedule: str) -> list[str]:
    """What one process alone asks."""
    copy = tmp_path / "alone.db"
    copy.write_bytes(db.read_bytes())
    Process(copy, "--schedule", schedule).end()
    asked = bodies(api)
    api.received.clear()
    return asked


@pytest.mark.process
def test_two_at_once_ask_what_one_alone_asks(
    db: Path, api: MessagesApi, alone: list[str], schedule: str
) -> None:
    api.flights.gate.clear()
    both = [Process(db, "--schedule", schedule) for _ in range(2)]
    assert api.flights.holds(1)
    for each in both:  # also the one that asks nothing
        each.settle()
    api.flights.release()
    found = [each.end() for each in both]
    assert bodies(api) == alone
    assert found[0]["digest"] == found[1]["digest"]
    assert sum(each["calls"] for each in found) == len(alone)
    assert sum(each["cached"] for each in found) == len(alone)


@pytest.mark.process
def test_when_the_first_is_killed_the_other_takes_over(
    db: Path, api: MessagesApi, alone: list[str], schedule: str
) -> None:
    api.flights.gate.clear()
    first = Process(db, "--schedule", schedule)
    assert api.flights.holds(1)
    second = Process(db, "--schedule", schedule)
    second.settle()
    first.running.send_signal(signal.SIGKILL)
    first.running.communicate()
    api.flights.release()
    assert second.end()["digest"] is not None
    lost = len(bodies(api)) - len(alone)
    assert 1 <= lost <= MOST_AT_ONCE, "only what was in flight is asked again"


@pytest.mark.process
def test_when_the_first_is_declined_the_other_asks_and_is_answered(
    db: Path, api: MessagesApi, alone: list[str], schedule: str
) -> None:
    api.flights.gate.clear()
    api.fault(FAULTS["no key"])
    first = Process(db, "--schedule", schedule)
    assert api.flights.holds(1)
    second = Process(db, "--schedule", schedule)
    second.settle()
    api.flights.release()
    assert second.end()["digest"] is not None
    out, err = first.running.communicate(timeout=300)
    assert first.running.returncode == 2, out
    assert "HTTP 401" in err
    assert set(bodies(api)) == set(alone)


@pytest.mark.process
def test_who_waits_for_another_can_be_stopped(db: Path, api: MessagesApi) -> None:
    api.flights.gate.clear()
    first = Process(db)
    assert api.flights.holds(1)
    second = Process(db)
    second.settle()
    second.running.send_signal(signal.SIGINT)
    _, err = second.running.communicate(timeout=60)
    assert second.running.returncode == 130
    assert "Completed calls are saved" in err
    third = Process(db, "--max-minutes", "0.02")
    _, err = third.running.communicate(timeout=60)
    assert third.running.returncode == 2
    assert "time limit of 0.02 minutes reached" in err
    api.flights.release()
    first.end()


# --- the claims themselves

ELSEWHERE = "elsewhere/1/x"
"""An owner on another machine: nobody here can tell whether it is alive."""


@pytest.fixture
def store(db: Path) -> Iterator[Store]:
    with Store.open(db) as opened:
        yield opened


def held(store: Store, owner: str, until_ns: int, key: str = "k") -> None:
    store.db.execute("INSERT INTO claim VALUES ('', ?, ?, ?)", (key, owner, until_ns))


def test_a_claim_counts_until_its_time_is_over(store: Store) -> None:
    held(store, ELSEWHERE, now_ns() + 10**12)
    with answers.claimed(store, "", ["k", "other"]) as mine:
        assert mine == {"other"}
    store.db.execute("UPDATE claim SET until_ns = ?", (now_ns(),))
    with answers.claimed(store, "", ["k"]) as mine:
        assert mine == {"k"}
    assert store.db.execute("SELECT * FROM claim").fetchall() == []


def test_a_claim_is_moved_on_while_its_owner_is_at_work(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "LEASE_S", 1.0)
    monkeypatch.setattr(answers, "BEAT_S", 0.1)
    with answers.claimed(store, "", ["k"]):
        until = "SELECT until_ns FROM claim"
        first = store.db.execute(until).fetchone()[0]
        waited = time.monotonic() + 60
        while store.db.execute(until).fetchone()[0] == first and time.monotonic() < waited:
            time.sleep(0.05)
        assert store.db.execute(until).fetchone()[0] > first


def test_claims_of_another_server_are_none_of_ours(store: Store) -> None:
    held(store, ELSEWHERE, now_ns() + 10**12)
    with answers.claimed(store, "http://localhost:1", ["k"]) as mine:
        assert mine == {"k"}


def test_what_fails_while_asking_leaves_no_claim(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), answers.claimed(store, "", ["k"]):
        raise ZeroDivisionError
    assert store.db.execute("SELECT * FROM claim").fetchall() == []
