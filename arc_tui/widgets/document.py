"""A page of text as a value: blocks, folds, and how they lie in a given width. Pure.

Nothing is cut silently: a long value shows its beginning and a row that counts the rest, and enter
shows all of it. Laying out a megabyte is one pass over its lines; drawing touches what is visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from arc_tui.format import number, plain
from arc_tui.widgets.cells import wrap
from replay.trace import Json

LONG = 4000
"""Characters of one value shown before the rest is folded away."""

INDENT = 2


class Block(Struct, frozen=True, eq=False, kw_only=True):
    """Some text in one style.

    `label` stands before its first line in a column of its own, `aside` follows its end in a quiet
    style. `key` names a block that may fold: it shows `shown` characters until opened.
    `mark` stands at the left edge of every line.
    """

    text: str
    style: str = ""
    label: str = ""
    aside: str = ""
    indent: int = 0
    key: str = ""
    shown: int = LONG
    json: bool = False
    mark: str = ""

    @property
    def hidden(self) -> int:
        """Characters that stay folded away until the block is opened."""
        return len(self.text) - self.shown if self.key and len(self.text) > self.shown else 0


class Fold(Struct, frozen=True, eq=False, kw_only=True):
    """One line that stands for what is `inside`, which is made when it is first opened."""

    key: str
    line: str
    inside: Callable[[], Document]
    style: str = "quiet"


Item: TypeAlias = Block | Fold
Document: TypeAlias = tuple[Block | Fold, ...]

EMPTY: Document = ()


class Row(Struct, frozen=True, eq=False):
    """One line of a page: a slice of a block's text, a fold's line, or the rest of a long value.

    `key` is what enter opens or closes here, "" where there is nothing to open.
    """

    item: Item
    start: int
    end: int
    first: bool = False
    key: str = ""
    rest: int = 0


LABEL = 14
"""Cells of the label column where a block has a label."""


def label_width(block: Block) -> int:
    return LABEL if block.label else 0


def lay_out(document: Sequence[Item], width: int, opened: Collection[str]) -> list[Row]:
    """The rows of a document in a width, with the folds named in `opened` open."""
    rows: list[Row] = []
    for item in document:
        match item:
            case Fold():
                rows.append(Row(item, 0, 0, first=True, key=item.key))
                if item.key in opened:
                    rows += lay_out(item.inside(), width, opened)
            case Block():
                rows += _lay_block(item, width, opened)
    return rows


def _lay_block(block: Block, width: int, opened: Collection[str]) -> Iterator[Row]:
    room = width - block.indent - label_width(block) - len(block.mark)
    folded = block.hidden > 0 and block.key not in opened
    text = block.text[: block.shown] if folded else block.text
    if block.aside:
        text = f"{text}   {block.aside}"
    key = block.key if block.hidden else ""
    for place, (start, end) in enumerate(wrap(text, room)):
        yield Row(block, start, end, first=place == 0, key=key)
    if folded:
        yield Row(block, 0, 0, key=block.key, rest=block.hidden)


def rest_line(row: Row) -> str:
    return f"… {number(row.rest)} more characters (enter)"


def row_text(row: Row) -> str:
    """The slice of its block's text that a row shows."""
    if isinstance(row.item, Fold):
        return row.item.line
    return (f"{row.item.text}   {row.item.aside}" if row.item.aside else row.item.text)[
        row.start : row.end
    ]


def value(text: str, *, key: str, indent: int = INDENT, style: str = "", mark: str = "") -> Block:
    """A recorded value as a block: JSON laid out and coloured, other text as it is."""
    laid = laid_out_json(text)
    return Block(
        text=plain(laid if laid is not None else text),
        style=style,
        indent=indent,
        key=key,
        json=laid is not None,
        mark=mark,
    )


SHORT = 60
"""Characters of JSON that stay on one line."""


def laid_out_json(text: str) -> str | None:
    """JSON with a member a line unless it is short, None where the text is no object or list."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    short = len(text) <= SHORT and "\n" not in text
    return text if short else msgspec.json.format(text, indent=2)


_MEMBER = re.compile(
    r'\s*(?:"(?:[^"\\]|\\.)*"\s*:\s*)?(?P<value>"(?:[^"\\]|\\.)*"|[^\s{}\[\],"]+),?'
)


def value_at(row: Row) -> Json | None:
    """The scalar that stands on the line of a JSON block a row shows, None where none does."""
    block = row.item
    if isinstance(block, Fold) or not block.json:
        return None
    start = block.text.rfind("\n", 0, row.start) + 1
    end = block.text.find("\n", row.start)
    line = block.text[start : end if end >= 0 else len(block.text)]
    found = _MEMBER.fullmatch(line)
    return None if found is None else msgspec.json.decode(found["value"])
