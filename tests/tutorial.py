"""The tutorial of the README, run again: what stands under each command is what it prints.

The prose and the commands are the README's; between its marks every line that begins with `$ arc`
is run, in its order, over one database, and the lines under it become its output. `| head -N` cuts
it, as it would in a shell. A block of TOML that begins with `# NAME` is that file. The trace is a
real one that is not ours: without `../shared` the text stays as it is.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from arc_tui.commands import cli
from tests.shared import DATA

START, END = "<!-- tutorial -->", "<!-- /tutorial -->"
REAL = DATA / "tau_bench" / "gpt-4o-airline.json"

_BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.S)
_CUT = re.compile(r" \| head -(\d+)$")


def rendered(text: str) -> str:
    """The README with the tutorial's output as it is today. Raises ValueError without the marks."""
    if not REAL.exists():
        return text
    before, start, rest = text.partition(START)
    told, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"README.md has no block {START} … {END}")
    with tempfile.TemporaryDirectory(prefix="arc-tutorial-") as folder, chdir(folder):
        Path(REAL.name).symlink_to(REAL)
        again = _BLOCK.sub(lambda found: _played(found[1], found[2]), told)
    return f"{before}{start}{again}{end}{after}"


def _played(kind: str, body: str) -> str:
    if kind == "toml":
        name = body.partition("\n")[0].removeprefix("# ")
        Path(name).write_text(body)
    elif not kind:
        body = "\n".join(_answered(body))
    return f"```{kind}\n{body}```"


def _answered(body: str) -> Iterator[str]:
    for line in body.splitlines():
        if line.startswith("$ arc "):
            yield line
            yield from _printed(line.removeprefix("$ arc "))
    yield ""


def _printed(line: str) -> list[str]:
    cut = _CUT.search(line)
    words = shlex.split(line[: cut.start()] if cut else line)
    found = CliRunner().invoke(cli, ["--db", "arc.db", *words], standalone_mode=False)
    if found.exception is not None:
        raise RuntimeError(f"arc {line}: {found.exception}")
    said = found.stdout.replace(" --db arc.db", "").rstrip().splitlines()
    said = [each.rstrip() for each in said]
    return said[: int(cut[1])] if cut else said
