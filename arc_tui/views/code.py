"""Code as a step changed and checked it: edits as unified diffs, test output at its failures.

Nothing is cut without a word: what is left out above, below and between is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from arc_tui.ui import format
from arc_tui.ui.diff import DiffLine, diff_block, diff_lines, diff_texts
from arc_tui.ui.document import INDENT, Block, Fold, Item, value
from replay.trace import Json
from taxonomy.evidence.check_output import FailingPart, failing_part
from taxonomy.evidence.file_edits import FileEdit, edits_of, only_edits

LONGEST = 200_000
"""Characters of an edit beyond which it is not compared line by line."""

LINES = 40
"""Lines of one diff that are shown before the rest is folded."""

AROUND = 2
"""Lines that are shown before and after the failing part of an output."""


class EditView(Struct, frozen=True, kw_only=True):
    """One place of a file that a call writes: a diff, or a word for what it does without one.

    `whole`: the lines are all that the file has then.
    """

    path: str
    what: str
    lines: tuple[DiffLine, ...] = ()

    @property
    def head(self) -> str:
        return f"{self.path} · {self.what}"


def edit_views(tool: str, arguments: Json, reply: str = "") -> tuple[EditView, ...]:
    """The edits of a call that show text, or remove a file; () for other calls."""
    found = edits_of(tool, arguments, reply)
    shown = any(edit.shows_text for edit in found)
    return tuple(map(_edit_view, found)) if shown or (found and only_edits(arguments)) else ()


def _edit_view(edit: FileEdit) -> EditView:
    before, after = (None if each is None else format.plain(each)
                     for each in (edit.before, edit.after))  # fmt: skip
    lines = tuple(_lines(before, after))
    gone = sum(line.kind == "gone" for line in lines)
    new = sum(line.kind == "new" for line in lines)
    if edit.removed:
        what = "deleted"
    elif edit.restored:
        what = "restored as committed"
    elif edit.whole:
        what = f"written whole, {format.count(new, 'line')}"
    else:
        what = f"+{new} −{gone}" if lines else "written, text not shown"
    return EditView(path=format.one_line(edit.path), what=what, lines=lines)


def _lines(before: str | None, after: str | None) -> Iterator[DiffLine]:
    if before and after and len(before) + len(after) <= LONGEST:
        found = diff_texts(before, after)
        yield from found[1:] if found[:1] and found[0].kind == "place" else found
        return
    signs = (("-", before or ""), ("+", after or ""))
    yield from diff_lines([f"{sign}{line}" for sign, text in signs for line in text.splitlines()])


def edit_items(edits: Sequence[EditView], key: str, mark: str = "") -> Iterator[Item]:
    """Each edit for a page: its file, and its diff with the rest of a long one folded."""
    for place, edit in enumerate(edits):
        yield Block(text=edit.head, style="role", indent=INDENT, mark=mark)
        blocks = tuple(diff_block(line, indent=INDENT, mark=mark) for line in edit.lines)
        yield from blocks[:LINES]
        if len(blocks) > LINES:
            yield _fold(blocks[LINES:], f"{key} edit {place}")


def _fold(rest: tuple[Block, ...], key: str) -> Fold:
    line = f"{format.count(len(rest), 'more line')} of this edit"
    return Fold(key=key, line=line, inside=lambda: rest, says_key=True)


class OutputView(Struct, frozen=True, kw_only=True):
    """A long output with its failing part in view. `counts` is what the runner says."""

    counts: str
    above: str
    part: str
    below: str

    @property
    def above_line(self) -> str:
        return f"{format.count(_many(self.above), 'line')} above the failing part"

    @property
    def below_line(self) -> str:
        return f"{format.count(_many(self.below), 'line')} below the failing part"


def _many(text: str) -> int:
    return len(text.splitlines())


def output_view(text: str | None) -> OutputView | None:
    """A result that shows failing checks, None for any other."""
    found = failing_part(text) if text else None
    return None if found is None or text is None else _cut_to(format.plain(text), found)


def _cut_to(text: str, found: FailingPart) -> OutputView:
    lines = text.split("\n")
    start, end = max(found.start - AROUND, 0), min(found.end + AROUND, len(lines))
    return OutputView(
        counts=found.counts,
        above="\n".join(lines[:start]),
        part="\n".join(lines[start:end]),
        below="\n".join(lines[end:]),
    )


def output_items(output: OutputView, key: str, style: str) -> Iterator[Item]:
    """The failing part, what stands above and below it folded."""

    def fold(line: str, text: str, name: str) -> Iterator[Item]:
        if text.strip():
            inside = (value(text, key=f"{key} {name} text", style=style),)
            yield Fold(key=f"{key} {name}", line=line, inside=lambda: inside, says_key=True)

    yield from fold(output.above_line, output.above, "above")
    yield value(output.part, key=key, style=style)
    yield from fold(output.below_line, output.below, "below")
