"""The app: first frame beside an empty one, a key's repaint at any length, a long message.

Drawn without a terminal, so these are the app's own costs; a real pty adds its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from textual.app import App, ComposeResult

from arc_tui.views.trace.tree import Branch
from arc_tui.views.trace.view import EMPTY, TraceView, build_trace
from arc_tui.widgets.document import lay_out, value
from arc_tui.widgets.trace.span_tree import SpanTree
from replay.store.write import Writer
from taxonomy.ledger import open_ledger
from tests.bench.corpus import WORDS, trace
from tests.bench.measure import Row, best, ms, pair, python

EMPTY_APP = """
import asyncio
from textual.app import App
async def main():
    async with App().run_test(size=(120, 40)) as pilot:
        await pilot.pause()
asyncio.run(main())
"""

OPEN_TRACE = """
import asyncio, pathlib
from arc_tui.app import ArcApp
from arc_tui.screens.trace.screen import TraceScreen
from arc_tui.widgets.trace.span_tree import SpanTree
async def main():
    path = pathlib.Path({path!r})
    app = ArcApp(path)
    async with app.run_test(size=(120, 40)) as pilot:
        await app.push_screen(TraceScreen(path, {key!r}))
        while not app.screen.query_one(SpanTree).row_count:
            await pilot.pause(0.005)
asyncio.run(main())
"""


def rows(folder: Path) -> Iterator[Row]:
    database = folder / "app.db"
    with open_ledger(database) as store:
        writer = Writer(store)
        key = writer.write(trace(random.Random(1), "long", 5000))
        writer.finish(key)
        view = build_trace(store, key)
    shown, empty = pair(
        python(OPEN_TRACE.format(path=str(database), key=key)), python(EMPTY_APP), 3
    )
    yield Row(
        "first frame with span rows, 10 001-span trace",
        f"{ms(shown)} against {ms(empty)}: {shown / empty:.2f}×",
        "an empty Textual app, goal ≤ 1.8×",
    )
    yield from repaints(view)
    text = " ".join(random.Random(2).choices(WORDS, k=180_000))
    spent = best(lambda: lay_out((value(text, key="x"),), 100, {"x"}), 3)
    yield Row(
        f"a {len(text) >> 10} KB message laid out", ms(spent), "TextArea 380 ms, goal ≤ 50 ms"
    )


def repaints(view: TraceView) -> Iterator[Row]:
    """A cursor move and the page drawn again, at three lengths of tree."""
    spent = {count: asyncio.run(repaint(tall(view, count))) for count in (1_000, 10_000, 100_000)}
    figures = ", ".join(f"{ms(seconds)} at {count // 1000}k" for count, seconds in spent.items())
    ratio = max(spent.values()) / min(spent.values())
    yield Row("key to repaint of the tree", f"{figures}: {ratio:.2f}×", "flat within 1.5×, ≤ 16 ms")


def tall(view: TraceView, count: int) -> TraceView:
    """The trace with `count` rows in its tree."""
    one = next(branch for branch in view.tree if branch.role == "step")
    tree: list[Branch] = [
        Branch(id=str(n), role="step", label=one.label, step=n % len(view.steps), status="ok",
               spans=(str(n),))
        for n in range(count)
    ]  # fmt: skip
    return TraceView(
        run=view.run, steps=view.steps, lanes=(), tree=tuple(tree), diagnosis=None, tags=()
    )


class Bare(App[None]):
    """The tree alone."""

    def compose(self) -> ComposeResult:
        yield SpanTree()


async def repaint(view: TraceView) -> float:
    """Seconds of one move of the cursor with all visible lines drawn again."""
    app = Bare()
    async with app.run_test(size=(120, 40)) as pilot:
        tree = app.query_one(SpanTree)
        tree.view = EMPTY
        tree.view = view
        await pilot.pause()
        return best(move(tree), 30)


def move(tree: SpanTree) -> Callable[[], object]:
    def once() -> object:
        tree.action_move(1)
        return [tree.render_line(line) for line in range(tree.size.height)]

    return once
