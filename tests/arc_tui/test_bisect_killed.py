"""A bisection whose process is killed at any moment: what it paid for is there when it goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.models.demo import Demo
from replay.models.live import MOST_AT_ONCE
from replay.store.handle import Store
from tests.arc_tui.bisect_case import TOUR, bisected, prompts, put_runs
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL, clean_environment
from tests.tries import CI

ROOT = Path(__file__).resolve().parents[2]
WORDS = (
    TOUR, *prompts((3, 4, 5)), "--model", MODEL, "--live", "--max-calls", "100",
    "--expect", "tool=get_order",
)  # fmt: skip


class Deadly:
    """The demo model, which kills who asks as the `deadly`-th question of a life comes in."""

    def __init__(self) -> None:
        self.victim: subprocess.Popen[str] | None = None
        self.deadly = 0
        self._lock = threading.Lock()

    def __call__(self, body: Body) -> Body:
        with self._lock:
            self.deadly -= 1
            if self.deadly == 0 and self.victim is not None:
                self.victim.send_signal(signal.SIGKILL)
        return {**Demo().complete(body, 0), "model": body["model"]}


@pytest.fixture
def server() -> Deadly:
    return Deadly()


@pytest.fixture
def api(server: Deadly, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MessagesApi]:
    clean_environment(monkeypatch, tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    with MessagesApi(server) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        yield running


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("killed") / "arc.db"
    put_runs(path)
    return path.read_bytes()


def stored(db: Path) -> int:
    with Store.open(db) as store:
        return int(store.db.execute("SELECT count(*) FROM answer").fetchone()[0])


@pytest.mark.process
@pytest.mark.parametrize("seed", range(3) if CI else [1])
def test_killed_at_any_moment_it_asks_again_only_what_was_in_flight(
    tmp_path: Path, made: bytes, api: MessagesApi, server: Deadly, seed: int
) -> None:
    whole, db = tmp_path / "whole.db", tmp_path / "arc.db"
    for path in (whole, db):
        path.write_bytes(made)
    wanted: Any = bisected(whole, *WORDS)
    lives, kills, asked = random.Random(seed), 1 + seed % 2, api.asked
    for _ in range(kills):
        server.deadly = lives.randint(1, wanted["calls"] - stored(db) - 1)
        server.victim = subprocess.Popen(
            [sys.executable, "-m", "arc_tui", "--db", str(db), "bisect", "versions", *WORDS],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        server.victim.communicate(timeout=300)
        assert server.victim.returncode == -signal.SIGKILL
    server.victim = None
    there = stored(db)
    found = bisected(db, *WORDS)
    assert found["calls"] == wanted["calls"] - there
    lost = api.asked - asked - wanted["calls"]
    assert kills <= lost <= kills * MOST_AT_ONCE, "each answer once, but those lost in flight"
    assert found["digest"] == wanted["digest"]
    assert json.dumps(found["rows"]) == json.dumps(wanted["rows"])
