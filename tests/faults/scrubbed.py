"""What is scrubbed is gone from the bytes, what stays is complete, and a scrubbing may be killed.

`python -m tests.faults.scrubbed DB [AT]` scrubs in a process of its own, which kills itself once
SQLite has come so far (counted in pieces of its work); without AT it prints how far there is to go.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path

import msgspec

from arc_tui import importing
from replay import kept
from replay.care.scrub.run import Scrubbed, scrub
from replay.compare.rules import PLAIN
from replay.edit.changes import Edit
from replay.errors import OfflineMiss
from replay.free import run as free
from replay.free.recorded_results import Terms
from replay.free.result import FreeCore
from replay.kept import stubs_of_trace
from replay.locked.row import Models, Sampling
from replay.locked.run import Core
from replay.locked.run import core as core_of
from replay.models.cached import Cached
from replay.redact.redactor import Redactor
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import Json
from taxonomy.judgements.care import JUDGEMENTS
from taxonomy.judgements.schema import open_ledger
from tests.faults import Row
from tests.faults.holdings import damage
from tests.faults.planted import PLACES, bytes_of, plant
from tests.faults.secrets import Planted, look_alikes, secrets
from tests.messages_api import message, tool_use
from tests.replay.locked_case import Fixed
from tests.replay.locked_case import run as run_replay

RUNS, KILLS, SEED = 40, 50, 11
_PIECE = 2_000
"""Instructions of SQLite's machine: the grain of the moments at which a scrubbing is killed."""


class Off(Redactor):
    """Rules switched off, as if they had not been written yet."""

    def clear(self, encoded: bytes) -> bool:
        return True

    def text(self, text: str) -> str:
        return text

    def value(self, value: Json) -> Json:
        return value

    def encoded(self, value: object) -> str:
        return msgspec.json.encode(value).decode()


def unmasked(store: Store) -> None:
    """From here on nothing is masked in what this store writes."""
    store._redactor = Off(b"trial")


def planted(file: Path, runs: int, seed: int) -> tuple[list[Planted], list[str]]:
    """A database written without rules: (the secrets in it, what only looks like one)."""
    corpus = [each for each in secrets() if _plain(each)]
    random.Random(seed).shuffle(corpus)
    pool, alike = cycle(corpus), cycle(look_alikes())
    used: list[Planted] = []
    stay: list[str] = []
    with open_ledger(file) as store:
        unmasked(store)
        for run in range(runs):
            said = dict(zip(PLACES, islice(pool, len(PLACES)), strict=True))
            used += said.values()
            plant(store, {place: each.text for place, each in said.items()}, run)
        for run in range(runs, runs + max(1, runs // 4)):
            like = dict(zip(PLACES, islice(alike, len(PLACES)), strict=True))
            stay += like.values()
            plant(store, like, run)
        for row in trace_rows(store, every=True)[::3]:
            _run_free(store, row.trace)
        for _ in importing.diagnose_new(store):
            pass
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return used, stay


def _run_free(store: Store, key: str) -> None:
    """A free run that leaves the road: what it asks from there on rests on its own answers."""
    asked = message(tool_use("look_up", what="else"), model="tiny")
    model = Cached(store, "tiny", Fixed(asked), server="http://127.0.0.1:1")
    known = Terms(stubs=stubs_of_trace(store, key), effects={"look_up": "read"})
    *_, last = free.run(read.load(store, key), None, model, known, sample=1, max_steps=4)
    kept.keep(store, last.core())


def _forms(text: str) -> set[str]:
    """A text as it stands, in JSON, and in the path of a file, which has no empty parts."""
    in_path = text.replace("//", "/")
    return {text, in_path, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def left(file: Path, used: Iterable[Planted]) -> list[str]:
    """Which of the secrets stand in the bytes of the file, of its log, or of anything beside it."""
    data = bytes_of(file)
    return [each.name for each in used if any(_stands(part, data) for part in each.secrets)]


def there(file: Path, texts: Iterable[str]) -> list[str]:
    """Which of the texts stand in the bytes of the file."""
    data = bytes_of(file)
    return [text for text in texts if _stands(text, data)]


def _stands(text: str, data: bytes) -> bool:
    return any(form.encode() in data for form in _forms(text))


def _plain(each: Planted) -> bool:
    """Does it stand in its text as it is?"""
    return all(part in each.text for part in each.secrets)


def scrubbed(file: Path) -> Scrubbed:
    with open_ledger(file) as store:
        return scrub(store, JUDGEMENTS)


def asked_again(file: Path) -> tuple[int, int]:
    """(kept replays, those that come to the same again, with nobody to ask)."""
    with open_ledger(file) as store:
        kept = store.db.execute("SELECT kind, core, edit FROM replay").fetchall()
        return len(kept), sum(_runs_again(store, *each) for each in kept)


def _runs_again(store: Store, kind: str, core: str, edit_digest: str | None) -> bool:
    found = store.db.execute("SELECT body FROM edit WHERE digest = ?", (edit_digest,)).fetchone()
    edit = None if found is None else msgspec.json.decode(found[0], type=Edit)
    try:
        if kind == "free":
            return _goes_again(store, msgspec.json.decode(core, type=FreeCore), edit)
        kept = msgspec.json.decode(core, type=Core)
        counts = {row.step: max(len(row.control), len(row.edited)) for row in kept.rows}
        sampling = Sampling(levels=kept.levels, range=kept.range, counts=counts)
        model = Cached(store, kept.model)  # nobody is behind it: what is not stored is a miss
        trace = read.load(store, kept.trace)
        made = run_replay(trace, edit, model, sampling, steps=kept.steps)
    except OfflineMiss:
        return False
    models = Models.one(Cached(store, kept.model))
    again = core_of(trace, edit, models, made, sampling=sampling, steps=kept.steps, rules=PLAIN)
    return again == kept


def _goes_again(store: Store, kept: FreeCore, edit: Edit | None) -> bool:
    terms = Terms(
        stubs=stubs_of_trace(store, kept.trace),
        allow_stale=kept.allow_stale,
        effects=kept.yours,
    )
    *_, last = free.run(
        read.load(store, kept.trace), edit, Cached(store, kept.model, server=kept.server), terms,
        start=kept.start, sample=kept.sample, max_steps=kept.limit,
    )  # fmt: skip
    return last.core() == kept


def rows(runs: int = RUNS, kills: int = KILLS, seed: int = SEED) -> Iterator[Row]:
    before = os.environ.get("ARC_REDACT_KEY")
    os.environ["ARC_REDACT_KEY"] = "trial"
    try:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made" / "arc.db"
            made.parent.mkdir()
            used, stay = planted(made, runs, seed)
            yield from _once(_copied(made, Path(folder) / "once"), used, stay)
            yield _killed(made, Path(folder), kills, seed, used, stay)
    finally:
        if before is None:
            del os.environ["ARC_REDACT_KEY"]
        else:
            os.environ["ARC_REDACT_KEY"] = before


def _once(file: Path, used: list[Planted], stay: list[str]) -> Iterator[Row]:
    promise = "scrubbed data is gone"
    assert len(left(file, used)) == len(used), "planted, and not in the file"
    with open_ledger(file) as store:
        foreseen = scrub(store, JUDGEMENTS, dry=True)
    assert len(left(file, used)) == len(used), "a dry run changed something"
    done = scrubbed(file)
    found = left(file, used)
    yield Row(
        promise=promise,
        trial="secrets of a database that was written without rules, in the file and its log",
        figure=f"{len(found)} of {len(used)}",
        kept=not found,
    )
    whole = there(file, stay)
    yield Row(
        promise=promise,
        trial="what only looks like a secret, still there",
        figure=f"{len(whole)} of {len(stay)}",
        kept=len(whole) == len(stay),
    )
    kept, again = asked_again(file)
    yield Row(
        promise=promise,
        trial="stored replays that run again without a call",
        figure=f"{again} of {kept}",
        kept=again == kept,
    )
    wrong, twice = damage(file), scrubbed(file)
    yield Row(
        promise=promise,
        trial="`arc db verify` afterwards; a dry run counts the same, a second run finds nothing",
        figure=f"{len(wrong)} findings; {foreseen.places}, {done.places}, {twice.places} places",
        kept=not wrong and foreseen.masked == done.masked and not twice.places,
    )


def _killed(
    made: Path, folder: Path, kills: int, seed: int, used: list[Planted], stay: list[str]
) -> Row:
    total = int(_scrubbing(_copied(made, folder / "total")).stdout)
    moments = random.Random(seed)
    kept = 0
    for kill in range(kills):
        file = _copied(made, folder / f"kill-{kill}")
        done = _scrubbing(file, moments.randrange(total))
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        valid = not damage(file)
        with open_ledger(file) as store:
            masked = store.db.execute(_MASKED).fetchone()[0]
        all_or_nothing = bool(masked) or len(left(file, used)) == len(used)
        scrubbed(file)
        finished = not left(file, used) and len(there(file, stay)) == len(stay)
        kept += all((valid, all_or_nothing, finished, not damage(file)))
        shutil.rmtree(file.parent)
    return Row(
        promise="a killed scrub does no harm",
        trial="killed (SIGKILL) at seeded moments: all or nothing masked, the next finishes it",
        figure=f"{kept} of {kills}",
        kept=kept == kills,
    )


_MASKED = "SELECT count(*) FROM message WHERE masked"


def _copied(file: Path, folder: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(file, folder / file.name))


def _scrubbing(file: Path, at: int | None = None) -> subprocess.CompletedProcess[str]:
    given = [str(file), *([] if at is None else [str(at)])]
    return subprocess.run(
        [sys.executable, "-m", "tests.faults.scrubbed", *given],
        capture_output=True,
        text=True,
        check=at is None,
        cwd=Path(__file__).parents[2],
    )


def _main(file: str, at: str | None = None) -> None:
    done = 0

    def count() -> int:
        nonlocal done
        if done == (None if at is None else int(at)):
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        return 0

    with open_ledger(Path(file)) as store:
        store.db.set_progress_handler(count, _PIECE)
        scrub(store, JUDGEMENTS)
        store.db.set_progress_handler(None, 0)
    print(done)


if __name__ == "__main__":
    _main(*sys.argv[1:])
