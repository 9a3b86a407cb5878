"""Two runs row by row: steps that answer to each other, and what differs in each pair.

What the first thread of a run did is laid beside what the first thread of the other did, and what
all its other threads did beside the same of the other: how steps of a sub-agent fell between those
of its caller is left to chance by the machine that ran them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from replay.action import Action, defaults
from replay.alignment.best import Pair, pairs
from replay.alignment.deed import Terms, deed
from replay.alignment.departure import Standing
from replay.alignment.regrouping import regrouped
from replay.compare import PLAIN, Difference, Rules, compare
from replay.trace import Tool


class Doing(Struct, frozen=True, eq=False, kw_only=True):
    """What a step did. `step` is its number in its run; `main` tells of the run's first thread."""

    step: int
    action: Action
    main: bool = True


class Row(Struct, frozen=True, eq=False, kw_only=True):
    """Steps that answer to each other, or one alone. `difference` is None for one alone.

    `regrouped`: it makes the same calls as the other run, taken together with the steps beside it.
    """

    first: Doing | None = None
    second: Doing | None = None
    difference: Difference | None = None
    regrouped: bool = False

    @property
    def standing(self) -> Standing:
        if self.regrouped:
            return "together"
        if self.difference is None or self.difference.departs:
            return "apart"
        return "together" if self.difference.same else "open"


def rows(
    first: Sequence[Doing],
    second: Sequence[Doing],
    tools: Sequence[Tool] = (),
    rules: Rules = PLAIN,
) -> list[Row]:
    """The runs beside each other: every step of both in exactly one row, the first threads before
    the others. Between two pairs stand the steps of the first run alone, then those of the second.

    `tools` give the defaults of arguments left out, in both runs (`agreed_tools`); `rules` say what
    of the arguments counts.
    """
    found: list[Row] = []
    for main in (True, False):
        mine = [each for each in first if each.main is main]
        other = [each for each in second if each.main is main]
        found.extend(_rows(mine, other, tools, rules))
    return found


def _rows(
    first: Sequence[Doing], second: Sequence[Doing], tools: Sequence[Tool], rules: Rules
) -> list[Row]:
    terms = Terms({tool.name: defaults(tool) for tool in tools}, rules)
    met = pairs(
        [deed(each.action, terms) for each in first], [deed(each.action, terms) for each in second]
    )
    made = list(_laid(first, second, met, tools, rules))
    actions = [(_action(row.first), _action(row.second)) for row in made]
    again = regrouped(actions, [row.standing == "apart" for row in made], terms)
    return [
        structs.replace(row, regrouped=True) if place in again else row
        for place, row in enumerate(made)
    ]


def _laid(
    first: Sequence[Doing],
    second: Sequence[Doing],
    met: Sequence[Pair],
    tools: Sequence[Tool],
    rules: Rules,
) -> Iterator[Row]:
    mine = other = 0
    for row, column in (*met, (len(first), len(second))):
        yield from (Row(first=each) for each in first[mine:row])
        yield from (Row(second=each) for each in second[other:column])
        if row < len(first):
            yield beside(first[row], second[column], tools, rules)
        mine, other = row + 1, column + 1


def _action(doing: Doing | None) -> Action | None:
    return doing.action if doing is not None else None


def beside(first: Doing, second: Doing, tools: Sequence[Tool] = (), rules: Rules = PLAIN) -> Row:
    """Two steps in one row."""
    return Row(
        first=first,
        second=second,
        difference=compare(first.action, second.action, tools, rules),
    )


def agreed_tools(*offered: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools of several runs that are declared in one way wherever they are offered."""
    found: dict[str, Tool | None] = {}
    for tool in (tool for each in offered for tool in each):
        if tool.name in found and found[tool.name] != tool:
            found[tool.name] = None
        else:
            found[tool.name] = tool
    return tuple(tool for tool in found.values() if tool is not None)
