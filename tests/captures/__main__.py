"""Make captures: `python -m tests.captures NAME… [--keep FOLDER]`, or `--all`.

Each runs anew in an environment of its own and is compared with what happened; with `--keep` its
files go to FOLDER/NAME as well. `--environments FOLDER` keeps the environments there and takes
those that are there already.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from replay.errors import ArcError
from tests.captures import kit
from tests.captures.scripts import Framework, environment, frameworks
from tests.captures.truth import differences_of


def main() -> int:
    known = frameworks()
    parser = argparse.ArgumentParser(prog="python -m tests.captures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--all", action="store_true", help="every framework")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the captures there")
    parser.add_argument("--environments", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    bad = 0
    for name in chosen.names:
        if name not in known:
            parser.error(f"no script makes '{name}'")
    with tempfile.TemporaryDirectory() as unkept:
        environments = chosen.environments or Path(unkept)
        for name in known if chosen.all else chosen.names:
            with tempfile.TemporaryDirectory() as work:
                said = made(known[name], Path(work), chosen.keep, environments)
            print(f"{name}: {'as it happened' if not said else ''}", flush=True)
            for each in said:
                print(f"  {each}", flush=True)
            bad += bool(said)
    return min(bad, 1)


def made(framework: Framework, work: Path, keep: Path | None, environments: Path) -> list[str]:
    """Make one capture; what is wrong with it, [] where nothing is."""
    try:
        where = environment(framework, environments)
        expected, files = kit.capture(framework, where, work / "run")
    except ArcError as error:
        return [str(error)]
    folder = (keep or work / "kept") / framework.name
    kit.written(expected, files, folder)
    return differences_of(folder)


if __name__ == "__main__":
    raise SystemExit(main())
