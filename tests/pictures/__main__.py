"""`python -m tests.pictures [NAME…]`: draws the pictures of README and docs into
`docs/pictures`, or those that are named.

`trace` and `compare` show real runs, the airline runs beside the checkout, so `../shared` must be
there; the others are of the bundled runs. Fonts are left to whoever looks: nothing is fetched.
`served` and `report` need Chromium and are PNGs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from arc_tui import importing
from arc_tui.places import fixtures
from taxonomy.judgements.schema import open_ledger
from tests.pictures import browser, session, stills
from tests.shared import DATA

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
REAL = DATA / "tau_bench" / "gpt-4o-airline.json"
BUNDLED = fixtures() / "traces"
DRAWN: dict[str, tuple[Path, Callable[[Path], Coroutine[Any, Any, str | bytes]]]] = {
    "runs": (BUNDLED, stills.runs),
    "trace": (REAL, stills.trace),
    "replay": (BUNDLED, stills.replay),
    "bisect": (BUNDLED, stills.bisect),
    "failures": (BUNDLED, stills.failures),
    "session": (BUNDLED, session.recorded),
    "served": (BUNDLED, browser.served),
    "report": (BUNDLED, browser.reported),
}


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    asked.add_argument("names", nargs="*", choices=[[], *DRAWN], metavar="NAME")
    names = asked.parse_args().names or list(DRAWN)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            source, draw = DRAWN[name]
            database = Path(folder) / name / "arc.db"
            database.parent.mkdir()
            with open_ledger(database) as store:
                for _ in importing.import_paths(store, [source]):
                    pass
            drawn = asyncio.run(draw(database))
            file = PICTURES / (f"{name}.png" if isinstance(drawn, bytes) else f"{name}.svg")
            file.write_bytes(drawn if isinstance(drawn, bytes) else drawn.encode())
            print(f"docs/pictures/{file.name}")


if __name__ == "__main__":
    main()
