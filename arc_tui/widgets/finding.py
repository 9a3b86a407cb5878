"""Where on a page does a text stand, and what must be opened to see it? Pure.

As everywhere a text is found, letter case and the width of gaps make no difference, and it stands
from the beginning of a word on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from arc_tui.format import plain
from arc_tui.widgets.document import Block, Fold, Item

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
