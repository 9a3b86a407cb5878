"""`python -m tests.bench --peer phoenix`: the same spans into Arize Phoenix, and by `arc import`.

Phoenix is installed from the package registry into an environment of its own (`--peer-env` names a
folder that is kept for the next time), and started on loopback ports with SQLite under a folder of
its own, as it comes: both take minutes where others use the machine, and count for nothing. The
corpus is posted to it as OTLP in protobuf, the one encoding it takes, an export a request, encoded
before the clock starts. It is done when every span is in its database.
`arc import` is the whole command, diagnosis included.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from replay.errors import ArcError
from tests.bench import exports
from tests.bench.measure import Row

PHOENIX = "arize-phoenix==20.26.1"
MEGABYTES = 50
GOAL = "goal ≥ 50×"

_START_S = 300.0
_STALLED_S = 120.0
"""No new span for so long, and the rest was lost."""

_FULL = 503
_IDS = ("traceId", "spanId", "parentSpanId")


class Taken(NamedTuple):
    """What came in, how long it took by the wall and of the processor, what it takes on disk."""

    spans: int
    seconds: float
    processor_s: float
    bytes: int


def rows(
    folder: Path, megabytes: int = MEGABYTES, environment: Path | None = None
) -> Iterator[Row]:
    """The corpus, Phoenix, and `arc import`. Raises ArcError where Phoenix cannot be had."""
    began = time.perf_counter()
    python = installed(environment or folder / "peer")
    yield Row(f"{PHOENIX} installed", f"{time.perf_counter() - began:.0f} s", "--peer-env keeps it")
    source = folder / "peer.jsonl"
    made = exports.write(source, megabytes)
    what = f"{made.traces} traces, {made.spans} spans, {made.bytes / 1e6:.0f} MB"
    ours = _imported(source, folder / "peer-arc.db")
    yield Row(f"arc import of {what}", _speed(ours), _size(ours, made.bytes))
    with source.open("rb") as lines:
        bodies = [protobuf(line) for line in lines]
    began = time.perf_counter()
    with serving(python, folder / "peer-work") as (server, port, database):
        yield Row("until it answers", f"{time.perf_counter() - began:.0f} s", "not counted below")
        theirs = _posted(server, port, database, bodies, made.spans)
    lost = f", {made.spans - theirs.spans} lost" if theirs.spans < made.spans else ""
    yield Row(
        f"the same into {PHOENIX}, until all can be queried",
        _speed(theirs) + lost,
        _size(theirs, made.bytes),
    )
    by_wall, by_processor = (
        getattr(theirs, name) / theirs.spans / (getattr(ours, name) / ours.spans)
        for name in ("seconds", "processor_s")
    )
    figure = f"{by_wall:.1f}× as fast, {by_processor:.1f}× by processor"
    yield Row("arc import against it, by span", figure, GOAL)


def _speed(taken: Taken) -> str:
    return (
        f"{taken.spans / taken.seconds:.0f} spans/s, {taken.seconds:.1f} s"
        f" ({taken.processor_s:.1f} s of processor)"
    )


def _size(taken: Taken, of: int) -> str:
    return f"{taken.bytes / of:.2f} of the source on disk"


# --- arc


def _imported(source: Path, database: Path) -> Taken:
    began, before_s = time.perf_counter(), _children_s()
    _run(sys.executable, "-m", "arc_tui", "import", str(source), "--db", str(database))
    seconds, processor_s = time.perf_counter() - began, _children_s() - before_s
    return Taken(_count(database, "span"), seconds, processor_s, _weight(database))


def _children_s() -> float:
    """Seconds of the processor that processes took which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- Phoenix


def installed(environment: Path) -> Path:
    """The Python of an environment with Phoenix; made where it is not there yet."""
    python = environment / "bin" / "python"
    if not python.exists():
        uv = shutil.which("uv")
        if uv is not None:
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(environment))
            _run(uv, "pip", "install", "--quiet", "--python", str(python), PHOENIX)
        else:
            _run(sys.executable, "-m", "venv", str(environment))
            _run(str(python), "-m", "pip", "install", "--quiet", PHOENIX)
    return python


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [*filter(None, done.stderr.splitlines()), *filter(None, done.stdout.splitlines())]
        raise ArcError(
            f"{' '.join(command[:4])} … failed: {said[-1] if said else done.returncode}",
            "the environment of the peer is installed from the package registry; `--peer-env`"
            " names one that is there already",
        )


@contextmanager
def serving(python: Path, work: Path) -> Iterator[tuple[int, int, Path]]:
    """(process, port, database) of a Phoenix that answers; it ends with the block."""
    work.mkdir(parents=True)
    port, grpc = _free_port(), _free_port()
    about = {
        "PHOENIX_WORKING_DIR": str(work),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    with (work / "said.txt").open("wb") as said:
        command = (str(python.with_name("phoenix")), "serve")
        served = subprocess.Popen(command, env=os.environ | about, stdout=said, stderr=said)
        try:
            _wait_for(port, served)
            yield served.pid, port, work / "phoenix.db"
        finally:
            served.terminate()
            served.wait()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _wait_for(port: int, served: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and served.poll() is None:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as asked:
                asked.request("GET", "/healthz")
                if asked.getresponse().status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise ArcError("Phoenix did not start", "look at said.txt in its folder")


def protobuf(line: bytes) -> bytes:
    """An export in protobuf. Its generic JSON has ids in base64, OTLP's own in hex digits."""
    request: Any = json.loads(line)
    for of_resource in request["resourceSpans"]:
        for of_scope in of_resource["scopeSpans"]:
            for span in of_scope["spans"]:
                for name in _IDS:
                    if name in span:
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return ParseDict(request, ExportTraceServiceRequest()).SerializeToString()


def _processor_s(process: int) -> float:
    """Seconds of the processor that a running process took, to the second."""
    asked = ("ps", "-o", "time=", "-p", str(process))
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    days, _, clock = said.rpartition("-")
    hours, minutes, seconds = map(float, clock.split(":"))
    return float(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


def _posted(server: int, port: int, database: Path, bodies: list[bytes], spans: int) -> Taken:
    """Post all, as fast as it takes them, and wait until they are in its database."""
    began, before_s = time.perf_counter(), _processor_s(server)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=_STALLED_S)) as peer:
        for body in bodies:
            while _post(peer, body) == _FULL:
                time.sleep(0.1)
    there, latest = _count(database, "spans"), time.perf_counter()
    while there < spans and time.perf_counter() - latest < _STALLED_S:
        time.sleep(0.05)
        before, there = there, _count(database, "spans")
        latest = time.perf_counter() if there > before else latest
    used_s = _processor_s(server) - before_s
    return Taken(there, latest - began, used_s, _weight(database))


def _post(peer: http.client.HTTPConnection, body: bytes) -> int:
    peer.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    answer = peer.getresponse()
    answer.read()
    if answer.status not in (200, _FULL):
        raise ArcError(f"Phoenix answered {answer.status} to an export")
    return answer.status


def _count(database: Path, table: str) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _weight(database: Path) -> int:
    return sum(part.stat().st_size for part in database.parent.glob(database.name + "*"))
