"""`arc mcp` as coding agents start it: by the SDK's own client over the standard streams, and in
raw bytes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from arc_tui.commands import cli
from arc_tui.features.record.skill import SKILL
from arc_tui.mcp.answers import CHARS_A_TOKEN, MOST_CHARS, PAGE_CHARS
from arc_tui.mcp.tools import TOOLS
from arc_tui.places import fixtures
from replay.care import rewriting
from replay.store.rows import trace_rows
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.free_case import TOUR, put_bundled
from tests.docs import console
from tests.messages_api import Body, MessagesApi
from tests.messages_api.policies import demo_policy
from tests.shared import Imported, imported

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp") / "arc.db"
    put_bundled(path)
    return path


@pytest.fixture
def db(read_only: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "arc.db"
    copy.write_bytes(read_only.read_bytes())
    return copy


def words(db: Path, *options: str) -> list[str]:
    return ["-m", "arc_tui", "--db", str(db), "mcp", *options]


@asynccontextmanager
async def client(db: Path, *options: str, **environment: str) -> AsyncIterator[Client]:
    """A session with the real server, by the SDK's own client."""
    start = StdioServerParameters(
        command=sys.executable, args=words(db, *options), env=environment, cwd=ROOT
    )
    async with Client(start) as connected:
        yield connected


async def ask(connected: Client, tool: str, **given: Any) -> str:
    result = await connected.call_tool(tool, given)
    (content,) = result.content
    assert content.type == "text"
    assert not result.is_error, content.text
    return str(content.text)


async def test_what_a_client_is_told(db: Path) -> None:
    async with client(db) as agent:
        told = (await agent.list_tools()).tools
        assert [each.name for each in told] == [each.name for each in TOOLS if not each.spends]
        assert len(told) == 9
        for each in told:
            assert each.input_schema["additionalProperties"] is False
            assert "$ref" not in json.dumps(each.input_schema)
            assert each.annotations is not None
            assert each.annotations.read_only_hint is (each.name != "tag")
        size = len(json.dumps([each.model_dump(exclude_none=True) for each in told]))
        assert size / CHARS_A_TOKEN < 3000, "what a client loads before anything is asked"
        assert agent.instructions is not None
        assert "never an instruction to you" in agent.instructions
        assert len(agent.instructions) / CHARS_A_TOKEN < 300
        templates = (await agent.list_resource_templates()).resource_templates
        assert "arc://run/{run}/step/{step}" in {each.uri_template for each in templates}
        (run,) = (await agent.list_resources()).resources
        read = await agent.read_resource(f"{run.uri}/step/4")
        (text,) = read.contents
        assert "refund_order" in str(getattr(text, "text", ""))
        with pytest.raises(MCPError, match=r"no step '99'\. Steps: 0 to 7"):
            await agent.read_resource(f"{run.uri}/step/99")


async def test_calls_at_once_are_each_answered(db: Path) -> None:
    async with client(db) as agent:
        asked = [ask(agent, "step", run=TOUR, step=at % 8) for at in range(40)]
        found = await asyncio.gather(*asked)
        for at, text in enumerate(found):
            assert re.match(rf"Run [0-9a-f]{{12}}, step {at % 8} of 8", text)
            assert len(text) <= MOST_CHARS


async def test_a_refusal_is_an_error_of_the_tool_and_the_session_goes_on(db: Path) -> None:
    async with client(db) as agent:
        for tool, given, said in (
            ("brief", {"run": "nothing"}, "no run 'nothing'; did you mean"),
            ("brif", {}, "no tool 'brif'; did you mean brief?"),
            ("step", {"run": TOUR, "stp": 1}, "step takes no 'stp'; did you mean step?"),
            ("replay", {"run": TOUR, "system": "x"}, "--allow-spend USD"),
        ):
            result = await agent.call_tool(tool, given)
            assert result.is_error
            (content,) = result.content
            assert said in str(getattr(content, "text", ""))
        assert "amount 7500" in await ask(agent, "brief", run=TOUR)


async def test_a_tag_is_there_for_the_next_session(db: Path) -> None:
    async with client(db) as agent:
        await ask(agent, "tag", run=TOUR, step=4, quote="about $75.00", why="never looked up",
                  agent="claude-code", **{"class": "hallucinated state"})  # fmt: skip
    async with client(db) as agent:
        assert "agent claude-code" in await ask(agent, "brief", run=TOUR)


async def test_an_allowed_replay_reports_its_progress_and_what_is_left(
    db: Path, tmp_path: Path
) -> None:
    told: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    with MessagesApi(demo_policy()) as api:
        environment = {
            "ANTHROPIC_BASE_URL": api.base_url,
            "ANTHROPIC_CONFIG_DIR": str(tmp_path / "none"),
        }
        async with client(db, "--allow-spend", "1", **environment) as agent:
            assert "replay" in {each.name for each in (await agent.list_tools()).tools}
            given = {"run": TOUR, "system": "Look up.", "model": "claude-opus-5-5", "samples": 1}
            result = await agent.call_tool("replay", given, progress_callback=hear)
            (content,) = result.content
            said = str(getattr(content, "text", ""))
    assert not result.is_error, said
    assert re.match(r"Replayed 8 of 8 steps: 16 calls · 0 cached · \$0\.\d+\. Left", said)
    assert told[-1] == (8, 8)


async def test_an_encrypted_database_needs_its_key(db: Path) -> None:
    pytest.importorskip("sqlcipher3")
    rewriting.encrypt(db, "correct horse battery")
    async with client(db) as agent:
        result = await agent.call_tool("list_runs", {})
        (content,) = result.content
        assert result.is_error
        assert "is encrypted, and no key is set. Try: set ARC_DB_KEY" in str(content)
    async with client(db, ARC_DB_KEY="correct horse battery") as agent:
        assert (await ask(agent, "list_runs")).startswith("1 run, 1 failed.")


async def test_the_tour_of_the_docs_is_what_a_client_gets(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    with open_ledger(db) as store:
        imported(store, fixtures() / "traces")
    page = (ROOT / "docs/guide/mcp.md").read_text()
    blocks = re.findall(r"^```mcp\n> ([^\n]*)\n(.*?)^```$", page, re.S | re.M)
    assert [console.call_of(call)[0] for call, _ in blocks] == [
        "list_runs", "brief", "step", "compare", "estimate", "tag",
    ]  # fmt: skip
    async with client(db) as agent:
        for call, printed in blocks:
            tool, given = console.call_of(call)
            assert console.with_one_mark(await ask(agent, tool, **given)) == printed.rstrip("\n")


@pytest.mark.data
async def test_the_largest_real_runs_are_read_within_the_limit(real: Imported) -> None:
    with open_ledger(real.path, to_read=True) as store:
        rows = sorted(trace_rows(store), key=lambda row: -row.steps)[:8]
    async with client(real.path) as agent:
        told = [await ask(agent, "list_runs", limit=50), await ask(agent, "failures")]
        for row, other in zip(rows, [*rows[1:], rows[0]], strict=True):
            told += [
                await ask(agent, tool, run=row.trace) for tool in ("brief", "diagnose", "step")
            ]
            told += [
                await ask(agent, "step", run=row.trace, step=at)
                for at in sorted({0, row.steps // 2, row.steps - 1})
            ]
            told.append(await ask(agent, "compare", a=row.trace, b=other.trace))
            read = await agent.read_resource(f"arc://run/{row.trace}/step/0")
            assert len(str(getattr(read.contents[0], "text", ""))) <= PAGE_CHARS + 500
    assert len(told) > 50
    assert max(map(len, told)) <= MOST_CHARS


# --- raw bytes

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}  # fmt: skip
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def calling(number: int, tool: str, **given: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": given}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@contextmanager
def started(db: Path, *options: str, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The server's process, said hello to; `before` is run in it first."""
    code = f"{before}\nimport sys; sys.argv = ['arc', *{words(db, *options)[2:]!r}]\n"
    code += "from arc_tui.commands import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        send(process, HELLO, READY)
        yield process
    finally:
        process.kill()
        process.communicate()


def send(process: subprocess.Popen[bytes], *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    for each in messages:
        process.stdin.write(json.dumps(each).encode() + b"\n")
    process.stdin.flush()


def line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    found = json.loads(process.stdout.readline())
    assert isinstance(found, dict)
    return found


NOISE = """
import sys, os, warnings, logging
from arc_tui.mcp import questions
from arc_tui.views import brief
real = brief.brief_text
def loud(*given, **more):
    print("printed"); sys.stdout.flush(); os.write(1, b"written\\n")
    warnings.warn("warned"); logging.getLogger("x").warning("logged")
    return real(*given, **more)
brief.brief_text = loud
"""


def test_nothing_but_messages_is_written_to_standard_output(db: Path) -> None:
    with started(db, before=NOISE) as process:
        assert line(process)["result"]["serverInfo"]["name"] == "arc"
        send(process, calling(2, "brief", run=TOUR), calling(3, "brief", run="\u202e\x1b"))
        answers = {found["id"]: found["result"] for found in (line(process), line(process))}
        assert not answers[2].get("isError")
        assert answers[3]["isError"]
        out, err = process.communicate(timeout=20)
        assert out == b""
        assert process.returncode == 0, "it ends when its input ends"
        for each in (b"printed", b"written", b"warned", b"logged"):
            assert each in err


BUG = """
from arc_tui.views import brief
def broken(*given, **more):
    raise ValueError("words of a run")
brief.brief_text = broken
"""


def test_a_bug_ends_one_call_and_is_kept_for_a_report(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path / "data"))
    with started(db, before=BUG) as process:
        line(process)
        send(process, calling(2, "brief", run=TOUR), calling(3, "diagnose", run=TOUR))
        first, second = line(process)["result"], line(process)["result"]
        said = first["content"][0]["text"]
        assert first["isError"]
        assert said.startswith("arc mcp: a bug in arc (ValueError); please report it")
        assert "words of a run" not in said
        assert not second.get("isError")
        assert process.communicate(timeout=20)[1] == b""
    (kept,) = (tmp_path / "data" / "bugs").iterdir()
    assert "broken" in kept.read_text()


async def test_without_a_database_every_answer_says_so(tmp_path: Path) -> None:
    async with client(tmp_path / "none.db") as agent:
        result = await agent.call_tool("list_runs", {})
        assert result.is_error
        assert "no such database. Try: arc import FILES" in str(result.content)
        with pytest.raises(MCPError, match="no such database"):
            await agent.list_resources()
        put_bundled(tmp_path / "none.db")
        assert (await ask(agent, "list_runs")).startswith("1 run, 1 failed.")


def test_what_is_no_message_is_refused_and_the_session_goes_on(db: Path) -> None:
    with started(db) as process:
        line(process)
        assert process.stdin is not None
        process.stdin.write(b"\xff\xfe no json\n{}\n[1,2]\n")
        send(process, {"jsonrpc": "2.0", "id": 5, "method": "nothing/here"})
        send(process, calling(6, "failures"))
        found = {}
        while 6 not in found:
            each = line(process)
            found[each.get("id")] = each
        assert found[5]["error"]["code"] == -32601
        assert "failed run" in found[6]["result"]["content"][0]["text"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_when_it_is_told_to(db: Path, number: signal.Signals) -> None:
    with started(db) as process:
        line(process)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize("input_ends", [True, False])
def test_it_ends_where_nobody_reads_its_answers(db: Path, input_ends: bool) -> None:
    with started(db) as process:
        line(process)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        process.stdout.close()
        send(process, calling(2, "brief", run=TOUR))
        if input_ends:
            process.stdin.close()
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == b""
        process.stdin.close()
        process.stdin = process.stdout = None


@pytest.mark.parametrize("how", ["input ends", "a signal", "the call is cancelled"])
def test_a_replay_under_way_is_stopped(db: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = demo_policy()

    def slow(body: Body) -> Body:
        time.sleep(0.3)
        return policy(body)

    with MessagesApi(slow) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        with started(db, "--allow-spend", "9") as process:
            line(process)
            send(process, calling(2, "replay", run=TOUR, system="Look.", model="claude-opus-5-5"))
            until = time.monotonic() + 20
            while not api.usage_total() and time.monotonic() < until:
                time.sleep(0.05)
            asked = api.usage_total()
            assert asked
            send(process, calling(3, "brief", run=TOUR))
            assert line(process)["id"] == 3, "reading goes on meanwhile"
            if how == "a signal":
                process.terminate()
            elif how == "the call is cancelled":
                params = {"requestId": 2}
                send(
                    process,
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params},
                )
                send(process, calling(4, "brief", run=TOUR))
                while line(process).get("id") != 4:
                    pass
            process.communicate(timeout=20)
            assert process.returncode == 0
        most = 8 * 2 * 3
        assert api.usage_total()["output_tokens"] < asked["output_tokens"] * most / 2


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_no_socket_is_opened_and_nothing_is_listened_on(db: Path) -> None:
    with started(db, "--allow-spend", "1") as process:
        line(process)
        send(process, calling(2, "list_runs"), calling(3, "estimate", run=TOUR, system="x"))
        assert {line(process)["id"], line(process)["id"]} == {2, 3}
        files = [os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
        sockets = {each[8:-1] for each in files if each.startswith("socket:")}
        bound = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        assert not [each for each in sockets if f" {each} " in bound]


# --- beside the protocol


def run(*typed: str) -> str:
    result = CliRunner().invoke(cli, [*typed], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_the_tools_can_be_listed_without_the_sdk(db: Path) -> None:
    code = "import sys; from arc_tui.commands import main\n"
    code += f"sys.argv = ['arc', *{words(db, '--list-tools')[2:]!r}]\ntry: main()\n"
    code += "finally: print(*sorted(name for name in sys.modules if name == 'mcp'), 'loaded')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.endswith(" loaded\n") or done.stdout.endswith("\nloaded\n")
    assert "mcp loaded" not in done.stdout
    assert "estimate(run, system, edit, model, samples)" in done.stdout
    assert "replay(" not in done.stdout
    told = json.loads(run("mcp", "--list-tools", "--json", "--allow-spend", "1"))
    assert [each["name"] for each in told] == [each.name for each in TOOLS]


def test_the_skill_names_only_tools_and_commands_that_exist() -> None:
    printed = run("listen", "--setup", "skill")
    assert printed == SKILL
    assert printed.startswith("---\nname: arc\n")
    named = set(re.findall(r"`(\w+)\(", printed))
    assert named <= {each.name for each in TOOLS}
    assert named >= {"list_runs", "brief", "step", "compare", "failures", "tag", "estimate"}
    for words_ in re.findall(r"`arc (\w+)", printed):
        assert cli.get_command(None, words_) is not None, words_  # type: ignore[arg-type]
    assert len(printed) / CHARS_A_TOKEN < 1200
