"""How does a number look, and how does foreign text reach a terminal? Pure functions.

Amounts that are not wholly known are marked `≥`, `≤`, `≈`, or `–` for nothing at all. Text is
cut, padded and wrapped by the cells a terminal shows, not by its length.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, get_character_cell_size, set_cell_size
from rich.text import Text

if TYPE_CHECKING:
    from replay.locked.estimate import Estimate
    from replay.statistics import Rate
    from taxonomy.waste.resent import Resent

UNKNOWN = "–"

_HOSTILE = (
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # directions
    "\u2028\u2029"  # line breaks that only some know
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff"  # shown as nothing; joiners, which emoji need, stay
    "\ud800-\udfff"  # halves of characters, that no terminal can be sent
    "]"
)


@cache
def _hostile() -> re.Pattern[str]:
    """Compiled for the first text that is not ASCII: it takes a millisecond."""
    return re.compile(_HOSTILE)


_BLOCKS = "▁▂▃▄▅▆▇"


def plain(text: str | None) -> str:
    """Text that a terminal can only show: each character it would obey is made visible.

    Line breaks and tabs stay (a tab as four spaces); C0 controls show as their Unicode pictures,
    everything else invisible as `�`.
    """
    if not text:
        return ""
    text = text.replace("\r\n", "\n")
    shown = text if _is_plain(text) else _hostile().sub(_visible, text)
    return shown.replace("\t", "    ")


_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n")


def _is_plain(text: str) -> bool:
    """Is it ASCII without controls? Of a long text this is told sooner than by a search."""
    return text.isascii() and len(text.encode().translate(None, _CONTROLS)) == len(text)


def drop_controls(text: str) -> tuple[str, int]:
    """(text to be put somewhere by a terminal, how many characters were left out of it): of what
    is not shown but obeyed nothing stays but line breaks and tabs."""
    text = text.replace("\r\n", "\n")
    return ("", 0) if not text else _hostile().subn("", text)


def escape_controls(json: str) -> str:
    """JSON that says the same and holds nothing a terminal would obey.

    Line breaks that lay it out stay; inside of a text JSON has none.
    """
    return _hostile().sub(_by_number, json)


def _by_number(found: re.Match[str]) -> str:
    pairs = found.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))


def _visible(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"


def one_line(text: str | None) -> str:
    """Text on one line, its breaks as `⏎`."""
    if text and text.isascii() and text.isprintable() and not text.isspace():
        return text  # as nearly every value of a list is
    return " ⏎ ".join(part for part in plain(text).splitlines() if part.strip())


def fenced(text: str, language: str = "") -> str:
    """Text as a block of Markdown; its fence is longer than any run of backticks inside, so that
    nothing in the text can end it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{plain(text)}\n{fence}"


def cut(text: str, width: int) -> str:
    """At most `width` characters, the cut marked with `…`."""
    if len(text) <= width:
        return text
    return text[: max(width - 1, 0)] + "…" if width > 0 else ""


def number(value: int | None) -> str:
    """A count, thousands apart."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", " ")


def tokens(value: int | None) -> str:
    """A token count, short: 980, 12.3k, 1.2M."""
    if value is None:
        return UNKNOWN
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.1f}{unit}"
    return str(value)


def duration(ns: int | None) -> str:
    """A time, in the largest unit that leaves something before the point."""
    if ns is None:
        return UNKNOWN
    seconds = ns / 1e9
    if seconds < 1:
        return f"{ns / 1e6:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def file_size(size_bytes: int) -> str:
    """A size in bytes, in the largest unit that leaves something before the point."""
    for limit, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size_bytes >= limit:
            return f"{size_bytes / limit:.1f} {unit}"
    return f"{size_bytes} B"


def usd(value: float | None, *, complete: bool = True) -> str:
    """Money; `≥` where parts of the sum are unknown."""
    if value is None:
        return UNKNOWN
    digits = 2 if value >= 0.1 or value == 0 else 4
    return f"{'' if complete else '≥ '}${value:.{digits}f}"


def score(value: float | None) -> str:
    """A score 0..1 with two digits."""
    return UNKNOWN if value is None else f"{value:.2f}"


def count(number_: int, noun: str, plural: str | None = None) -> str:
    """`1 run`, `3 runs`."""
    return f"{number(number_)} {noun if number_ == 1 else plural or noun + 's'}"


def import_words(path: str, traces: int, width: int = 80) -> str:
    """What an import reads, and what has come of all so far: `runs.jsonl · 3 traces`. The name is
    cut to what `width` leaves it."""
    name, came = one_line(PurePath(path).name or path), f" · {count(traces, 'trace')}"
    return fit(name, min(cell_len(name), 40, width - len(came))) + came


def outcome_mark(outcome: str, *, warned: bool = False, live: bool = False) -> Text:
    """`✓` passed, `✓!` passed with something wrong, `✗` failed, `·` unknown, `●` still going on."""
    if live:
        return Text("●", "cyan")
    match outcome:
        case "passed":
            return Text("✓!", "yellow") if warned else Text("✓", "green")
        case "failed":
            return Text("✗", "red")
        case _:
            return Text("·", "dim")


def spark(values: Sequence[float | None], *, low: float, high: float) -> str:
    """One block a value between `low` and `high`; a value that is unknown leaves a gap."""
    span = high - low
    return "".join(
        " "
        if value is None
        else _BLOCKS[min(int((value - low) / span * len(_BLOCKS)), len(_BLOCKS) - 1)]
        if span > 0
        else _BLOCKS[0]
        for value in values
    )


def bar(share: float, width: int) -> str:
    """A bar of full blocks, at least one for anything above nothing."""
    return "█" * max(round(share * width), 1 if share > 0 else 0)


def fidelity(level: str | None, reasons: Sequence[str] = ()) -> str:
    """How completely a request is known, and what keeps it from being better."""
    why = f" ({one_line('; '.join(reasons))})" if reasons else ""
    return f"fidelity {level or UNKNOWN}{why}"


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Text in exactly `width` cells: padded, or cut with `…`."""
    if width <= 0:
        return ""
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - size) + text if right else text + " " * (width - size)


class Cell(NamedTuple):
    """What stands in a column: words, which may be cut, and figures, which may not."""

    words: str
    figures: str = ""

    @property
    def width(self) -> int:
        return cell_len(self.words) + (1 + len(self.figures) if self.figures else 0)

    def fit(self, width: int) -> str:
        """In exactly so many cells."""
        if not self.figures or self.width <= width:
            return fit(f"{self.words} {self.figures}", width)
        return f"{fit(self.words, width - 1 - len(self.figures))} {self.figures}"


def spread(left: Text, right: Text, width: int) -> Text:
    """`left` and `right` at the ends of a line; where both have no room, `right` goes first."""
    room = width - left.cell_len
    if right.cell_len + 2 <= room:
        return Text.assemble(left, " " * (room - right.cell_len), right)
    line = left.copy()
    line.truncate(max(width, 0), overflow="ellipsis")
    return line


def wrap(text: str, width: int, at: int = 0) -> Iterator[tuple[int, int]]:
    """The text from a place on as (start, end) slices of at most `width` cells, broken at its own
    line breaks, then at spaces, then anywhere. An empty text is one empty line.

    A long text is not read further than it is asked for.
    """
    width = max(width, 1)
    narrow = text.isascii()
    while at <= len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if narrow or text[at:end].isascii():
            yield from _wrap_narrow(text, at, end, width)
        elif end - at > width or cell_len(text[at:end]) > width:
            yield from _wrap_wide(text, at, end, width)
        else:
            yield at, end
        at = end + 1


def _wrap_narrow(text: str, at: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    while end - at > width:
        space = text.rfind(" ", at + 1, at + width + 1)
        stop = space if space > 0 else at + width
        yield at, stop
        at = stop + 1 if space > 0 else stop
    yield at, end


def _wrap_wide(text: str, at: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """A row at a time: how far its letters reach is summed up ahead of it."""
    start, used, space = at, 0, -1
    place = at
    while place < end:
        letters = text[place : min(place + max(width - used, 0) + 1, end)]
        ahead = list(map(get_character_cell_size, letters))
        reached = list(accumulate(ahead, initial=used))
        fitting = max(bisect_right(reached, width) - 1, 0)
        here = place + fitting
        space = max(space, text.rfind(" ", place, here))
        used = reached[fitting]
        if fitting == len(ahead):
            place = here
            continue
        if here > start:
            stop = space if space > start else here
            yield start, stop
            start = stop + 1 if stop == space else stop
            used = cell_len(text[start:here])
        space = here if text[here] == " " else space
        used += ahead[fitting]
        place = here + 1
    yield start, end


LEAST_USD = 0.0001

_LONG = 6
"""Digits of a lower bound that the least amount shown would hide."""

STEPS = 10
"""Steps of a list that are named before the rest is counted."""


def amount(value: float | None, *, complete: bool = True) -> str:
    """Money; what would round to nothing is said to be less than the least shown."""
    if complete and value is not None and 0 < value < LEAST_USD:
        return f"< ${LEAST_USD}"
    return usd(value, complete=complete)


def usd_bound(value: float, *, at_least: bool, at_most: bool) -> str:
    """Money with what is not known of it: `≥`, `≤`, or `≈` where it may be more and less."""
    if 0 < value < LEAST_USD:
        return f"≥ ${value:.{_LONG}f}" if at_least else amount(value)
    mark = "≈ " if at_least and at_most else "≥ " if at_least else "≤ " if at_most else ""
    return f"{mark}{usd(value)}"


def sends_usd(each: Resent) -> str:
    """What sending an observation again cost, with what is not known of it."""
    return cost_of_sends(
        each.cost_usd, priced=each.priced, sends=each.resends, at_most=each.at_most
    )


def cost_of_sends(cost_usd: float | None, *, priced: int, sends: int, at_most: bool) -> str:
    """The cost of some sends, of which `priced` have one."""
    if cost_usd is None:
        return "cost unknown"
    if at_most and priced < sends:
        return f"≤ {usd(cost_usd)} for {priced} of {sends} sends"
    return usd_bound(cost_usd, at_least=priced < sends, at_most=at_most)


def size(each: Resent) -> str:
    """The size of an observation; `≈` where its tokens were reckoned."""
    if each.tokens is None:
        return "size unknown"
    return f"{'' if each.how == 'counted' else '≈ '}{tokens(each.tokens)} tokens"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def interval(rate: Rate) -> str:
    """The bounds of a share: `.55–.91`."""
    return f"{fraction(rate.low)}–{fraction(rate.high)}"


def fraction(value: float) -> str:
    """A share with two digits and no leading nought."""
    return "1" if round(value, 2) == 1 else f"{value:.2f}".removeprefix("0") if value else "0"


def cost(estimate: Estimate) -> str:
    """What the calls of an estimate come to, at first and at the most."""
    if estimate.usd is None:
        return "price unknown"
    expected = f"about {usd(estimate.usd)}"
    if estimate.max_usd is None or estimate.max_calls <= estimate.calls:
        return expected
    return f"{expected}, at most {usd(estimate.max_usd)}"


def steps_named(steps: Iterable[int]) -> str:
    """`step 4`, `steps 4, 5, 9`, the rest of a long list counted."""
    listed = list(steps)
    shown = ", ".join(map(str, listed[:STEPS]))
    more = f" and {len(listed) - STEPS} more" if len(listed) > STEPS else ""
    return f"step{'' if len(listed) == 1 else 's'} {shown}{more}"


BETWEEN = " · "


def pack_lines(parts: Iterable[str], width: int) -> list[str]:
    """Parts on as few lines as they need."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + len(BETWEEN) + cell_len(part) <= width:
            lines[-1] += BETWEEN + part
        else:
            lines.append(part)
    return lines


DIGITS = 12
"""Shown of a digest on a screen; commands print all of it."""


def short_digest(digest: str) -> str:
    """The algorithm, and the beginning of the digits."""
    algorithm, _, digits = digest.rpartition(":")
    return f"{algorithm}:{digits[:DIGITS]}"
