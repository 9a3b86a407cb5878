"""Spans as an agent would send them, the real listener in a process, and a way to post to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TRACE = "0af7651916cd43dd8448eb211c80319c"


def model_span(number: int, *, trace: str = TRACE, parent: str | None = "a" * 16) -> dict[str, Any]:
    """The call of a step: its user message, and an answer that names the step."""
    start = 1_700_000_000_000_000_000 + number * 10**9
    asked = [{"role": "user", "parts": [{"type": "text", "content": f"question {number}"}]}]
    said = [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": f"answer {number}"}],
            "finish_reason": "stop",
        }
    ]
    return span(
        f"{number + 1:016x}",
        "chat demo",
        start,
        trace=trace,
        parent=parent,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "demo-model",
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 5,
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps(said),
        },
    )


def root_span(*, trace: str = TRACE) -> dict[str, Any]:
    """The agent that made the calls; it comes last, because it ends last."""
    return span(
        "a" * 16,
        "invoke_agent shop",
        1_700_000_000_000_000_000,
        trace=trace,
        attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"},
    )


def span(
    name: str,
    title: str,
    start_ns: int,
    *,
    trace: str,
    parent: str | None = None,
    attributes: dict[str, str | int],
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": trace,
        "spanId": name,
        "name": title,
        "kind": 3,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + 5 * 10**8),
        "attributes": [
            {
                "key": key,
                "value": {"intValue": str(value)}
                if isinstance(value, int)
                else {"stringValue": value},
            }
            for key, value in attributes.items()
        ],
        "status": {},
    }
    return made | ({"parentSpanId": parent} if parent is not None else {})


def export(*spans: dict[str, Any]) -> bytes:
    """One request in JSON."""
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": []},
                    "scopeSpans": [{"scope": {"name": "test"}, "spans": list(spans)}],
                }
            ]
        }
    ).encode()


class Answer(NamedTuple):
    status: int
    kind: str
    body: bytes


class Listener:
    """A running `arc listen`."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(
        self, body: bytes, path: str = "/v1/traces", kind: str = "application/json", **more: str
    ) -> Answer:
        """Post a body; `more` are further headers, `_` for `-` in their names."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        request = urllib.request.Request(
            self.address + path, body, {"Content-Type": kind, **headers}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as found:
                return Answer(found.status, found.headers["Content-Type"], found.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers["Content-Type"], error.read())

    def said(self) -> str:
        """The next line of its results."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, how: int = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(300)


@contextmanager
def listening(db: Path) -> Iterator[Listener]:
    process = subprocess.Popen(
        [sys.executable, "-m", "arc_tui", "listen", "--port", "0", "--db", str(db)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line + process.stderr.read()
        yield Listener(process, int(line.split(",")[0].rpartition(":")[2]))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
