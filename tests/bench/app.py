"""The app in a real pty: first frame beside an empty one, a key's repaint at any length, memory.

A key's time ends with the first frame it draws, "all of it" with the last: what a step says is read
while the cursor has moved on already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import quantiles

from tests.bench.measure import Row, Taken, compared, ms
from tests.bench.shown import long_message, long_trace, many_runs, only_trace
from tests.bench.terminal import Press, Terminal

EMPTY_APP = """
import asyncio
from textual.app import App
async def main():
    async with App().run_test(size=(120, 40)) as pilot:
        await pilot.pause()
asyncio.run(main())
"""

EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("nothing else")
Empty().run()
"""

ARC = ("-m", "arc_tui", "--db")
MOST = 100_000
SPANS, RUNS, MEGABYTES = (1_000, 10_000, 100_000), (10_000, 100_000), (1, 5)
PRESSES, STARTS = 25, 9
A_ROW, THE_RUN, A_RUN = "read_file", "gpt-4o", "0.0"
"""What stands in a row of the tree, in the one of the list of one run, and in one of very many."""


def rows(_: Path, *, most: int = MOST) -> Iterator[Row]:
    """`most` is the length of the longest trace and list."""
    yield from traces([count for count in SPANS if count <= most])
    yield from runs([count for count in RUNS if count <= most])
    for megabytes in MEGABYTES:
        yield from message(megabytes)


def traces(lengths: Sequence[int]) -> Iterator[Row]:
    """Long traces: from nothing to their rows, from the list to their rows, keys, memory."""
    moves = {}
    for count in lengths:
        path = long_trace(count)
        key = only_trace(path)
        yield Row(
            f"first frame with span rows, {count:,} spans",
            _beside_empty((*ARC, str(path), "open", key), A_ROW),
            "an empty Textual app, goal ≤ 1.8×",
        )
        with _arc(path) as terminal:
            terminal.until(THE_RUN)
            terminal.settle()
            terminal.send("\r")
            opened = terminal.until(A_ROW)
            moves[count] = _presses(terminal, "j")
            pages = _presses(terminal, "\x04\x15")
            jumps = _presses(terminal, "Gg")
            memory = terminal.memory_mb()
        yield Row(f"enter on a run to its rows, {count:,} spans", ms(opened), "")
        yield _keys(f"a row down, {count:,} spans", moves[count])
        yield _keys(f"a page down or up, {count:,} spans", pages)
        yield _keys(f"to the end and back, {count:,} spans", jumps)
        yield Row(f"memory, {count:,} spans", f"{memory:.0f} MB", "")
    yield _flat("a row down, longest against shortest trace", moves)


def runs(lengths: Sequence[int]) -> Iterator[Row]:
    """Lists of very many runs."""
    moves = {}
    for count in lengths:
        path = many_runs(count)
        yield Row(
            f"first frame with rows, {count:,} runs",
            _beside_empty((*ARC, str(path)), A_RUN),
            "an empty Textual app, goal ≤ 1.6×",
        )
        with _arc(path) as terminal:
            terminal.until(A_RUN)
            moves[count] = _presses(terminal, "j")
            pages = _presses(terminal, "\x04\x15")
            jumps = _presses(terminal, "Gg")
            memory = terminal.memory_mb()
        yield _keys(f"a row down, {count:,} runs", moves[count])
        yield _keys(f"a page down or up, {count:,} runs", pages)
        yield _keys(f"to the end and back, {count:,} runs", jumps)
        yield Row(f"memory, {count:,} runs", f"{memory:.0f} MB", "")
    yield _flat("a row down, longest against shortest list", moves)


def message(megabytes: int) -> Iterator[Row]:
    """A long message: opened from where it is cut, then turned a page at a time."""
    with _arc(long_message(megabytes)) as terminal:
        terminal.until(THE_RUN)
        terminal.settle()
        terminal.press("\r")
        terminal.press("4")
        terminal.press("\r")
        terminal.press("G")
        opened = terminal.press("\r")
        pages = _presses(terminal, "\x04")
        memory = terminal.memory_mb()
    yield Row(
        f"a {megabytes} MB message opened",
        ms(opened.all_s),
        "TextArea 380 ms at 1 MB, goal ≤ 50 ms",
    )
    yield _keys(f"a page down in {megabytes} MB", pages, "p90 ≤ 40 ms")
    yield Row(f"memory with {megabytes} MB open", f"{memory:.0f} MB", "")


def _arc(path: Path) -> Terminal:
    return Terminal(*ARC, str(path))


def _beside_empty(words: Sequence[str], shown: str) -> str:
    """The starts of our app and of an empty one, in turn: the first of each compiles and is not
    counted."""
    turns = [
        (_start(words, shown), _start(("-c", EMPTY), "nothing else")) for _ in range(STARTS + 1)
    ]
    return str(compared(turns[1:]))


def _start(words: Sequence[str], shown: str) -> Taken:
    """What a program took until it had drawn those words."""
    with Terminal(*words) as terminal:
        return terminal.until(shown), terminal.cpu_s()


def _presses(terminal: Terminal, keys: str) -> list[Press]:
    """The keys in turn, each once all is quiet."""
    terminal.settle()
    return [terminal.press(keys[turn % len(keys)]) for turn in range(PRESSES)]


def _keys(what: str, presses: Sequence[Press], goal: str = "p50 ≤ 16 ms") -> Row:
    first, whole = (_p50_p90([getattr(each, name) for each in presses]) for name in Press._fields)
    figure = f"p50 {ms(first[0])}, p90 {ms(first[1])}; all of it {ms(whole[0])}, {ms(whole[1])}"
    return Row(what, figure, goal)


def _flat(what: str, moves: dict[int, list[Press]]) -> Row:
    middle = [_p50_p90([each.first_s for each in presses])[0] for presses in moves.values()]
    return Row(what, f"{max(middle) / min(middle):.2f}×", "flat within 1.5×")


def _p50_p90(seconds: Sequence[float]) -> tuple[float, float]:
    tenths = quantiles(seconds, n=10)
    return tenths[4], tenths[8]
