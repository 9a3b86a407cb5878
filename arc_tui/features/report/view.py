"""What a page of `arc report` shows, as values: a summary, tables, lanes, one list of rows, and of
each step that a row refers to a document that is unpacked when it is looked at.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.document import Block, Fold, HintBlock, Item, StepLink
from replay.formats.report import EmbeddedRun

STEPS_TOGETHER = 50
"""So many steps are packed, and unpacked, together."""


class Text(Struct, frozen=True, eq=False, kw_only=True, omit_defaults=True):
    """A block of a document: as `ui.document.Block`, `inside` where it stands for what is folded
    behind it. `step` can be gone to, in the same run."""

    text: str
    style: str = ""
    label: str = ""
    aside: str = ""
    indent: int = 0
    shown: int | None = None
    strong: tuple[tuple[int, int], ...] = ()
    step: int | None = None
    inside: tuple[Text, ...] = ()


class Part(Struct, frozen=True, eq=False, kw_only=True):
    """A section of what is shown of a step."""

    title: str
    texts: tuple[Text, ...]


class LaneView(Struct, frozen=True, eq=False, kw_only=True):
    """A figure over the steps in bins of equal width: its height from 0 to 1 in each, None where it
    is not known, the bins that stand out, its scale in words, and what else is said of it."""

    name: str
    heights: tuple[float | None, ...]
    high: tuple[int, ...]
    scale: str
    note: str = ""


Mark: TypeAlias = Literal["", "candidate", "finding"]


class Row(Struct, frozen=True, eq=False, kw_only=True, omit_defaults=True):
    """A row of the list. `steps` are the steps it shows, of each run one or None; a row of a tree
    has a `depth`, and begins `closed` where what is below it is worth no look."""

    cells: tuple[str, ...]
    steps: tuple[int | None, ...] = ()
    mark: Mark = ""
    error: bool = False
    depth: int = 0
    parent: bool = False
    closed: bool = False
    parts: tuple[Part, ...] = ()


class List(Struct, frozen=True, eq=False, kw_only=True):
    """The list that one walks through. `kind` says how its columns are laid out."""

    kind: Literal["tree", "compare", "replay"]
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    opens_at: int = 0


class Table(Struct, frozen=True, eq=False, kw_only=True):
    """A small table above the list."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class RunPart(Struct, frozen=True, eq=False, kw_only=True):
    """A run in the page: `key` stands before its steps in links (`a-step-3`), "" where it is the
    only one. `pages` are its steps in the order of their numbers, `held` what is embedded of it."""

    key: str
    name: str
    lanes: tuple[LaneView, ...]
    marked: tuple[int, ...]
    pages: tuple[tuple[Part, ...], ...]
    held: EmbeddedRun
    lines: bytes


class Page(Struct, frozen=True, eq=False, kw_only=True):
    """One page. `outcome` is that of its only run; `brief` is what is read without JavaScript."""

    kind: Literal["run", "comparison", "replay", "gate"]
    title: str
    outcome: str | None
    facts: tuple[str, ...]
    summary: tuple[Text, ...]
    tables: tuple[Table, ...]
    list: List | None
    runs: tuple[RunPart, ...]
    brief: str


# --- documents of the app


def texts(document: Iterable[Item]) -> tuple[Text, ...]:
    """A page of the app for the browser, commands in place of keys."""
    return tuple(made for item in document for made in _texts(item))


def _texts(item: Item) -> Iterator[Text]:
    if isinstance(item, Fold):
        yield Text(text=item.line, style=item.style, inside=texts(item.inside()))
        return
    block: Block = item.without_keys(_command) if isinstance(item, HintBlock) else item
    if not (block.text or block.label or block.aside):
        return
    yield Text(
        text=block.text,
        style=block.style,
        label=block.label,
        aside=block.aside,
        indent=block.indent,
        shown=block.shown if block.hidden else None,
        strong=tuple((start, end) for start, end in block.strong),
        step=block.step if isinstance(block, StepLink) else None,
    )


def _command(words: Iterable[str]) -> str:
    return shlex.join(words)


def write_line(text: str, style: str = "", *, step: int | None = None, label: str = "") -> Text:
    """A line of our own."""
    return Text(text=format.plain(text), style=style, step=step, label=label)
