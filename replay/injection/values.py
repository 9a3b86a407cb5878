"""What would a wrong value look like, and does a text or a call hold a given value?

A wrong value is as plausible as the recorded one: an amount of as many digits, a day some days
away, another status a thing can have, an id of the same form. It is a function of the recorded one
and of a word that tells errors apart, so the same run always gets the same error. A value is known
in any form that it is usually written in: 4250 is also 42.50, 2026-03-05 also 5 March.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Literal, TypeAlias

from replay import canon
from replay.effects import words_of
from replay.trace import Json

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
        found = _wrong(value, sort, int(_hex(word, canon.canonical(value), str(salt)), 16))
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
    return canon.digest("wrong value", *parts).rpartition(":")[2]


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
