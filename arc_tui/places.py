"""Where things lie on this machine: the database, the configuration, the bundled fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import arc_tui


def database(given: Path | None) -> Path:
    """The database to open: what was given, else `arc.db` in the platform's data folder."""
    return given or data_folder() / "arc.db"


def demo_database(given: Path | None) -> Path:
    """The demo's own database, so that nothing of it mixes with real runs."""
    return given or data_folder() / "demo.db"


def data_folder() -> Path:
    from platformdirs import user_data_path

    given = os.environ.get("ARC_DATA_DIR")
    return Path(given) if given else user_data_path("arc", appauthor=False)


def fixtures() -> Path:
    """The bundled traces and prompts: inside the package of a wheel, beside it in a checkout."""
    inside = Path(arc_tui.__file__).parent / "fixtures"
    return inside if inside.is_dir() else Path(arc_tui.__file__).parents[1] / "fixtures"


def author() -> str:
    """Who is at the keyboard: `ARC_USER`, else the name of the account. Raises ArcError where that
    is no text that can be stored."""
    import getpass

    from replay.written import refuse_halves

    name = os.environ.get("ARC_USER") or getpass.getuser()
    refuse_halves(name)
    return name
