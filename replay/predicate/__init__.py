"""What is an answer expected to do? An expression about an action, read and tried.

    tool=get_order                            it calls get_order
    tool=none                                 it calls nothing (it speaks)
    tool=refund_order, args.amount<=4250      it calls refund_order, with such an amount
    tool=get_order and tool=refund_order      it calls both
    tool!=refund_order                        no call of it is a refund
    text~/call(ed)? you back/ or calls=0      it says so, or calls nothing

A condition is a field, how it is compared, and a value. The fields are `tool`, `args` and the
places in it (`args.items[0].sku`, `args.**.id`, as in `replay.compare.pattern`), `text` and
`calls`, how many. `=` and `!=` compare as JSON does (1 is 1.0 and not true; the order of keys does
not count); a bare value is the text so written or the JSON it reads as, a quoted one only the text.
`~` looks for a regular expression, /…/ where it holds a space or a comma; `<`, `<=`, `>` and `>=`
compare numbers. `not` before a condition turns it round. Conditions are joined by `and` or a comma,
and such rows by `or`.

What is said of arguments holds for the call of the `tool` condition before it; without one, for
some call. A row that only says what is not (`args.amount!=100`) holds where it holds for all calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from replay.action import Act, Action
from replay.edit import meant
from replay.predicate.condition import Condition
from replay.predicate.reading import BadPredicate, rows

__all__ = ["BadPredicate", "Condition", "Predicate", "predicate"]


def predicate(text: str) -> Predicate:
    """The expectation in a text. Raises BadPredicate naming the place and what is known."""
    return Predicate(text=" ".join(text.split()), rows=rows(text))


class Predicate(Struct, frozen=True, kw_only=True):
    """An expectation: it is met where one of its rows is. `text` is what the user wrote."""

    text: str
    rows: tuple[tuple[Condition, ...], ...]

    def met(self, action: Action, *, whole: bool = True) -> bool | None:
        """Does the action meet it? None where that cannot be told.

        An action that is not `whole` may call more, and its words are not its last.
        """
        return _any(_all(_row(row, action, whole)) for row in self.rows)

    def tools(self) -> tuple[str, ...]:
        """The tools it names."""
        return tuple(
            each.value
            for row in self.rows
            for each in row
            if each.field == "tool" and each.how == "=" and not each.says_none
        )

    def check(self, offered: Collection[str]) -> None:
        """Raises BadPredicate where it names a tool that is not among those offered."""
        for name in self.tools():
            if offered and name not in offered:
                raise BadPredicate(
                    f"expectation {self.text!r}: no tool {name!r} is offered there",
                    f"{meant(name, offered)} (tool~^{re.escape(name)}$ asks for it all the same)",
                )


def _row(row: Sequence[Condition], action: Action, whole: bool) -> Iterator[bool | None]:
    """What each part of a row comes to."""
    about: list[Condition] = []
    for each in row:
        if each.field in {"text", "calls"} or each.says_none:
            yield _turned(_of_action(each, action, whole), each)
        elif each.opens:
            if about:
                yield _of_calls(about, action.calls, whole)
            about = [each]
        elif each.field == "tool":
            yield _of_calls([each], action.calls, whole)
        else:
            about.append(each)
    if about:
        yield _of_calls(about, action.calls, whole)


def _of_action(each: Condition, action: Action, whole: bool) -> bool | None:
    if each.field == "text":
        return each.of_text(action.text) if whole else None
    if each.says_none:
        return False if action.calls else True if whole else None
    return each.of_count(len(action.calls)) if whole else None


def _of_calls(about: Sequence[Condition], calls: Iterable[Act], whole: bool) -> bool | None:
    """Of some call; where nothing is said but what is not, of all."""
    each_call = [_all(_turned(each.of_call(call), each) for each in about) for call in calls]
    if all(each.turned for each in about):
        return _all([*each_call, True if whole else None])
    return _any([*each_call, False if whole else None])


def _turned(holds: bool | None, each: Condition) -> bool | None:
    return holds if holds is None else holds is not each.turned


def _all(parts: Iterable[bool | None]) -> bool | None:
    found = list(parts)
    return False if False in found else None if None in found else True


def _any(parts: Iterable[bool | None]) -> bool | None:
    found = list(parts)
    return True if True in found else None if None in found else False
