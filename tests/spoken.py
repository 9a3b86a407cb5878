"""What `arc` says, and the code it leaves with: its entry point here, or the installed command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from arc_tui.commands import cli, main


def every_command() -> Iterator[tuple[str, ...]]:
    """Every command by its words, groups before what they hold."""
    yield from _below(cli, ())


def _below(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*words, name)
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _below(command, (*words, name))


def command_at(words: Sequence[str]) -> click.Command:
    """The command that these words call."""
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    # One that a test called without the group above it has learned to do without `-h`.
    command._help_option = None
    return command


class Spoken(NamedTuple):
    code: int
    out: str
    err: str


def spoken(*arguments: str, cwd: Path, **environment: str) -> Spoken:
    """The entry point on these words, in this process: a process of its own has first to load all
    that is loaded here. It prints to a pipe."""
    return _run(arguments, cwd, environment, terminal=False)


def on_a_terminal(*arguments: str, cwd: Path, **environment: str) -> Spoken:
    """The same, printed as to a terminal."""
    return _run(arguments, cwd, environment, terminal=True)


def _run(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], *, terminal: bool
) -> Spoken:
    env = {"ARC_DATA_DIR": str(cwd / "data"), **environment}
    with (
        CliRunner().isolation(env=env) as (out, err, _),
        chdir(cwd),
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(sys, "argv", ["arc", *arguments])
        patched.setattr(sys.stdout, "isatty", lambda: terminal)
        with pytest.raises(SystemExit) as left:
            main()
        sys.stdout.flush()
        sys.stderr.flush()
        assert isinstance(left.value.code, int)
        return Spoken(left.value.code, out.getvalue().decode(), err.getvalue().decode())


def installed(*arguments: str, cwd: Path, **environment: str) -> Spoken:
    """The command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "arc_tui", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "ARC_DATA_DIR": str(cwd / "data"), **environment},
        check=False,
    )
    return Spoken(done.returncode, done.stdout, done.stderr)
