"""Code edits as diffs, test output with its failing part in view; on screen and in `arc show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.trace.command import DIFF_LINES, show
from arc_tui.ui.document import Block, Fold, Item
from arc_tui.ui.page import LinkedPage
from arc_tui.views.code import LINES, EditView, edit_items, edit_views, output_items, output_view
from taxonomy.judgements.schema import open_ledger
from tests.screen import matches_golden, press, settle
from tests.shared import imported
from tests.taxonomy.test_coding_rules import RED, claude_code


def only(tool: str, reply: str = "", **arguments: Any) -> EditView:
    (found,) = edit_views(tool, arguments, reply)
    return found


def lines(view: EditView) -> list[str]:
    return [line.text for line in view.lines]


class TestEdits:
    def test_an_edit_is_a_diff_with_the_lines_beside_it(self) -> None:
        before = "def total(lines):\n    # counts\n    return 22\n"
        found = only("Edit", file_path="a.py", old_string=before,
                     new_string=before.replace("22", "42"))  # fmt: skip
        assert found.head == "a.py · +1 −1"
        assert lines(found) == [
            " def total(lines):", "     # counts", "-    return 22", "+    return 42",
        ]  # fmt: skip
        changed = [line.text[s.start : s.end] for line in found.lines for s in line.words]
        assert changed == ["22", "42"]

    def test_a_file_written_whole_has_all_its_lines(self) -> None:
        found = only("Write", file_path="a.py", content="x = 1\ny = 2\n")
        assert (found.head, lines(found)) == ("a.py · written whole, 2 lines", ["+x = 1", "+y = 2"])

    def test_what_shows_no_text_says_what_was_done(self) -> None:
        patch = "*** Begin Patch\n*** Delete File: old.py\n*** End Patch"
        assert only("apply_patch", input=patch).head == "old.py · deleted"
        assert edit_views("Bash", {"command": "sed -i s/a/b/ a.py"}) == ()
        assert edit_views("Bash", {"command": "ls"}) == ()

    def test_an_edit_too_long_to_compare_is_taken_out_and_put_in(self) -> None:
        old, new = "x\n" * 60_000, "y\n" * 60_000
        found = only("Edit", file_path="a.py", old_string=old, new_string=new)
        assert found.what == "+60000 −60000"

    def test_a_long_diff_shows_its_beginning_and_counts_the_rest(self) -> None:
        text = "".join(f"line {n}\n" for n in range(LINES + 7))
        items = list(edit_items([only("Write", file_path="a.py", content=text)], "k"))
        fold = items[-1]
        assert isinstance(fold, Fold)
        assert fold.line == "7 more lines of this edit"
        assert len(items) == 1 + LINES + 1
        assert len(fold.inside()) == 7

    def test_what_a_terminal_would_obey_is_made_visible(self) -> None:
        found = only("Write", file_path="a\x1b.py", content="\x1b[2J")
        assert "\x1b" not in found.head + "".join(lines(found))


def texts(items: list[Item]) -> list[str]:
    return [item.line if isinstance(item, Fold) else item.text for item in items]


class TestOutput:
    def test_it_is_cut_to_the_failing_part_and_says_what_is_left_out(self) -> None:
        noise = "installing\n" * 50
        found = output_view(noise + RED)
        assert found is not None
        assert found.counts == "pytest: 6 of 8 failed"
        above, part, below = texts(list(output_items(found, "k", "")))
        assert above == "56 lines above the failing part"
        assert "ERROR at setup of test_till" in part
        assert "test_lines_of_a_receipt" in part
        assert "installing" not in part
        assert below.endswith("below the failing part")
        assert "\n".join([found.above, found.part, found.below]) == noise + RED

    def test_colours_move_nothing(self) -> None:
        coloured = "\n".join(f"\x1b[31m{line}\x1b[0m" for line in RED.split("\n"))
        plain, other = output_view(RED), output_view(coloured)
        assert plain is not None
        assert other is not None
        assert len(other.above.split("\n")) == len(plain.above.split("\n"))
        assert len(other.part.split("\n")) == len(plain.part.split("\n"))

    @pytest.mark.parametrize("text", [None, "", "5 failed, 2 passed in 0.66s", "8 passed in 0.1s"])
    def test_what_shows_no_failing_check_is_shown_as_it_is(self, text: str | None) -> None:
        assert output_view(text) is None


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    (tmp_path / "in").mkdir()
    with open_ledger(path) as store:
        imported(store, claude_code(tmp_path / "in"))
    return path


def shown(db: Path, at: int) -> str:
    given = ["last", str(at), "--db", str(db)]
    result = CliRunner().invoke(show, given, standalone_mode=False, catch_exceptions=False)
    return result.stdout


def test_arc_show_prints_the_diff_in_place_of_the_arguments(db: Path) -> None:
    printed = shown(db, 2)
    assert "/w/tests/test_orders.py · +1 −1" in printed
    assert "-== 42" in printed
    assert "+== 22" in printed
    assert '"old_string"' not in printed.partition("response")[2]


def test_arc_show_prints_the_failing_part_and_counts_the_rest(db: Path) -> None:
    printed = shown(db, 0).partition("tool results")[2]
    assert "Bash (1.0 s) · pytest: 6 of 8 failed" in printed
    assert "… 6 lines above the failing part (--json has all)" in printed
    assert "lines below the failing part (--json has all)" in printed
    assert "platform linux" not in printed
    assert DIFF_LINES >= LINES


SIZES = [(80, 24), (120, 40), (200, 50)]


async def opened(pilot: Pilot[None], step: int, page: str) -> list[Item]:
    """The page of a step of the only run; its items."""
    await settle(pilot)
    await press(pilot, "enter")
    await settle(pilot)
    await press(pilot, *"gg", *["J"] * step, page)
    await settle(pilot)
    return list(pilot.app.screen.query_one(LinkedPage).document)


@pytest.mark.pilot
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x50"])
async def test_an_edit_on_the_screen(db: Path, size: tuple[int, int]) -> None:
    app = ArcApp(db)
    async with app.run_test(size=size) as pilot:
        items = await opened(pilot, 2, "3")
        styles = {item.text: item.style for item in items if isinstance(item, Block)}
        assert (styles["-== 42"], styles["+== 22"]) == ("error", "good")
        matches_golden(app, f"code_edit_{size[0]}x{size[1]}")


@pytest.mark.pilot
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40", "200x50"])
async def test_test_output_on_the_screen(db: Path, size: tuple[int, int]) -> None:
    app = ArcApp(db)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, 0, "4")
        matches_golden(app, f"code_output_{size[0]}x{size[1]}")


@pytest.mark.pilot
async def test_without_colours_the_signs_tell(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = ArcApp(db)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, 2, "3")
        matches_golden(app, "code_edit_80x24")
