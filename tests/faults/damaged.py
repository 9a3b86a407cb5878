"""Pages of a real database are damaged by chance, a page of each kind in turn.

After each: `arc db verify` and `arc db recover` come to an end with words, the damaged file is as
it was, the new one holds together, and whatever it has not got was named.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from arc_tui.features.database.recover import follows
from replay.care.pages import Pages
from replay.care.recover import Recovered, recover
from taxonomy.judgements.schema import migrations
from tests.faults import Row
from tests.faults.holdings import Holdings, arc, damage, furnish, holdings

TRIALS = 200
_NAMES = {2: "inside an index", 5: "inside a table", 10: "an index", 13: "a table"}
_MADE_ANEW = ("diagnosis", "suggestion")


class Outcome(Struct):
    """What trials came to, summed."""

    trials: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    traces: int = 0
    whole: int = 0
    partial: int = 0
    gone: int = 0
    unnamed: list[str] = field(default_factory=list)
    rows: int = 0
    lost_rows: int = 0
    unsound: list[str] = field(default_factory=list)
    touched: int = 0


def kinds_of(path: Path) -> dict[str, list[int]]:
    """The pages of a database by what they are."""
    found: dict[str, list[int]] = {"the first page": [1]}
    with Pages(path) as pages:
        free = pages.free()
        over: set[int] = set()
        for number in range(1, pages.count + 1):
            over.update(pages.overflow(number))
        for number in range(2, pages.count + 1):
            if number in free:
                name = "a free page"
            elif number in over:
                name = "a long row's rest"
            else:
                name = _NAMES.get(pages.kind(number), "another")
            found.setdefault(name, []).append(number)
        found[""] = [pages.size]
    return found


def spoil(raw: bytes, size: int, page: int, chance: random.Random) -> bytes:
    """The file with 1 to 400 bytes of one page changed, or with the page blank."""
    spoiled = bytearray(raw)
    start = (page - 1) * size
    many = chance.choice((1, 3, 20, 400, size))
    if many == size:
        spoiled[start : start + size] = bytes(size)
    for _ in range(many % size):
        spoiled[start + chance.randrange(size)] = chance.randrange(256)
    return bytes(spoiled)


def trials(many: int, seed: int = 0) -> Outcome:
    """Damage a furnished database so many times."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = folder / "whole.db"
        furnish(whole)
        raw, held = whole.read_bytes(), holdings(whole)
        pages = kinds_of(whole)
        (size,) = pages.pop("")
        for trial in range(many):
            chance = random.Random(f"{seed}/{trial}")
            kind = sorted(pages)[trial % len(pages)]
            spoiled = spoil(raw, size, chance.choice(pages[kind]), chance)
            outcome.trials += 1
            outcome.kinds[kind] += 1
            _try(folder / str(trial), spoiled, held, outcome, f"{kind}, seed {seed}/{trial}")
    return outcome


def _try(folder: Path, spoiled: bytes, held: Holdings, outcome: Outcome, name: str) -> None:
    folder.mkdir()
    path, new = folder / "arc.db", folder / "new.db"
    path.write_bytes(spoiled)
    done = recover(path, new, migrations, follows=follows)
    outcome.touched += path.read_bytes() != spoiled
    arc(path, "db", "verify")  # comes to an end, with words
    outcome.unsound += [f"{name}: {each}" for each in damage(new)]
    _compare(held, holdings(new), done, outcome, name)


def _compare(held: Holdings, now: Holdings, done: Recovered, outcome: Outcome, name: str) -> None:
    partial = {each.trace for each in done.losses.traces}
    outcome.traces += len(held["trace"])
    for key, row in held["trace"].items():
        there = now["trace"].get(key)
        if there is not None and there[0] == row[0] and key not in partial:
            outcome.whole += 1
        elif there is not None and key in partial:
            outcome.partial += 1
        elif key in done.losses.gone:
            outcome.gone += 1
        else:
            outcome.unnamed.append(f"{name}: trace {key}")
    named = Counter(each.table for each in done.losses.rows)
    for table, rows in held.items():
        if table == "trace" or table in _MADE_ANEW:
            continue
        wanted = {key for key, row in rows.items() if row.get("source") not in ("rule", "import")}
        lacking = wanted - now[table].keys()
        altered = len(now[table].keys() - rows.keys())  # a byte of the key itself is another
        outcome.rows += len(wanted)
        outcome.lost_rows += len(lacking)
        if len(lacking) > named[table] + altered + done.losses.unplaced:
            outcome.unnamed.append(f"{name}: {len(lacking)} of {table}, {named[table]} named")


def rows(many: int = TRIALS) -> Iterator[Row]:
    """The rows of the table of trials."""
    found = trials(many)
    kinds = ", ".join(f"{name} ({many})" for name, many in sorted(found.kinds.items()))
    yield Row(
        promise="a damaged page: verify and recover end in a sentence, the new file is sound",
        trial=f"one page at a time: {kinds}",
        figure=f"{found.trials - len(found.unsound) - found.touched} of {found.trials}",
        kept=not found.unsound and not found.touched,
    )
    yield Row(
        promise="what is readable is saved, what is not is named",
        trial=f"{found.traces} traces and {found.rows} other rows in {found.trials} files",
        figure=(
            f"traces {found.whole} whole, {found.partial} incomplete and {found.gone} gone by name;"
            f" rows {found.rows - found.lost_rows} saved, {found.lost_rows} by name;"
            f" {len(found.unnamed)} unnamed"
        ),
        kept=not found.unnamed,
    )
