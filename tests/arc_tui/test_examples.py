"""The examples in the help of commands: each runs as it stands, on the bundled runs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from arc_tui import importing
from arc_tui.commands import cli
from arc_tui.places import fixtures
from replay.store import encryption
from replay.trace import Json
from tests.spoken import command_at, every_command, spoken

NEEDS_TERMINAL = "the app needs a terminal"

_STORE = "asks a trace store, or forgets one"
PARSED_ONLY = {
    "arc doctor --live --budget 0.50": "calls the server of a provider, with a key",
    "arc fleet add prod clickhouse://reader@clickhouse.example.com:8443/otel --password": _STORE,
    "arc fleet ls prod 'outcome:failed tool:search' --since 7d": _STORE,
    "arc fleet pull prod 'outcome:failed' --since 1d --limit 100": _STORE,
    "arc fleet pull prod tool.error:search --since 2026-11-20 --until 2026-11-21": _STORE,
    "arc fleet rm prod": _STORE,
    "arc pull https://phoenix.example.com --project support --since 1d": _STORE,
    "arc pull prod-langfuse --since 2026-11-20 --until 2026-11-21 --limit 0": _STORE,
    "arc fleet failures prod --since 7d": _STORE,
    "arc fleet failures prod 'tool:refund_order model:claude*' --since 1d --json": _STORE,
    "arc fleet scan prod outcome:failed --since 1d": _STORE,
    "arc fleet scan prod --since 2026-11-20 --dask tcp://scheduler.example.com:8786 --yes": _STORE,
    "arc fleet rm test --keep-findings": _STORE,
    "arc fleet scan prod --since 1d --into team/arc_findings": _STORE,
}
"""Examples whose options are read and which are not run, with the reason."""

KEYED = {("db", "encrypt"), ("db", "decrypt"), ("db", "rekey")}
"""Commands that take a key, and run where the extra `crypt` is installed."""

KEYS = {encryption.KEY: "correct horse", encryption.NEW_KEY: "another key altogether"}

FAILED_RUN = "shop-many-wishes-v5-0"


def examples_of(words: tuple[str, ...]) -> list[str]:
    """The lines under `Examples:` in the help of a command, `()` being `arc` itself."""
    epilog = (command_at(words) if words else cli).epilog or ""
    _, _, below = epilog.partition("Examples:\n")
    return [line.strip() for line in below.splitlines() if line.strip()]


def every_example() -> Iterator[tuple[tuple[str, ...], str]]:
    for words in ((), *every_command()):
        for line in examples_of(words):
            yield words, line


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what examples name: two databases of the bundled runs, their files, prompts and
    a repository of them, an agent; and a replay, its edit and bundle, tags and an export."""
    folder = tmp_path_factory.mktemp("prepared")
    bundled = fixtures() / "demo"
    shutil.copytree(fixtures() / "traces", folder / "traces")
    shutil.copytree(bundled / "prompts", folder / "prompts")
    shutil.copy(bundled / "tools.json", folder / "tools.json")
    (folder / "agent.py").write_text("print('calls no model')\n")
    tasks: list[Json] = [{"task": task, "actions": []} for task in ("many-wishes", "warranty")]
    (folder / "gold.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    (folder / "labels").mkdir()
    label = {"trace": FAILED_RUN, "at": {"step": 4}, "decisive": True, "by": "ann"}
    (folder / "labels" / "shop.jsonl").write_text(json.dumps(label))
    _commit_prompts(folder)
    (folder / "data").mkdir()
    importing.make_demo(folder / "data" / "arc.db")
    for arguments in (
        ("replay", FAILED_RUN, "--system", "prompts/v4.md", "--bundle", "case.zip"),
        ("tag", "add", FAILED_RUN, "4", "h"),
        ("tag", "add", "last", "--clean"),
        ("gold", "import", "gold.jsonl"),
        ("golden", "add", FAILED_RUN, "shop-warranty-v3-0"),
        ("db", "export", "export.jsonl"),
    ):
        assert spoken(*arguments, cwd=folder).code == 0
    shutil.copy(folder / "data" / "arc.db", folder / "data" / "demo.db")
    return folder


def _commit_prompts(folder: Path) -> None:
    """`prompt.md` as it was at v1.0, its next version, and the newest in the work tree."""
    _git(folder, "init", "-q")
    for version in ("v4", "v5"):
        shutil.copy(folder / "prompts" / f"{version}.md", folder / "prompt.md")
        _git(folder, "add", "prompt.md")
        _git(folder, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", version)
        if version == "v4":
            _git(folder, "tag", "v1.0")
    shutil.copy(folder / "prompts" / "v8.md", folder / "prompt.md")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(("git", *arguments), cwd=folder, check=True)


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the prepared folder."""
    return shutil.copytree(prepared, tmp_path / "work")


def test_every_command_has_two_examples() -> None:
    commands = {
        words for words in every_command() if not isinstance(command_at(words), click.Group)
    }
    assert {words for words in commands if len(examples_of(words)) < 2} == set()


def test_only_examples_are_excepted() -> None:
    assert PARSED_ONLY.keys() <= {line for _, line in every_example()}


@pytest.mark.slow
@pytest.mark.parametrize(("words", "line"), list(every_example()))
def test_an_example_runs(
    words: tuple[str, ...], line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def served(*_: object) -> None:
        """Serves nothing: it would until ctrl-c."""

    monkeypatch.setattr("arc_tui.serve.command._serve", served)
    monkeypatch.setattr("arc_tui.features.record.command._listen", served)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # `python`
    arc, *arguments = shlex.split(line)
    assert (arc, *arguments[: len(words)]) == ("arc", *words)
    if line in PARSED_ONLY:
        assert command_at(words).make_context(arc, arguments[len(words) :])
        return
    environment = {"ARC_CONFIG_DIR": str(folder / "config")}
    if words in KEYED:
        pytest.importorskip("sqlcipher3")
        environment |= KEYS
        if words != ("db", "encrypt"):
            for name in ("arc.db", "demo.db"):
                file = ("--db", f"data/{name}")
                assert spoken("db", "encrypt", *file, cwd=folder, **environment).code == 0
    said = spoken(*arguments, cwd=folder, **environment)
    if NEEDS_TERMINAL not in said.err:
        assert said.code in (0, 1), said.err
