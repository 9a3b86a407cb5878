"""Secrets in runs that are looked for in all that leaves the database again: what commands print,
what is copied and logged, the files that are written; and in what an import says of a file it
cannot read, or keeps of another tool's database.
"""

from __future__ import annotations

import copy
import json
import random
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from textual import constants

from arc_tui import importing
from arc_tui.app import ArcApp
from arc_tui.views.step import build_step, step_markdown
from replay import bundle
from replay.edit.changes import Edit, SetSystem
from replay.store import edits, read
from replay.store.rows import step_rows
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.crawl import crawl
from tests.faults import hostile
from tests.faults.planted import PLACES, bytes_of, indexed, plant
from tests.faults.secrets import Planted, secrets
from tests.hostile import SEEDS, Way, places, put
from tests.messages_api import message, text
from tests.replay import test_sqlite_llm as llm
from tests.replay import test_sqlite_mlflow as mlflow
from tests.replay import test_sqlite_phoenix as phoenix
from tests.replay.locked_case import Fixed, core_of, run, tiny
from tests.replay.sqlite_case import LLM, MLFLOW, PHOENIX, Entry, made

READING = (
    "ls", "search", "show", "brief", "diagnose", "tag list", "review", "edit list", "stats", "cost",
    "failures", "db verify", "replay", "db recover",
)  # fmt: skip
"""Commands that say what is stored."""

_MORE = {"search": (["sentence"], ["sentence", "--json"], ["sentence", "--on", "prompt"])}


class Leak(Struct, frozen=True):
    """How many secrets were put somewhere, and what of them was found afterwards."""

    planted: int
    found: list[str]


def corpus(seed: str) -> Iterator[Planted]:
    """The secrets in an order of their own, again and again."""
    every = list(secrets())
    random.Random(seed).shuffle(every)
    return cycle(every)


def left(used: Iterable[Planted], written: bytes) -> list[str]:
    """Which of the secrets stand in these bytes."""
    return [
        each.name
        for each in used
        for part in each.secrets
        if part.encode() in written or json.dumps(part)[1:-1].encode() in written
    ]


def planted(folder: Path, runs: int) -> tuple[Path, list[Planted]]:
    """A database of runs with a secret in every place, and the secrets."""
    file, used, every = folder / "arc.db", list[Planted](), corpus("outputs")
    with open_ledger(file) as store:
        for number in range(runs):
            said = dict(zip(PLACES, islice(every, len(PLACES)), strict=True))
            used += said.values()
            plant(store, {place: each.text for place, each in said.items()}, number)
    return file, used


# --- what leaves


def printed(file: Path, used: Sequence[Planted], names: Iterable[str] = READING) -> Leak:
    """What commands say, each in all the ways to call it, and the files that they leave behind."""
    commands = {" ".join(words): (words, command) for words, command in hostile.commands()}
    runs, written = hostile.runs_of(file), list[bytes]()
    for name in names:
        words, command = commands[name]
        with tempfile.TemporaryDirectory() as made_there:
            folder = Path(made_there)
            here = folder / "arc.db"
            here.write_bytes(file.read_bytes())
            with hostile.terminal(attached=False, folder=folder):
                usual = hostile.calls(command, runs, folder / "none.jsonl")
                for call in (*usual, *_MORE.get(name, ())):
                    written.append(hostile.said_by([*words, *call], here).encode())
            written += [each.read_bytes() for each in folder.rglob("*") if each.is_file()]
    return Leak(len(used), left(used, b"\n".join(written)))


def copied(file: Path, used: Sequence[Planted]) -> Leak:
    """Each step as Markdown: what its screen gives the terminal to copy (OSC 52)."""
    with open_ledger(file) as store:
        steps = [
            step_markdown(build_step(store, key, row.step))
            for key in hostile.runs_of(file)
            for row in step_rows(store, key)
        ]
    assert steps
    return Leak(len(used), left(used, "\n".join(steps).encode()))


def searched(file: Path, used: Sequence[Planted]) -> Leak:
    """The words that the indices know: the long ones of each secret."""
    words = {
        word: each.name
        for each in used
        for part in each.secrets
        for word in re.findall(r"[a-z0-9]{12,}", part.lower())
    }
    with open_ledger(file) as store:
        return Leak(len(words), [words[word] for word in indexed(store, words)])


def bundled(file: Path, used: Sequence[Planted]) -> Leak:
    """A replay of each run as a bundle, what is packed in it unpacked."""
    written, edit = list[bytes](), Edit(name="brief", changes=(SetSystem("Be brief."),))
    with open_ledger(file) as store, tempfile.TemporaryDirectory() as folder:
        edit = edits.save(store, edit)
        for key in hostile.runs_of(file):
            whole = read.load(store, key)
            model = tiny(store, Fixed(message(text("I say it."), model="tiny")))
            result = core_of(whole, edit, run(whole, edit, model))
            packed = Path(folder) / "replay.arc"
            bundle.write(store, result, packed)
            with zipfile.ZipFile(packed) as archive:
                written += [packed.read_bytes(), *map(archive.read, archive.namelist())]
    return Leak(len(used), left(used, b"\n".join(written)))


async def shown(file: Path, used: Sequence[Planted], **most: int) -> tuple[Leak, int]:
    """What screens draw, copy and log while their keys are pressed, and what was copied."""
    seen, copies = set[str](), set[str]()

    def look(app: ArcApp, _: tuple[str, ...]) -> None:
        for strip in app.screen._compositor.render_strips():
            seen.add("".join(segment.text for segment in strip))
        copies.add(app.clipboard)

    with pytest.MonkeyPatch.context() as patched:
        log = file.with_name("app.log")
        patched.setattr(constants, "LOG_FILE", str(log))
        await crawl(file, look, **most)
        written = "\n".join(seen | copies).encode() + log.read_bytes()
    return Leak(len(used), left(used, written)), len(copies - {""})


# --- what comes in


def refused(folder: Path, each_format: int) -> Leak:
    """What an import says of files with a secret in them that are cut, or no more what they say."""
    dice, every = random.Random("refused"), corpus("refused")
    used, written, file = list[Planted](), list[bytes](), folder / "refused.db"
    for name, seed in SEEDS.items():
        values = seed()
        ways = [way for way in places(values) if isinstance(value_at(values, way), str)]
        for way in dice.sample(ways, min(each_format, len(ways))):
            each = next(every)
            raw = put(values, way, json.dumps(each.text).encode())
            cut = raw.index(json.dumps(each.text).encode()) + len(json.dumps(each.text))
            source = folder / f"{name}.jsonl"
            for broken in (raw[:cut], raw.replace(b":", b"=", 3), raw.replace(b'"', b"\xff", 9)):
                source.write_bytes(broken)
                written.append(hostile.said_by(["import", str(source)], file).encode())
            used.append(each)
    return Leak(len(used), [*left(used, b"\n".join(written)), *_in_file(file, used)])


TOOLS: dict[str, tuple[str, Sequence[Entry]]] = {
    "MLflow": (MLFLOW, mlflow.ROWS),
    "Phoenix": (PHOENIX, phoenix.ROWS),
    "llm": (LLM + llm.PADDING, llm.OLD),
}
"""Other tools' databases: schema and rows."""


def of_tools(folder: Path, most: int | None = None) -> Leak:
    """A secret in every text of other tools' databases, one after the other, or in so many."""
    every, used, found = corpus("tools"), list[Planted](), list[str]()
    for name, (schema, rows) in TOOLS.items():
        target = folder / f"{name}.db"
        tried = list[Planted]()
        with open_ledger(target) as store:
            for at, way in _texts(rows, most):
                (table, row), each = rows[at], next(every)
                spoiled = copy.deepcopy(row)
                value_at(spoiled, way[:-1])[way[-1]] = each.text
                source = folder / "source.db"
                source.unlink(missing_ok=True)
                try:
                    made(source, schema, [*rows[:at], (table, spoiled), *rows[at + 1 :]])
                except sqlite3.IntegrityError:  # that tool keeps one of a few words there
                    continue
                for _ in importing.import_paths(store, [source], replace=True):
                    pass
                tried.append(each)
        used += tried
        found += [f"{name}: {one}" for one in _in_file(target, tried)]
    return Leak(len(used), found)


def _texts(rows: Sequence[Entry], most: int | None) -> list[tuple[int, Way]]:
    """The places of texts in rows: the number of the row, and the way in it."""
    every = [
        (at, way)
        for at, (_, row) in enumerate(rows)
        for way in places(row)
        if isinstance(value_at(row, way), str)
    ]
    return every if most is None else random.Random("texts").sample(every, min(most, len(every)))


def _in_file(file: Path, used: Iterable[Planted]) -> list[str]:
    return left(used, bytes_of(file))


def value_at(values: Any, way: Iterable[Any]) -> Any:
    """What stands at the end of a way."""
    for name in way:
        values = values[name]
    return values
