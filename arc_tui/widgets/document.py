"""A page of text as a value: blocks, folds, and how they lie in a given width. Pure.

Nothing is cut silently: a long value shows its beginning and a row that counts the rest, and enter
shows all of it; a level of JSON folds to its first line, which counts the lines that it hides.
A text is laid out as far as its rows are asked for; drawing touches what is visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from arc_tui.format import number, plain
from arc_tui.widgets.cells import wrap
from arc_tui.widgets.json_levels import Level, level_around, level_at
from replay.trace import Json

LONG = 4000
"""Characters of one value shown before the rest is folded away."""

ONE_LINE = 80
"""Characters that are not worth a line which says that they are hidden."""

INDENT = 2


class Block(Struct, frozen=True, eq=False, kw_only=True):
    """Some text in one style.

    `label` stands before its first line in a column of its own, `aside` follows its end in a quiet
    style. `key` names a block that may fold: it shows `shown` characters until opened.
    `mark` stands at the left edge of every line. `strong` are stretches of the text that stand
    out: the words in which it differs from another.
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
    strong: Sequence[tuple[int, int]] = ()

    @property
    def hidden(self) -> int:
        """Characters that stay folded away until the block is opened."""
        rest = len(self.text) - self.shown
        return rest if self.key and rest > ONE_LINE else 0


NAMED = re.compile(r"‹(?P<id>\w+\.\w+)(?::(?P<otherwise>\w+))?›")
"""A key in a sentence, by the id of its binding."""


class Keyed(Block, frozen=True, eq=False, kw_only=True):
    """Our own words, with the ids of the keys they name: what a trace says is never looked through
    for keys.

    `command` are the words of the `arc` command that does what the keys do, () where none does.
    """

    command: tuple[str, ...] = ()

    def without_keys(self, written: Callable[[Sequence[str]], str]) -> Block:
        """For whoever has no keys, in a terminal or a file: the command, as it is `written`, in
        place of what names a key. A label leaves its column empty."""
        text, label, aside = (
            "" if NAMED.search(said) else said for said in (self.text, self.label, self.aside)
        )
        hint = f"Try: {written(self.command)}" if self.command else ""
        return Block(
            text=text,
            label=label or (self.label and " "),
            aside=". ".join(filter(None, (aside, hint))),
            style=self.style,
            indent=self.indent,
        )


class Fold(Struct, frozen=True, eq=False, kw_only=True):
    """One line that stands for what is `inside`, which is made when it is first opened.

    `says_key`: which key unfolds it stands behind the line while it is closed.
    """

    key: str
    line: str
    inside: Callable[[], Document]
    style: str = "quiet"
    says_key: bool = False


Item: TypeAlias = Block | Fold
Document: TypeAlias = tuple[Block | Fold, ...]

EMPTY: Document = ()


class Row(Struct, frozen=True, eq=False, gc=False):
    """One line of a page: a slice of a block's text, a fold's line, or the rest of a long value.

    `key` is what enter opens or closes here, "" where there is nothing to open. `level` is a level
    of JSON that is folded to this line.
    """

    item: Item
    start: int
    end: int
    first: bool = False
    key: str = ""
    rest: int = 0
    level: Level | None = None


LABEL = 14
"""Cells of the label column where a block has a label."""


def label_width(block: Block) -> int:
    return LABEL if block.label else 0


def lay_out(document: Sequence[Item], width: int, opened: Collection[str]) -> Iterator[Row]:
    """The rows of a document in a width, with the folds named in `opened` open."""
    for item in document:
        match item:
            case Fold():
                yield Row(item, 0, 0, first=True, key=item.key)
                if item.key in opened:
                    yield from lay_out(item.inside(), width, opened)
            case Block():
                yield from _lay_block(item, width, opened)


def _lay_block(block: Block, width: int, opened: Collection[str]) -> Iterator[Row]:
    room = width - block.indent - label_width(block) - len(block.mark)
    folded = block.hidden > 0 and block.key not in opened
    text = block.text[: block.shown] if folded else block.text
    if block.aside:
        text = f"{text}   {block.aside}"
    key = block.key if block.hidden else ""
    folds = _folded_levels(block, opened)
    at: int | None = 0
    while at is not None:
        slices, at = wrap(text, room, at), None
        for start, end in slices:
            level = folds.get(start)
            if level is not None:
                yield Row(block, start, end, start == 0, level_key(block, level), 0, level)
                at = level.last_end + 1
                break
            yield Row(block, start, end, start == 0, key)
    if folded:
        yield Row(block, 0, 0, key=block.key, rest=block.hidden)


def level_key(block: Block, level: Level) -> str:
    """What names a level of a block among what is folded."""
    return f"{block.key}\0{level.start}"


def _folded_levels(block: Block, opened: Collection[str]) -> dict[int, Level]:
    """The levels of a block that are folded, by where they start."""
    if not block.json or not block.key:
        return {}
    before = f"{block.key}\0"
    places = (int(key[len(before) :]) for key in opened if key.startswith(before))
    levels = (level_at(block.text, place) for place in places if place < len(block.text))
    return {level.start: level for level in levels if level is not None}


def fold_at(row: Row) -> tuple[str, int]:
    """(what enter opens or closes on a row, where the line of that starts in the block): the level
    of JSON that the line opens, else the long value or the fold, else the level that it stands in.
    """
    block = row.item
    if isinstance(block, Fold) or row.rest or not (block.json and block.key):
        return row.key, row.start
    level = level_at(block.text, row.start)
    if level is None and not row.key:
        level = level_around(block.text, row.start)
    return (row.key, row.start) if level is None else (level_key(block, level), level.start)


def level_line(level: Level) -> str:
    """What stands for the lines that a folded level hides."""
    return f" … {number(level.lines)} {'line' if level.lines == 1 else 'lines'} … {level.closes}"


def rest_line(row: Row, key: str) -> str:
    """What stands for the end of a long value, and the key that shows it."""
    return f"… {number(row.rest)} more characters ({key})"


def row_text(row: Row) -> str:
    """The slice of its block's text that a row shows."""
    if isinstance(row.item, Fold):
        return row.item.line
    text = row.item.text
    if row.end > len(text):
        text = f"{text}   {row.item.aside}"
    return text[row.start : row.end]


def value(text: str, *, key: str, indent: int = INDENT, style: str = "", mark: str = "") -> Block:
    """A recorded value as a block: JSON laid out and coloured, other text as it is."""
    laid = laid_out_json(text)
    return Block(
        text=plain(text if laid is None else laid),
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
        msgspec.json.decode(text, type=msgspec.Raw)
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
    try:
        return None if found is None else msgspec.json.decode(found["value"])
    except msgspec.DecodeError:  # half of a character, which JSON may escape
        return None
