"""Does any file make a reader crash or hang?

Files that each format claims are changed, and changed again where that led somewhere new, which
atheris (the extra `fuzz`) knows from the branches that were taken; without it they are changed by
chance alone. A format is read in a process of its own: libFuzzer ends the process it runs in.
A crash is anything raised but `ArcError`. A hang is more processor time than many times what the
seeds take by their size.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, structs

from tests.faults import Row

REPOSITORY = Path(__file__).resolve().parents[2]

SECONDS = 90.0
"""Of looking, over all formats and both processes, as long as nobody says otherwise."""

AT_ONCE = 2
_HANG_S = 60
"""After which libFuzzer ends an input; far beyond what is slow already."""
_MOST_MIB = 3000

ALLOWED_S = 0.5
ALLOWED_RATIO = 50.0
"""Processor time that any input may take, and how many times what the seeds take by the byte."""

MOST_SEEDS = 24
MOST_SEED_BYTES = 32 * 1024


class Tried(Struct, frozen=True, kw_only=True):
    """What came of a format: how many inputs it was given, what was raised (by place, with a file
    that does it), which took too long, and the memory of the process."""

    format: str
    inputs: int
    crashes: dict[str, str] = {}
    hangs: dict[str, str] = {}
    peak_mib: int = 0


class Target:
    """Reads what it is given as one format. What goes wrong is kept, and the next is read."""

    def __init__(self, name: str, folder: Path) -> None:
        from replay import formats
        from replay.errors import ArcError
        from replay.formats.source import Source, Tally

        self._formats, self._said, self._source, self._tally = formats, ArcError, Source, Tally
        self._format = formats.named(name)
        self._folder, self._path = folder, folder / "input"
        self._rate_s = 0.0
        self.inputs = 0
        self.crashes: dict[str, str] = {}
        self.hangs: dict[str, str] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def warm(self, seeds: Sequence[bytes]) -> None:
        """Learn what the seeds take, by the byte."""
        for _ in range(2):
            taken_s = [self._timed(seed) for seed in seeds]
        self._rate_s = sum(taken_s) / max(1, sum(map(len, seeds)))

    def __call__(self, data: bytes) -> None:
        self.inputs += 1
        due_s = ALLOWED_S + ALLOWED_RATIO * self._rate_s * len(data)
        taken_s = self._timed(data)
        if taken_s > due_s and self._timed(data) > due_s:
            self._keep("hang", self.hangs, f"{taken_s:.1f} s for {len(data)} bytes", data)

    def _timed(self, data: bytes) -> float:
        self._path.write_bytes(data)
        before = time.process_time()
        try:
            self._read()
        except Exception as error:
            self._keep("crash", self.crashes, _place(error), data)
        return time.process_time() - before

    def _read(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            source = self._source(self._path, display="x")
            try:
                self._formats.sniff(source)
                for _ in self._formats.load(source, self._tally(), format=self._format):
                    pass
            except self._said:
                pass

    def _keep(self, what: str, found: dict[str, str], said: str, data: bytes) -> None:
        if said not in found:
            path = self._folder / f"{what}-{len(found)}"
            path.write_bytes(data)
            found[said] = str(path)


def _place(error: Exception) -> str:
    """What was raised, and the last place of ours that it went through."""
    ours = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(str(REPOSITORY / "replay"))
    ]
    last = ours[-1] if ours else None
    at = f"{Path(last.filename).relative_to(REPOSITORY)}:{last.lineno}" if last else "?"
    return f"{type(error).__name__} at {at}"


# --- in a process of its own


def by_chance(name: str, seeds: Sequence[bytes], folder: Path, inputs: int, seed: int) -> Tried:
    """So many inputs made of the seeds by this chance, read in this process."""
    from tests.faults.mutations import mutated

    target, chosen = Target(name, folder), Random(seed)
    target.warm(seeds)
    for _ in range(inputs):
        target(mutated(chosen.choice(seeds), chosen))
    return _tried(target, name)


def _tried(target: Target, name: str) -> Tried:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return Tried(
        format=name,
        inputs=target.inputs,
        crashes=target.crashes,
        hangs=target.hangs,
        peak_mib=peak,
    )


def _grow(folder: Path, names: Sequence[str], seconds: float, seed: int) -> None:
    """Look at each format in a process forked from this one, which has the readers loaded, and
    leave what came of it in `tried.json` of its folder."""
    atheris: Any = import_module("atheris") if find_spec("atheris") else None
    if atheris is not None:
        with atheris.instrument_imports(include=["replay"]):
            tuple(import_module("replay.formats").formats())
    left, going = list(reversed(names)), dict[int, str]()
    while left or going:
        while left and len(going) < AT_ONCE:
            name = left.pop()
            pid = os.fork()
            if not pid:
                with (folder / name / "said").open("wb") as said:
                    os.dup2(said.fileno(), 1)
                    os.dup2(said.fileno(), 2)
                _search(name, folder / name, seconds, seed, atheris)
                os._exit(0)
            going[pid] = name
        pid, status, used = os.wait4(-1, 0)
        name = going.pop(pid)
        ended = _ended(name, folder / name, os.waitstatus_to_exitcode(status), used.ru_maxrss)
        (folder / name / "tried.json").write_bytes(msgspec.json.encode(ended))


def _ended(name: str, folder: Path, code: int, peak_kib: int) -> Tried:
    """What a process told before its end, and how that was."""
    said = folder / "tried.json"
    tried = Tried(format=name, inputs=0)
    if said.exists():
        tried = msgspec.json.decode(said.read_bytes(), type=Tried)
    late = {path.name: str(path) for path in folder.glob("stopped-timeout*")}
    broken = {f"the process ended: {code}": str(folder / "said")} if code and not late else {}
    return structs.replace(
        tried,
        crashes=tried.crashes | broken,
        hangs=tried.hangs | late,
        peak_mib=peak_kib >> 10,
    )


def _search(name: str, folder: Path, seconds: float, seed: int, atheris: Any) -> None:
    seeds = [path.read_bytes() for path in sorted((folder / "seeds").iterdir())]
    from tests.faults.mutations import MOST_BYTES, mutated

    target = Target(name, folder)
    target.warm(seeds)
    said = folder / "tried.json"

    def tell() -> None:
        said.write_bytes(msgspec.json.encode(_tried(target, name)))

    if atheris is None:
        chosen, until = Random(seed), time.monotonic() + seconds
        while time.monotonic() < until:
            target(mutated(chosen.choice(seeds), chosen))
        tell()
        return

    told = time.monotonic()

    def one(data: bytes) -> None:
        nonlocal told
        target(data)
        if time.monotonic() - told > 0.5:
            told = time.monotonic()
            tell()

    def change(data: bytes, most: int, seed: int) -> bytes:
        chosen = Random(seed)
        if chosen.random() < 0.2:
            return bytes(atheris.Mutate(data, most))
        return mutated(data, chosen)[:most]

    tell()
    atheris.Setup(
        [
            name,
            f"-max_total_time={max(1, int(seconds))}",
            f"-seed={seed}",
            f"-max_len={MOST_BYTES}",
            f"-timeout={_HANG_S}",
            f"-rss_limit_mb={_MOST_MIB}",
            f"-artifact_prefix={folder}/stopped-",
            "-verbosity=0",
            str(folder / "seeds"),
        ],
        one,
        custom_mutator=change,
    )
    atheris.Fuzz()


# --- seeds


def seeds_of(folder: Path, *, real: bool = True) -> dict[str, list[bytes]]:
    """Small files of each format: those that tests write, and `real` ones of this checkout and
    beside it."""
    from replay.errors import ArcError
    from replay.formats import formats, sniff
    from replay.formats.source import Source
    from tests.hostile import SEEDS, written
    from tests.shared import DATA

    found: dict[str, list[bytes]] = {each.NAME: [] for each in formats()}
    for name, seed in SEEDS.items():
        found[name].append(written(seed()))
    for name, path in _binary(folder):
        found[name].append(path.read_bytes())
    for root in (REPOSITORY / "fixtures", DATA) if real else ():
        for path in sorted(root.rglob("*"), key=_size):
            if not path.is_file() or not 0 < _size(path) <= MOST_SEED_BYTES:
                continue
            try:
                claimed = sniff(Source(path))
            except ArcError:
                continue
            if claimed is not None and len(found[claimed.NAME]) < MOST_SEEDS:
                found[claimed.NAME].append(path.read_bytes())
    return found


def _size(path: Path) -> int:
    return path.stat().st_size


def _binary(folder: Path) -> Iterator[tuple[str, Path]]:
    """Files that are no text: databases, a zip, a table of columns, protobuf."""
    from google.protobuf import json_format
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    from tests.replay import otlp_case as otlp
    from tests.replay import test_opencode, test_parquet, test_report
    from tests.replay.sqlite_case import LLM, MLFLOW, PHOENIX, STORE, made, observed, tracked
    from tests.replay.test_inspect import CONVERSATION, asks, model, sample, write_eval
    from tests.replay.test_sqlite import CHATS, SMALL

    yield "sqlite", made(folder / "phoenix.db", PHOENIX, SMALL)
    yield "sqlite", made(folder / "logs.db", LLM + STORE, CHATS)
    asked = [tracked(), observed("a", "LLM", None, 0, "Hi", "Ho")]
    yield "sqlite", made(folder / "mlflow.db", MLFLOW, asked)
    talk = (test_opencode.session(), test_opencode.TALK)
    yield "opencode", test_opencode.database(folder / "opencode.db", talk)
    event = model(0, CONVERSATION[:2], asks("c1"), uuid="m1")
    yield "inspect", write_eval(folder, {"samples/a_epoch_1.json": sample([event])})
    if find_spec("duckdb"):
        rows = (test_parquet.ASK, test_parquet.AGENT)
        yield "openinference", test_parquet.written(folder / "x.parquet", *rows)
    spans = folder / "spans.pb"
    said = json_format.ParseDict(otlp.spans(otlp.AGENT, otlp.FIRST, otlp.RUN), TracesData())
    spans.write_bytes(said.SerializeToString())
    yield "otlp", spans
    report = folder / "report.html"
    report.write_bytes(test_report.page())
    yield "report", report


# --- all formats


def look(seconds: float, folder: Path, names: Sequence[str] = (), seed: int = 1) -> list[Tried]:
    """So many seconds of looking at these formats, or at all, each for the same time. What does
    harm is left in the folder."""
    made = folder / "made"
    made.mkdir(parents=True, exist_ok=True)
    found = {name: given for name, given in seeds_of(made).items() if not names or name in names}
    for name, given in found.items():
        (folder / name / "seeds").mkdir(parents=True)
        for at, data in enumerate(given):
            (folder / name / "seeds" / f"{at:03}").write_bytes(data)
    each_s = seconds * AT_ONCE / len(found)
    words = ["--into", str(folder), "--seconds", str(each_s), "--seed", str(seed), "--child"]
    subprocess.run(
        [sys.executable, "-m", "tests.faults.fuzzed", *found, *words],
        cwd=REPOSITORY, check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return [
        msgspec.json.decode((folder / name / "tried.json").read_bytes(), type=Tried)
        for name in found
    ]


def rows(seconds: float = SECONDS) -> Iterator[Row]:
    """What came of looking for so long."""
    with tempfile.TemporaryDirectory(prefix="arc-fuzz-") as folder:
        yield from told(look(seconds, Path(folder)), seconds)


def told(found: Sequence[Tried], seconds: float) -> Iterator[Row]:
    crashes = [f"{each.format}: {place}" for each in found for place in each.crashes]
    hangs = [f"{each.format}: {said}" for each in found for said in each.hangs]
    idle = [f"{each.format}: nothing tried" for each in found if not each.inputs]
    how = "atheris, by the branches taken" if find_spec("atheris") else "by chance; no atheris here"
    peak = max(each.peak_mib for each in found)
    said = f"{len(crashes)} crashes, {len(hangs)} hangs; at most {peak} MiB"
    yield Row(
        promise="a file is read or refused in a sentence, whatever it holds",
        trial=f"{sum(each.inputs for each in found)} changed files of {len(found)} formats"
        f" in {seconds:.0f} s ({how})",
        figure="; ".join((said, *crashes, *hangs, *idle)),
        kept=not (crashes or hangs or idle),
    )


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.faults.fuzzed", description=__doc__)
    asked.add_argument("formats", nargs="*", metavar="FORMAT")
    asked.add_argument("--seconds", type=float, default=SECONDS, help="over all formats")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--into", type=Path, help="a folder for the files that do harm")
    asked.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.child:
        _grow(given.into, given.formats, given.seconds, given.seed)
        return 0
    folder = given.into or Path(tempfile.mkdtemp(prefix="arc-fuzz-"))
    found = look(given.seconds, folder, given.formats, given.seed)
    for each in found:
        print(f"{each.format}: {each.inputs} inputs, {each.peak_mib} MiB")
        for said, path in (*each.crashes.items(), *each.hangs.items()):
            print(f"  {said}  {path}")
    for row in told(found, given.seconds):
        print(f"{row.trial}: {row.figure}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
