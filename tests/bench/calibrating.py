"""`python -m tests.bench.calibrating`: measures arc on the shared label sets, once and in full.

Writes `fixtures/calibration.json`, from which docs and app take their figures: a machine without
the label sets shows what was measured on one that has them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from arc_tui import __version__, importing
from arc_tui.features.calibration.view import build_calibration
from arc_tui.places import fixtures
from replay.store.handle import Store
from taxonomy.judgements import diagnoses
from taxonomy.judgements.schema import open_ledger
from tests.bench.calibration_results import FILE, Results, ResultSet, markdown
from tests.shared import DATA

SETS = {
    "trail_swe_bench": "trail_swe",
    "whowhen_ag": "whowhen",
    "toolbench_cot": "toolbench",
    "tb_claude_code": "claude_code_runs",
}
"""Label file by name, and the folder of the traces it labels."""

DIGITS = 6


def measure(folder: Path) -> Iterator[ResultSet]:
    """Import the traces of each set into a database of their own and hold them to the labels."""
    for name, traces in SETS.items():
        with open_ledger(folder / f"{name}.db") as store:
            for _ in importing.import_paths(store, [DATA / traces]):
                pass
            yield measured(store, name)


def measured(store: Store, name: str) -> ResultSet:
    """One set whose traces are in the database."""
    view = build_calibration(store, DATA / "labels" / f"{name}.jsonl")
    figures = tuple(part.figures for part in view.parts)
    return ResultSet(name=name, labels=view.read, figures=figures)


def encoded(results: Results) -> bytes:
    """The results as they are kept: indented, figures with a few digits."""
    plain = _rounded(msgspec.to_builtins(results))
    return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return value


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="arc-calibrating-") as folder:
        results = Results(
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            version=__version__,
            engine=diagnoses.engine_version(),
            sets=tuple(measure(Path(folder))),
        )
    (fixtures() / FILE).write_bytes(encoded(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
