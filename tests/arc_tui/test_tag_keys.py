"""Which suggestion of the tag picker is chosen by arrow and digit, and that enter tags with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import Input

from arc_tui.features.trace.screen import TraceScreen
from arc_tui.features.trace.tag_picker import SuggestionList, TagPicker
from taxonomy.classes import SUB_LABELS, FailureClass
from taxonomy.findings import Evidence, Finding
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import human_tags
from tests.arc_tui import opening, sample
from tests.arc_tui.test_every_screen import by_key
from tests.screen import press, rows, text

STEP = 3
"""Where the run opens."""

MANY = tuple(
    Finding(
        failure=FailureClass.OTHER,
        sub=sub,
        step=STEP,
        why=f"reason {place}",
        rule=f"rule {place}",
        evidence=(Evidence(role="says", text=f"words {place}", step=STEP),),
    )
    for place, sub in enumerate(SUB_LABELS[:9], 1)
)
"""As many as there are digits."""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


@asynccontextmanager
async def picking(
    db: Path, *found: Finding, size: tuple[int, int] = opening.SIZES[1]
) -> AsyncIterator[Pilot[None]]:
    """The picker, open at a step of which that is suggested."""
    said = structs.replace(sample.SAID, findings=found)
    key = sample.put(db, sample.header("26", "1", sample.FAILED), sample.failed_run().spans, said)
    async with opening.opened(TraceScreen(db, key), size) as pilot:
        await by_key(pilot, "trace.tag")
        assert isinstance(pilot.app.screen, TagPicker)
        yield pilot


def chosen(pilot: Pilot[None]) -> str:
    """The suggestion that enter would take, as it is written beside that key."""
    lines = [row.split("│") for row in rows(pilot.app) if "│  ⏎   " in row]
    (line,) = (part for parts in lines for part in parts if part.startswith("  ⏎   "))
    return line.removeprefix("  ⏎").strip()


@pytest.mark.pilot
async def test_a_digit_chooses_the_suggestion_that_bears_it_and_shows_its_evidence(
    db: Path,
) -> None:
    async with picking(db, *MANY) as pilot:
        for place in (*range(2, 10), 1):
            await by_key(pilot, f"tag.suggestion_{place}")
            sub = SUB_LABELS[place - 1]
            assert chosen(pilot) == f"{place} other / {sub}: reason {place}"
            shown = pilot.app.screen.query_one(SuggestionList).render().plain
            assert [at for at in range(1, 10) if f"words {at}" in shown] == [place]


@pytest.mark.pilot
@pytest.mark.parametrize("place", [2, 9])
async def test_enter_tags_the_step_with_the_suggestion_of_the_digit_before_it(
    place: int, db: Path
) -> None:
    async with picking(db, *MANY) as pilot:
        await press(pilot, str(place), "enter")
        with open_ledger(db) as store:
            (tag,) = human_tags(store)
        assert (tag.step, tag.failure, tag.sub) == (STEP, "other", SUB_LABELS[place - 1])


@pytest.mark.pilot
async def test_a_note_with_half_of_a_character_is_refused_in_words(db: Path) -> None:
    async with picking(db, *MANY) as pilot:
        pilot.app.screen.query_one(Input).value = "so \ud83d"
        await by_key(pilot, "tag.accept")
        await opening.until(pilot, "half of a character (U+D83D) at 4")
        with open_ledger(db) as store:
            assert human_tags(store) == []


@pytest.mark.pilot
async def test_a_digit_that_no_suggestion_bears_changes_nothing(db: Path) -> None:
    async with picking(db, *MANY[:3]) as pilot:
        await press(pilot, "2", "4", "9")
        assert chosen(pilot).startswith("2 ")


@pytest.mark.pilot
async def test_arrows_go_through_the_suggestions_and_round_their_ends(db: Path) -> None:
    async with picking(db, *MANY[:3]) as pilot:
        assert chosen(pilot).startswith("1 ")
        for name, place in (("next", 2), ("before", 1), ("before", 3), ("before", 2)):
            await by_key(pilot, f"tag.{name}")
            assert chosen(pilot).startswith(f"{place} ")
        await by_key(pilot, "tag.accept")
        with open_ledger(db) as store:
            assert [tag.sub for tag in human_tags(store)] == [SUB_LABELS[1]]


@pytest.mark.pilot
async def test_of_many_those_about_the_chosen_one_are_shown_where_there_is_little_room(
    db: Path,
) -> None:
    async with picking(db, *MANY, size=opening.SIZES[0]) as pilot:
        for place, others in ((1, {1, 2, 3}), (5, {4, 5, 6}), (9, {7, 8, 9})):
            await press(pilot, str(place))
            shown = text(pilot.app)
            assert {at for at in range(1, 10) if f"reason {at}" in shown} == others
            assert f"words {place}" in shown
            assert "… 6 more: j next, a digit selects" in shown
            for below in ("clean run", "attribution", "note to save with the tag"):
                assert below in shown
        await press(pilot, "down")
        assert chosen(pilot).startswith("1 ")


@pytest.mark.pilot
async def test_a_click_on_one_of_them_chooses_it(db: Path) -> None:
    async with picking(db, *MANY, size=opening.SIZES[0]) as pilot:
        await press(pilot, "5")
        lines = rows(pilot.app)
        for wanted in (6, 4):
            y = next(at for at, line in enumerate(rows(pilot.app)) if f"reason {wanted}" in line)
            await pilot.click(offset=(20, y))
            assert chosen(pilot).startswith(f"{wanted} ")
            await press(pilot, "5")
            assert rows(pilot.app) == lines
