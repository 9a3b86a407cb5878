"""A hint, `Try: …`, can be pasted: arc's own parser takes every command and option in one.

`TRACE`, `FILE` and the like stand for what only the reader knows. A comma, `or` or a bracket ends a
command, a full stop the hint; words that are no command may stand beside it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from arc_tui.commands import cli
from arc_tui.features.help.command import TOPICS
from tests.sentences import PACKAGES, ROOT, sentences
from tests.spoken import command_at, every_command
from tests.test_docs import command_of

PART = re.compile(r"(?:'[^']*'|(?! or |[,;] | · |[()`\n]).)+")
"""A command, an option with its value, or words: of several in a hint, each."""

BLANK = "X1"
"""Stands for what is filled in."""


def commands_in(sentence: str) -> Iterator[str]:
    """The commands and options that the hints of a sentence offer."""
    for hint in re.findall(r"Try: (.+?)(?:\. |\.?$)", sentence.replace("{}", BLANK), re.M):
        for part in PART.findall(hint):
            line = part.strip().removeprefix("or ").removeprefix("then ")
            if line.startswith(("arc ", "--")):
                yield line


def why_not(line: str) -> str | None:
    """What arc says against a command or options, None where it would begin."""
    first, *words = shlex.split(line)
    if first == "arc":
        command, rest = command_of(words)
        if isinstance(command, click.Group) and rest[:1] != ["--help"]:
            return "is only the first half of a command"
        return _refused(command, rest, whole=True)
    commands = [cli, *(command_at(each) for each in every_command())]
    refusals = [_refused(command, [first, *words], whole=False) for command in commands]
    return None if None in refusals else "belongs to no command"


def _refused(command: click.Command, words: list[str], *, whole: bool) -> str | None:
    """Why a command does not take words; `whole`: it is given no others beside them."""
    context = click.Context(command, info_name="arc")
    try:
        given, left, _ = command.make_parser(context).parse_args(list(words))
    except click.BadArgumentUsage as error:
        return error.format_message() if whole else None
    except click.UsageError as error:
        return error.format_message()
    if left:
        return f"{' '.join(left)} is too much"
    for param in command.params:
        value = given.get(param.name or "")
        values = value if isinstance(value, tuple) else (value,)
        written = [each for each in values if isinstance(each, str)]
        for word in written:
            if refusal := _refused_value(param, word, context):
                return refusal
        if whole and param.required and not written:
            return f"{param.human_readable_name} is missing"
    return None


def _refused_value(param: click.Parameter, word: str, context: click.Context) -> str | None:
    """Why a parameter does not take a value. A word in capitals stands for one; an argument is no
    other word, so that what follows a command is not read as one."""
    if word.isupper():
        return None
    if isinstance(param.type, (click.Choice, click.IntRange)):
        try:
            param.type_cast_value(context, word)
        except click.UsageError as error:
            return error.format_message()
    elif isinstance(param, click.Argument) and word not in ("last", BLANK, *TOPICS):
        return f"{word} is no {param.human_readable_name}"
    return None


HINTS = [
    (path.relative_to(ROOT).as_posix(), line)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    for sentence in sentences(path.read_text())
    for line in commands_in(sentence)
]


@pytest.mark.parametrize(("module", "line"), HINTS)
def test_a_hint_can_be_pasted(module: str, line: str) -> None:
    assert why_not(line) is None, module


def test_hints_are_found_in_sentences_and_judged() -> None:
    assert len(HINTS) > 100
    found = commands_in("No run. Try: arc import PATH, to have one; or --expect 'a, b'. Else none")
    assert list(found) == ["arc import PATH", "--expect 'a, b'"]
    for bad in (
        "arc db", "arc ls --colour", "arc replay --free --edit", "arc replay again", "arc show",
        "--live now", "--max-calls",
    ):  # fmt: skip
        assert why_not(bad) is not None, bad
