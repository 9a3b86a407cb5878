"""Did it leave the road? Two actions compared.

Two actions are the same, different, or cannot be told apart by comparing: an answer that was cut
off, a call that hangs on a masked value, the same act in other words. What of the arguments
counts can be said place by place (`replay.compare.rules`); the rules below always hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay import digests
from replay.action import Act, Action, defaults, shown
from replay.compare import likeness
from replay.compare.likeness import Counted
from replay.compare.rules import ANYWHERE, PLAIN, PathRule, Place, Rules, arguments_of
from replay.redact.placeholders import masked_count
from replay.trace import Json, Tool

__all__ = [
    "PLAIN",
    "RULES",
    "VERSION",
    "Difference",
    "DifferenceKind",
    "PathChange",
    "PathRule",
    "Rules",
    "compare",
]

VERSION = 1
"""Of the rules below; part of every replay's digest."""

RULES = """\
An action is the tool calls of a response; without calls, its text.
Arguments are compared as JSON: key order is free, 1 equals 1.0, true is not 1, lists keep order.
A missing argument equals the default in the tool's schema.
Parallel calls are compared as a set: their order is noted, but is no difference.
Text beside calls is not compared. Final texts are equal when their words are, ignoring letter case,
surrounding punctuation and whitespace; otherwise they are reworded, and the meaning is unknown.
A response that was cut off, refused or failed is not comparable, nor is a call that depends on a
masked value."""

DifferenceKind: TypeAlias = Literal[
    "kind", "gave_up", "extra", "tool", "calls", "args", "order", "text", "stop"
]
"""How two actions differ, the weightiest first.

`kind` calls against text; `gave_up` ends where the other acted; `extra` acts where the other
ended; `tool` another tool; `calls` more or fewer calls; `args` other arguments; `order` the same
calls in another order; `text` other words; `stop` cut off.
"""

Missing: TypeAlias = Literal["missing", "extra", "changed"]

_MAX_PAIRS = 2500
"""Calls left over on both sides are paired by their order where there are more pairs to weigh."""

_MARKS = "*_#>`~'\"“”‘’.,;:!?()[]"


class PathChange(Struct, frozen=True, kw_only=True):
    """A place in the arguments of a call where two actions differ.

    `missing` is only in the first, `extra` only in the second.
    """

    tool: str
    path: str
    change: Missing
    before: Json = None
    after: Json = None


class Difference(Struct, frozen=True, kw_only=True):
    """How the second action differs from the first.

    `same` is None where comparing cannot tell: `unclear` then says why. `phrase` is one line.
    """

    same: bool | None
    kinds: tuple[DifferenceKind, ...] = ()
    changes: tuple[PathChange, ...] = ()
    phrase: str = ""
    brief: str = ""
    unclear: str | None = None

    @property
    def diverges(self) -> bool:
        return self.same is False

    @property
    def reworded(self) -> bool:
        """Both only speak, in different words."""
        return self.same is None and self.kinds == ("text",)


def compare(
    first: Action, second: Action, tools: Iterable[Tool] = (), rules: Rules = PLAIN
) -> Difference:
    """How `second` differs from `first`.

    `tools` give the defaults of arguments left out, `rules` say what of the arguments counts.
    """
    cut = first.cut or second.cut
    if cut is not None:
        whose = "the recorded response was" if first.cut else "the response was"
        return _unclear(first, second, ("stop",), f"{whose} {cut}")
    if not first.calls and not second.calls:
        return _compare_texts(first, second)
    if not first.calls or not second.calls:
        kinds: tuple[DifferenceKind, ...] = (
            ("kind", "gave_up") if first.calls else ("kind", "extra")
        )
        return _masked(first, second, _differs(first, second, kinds), rules)
    if digests.pack(first.calls) == digests.pack(second.calls):  # mostly they are, byte for byte
        return Difference(same=True, phrase=first.phrase, brief=first.brief)
    called = {act.tool for act in first.calls + second.calls}
    known = {tool.name: defaults(tool) for tool in tools if tool.name in called}
    found = _compare_calls(first, second, known, rules)
    return _masked(first, second, found, rules)


def _differs(
    first: Action,
    second: Action,
    kinds: tuple[DifferenceKind, ...],
    changes: tuple[PathChange, ...] = (),
) -> Difference:
    brief = f"{first.brief} → {second.brief}"
    if first.brief == second.brief and changes:
        brief = _change_phrase(changes[0]) + (" …" if len(changes) > 1 else "")
    return Difference(
        same=False,
        kinds=kinds,
        changes=changes,
        phrase=f"{first.phrase} → {second.phrase}",
        brief=brief,
    )


def _unclear(
    first: Action, second: Action, kinds: tuple[DifferenceKind, ...], why: str
) -> Difference:
    phrase = f"{first.phrase} → {second.phrase}"
    return Difference(same=None, kinds=kinds, phrase=phrase, brief=why, unclear=why)


def _masked(first: Action, second: Action, found: Difference, rules: Rules) -> Difference:
    """A difference that hangs on a masked value says nothing: nobody saw the value."""
    if found.same is False and any(_is_masked(call, rules) for call in first.calls + second.calls):
        return _unclear(first, second, found.kinds, "a call depends on a masked value")
    return found


def _is_masked(call: Act, rules: Rules) -> bool:
    """Does a masked value count?"""
    place = arguments_of(call.tool, rules)
    if place.ignored:
        return False
    return masked_count(f"{likeness.counted(call.arguments, place).text}{call.raw}") > 0


def _compare_texts(first: Action, second: Action) -> Difference:
    if not (first.text and second.text) and first.text != second.text:
        return _differs(first, second, ("text",))
    if bare_words(first.text) == bare_words(second.text):
        return Difference(same=True, phrase=first.phrase, brief=first.brief)
    return _unclear(first, second, ("text",), "reworded")


def bare_words(text: str) -> list[str]:
    """The words of a text, bare of the marks around them; what stands inside a word stays."""
    bare = (word.strip(_MARKS) for word in text.casefold().split())
    return [word for word in bare if word]


# --- calls


Defaults: TypeAlias = dict[str, dict[str, Json]]
"""By tool, the arguments whose schema gives a default."""


class _Whole(NamedTuple):
    """A call with its defaults filled in, and what counts of it."""

    act: Act
    arguments: Json
    place: Place
    counted: Counted


def _whole(act: Act, defaults: Defaults, rules: Rules) -> _Whole:
    arguments = act.arguments
    if isinstance(arguments, dict):
        arguments = {**defaults.get(act.tool, {}), **arguments}
    place = arguments_of(act.tool, rules)
    counted = likeness.counted(arguments, place)
    text = f"{act.tool!r} {counted.text}"
    if act.raw is not None and not place.ignored:
        text += f" {act.raw.split()}"
    return _Whole(act, arguments, place, Counted(text, counted.near))


def _compare_calls(first: Action, second: Action, defaults: Defaults, rules: Rules) -> Difference:
    before = [_whole(act, defaults, rules) for act in first.calls]
    after = [_whole(act, defaults, rules) for act in second.calls]
    if len(before) == len(after) and all(map(_are_alike, before, after)):
        return Difference(same=True, phrase=first.phrase, brief=first.brief)
    left, right = _unmatched(before, after)
    if not left and not right:
        return Difference(same=True, kinds=("order",), phrase=first.phrase, brief=first.brief)
    pairs, alone = _paired(left, right)
    found: set[DifferenceKind] = set()
    changes: list[PathChange] = []
    for mine, other in pairs:
        if mine.act.tool != other.act.tool:
            found.add("tool")
        else:
            found.add("args")
            changes.extend(_changes(mine, other))
    if alone:
        found.add("calls")
    kinds = tuple(kind for kind in ("tool", "calls", "args") if kind in found)
    return _differs(first, second, kinds, tuple(changes))


def _are_alike(mine: _Whole, other: _Whole) -> bool:
    return mine.counted.like(other.counted)


def _unmatched(before: list[_Whole], after: list[_Whole]) -> tuple[list[_Whole], list[_Whole]]:
    """What is left of both when like calls are taken away pairwise."""
    pairs = likeness.pairs([each.counted for each in before], [each.counted for each in after])
    rows, columns = {row for row, _ in pairs}, {column for _, column in pairs}
    left = [each for row, each in enumerate(before) if row not in rows]
    return left, [each for column, each in enumerate(after) if column not in columns]


def _paired(
    left: list[_Whole], right: list[_Whole]
) -> tuple[list[tuple[_Whole, _Whole]], list[_Whole]]:
    """Calls paired by the least difference, one tool before another; then what has no partner."""
    if len(left) * len(right) > _MAX_PAIRS:
        costs = [(0, 0, place, place) for place in range(min(len(left), len(right)))]
    else:
        costs = sorted(
            (int(mine.act.tool != other.act.tool), _distance(mine, other), row, column)
            for row, mine in enumerate(left)
            for column, other in enumerate(right)
        )
    rows: set[int] = set()
    columns: set[int] = set()
    pairs = []
    for _, _, row, column in costs:
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            pairs.append((row, column))
    alone = [each for place, each in enumerate(left) if place not in rows]
    alone += [each for place, each in enumerate(right) if place not in columns]
    return [(left[row], right[column]) for row, column in sorted(pairs)], alone


def _distance(mine: _Whole, other: _Whole) -> int:
    return sum(1 for _ in _changes(mine, other)) if mine.act.tool == other.act.tool else 0


def _changes(mine: _Whole, other: _Whole) -> Iterator[PathChange]:
    ours, theirs, place = mine.arguments, other.arguments, mine.place
    if mine.act.raw is not None or other.act.raw is not None:
        ours = mine.arguments if mine.act.raw is None else mine.act.raw
        theirs = other.arguments if other.act.raw is None else other.act.raw
        place = ANYWHERE
    for path, change, before, after in _walk("", ours, theirs, place):
        yield PathChange(tool=mine.act.tool, path=path, change=change, before=before, after=after)


def _walk(
    path: str, ours: Json, theirs: Json, place: Place
) -> Iterator[tuple[str, Missing, Json, Json]]:
    """Paths at which two values differ: keys joined by dots, places in a list in brackets."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        yield from _entries(path, ours, theirs, "{}.{}" if path else "{}{}", place)
    elif isinstance(ours, list) and isinstance(theirs, list) and not place.unordered:
        yield from _entries(path, dict(enumerate(ours)), dict(enumerate(theirs)), "{}[{}]", place)
    elif not likeness.alike(ours, theirs, place):
        yield path, "changed", ours, theirs


def _entries(
    path: str, ours: dict[Any, Json], theirs: dict[Any, Json], shape: str, place: Place
) -> Iterator[tuple[str, Missing, Json, Json]]:
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        inner, at = shape.format(path, name), place.inner(name)
        if at.ignored:
            continue
        if name not in theirs:
            yield inner, "missing", ours[name], None
        elif name not in ours:
            yield inner, "extra", None, theirs[name]
        else:
            yield from _walk(inner, ours[name], theirs[name], at)


# --- phrases


def _change_phrase(change: PathChange) -> str:
    where = f"{change.tool} {change.path}".rstrip()
    match change.change:
        case "missing":
            return f"{where}: {shown(change.before)} → left out"
        case "extra":
            return f"{where}: not given → {shown(change.after)}"
        case "changed":
            return f"{where}: {shown(change.before)} → {shown(change.after)}"
