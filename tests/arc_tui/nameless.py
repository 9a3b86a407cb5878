"""A bundled run of which nobody wrote down which model answered."""

from __future__ import annotations

from pathlib import Path

from arc_tui import importing
from arc_tui.places import fixtures
from taxonomy.judgements.schema import open_ledger


def put(folder: Path, name: str) -> Path:
    """A database in the folder with that run alone, its model left out."""
    text = (fixtures() / "traces" / f"{name}.jsonl").read_text()
    file, path = folder / "run.jsonl", folder / "nameless.db"
    file.write_text(text.replace('"model":"demo",', "").replace('"response_model":"demo",', ""))
    with open_ledger(path) as store:
        for _ in importing.import_paths(store, [file]):
            pass
    return path
