"""`arc record -- CMD`: what passes is not touched, what is asked is kept, the command is itself."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import pty
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import termios
import threading
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import date
from fcntl import ioctl
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from click.testing import CliRunner

from arc_tui.features.record import recording
from arc_tui.features.record.command import record
from arc_tui.features.record.proxy import Provider, Proxy
from arc_tui.views.runs import run_rows
from replay import messages
from replay.errors import ArcError
from replay.recorder.exchange import RecordedExchange
from replay.recorder.recording import About
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import Trace
from taxonomy.golden.changes import Pinned, add_tasks
from taxonomy.golden.sets import GoldenTask, JudgeCheck, golden_of, read_or_new
from taxonomy.judgements.schema import open_ledger
from tests import openai_api
from tests.messages_api import MessagesApi, message, text
from tests.upstream import Answer, Asked, Reply, Upstream

ROOT = Path(__file__).resolve().parents[2]
ASKED = {"model": "claude-test", "messages": [{"role": "user", "content": "hello"}]}
SAID = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
    "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "output_tokens": 2},
}  # fmt: skip
HOP = {"connection", "host", "keep-alive", "transfer-encoding", "date", "server"}


class Behind:
    """A proxy before a server, and what it heard."""

    def __init__(
        self, upstream: Upstream, proxy: Proxy, heard: asyncio.Queue[RecordedExchange]
    ) -> None:
        self.upstream = upstream
        self.heard = heard
        self.anthropic = proxy.environment()["ANTHROPIC_BASE_URL"]
        self.openai = proxy.environment()["OPENAI_BASE_URL"]

    async def next(self) -> RecordedExchange:
        return await asyncio.wait_for(self.heard.get(), 60)


def unheard() -> str:
    """An address on loopback at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{bound.getsockname()[1]}"


@asynccontextmanager
async def behind(
    answer: Answer, *, gone: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Behind]:
    heard: asyncio.Queue[RecordedExchange] = asyncio.Queue()
    with Upstream(answer, tls=tls) as upstream:
        url = unheard() if gone else upstream.url
        providers = (
            Provider("anthropic", "ANTHROPIC_BASE_URL", url),
            Provider("openai", "OPENAI_BASE_URL", f"{url}/v1"),
        )

        def take(each: RecordedExchange) -> asyncio.Future[None]:
            heard.put_nowait(each)
            kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            kept.set_result(None)
            return kept

        async with Proxy(providers, take) as proxy:
            yield Behind(upstream, proxy, heard)


@asynccontextmanager
async def asking() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        yield client


def whole(asked: Asked) -> Reply:
    return Reply(pieces=[json.dumps(SAID).encode()])


# --- what passes


async def test_every_byte_and_header_passes_and_none_is_kept() -> None:
    body = gzip.compress(json.dumps(SAID).encode(), mtime=0)
    sent = (
        ("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("X-Odd", "yes"),
        ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("request-id", "req_1"),
    )  # fmt: skip
    headers = {
        "x-api-key": "sk-secret", "anthropic-version": "2026-10-21", "X-Custom": "Ünïque".encode(),
        "Accept-Encoding": "gzip", "User-Agent": "agent/1", "Content-Type": "application/json",
        "Accept": "application/json", "Connection": "X-Between, keep-alive", "X-Between": "us",
    }  # fmt: skip
    async with behind(lambda _: Reply(pieces=[body], headers=sent)) as it, asking() as client:
        path = "/v1/messages?beta=true&q=a%2Fb%20c"
        async with client.stream("POST", it.anthropic + path, json=ASKED, headers=headers) as reply:  # type: ignore[arg-type]
            raw = b"".join([data async for data in reply.aiter_raw()])
        heard = await it.next()
    (asked,) = it.upstream.received
    assert (asked.path, json.loads(asked.body)) == (path, ASKED)
    passed = {name.lower(): value for name, value in asked.headers if name.lower() not in HOP}
    assert passed == {
        "x-api-key": "sk-secret", "anthropic-version": "2026-10-21",
        "x-custom": "Ünïque".encode().decode("latin-1"), "accept-encoding": "gzip",
        "user-agent": "agent/1", "content-type": "application/json", "accept": "application/json",
        "content-length": str(len(asked.body)),
    }  # fmt: skip
    assert raw == body
    back = [(n.lower(), v) for n, v in reply.headers.multi_items() if n.lower() not in HOP]
    assert sorted(back) == sorted(
        [*((n.lower(), v) for n, v in sent), ("content-length", str(len(body)))]
    )
    assert json.loads(heard.answer or b"") == SAID
    assert (heard.status, heard.request_id, heard.path) == (200, "req_1", "/v1/messages")
    assert b"sk-secret" not in repr(heard).encode()


async def test_a_stream_passes_piece_by_piece_as_it_comes() -> None:
    goes_on = threading.Event()

    def pieces() -> Iterator[bytes]:
        for at, piece in enumerate(openai_api.events(json.loads(_response()))):
            yield piece
            if at == 0:
                assert goes_on.wait(60)

    def answer(asked: Asked) -> Reply:
        return Reply(pieces=pieces(), headers=openai_api.EVENTS, chunked=True)

    async with behind(answer) as it, asking() as client:
        body = {"model": "m", "input": "hello", "stream": True}
        async with client.stream("POST", it.openai + "/responses", json=body) as reply:
            coming = reply.aiter_raw()
            first = await anext(coming)
            assert b"response.created" in first
            assert it.heard.empty()
            goes_on.set()
            rest = b"".join([data async for data in coming])
        heard = await it.next()
    assert first + rest == b"".join(openai_api.events(json.loads(_response())))
    assert heard.answer == first + rest
    assert heard.first_ns is not None
    assert heard.start_ns <= heard.first_ns <= heard.end_ns


def _response() -> bytes:
    return b"".join(openai_api.response({"input": "hello"}).pieces)


def _packed(how: str, data: bytes) -> bytes:
    match how:
        case "gzip":
            return gzip.compress(data)
        case "deflate":
            return zlib.compress(data)
        case "br":
            brotli: Any = pytest.importorskip("brotli", reason="needs the package brotli")
            return bytes(brotli.compress(data))
        case _:
            newer = sys.version_info >= (3, 14)
            zstd = import_module("compression.zstd" if newer else "backports.zstd")
            return bytes(zstd.compress(data))


@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "zstd"])
async def test_what_is_packed_passes_packed_and_is_kept_unpacked(how: str) -> None:
    answer, request = json.dumps(SAID).encode(), json.dumps(ASKED).encode()
    packed, sent = _packed(how, answer), _packed(how, request)
    headers = (("Content-Type", "application/json"), ("Content-Encoding", how))
    async with behind(lambda _: Reply(pieces=[packed], headers=headers)) as it, asking() as client:
        async with client.stream(
            "POST", f"{it.anthropic}/v1/messages", content=sent,
            headers={"Content-Encoding": how},
        ) as reply:  # fmt: skip
            assert b"".join([data async for data in reply.aiter_raw()]) == packed
        heard = await it.next()
    assert it.upstream.received[0].body == sent
    assert (heard.request, heard.answer) == (request, answer)


@pytest.mark.parametrize(("there", "passed"), [(True, "gzip, br;q=0.9"), (False, "gzip")])
async def test_an_answer_that_nobody_here_can_unpack_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, there: bool, passed: str
) -> None:
    monkeypatch.setattr("arc_tui.features.record.proxy.can_brotli", lambda: there)
    async with behind(whole) as it, asking() as client:
        headers = {"Accept-Encoding": "gzip, br;q=0.9"}
        await client.post(f"{it.anthropic}/v1/messages", json=ASKED, headers=headers)
    assert it.upstream.received[0].header("accept-encoding") == passed


async def test_a_request_in_pieces_passes_in_pieces() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b'{"model": "m", ', b'"messages": []}'):
            yield piece

    async with behind(whole) as it, asking() as client:
        await client.post(f"{it.anthropic}/v1/messages", content=pieces())
        heard = await it.next()
    assert it.upstream.received[0].body == heard.request == b'{"model": "m", "messages": []}'
    assert it.upstream.received[0].header("transfer-encoding") == "chunked"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"), ("HEAD", "/v1/models"), ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/messages/batches"), ("DELETE", "/v1/files/file_1"),
    ],
)  # fmt: skip
async def test_what_calls_no_model_passes_and_is_not_heard(method: str, path: str) -> None:
    moved = (("Location", "/elsewhere"),)
    async with (
        behind(lambda _: Reply(status=307, headers=moved)) as it,
        asking() as client,
    ):
        reply = await client.request(method, it.anthropic + path)
        assert (reply.status_code, reply.headers["location"]) == (307, "/elsewhere")
        assert it.heard.empty()
    assert [(each.method, each.path) for each in it.upstream.received] == [(method, path)]


async def test_who_does_not_know_the_word_is_not_served() -> None:
    async with behind(whole) as it, asking() as client:
        here, word, name = it.anthropic.rsplit("/", 2)
        for address in (here, f"{here}/{name}", f"{here}/{word}", f"{here}/{word}x/{name}"):
            reply = await client.post(f"{address}/v1/messages", json=ASKED)
            assert reply.status_code == 404
    assert it.upstream.received == []


# --- what breaks


async def test_a_provider_that_cannot_be_reached_is_an_error_of_the_call() -> None:
    async with behind(whole, gone=True) as it, asking() as client:
        reply = await client.post(f"{it.anthropic}/v1/messages", json=ASKED)
        heard = await it.next()
    assert reply.status_code == 502
    assert reply.json()["error"]["message"].startswith("arc record: connection lost")
    assert heard.status is None
    assert "connection lost" in str(heard.broken)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that nobody trusts yet, and beside it its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    made = tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", tmp_path / "key.pem", "-out", made, "-days", "2",
         "-subj", "/CN=arc", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@pytest.mark.parametrize(("trusted", "status"), [(False, 502), (True, 200)])
async def test_a_provider_is_believed_only_with_a_certificate_that_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, status: int
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, certificate.with_name("key.pem"))
    async with behind(whole, tls=tls) as it, asking() as client:
        reply = await client.post(f"{it.anthropic}/v1/messages", json=ASKED)
        heard = await it.next()
    assert reply.status_code == status
    assert ("CERTIFICATE_VERIFY_FAILED" in str(heard.broken)) == (not trusted)


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(chunked: bool) -> None:
    pieces = [json.dumps(SAID).encode()]
    broken = Reply(pieces=pieces, chunked=chunked, cut=True)
    async with behind(lambda _: broken) as it, asking() as client:
        with pytest.raises(httpx2.TransportError):
            await client.post(f"{it.anthropic}/v1/messages", json=ASKED)
        heard = await it.next()
    assert heard.status == 200
    assert "connection lost" in str(heard.broken)


async def test_a_client_that_leaves_ends_the_call_at_the_provider_too() -> None:
    left = threading.Event()

    def pieces() -> Iterator[bytes]:
        try:
            for _ in range(10_000_000):
                yield b"data: {}\n\n" * 1000
        finally:
            left.set()

    def answer(asked: Asked) -> Reply:
        return Reply(pieces=pieces(), headers=openai_api.EVENTS, chunked=True)

    async with behind(answer) as it, asking() as client:
        async with client.stream("POST", f"{it.openai}/chat/completions", json=ASKED) as reply:
            await anext(reply.aiter_raw())
        heard = await it.next()
        assert await asyncio.to_thread(left.wait, 60)
    assert heard.broken == "the client disconnected before the end"


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(ArcError, match="OPENAI_BASE_URL is not a server address"):
        Proxy((Provider("openai", "OPENAI_BASE_URL", "localhost:1"),), lambda _: asyncio.sleep(0))


# --- the command

AGENT = """
import json, os, signal, sys, urllib.request

def ask(said, variable="ANTHROPIC_BASE_URL", path="/v1/messages"):
    body = {"model": "claude-test", "max_tokens": 9, "messages": said}
    headers = {"x-api-key": "local", "anthropic-version": "2026-10-21"}
    request = urllib.request.Request(
        os.environ[variable] + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return json.loads(reply.read())

said = [{"role": "user", "content": "hello"}]
answer = ask(said)
"""


def agent(*lines: str) -> list[str]:
    return [sys.executable, "-c", AGENT + "\n".join(lines)]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesApi]:
    with MessagesApi(lambda body: message(text(f"{len(body['messages'])} messages"))) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nobody listens there
        yield running


def only(path: Path) -> Trace:
    with Store.open(path) as store:
        (row,) = trace_rows(store)
        return read.load(store, row.trace)


@pytest.mark.pilot
async def test_a_command_is_one_run_and_its_exit_code_is_passed_on(
    api: MessagesApi, tmp_path: Path
) -> None:
    command = agent(
        "said += [{'role': 'assistant', 'content': answer['content']}]",
        "said += [{'role': 'user', 'content': 'and now?'}]",
        "ask(said)",
        "ask([{'role': 'user', 'content': 'another matter'}])",
        "sys.exit(7)",
    )
    about = About(task="t", variant="v", labels={"a": "b"})
    done = await recording.record(tmp_path / "arc.db", command, about)
    assert (done.code, done.trouble, done.unread) == (7, None, 0)
    trace = only(tmp_path / "arc.db")
    assert [trace.id] == [each.id for each in done.traces]
    assert trace.header.title == "hello"
    assert (trace.header.task, trace.header.variant, trace.header.labels) == ("t", "v", {"a": "b"})
    said = [messages.text(step.ask.response.message) for step in trace.steps
            if step.ask.response.message]  # fmt: skip
    assert said == ["1 messages", "3 messages", "1 messages"]
    with open_ledger(tmp_path / "arc.db") as store:
        (row,) = run_rows(store)
        assert not row.live


@pytest.mark.pilot
async def test_every_conversation_is_a_run_where_that_is_wanted(
    api: MessagesApi, tmp_path: Path
) -> None:
    command = agent("ask([{'role': 'user', 'content': 'another matter'}])")
    done = await recording.record(tmp_path / "arc.db", command, About(), split=True)
    assert sorted(str(each.title) for each in done.traces) == ["another matter", "hello"]


@pytest.mark.pilot
async def test_a_key_in_the_title_is_not_told_either(api: MessagesApi, tmp_path: Path) -> None:
    key = "sk-ant-" + "k9" * 12
    command = agent(f"ask([{{'role': 'user', 'content': 'use {key}'}}])")
    done = await recording.record(tmp_path / "arc.db", command, About(), split=True)
    told = " ".join(str(each.title) for each in done.traces)
    assert "use [[SECRET:anthropic_key:" in told
    assert key not in told


@pytest.mark.pilot
async def test_both_providers_are_heard(
    api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Upstream(openai_api.answer) as openai:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{openai.url}/v1")
        command = agent("ask(said, 'OPENAI_BASE_URL', '/chat/completions')")
        done = await recording.record(tmp_path / "arc.db", command, About())
    assert done.code == 0
    found = {step.ask.response.model for step in only(tmp_path / "arc.db").steps}
    assert found == {"claude-test", "gpt-test-1"}
    assert [each.path for each in openai.received] == ["/v1/chat/completions"]


@pytest.mark.pilot
async def test_a_command_ended_by_a_signal_has_the_code_that_shells_give(
    api: MessagesApi, tmp_path: Path
) -> None:
    command = agent("os.kill(os.getpid(), signal.SIGTERM)")
    done = await recording.record(tmp_path / "arc.db", command, About())
    assert done.code == 128 + signal.SIGTERM
    assert len(only(tmp_path / "arc.db").steps) == 1


def arc(*arguments: str, **beside: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "arc_tui", "record", *arguments],
        cwd=ROOT, text=True, capture_output=True, check=False, **beside,
    )  # fmt: skip


@pytest.mark.process
def test_the_command_has_its_input_and_output_and_arc_says_the_rest(
    api: MessagesApi, tmp_path: Path
) -> None:
    db = str(tmp_path / "arc.db")
    command = agent("print(sys.stdin.read(), sys.argv[1:])")
    done = arc("--db", db, "--label", "by=me", "--", *command, "--db", "-x", input="in")
    assert (done.returncode, done.stdout) == (0, "in ['--db', '-x']\n")
    trace = only(tmp_path / "arc.db")
    assert done.stderr == (
        f"recorded {trace.id[:8]}  hello: 1 step\nnext: arc show {trace.id[:8]} --db {db}\n"
    )
    assert trace.header.labels["by"] == "me"
    assert trace.header.labels["command"].endswith("--db -x")


@pytest.mark.process
def test_a_run_is_stamped_with_the_golden_set_that_it_is_measured_on(
    api: MessagesApi, tmp_path: Path
) -> None:
    db, golden = str(tmp_path / "arc.db"), tmp_path / "golden"
    task = GoldenTask(
        id="a", task="a", text="hello", k=1, reason="x", check=(JudgeCheck(item="ok?"),)
    )
    made = add_tasks(read_or_new(golden), [(task, Pinned())], date(2026, 11, 28))
    done = arc("--db", db, "--golden", str(golden), "--task", "a", "--", *agent("pass"))
    assert done.returncode == 0, done.stderr
    assert golden_of(only(tmp_path / "arc.db").header) == made.golden
    (golden / "a.toml").write_text((golden / "a.toml").read_text().replace("k = 1", "k = 2"))
    done = arc("--db", db, "--golden", str(golden), "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not as it was frozen" in done.stderr


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["true"], 0, "nothing recorded: the command made no model call"),
        (["no-such-command"], 127, "arc: no-such-command: cannot run: no such file"),
        (["/"], 126, "arc: /: cannot run: permission denied"),
    ],
    ids=["quiet", "missing", "folder"],
)
def test_a_command_that_calls_no_model_or_is_none_is_said(
    tmp_path: Path, command: list[str], code: int, said: str
) -> None:
    given = ["--db", str(tmp_path / "arc.db"), "--", *command]
    done = CliRunner().invoke(record, given, standalone_mode=False)
    assert (done.return_value, done.stdout) == (code, "")
    assert done.stderr.startswith(said)


WAITS = (
    "told = []",
    "signal.signal(signal.SIGINT, lambda *_: told.append(print('told', flush=True)))",
    "print('ready', flush=True)",
    "sys.stdin.readline()",
    "sys.exit(10 + len(told))",
)


@pytest.mark.process
def test_an_interrupt_is_handed_to_the_command_and_what_was_recorded_is_kept(
    api: MessagesApi, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "arc_tui", "record", "--db", str(tmp_path / "arc.db"), "--",
         *agent(*WAITS)],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "told\n"
        process.communicate("\n")
    assert process.returncode == 11
    assert len(only(tmp_path / "arc.db").steps) == 1


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal that throws nothing away: by default ctrl-c also drops what was printed and not
    yet read, which may be what the command says of that very ctrl-c."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] |= termios.NOFLSH
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.process
def test_ctrl_c_at_a_terminal_reaches_the_command_once(api: MessagesApi, tmp_path: Path) -> None:
    with terminal() as (ours, theirs):
        process = subprocess.Popen(
            [sys.executable, "-m", "arc_tui", "record", "--db", str(tmp_path / "arc.db"), "--",
             *agent(*WAITS)],
            cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        with process:
            shown = b""
            for wanted, typed in ((b"ready", b"\x03"), (b"told", b"\x03"), (b"told", b"\n")):
                while wanted not in shown:
                    shown += os.read(ours, 1000)
                shown = shown.partition(wanted)[2]
                os.write(ours, typed)
            while b"next:" not in shown:
                shown += os.read(ours, 1000)
        assert process.returncode == 12


@pytest.mark.slow
@pytest.mark.parametrize("begun", ["Content-Length: 100000\r\n\r\n{", "Content-Length: 0\r\n\r\n"])
async def test_a_client_that_breaks_off_is_no_error_in_the_log(
    begun: str, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(_: Asked) -> Reply:
        time.sleep(0.2)
        return whole(_)

    async with behind(slow) as it, asking() as client:
        place = urlsplit(f"{it.anthropic}/v1/messages")
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\n{begun}".encode())
        await writer.drain()
        writer.transport.abort()
        await asyncio.sleep(0.5)
        assert (await client.post(f"{it.anthropic}/v1/messages", json=ASKED)).status_code == 200
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
