"""Does text that an agent's world wrote ever reach a terminal as anything but text?

What terminals obey is planted in every field of every format that takes it, and in all that people
and models say of a run; then every command says what it has to say, its errors with it. A command
that comes new is run by what its parameters are called.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, _NamedTextIOWrapper
from msgspec import structs

from arc_tui import importing
from arc_tui.commands import cli
from replay import formats
from replay.edit.changes import Edit, SetSystem
from replay.errors import ArcError
from replay.formats.source import Source, Tally
from replay.store import edits
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from tests.faults import Row
from tests.hostile import SEEDS

PLANTED = (
    "\x1b[6666mred\x1b[2J\x1b]8;;http://evil\x07link\x1b]8;;\x1b\\\x1b]52;c;aGk=\x07\x1b]0;evil\x07"
    "\x1bPq#0\x1b\\\x9b6666m\x9d0;evil\x9c\x90q\x9c\x84\x8d\x0e\x05\x7f\x08\x00\r"
    "\u202egnp.exe\u202c\u2066x\u2069\u200b\u2060\ufeff\u00ad\u2028\u2029\u061c\U000e0041\ud800"
    "[bold]b[/bold][/][@click=app.quit]q[/][link=http://evil]l[/link]{x}$x%s\U0001f468\u200d\U0001f469"
)
"""Sequences that colour, clear, link, copy, name the window and draw; those of one byte; directions
turned round; what is not seen; half a character; markup; an emoji of several characters."""

WHOLE = PLANTED.replace("\ud800", "")
"""Without the half character, which our own format refuses and no store keeps."""
ARGUMENT = WHOLE.replace("\0", "")
NAME = ARGUMENT.replace("/", "")

OBEYED = frozenset(
    {chr(code) for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) != "\n"}
    | set(
        "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2028\u2029\ufeff\u00ad\U000e0041"
    )
    | {chr(code) for code in range(0x2060, 0x2070)}
)
"""What may stand in no output, but for the sequences of our own."""

_OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[hl])|\r(?:\x1b\[1A)?\x1b\[2K|(?:\x1b\[1A\x1b\[2K)+")
"""Colours, and what draws a line of progress anew."""
_FORMS = frozenset({"type", "kind", "format", "role", "timestamp", "id"})


def obeyed(said: str) -> frozenset[str]:
    """The characters of an output that a terminal would do something with, our own aside."""
    return OBEYED & set(_OURS.sub(lambda found: found[0] if "6666" in found[0] else "", said))


# --- planted in files


def files(folder: Path) -> dict[str, Path]:
    """A run in every format, with the text in every field that takes it."""
    made: dict[str, Path] = {}
    for name, seed in SEEDS.items():
        values = seed()
        taken: set[str] = set()
        path = folder / f"{name}{NAME if len(made) % 2 else ''}.jsonl"
        said = WHOLE if name == "arc" else PLANTED
        whole = _traces(path, name, _written(values, taken, said))
        for field in sorted(set(_fields(values)) - _FORMS):
            if _traces(path, name, _written(values, taken | {field}, said)) == whole:
                taken.add(field)
        path.write_bytes(_written(values, taken, said))
        assert taken, name
        made[name] = path
    return made


def _fields(value: Any, above: str = "") -> Iterator[str]:
    """The names that texts go by, once each or more often."""
    if isinstance(value, str):
        yield above
    for name, each in _inside(value, above):
        yield from _fields(each, name)


def _inside(value: Any, above: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return [(above, each) for each in value] if isinstance(value, list) else []


def _planted(value: Any, taken: set[str], said: str, above: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _planted(each, taken, said, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_planted(each, taken, said, above) for each in value]
    return f"{value}{said}" if isinstance(value, str) and above in taken else value


def _written(values: list[Any], taken: set[str], said: str) -> bytes:
    return b"".join(json.dumps(_planted(each, taken, said)).encode() + b"\n" for each in values)


def _traces(path: Path, name: str, data: bytes) -> int | None:
    """How many runs are read from it, None where it is refused."""
    path.write_bytes(data)
    try:
        read = list(formats.load(Source(path), Tally(), format=formats.named(name)))
    except ArcError:
        return None
    return len({batch.header.source_id for batch in read})


def database(folder: Path) -> Path:
    """A database of these runs, with a tag, a note and an edit that say the same."""
    path = folder / "arc.db"
    with open_ledger(path) as store:
        for name, file in files(folder).items():
            *_, report = importing.import_paths(store, [file], format=name)
            assert isinstance(report, importing.ImportReport)
            assert report.files[0].traces, (name, report.files[0].error)
        store.db.execute("UPDATE trace SET outcome = 'failed'")
        edits.save(store, Edit(name=ARGUMENT, changes=(SetSystem(WHOLE),)))
        run = store.db.execute("SELECT key FROM trace ORDER BY id").fetchone()[0]
        tag = Tag(trace=run, span="", step=-1, failure=FailureClass.OTHER, by=WHOLE)
        put_tag(store, structs.replace(tag, sub=WHOLE, note=WHOLE))
    return path


def runs_of(path: Path) -> list[str]:
    """The runs of a database, by their ids."""
    with open_ledger(path) as store:
        return [row[0] for row in store.db.execute("SELECT key FROM trace ORDER BY format DESC")]


# --- said by commands

NOT_RUN = {
    "listen": "serves until it is stopped",
    "mcp": "serves until its input ends",
    "serve": "serves until it is stopped",
    "completion": "prints what a shell reads",
}

_GIVEN = {
    "step": "0", "failure": "o", "class": "o", "score": "1", "text": "red", "text_": "red",
    "topic": "show",
}  # fmt: skip


_NOT_GIVEN = {"db", "live", "follow", "in_editor", "fire_drill"}
"""Options that name the database, ask a server, never end, or start an editor."""


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command by its words, those of groups too."""
    yield from _below(cli, ())


def _below(
    group: click.Group, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _below(command, (*words, name))
        elif command is not None:
            yield (*words, name), command


def calls(command: click.Command, runs: list[str], file: Path) -> Iterator[list[str]]:
    """Ways to call a command: of each run, with each of its switches, and with hostile text for
    each of its arguments and options, which it refuses with a sentence."""
    said, run = ARGUMENT, runs[0]
    needed = [given for given in command.params if isinstance(given, click.Argument)]
    usual = [_usual(given, run, file) for given in needed if given.required]
    model = ["--model", "demo"] if any("--model" in each.opts for each in command.params) else []
    for each in runs if run in usual else runs[:1]:
        yield [each if word == run else word for word in usual] + model
    yield usual
    for at, _ in enumerate(usual):
        yield [*usual[:at], said, *usual[at + 1 :]]
    if len(needed) > len(usual):
        yield [*usual, *[_usual(given, run, file) for given in needed if not given.required]]
        yield [*usual, said]
    for given in command.params:
        if isinstance(given, click.Option) and given.name not in _NOT_GIVEN:
            option = max(given.opts, key=len)
            if given.is_flag:
                yield [*usual, *model, option]
            elif not isinstance(given.type, (click.types.IntParamType, click.types.FloatParamType)):
                yield [*usual, option, said]


def _usual(given: click.Argument, run: str, file: Path) -> str:
    name = (given.name or "").lower()
    if "trace" in name:
        return run
    if name in {"paths", "files"}:
        return str(file)
    if name == "command":
        return "true"
    return _GIVEN.get(name, "loop")


def _on_a_terminal(stream: _NamedTextIOWrapper) -> bool:
    return stream.name != "<stdin>"


@contextmanager
def terminal(attached: bool, folder: Path) -> Iterator[None]:
    """What is said goes to a terminal, or to a pipe; what is made goes into the folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("ARC_DATA_DIR", str(folder))
        patched.setenv("ARC_CONFIG_DIR", str(folder))
        patched.setenv("TERM", "xterm-256color")
        patched.setenv("ARC_USER", "tester")
        if attached:
            patched.setattr(_NamedTextIOWrapper, "isatty", _on_a_terminal)
        yield


def said_by(words: list[str], path: Path) -> str:
    """All that a command says, on both streams, its refusals as `main` words them."""
    from arc_tui.commands import main

    def run() -> None:
        sys.argv = ["arc", "--db", str(path), *words]
        main()

    before = sys.argv
    try:
        done = CliRunner(catch_exceptions=False).invoke(click.command()(run), [])
    finally:
        sys.argv = before
    return done.stdout + done.stderr


def _without_tabs(said: str) -> str:
    """What a pipe gets, without the tabs between the columns of a list: each of its rows has as
    many as its head."""
    lines = said.splitlines(keepends=True)
    tabs = next((line.count("\t") for line in lines if "\t" in line), 0)
    return "".join(line.replace("\t", "") if line.count("\t") == tabs else line for line in lines)


def rows(commands_tried: int | None = None) -> Iterator[Row]:
    """What reached the terminal, of all that every command says."""
    with tempfile.TemporaryDirectory() as folder:
        path = database(Path(folder))
        leaks: list[str] = []
        tried = 0
        for words, command in list(commands())[:commands_tried]:
            found, said = leaking(words, command, path)
            leaks += found
            tried += said
    yield Row(
        promise="no text of a run is obeyed by the terminal",
        trial=f"{len(SEEDS)} formats, {tried} calls of every command, to a pipe and a terminal",
        figure=f"{len(leaks)} with a character that it would obey",
        kept=not leaks,
    )


def leaking(words: tuple[str, ...], command: click.Command, path: Path) -> tuple[list[str], int]:
    """The calls of a command whose output a terminal would obey, or that names a key of the app,
    and how many there were."""
    if words[0] in NOT_RUN:
        return [], 0
    found: list[str] = []
    tried = 0
    copy = path.with_name("copy.db")
    for call in calls(command, runs_of(path), path.with_name("arc.jsonl")):
        for attached in (False, True):
            copy.write_bytes(path.read_bytes())
            with tempfile.TemporaryDirectory() as folder, terminal(attached, Path(folder)):
                said = said_by([*words, *call], copy)
            tried += 1
            harm = obeyed(said if attached else _without_tabs(said))
            if "Traceback" in said or harm or "‹" in said:
                found.append(f"{' '.join(words)} {call!r}: {harm!r} {said[-600:]!r}")
    return found, tried
