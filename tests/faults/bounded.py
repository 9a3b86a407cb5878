"""Is what a file costs bounded by its size, whatever stands in it?

Texts and objects of a size that no run has are put into a run of every format, which is read, and
of some imported whole, in a process of its own; how much memory that took is measured from
outside. Values that hurt and shapes that lead in circles are imported as they are every day, and
the trials of archives, databases and tables of columns are counted.
"""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.faults import Row

REPOSITORY = Path(__file__).resolve().parents[2]

TEXT_BYTES, ATTRIBUTES = 100 << 20, 1_000_000
LARGEST = ("chat", "codex", "langfuse", "openinference")
"""One document, one line after another, records that belong together, spans of a service: in these
the values are as large as is promised."""
IMPORTED = ("chat", "codex")
"""Those imported whole; every format is read."""
OTHERS_BYTES, OTHERS_ATTRIBUTES = 30 << 20, 300_000
"""In the other formats, which are read in the same ways."""

MOST_TIMES = 20
"""Memory, of a file's size: beyond what the same process takes for a file of nothing."""

PROMISE = "time and memory are bounded by a file's size, or it is refused in a sentence"

TRIALS = {
    "archives: bombs, shared bytes, names that are paths, links, cut ends": "test_bombs.py",
    "databases of other tools: circles, shared pages, views, triggers, no index": (
        "test_hostile_sqlite.py"
    ),
    "tables in parquet: cut, lying, deep and wide footers, dictionaries, endless rows": (
        "test_hostile_parquet.py"
    ),
}


class Cost(Struct, frozen=True, kw_only=True):
    """What came of one large file: `said` what the process told, None where it broke; bytes."""

    name: str
    size: int
    taken: int
    said: str | None

    @property
    def times(self) -> float:
        return self.taken / self.size


# --- large values, in a process of its own


def placed(name: str, what: str, size: int) -> bytes:
    """A run with a text of so many bytes, or an object of so many fields, where such a one is."""
    from tests.hostile import SEEDS, long, many, places, put

    values = SEEDS[name]()
    kind = str if what == "text" else dict
    found = [way for way in places(values) if isinstance(_at(values, way), kind) and len(way) > 2]
    held = [way for way in found if way[-1] in _HELD] or found
    way = random.Random(name).choice(held)
    return put(values, way, long(size) if what == "text" else many(size))


_HELD = frozenset(
    "content text arguments args input output attributes metadata payload kwargs params extra"
    " observation message".split()
)
"""Fields that hold what tools and models say."""


def _at(values: Any, way: tuple[Any, ...]) -> Any:
    for name in way:
        values = values[name]
    return values


def _borne(name: str, how: str, path: Path) -> str:
    """Read the file as that format, or import it whole; what came of it."""
    from replay import formats
    from replay.errors import ArcError
    from replay.formats.source import Source, Tally

    if how == "import":
        from arc_tui import importing
        from taxonomy.judgements.schema import open_ledger

        *_, report = importing.import_paths(
            open_ledger(path.with_suffix(".db")), [path], format=name
        )
        assert isinstance(report, importing.ImportReport)
        return report.files[0].error or "imported"
    try:
        batches = formats.load(Source(path), Tally(), format=formats.named(name))
        return f"{sum(len(batch.spans) for batch in batches)} spans"
    except ArcError as refused:
        return str(refused)


def _peak_bytes() -> int:
    """The most memory that this process has had; not what started it, where that can be told."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _process(name: str, how: str, path: Path) -> tuple[str | None, int]:
    """What a process told that bore the file, None where it broke, and its memory in bytes."""
    words = [sys.executable, "-m", "tests.faults.bounded", name, how, str(path)]
    done = subprocess.run(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
    path.with_suffix(".db").unlink(missing_ok=True)
    if done.returncode:
        return None, 0
    peak, said = done.stdout.split("\n", 1)
    return said.strip(), int(peak)


@cache
def _for_nothing(name: str, how: str) -> int:
    """The memory in bytes that a process takes for a file with nothing large in it."""
    with tempfile.TemporaryDirectory(prefix="arc-bounds-") as folder:
        path = Path(folder) / "run.jsonl"
        path.write_bytes(placed(name, "text", 7))
        return _process(name, how, path)[1]


def cost(name: str, what: str, size: int, how: str, folder: Path) -> Cost:
    """What a file with so large a text, or so many attributes, costs."""
    path = folder / f"{name}.jsonl"
    before = _for_nothing(name, how)
    path.write_bytes(placed(name, what, size))
    file_bytes = path.stat().st_size
    said, taken = _process(name, how, path)
    path.unlink()
    return Cost(name=f"{name} {how}", size=file_bytes, taken=max(0, taken - before), said=said)


def all_costs(what: str, large: int, others: int) -> Iterator[Cost]:
    """What the promised size costs in some formats, and less of it in all others."""
    from tests.hostile import SEEDS

    yield from costs(what, large, LARGEST, IMPORTED)
    yield from costs(what, others, [name for name in SEEDS if name not in LARGEST], [])


def costs(what: str, size: int, names: Sequence[str], imported: Sequence[str]) -> Iterator[Cost]:
    with tempfile.TemporaryDirectory(prefix="arc-bounds-") as folder:
        for name in names:
            yield cost(name, what, size, "read", Path(folder))
        for name in imported:
            yield cost(name, what, size, "import", Path(folder))


def _row(trial: str, found: Sequence[Cost]) -> Row:
    broken = [each.name for each in found if each.said is None]
    dear = [f"{each.name}: {each.times:.0f} times" for each in found if each.times > MOST_TIMES]
    most = max(each.times for each in found)
    good = len(found) - len(broken)
    figure = (
        f"{good} of {len(found)}; memory at most {most:.0f} times the file, {MOST_TIMES} may be"
    )
    return Row(
        promise=PROMISE,
        trial=trial,
        figure="; ".join((figure, *broken, *dear)),
        kept=not (broken or dear),
    )


# --- what hurts, of any size


def borne() -> tuple[int, list[str]]:
    """How many files with a value or a shape that hurts were imported, and what broke on it."""
    from taxonomy.judgements.schema import open_ledger
    from tests.hostile import ODD, SEEDS, SHAPES, places, put
    from tests.test_hostile import bear

    tried, broken = 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="arc-bounds-") as folder:
        for name, seed in SEEDS.items():
            store, values, chosen = open_ledger(":memory:"), seed(), random.Random(name)
            found = list(places(values))
            files = {what: put(values, chosen.choice(found), odd) for what, odd in ODD.items()}
            files |= {what: shape(values) for what, shape in SHAPES.items()}
            for what, data in files.items():
                tried += 1
                try:
                    bear(store, Path(folder) / "run.jsonl", data, name)
                except Exception as error:
                    broken.append(f"{name} {what}: {type(error).__name__}")
    return tried, broken


def counted(file: str) -> tuple[int, int]:
    """How many tests of a file pass, and how many do not."""
    words = ["-m", "pytest", "-q", "-o", "addopts=", f"tests/replay/{file}"]
    done = subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    figures = {word: int(figure) for figure, word in _COUNT.findall(done.stdout[-500:])}
    return figures.get("passed", 0), figures.get("failed", 0) + figures.get("error", 0)


_COUNT = re.compile(r"(\d+) (passed|failed|error)")


def rows() -> Iterator[Row]:
    from tests.hostile import ODD, SEEDS, SHAPES

    tried, broken = borne()
    yield Row(
        promise=PROMISE,
        trial=f"{len(ODD)} values (10 000 deep, half characters, no UTF-8, no number, before all"
        f" time) and {len(SHAPES)} shapes (circles, duplicates, ends before beginnings, clocks"
        f" apart) in {len(SEEDS)} formats, imported",
        figure="; ".join((f"{tried - len(broken)} of {tried}", *broken)),
        kept=not broken,
    )
    yield from sizes()
    for trial, file in TRIALS.items():
        passed, failed = counted(file)
        yield Row(
            promise=PROMISE,
            trial=trial,
            figure=f"{passed} of {passed + failed}",
            kept=passed > 0 and not failed,
        )


def sizes() -> Iterator[Row]:
    """What large values cost: all here that no everyday test tries."""
    from tests.hostile import SEEDS

    where = f"read in {len(LARGEST)} formats, imported in two"
    others = f"in the other {len(SEEDS) - len(LARGEST)}, read"
    text = list(all_costs("text", TEXT_BYTES, OTHERS_BYTES))
    sizes = f"a text of {TEXT_BYTES >> 20} MB, {where}; of {OTHERS_BYTES >> 20} MB {others}"
    yield _row(sizes, text)
    names = list(all_costs("fields", ATTRIBUTES, OTHERS_ATTRIBUTES))
    yield _row(f"{ATTRIBUTES} attributes, {where}; {OTHERS_ATTRIBUTES} {others}", names)


if __name__ == "__main__":
    came = _borne(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    print(f"{_peak_bytes()}\n{came}")
