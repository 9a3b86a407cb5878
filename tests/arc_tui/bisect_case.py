"""`arc bisect` and `arc replay --expect` as a user types them, over a few bundled runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from arc_tui import importing
from arc_tui.commands import BISECT
from arc_tui.joint_commands import replay
from arc_tui.places import fixtures
from taxonomy.judgements.schema import open_ledger

TOUR = "shop-many-wishes-v5-0"
LOOP, GUESS = "shop-warranty-v3-0", "shop-where-is-it-v7-0"
CAPITALS = "shop-capitals-v3-0"


def put_runs(path: Path) -> None:
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in (TOUR, LOOP, GUESS, CAPITALS)]
        for _ in importing.import_paths(store, files):
            pass


def prompt(version: int) -> Path:
    return fixtures() / "demo" / "prompts" / f"v{version}.md"


def prompts(versions: Sequence[int]) -> list[str]:
    return [str(prompt(version)) for version in versions]


def run(command: click.Command, db: Path, *arguments: str) -> Result:
    """A command; what it raises is raised here."""
    result = CliRunner().invoke(command, [*arguments, "--db", str(db)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def bisected(db: Path, *arguments: str, way: str = "versions") -> Any:
    """The view, of a search that ended inconclusive too: `arc` leaves with 2 then."""
    given = [way, *arguments, "--json", "--db", str(db)]
    result = CliRunner().invoke(BISECT, given, standalone_mode=False)
    if result.exception is not None and not is_inconclusive(result.exception):
        raise result.exception
    return json.loads(result.stdout)


def is_inconclusive(error: BaseException) -> bool:
    return str(error).startswith(("inconclusive: sample limit reached", "no usable sample"))


def expected(db: Path, *arguments: str) -> Result:
    """`arc replay`, by the code it would end with."""
    return CliRunner().invoke(replay, [*arguments, "--db", str(db)], standalone_mode=False)


class Repository:
    """A git repository of its own, whose history no one's configuration touches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "n@example.com",
            "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "n@example.com",
        }  # fmt: skip
        self.git("init", "-q")

    def git(self, *words: str, **environment: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit(self, subject: str, **files: str) -> str:
        """Write files (`a__md` is `a.md`) and commit them; the short hash."""
        for name, text in files.items():
            path = self.folder / name.replace("__", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("log", "-1", "--format=%h").strip()

    def state(self) -> str:
        """Work tree, index and refs, as git sees them."""
        return self.git("status", "--porcelain") + self.git("rev-parse", "HEAD")


def repository(folder: Path) -> Repository:
    import shutil

    if shutil.which("git") is None:
        if os.environ.get("CI"):
            pytest.fail("git is needed")
        pytest.skip("git is not installed here")
    return Repository(folder)
