"""The digest of a replay: equal wherever, whenever and in however many processes it is run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arc_tui.places import fixtures
from replay import bundle
from replay import kept as replays
from replay.edit.changes import Edit, SetSystem
from replay.locked.row import Sampling
from replay.store.handle import Store
from tests.messages_api import Body, MessagesApi, refusal
from tests.replay.live_case import MODEL, clean_environment, client, kept
from tests.replay.locked_case import VERIFY, core_of, run, spans, stored, think, tiny
from tests.tries import CI

ROOT = Path(__file__).resolve().parents[2]
EDIT = Edit(name="verify", changes=(SetSystem(VERIFY),))

PLACES = [
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C"},
    {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kolkata", "LANG": "C.UTF-8"},
    {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LANG": "de_DE.UTF-8", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "77", "TZ": "America/St_Johns", "PYTHONUTF8": "1"},
]
"""Seeds, zones and languages that have nothing in common."""

SOME = PLACES if CI else PLACES[:2]

RUNS = ("shop-many-wishes-v5-0", "shop-stock-v4-0", "shop-compare-v8-0")


COMMANDS = """
import json, sys
from arc_tui.commands import cli
codes = [cli.main(each, standalone_mode=False) for each in json.loads(sys.argv[1])]
sys.exit(0 if all(code in (None, 0, 1) for code in codes) else f"{codes}")
"""


def arc(folder: Path, commands: Sequence[Sequence[str]], **env: str) -> subprocess.Popen[str]:
    """The commands, one after another, in a process and a folder of their own."""
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", COMMANDS, json.dumps(commands)],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ARC_DB": str(folder / "arc.db"), **env},
    )  # fmt: skip


def told(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The JSON values that the commands printed, those of an import left out."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    values, at = [], 0
    while at < len(out):
        value, at = json.JSONDecoder().raw_decode(out, at)
        values.append(value)
        at += len(out[at:]) - len(out[at:].lstrip())
    return [value for value in values if "digest" in value]


@pytest.mark.process
def test_processes_that_share_nothing_come_to_one_digest(tmp_path: Path) -> None:
    prompt = str(fixtures() / "demo" / "prompts" / "v4.md")
    traces = [str(fixtures() / "traces" / f"{name}.jsonl") for name in RUNS]
    replays_ = [["replay", name, "--system", prompt, "-k", "2", "--json"] for name in RUNS]
    commands = [["import", *traces, "--json"], *replays_]
    started = [arc(tmp_path / f"place {at}", commands, **env) for at, env in enumerate(SOME)]
    digests = [[value["digest"] for value in told(each)] for each in started]
    assert len(set(digests[0])) == len(RUNS)
    assert digests == [digests[0]] * len(SOME)
    checks = []
    with Store.open(tmp_path / "place 0" / "arc.db") as store:
        for name, digest in zip(RUNS, digests[0], strict=True):
            file = tmp_path / f"{name}.zip"
            assert bundle.write(store, replays.find(store, digest), file).same
            checks.append(["bundle", "verify", str(file), "--json"])
    for at, env in enumerate(SOME[1:3]):
        folder = tmp_path / f"elsewhere {at}"
        found = told(arc(folder, checks, **env))
        assert [(each["same"], each["found"]) for each in found] == [
            (True, digest) for digest in digests[0]
        ]
        assert not list(folder.iterdir())


# --- without a network


OFFLINE = """
import socket, sys
from pathlib import Path

class Refused(socket.socket):
    def __init__(self, *_, **__):
        raise AssertionError("a socket was opened")

socket.socket = Refused
word, path, *rest = sys.argv[1:]
if word == "replay":
    from replay.edit.changes import Edit; from replay.edit.changes import SetSystem
    from replay.models.cached import Cached
    from replay.store.handle import Store; from replay.store import read
    from tests.replay.locked_case import VERIFY, core_of, run
    edit = Edit(name="verify", changes=(SetSystem(VERIFY),))
    with Store.open(Path(path)) as store:
        trace = read.load(store, rest[0])
        rows = run(trace, edit, Cached(store, "tiny"))
        print(core_of(trace, edit, rows).digest)
else:
    from replay import bundle
    print(bundle.verify(Path(path)).found)
print(*sorted({"anthropic", "httpx2", "textual"} & set(sys.modules)))
"""


def offline(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process in which every socket is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", OFFLINE, *arguments], cwd=ROOT,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.process
def test_a_stored_replay_needs_neither_a_socket_nor_what_speaks_through_one(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        trace = stored(store)
        digest = core_of(trace, EDIT, run(trace, EDIT, tiny(store))).digest
    done = offline("replay", str(tmp_path / "arc.db"), trace.id)
    assert done.stdout.splitlines() == [digest, ""], done.stderr


@pytest.mark.process
def test_a_bundle_is_run_again_without_a_socket_or_the_sdk(tmp_path: Path) -> None:
    with Store.open(":memory:") as store:
        trace = stored(store)
        rows = run(trace, None, tiny(store))
        kept = core_of(trace, None, rows)
        bundle.write(store, kept, tmp_path / "b.zip")
    done = offline("verify", str(tmp_path / "b.zip"))
    digest, loaded = done.stdout.splitlines()
    assert digest == kept.digest, done.stderr
    assert "anthropic" not in loaded
    assert "textual" not in loaded


# --- two at once


BESIDE = """
import os, sys
from pathlib import Path
from replay.edit.changes import Edit; from replay.edit.changes import SetSystem
from replay.models.cached import Cached
from replay.store.handle import Store; from replay.store import read
from tests.messages_api import message, text
from tests.replay.locked_case import VERIFY, Tiny, core_of, run

class Own(Tiny):
    "Answers as no other process does."

    def complete(self, body, sample):
        given = super().complete(body, sample)
        return message(text(f"I am {os.getpid()}."), *given["content"])

edit = Edit(name="verify", changes=(SetSystem(VERIFY),))
with Store.open(Path(sys.argv[1])) as store:
    trace = read.load(store, sys.argv[2])
    model = Own()
    print("ready", flush=True)
    sys.stdin.readline()
    rows = run(trace, edit, Cached(store, "tiny", model))
    print(core_of(trace, edit, rows).digest, model.asked)
"""


@pytest.mark.process
def test_two_processes_on_one_database_agree_though_their_models_do_not(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    with Store.open(path) as store:
        trace = stored(store)
    pair = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", BESIDE, str(path), trace.id], cwd=ROOT,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for each in pair:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in pair:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [each.communicate(timeout=300) for each in pair]
    assert [err for _, err in told] == ["", ""]
    (first, asked), (second, other) = (out.split() for out, _ in told)
    assert first == second
    with Store.open(path) as store:
        assert store.db.execute("SELECT count(*), count(DISTINCT key) FROM answer").fetchone() == (
            10,
            10,
        )
        rows = run(trace, EDIT, tiny(store, None))
        assert core_of(trace, EDIT, rows).digest == first
    assert 10 <= int(asked) + int(other) <= 20


# --- killed


KILLED = """
import sys
from pathlib import Path
from replay.edit.changes import Edit; from replay.edit.changes import SetSystem
from replay.locked.row import Sampling
from replay.store.handle import Store; from replay.store import read
from tests.replay.live_case import client, kept
from tests.replay.locked_case import VERIFY, run

class Elsewhere:
    base_url = sys.argv[3]

edit = Edit(name="verify", changes=(SetSystem(VERIFY),))
together = Sampling(levels=(1,), schedule="fast")
with Store.open(Path(sys.argv[1])) as store, client(Elsewhere(), timeout_s=60.0) as claude:
    trace = read.load(store, sys.argv[2])
    run(trace, edit, kept(store, claude, Elsewhere()), sampling=together)
"""


class TwoOf:
    """A policy that answers the first two requests and holds all others; `tenth` tells when all
    ten of them have come."""

    def __init__(self, api: MessagesApi) -> None:
        self.tenth = threading.Event()
        self._api = api
        self._came = 0
        self._lock = threading.Lock()

    def __call__(self, body: Body) -> Body:
        with self._lock:
            self._came += 1
            came = self._came
        if came == 10:
            self.tenth.set()
        if came > 2:
            self._api.left.wait()
        return think(body)


@pytest.mark.process
def test_a_replay_killed_with_many_requests_in_flight_goes_on_with_those_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch, tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    path = tmp_path / "arc.db"
    with Store.open(path) as store:
        trace = stored(store, spans(model=MODEL))
    refusal({})  # a type that two threads use at once for the first time is more than msgspec bears
    with MessagesApi() as api:
        api.policy = policy = TwoOf(api)
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", KILLED, str(path), trace.id, api.base_url],
            cwd=ROOT, text=True, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert policy.tenth.wait(300)
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=300)
        assert (process.returncode, err) == (-signal.SIGKILL, "")
        api.policy = think
        asked = api.asked
        with Store.open(path) as store, client(api) as claude:
            model = kept(store, claude, api)
            rows = run(trace, EDIT, model, sampling=Sampling(levels=(1,), schedule="fast"))
        assert (model.hits, model.asks, api.asked - asked) == (2, 8, 8)
        assert [len(row.control) + len(row.edited) for row in rows] == [2] * 5
