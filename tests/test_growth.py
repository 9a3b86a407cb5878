"""What a run costs grows as the run does, whatever it grows in: depth, length, repeats, siblings,
events."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from arc_tui.app import ArcApp
from arc_tui.features.trace.screen import TraceScreen
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from tests.growth_case import PARTS, SHAPES, counted, put
from tests.screen import settle
from tests.spoken import installed

SIZE = 150
MOST_GROWTH = 2.6
"""Twice the size again may cost so many times what twice the size did: 2 is linear, 4 the square.
What lies between is for tables that double and indices that get a level more."""

LARGE, MOST_TIMES, TRIES = 4_000, 3.2, 3
DEEP = 30_000


def _calls(store: Store, work: Callable[[], None]) -> float:
    with counted(store) as found:
        work()
    return found[0]


def _seconds(_: Store, work: Callable[[], None]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def costs(
    folder: Path, shape: str, size: int, cost: Callable[[Store, Callable[[], None]], float]
) -> dict[str, float]:
    """What each part costs for a run of that size."""
    path = put(folder / "run.json", shape, size)
    with open_ledger(folder / f"{size}.db") as store:
        return {
            name: cost(store, lambda part=part: part(store, path))  # type: ignore[misc]
            for name, part in PARTS.items()
        }


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_run_costs_twice_as_much(
    shape: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    costs(tmp_path, shape, 10, _calls)  # what is loaded once is loaded now
    one, two, four = (costs(tmp_path, shape, SIZE * times, _calls) for times in (1, 2, 4))
    found = {part: (four[part] - two[part]) / max(1, two[part] - one[part]) for part in PARTS}
    assert {part: grown for part, grown in found.items() if grown > MOST_GROWTH} == {}, found


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_run_takes_as_long_as_its_size_is_worth(
    shape: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What Python's calls do not tell of: loops inside of them. A busy machine slows one reading or
    the other, so that the best of a few counts: what grows with the square is too slow in each."""
    costs(tmp_path, shape, 10, _seconds)
    found = dict.fromkeys(PARTS, inf)
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        two, four = (costs(folder, shape, LARGE * times, _seconds) for times in (2, 4))
        found = {part: min(found[part], four[part] / max(0.05, two[part])) for part in PARTS}
        slow = {part: grown for part, grown in found.items() if grown > MOST_TIMES}
        if not slow:
            return
    assert slow == {}, found


@pytest.mark.pilot
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.startswith("depth")])
async def test_a_run_of_any_depth_is_opened_and_printed(shape: str, tmp_path: Path) -> None:
    path = put(tmp_path / "run.json", shape, 2_000)
    done = installed("--db", "arc.db", "import", str(path), cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    for words in (("show", "last"), ("show", "last", "--json"), ("show", "last", "0"), ("brief",)):
        words = words if len(words) > 1 else (*words, "last")
        done = installed("--db", "arc.db", *words, cwd=tmp_path)
        assert (done.code, done.err) == (0, ""), words
        assert len(done.out) < 10_000_000
    app = ArcApp(tmp_path / "arc.db", trace="last")
    async with app.run_test(size=(160, 48)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen)
        await pilot.press("G")
        await settle(pilot)
        assert app.screen.view.run.steps


@pytest.mark.slow
def test_thirty_thousand_nested_spans_come_to_an_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = costs(tmp_path, "depth", DEEP, _seconds)
    assert sum(found.values()) < 120
