"""Which step of one run answers to which of another, and from which row on do the two stay apart?

Runs are laid side by side by what each step did, never by its place. Calls that one run made
together and the other one after the other are the same calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay.action import Action, defaults
from replay.alignment.pairs import Pair, Terms, call_key, fingerprint, pairs
from replay.compare.actions import Difference, compare
from replay.compare.rules import PLAIN, Rules
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
        if self.difference is None or self.difference.diverges:
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
        [fingerprint(each.action, terms) for each in first],
        [fingerprint(each.action, terms) for each in second],
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
            yield rows_of_pairs(first[row], second[column], tools, rules)
        mine, other = row + 1, column + 1


def _action(doing: Doing | None) -> Action | None:
    return doing.action if doing is not None else None


def rows_of_pairs(
    first: Doing, second: Doing, tools: Sequence[Tool] = (), rules: Rules = PLAIN
) -> Row:
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


LONG = 3
"""Rows together after which any divergence is over."""

Standing: TypeAlias = Literal["together", "apart", "open"]
"""How two runs stand to each other in a row; `open` where comparing cannot tell."""


class Divergence(Struct, frozen=True, kw_only=True):
    """How two runs part. Rows count from 0.

    `first` is the first row apart, None where there is none; `lasting` the one from which on they
    stay apart, None where they are together again in the end. `again` counts how often they came
    together again before that.
    """

    first: int | None = None
    lasting: int | None = None
    again: int = 0


def parting(standings: Iterable[Standing]) -> Divergence:
    """How two runs part, by how they stand in each row."""
    first: int | None = None
    since: int | None = None
    again = apart = 0
    for row, standing in enumerate(standings):
        if standing == "apart":
            first = row if first is None else first
            since = row if since is None else since
            apart = min(apart + 1, LONG)
        elif standing == "together" and since is not None:
            apart -= 1
            if not apart:
                since = None
                again += 1
    return Divergence(first=first, lasting=since, again=again)


def regrouped(
    rows: Sequence[tuple[Action | None, Action | None]], apart: Sequence[bool], terms: Terms
) -> set[int]:
    """The rows of those that are `apart` whose calls are the same when steps of one run are taken
    together: a pair of which one made more calls, and the steps alone around it that made them."""
    found: set[int] = set()
    for place, (mine, other) in enumerate(rows):
        if not apart[place] or mine is None or other is None:
            continue
        side = int(len(mine.calls) > len(other.calls))
        fewer, more = (other, mine) if side else (mine, other)
        missing = _missing(fewer, more, terms)
        if missing:
            found |= _supplied(rows, place, side, missing, terms)
    return found


def _missing(fewer: Action, more: Action, terms: Terms) -> Counter[str]:
    """The calls that one makes besides those of the other; none where it lacks one of these."""
    if len(fewer.calls) == len(more.calls):
        return Counter()
    has, wants = _calls(more, terms), _calls(fewer, terms)
    return has - wants if wants and wants <= has else Counter()


def _supplied(
    rows: Sequence[tuple[Action | None, Action | None]],
    place: int,
    side: int,
    missing: Counter[str],
    terms: Terms,
) -> set[int]:
    """The row and the steps alone of one run, next to it, that make what is missing; () if they do
    not."""
    taken = {place}
    for around in (range(place - 1, -1, -1), range(place + 1, len(rows))):
        for row in around:
            alone, theirs = rows[row][side], rows[row][1 - side]
            if alone is not None and theirs is not None:
                break
            if alone is None:  # the other run's
                continue
            calls = _calls(alone, terms)
            if not missing or not calls or not calls <= missing:
                break
            missing = missing - calls
            taken.add(row)
    return set() if missing else taken


def _calls(action: Action, terms: Terms) -> Counter[str]:
    return Counter() if action.cut else Counter(call_key(c, terms) for c in action.calls)
