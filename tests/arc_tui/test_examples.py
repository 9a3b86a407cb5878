"""The examples in the help of commands: each runs as it stands, on the bundled runs."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from arc_tui import importing
from arc_tui.commands import cli
from arc_tui.places import fixtures
from tests.spoken import command_at, every_command, spoken

NEEDS_TERMINAL = "the app needs a terminal"

WITHOUT: set[tuple[str, ...]] = {
    ("bisect", "hunks"),
    ("bisect", "recovery"),
    ("bisect", "steps"),
    ("bisect", "versions"),
    ("brief",),
    ("bundle", "verify"),
    ("calibrate",),
    ("compare",),
    ("completion",),
    ("cost",),
    ("db", "backup"),
    ("db", "decrypt"),
    ("db", "encrypt"),
    ("db", "export"),
    ("db", "import"),
    ("db", "prune"),
    ("db", "recover"),
    ("db", "rekey"),
    ("db", "scrub"),
    ("db", "verify"),
    ("diagnose",),
    ("doctor",),
    ("edit", "list"),
    ("edit", "show"),
    ("experiment", "inject-error"),
    ("experiment", "paraphrase"),
    ("experiment", "probe"),
    ("failures",),
    ("help",),
    ("judge",),
    ("label",),
    ("listen",),
    ("ls",),
    ("record",),
    ("replay",),
    ("review",),
    ("search",),
    ("show",),
    ("stats",),
    ("tag", "add"),
    ("tag", "list"),
    ("tag", "rm"),
    ("tag", "undo"),
    ("try",),
}
"""Commands whose help has no examples yet. Only ever take some out."""


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
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    importing.make_demo(path)
    return path


@pytest.fixture
def folder(demo: Path, tmp_path: Path) -> Path:
    """A folder with what examples name, and the bundled runs as its database and as the demo's."""
    (tmp_path / "data").mkdir()
    for name in ("arc.db", "demo.db"):
        shutil.copy(demo, tmp_path / "data" / name)
    shutil.copytree(fixtures() / "traces", tmp_path / "traces")
    shutil.copy(fixtures() / "demo" / "prompts" / "v8.md", tmp_path / "prompt.md")
    shutil.copy(fixtures() / "demo" / "tools.json", tmp_path / "tools.json")
    return tmp_path


def test_every_command_has_two_examples_except_those_that_wait_for_theirs() -> None:
    commands = {
        words for words in every_command() if not isinstance(command_at(words), click.Group)
    }
    assert {words for words in commands if len(examples_of(words)) < 2} <= WITHOUT
    assert commands >= WITHOUT


@pytest.mark.parametrize(("words", "line"), list(every_example()))
def test_an_example_runs(
    words: tuple[str, ...], line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def served(*_: object) -> None:
        """Serves nothing: it would until ctrl-c."""

    monkeypatch.setattr("arc_tui.serve.command._serve", served)
    arc, *arguments = shlex.split(line)
    assert (arc, *arguments[: len(words)]) == ("arc", *words)
    said = spoken(*arguments, cwd=folder, ARC_CONFIG_DIR=str(folder / "config"))
    if NEEDS_TERMINAL not in said.err:
        assert said.code in (0, 1), said.err
