"""Nothing leaks: secrets planted in every text of every format and beside it, then looked for in
the bytes of whatever is written; and what only looks like a secret is still there.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from arc_tui import importing
from replay.formats import arc
from replay.redact.personal import PERSONAL
from replay.redact.redactor import Redactor
from replay.redact.rules import NONE, Policy
from replay.store import read
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from tests.faults import Row, bugs, clipboard, hostile, outputs
from tests.faults.outputs import Leak, value_at
from tests.faults.planted import PLACES, bytes_of, plant
from tests.faults.secrets import Planted, impersonal, look_alikes, personal, secrets
from tests.hostile import SEEDS, Value, places, put

NO_FILE = "no file contains a planted secret"
NO_MESSAGE = "no message contains a planted secret"

Corpus = Callable[[], Iterable[Planted]]


def in_texts(corpus: Corpus = secrets, policy: Policy = NONE) -> Leak:
    """A corpus under the rules, also as texts in JSON in JSON and as the name of a field."""
    redactor = Redactor(b"trial", policy)
    found = [
        each.name
        for each in corpus()
        for masked in _ways(redactor, each.text)
        if any(part in masked for part in each.secrets)
    ]
    return Leak(sum(1 for _ in corpus()), found)


def of_persons() -> Leak:
    """What tells who somebody is, under the rules that are asked for."""
    return in_texts(personal, Policy(rules=PERSONAL))


def _ways(redactor: Redactor, text: str) -> Iterator[str]:
    yield redactor.text(text)
    values: list[Value] = [{"a": [text]}, {"a": json.dumps({"b": text})}, {text: 1}]
    for value in values:
        encoded = json.dumps(value, ensure_ascii=False)
        if redactor.clear(encoded.encode()):
            yield encoded
        else:
            yield json.dumps(redactor.value(value), ensure_ascii=False)


def touched() -> list[str]:
    """Which of the look-alikes a rule changes."""
    usual, asked = Redactor(b"trial"), Redactor(b"trial", Policy(rules=PERSONAL))
    changed = [each for each in look_alikes() if usual.text(each) != each]
    return changed + [each for each in (*look_alikes(), *impersonal()) if asked.text(each) != each]


def in_format(name: str, folder: Path, most: int | None = None) -> Leak:
    """A secret in each text of a run of that format, one after the other, imported and exported."""
    values = SEEDS[name]()
    ways = [way for way in places(values) if isinstance(value_at(values, way), str)]
    dice = random.Random(name)
    chosen = dice.sample(ways, min(most or len(ways), len(ways)))
    corpus = list(secrets())
    dice.shuffle(corpus)
    used: list[Planted] = []
    file = folder / f"{name}.db"
    with open_ledger(file) as store:
        for way, each in zip(chosen, cycle(corpus), strict=False):
            source = folder / "run.jsonl"
            source.write_bytes(put(values, way, json.dumps(each.text).encode()))
            for _ in importing.import_paths(store, [source], format=name, replace=True):
                pass
            used.append(each)
        found = _left(file, used, _exported(store))
    return Leak(len(used), found)


def beside(folder: Path, runs: int) -> Leak:
    """Secrets in every place that keeps text: the tape, answers, edits, stubs, tags, scores."""
    file = folder / "beside.db"
    corpus = cycle(secrets())
    used: list[Planted] = []
    with open_ledger(file) as store:
        for run in range(runs):
            said = dict(zip(PLACES, islice(corpus, len(PLACES)), strict=True))
            used += said.values()
            plant(store, {place: each.text for place, each in said.items()}, run)
        found = _left(file, used, _exported(store))
    return Leak(len(used), found)


def _exported(store: Store) -> bytes:
    keys = [row[0] for row in store.db.execute("SELECT key FROM trace WHERE complete")]
    return b"".join(arc.write(read.recorded(store, key) for key in keys))


def _left(file: Path, used: Iterable[Planted], exported: bytes) -> list[str]:
    return outputs.left(used, bytes_of(file) + b"\n" + exported)


def rows() -> Iterator[Row]:
    texts = in_texts()
    yield _row("a secret is masked", "each shape in each setting", texts)
    yield _row("a secret is masked", "personal data, where that is asked for", of_persons())
    changed = touched()
    many = len(look_alikes()) * 2 + len(impersonal())
    yield Row(
        promise="what only looks like a secret stays",
        trial="hashes, ids, code, placeholders; versions, dates, local addresses",
        figure=f"{many - len(changed)} of {many}",
        kept=not changed,
    )
    with TemporaryDirectory() as made:
        read = {name: in_format(name, Path(made)) for name in SEEDS}
        every = Leak(
            planted=sum(leak.planted for leak in read.values()),
            found=[f"{name}: {one}" for name, leak in read.items() for one in leak.found],
        )
        yield _row(
            NO_FILE,
            f"planted in every text of {len(read)} formats",
            every,
        )
        yield _row(
            NO_FILE,
            "in data stored beside the recording",
            beside(Path(made), 40),
        )
        yield _row(
            NO_FILE,
            "other tools' databases",
            outputs.of_tools(Path(made)),
        )
        yield _row(
            NO_MESSAGE,
            "files that break off",
            outputs.refused(Path(made), 9),
        )
        kinds = f"a bug that met it, reported in {len(bugs.KINDS)} ways: "
        command = bugs.of_a_command(secrets(), Path(made) / "none.db")
        yield _row(NO_MESSAGE, f"{kinds}by a command", command)
        yield _row(NO_MESSAGE, f"{kinds}by the app", bugs.of_the_app(secrets()))
        yield from _left_by(Path(made) / "left", 6)


def _left_by(folder: Path, runs: int) -> Iterator[Row]:
    folder.mkdir()
    file, used = outputs.planted(folder, runs)
    screens, _ = asyncio.run(outputs.shown(file, used, most=20, screens=6))
    texts = asyncio.run(clipboard.copies(file, hostile.runs_of(file)[:2]))
    assert all(texts[name] for name in clipboard.SCREENS), "a screen that copied nothing"
    for trial, leak in {
        f"{len(outputs.READING)} commands that print what is stored": outputs.printed(file, used),
        "screens, and the app's log": screens,
        "steps copied to the clipboard": outputs.copied(file, used),
        f"what `y` copies on {len(texts)} screens, each part that `Y` offers": Leak(
            len(used), outputs.left(used, "\n".join(set().union(*texts.values())).encode())
        ),
        "bundles, unpacked": outputs.bundled(file, used),
        "words of the indices": outputs.searched(file, used),
    }.items():
        yield _row("no output contains a planted secret", trial, leak)


def _row(promise: str, trial: str, leak: Leak) -> Row:
    figure = f"{len(leak.found)} of {leak.planted} found"
    return Row(promise=promise, trial=trial, figure=figure, kept=not leak.found)
