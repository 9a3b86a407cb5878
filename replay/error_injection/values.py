"""What is put in, as a value; what a wrong value looks like, and whether a text or a call holds
one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay import digests, messages
from replay.action import Act, Action, action
from replay.depth import from_text
from replay.digests import bare_text
from replay.effects import words_of
from replay.trace import Json, Step, Trace

Sort: TypeAlias = Literal["amount", "date", "status", "id", "number", "name"]
"""What a value is, by its name and its form; in the order in which an error is looked for."""

SORTS: tuple[Sort, ...] = ("amount", "date", "status", "id", "number", "name")

Path: TypeAlias = tuple[str | int, ...]
"""Where a leaf stands in a JSON value: keys and places."""

STATUSES: tuple[tuple[str, ...], ...] = (
    ("pending", "processing", "shipped", "delivered", "cancelled", "returned", "refunded"),
    ("active", "suspended", "closed"),
    ("open", "resolved", "rejected"),
    ("paid", "unpaid", "overdue"),
    ("available", "unavailable"),
    ("confirmed", "cancelled"),
    ("success", "failed"),
    ("enabled", "disabled"),
)
"""Words for how a thing stands; those of one row exclude each other."""

SURNAMES = ("Moreno", "Fischer", "Okafor", "Lindgren", "Patel", "Novak", "Silva", "Tanaka")
"""What a person may be called instead."""

_TRIES = 24
_AMOUNTS = {"amount", "price", "total", "cents", "sum", "balance", "refund", "refunded", "cost",
            "fee", "value", "paid", "payment", "charge", "fare"}  # fmt: skip
_IDS = {"id", "ids", "number", "no", "code", "sku", "email", "key", "uuid", "ref", "reference",
        "receipt", "ticket"}  # fmt: skip
_DAY = re.compile(r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)")
_MONEY = re.compile(r"[$€£]\s?(?P<n>\d[\d,]*(?:\.\d\d)?)")
_ID = re.compile(r"(?=.*\d)[A-Za-z0-9][\w#.-]{2,}")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")  # fmt: skip


def sort_of(path: Path, value: Json) -> Sort | None:
    """What a leaf is, None where no wrong value of it could be told from a right one."""
    if isinstance(value, bool) or value is None:
        return None
    names = [part for part in path if isinstance(part, str)]
    words = words_of(names[-1]) if names else []
    if isinstance(value, (int, float)):
        if not 10 <= abs(value) < 1e15:
            return None
        return "amount" if _AMOUNTS & set(words) else "id" if is_id_name(words) else "number"
    text = value.strip() if isinstance(value, str) else ""
    if _DAY.match(text):
        return "date"
    if _MONEY.fullmatch(text):
        return "amount"
    if _row(text) is not None:
        return "status"
    return "id" if _ID.fullmatch(text) else None


def is_id_name(words: Sequence[str]) -> bool:
    """Do the words of a key name something that tells one thing from others?"""
    return bool(words) and words[-1] in _IDS


def wrong_values(value: Json, sort: Sort, word: str) -> Iterator[Json]:
    """Values that could stand in its place and are not it, in a fixed order for one `word`."""
    for salt in range(_TRIES):
        found = _wrong(value, sort, int(_hex(word, digests.canonical(value), str(salt)), 16))
        if found is not None and found != value:
            yield found


def _wrong(value: Json, sort: Sort, chance: int) -> Json:
    if sort == "status":
        row = _row(str(value).strip()) or ()
        others = [each for each in row if each != str(value).strip().lower()]
        return _cased(others[chance % len(others)], str(value)) if others else None
    if sort == "name":
        return f"{str(value).rpartition(' ')[0]} {SURNAMES[chance % len(SURNAMES)]}"
    if sort == "date":
        return _DAY.sub(lambda found: _moved(found, chance), str(value), count=1)
    if isinstance(value, str):
        at = value.find(next(filter(str.isdigit, value), "")) if sort == "amount" else _last(value)
        return _other_digit(value, at, chance)
    text = repr(value)
    if "e" in text or "inf" in text or "nan" in text:
        return None
    changed = _other_digit(text, 1 if text.startswith("-") else 0, chance)
    return type(value)(changed)


def _row(text: str) -> tuple[str, ...] | None:
    return next((row for row in STATUSES if text.lower() in row), None)


def _cased(word: str, like: str) -> str:
    return word.upper() if like.isupper() else word.capitalize() if like[:1].isupper() else word


def _moved(found: re.Match[str], chance: int) -> str:
    """A day 3 to 40 days away; one that is no day stays."""
    try:
        day = date(int(found["y"]), int(found["m"]), int(found["d"]))
        days = 3 + chance % 38
        return (day + timedelta(days=days if chance % 2 else -days)).isoformat()
    except (ValueError, OverflowError):
        return found[0]


def _last(text: str) -> int:
    return max(at for at, char in enumerate(text) if char.isdecimal())


def _other_digit(text: str, at: int, chance: int) -> str:
    """The text with another digit there, never a leading nought."""
    digits = [each for each in "123456789" if each != text[at]]
    return f"{text[:at]}{digits[chance % len(digits)]}{text[at + 1 :]}"


def _hex(*parts: str) -> str:
    return digests.digest("wrong value", *parts).rpartition(":")[2]


# --- where a value stands


def forms(value: Json) -> list[str]:
    """How a value is usually written, the plain form first; equal places for equal kinds of it."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_forms(value)
    text = str(value).strip()
    money = _MONEY.fullmatch(text)
    if money is not None:
        return _dollar_forms(float(money["n"].replace(",", "")))
    day = _DAY.match(text)
    return _day_forms(day) if day is not None else [text]


def _number_forms(value: float) -> list[str]:
    """4250: itself, with its thousands apart, and as the dollars of so many cents."""
    if isinstance(value, float):
        return _dollar_forms(value) if round(value, 2) == value else [repr(value)]
    return [
        str(value),
        f"{value:,}",
        f"{value / 100:.2f}",
        f"{value / 100:,.2f}",
        f"{value}.00",
    ]


def _dollar_forms(value: float) -> list[str]:
    """42.5: with both cents, with its thousands apart, as short as it goes, as cents."""
    short = str(int(value)) if value.is_integer() else repr(value)
    return [f"{value:.2f}", f"{value:,.2f}", short, str(round(value * 100))]


def _day_forms(day: re.Match[str]) -> list[str]:
    month = MONTHS[(int(day["m"]) - 1) % 12]
    number = int(day["d"])
    return [
        day[0],
        f"{month} {number}",
        f"{number} {month}",
        f"{month[:3]} {number}",
        f"{number} {month[:3]}",
    ]


def stands_in(value: Json, text: str) -> bool:
    """Does a text hold the value, in any of its forms and as a word of its own?"""
    return any(_word(form).search(text) for form in forms(value) if len(form) > 1)


def _word(form: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.,]){re.escape(form)}(?![\w]|[.,]\d)", re.I)


def held_by(value: Json, given: Json) -> bool:
    """Does a JSON value hold the value, as a leaf or within one?"""
    return any(_is_or_holds(leaf, value) for _, leaf in leaves(given))


def _is_or_holds(leaf: Json, value: Json) -> bool:
    if isinstance(leaf, str):
        return stands_in(value, leaf)
    if isinstance(leaf, bool) or leaf is None:
        return False
    return forms(leaf)[0] in forms(value)


def in_its_place(leaf: Json, value: Json, wrong: Json) -> Json | None:
    """What a leaf that says the same as `value` becomes where that is `wrong`; None for others.

    It keeps its own form: beside 3900 that becomes 7900, "$39.00" becomes "$79.00".
    """
    known = dict(zip(forms(value), forms(wrong), strict=False))
    if isinstance(leaf, str):
        money = _MONEY.fullmatch(leaf.strip())
        written = money["n"] if money is not None else leaf.strip()
        return leaf.replace(written, known[written]) if written in known else None
    if isinstance(leaf, bool) or not isinstance(leaf, (int, float)):
        return None
    other = known.get(str(leaf)) or known.get(forms(leaf)[0])
    return None if other is None else type(leaf)(float(other.replace(",", "")))


def leaves(value: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """(path, scalar) of every leaf of a JSON value, in its order."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from leaves(entry, (*path, str(name)))
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from leaves(entry, (*path, place))
    else:
        yield path, value


def with_leaf(value: Json, path: Path, new: Json) -> Json:
    """The value with another leaf at `path`; nothing of it is changed in place."""
    if not path:
        return new
    head, *rest = path
    if isinstance(value, list):
        return [with_leaf(e, tuple(rest), new) if at == head else e for at, e in enumerate(value)]
    return {k: with_leaf(e, tuple(rest), new) if k == head else e for k, e in value.items()}


def shown_path(path: Path) -> str:
    """`items[0].sku`; "" for the value itself."""
    found = ""
    for part in path:
        found += f"[{part}]" if isinstance(part, int) else f".{part}" if found else part
    return found


class RunTexts:
    """What a run says, as far as an error at a step must know: all its texts, and what the agent
    did after the step."""

    def __init__(self, trace: Trace, step: Step) -> None:
        self.trace = trace
        self.step = step
        self._later = [
            action(each.ask.response, each.ask.error)
            for each in trace.steps
            if each.thread == step.thread and each.index > step.index
        ]
        self._texts = tuple(_texts(trace))

    def used(self, value: Json) -> bool:
        """Does the recorded agent say or pass the value later?"""
        return any(carries(each, value) for each in self._later)

    def fresh(self, value: Json, sort: Sort) -> bool:
        """Is the value nowhere in the recording, so that an agent has it from the error alone?

        A status is a common word: it is enough that the recorded agent does not say it later.
        """
        if sort == "status":
            return not self.used(value)
        return not any(stands_in(value, text) for text in self._texts)


def carries(given: Action, value: Json) -> bool:
    """Does an answer say the value, or pass it to a tool?"""
    calls = any(held_by(value, call.arguments) or _in_raw(call, value)
                for call in given.calls)  # fmt: skip
    return calls or stands_in(value, given.text)


def _in_raw(call: Act, value: Json) -> bool:
    return call.raw is not None and stands_in(value, call.raw)


def _texts(trace: Trace) -> Iterator[str]:
    """Everything that stands in a run, each message once."""
    seen: set[int] = set()
    for step in trace.steps:
        answer = step.ask.response.message
        said = [*messages.conversation(step.ask.request), *([answer] if answer else [])]
        for message in said:
            if id(message) not in seen:
                seen.add(id(message))
                yield messages.text(message)
        for call in step.acts:
            yield json.dumps(call.arguments, ensure_ascii=False)


Kind: TypeAlias = Literal["observation", "tool-error", "step", "yours"]
"""A value of an observation changed; an error in its place; a call with an argument changed;
whatever the user's own edit says a tool returned."""


class Wrong(Struct, frozen=True, kw_only=True):
    """An error, ready to be put in at `step`.

    `call` counts the calls of the step from 0; `tool` and `arguments` are the recorded call's.
    `text` is what the agent is shown as its result, `wrong_arguments` the call it is shown to have
    made (None: the recorded one). `path` names the leaf that was changed, `false` are the values
    that only the error says, `true` those it hides; `about` are the names, in small letters, of
    what the call was about.
    """

    kind: Kind
    step: int
    call: int
    tool: str
    arguments: Json
    text: str
    is_error: bool | None = None
    wrong_arguments: Json = None
    path: str = ""
    false: tuple[Json, ...] = ()
    true: tuple[Json, ...] = ()
    about: tuple[str, ...] = ()

    @property
    def phrase(self) -> str:
        """What was put in, in one line: `get_order → total_cents 3900 → 7900`."""
        if self.kind == "tool-error":
            return f"{self.tool} → {self.text}"
        if not self.false or not self.true:
            where = f"{self.tool} → {self.path}" if self.path else self.tool
            return f"{where}: another result"
        path = self.path or "text"
        where = f"{self.tool}({path})" if self.kind == "step" else f"{self.tool} → {path}"
        return f"{where} {bare_text(self.true[0])} → {bare_text(self.false[0])}"


def decoded(text: str) -> Json:
    """The JSON value of a text, the text itself where it is none."""
    try:
        return from_text(text)
    except msgspec.DecodeError:
        return text


def about(arguments: Json, result: Json) -> tuple[str, ...]:
    """Names of what a call is about: its own arguments that name something, and the ids at the top
    of what it returned."""
    named = [leaf for _, leaf in leaves(arguments) if _names(leaf)]
    if isinstance(result, dict):
        named += [v for k, v in result.items() if is_id_name(words_of(k)) and _names(v)]
    return tuple(dict.fromkeys(str(each).strip().lower() for each in named))


def _names(leaf: Json) -> bool:
    if isinstance(leaf, bool) or leaf is None or isinstance(leaf, (dict, list)):
        return False
    text = str(leaf).strip()
    return 2 <= len(text) <= 80


def shares(arguments: Json, names: Sequence[str]) -> bool:
    """Is a call with these arguments about one of the names?"""
    return any(str(leaf).strip().lower() in names for _, leaf in leaves(arguments))
