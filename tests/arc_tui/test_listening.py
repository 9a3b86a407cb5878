"""`arc listen`: agents send, traces fill in, and nothing that is sent can break it."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from arc_tui.app import ArcApp
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.runs.widgets import RunTable
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.views.runs import run_rows
from replay import digests
from replay.store import read
from replay.store.handle import now_ns
from replay.store.rows import TraceRow, keep_live, trace_rows
from taxonomy.judgements.diagnoses import diagnosis, undiagnosed
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.live_case import (
    ROOT,
    TRACE,
    Listener,
    export,
    listening,
    model_span,
    root_span,
    span,
)
from tests.arc_tui.opening import until
from tests.screen import settle, text

KEY = digests.trace_id("otlp", TRACE, None)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    with listening(tmp_path / "arc.db") as found:
        yield found


def stored(tmp_path: Path) -> list[TraceRow]:
    with closing(open_ledger(tmp_path / "arc.db")) as store:
        return trace_rows(store, every=True)


# --- traces that grow


@pytest.mark.process
def test_a_run_is_live_while_it_grows_and_whole_when_listening_ends(
    listener: Listener, tmp_path: Path
) -> None:
    assert listener.post(export(model_span(0))).status == 200
    assert listener.said().startswith(f"● {KEY[:8]}")
    (row,) = stored(tmp_path)
    assert (row.live, row.steps, row.agent) == (True, 1, None)

    listener.post(export(model_span(1), root_span()))
    assert listener.end() == 0
    (row,) = stored(tmp_path)
    assert (row.live, row.steps, row.spans, row.agent) == (False, 2, 3, "shop")
    assert listener.said() == f"✓ {KEY[:8]}  question 0: 2 steps, 3 spans\n"


@pytest.mark.process
def test_the_rules_look_at_a_run_when_it_is_over_and_not_before(
    listener: Listener, tmp_path: Path
) -> None:
    listener.post(export(model_span(0)))
    listener.said()
    with closing(open_ledger(tmp_path / "arc.db")) as store:
        assert undiagnosed(store) == []
        assert diagnosis(store, KEY) is None
        assert undiagnosed(store, now_ns() + 10**12) == [KEY]
    listener.end()
    with closing(open_ledger(tmp_path / "arc.db")) as store:
        assert diagnosis(store, KEY) is not None


@pytest.mark.process
def test_what_a_second_listener_hears_of_a_run_extends_it(tmp_path: Path) -> None:
    with listening(tmp_path / "arc.db") as first:
        first.post(export(model_span(0)))
        first.end(signal.SIGTERM)
    with listening(tmp_path / "arc.db") as second:
        second.post(export(model_span(1), root_span()))
        second.end()
    with closing(open_ledger(tmp_path / "arc.db")) as store:
        trace = read.load(store, KEY)
        assert [step.ask.name for step in trace.steps] == ["chat demo", "chat demo"]
        assert len(trace.spans) == 3
        (row,) = run_rows(store)
        assert (row.title, row.live) == ("question 0", False)


@pytest.mark.process
def test_a_killed_listener_leaves_a_valid_database_and_a_run_that_goes_on(tmp_path: Path) -> None:
    with listening(tmp_path / "arc.db") as first:
        first.post(export(model_span(0)))
        first.said()
        first.post(export(model_span(1)))
        first.end(signal.SIGKILL)
    with closing(sqlite3.connect(tmp_path / "arc.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT count(*) FROM trace WHERE complete").fetchone() == (1,)
    with listening(tmp_path / "arc.db") as second:
        second.post(export(model_span(1), model_span(2), root_span()))
        second.end()
    (row,) = stored(tmp_path)
    assert (row.steps, row.live) == (3, False)


@pytest.mark.process
def test_the_word_that_a_run_is_live_does_not_outlast_its_writer(tmp_path: Path) -> None:
    with listening(tmp_path / "arc.db") as first:
        first.post(export(model_span(0)))
        first.said()
        first.end(signal.SIGKILL)
    with closing(open_ledger(tmp_path / "arc.db")) as store:
        assert [row.live for row in trace_rows(store)] == [True]
        keep_live(store, [KEY], now_ns() - 2 * 10**9)
        assert [row.live for row in trace_rows(store)] == [False]
        assert undiagnosed(store) == [KEY]


@pytest.mark.process
def test_a_program_that_is_no_agent_leaves_nothing(listener: Listener, tmp_path: Path) -> None:
    other = root_span()
    other["attributes"] = []
    assert listener.post(export(other)).status == 200
    listener.end()
    assert stored(tmp_path) == []


@pytest.mark.process
def test_spans_before_any_of_an_agent_wait_in_memory_and_are_written_with_it(
    tmp_path: Path,
) -> None:
    other = span("f" * 16, "GET", 1_700_000_000_000_000_000, trace=TRACE, attributes={})
    with listening(tmp_path / "arc.db") as first:
        assert first.post(export(other)).status == 200
        first.end(signal.SIGKILL)
    assert stored(tmp_path) == []
    with listening(tmp_path / "arc.db") as second:
        assert second.post(export(other)).status == 200
        assert second.post(export(model_span(0))).status == 200
        second.end(signal.SIGKILL)
    (row,) = stored(tmp_path)
    assert row.spans == 2


@pytest.mark.process
def test_what_cannot_be_written_now_is_not_acknowledged_and_taken_when_sent_again(
    tmp_path: Path,
) -> None:
    with listening(tmp_path / "arc.db") as listener:
        assert listener.post(export(model_span(0))).status == 200
        with closing(sqlite3.connect(tmp_path / "arc.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert listener.post(export(model_span(1))).status == 503
            other.execute("ROLLBACK")
        assert listener.post(export(model_span(1))).status == 200
        listener.end(signal.SIGKILL)
    (row,) = stored(tmp_path)
    assert row.spans == 2


AGENT = """
import json, sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
exporter = OTLPSpanExporter(endpoint=sys.argv[1] + "/v1/traces", compression=Compression.Gzip)
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("agent")
agent = {"gen_ai.operation.name": "invoke_agent"}
with tracer.start_as_current_span("invoke_agent", attributes=agent):
    for step in range(3):
        with tracer.start_as_current_span("chat", attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "demo-model",
            "gen_ai.input.messages": json.dumps(
                [{"role": "user", "parts": [{"type": "text", "content": f"question {step}"}]}]),
        }):
            pass
        sys.stdin.readline()
provider.shutdown()
"""


@contextmanager
def agent_sending_to(address: str) -> Iterator[subprocess.Popen[str]]:
    """An agent in another process, which goes on by a step for each line it is given."""
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, address], stdin=subprocess.PIPE, text=True
    )
    try:
        yield agent
    finally:
        agent.kill()
        agent.communicate()


def goes_on(agent: subprocess.Popen[str], steps: int = 1) -> None:
    assert agent.stdin is not None
    agent.stdin.write("\n" * steps)
    agent.stdin.flush()


@pytest.mark.pilot
async def test_an_agent_with_the_real_exporter_fills_in_on_an_open_screen(
    listener: Listener, tmp_path: Path
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the exporter")
    app = ArcApp(tmp_path / "arc.db")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("escape")  # what is offered where there are no runs
        await until(pilot, "No runs yet.")
        with agent_sending_to(listener.address) as agent:
            await until(pilot, "question 0")
            assert " ●" in text(app)
            assert "live" in text(app)

            app.screen.query_one(RunTable).action_open_row()
            await until(pilot, "● live · 1 step ")
            screen = app.screen
            assert isinstance(screen, TraceScreen)
            goes_on(agent)
            await until(pilot, "● live · 2 steps")
            assert screen.spans.step == 0
            screen.go_to(1)
            goes_on(agent, 2)
            await until(pilot, "● live · 3 steps")
            await settle(pilot)
            assert screen.spans.step == 1
            assert agent.wait(300) == 0
            assert listener.end() == 0
            await until(pilot, "outcome unknown · 3 steps")
            screen.dismiss()
            await settle(pilot)
            assert isinstance(app.screen, RunsScreen)
            assert "●" not in text(app)


# --- what is answered


@pytest.mark.process
def test_protobuf_is_answered_in_protobuf(listener: Listener, tmp_path: Path) -> None:
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    plain = json.loads(export(model_span(0), root_span()))
    for each in plain["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in each:  # generic JSON of protobuf has bytes in base64
                import base64

                each[name] = base64.b64encode(bytes.fromhex(each[name])).decode()
    body = Parse(json.dumps(plain), ExportTraceServiceRequest()).SerializeToString()
    answer = listener.post(body, kind="application/x-protobuf")
    assert (answer.status, answer.kind) == (200, "application/x-protobuf")
    assert not ExportTraceServiceResponse.FromString(answer.body).HasField("partial_success")
    listener.end()
    assert [row.spans for row in stored(tmp_path)] == [2]


@pytest.mark.process
def test_a_compressed_body_is_unpacked(listener: Listener, tmp_path: Path) -> None:
    body = gzip.compress(export(model_span(0)))
    assert listener.post(body, Content_Encoding="gzip") == (200, "application/json", b"{}")
    listener.end()
    assert [row.steps for row in stored(tmp_path)] == [1]


@pytest.mark.process
def test_spans_that_cannot_be_read_are_counted_and_the_others_are_kept(
    listener: Listener, tmp_path: Path
) -> None:
    nameless = model_span(1) | {"spanId": ""}
    answer = listener.post(export(model_span(0), nameless))
    assert answer.status == 200
    said = json.loads(answer.body)["partialSuccess"]
    assert said == {"rejectedSpans": "1", "errorMessage": "the export: a span has no id"}
    listener.end()
    assert [row.spans for row in stored(tmp_path)] == [1]


def test_partial_success_in_protobuf_reads_as_the_protocol_says() -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    from replay.formats.otlp.exports import said_in_protobuf

    said = said_in_protobuf(300, "a span has no id")
    of_spans = ExportTraceServiceResponse.FromString(said).partial_success
    assert (of_spans.rejected_spans, of_spans.error_message) == (300, "a span has no id")
    of_logs = ExportLogsServiceResponse.FromString(said).partial_success
    assert (of_logs.rejected_log_records, of_logs.error_message) == (300, "a span has no id")


@pytest.mark.parametrize(
    ("body", "kind", "headers", "status", "why"),
    [
        (b"{", "application/json", {}, 400, "it is truncated"),
        (b"[]", "application/json", {}, 400, "not a JSON object"),
        (b'{"resourceSpans": 5}', "application/json", {}, 400, "resourceSpans is not a list"),
        (b"\x0a\xff", "application/x-protobuf", {}, 400, "is truncated"),
        (b"no protobuf", "application/x-protobuf", {}, 400, "not valid OTLP"),
        (b"no gzip", "application/json", {"Content_Encoding": "gzip"}, 400, "decompressed"),
        (gzip.compress(b"{}", mtime=0)[:-9], "application/json", {"Content_Encoding": "gzip"}, 400,
         "is truncated"),
        (b"{}", "application/json", {"Content_Encoding": "br"}, 415, "'br'"),
        (b"{}", "text/plain", {}, 415, "application/json"),
        (b"{}", "application/json", {"Origin": "https://example.org"}, 403, "browser"),
        (b"{}", "application/json", {"Host": "example.org:4318"}, 403, "example.org"),
        (gzip.compress(bytes(65 << 20)), "application/json", {"Content_Encoding": "gzip"}, 413,
         "64 MiB"),
    ],
    ids=["cut", "list", "no list", "endless", "text", "no gzip", "cut gzip", "brotli", "plain",
         "page", "rebound", "bomb"],
)  # fmt: skip
def test_a_bad_body_is_refused_with_a_sentence_and_the_listener_goes_on(
    shared: Listener, body: bytes, kind: str, headers: dict[str, str], status: int, why: str
) -> None:
    answer = shared.post(body, kind=kind, **headers)
    assert answer.status == status
    assert why.encode() in answer.body
    assert shared.post(b"{}").status == 200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    with listening(tmp_path_factory.mktemp("shared") / "arc.db") as found:
        yield found


def test_metrics_are_accepted_and_dropped(shared: Listener) -> None:
    assert shared.post(b'{"resourceMetrics": []}', "/v1/metrics") == (
        200, "application/json", b"{}",
    )  # fmt: skip


@pytest.mark.parametrize("path", ["/api/public/otel/v1/traces", "/otel/v1/traces", "/v1/traces"])
@pytest.mark.slow
def test_spans_are_taken_below_the_path_that_a_service_has_them(
    path: str, listener: Listener, tmp_path: Path
) -> None:
    assert listener.post(export(model_span(0)), path).status == 200
    assert listener.said().startswith(f"● {KEY[:8]}")
    assert [row.steps for row in stored(tmp_path)] == [1]


def test_only_the_three_paths_exist_and_only_posts(shared: Listener) -> None:
    assert shared.post(b"{}", "/v1/profiles").status == 404
    assert shared.post(b"{}", "/").status == 404


@pytest.mark.process
def test_a_taken_port_is_said_with_a_way_out(shared: Listener, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "arc_tui", "listen", "--port", str(shared.port),
         "--db", str(tmp_path / "arc.db")],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2
    assert "is in use" in done.stderr
    assert "--port" in done.stderr


def test_the_setup_prints_where_to_send_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from arc_tui.features.record.command import ALL, SETUPS, listen

    monkeypatch.chdir(tmp_path)
    for name in SETUPS:
        done = CliRunner().invoke(listen, ["--setup", name, "--port", "5000"])
        assert "http://127.0.0.1:5000" in done.output
        assert "{" + "endpoint" not in done.output
    every = CliRunner().invoke(listen, ["--setup", ALL]).output
    assert list(tmp_path.iterdir()) == []
    assert every.count("http://127.0.0.1:4318") >= len(SETUPS)


def test_the_lines_for_a_shell_set_what_claude_code_reads() -> None:
    from arc_tui.features.record.command import CLAUDE_CODE, GENERIC, PYTHON

    for lines in (CLAUDE_CODE, GENERIC):
        script = lines.format(endpoint="http://127.0.0.1:4318") + "env\n"
        done = subprocess.run(
            ["sh", "-e"], input=script, capture_output=True, text=True, check=True
        )
        assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318\n" in done.stdout
        assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\n" in done.stdout
    compile(PYTHON.format(endpoint="http://127.0.0.1:4318"), "setup", "exec")


def test_every_setup_for_a_shell_is_one() -> None:
    from arc_tui.features.record.command import SETUPS

    for name in SETUPS.keys() - {"python", "node"}:
        script = SETUPS[name].format(endpoint="http://127.0.0.1:4318") + "env\n"
        done = subprocess.run(
            ["sh", "-eu"], input=script, capture_output=True, text=True, check=True
        )
        assert "=http://127.0.0.1:4318" in done.stdout, name


@pytest.mark.process
@pytest.mark.parametrize(
    "begun",
    [
        "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n" + '{"resourceSpans":[',
        "Content-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n",
    ],
)
def test_an_agent_that_breaks_off_is_no_traceback(begun: str, listener: Listener) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", listener.port)) as sender:
            sender.sendall(f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n{begun}".encode())
    assert listener.post(export(model_span(0), root_span())).status == 200
    assert listener.end() == 0
    assert listener.process.stderr is not None
    assert "Traceback" not in listener.process.stderr.read()
