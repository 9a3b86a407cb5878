"""A live model against the local server, and requests for it: the ground of its tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.budget import Budget, Limits
from replay.convert import Converter
from replay.models.cached import Ask, Cached
from replay.models.claude import Claude
from replay.models.protocol import name
from replay.store.handle import Store
from replay.trace import Message, Request, extend
from tests.messages_api import Body, MessagesApi, message, text

MODEL = "claude-test"
BODY: Body = {
    "model": MODEL,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}
LARGE: Body = {**BODY, "max_tokens": 64_000}


def clean_environment(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No key, no address, no log-in and no kill file from outside."""
    for variable in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE"):
        monkeypatch.delenv(f"ANTHROPIC_{variable}", raising=False)
    monkeypatch.delenv("ARC_KILL", raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(folder / "none"))


class Waits:
    """Stands where time passes: keeps what it was asked to wait, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def client(api: MessagesApi, waits: Waits | None = None, **beside: Any) -> Claude:
    """A live model at the local server, for which no time passes."""
    given = {"budget": Budget(Limits(calls=1000)), "attempts": 3, "timeout_s": 300.0, **beside}
    return Claude(
        given.pop("name", MODEL),
        base_url=api.base_url,
        sleep=given.pop("sleep", waits or Waits()),
        jitter=lambda: 0.0,
        clock=lambda: 1_000_000_000.0,
        **given,
    )


def kept(store: Store, claude: Claude, api: MessagesApi) -> Cached:
    """A live model behind its stored answers."""
    place = name(api.base_url)
    return Cached(store, claude.name, claude, source="claude", price=claude.cost, server=place)


def saying(words: str) -> Body:
    """A body that says something."""
    return {**BODY, "messages": [{"role": "user", "content": words}]}


def words(body: Body) -> str:
    """What the last message of a body says."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[-1]["text"])


def echo(body: Body) -> Body:
    """A policy: what was said is said again."""
    return message(text(f"You said {words(body)}."), model=body["model"])


def ask(said: str, sample: int = 0, *, model: str = MODEL) -> Ask:
    """A converted request that says something."""
    context = extend(None, [Message(dialect="anthropic", body={"role": "user", "content": said})])
    params = {"max_tokens": 100}
    return Ask(Converter(model).sent(Request(model=model, params=params, context=context)), sample)
