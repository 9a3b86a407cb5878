"""The queue from run to run: what its line says, what the keys keep, what a blind pass hides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.navigation import OpenQueue
from arc_tui.places import author
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.queue import Visit
from replay.store.rows import step_rows
from taxonomy.classes import Attribution, FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, human_tags, human_words, put_tag
from taxonomy.queue import queue
from tests.arc_tui import sample
from tests.arc_tui.opening import looks_like
from tests.arc_tui.six_runs import db
from tests.screen import matches_golden, press, rows, settle, text

__all__ = ["db"]


class QueueApp(ArcApp):
    """The app over an empty first screen."""

    def get_default_screen(self) -> ArcScreen:
        return ArcScreen(self.path)


Walk = Pilot[None]


def tag(db: Path, place: int, by: str, failure: FailureClass, step: int) -> None:
    """Somebody tags the run at a place of the queue that is there before anybody said a word."""
    with open_ledger(db) as store:
        each = queue(store, "nobody").waiting[place]
        span = step_rows(store, each.trace)[step].span
        given = Tag(trace=each.trace, span=span, step=step, failure=failure, by=by)
        put_tag(store, given)


@asynccontextmanager
async def walking(
    db: Path, size: tuple[int, int] = (120, 40), *, blind: bool = False, toasts: bool = False
) -> AsyncIterator[Walk]:
    """The app on the first run of the queue, as it is after it was read."""
    app = QueueApp(db)
    async with app.run_test(size=size, notifications=toasts) as pilot:
        await settle(pilot)
        with open_ledger(db) as store:
            visit = Visit(queue=queue(store, author(), blind=blind))
        app.post_message(OpenQueue(visit))
        await settle(pilot)
        yield pilot


def here(pilot: Walk) -> TraceScreen:
    screen = pilot.app.screen
    assert isinstance(screen, TraceScreen)
    return screen


def kept(db: Path) -> list[tuple[str, int | None, str, bool]]:
    """Everyone's words: who, the step, the class ("" for nothing wrong), whether blind."""
    with open_ledger(db) as store:
        words = human_words(store)
    return sorted((word.by, word.step or 0, word.failure or "", word.blind) for word in words)


@pytest.mark.parametrize(
    ("columns", "keys"), [(80, "t tag  - clean  T skip  Q blind"), (120, "- clean run  T skip")]
)
@pytest.mark.pilot
async def test_the_first_line_says_where_and_what_the_keys_do(
    db: Path, columns: int, keys: str
) -> None:
    async with walking(db, (columns, 24)) as pilot:
        first = rows(pilot.app)[0]
        assert first.startswith(" queue 1 of 5 · untagged failure")
        assert keys in first
        assert "✗ 0.0" in rows(pilot.app)[1]


@pytest.mark.pilot
async def test_a_tag_goes_on_and_u_comes_back_to_take_it_away(db: Path) -> None:
    async with walking(db) as pilot:
        assert "queue 1 of 5 · untagged failure" in rows(pilot.app)[0]
        assert here(pilot).step == 3
        first = here(pilot).trace
        await press(pilot, "t", "l")
        assert "queue 2 of 5" in rows(pilot.app)[0]
        assert kept(db) == [("mei", 3, "loop", False)]
        await press(pilot, "minus")
        assert "queue 3 of 5" in rows(pilot.app)[0]
        assert kept(db) == [("mei", 0, "", False), ("mei", 3, "loop", False)]
        await press(pilot, "u")
        assert "queue 2 of 5" in rows(pilot.app)[0]
        await press(pilot, "u")
        assert "queue 1 of 5" in rows(pilot.app)[0]
        assert here(pilot).trace == first
        assert kept(db) == []


@pytest.mark.pilot
async def test_what_is_skipped_waits_for_the_next_visit(db: Path) -> None:
    async with walking(db, toasts=True) as pilot:
        await press(pilot, "T", "T", "T", "T")
        assert "queue 5 of 5 · audit sample" in rows(pilot.app)[0]
        await press(pilot, "t", "minus")
        assert not isinstance(pilot.app.screen, TraceScreen)
        assert "Review queue done: 1 run done, 4 skipped" in text(pilot.app)
    with open_ledger(db) as store:
        assert len(queue(store, "mei").waiting) == 4


@pytest.mark.pilot
async def test_an_empty_queue_says_so_and_escape_leaves_for_where_it_was_opened(db: Path) -> None:
    async with walking(db, toasts=True) as pilot:
        await press(pilot, "Q")
        assert "no run tagged by others for mei" in text(pilot.app)
        assert "queue 1 of 5" in rows(pilot.app)[0]
        await press(pilot, "s", "escape")
        assert not isinstance(pilot.app.screen, TraceScreen)
        assert kept(db) == []


class TestBlind:
    @pytest.fixture(autouse=True)
    def _ada_tagged(self, db: Path) -> None:
        tag(db, 0, "ada", FailureClass.BAD_ARGS, 5)

    @pytest.mark.pilot
    async def test_nothing_that_others_or_rules_say_is_shown(self, db: Path) -> None:
        async with walking(db, (80, 24), blind=True) as pilot:
            await looks_like(pilot, "queue_blind")
            assert here(pilot).step == 0
            for step in (3, 5):  # the first candidate, and where Ada's tag stands
                here(pilot).spans.go_to(step)
                await press(pilot, "1")
                said = text(pilot.app)
                for word in ("ada", "◆", "hallucinated", "bad args", "tagged", "0.25", "12 May is"):
                    assert word not in said, (step, word)
            await press(pilot, "t")
            picker = text(pilot.app)
            assert "ada" not in picker
            assert "suggested" not in picker
            assert "enter" not in picker

    @pytest.mark.pilot
    async def test_the_word_is_kept_as_blind_and_others_then_stand_beside_it(
        self, db: Path
    ) -> None:
        async with walking(db, blind=True) as pilot:
            here(pilot).spans.go_to(3)
            await press(pilot, "t", "l")
            assert kept(db) == [("ada", 5, "bad args", False), ("mei", 3, "loop", True)]
            await looks_like(pilot, "queue_revealed")
            second = rows(pilot.app)[1]
            assert "you: loop at step 3 · ada: bad args at step 5" in second
            assert "another class, 2 steps apart" in second
            await press(pilot, "J", "t", "a")
            assert ("mei", 4, "bad args", False) in kept(db), "what is said now is not blind"
            await press(pilot, "T")
            assert not isinstance(pilot.app.screen, TraceScreen), "it was the last"

    @pytest.mark.pilot
    async def test_b_turns_to_it_and_back_and_what_would_tell_the_break_waits_there(
        self, db: Path
    ) -> None:
        telling = {"trace.replay", "trace.edit", "trace.free", "trace.candidate_next"}

        def offered() -> set[str | None]:
            active = here(pilot).active_bindings.values()
            return {each.binding.id for each in active if each.enabled}

        async with walking(db) as pilot:
            assert "queue 1 of 4 · untagged failure" in rows(pilot.app)[0]
            await press(pilot, "Q")
            assert "blind queue 1 of 1 · second look" in rows(pilot.app)[0]
            assert "trace.tag" in offered()
            assert not offered() & telling
            await press(pilot, "Q")
            assert "queue 1 of 4 · untagged failure" in rows(pilot.app)[0]


class TestPicker:
    @pytest.mark.pilot
    async def test_a_suggestion_keeps_its_fault_and_f_says_another(self, db: Path) -> None:
        async with walking(db) as pilot:
            view = here(pilot).view
            assert view.diagnosis is not None
            both = (sample.BELIEF, structs.replace(sample.USERS, step=3), sample.MISREAD)
            known = structs.replace(view.diagnosis, findings=both)
            here(pilot).view = structs.replace(view, diagnosis=known)
            await press(pilot, "t", "down")
            matches_golden(pilot.app, "tag_picker_several_120x40")
            await press(pilot, "enter")
            await press(pilot, "t", "W", "W")
            assert "[environment]" in text(pilot.app)
            await press(pilot, "g")
        with open_ledger(db) as store:
            said = {tag.failure: (tag.sub, tag.attribution) for tag in human_tags(store)}
        assert said == {
            FailureClass.OTHER: ("premise not checked", Attribution.USER),
            FailureClass.GAVE_UP: (None, Attribution.ENVIRONMENT),
        }

    @pytest.mark.pilot
    async def test_who_else_says_a_class_stands_beside_it(self, db: Path) -> None:
        async with walking(db, (80, 24)) as pilot:
            tag(db, 0, "ada", FailureClass.LOOP, 3)
            here(pilot).tagging.read_tags()
            await settle(pilot)
            await press(pilot, "t")
            matches_golden(pilot.app, "tag_picker_80x24")
            said = text(pilot.app)
            loop = next(line for line in said.splitlines() if " l  loop" in line)
            assert "ada" in loop
            await press(pilot, "v")
            assert "sign: near-identical calls" in text(pilot.app)
