"""The trace of the tour in a database, imported once and copied for each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from arc_tui.features.trace import origins
from replay.models.demo import Demo
from replay.store import encryption
from replay.store.edits import save
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import sample
from tests.arc_tui.free_case import FEW, V4, put_bundled
from tests.messages_api import MessagesApi, Policy
from tests.replay.live_case import clean_environment


@pytest.fixture(autouse=True)
def no_sessions(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is offered to be opened is nothing of whoever runs the tests."""
    for name in (
        "CLAUDE_CONFIG_DIR", "CLINE_DATA_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME",
        "QWEN_HOME", "XDG_DATA_HOME",
    ):  # fmt: skip
        monkeypatch.setenv(name, str(tmp_path_factory.getbasetemp() / "nowhere"))


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked up where the cursor rests is looked up at once."""
    monkeypatch.setattr(origins, "REST_S", 0.0)


@pytest.fixture(autouse=True)
def no_keys_left() -> Iterator[None]:
    """A key that a test gave opens nothing in the next one of its process."""
    yield
    encryption._taken.clear()
    encryption._known.clear()


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tour") / "arc.db"
    put_bundled(path)
    return path


@pytest.fixture(scope="session")
def few_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the bundled runs and an edit of their prompt, to be read only."""
    path = tmp_path_factory.mktemp("few") / "arc.db"
    put_bundled(path, *FEW)
    with open_ledger(path) as store:
        save(store, V4)
    return path


@pytest.fixture(scope="session")
def six_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of every kind, to be read only."""
    path = tmp_path_factory.mktemp("runs") / "arc.db"
    sample.put_runs(path)
    return path


@pytest.fixture
def db(bundled: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    copy = tmp_path / "arc.db"
    copy.write_bytes(bundled.read_bytes())
    return copy


@pytest.fixture
def server() -> Policy:
    """Who answers as the API: the demo model, where a module names nobody else."""
    return lambda body: {**Demo().complete(body, 0), "model": body["model"]}


@pytest.fixture
def api(server: Policy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MessagesApi]:
    """The only address there is to ask."""
    clean_environment(monkeypatch, tmp_path)
    with MessagesApi(server) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        yield running
