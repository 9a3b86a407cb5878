"""The demo's database: the bundled runs, imported like any others."""

from __future__ import annotations

from pathlib import Path

from arc_tui.jobs import importing
from arc_tui.places import fixtures
from taxonomy.ledger import open_ledger


def make_demo(path: Path, *, reset: bool = False) -> None:
    """Fill the demo database on first use; `reset` begins again."""
    if reset:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    fresh = not path.exists()
    with open_ledger(path) as store:
        if fresh:
            for _ in importing.import_paths(store, [fixtures() / "traces"]):
                pass
