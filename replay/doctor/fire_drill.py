"""A fire drill: does an order to stop end a recorded agent, how fast, and is anything lost?

A server on loopback answers as the Messages API does; a program with Anthropic's SDK asks it
through `arc record`, which writes a database of its own. While one answer streams and other calls
come and go, the order to stop is given. Nothing is asked of a provider, and no other database is
touched.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
from msgspec import Struct

from replay import files, messages
from replay.errors import ArcError
from replay.models.protocol import SERVER_VARIABLE, VARIABLE
from replay.recorder.caps import STATUS
from replay.stop_order import resume, stop
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import STOP_LABEL, Trace

PATIENCE_S = 60.0

WORDS = ("The answer that was ", "in flight came whole.")
"""What the streamed answer says, before the order to stop and after it."""

AGENT = """
import json, threading, time
import anthropic

client = anthropic.Anthropic()
asked = {"model": "fire-drill", "max_tokens": 100,
         "messages": [{"role": "user", "content": "fire drill"}]}

reporting = threading.Lock()

def report(event, **values):
    with reporting:
        print(json.dumps({"event": event, "at_ns": time.time_ns(), **values}), flush=True)

def stream():
    words = ""
    try:
        with client.messages.stream(**asked) as coming:
            for word in coming.text_stream:
                words += word
                report("streaming")
    except anthropic.APIError as error:
        report("broke", error=type(error).__name__)
    report("streamed", words=words)

streaming = threading.Thread(target=stream)
streaming.start()
while True:
    began_ns = time.time_ns()
    try:
        client.messages.create(**asked)
    except anthropic.APIStatusError as error:
        report("refused", began_ns=began_ns, error=type(error).__name__, status=error.status_code,
             message=str(error))
        break
    report("called")
    time.sleep(0.02)
streaming.join()
"""


class Drill(Struct, frozen=True, kw_only=True):
    """What came of a drill. Times are in nanoseconds, None where that did not happen.

    `took_ns` is from the order to stop to the error that the SDK raised, `raised_ns` from the
    request that was refused to that error. `in_flight` calls were under way at the order;
    `answered` of them came whole to the agent, `recorded` whole into the database. `calls` were
    answered in all, `refused` requests were refused: more than one is a retry. `failures` are what
    did not go as it should.
    """

    took_ns: int | None = None
    raised_ns: int | None = None
    error: str | None = None
    in_flight: int = 0
    answered: int = 0
    recorded: int = 0
    calls: int = 0
    calls_recorded: int = 0
    refused: int = 0
    new_run_refused: bool = False
    resumed: bool = False
    failures: tuple[str, ...] = ()


def run_drill(
    beside: Path, by: str, arc: Sequence[str], *, patience_s: float = PATIENCE_S
) -> Drill:
    """Drill in a folder beside a database, which is gone afterwards; `arc` is how arc is called.
    A call that is not refused within `patience_s` of the order is not refused.

    Raises OSError where no such folder can be made.
    """
    beside.parent.mkdir(parents=True, exist_ok=True)
    with files.temporary_for(beside.with_name("fire-drill"), folder=True) as folder, _Api() as api:
        return _FireDrill(folder / "arc.db", by, arc, api, patience_s).run()


class _FireDrill:
    """One drill while it goes on."""

    def __init__(
        self, database: Path, by: str, arc: Sequence[str], api: _Api, patience_s: float
    ) -> None:
        self._database = database
        self._by = by
        self._arc = arc
        self._api = api
        self._patience_s = patience_s

    def run(self) -> Drill:
        with self._recorded([sys.executable, "-c", AGENT]) as agent:
            if agent.wait_for("streaming") is None or agent.wait_for("called") is None:
                agent.stop()
                return Drill(failures=(f"the agent made no call: {agent.last_words()}",))
            pulled_ns = time.time_ns()
            stop(self._database, by=self._by, because="fire drill", at_once=True)
            refused = agent.wait_for("refused", self._patience_s)
            self._api.release.set()
            streamed = agent.wait_for("streamed")
            if refused is not None:
                agent.wait()
        new_run_refused = not self._starts_run()
        with suppress(ArcError):  # where the file that ARC_KILL names stops others still
            resume(self._database)
        resumed = self._starts_run()
        trace = self._trace()
        steps = trace.steps if trace is not None else ()
        whole = [step.ask.response.message for step in steps if not step.ask.error]
        said = [messages.text(message) for message in whole if message is not None]
        found = Drill(
            took_ns=refused["at_ns"] - pulled_ns if refused else None,
            raised_ns=refused["at_ns"] - refused["began_ns"] if refused else None,
            error=refused["error"] if refused else None,
            in_flight=1,
            answered=int(streamed is not None and streamed.get("words") == "".join(WORDS)),
            recorded=int("".join(WORDS) in said),
            calls=self._api.served,
            calls_recorded=len(whole),
            refused=len(steps) - len(whole),
            new_run_refused=new_run_refused,
            resumed=resumed,
        )
        failures = tuple(_failures(found, refused, trace))
        return msgspec.structs.replace(found, failures=failures)

    @contextmanager
    def _recorded(self, command: Sequence[str]) -> Iterator[_Agent]:
        """A command under `arc record`, without caps of the settings; it does not outlive this."""
        caps = ("--max-steps", "--max-tokens", "--max-usd", "--max-minutes")
        lifted = [word for option in caps for word in (option, "none")]
        environment = {
            name: value for name, value in os.environ.items() if name not in (VARIABLE, "ARC_DB")
        }
        environment |= {SERVER_VARIABLE: self._api.url, "ANTHROPIC_API_KEY": "fire-drill"}
        words = [*self._arc, "record", "--db", str(self._database), *lifted, "--", *command]
        with _Agent(words, environment) as agent:
            yield agent

    def _starts_run(self) -> bool:
        """Is a run begun that asks for it now?"""
        started = 'print(\'{"event": "started"}\')'
        with self._recorded([sys.executable, "-c", started]) as agent:
            started_one = agent.wait_for("started") is not None
            agent.wait()
            return started_one

    def _trace(self) -> Trace | None:
        """The recorded run, None where there is not exactly one."""
        if not self._database.exists():
            return None
        with Store.open(self._database) as store:
            rows = trace_rows(store)
            return read.load(store, rows[0].trace) if len(rows) == 1 else None


def _failures(
    found: Drill, refused: Mapping[str, Any] | None, trace: Trace | None
) -> Iterator[str]:
    if refused is None:
        yield "no call was refused after the order to stop"
    elif refused["status"] != STATUS or "fire drill" not in refused["message"]:
        yield f"a call failed, and not by the order to stop: {refused['message']}"
    if not found.answered:
        yield "the answer in flight did not come whole to the agent"
    if trace is None:
        yield "the recording does not hold exactly one run"
    elif found.calls_recorded != found.calls or found.recorded != found.in_flight:
        yield f"{found.calls_recorded} of {found.calls} answered calls were recorded whole"
    elif STOP_LABEL not in trace.header.labels:
        yield "the recorded run does not say that it was stopped"
    if found.refused > 1:
        yield f"the refused call came {found.refused} times: the SDK retried it"
    if not found.new_run_refused:
        yield "a new run was not refused"
    if not found.resumed:
        yield "recording could not be resumed"


class _Agent:
    """A command whose lines on standard output say what happens to it; a context manager, after
    which it is over."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            words, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._events: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]

    def __enter__(self) -> _Agent:
        for each in self._readers:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, and what it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
        for each in self._readers:
            each.join(5)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def wait(self) -> None:
        """Until it is over; `stop` ends it where that takes too long."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)

    def wait_for(self, event: str, patience_s: float = PATIENCE_S) -> dict[str, Any] | None:
        """The next event of that name, what comes before it left out; None where none comes."""
        until_s = time.monotonic() + patience_s
        while True:
            try:
                found = self._events.get(timeout=max(until_s - time.monotonic(), 0.0))
            except Empty:
                return None
            if found["event"] in (event, "ended"):
                return found if found["event"] == event else None

    def last_words(self) -> str:
        return self._errors[-1] if self._errors else "it said nothing"

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and "event" in found:
                self._events.put(found)
        self._events.put({"event": "ended"})

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(line.strip() for line in self._process.stderr if line.strip())


class _Api:
    """The Messages API on loopback, as far as the agent needs it; a context manager. The end of a
    streamed answer waits for `release`; `served` counts whole answers."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.served = 0
        self._ids = count(1)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> _Api:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()

    def message(self) -> dict[str, Any]:
        return {
            "id": f"msg_{next(self._ids)}", "type": "message", "role": "assistant",
            "model": "fire-drill", "content": [{"type": "text", "text": "Going on."}],
            "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 3},
        }  # fmt: skip

    def events(self) -> Iterator[bytes]:
        """A streamed answer; its second half once it is released."""
        begun = self.message() | {"content": [], "stop_reason": None}
        block = {"type": "text", "text": ""}
        yield _event(type="message_start", message=begun)
        yield _event(type="content_block_start", index=0, content_block=block)
        for at, words in enumerate(WORDS):
            if at:
                self.release.wait(PATIENCE_S)
            delta = {"type": "text_delta", "text": words}
            yield _event(type="content_block_delta", index=0, delta=delta)
        yield _event(type="content_block_stop", index=0)
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        yield _event(type="message_delta", delta=end, usage={"output_tokens": 9})
        yield _event(type="message_stop")

    def count_served(self) -> None:
        with self._lock:
            self.served += 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                self.send_response(200)
                if asked.get("stream"):
                    self.send_header("Content-Type", "text/event-stream")
                    self.send_header("Connection", "close")
                    self.end_headers()
                    for event in api.events():
                        self.wfile.write(event)
                        self.wfile.flush()
                    self.close_connection = True
                else:
                    body = json.dumps(api.message()).encode()
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                api.count_served()

        return Handler


def _event(**said: Any) -> bytes:
    return f"event: {said['type']}\ndata: {json.dumps(said)}\n\n".encode()
