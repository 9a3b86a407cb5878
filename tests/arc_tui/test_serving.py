"""`arc serve`: who is let in, what its page may do, and the app in a real browser."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
from asyncio import subprocess as processes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from arc_tui.commands import cli
from arc_tui.serve import server, session
from arc_tui.serve.server import BrowserAccess
from arc_tui.serve.session import Asked, Resized, Size, Typed
from replay.care import rewriting
from replay.errors import ArcError
from tests.arc_tui.live_case import ROOT
from tests.browser import chromium, needs_chromium

PATIENCE_S = 300.0


class Serving(NamedTuple):
    """A server in this process, a client that keeps cookies, and what was told meanwhile."""

    address: str
    client: aiohttp.ClientSession
    told: list[str]

    @property
    def root(self) -> str:
        return self.address.partition("?")[0]


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Serving]:
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    told: list[str] = []
    task = asyncio.create_task(
        server.serve(path, port=0, ready=ready.set_result, tell=told.append, stop=stop)
    )
    jar = aiohttp.CookieJar(unsafe=True)  # it keeps cookies of addresses that are numbers
    async with aiohttp.ClientSession(cookie_jar=jar) as client:
        yield Serving(await ready, client, told)
    stop.set()
    await asyncio.wait_for(task, PATIENCE_S)


async def status(client: aiohttp.ClientSession, address: str, **headers: str) -> int:
    async with client.get(address, headers=headers) as answer:
        return answer.status


# --- who is let in


async def test_the_address_lets_in_one_browser_and_no_second_one(bundled: Path) -> None:
    async with serving(bundled) as there:
        assert await status(there.client, there.root) == 403
        async with there.client.get(there.address) as answer:
            assert answer.status == 200
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert await status(there.client, there.root) == 200
        assert await status(there.client, there.address) == 200, "the same browser comes back"
        async with aiohttp.ClientSession() as another:
            for address in (there.address, there.root, f"{there.root}textual.js"):
                async with another.get(address) as answer:
                    assert answer.status == 403
                    assert "Set-Cookie" not in answer.headers
        assert there.told == [
            "browser connected: the address is used up",
            "browser refused: the address works only once",
        ]


async def test_a_look_that_is_no_visit_does_not_use_the_address_up(bundled: Path) -> None:
    async with serving(bundled) as there:
        for method in ("HEAD", "POST", "OPTIONS"):
            async with there.client.request(method, there.address) as answer:
                assert answer.status == 403
        assert await status(there.client, there.address) == 200


async def test_a_name_that_points_here_is_not_let_in_though_it_knows_everything(
    bundled: Path,
) -> None:
    async with serving(bundled) as there:
        port = there.root.rstrip("/").rpartition(":")[2]
        for host in (f"rebound.example:{port}", "127.0.0.1", f"127.0.0.1.example:{port}", ""):
            assert await status(there.client, there.address, Host=host) == 403
        assert await status(there.client, there.address, Host=f"localhost:{port}") == 200


async def test_a_page_from_elsewhere_opens_no_socket(bundled: Path) -> None:
    async with serving(bundled) as there:
        await status(there.client, there.address)
        for origin in ({}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}):
            assert await status(there.client, f"{there.root}socket", **origin) == 403


def test_a_token_is_good_for_one_use_and_none_for_a_guess() -> None:
    gate = BrowserAccess()
    gate.stand_at(4380)
    assert gate.admit("") is None
    assert gate.admit("\ud800") is None
    header = gate.admit(gate.token)
    assert header is not None
    assert gate.admit(gate.token) is None
    name, _, word = header.partition(";")[0].partition("=")
    assert gate.knows({name: word})
    assert not gate.knows({name: word + "x"})
    assert not gate.knows({})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_another_host_is_refused_with_the_reason(host: str) -> None:
    with pytest.raises(ArcError, match=r"only on 127\.0\.0\.1.*use your API keys") as refused:
        CliRunner().invoke(cli, ["serve", "--host", host], catch_exceptions=False)
    assert "ssh -L 4380:127.0.0.1:4380" in (refused.value.hint or "")


async def test_a_port_that_is_taken_is_said_so(bundled: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ArcError, match=f"127.0.0.1:{port} is in use"):
            await server.serve(
                bundled, port=port, ready=pytest.fail, tell=pytest.fail, stop=asyncio.Event()
            )


# --- the page


async def test_everything_a_page_loads_is_served_here_and_nothing_else_is_allowed(
    bundled: Path,
) -> None:
    async with serving(bundled) as there:
        await status(there.client, there.address)
        async with there.client.get(there.root) as answer:
            page = await answer.text()
            rules = answer.headers["Content-Security-Policy"]
        style = server.files()["page.css"].decode()
        named = set(re.findall(r'(?:src|href)="([^"]+)"', page))
        named |= set(re.findall(r'url\("([^"]+)"\)', style))
        assert named - {"data:,"} == {f"/{name}" for name in server.files()}
        for name in server.files():
            async with there.client.get(there.root + name) as answer:
                assert answer.status == 200
                assert answer.headers["Content-Security-Policy"] == rules
        assert "default-src 'self'" in rules
        assert "frame-ancestors 'none'" in rules
        assert "allow-popups" not in rules
        assert "<script>" not in page, "nothing is run that stands in the page"
        assert await status(there.client, f"{there.root}js/textual.js") == 404


# --- what is said


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_what_is_no_word_of_a_page_is_not_heard(text: str) -> None:
    said = session.parse_message(text)
    assert said is None or session.for_app(said)[:1] in (b"D", b"M", b"")


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_typed_arrives_as_it_is(text: str) -> None:
    assert session.for_app(Typed(text)) == session.packet(b"D", text.encode())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["stdin","\\r"]', Typed("\r")),
        ('["resize",{"width":80,"height":24}]', Resized(Size(width=80, height=24))),
        ('["ping","1"]', Asked("1")),
        ('["resize",{"width":100000,"height":24}]', None),
        ('["resize",{"width":-1,"height":24}]', None),
        ('["blur"]', None),
        ('["exit"]', None),
        ("[]", None),
    ],
)
def test_a_page_is_understood(text: str, said: session.PageMessage | None) -> None:
    assert session.parse_message(text) == said


async def test_of_an_app_only_what_it_shows_is_passed_on() -> None:
    stream = asyncio.StreamReader()
    for data in (
        session.BEGUN,
        session.packet(b"D", b"one"),
        session.packet(b"M", b'{"type": "open_url", "url": "http://example.org"}'),
        session.packet(b"M", b'{"type": "deliver_file_start", "key": "1"}'),
        session.packet(b"D", b"two"),
        b"D\0\0\0\x05cut",
    ):
        stream.feed_data(data)
    stream.feed_eof()
    assert [payload async for payload in session.read_frames(stream)] == [b"one", b"two"]


# --- a tab


@pytest.mark.pilot
async def test_a_tab_shows_an_encrypted_database_and_its_session_ends_with_the_app(
    db: Path,
) -> None:
    rewriting.encrypt(db, "correct horse battery")
    async with serving(db) as there:
        await status(there.client, there.address)
        headers = {"Origin": there.root.rstrip("/")}
        address = f"{there.root}socket?width=100&height=30"
        async with there.client.ws_connect(address, headers=headers) as tab:
            await tab.send_str("no word of a page")
            await tab.send_str('["ping","7"]')
            shown = ""
            while "1 run" not in shown or "pong" not in shown:
                told = await tab.receive(PATIENCE_S)
                shown += told.data if isinstance(told.data, str) else told.data.decode()
            await tab.send_json(["stdin", "\x11"])
            while (await tab.receive(PATIENCE_S)).type is not aiohttp.WSMsgType.CLOSE:
                pass


@pytest.mark.pilot
async def test_an_app_ends_when_whoever_served_it_is_gone(bundled: Path) -> None:
    process = await session._start(session.Served(bundled, None), Size(width=80, height=24))
    assert process.stdin is not None
    assert process.stdout is not None
    drawn = session.read_frames(process.stdout)
    await anext(drawn)
    process.stdin.close()
    async for _ in drawn:
        pass
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


@pytest.mark.process
@needs_chromium
async def test_a_browser_opens_the_runs_and_a_run_and_the_address_is_used_up(db: Path) -> None:
    command = (sys.executable, "-m", "arc_tui", "--db", str(db), "serve", "--port", "0")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=processes.PIPE, stderr=processes.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    address = (await process.stdout.readline()).decode().strip()
    async with chromium() as browser:
        page = await browser.page(address)
        await page.shows("1 run")
        blank = await page.picture()
        await page.press("Enter")
        await page.shows("candidate: step 4")
        assert len(await page.picture()) > 20_000
        assert await page.picture() != blank
        assert page.refused == [], "nothing was forbidden that it needs"
        assert {url.split("/")[2] for url, _ in page.loaded} == {address.split("/")[2]}

        # what stands in a run could at most make the page try
        assert await page.value("window.open('http://127.0.0.1:1/')") is None
        assert await page.value("fetch('http://127.0.0.1:1/').catch(() => 'no')") == "no"
        assert await page.value("navigator.clipboard.readText().catch(() => 'no')") == "no"

        await page.value("navigator.clipboard.writeText = text => { window.copied = text }")
        await page.press("y")
        await page.shows("opied")
        assert "refund" in await page.value("window.copied")

        stranger = await browser.page(address, apart=True)
        await stranger.wait(lambda: bool(stranger.loaded))
        assert [code for _, code in stranger.loaded] == [403]
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
        assert await page.value("document.body.classList.contains('-closed')")
    said = (await process.stderr.read()).decode()
    assert "browser connected" in said
    assert "browser refused" in said
