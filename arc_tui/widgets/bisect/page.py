"""What stands behind the versions of a bisection, as a document: the diff of one, what was asked
and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arc_tui import format
from arc_tui.views.bisect.stage import BisectStage
from arc_tui.views.bisect.view import RoundLine, VersionRow
from arc_tui.widgets.document import Block, Document, Item, Keyed
from arc_tui.widgets.replay.pages import diff_page

BLANK = Block(text="")


def bisect_page(stage: BisectStage, row: VersionRow | None) -> Document:
    """The page of the version under the cursor (None: that nothing changed): while it runs, first
    what is asked and why; then, and before, what the version changes."""
    asked = tuple(_asked(stage.view.rounds, latest_first=stage.running))
    parts = tuple(_parts(stage))
    changes = tuple(_changes(stage, row)) if stage.view.rows else ()
    pages = (asked, changes) if stage.running else (changes, parts, asked, tuple(_digest(stage)))
    items: list[Item] = []
    for page in filter(None, pages):
        items += [BLANK, *page] if items else page
    return tuple(items)


def _changes(stage: BisectStage, row: VersionRow | None) -> Iterator[Item]:
    if row is None:
        words = "how likely it is that the last version is no worse than the first"
        yield Block(text=words, style="quiet")
        return
    if stage.view.kind == "prefix":
        yield Block(text=f"the fix is tried from {format.one_line(row.name)} on", style="quiet")
        return
    diff = stage.diff_of(row)
    if diff:
        yield Block(text=_heading(diff), style="head")
        yield from diff_page([line for line in diff if not line.startswith(("--- ", "+++ "))])
    elif row.likely is None and stage.view.rows[0] is row:
        yield Block(text="the first: the others are held against it", style="quiet")
    else:
        words = "its text is not at hand: ‹bisect.choose› names the versions again"
        yield Keyed(text=words, style="quiet")


def _heading(diff: Sequence[str]) -> str:
    """`v4 → v5`, of the first two lines of a diff."""
    names = [line[4:] for line in diff if line.startswith(("--- ", "+++ "))][:2]
    return " → ".join(map(format.one_line, names))


def _parts(stage: BisectStage) -> Iterator[Item]:
    if stage.view.parts:
        yield Block(text="is it enough alone?", style="role")
        yield from (Block(text=format.one_line(part)) for part in stage.view.parts)


def _asked(rounds: Sequence[RoundLine], *, latest_first: bool) -> Iterator[Item]:
    """The rounds, with their reason where it is another one."""
    if not rounds:
        return
    if latest_first:
        yield Block(text="asked now", style="role")
        yield _round(rounds[-1])
        if rounds[:-1]:
            yield Block(text="asked before", style="role")
            yield from map(_round, reversed(rounds[:-1]))
        return
    yield Block(text="asked, and why", style="role")
    yield from map(_round, rounds)


def _round(line: RoundLine) -> Block:
    return Block(text=format.one_line(line.versions), aside=format.one_line(line.why))


def _digest(stage: BisectStage) -> Iterator[Item]:
    if stage.view.digest is not None and not stage.running:
        yield Block(text=f"digest {stage.view.digest}", style="quiet")
