"""Names of the product are those of its glossary: what was renamed does not come back.

Looked at are modules, classes and functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("arc_tui", "taxonomy", "replay")

OLD_CLASSES = frozenset(
    "Aim Apart Below CannotAsk Clearance Course Deed Desk Ear Everyone FewLines Flaw Foreseen "
    "Going Grounds Growing Grown Heard Holding Inked Keyed LaidOut Moved Opinion Oracle Outlook "
    "Parting Placed Prospect Routing Said Sheet Sign Spoken Stage Tape Teller Told Touring "
    "TypingAhead Walking Wanted Whom Wish Wishing World".split()
)
INSIDE_A_WIDGET = frozenset({"Moved"})
"""Odd by itself, a good name for a message inside the widget that posts it: `RowList.Moved`."""

OLD_ENDINGS = (
    "Choosing",
    "Foreseen",
    "Oracle",
    "Outlook",
    "Prospect",
    "Stage",
    "Wanted",
    "Wishing",
)

OLD_FUNCTIONS = frozenset(
    "asked belief beside canon everyone foreseen grounds hanging heard ink inks inquiry listened "
    "meeting mixed_up mostly objections pointing road said set_observation spoken spotted "
    "strayed_user tell together told trusting where_from wish wished worked_out".split()
)
"""The names of before, words for who spoke to whom, and prepositions."""

OLD_MODULES = frozenset(
    "apart asked belief beside canon denied desk everyone foreseen freeing grounds hanging heard "
    "inquiry ink ledger meeting mended mixed_up money objections onfile oracle oracles outlook "
    "pointing prospect road said savable seen shown sifting stage strayed_user tell teller "
    "together told trusting tryout wish wishing".split()
)

BARE_PARTICIPLE = re.compile(
    r"_?(?!need$|seed$|feed$|speed$|embed$|exceed$|proceed$|succeed$)"
    r"([a-z]+ed|begun|brought|built|come|done|drawn|found|given|gone|held|hidden|kept|known|left"
    r"|lost|made|meant|met|sent|shown|seen|spent|split|taken|written)"
)
"""A function is called by what it does: `keep`, not `kept`."""

MOST_PARTICIPLES = {"arc_tui": 140, "taxonomy": 155, "replay": 464}
"""Functions that are still called by a bare participle. Fewer are welcome: lower the number."""


def names() -> Iterator[tuple[str, str, str]]:
    """(path, kind, name) of every module, class and function of the product."""
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            yield place, "module", path.stem
            tree = ast.parse(path.read_text())
            outermost = set(tree.body)
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    inside = node not in outermost and node.name in INSIDE_A_WIDGET
                    if not inside:
                        yield place, "class", node.name
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield place, "property" if _is_property(node) else "def", node.name


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def is_old(kind: str, name: str) -> bool:
    """Is it a name that the glossary replaced?"""
    bare = name.strip("_")
    match kind:
        case "module":
            return bare in OLD_MODULES
        case "class":
            return bare in OLD_CLASSES or bare.endswith(OLD_ENDINGS)
        case _:
            return bare in OLD_FUNCTIONS


@pytest.mark.slow
def test_no_old_name_comes_back() -> None:
    back = [f"{place}: {kind} {name}" for place, kind, name in names() if is_old(kind, name)]
    assert not back, "words of the old dialect: see the glossary"


@pytest.mark.slow
def test_functions_are_called_by_what_they_do() -> None:
    count = dict.fromkeys(PRODUCT, 0)
    for place, kind, name in names():
        if kind == "def" and BARE_PARTICIPLE.fullmatch(name):
            count[place.partition("/")[0]] += 1
    more = {package: n for package, n in count.items() if n > MOST_PARTICIPLES[package]}
    assert not more, "a new function is called by a bare participle, as `asked` for `ask`"
