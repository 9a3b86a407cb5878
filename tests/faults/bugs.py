"""What is printed of a bug that met a secret: by a command, and by the app."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
import pytest

from arc_tui import ending
from tests.faults import hostile
from tests.faults.outputs import Leak, left
from tests.faults.secrets import Planted

KINDS: dict[str, Callable[[str], Exception]] = {
    "said": RuntimeError,
    "quoted": lambda text: ValueError(f"no such step: {text!r}"),
    "named": KeyError,
    "in a value": lambda text: TypeError({"asked": [text]}),
}
"""How an error tells what it met."""


def of_the_app(corpus: Iterable[Planted]) -> Leak:
    """What stands in the terminal after the app was ended by one."""
    told = [(each, ending.bug_report(error)) for each, error in _raised(corpus)]
    return _leak(told)


def of_a_command(corpus: Iterable[Planted], file: Path) -> Leak:
    """What a command says, and ends with."""
    told = list[tuple[Planted, str]]()
    for each, error in _raised(corpus):

        def broken(*_: object, error: Exception = error) -> click.Command:
            raise error

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("arc_tui.commands.Commands.get_command", broken)
            told.append((each, hostile.said_by(["ls"], file)))
    return _leak(told)


def _raised(corpus: Iterable[Planted]) -> Iterator[tuple[Planted, Exception]]:
    for each in corpus:
        for made in KINDS.values():
            try:
                raise made(each.text)
            except (LookupError, RuntimeError, TypeError, ValueError) as error:
                yield each, error


def _leak(told: list[tuple[Planted, str]]) -> Leak:
    assert all("Error" in said for _, said in told)
    found = [each.name for each, said in told if left([each], said.encode())]
    return Leak(len(told), found)
