"""The README says what there is: its tables are generated, and nothing is missing from them."""

from __future__ import annotations

import re

from arc_tui.commands import COMMANDS
from tests.readme import README, rendered


def test_the_readme_is_what_the_code_says() -> None:
    text = README.read_text()
    assert rendered(text) == text, "run `python -m tests.readme`"


def test_every_command_stands_in_the_readme() -> None:
    text = README.read_text()
    assert [name for name in COMMANDS if f"arc {name}" not in text] == []


def test_the_map_names_only_what_there_is() -> None:
    """Each name in backquotes that looks like a module or a folder of the product exists."""
    root = README.parent
    for page in (root / "CONTRIBUTING.md", root / "docs/architecture.md"):
        for name in re.findall(r"`([a-z_/]+(?:/|\.py))`", page.read_text()):
            homes = ("", "replay", "replay/formats", "taxonomy", "arc_tui")
            assert any((root / home / name).exists() for home in homes), (page.name, name)
