"""Did it leave the road? Two actions compared.

Two actions are the same, different, or cannot be told apart by comparing: an answer that was cut
off, a call that hangs on a masked value, the same act in other words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay import canon, redact
from replay.action import Act, Action, shown
from replay.trace import Json, Tool

VERSION = 1
"""Of the rules below; part of every replay's digest."""

RULES = """\
An action is the calls of an answer; where it calls nothing, its text.
Arguments are compared as JSON: key order is free, 1 equals 1.0, true is not 1, lists keep order.
An argument left out equals the default its schema gives.
Calls made in parallel are a set: their order is noted and is no difference.
Text beside calls is not compared. Final texts are the same when their words are, letter case,
punctuation around them and white space aside; other words may mean the same: nobody can tell.
An answer that was cut off, refused or failed, and a call that hangs on a masked value, says
nothing either way."""

Kind: TypeAlias = Literal[
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
    kinds: tuple[Kind, ...] = ()
    changes: tuple[PathChange, ...] = ()
    phrase: str = ""
    brief: str = ""
    unclear: str | None = None

    @property
    def departs(self) -> bool:
        return self.same is False

    @property
    def reworded(self) -> bool:
        """Both only speak, in different words."""
        return self.same is None and self.kinds == ("text",)


def compare(first: Action, second: Action, tools: Iterable[Tool] = ()) -> Difference:
    """How `second` differs from `first`. `tools` give the defaults of arguments left out."""
    cut = first.cut or second.cut
    if cut is not None:
        whose = "the recorded answer was" if first.cut else "the answer was"
        return _unclear(first, second, ("stop",), f"{whose} {cut}")
    if not first.calls and not second.calls:
        return _compare_texts(first, second)
    if not first.calls or not second.calls:
        kinds: tuple[Kind, ...] = ("kind", "gave_up") if first.calls else ("kind", "extra")
        return _masked(first, second, _differs(first, second, kinds))
    return _masked(first, second, _compare_calls(first, second, _defaults(tools)))


def _differs(
    first: Action, second: Action, kinds: tuple[Kind, ...], changes: tuple[PathChange, ...] = ()
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


def _unclear(first: Action, second: Action, kinds: tuple[Kind, ...], why: str) -> Difference:
    phrase = f"{first.phrase} → {second.phrase}"
    return Difference(same=None, kinds=kinds, phrase=phrase, brief=why, unclear=why)


def _masked(first: Action, second: Action, found: Difference) -> Difference:
    """A difference that hangs on a masked value says nothing: nobody saw the value."""
    if found.same is False and any(map(_is_masked, first.calls + second.calls)):
        return _unclear(first, second, found.kinds, "a call hangs on a masked value")
    return found


def _is_masked(call: Act) -> bool:
    return redact.masked_count(f"{canon.canonical(call.arguments)}{call.raw or ''}") > 0


def _compare_texts(first: Action, second: Action) -> Difference:
    if not (first.text and second.text) and first.text != second.text:
        return _differs(first, second, ("text",))
    if _words(first.text) == _words(second.text):
        return Difference(same=True, phrase=first.phrase, brief=first.brief)
    return _unclear(first, second, ("text",), "in other words")


def _words(text: str) -> list[str]:
    """The words of a text, bare of the marks around them; what stands inside a word stays."""
    bare = (word.strip(_MARKS) for word in text.casefold().split())
    return [word for word in bare if word]


# --- calls


Defaults: TypeAlias = dict[str, dict[str, Json]]


def _defaults(tools: Iterable[Tool]) -> Defaults:
    """By tool, the arguments whose schema gives a default."""
    found: Defaults = {}
    for tool in tools:
        properties = tool.schema.get("properties") if isinstance(tool.schema, dict) else None
        if isinstance(properties, dict):
            found[tool.name] = {
                name: schema["default"]
                for name, schema in properties.items()
                if isinstance(schema, dict) and "default" in schema
            }
    return found


class _Whole(NamedTuple):
    """A call with its defaults filled in, and the text that says whether two are the same."""

    act: Act
    arguments: Json
    identity: str


def _whole(act: Act, defaults: Defaults) -> _Whole:
    arguments = act.arguments
    if isinstance(arguments, dict):
        arguments = {**defaults.get(act.tool, {}), **arguments}
    identity = canon.canonical([act.tool, arguments, None if act.raw is None else act.raw.split()])
    return _Whole(act, arguments, identity)


def _compare_calls(first: Action, second: Action, defaults: Defaults) -> Difference:
    before = [_whole(act, defaults) for act in first.calls]
    after = [_whole(act, defaults) for act in second.calls]
    ours, theirs = [each.identity for each in before], [each.identity for each in after]
    if sorted(ours) == sorted(theirs):
        kinds: tuple[Kind, ...] = () if ours == theirs else ("order",)
        return Difference(same=True, kinds=kinds, phrase=first.phrase, brief=first.brief)
    left, right = _unmatched(before, after)
    pairs, alone = _paired(left, right)
    found: set[Kind] = set()
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


def _unmatched(before: list[_Whole], after: list[_Whole]) -> tuple[list[_Whole], list[_Whole]]:
    """What is left of both when equal calls are taken away pairwise."""
    waiting: dict[str, list[_Whole]] = {}
    for each in after:
        waiting.setdefault(each.identity, []).append(each)
    left = []
    for each in before:
        if waiting.get(each.identity):
            waiting[each.identity].pop(0)
        else:
            left.append(each)
    kept = {id(each) for group in waiting.values() for each in group}
    return left, [each for each in after if id(each) in kept]


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
    ours = mine.arguments if mine.act.raw is None else mine.act.raw
    theirs = other.arguments if other.act.raw is None else other.act.raw
    for path, change, before, after in _walk("", ours, theirs):
        yield PathChange(tool=mine.act.tool, path=path, change=change, before=before, after=after)


def _walk(path: str, ours: Json, theirs: Json) -> Iterator[tuple[str, Missing, Json, Json]]:
    """Paths at which two values differ: keys joined by dots, places in a list in brackets."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        yield from _entries(path, ours, theirs, "{}.{}" if path else "{}{}")
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _entries(path, dict(enumerate(ours)), dict(enumerate(theirs)), "{}[{}]")
    elif not canon.same(ours, theirs):
        yield path, "changed", ours, theirs


def _entries(
    path: str, ours: dict[Any, Json], theirs: dict[Any, Json], shape: str
) -> Iterator[tuple[str, Missing, Json, Json]]:
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        inner = shape.format(path, name)
        if name not in theirs:
            yield inner, "missing", ours[name], None
        elif name not in ours:
            yield inner, "extra", None, theirs[name]
        else:
            yield from _walk(inner, ours[name], theirs[name])


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
