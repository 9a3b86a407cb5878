"""How few commands and keys the three questions take, on a bundled run: each press is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.commands import cli
from arc_tui.experiments.edit_widgets import PromptArea
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.places import fixtures
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import human_tags
from tests.arc_tui.free_case import TOUR
from tests.arc_tui.opening import until
from tests.screen import settle, text

RUN = fixtures() / "traces" / f"{TOUR}.jsonl"
PROMPT = (fixtures() / "demo" / "prompts" / "v4.md").read_text()
"""The prompt before it lost the sentence that makes the agent look."""


class Person:
    """Somebody at the keyboard, whose presses are counted."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self.pilot = pilot
        self.presses = 0

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.presses += 1
            await self.pilot.press(key)
            await settle(self.pilot)

    async def press_and_be_asked(self, key: str, question: str) -> None:
        """A key that asks something back: who asked waits for the answer."""
        self.presses += 1
        await self.pilot.press(key)
        await until(self.pilot, question)

    async def paste_prompt(self, words: str) -> None:
        """One press too, over what stands there."""
        self.presses += 1
        self.pilot.app.screen.query_one(PromptArea).load_text(words)
        await settle(self.pilot)

    @property
    def sees(self) -> str:
        return text(self.pilot.app)


@asynccontextmanager
async def sitting_at(db: Path) -> AsyncIterator[Person]:
    async with ArcApp(db).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        yield Person(pilot)


def test_from_a_file_to_a_candidate_with_its_evidence_are_two_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path))
    commands = (["import", str(RUN)], ["diagnose", "last"])
    said = [CliRunner().invoke(cli, words, catch_exceptions=False) for words in commands]
    assert len(commands) == 2
    assert "step 4" in said[-1].output
    assert "amount 7500 not found in context" in said[-1].output


@pytest.mark.pilot
async def test_from_the_list_to_a_tag_are_three_keys(db: Path) -> None:
    async with sitting_at(db) as person:
        await person.press("enter", "t", "h")
        assert person.presses == 3
        with open_ledger(db) as store:
            (tag,) = human_tags(store)
        assert (tag.step, tag.failure) == (4, FailureClass.HALLUCINATED_STATE)


@pytest.mark.pilot
async def test_from_the_break_to_a_verdict_on_an_edit_are_at_most_five(db: Path) -> None:
    async with sitting_at(db) as person:
        await person.press("enter")
        assert isinstance(person.pilot.app.screen, TraceScreen)
        assert "candidate: step 4" in person.sees
        person.presses = 0
        await person.press("e")
        await person.paste_prompt(PROMPT)
        await person.press_and_be_asked("ctrl+s", "name of the edit")
        await person.press("enter")
        assert person.presses <= 5
        assert "The edit first diverges at step 4" in person.sees
        assert "in 0/8 edited, 8/8 control" in " ".join(person.sees.split())
