"""The console blocks of a page, run again: what stands under each command is what it prints.

Every line `$ arc …` that begins a ```console block, or follows an empty line there, is run, in its
order, over one database a page, and the lines under it become its output; `| head -N` cuts it, and
hides an answer “no” (code 1), as it would in a shell. Else a command that leaves with another code
than 0 states it: `(exit code 1)`. A ```toml block that begins with `# NAME` is that file. In a
```mcp block `> tool(name="value")` is a call of `arc mcp`, and what follows its answer. Other
commands belong into ```sh blocks, which are not run.

`<!-- files: NAME = PATH; NAME = PATH -->` puts files or folders beside the commands: of the
fixtures, or real ones that are not ours; `seed/FORMAT` is the small run of a format that tests
write themselves. Where real ones are absent, the page stays as it is.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from arc_tui.mcp.session import Call, Session
from arc_tui.mcp.tools import find_tool
from arc_tui.places import fixtures
from tests.shared import DATA
from tests.spoken import on_a_terminal, spoken

_FILES = re.compile(r"<!-- files: (.*?) -->", re.S)
_BLOCK = re.compile(r"^```(console|mcp|toml)\n(.*?)^```$", re.S | re.M)
_CUT = re.compile(r" \| head -(\d+)$")
_STYLES = re.compile(r"\x1b\[[\d;]*m")
_STATED = re.compile(r"^\(exit code (\d+)\)$")

AT_HOME = {"COLUMNS": "120", "TERM": "xterm", "NO_COLOR": "1", "TZ": "UTC", "ARC_USER": "you"}


def files(text: str) -> dict[str, Path]:
    """The files that the commands of a page read: their names there, and where they lie."""
    pairs = [pair.split("=") for found in _FILES.findall(text) for pair in found.split(";") if pair]
    return {name.strip(): _lying(path.strip()) for name, path in pairs}


def _lying(path: str) -> Path:
    """Where a file of the fixtures lies, also in a wheel, or a real one beside the checkout, or one
    that is written for it."""
    first, _, rest = path.partition("/")
    if first == "seed":
        return _seed(rest)
    return fixtures() / rest if first == "fixtures" else DATA / path


_written = tempfile.TemporaryDirectory(prefix="arc-docs-seeds-")


@cache
def _seed(name: str) -> Path:
    from tests.hostile import SEEDS, written  # the tests of every format

    path = Path(_written.name) / name
    path.write_bytes(written(SEEDS[name]()))
    return path


def played(text: str) -> str:
    """The page with the output of its commands as it is today.

    Raises RuntimeError where a command leaves with a code that is not stated.
    """
    needed = files(text)
    if not all(path.exists() for path in needed.values()):
        return text
    with tempfile.TemporaryDirectory(prefix="arc-docs-") as folder:
        here = Path(folder)
        for name, path in needed.items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).symlink_to(path)
        return _BLOCK.sub(lambda found: _block(here, found[1], found[2]), text)


def _block(here: Path, kind: str, body: str) -> str:
    if kind == "toml":
        first = body.partition("\n")[0]
        if first.startswith("# ") and first.endswith(".toml"):
            (here / first.removeprefix("# ")).write_text(body)
    elif kind == "mcp":
        call = body.partition("\n")[0]
        body = f"{call}\n{_answered(here, call.removeprefix('> '))}\n"
    else:
        body = "".join(f"{line}\n" for line in _run(here, body))
    return f"```{kind}\n{body}```"


def call_of(written: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a call as answers write it: `step(run="3f2a", step=4)`."""
    found = re.fullmatch(r"(\w+)\((.*)\)", written)
    assert found is not None, written
    pairs = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|[^,]+)', found[2])
    return found[1], {name: json.loads(value) for name, value in pairs}


MARK = "0123456789abcdef"
"""Stands for the number of a data mark, which is another one each time."""


def _answered(here: Path, written: str) -> str:
    """What a call is answered, on the database of the page."""
    tool, arguments = call_of(written)
    session = Session(next(here.rglob("arc.db")))
    return with_one_mark(find_tool(session, tool).answer(session, Call(), arguments).text())


def with_one_mark(answer: str) -> str:
    """An answer with the number that stands for all."""
    mark = re.search(r"^<<< data ([0-9a-f]{16})$", answer, re.M)
    return answer if mark is None else answer.replace(mark[1], MARK)


def _run(here: Path, body: str) -> Iterator[str]:
    lines = body.splitlines()
    starts = [
        index
        for index, line in enumerate(lines)
        if line.startswith("$ ") and (index == 0 or not lines[index - 1])
    ]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if start > 0:
            yield ""
        stated = _STATED.match(next((line for line in reversed(lines[start:end]) if line), ""))
        yield lines[start]
        yield from _printed(here, lines[start].removeprefix("$ "), int(stated[1]) if stated else 0)


def _printed(here: Path, line: str, code: int) -> list[str]:
    cut = _CUT.search(line)
    first, *words = shlex.split(line[: cut.start()] if cut else line)
    if first != "arc":
        raise RuntimeError(f"{line}: only arc is run in a console block")
    run = spoken if cut else on_a_terminal
    found = run(*words, cwd=here, HOME=str(here), **AT_HOME)
    if found.code != code and not (cut and found.code == 1):
        raise RuntimeError(f"{line}: exit code {found.code}\n{found.out}{found.err}")
    text = _STYLES.sub("", found.out if code == 0 else found.out + found.err)
    lines = [each.rstrip() for each in text.replace(f"{here}/", "").rstrip().splitlines()]
    lines = lines[: int(cut[1])] if cut else lines
    return [*lines, *([f"(exit code {code})"] if code else [])]
