"""Processes are killed (SIGKILL) at moments drawn by chance: while they import, ask, and tag.

After each kill the database holds together and `arc db verify` finds no damage. The next run goes
on, and what there is in the end is what an undisturbed run leaves.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from msgspec import Struct, field

from replay.models.demo import Demo
from replay.models.live import MOST_AT_ONCE
from taxonomy.judgements.schema import open_ledger
from tests import openai_api
from tests.arc_tui.bisect_case import put_runs
from tests.arc_tui.live_case import Listener, export, listening, model_span, root_span
from tests.faults import Row
from tests.faults.holdings import TAGGED, TOUR, answers, arc, damage, holdings, key_of
from tests.messages_api import Body, MessagesApi, message, stream, text
from tests.upstream import Asked, Reply, Upstream

KILLS = 200
TRACES = 120
LONGEST_S = 120.0
"""A child that is not done by then hangs."""


class Outcome(Struct):
    """What kills of one kind came to: how many there were, and a sentence for each promise that
    one of them broke."""

    kills: int = 0
    runs: int = 0
    beforehand: int = 0
    broken: list[str] = field(default_factory=list)
    kept: int = 0
    counted: int = 0
    in_flight: int = 0


# --- a process that is killed


def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.killed", "arc_tui.importing", "anthropic"])
    return context


def _run(db: str, words: Sequence[str], environment: dict[str, str]) -> None:
    """The child: a command of arc, which says nothing."""
    from arc_tui.commands import cli

    os.environ.update(environment)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    code = cli.main(["--db", db, *words], standalone_mode=False)
    raise SystemExit(code if isinstance(code, int) else 0)


def _start(db: Path, words: Sequence[str], **environment: str) -> ForkServerProcess:
    child = _forks().Process(target=_run, args=(str(db), tuple(words), environment))
    child.start()
    return child


def _ended(child: ForkServerProcess) -> int:
    child.join(LONGEST_S)
    code = child.exitcode
    if code is None:
        child.kill()
        child.join()
        raise AssertionError("a command did not come to an end")
    child.close()
    return code


class Clock:
    """Draws moments of a command's life, however long that is on this machine just now."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._life_s = 1.0

    def kill(self, db: Path, words: Sequence[str], outcome: Outcome, **environment: str) -> int:
        """Start a command and kill it at a moment; its code, -SIGKILL unless it was over before."""
        began = time.monotonic()
        child = _start(db, words, **environment)
        child.join(self._chance.uniform(0, self._life_s))
        child.kill()
        code = _ended(child)
        if code == -signal.SIGKILL:
            outcome.kills += 1
            self._life_s *= 1.02  # what never ends is given more time
        else:
            outcome.beforehand += 1
            self._life_s = time.monotonic() - began
        return code


def _look(db: Path, outcome: Outcome, name: str) -> None:
    if db.exists() and db.stat().st_size:
        outcome.broken += [f"{name}: {each}" for each in damage(db)]


def _compare(wanted: Path, found: Path, outcome: Outcome, name: str) -> None:
    before, after = holdings(wanted), holdings(found)
    outcome.broken += [
        f"{name}: {table} differs" for table in before if before[table] != after[table]
    ]
    with open_ledger(found) as store:
        (left,) = store.db.execute("SELECT count(*) FROM trace WHERE NOT complete").fetchone()
    if left:
        outcome.broken.append(f"{name}: {left} traces are left half-written")


# --- an import


def _put_export(path: Path) -> None:
    """An OTLP file of many traces, a request each."""
    lines = []
    for number in range(TRACES):
        trace = f"{number + 1:032x}"
        calls = [model_span(each, trace=trace) for each in range(3)]
        lines.append(export(*calls, root_span(trace=trace)))
    path.write_bytes(b"\n".join(lines) + b"\n")


def _put_session(path: Path, messages: int) -> None:
    """A session of Claude Code as far as it has come."""
    lines = []
    for number in range(messages):
        role = "assistant" if number % 2 else "user"
        content = [{"type": "text", "text": f"message {number}"}]
        message = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{number}", "model": "claude-demo", "type": "message",
                        "stop_reason": "end_turn"}  # fmt: skip
        line = {
            "type": role, "sessionId": SESSION, "uuid": f"m-{number}",
            "parentUuid": f"m-{number - 1}" if number else None,
            "timestamp": f"2026-11-22T05:00:{number % 60:02d}.000Z", "isSidechain": False,
            "cwd": "/shop", "version": "2.1.0", "userType": "external", "message": message,
        }  # fmt: skip
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines))


def _put_calls(path: Path, messages: int) -> None:
    """The calls of the same session, as a log of the API has them: another recording of the run,
    with as many steps."""
    lines = []
    for asked in range(1, messages, 2):
        said = [
            {"role": "assistant" if each % 2 else "user", "content": f"message {each}"}
            for each in range(asked + 1)
        ]
        request = {
            "model": "claude-demo", "max_tokens": 99, "messages": said[:-1],
            "metadata": {"user_id": f"user_1_session_{SESSION}"},
        }  # fmt: skip
        response = {
            "id": f"msg_{asked}", "type": "message", "role": "assistant", "model": "claude-demo",
            "content": [{"type": "text", "text": f"message {asked}"}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 9, "output_tokens": 9},
        }  # fmt: skip
        lines.append(json.dumps({"request": request, "response": response}) + "\n")
    path.write_text("".join(lines))


SESSION, WHOLE = "shop-0001", 12
"""The name of the session, and how many messages it comes to."""


def imports(kills: int, folder: Path, chance: random.Random) -> Outcome:
    """Imports of a large file and of two recordings of a session that grows between them, one or
    the other first. The one that is preferred in the end is the one that always was."""
    outcome, clock = Outcome(), Clock(chance)
    large, session, calls = (folder / f"{each}.jsonl" for each in ("export", "session", "calls"))
    _put_export(large)
    while outcome.kills < kills:
        name = f"import {outcome.runs}"
        db, wanted = folder / f"{outcome.runs}.db", folder / f"{outcome.runs}-whole.db"
        outcome.runs += 1
        words = ("import", *map(str, chance.sample([large, session, calls], 3)))
        session_over, calls_over = chance.choices(range(1, 5), k=2)
        for kill in range(min(4, kills - outcome.kills)):
            _put_session(session, WHOLE if kill >= session_over else 2 + 2 * kill)
            _put_calls(calls, WHOLE if kill >= calls_over else 2)
            clock.kill(db, words, outcome)
            _look(db, outcome, name)
        _put_session(session, WHOLE)
        _put_calls(calls, WHOLE)
        arc(db, *words)
        arc(wanted, *words)
        _compare(wanted, db, outcome, name)
    return outcome


# --- questions to a model


class Deadly:
    """The demo model behind a server, which kills who asks while its answers are under way."""

    def __init__(self, chance: random.Random) -> None:
        self.victim: ForkServerProcess | None = None
        self.deadly = 0
        self._chance = chance
        self._lock = threading.Lock()

    def __call__(self, body: Body) -> Body:
        with self._lock:
            self.deadly -= 1
            if self.deadly == 0 and self.victim is not None:
                time.sleep(self._chance.uniform(0, 0.02))  # earlier answers are being kept
                self.victim.kill()
        return {**Demo().complete(body, 0), "model": body["model"]}


@contextmanager
def _environment(**given: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


ASKING = ("--model", "claude-test", "--live", "--max-calls", "1000", "-k", "3")


def replays(kills: int, folder: Path, chance: random.Random) -> Outcome:
    """Replays that ask a server, each killed while an answer of a drawn number is under way."""
    outcome, server = Outcome(), Deadly(chance)
    made = folder / "runs.db"
    put_runs(made)
    words = ("replay", TOUR, *ASKING)
    with MessagesApi(server) as api:
        to = {
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": api.base_url,
            "ANTHROPIC_CONFIG_DIR": str(folder / "none"),
        }
        with _environment(**to):
            wanted = folder / "whole.db"
            wanted.write_bytes(made.read_bytes())
            arc(wanted, *words)
            each = api.asked
            while outcome.kills < kills:
                name = f"replay {outcome.runs}"
                db = folder / f"{outcome.runs}.db"
                outcome.runs += 1
                db.write_bytes(made.read_bytes())
                _kill_asking(db, words, to, api, server, min(3, kills - outcome.kills), outcome)
                before, there = api.asked, answers(db)
                arc(db, *words)
                if api.asked - before != each - there:
                    outcome.broken.append(f"{name}: what was kept was asked again")
                _compare(wanted, db, outcome, name)
    return outcome


def _kill_asking(
    db: Path,
    words: Sequence[str],
    to: dict[str, str],
    api: MessagesApi,
    server: Deadly,
    kills: int,
    outcome: Outcome,
) -> None:
    for _ in range(kills):
        asked, there = api.asked, answers(db)
        child = _forks().Process(target=_run, args=(str(db), tuple(words), to))
        server.deadly, server.victim = random.Random(f"{asked}").randint(2, 9), child
        child.start()
        code = _ended(child)
        server.victim = None
        outcome.kills += code == -signal.SIGKILL
        outcome.beforehand += code != -signal.SIGKILL
        _look(db, outcome, f"replay {outcome.runs}")
        counted, kept = api.asked - asked, answers(db) - there
        outcome.counted += counted
        outcome.kept += kept
        outcome.in_flight = max(outcome.in_flight, counted - kept)
        if counted - kept > MOST_AT_ONCE:
            outcome.broken.append(f"{counted} were answered and {kept} kept")


# --- tags


def _said(db: Path) -> list[tuple[str, ...]]:
    """What a person says of two runs, a command each."""
    keys = [key_of(db, TOUR), key_of(db, TAGGED)]
    tags = [
        ("tag", "add", key, str(step), kind, "--note", f"{kind} at step {step} " * 40)
        for key in keys
        for step in (1, 2)
        for kind in ("loop", "bad args", "gave up")
    ]
    labels = [
        ("label", key, str(step), "0.3", "--note", "so so") for key in keys for step in (0, 2)
    ]
    return [*tags, *labels]


def tags(kills: int, folder: Path, chance: random.Random) -> Outcome:
    """Commands that tag and label, killed; what one said before it was killed is there."""
    outcome, clock = Outcome(), Clock(chance)
    made = folder / "runs.db"
    put_runs(made)
    said = _said(made)
    while outcome.kills < kills:
        name = f"tags {outcome.runs}"
        db, wanted = folder / f"{outcome.runs}.db", folder / f"{outcome.runs}-whole.db"
        outcome.runs += 1
        for path in (db, wanted):
            path.write_bytes(made.read_bytes())
        ended = 0
        for words in chance.sample(said, min(len(said), kills - outcome.kills)):
            ended += clock.kill(db, words, outcome, ARC_USER="ann") == 0
            _look(db, outcome, name)
            outcome.counted = ended
            there = _tagged(db)
            if there < ended:
                outcome.broken.append(f"{name}: {ended} were said and {there} are there")
        with _environment(ARC_USER="ann"):
            for words in said:
                arc(db, *words)
                arc(wanted, *words)
        _compare(wanted, db, outcome, name)
    return outcome


def _tagged(db: Path) -> int:
    held = holdings(db)
    scores = [row for row in held["score"].values() if row["source"] == "human"]
    return len(held["tag"]) + len(scores)


# --- what others send

SENDERS = 3


def listened(kills: int, folder: Path, chance: random.Random) -> Outcome:
    """A listener, killed while agents send: every span that was acknowledged is there."""
    outcome = Outcome()
    while outcome.kills < kills:
        name, db = f"listener {outcome.runs}", folder / f"{outcome.runs}.db"
        outcome.runs += 1
        said: list[tuple[str, int]] = []
        enough = chance.randint(1, 40)
        reached = threading.Event()
        with listening(db) as listener:
            senders = [
                threading.Thread(
                    target=_send, args=(listener, f"{number + 1:032x}", said, enough, reached)
                )
                for number in range(SENDERS)
            ]
            for each in senders:
                each.start()
            reached.wait(LONGEST_S)
            time.sleep(chance.uniform(0, 0.02))
            listener.end(signal.SIGKILL)
            for each in senders:
                each.join()
        outcome.kills += 1
        _look(db, outcome, name)
        with open_ledger(db) as store:
            there = {
                (source, int(span, 16) - 1)
                for source, span in store.db.execute(
                    "SELECT t.source_id, s.span_id FROM span s JOIN trace t ON t.id = s.trace"
                    " WHERE t.complete"
                )
            }
        outcome.counted += len(said)
        outcome.kept += len(there.intersection(said))
        if not there.issuperset(said):
            outcome.broken.append(f"{name}: {len(said)} acknowledged, of them {len(there)} there")
    return outcome


def _send(
    listener: Listener,
    trace: str,
    said: list[tuple[str, int]],
    enough: int,
    reached: threading.Event,
) -> None:
    """Send span after span, each once the one before it was acknowledged, until nobody is there."""
    for number in range(10_000):
        try:
            answer = listener.post(export(model_span(number, trace=trace, parent=None)))
        except (OSError, HTTPException):
            return
        if answer.status == 200:
            said.append((trace, number))
        if len(said) >= enough:
            reached.set()


AGENT = """
import http.client, json, os, signal, sys
from urllib.parse import urlsplit

def ask(number, variable, path, stream):
    at = urlsplit(os.environ[variable])
    body = {"model": "m", "max_tokens": 9, "stream": stream,
            "messages": [{"role": "user", "content": f"question {number}"}]}
    peer = http.client.HTTPConnection(at.hostname, at.port)
    peer.request("POST", at.path + path, json.dumps(body), {"x-api-key": "local"})
    reply = peer.getresponse()
    if not stream:
        assert json.loads(reply.read())
        return
    for line in reply:
        if line.startswith((b"data: [DONE]", b"event: message_stop")):
            reply.readline()
            return
    raise SystemExit("no end")

CLAUDE, GPT = ("ANTHROPIC_BASE_URL", "/v1/messages"), ("OPENAI_BASE_URL", "/chat/completions")
WAYS = [(*CLAUDE, False), (*CLAUDE, True), (*GPT, False), (*GPT, True)]
calls, first = map(int, sys.argv[1:])
for number in range(calls):
    ask(number, *WAYS[(first + number) % len(WAYS)])
os.kill(os.getppid(), signal.SIGKILL)
"""
"""Makes some calls and kills its recorder as soon as it has the last line of the last answer."""


def _upstream(asked: Asked) -> Reply:
    """Both providers: an answer at once or in events, in pieces that keep to no line."""
    body = json.loads(asked.body)
    if asked.path.endswith("/chat/completions"):
        return openai_api.answer(asked)
    word = body["messages"][-1]["content"]
    whole = message(text(f"Said {word}."), model="m")
    if not body["stream"]:
        return Reply(pieces=[json.dumps(whole).encode()])
    data = b"".join(map(stream.encoded, stream.events(whole, whole["usage"])))
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    return Reply(pieces=pieces, headers=openai_api.EVENTS, chunked=True)


def recorded(kills: int, folder: Path, chance: random.Random) -> Outcome:
    """A recorder, killed by the command it runs as soon as that has the last of an answer: every
    call is there."""
    outcome = Outcome()
    agent = folder / "agent.py"
    agent.write_text(AGENT)
    with Upstream(_upstream) as upstream:
        to = {"ANTHROPIC_BASE_URL": upstream.url, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
        while outcome.kills < kills:
            name, db = f"recording {outcome.runs}", folder / f"{outcome.runs}.db"
            outcome.runs += 1
            calls = chance.randint(1, 8)
            words = ("record", "--", sys.executable, str(agent), str(calls), str(calls % 3))
            code = _ended(_start(db, words, **to))
            if code != -signal.SIGKILL:
                raise AssertionError(f"{name}: the agent ended with {code}")
            outcome.kills += 1
            _look(db, outcome, name)
            with open_ledger(db) as store:
                (there,) = store.db.execute(
                    "SELECT coalesce(sum(steps), 0) FROM trace WHERE complete"
                ).fetchone()
            outcome.counted += calls
            outcome.kept += there
            if there != calls:
                outcome.broken.append(f"{name}: {calls} calls were whole and {there} are there")
    return outcome


# --- the table

SUBJECTS = {
    "an import": imports,
    "a replay that asks a server": replays,
    "tags": tags,
    "`arc listen`": listened,
    "`arc record`": recorded,
}


def trial(subject: str, kills: int, seed: int = 0) -> Outcome:
    """One subject killed so many times."""
    with tempfile.TemporaryDirectory() as folder:
        return SUBJECTS[subject](kills, Path(folder), random.Random(f"{seed}/{subject}"))


def rows(kills: int = KILLS) -> Iterator[Row]:
    """The rows of the table of trials: the kills are shared out evenly."""
    for at, subject in enumerate(SUBJECTS):
        own = kills // len(SUBJECTS) + (at < kills % len(SUBJECTS))
        found = trial(subject, own)
        figure = f"{found.kills - len(found.broken)} of {found.kills}"
        if subject == "a replay that asks a server":
            figure += (
                f"; {found.kept} of {found.counted} answers kept, at most {found.in_flight} lost"
                f" a kill, {MOST_AT_ONCE} may be in flight"
            )
        elif subject == "`arc listen`":
            figure += f"; {found.kept} of {found.counted} acknowledged spans kept"
        elif subject == "`arc record`":
            figure += f"; {found.kept} of {found.counted} finished calls kept"
        yield Row(
            promise="a kill at any moment leaves a valid database; the next run completes it",
            trial=f"{subject}, {found.kills} kills over {found.runs} databases",
            figure=figure,
            kept=not found.broken,
        )
