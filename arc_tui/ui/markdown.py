"""Foreign text in Markdown that an issue or a pull request shows: it is shown, and does nothing.

Whatever a trace holds stands in code, as a span or in a fence longer than any run of backticks in
it: there HTML, links, images, emphasis, mentions and references are text. Inside a sentence of arc
it is escaped. No line of a fence is wider than `WIDTH` cells, so that nobody has to scroll
sideways.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

from arc_tui.ui import format

WIDTH = 80
"""Cells of a line in a fence."""

SPAN = 120
"""Cells of a text that stands in a line; a longer one gets a fence of its own."""

BLOCK = 1500
"""Characters of one text that are shown; the rest is counted."""

_RUNS = re.compile("`+")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def code(text: str | None) -> str:
    """Text as a span of code, its line breaks as `⏎`; `–` for none."""
    shown = format.one_line(text).strip()
    if not shown:
        return format.UNKNOWN
    longest = max((len(run) for run in _RUNS.findall(shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell(text: str | None, width: int = 60) -> str:
    """Text as code in a cell of a table, cut to some cells of width.

    A pipe would end the cell, escaped ones are read differently: then each sign is an entity.
    """
    shown = format.one_line(text).strip()
    if cell_len(shown) > width:
        shown = format.fit(shown, width)
    if "|" not in shown:
        return code(shown)
    entities = _PUNCTUATION.sub(lambda found: f"&#{ord(found[0])};", shown)
    return f"<code>{entities}</code>"


def block(text: str, language: str = "text") -> str:
    """Text in a fence, its lines wrapped; what is left out is counted below it."""
    shown = format.plain(text[:BLOCK])
    lines = [shown[start:end] for start, end in format.wrap(shown, WIDTH)]
    fenced = format.fenced("\n".join(lines), language)
    more = len(text) - BLOCK
    return fenced if more <= 0 else f"{fenced}\n\n{format.number(more)} more characters not shown."


def value(label: str, text: str) -> str:
    """Words of arc and a text after them: in the line where it is short, else in a fence below."""
    if "\n" not in text.strip() and cell_len(text) <= SPAN:
        return f"{label}: {code(text)}"
    return f"{label}:\n\n{block(text)}"


def details(summary: str, parts: Sequence[str]) -> str:
    """Parts that a reader unfolds; the summary is words of arc."""
    inside = "\n\n".join(parts)
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def table(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    """A table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_MARKUP = re.compile(r"[\\`*_{}\[\]<>#|~$&]|(?<=https):(?=//)|(?<=http):(?=//)|(?<=www)\.")


def escape(text: str) -> str:
    """A sentence, which may hold names of tasks, as Markdown that shows it as it is; no name in it
    becomes a link or calls a person."""
    shown = _MARKUP.sub(lambda found: f"&#{ord(found.group())};", format.one_line(text))
    return _MENTION.sub("<span>@</span>", shown)


_MENTION = re.compile(r"(?<!\w)@(?=\w)")
