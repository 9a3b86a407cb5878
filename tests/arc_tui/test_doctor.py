"""`arc doctor` as a user types it, and what it writes for a report and for the docs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from arc_tui.commands import COMMANDS, cli
from arc_tui.features.doctor import never_checked, terminal_checks
from replay.doctor.assumptions import AS_OF, ASSUMPTIONS
from replay.doctor.checks import Check
from replay.errors import ArcError, ModelRefused
from replay.store.handle import Store
from tests.replay.doctor_case import MODEL, OTHERWISE, TRIED, Odd


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(COMMANDS, "doctor", "arc_tui.features.doctor:doctor")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ARC_KILL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TMUX", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path / "none"))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def run(db: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["--db", str(db), "doctor", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_without_live_it_asks_nobody_and_makes_no_file(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Odd() as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        result = run(db)
        assert api.received == []
    assert result.return_value == 0
    assert "not created yet" in result.stdout
    assert "No server checked yet" in result.stdout
    assert not db.exists()


def test_a_broken_database_ends_with_one(db: Path) -> None:
    Store.open(db).close()
    db.write_bytes(b"x" * 4096)
    result = run(db)
    assert result.return_value == 1
    assert "is not a database" in result.stdout


@pytest.mark.slow
def test_live_shows_and_keeps_what_holds(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Odd() as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        result = run(db, "--live", "--budget", "0.05")
        assert result.return_value == 0
        assert f"{MODEL} at {api.base_url}: about" in result.stderr
        assert "the limit is $0.0500" in result.stderr
    assert f"hold {len(TRIED)} · not checked {len(ASSUMPTIONS) - len(TRIED)}" in result.stdout
    assert all(each.id in result.stdout for each in ASSUMPTIONS)
    later = run(db)
    assert "last checked" in later.stdout
    assert f"hold {len(TRIED)}" in later.stdout


@pytest.mark.slow
def test_an_assumption_that_fails_ends_with_one_and_says_what_follows(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, otherwise = OTHERWISE["there are no batches"]
    with Odd(otherwise) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        result = run(db, "--live", "--max-calls", "50", "--model", "anthropic/a-model-of-ours")
        assert result.return_value == 1
        assert "price unknown" in result.stderr
    said = "batch does not hold: `--schedule batch` cannot be used here"
    assert said in result.stdout
    assert said in run(db).stdout
    assert run(db).return_value == 0


@pytest.mark.slow
def test_json_holds_checks_and_report(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Odd() as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        view = json.loads(run(db, "--live", "--budget", "0.05", "--json").stdout)
    assert {each["area"] for each in view["checks"]} >= {"database", "machine", "models"}
    assert [each["id"] for each in view["report"]["results"]] == [each.id for each in ASSUMPTIONS]
    assert view["saved"] == [view["report"]]


@pytest.mark.slow
def test_markdown_is_a_table_of_the_last_report(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArcError, match="no report of any model"):
        run(db, "--markdown")
    with Odd() as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        now = run(db, "--live", "--budget", "0.05", "--markdown").stdout
        assert f"- server: {api.base_url}\n" in now
    assert run(db, "--markdown", "--model", MODEL).stdout == now
    rows = [line for line in now.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(ASSUMPTIONS)
    assert all(line.count(" | ") == 4 for line in rows)


@pytest.mark.parametrize("arguments", [["--live"], ["--live", "--budget", "1", "--model", "demo"]])
def test_live_wants_a_limit_and_a_server(db: Path, arguments: list[str]) -> None:
    with pytest.raises(ModelRefused):
        run(db, *arguments)
    assert not db.exists()


def test_the_readme_says_everything_that_was_never_checked() -> None:
    said = never_checked()
    assert AS_OF in said
    rows = [line for line in said.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(ASSUMPTIONS)
    assert all(each.says in said and each.otherwise in said for each in ASSUMPTIONS)


# --- the terminal


def terminal(**beside: object) -> Console:
    given: dict[str, object] = {"width": 120, "height": 40, "color_system": "truecolor"}
    return Console(file=io.StringIO(), force_terminal=True, **{**given, **beside})  # type: ignore[arg-type]


def found(out: Console) -> dict[str, Check]:
    return {each.name: each for each in terminal_checks(out)}


def test_a_small_terminal_is_a_warning() -> None:
    assert found(terminal())["size"].status == "ok"
    assert found(terminal(width=60))["size"].status == "warn"


def test_no_colour_is_no_fault_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(terminal())["colour"].finding == "16 million colours"
    assert found(terminal(color_system=None))["colour"].status == "warn"
    monkeypatch.setenv("NO_COLOR", "1")
    assert found(terminal())["colour"].status == "ok"


def test_tmux_under_a_foreign_name_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tmux" not in found(terminal())
    monkeypatch.setenv("TMUX", "/tmp/tmux")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert found(terminal())["tmux"].status == "warn"
    monkeypatch.setenv("TERM", "tmux-256color")
    assert found(terminal())["tmux"].status == "ok"
