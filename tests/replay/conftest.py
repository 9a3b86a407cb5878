"""What several modules here ask for: a store, a server that echoes, an environment without keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.store.handle import Store
from tests.messages_api import MessagesApi
from tests.replay.live_case import clean_environment, echo


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi(echo) as running:
        yield running


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither keys nor addresses of the machine's own reach the test."""
    clean_environment(monkeypatch, tmp_path)
