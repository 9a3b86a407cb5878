"""A page of text as a value: blocks, folds, links to steps, how they lie in a given width. Pure.

Nothing is cut silently: a long value shows its beginning and a row that counts the rest, and
enter shows all of it; a level of JSON folds to its first line, which counts the lines that it
hides. A text is laid out as far as its rows are asked for; drawing touches what is visible.

JSON is laid out with a member a line, so a line that ends with a bracket opens a level, and the
next line that is indented as much and begins with the other bracket closes it.

Where a text stands on a page, and what must be opened to see it, is found as everywhere: letter
case and the width of gaps make no difference, and it stands from the beginning of a word on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec
from msgspec import Struct

from arc_tui.ui.format import number, plain, wrap
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


class HintBlock(Block, frozen=True, eq=False, kw_only=True):
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


def is_level(key: str) -> bool:
    """Does it name a level of a block, which is open unless it is folded?"""
    return "\0" in key


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


def document_text(document: Document) -> str:
    """A page as plain text, nothing of it folded away."""
    return "".join(f"{line.rstrip()}\n" for line in _text_lines(document))


def _text_lines(document: Sequence[Item]) -> Iterator[str]:
    for item in document:
        if isinstance(item, Fold):
            yield from _text_lines(item.inside())
            continue
        label = f"{item.label}: " if item.label else ""
        aside = f"   {item.aside}" if item.aside else ""
        for line in f"{label}{item.text}{aside}".split("\n"):
            yield f"{item.mark}{' ' * item.indent}{line}"


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


PIECE = 1000
"""Rows that are made at once: more than a screen shows, too few to be waited for."""


class LazyRows:
    """Rows that are made when they are asked for. `len` counts those that are known."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._known: list[Row] = []
        self._rest = iter(rows)
        self.complete = False
        self.reach(PIECE)

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: int) -> Row:
        self.reach(index + 1)
        return self._known[index]

    def __iter__(self) -> Iterator[Row]:
        at = 0
        while at < len(self) or self.more():
            yield self._known[at]
            at += 1

    def reach(self, count: int) -> None:
        """Make rows until there are so many, or no more."""
        while len(self) < count and self.more():
            pass

    def more(self) -> bool:
        """Make a piece of those that are still to come; False where none is."""
        made = [] if self.complete else list(islice(self._rest, PIECE))
        self._known += made
        self.complete = len(made) < PIECE
        return bool(made)

    def all(self) -> list[Row]:
        """The rows, the last one included."""
        while self.more():
            pass
        return self._known


_CLOSES = {"{": "}", "[": "]"}


class Level(Struct, frozen=True):
    """A level of a JSON text: where its first line starts and ends, and where its last one ends.

    `lines` counts those in between, `closes` is its last line without its indent.
    """

    start: int
    end: int
    last_end: int
    lines: int
    closes: str


def level_at(text: str, place: int) -> Level | None:
    """The level that the line at a place opens, None where it opens none."""
    start = text.rfind("\n", 0, place) + 1
    end = _line_end(text, start)
    closer = _CLOSES.get(text[end - 1 : end])
    if closer is None:
        return None
    last = text.find(f"\n{_indent(text, start)}{closer}", end)
    if last < 0:
        return None
    last_end = _line_end(text, last + 1)
    return Level(
        start,
        end,
        last_end,
        text.count("\n", end, last),
        text[last + 1 : last_end].strip(),
    )


def level_around(text: str, place: int) -> Level | None:
    """The innermost level that the line at a place stands in, None at the top."""
    start = text.rfind("\n", 0, place) + 1
    indent = len(_indent(text, start))
    while start > 0 and indent > 0:
        start = text.rfind("\n", 0, start - 1) + 1
        if len(_indent(text, start)) < indent:
            return level_at(text, start)
    return None


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _indent(text: str, start: int) -> str:
    at = start
    while text[at : at + 1] == " ":
        at += 1
    return text[start:at]


_GAP = r"(?:\s|\\n|\\t)+"
"""What may part two words; on a line of JSON a break is written."""


def pattern(words: str) -> re.Pattern[str] | None:
    """What finds these words on a page, None where there are none."""
    parts = [re.escape(part) for part in plain(words).split()]
    if not parts:
        return None
    start = r"(?<![^\W_])" if plain(words).split()[0][0].isalnum() else ""
    return re.compile(start + _GAP.join(parts), re.IGNORECASE)


def hiding(
    document: Sequence[Item], wanted: re.Pattern[str], opened: Collection[str], *, folds: bool
) -> frozenset[str] | None:
    """The keys of what hides the first place of each text that says it, none where nothing does;
    None where the document does not say it at all. What is folded behind a line is looked into
    only with `folds`."""
    keys: set[str] = set()
    said = False
    for item in document:
        if isinstance(item, Fold):
            if folds or item.key in opened:
                inside = hiding(item.inside(), wanted, opened, folds=folds)
                if inside is not None:
                    said = True
                    keys |= inside | ({item.key} - set(opened))
            continue
        found = wanted.search(item.text)
        if found is not None:
            said = True
            if item.hidden and item.key not in opened and found.end() > item.shown:
                keys.add(item.key)
    return frozenset(keys) if said else None


def hidden_beyond(block: Block, wanted: re.Pattern[str], opened: Collection[str]) -> bool:
    """Does what a long value hides say it?"""
    if not block.hidden or block.key in opened:
        return False
    found = wanted.finditer(block.text, max(block.shown - len(wanted.pattern), 0))
    return any(each.end() > block.shown for each in found)


class StepLink(Block, frozen=True, eq=False, kw_only=True):
    """`step` is the one the text is from; None where that is the step shown, or none."""

    step: int | None = None
