"""The README says what there is: its tables are generated, and nothing is missing from them."""

from __future__ import annotations

from arc_tui.commands import COMMANDS
from tests.readme import README, rendered


def test_the_readme_is_what_the_code_says() -> None:
    text = README.read_text()
    assert rendered(text) == text, "run `python -m tests.readme`"


def test_every_command_stands_in_the_readme() -> None:
    text = README.read_text()
    assert [name for name in COMMANDS if f"arc {name}" not in text] == []
