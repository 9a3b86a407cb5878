"""A real Chromium without a window, driven over its own protocol: opens pages, presses keys, looks.

What a page is sent over its socket is kept as text, because a terminal draws on a canvas.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PATIENCE_S = 300.0
WIDTH, HEIGHT = 1120, 640

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-port=0", f"--window-size={WIDTH},{HEIGHT}",
)  # fmt: skip

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(
    PROGRAM is None and not os.environ.get("CI"), reason="Chromium is not installed"
)

KEYS = {
    "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "ArrowDown": ("ArrowDown", 40, ""),
}  # fmt: skip
"""The code of a key, its number, and the text it gives."""

_STEERS = re.compile(r"\x1b\[[0-9;?<=>$]*[a-zA-Z~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


class Page:
    """A tab, and what it has been told."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.sent = ""
        self.refused: list[str] = []
        self.loaded: list[tuple[str, int]] = []
        self.asked: list[str] = []

    async def say(self, method: str, **given: Any) -> dict[str, Any]:
        return await self._browser.say(method, session=self._session, **given)

    async def open(self, address: str) -> None:
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.say(f"{domain}.enable")
        await self.say("Page.navigate", url=address)

    async def press(self, *keys: str) -> None:
        """Press keys by name, or by the letter they give."""
        for key in keys:
            code, number, text = KEYS.get(key, ("", 0, key))
            given = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            more = {"text": text} if text else {}
            await self.say("Input.dispatchKeyEvent", type="keyDown", **given, **more)
            await self.say("Input.dispatchKeyEvent", type="keyUp", **given)

    async def value(self, script: str) -> Any:
        """What an expression is worth in the page."""
        found = await self.say(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        return found["result"].get("value")

    async def picture(self) -> bytes:
        """The page as a PNG."""
        found = await self.say("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    async def wait(self, ready: Callable[[], bool]) -> None:
        """Until something is so; fails with what was shown when patience is over."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not ready():
                    await self._browser.news()
        except TimeoutError:
            pytest.fail(f"the page never showed it: {self.loaded} {self.refused} {self.sent!r}")

    async def shows(self, words: str) -> None:
        """Until the app has drawn those words since it was last asked; then what it drew before is
        forgotten."""
        await self.wait(lambda: words in self.sent)
        self.sent = ""

    async def settle(self) -> None:
        """Until it has drawn what it was sent."""
        twice = "new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
        await self.value(f"{twice}.then(() => true)")

    def hear(self, method: str, told: dict[str, Any]) -> None:
        if method == "Network.webSocketFrameReceived":
            frame = told["response"]
            said = frame["payloadData"]
            if frame["opcode"] == 2:
                said = base64.b64decode(said).decode("utf-8", "replace")
            self.sent += _STEERS.sub("", said)
        elif method == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif method == "Network.responseReceived":
            self.loaded.append((told["response"]["url"], told["response"]["status"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.refused.append(f"{told['entry']['text']} {told['entry'].get('url')}")
        elif method == "Runtime.exceptionThrown":
            thrown = told["exceptionDetails"]
            self.refused.append(str(thrown.get("exception", thrown).get("description", thrown)))


class Browser:
    """One Chromium and the connection to it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._news = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    async def say(self, method: str, *, session: str = "", **given: Any) -> dict[str, Any]:
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        message = {"id": self._number, "method": method, "params": given}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        return await asyncio.wait_for(answer, PATIENCE_S)

    async def page(self, address: str, *, apart: bool = False) -> Page:
        """A new tab on an address; one that is `apart` shares no cookies with the others."""
        where = await self.say("Target.createBrowserContext") if apart else {}
        made = await self.say("Target.createTarget", url="about:blank", **where)
        attached = await self.say("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        session = attached["sessionId"]
        page = self._pages[session] = Page(self, session)
        await page.open(address)
        return page

    async def news(self) -> None:
        """Until Chromium tells something."""
        self._news.clear()
        await self._news.wait()

    async def close(self) -> None:
        await self._socket.close()
        await self._listening

    async def _listen(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if not answer.done():
                    if "error" in told:
                        answer.set_exception(RuntimeError(told["error"]["message"]))
                    else:
                        answer.set_result(told["result"])
            elif (page := self._pages.get(told.get("sessionId", ""))) is not None:
                page.hear(told["method"], told["params"])
            self._news.set()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser with nothing in it, which leaves nothing behind."""
    assert PROGRAM is not None, "Chromium is not installed"
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [PROGRAM, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            address = await _address(Path(folder) / "DevToolsActivePort", process)
            async with (
                aiohttp.ClientSession() as client,
                client.ws_connect(address, max_msg_size=0) as socket,
            ):
                browser = Browser(socket)
                yield browser
                await browser.close()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    """Where Chromium listens, once it says so."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            lines = file.read_text().splitlines() if file.exists() else []
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            assert process.poll() is None, "Chromium ended"
            await asyncio.sleep(0.05)
