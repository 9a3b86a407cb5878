"""`python -m tests.shop [FOLDER]` records every run of the bundle again.

Writes `traces/shop-*.jsonl` (our native format, one run a file) and the tool definitions under
`demo/`; reads the hand-written prompts and step scores. The folder is `fixtures` unless given.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from replay.formats import arc
from tests.shop import runs
from tests.shop.tools import SHARPER, TOOLS, as_sent

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def main(folder: Path = FIXTURES, source: Path = FIXTURES) -> int:
    """Write the bundle into `folder`, from the hand-written files in `source`; how many traces."""
    traces, demo = folder / "traces", folder / "demo"
    for needed in (traces, demo):
        needed.mkdir(parents=True, exist_ok=True)
    for stale in traces.glob("shop-*.jsonl"):
        stale.unlink()
    scores = step_scores(source)
    count = 0
    for run in runs.bundle():
        batch = runs.record(run, source / "demo", scores)
        (traces / f"{run.source_id}.jsonl").write_bytes(b"".join(arc.write([batch])))
        count += 1
    _write_json(demo / "tools.json", as_sent(TOOLS))
    _write_json(demo / "tools-sharper.json", as_sent(TOOLS, SHARPER))
    return count


def step_scores(source: Path) -> dict[str, list[float | None]]:
    """The scores written by hand, by source id, one a step."""
    raw = (source / "demo" / "step_scores.json").read_bytes()
    entries = msgspec.json.decode(raw, type=dict[str, dict[str, Any]])
    return {name: entry["scores"] for name, entry in entries.items()}


def _write_json(path: Path, value: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


if __name__ == "__main__":
    print(f"{main(Path(sys.argv[1]) if sys.argv[1:] else FIXTURES)} traces recorded")
