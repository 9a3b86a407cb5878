"""An encrypted database says nothing without its key, and encrypting it may be killed.

`python -m tests.faults.encrypted DB [AT]` encrypts in a process of its own with the key in
`ARC_DB_KEY`; it kills itself after so many calls of functions, Python's and C's; without AT it
prints how many there are.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from arc_tui.features.database.recover import follows
from replay.care import rewriting
from replay.care.recover import recover
from replay.errors import StoreUnusable
from replay.store import encryption
from replay.store.rows import trace_rows
from taxonomy.judgements.schema import migrations, open_ledger
from tests.faults import Row
from tests.faults.damaged import spoil
from tests.faults.planted import every, found_in
from tests.faults.pruned import planted

RUNS, WRONG, KILLS, DAMAGES, SEED = 20, 40, 40, 60, 11
_LATE = 100
"""The last so many calls: the swap, and the wiping of the old bytes."""

KEY = 'a key\'s "own" words; €'
REVEALS_NOTHING = "an encrypted database reveals nothing"


def rows(
    runs: int = RUNS,
    wrong: int = WRONG,
    kills: int = KILLS,
    damages: int = DAMAGES,
    seed: int = SEED,
) -> Iterator[Row]:
    if find_spec("sqlcipher3") is None:
        promise, trial = (
            REVEALS_NOTHING,
            "none: sqlcipher3 is not installed",
        )
        yield Row(promise=promise, trial=trial, figure="not tried", kept=False)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made" / "arc.db"
        said = every(planted(made, runs, seed))
        file = _copied(made, Path(folder) / "once")
        yield _unreadable(file, said)
        yield _refused(file, wrong, seed)
        yield _back(file, said, runs)
        yield _killed(made, Path(folder), runs, kills, seed, said)
        yield _damaged(made, Path(folder), runs, damages, seed, said)
    encryption.forget()


def _unreadable(file: Path, said: list[str]) -> Row:
    assert len(found_in(file, said)) == len(said), "planted, and not in the file"
    rewriting.encrypt(file, KEY)
    with open_ledger(file) as store:  # with its log
        store.db.execute("CREATE TABLE probe AS SELECT body FROM message")
        left = found_in(file, said)
        store.db.execute("DROP TABLE probe")
    return Row(
        promise=REVEALS_NOTHING,
        trial="texts found in the file, its log, beside it",
        figure=f"{len(left)} of {len(said)}",
        kept=not left,
    )


def _refused(file: Path, wrong: int, seed: int) -> Row:
    chosen = random.Random(seed)
    refused = 0
    before = file.read_bytes()
    for _ in range(wrong):
        encryption.forget()
        at = chosen.randrange(len(KEY))
        os.environ[encryption.KEY] = KEY[:at] + chr(ord("A") + chosen.randrange(26)) + KEY[at + 1 :]
        try:
            open_ledger(file).close()
        except StoreUnusable:
            refused += 1
    encryption.forget()
    return Row(
        promise=REVEALS_NOTHING,
        trial="keys with one wrong character: refused, the file untouched",
        figure=f"{refused} of {wrong}",
        kept=refused == wrong and file.read_bytes() == before,
    )


def _back(file: Path, said: list[str], runs: int) -> Row:
    os.environ[encryption.KEY] = KEY
    rewriting.decrypt(file)
    encryption.forget()
    there = found_in(file, said)
    return Row(
        promise="what was encrypted can be decrypted",
        trial="texts in the file after decrypting",
        figure=f"{len(there)} of {len(said)}",
        kept=len(there) == len(said) and _runs(file) == runs,
    )


def _killed(made: Path, folder: Path, runs: int, kills: int, seed: int, said: list[str]) -> Row:
    total = int(_encrypting(_copied(made, folder / "total")).stdout)
    moments = random.Random(seed)
    kept = 0
    for kill in range(kills):
        file = _copied(made, folder / f"kill-{kill}")
        late = total - 1 - moments.randrange(_LATE)  # the swap is quick: half of them near it
        done = _encrypting(file, late if kill % 2 else moments.randrange(total))
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr  # a salt may need fewer calls
        encryption.forget()
        os.environ[encryption.KEY] = KEY
        there = _runs(file) == runs
        if encryption.salt_of(file) is None:
            rewriting.encrypt(file, KEY)
        kept += there and _runs(file) == runs and not found_in(file, said)
        shutil.rmtree(file.parent)
    encryption.forget()
    return Row(
        promise="a killed encryption does no harm",
        trial="killed (SIGKILL) at seeded moments: plain or encrypted, whole; the next finishes it",
        figure=f"{kept} of {kills}",
        kept=kept == kills,
    )


def _damaged(made: Path, folder: Path, runs: int, damages: int, seed: int, said: list[str]) -> Row:
    file = _copied(made, folder / "sealed")
    encryption.forget()
    os.environ[encryption.KEY] = KEY
    rewriting.encrypt(file, KEY)
    whole, chance, kept = file.read_bytes(), random.Random(seed), 0
    pages = len(whole) // encryption.ENCRYPTED_PAGE_BYTES
    for number in range(damages):
        page = 1 if number % 6 == 0 else chance.randrange(2, pages)
        spoiled = spoil(whole, encryption.ENCRYPTED_PAGE_BYTES, page, chance)
        if page == 1:  # without the salt nothing can be read
            spoiled = whole[: encryption.SALT_BYTES] + spoiled[encryption.SALT_BYTES :]
        file.write_bytes(spoiled)
        new = file.with_name("new.db")
        losses = recover(
            file, new, migrations, follows=follows, without=("diagnosis", "audit")
        ).losses
        there = _runs(new) + len(losses.gone) >= runs or losses.unplaced > 0
        kept += there and encryption.is_encrypted(new) and not found_in(new, said)
        kept -= file.read_bytes() != spoiled
        new.unlink()
    encryption.forget()
    return Row(
        promise="an encrypted database that is damaged is saved, and stays encrypted",
        trial="a page spoiled by chance, every sixth time the first",
        figure=f"{kept} of {damages}",
        kept=kept == damages,
    )


def _copied(file: Path, folder: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(file, folder / file.name))


def _runs(file: Path) -> int:
    with open_ledger(file) as store:
        return len(trace_rows(store, every=True))


def _encrypting(file: Path, at: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.faults.encrypted",
            str(file),
            *([] if at is None else [str(at)]),
        ],
        capture_output=True,
        text=True,
        check=at is None,
        cwd=Path(__file__).parents[2],
        env={**os.environ, encryption.KEY: KEY},
    )


def _main(file: str, at: str | None = None) -> None:
    done = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal done
        if done == (None if at is None else int(at)):
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1

    found = encryption.given(encryption.KEY, encryption.KEY_FILE)
    assert found is not None
    sys.setprofile(count)
    rewriting.encrypt(Path(file), found.key)
    sys.setprofile(None)
    print(done)


if __name__ == "__main__":
    _main(*sys.argv[1:])
