"""`python -m tests.mutants`: do the tests notice mistakes in the code that decides verdicts?

In a copy of the checkout, mutmut changes one thing at a time in replays, bisection, digests and
rules, and runs the tests that reach the changed function. A random sample of the mutants is tried,
the same one for the same seed: the score is the share that made a test fail or never end. Decorated
functions, so properties too, are not changed by mutmut. Needs the extra `mutants`, and a quiet
machine for half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.conftest import EVERYDAY
from tests.shared import DATA

ROOT = Path(__file__).resolve().parents[1]
CODE = ("replay/locked/*", "replay/bisection/*", "replay/digests.py", "taxonomy/rules/*")
TESTS = ("tests/replay", "tests/taxonomy")
FIRST = "taxonomy.rules.gave_up.*"
"""The few with which mutmut begins: it makes all mutants then, and notes what each test reaches."""

NOTICED = {"killed", "timeout", "segfault"}
UNTOUCHED = {"not checked", "skipped"}

CONFIG = f"""
[tool.mutmut]
source_paths = ["arc_tui", "replay", "taxonomy"]
only_mutate = {json.dumps(CODE)}
also_copy = ["fixtures", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
pytest_add_cli_args = ["-n0", "--hypothesis-profile=mutants", "-m", "{EVERYDAY}"]
pytest_add_cli_args_test_selection = {json.dumps(TESTS)}
timeout_constant = 5.0
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=400, help="how many mutants are tried")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="for the copy, which then stays; it is new")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="arc-mutants-"))
    try:
        copy_checkout(folder / "arc")
        names = sample_of(folder / "arc", given.sample, given.seed, given.workers)
        report(folder / "arc", names, given.workers)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)


def copy_checkout(to: Path) -> None:
    """What git has or would have, and the real traces beside it."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)
    if DATA.exists():
        (to / "shared").symlink_to(DATA.parent)  # of the copy that mutmut makes in `mutants`
    with (to / "pyproject.toml").open("a") as file:
        file.write(CONFIG)


def sample_of(folder: Path, many: int, seed: int, workers: int) -> list[str]:
    """The names of so many mutants of all there are."""
    mutmut(folder, "run", "--max-children", str(workers), FIRST)
    found = [
        name
        for path in sorted((folder / "mutants").rglob("*.meta"))
        for name in json.loads(path.read_text())["exit_code_by_key"]
    ]
    print(f"{len(found)} mutants, {min(many, len(found))} tried (seed {seed})", flush=True)
    return random.Random(seed).sample(sorted(found), min(many, len(found)))


def report(folder: Path, names: list[str], workers: int) -> None:
    """Try them; print the score by package, and each mutant that no test noticed."""
    mutmut(folder, "run", "--max-children", str(workers), *names)
    said = mutmut(folder, "results", "--all", "true")
    ended = dict(re.findall(r"^ +(\S+): (.+)$", said, re.MULTILINE))
    counts: dict[str, Counter[str]] = {}
    for name in names:
        package = ".".join(name.split(".")[:2])
        counts.setdefault(package, Counter())[ended[name]] += 1
    for place, count in sorted(counts.items()):
        print(f"{place}: {score(count)} ({', '.join(f'{n} {how}' for how, n in count.items())})")
    print(f"all: {score(sum(counts.values(), Counter()))}")
    for name in sorted(names):
        if ended[name] not in NOTICED:
            print(f"\n{ended[name]}: {mutmut(folder, 'show', name).strip()}", flush=True)


def score(count: Counter[str]) -> str:
    tried = count.total() - sum(count[each] for each in UNTOUCHED)
    noticed = sum(count[each] for each in NOTICED)
    return f"{noticed} of {tried} noticed, {noticed / tried:.2f}" if tried else "none tried"


def mutmut(folder: Path, *words: str) -> str:
    """What mutmut prints. Exits with it where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *words], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"mutmut {words[0]}: {done.stdout[-3000:] or done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
