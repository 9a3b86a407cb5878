"""Does a paraphrase still ask for the same? What it must keep can be checked without a model.

Identifiers, numbers, dates, addresses, paths and quoted words have to stand in both texts, letter
for letter; a number may become its word. Names are only looked for: a word that begins with a
capital is no name in every language, nor at the beginning of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`|«([^»\n]+)»")
_WHOLE = re.compile(r"https?://[^\s<>\"]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TOKEN = re.compile(r"[\w~./:,+@-]*\w")
_MARKER = re.compile(r"^[ \t]*(?:[-*•>]|\d{1,2}[.)])[ \t]+", re.M)
_CODE = re.compile(
    r"[A-Z]{3,}|\w+_\w+|[\w-]+\.[a-z]{2,5}"
    r"|[~.]{0,2}/[\w./+-]+|[\w.-]+(?:/[\w.+-]+){2,}|[\w.-]+/[\w-]+\.\w+"
)
_MONTH = re.compile(
    r"(?:(?<=\d )|(?<=\d\. )|(?<=th )|(?<=st )|(?<=of ))"
    r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b"
    r"|\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?(?= \d)"
)
_DAY = re.compile(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")
_NAME = re.compile(r"(?<=[\w,;] )[^\W\d_a-z]\w+")

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
            "eleven", "twelve")  # fmt: skip
_WORDS = {word: str(value) for value, word in enumerate(_NUMBERS)}
_NO_NUMBER = {"one", "zero"}
"""Words that are more often none: they may go, and may stand for a number that was written."""


class Sameness(Struct, frozen=True, kw_only=True):
    """What a paraphrase lost of the request, what it added to it, and names it may have lost."""

    lost: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def refusal(self) -> str | None:
        """Why it does not ask for the same, None where nothing shows that it does not."""
        said = [
            f"it {verb} {', '.join(what)}"
            for verb, what in (("loses", self.lost), ("adds", self.added))
            if what
        ]
        return " and ".join(said) or None


def sameness(original: str, paraphrase: str) -> Sameness:
    """What became of the parts of a request that no other words can stand for."""
    before, after = list(_parts(original)), list(_parts(paraphrase))
    held = {key for key, _ in after} | _spelled(paraphrase) | _shouted(paraphrase)
    known = {key for key, _ in before} | _spelled(original) | _shouted(original)
    words = paraphrase.casefold()
    return Sameness(
        lost=_missing(before, held),
        added=_missing(after, known),
        names=tuple(dict.fromkeys(n for n in _NAME.findall(original) if n.casefold() not in words)),
    )


def _missing(parts: list[tuple[str, str]], held: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shown for key, shown in parts if key not in held))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """(what is compared, as it is written) of each part that has to stay."""
    for found in _QUOTED.findall(text):
        quoted = next(part for part in found if part)
        yield f"“{' '.join(quoted.split())}”".casefold(), f"“{quoted}”"
    rest = _MARKER.sub("", text)
    for whole in _WHOLE.findall(rest):
        yield whole.rstrip(".,;:!?)"), whole.rstrip(".,;:!?)")
    rest = _WHOLE.sub(" ", rest)
    for pattern in (_MONTH, _DAY):
        for match in pattern.finditer(rest):
            yield next(part for part in match.groups() if part), match[0]
    for token in _TOKEN.findall(rest):
        bare = token.strip("-./:,+@")
        if any(mark.isdecimal() for mark in bare) or _CODE.fullmatch(bare):
            yield _value(bare), bare
        elif bare.lower() in _WORDS and bare.lower() not in _NO_NUMBER:
            yield _WORDS[bare.lower()], bare


def _value(token: str) -> str:
    """Numbers compare by their value: `1,200` is `1200`, and `5.0` is `5`."""
    plain = (
        token.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", token) else token
    )
    if re.fullmatch(r"\d+\.0+", plain):
        return plain.partition(".")[0]
    return plain


def _shouted(text: str) -> set[str]:
    """The words of a text in capitals: one that is only stressed in the other text is no code."""
    return {word.upper() for word in re.findall(r"[A-Za-z]{3,}", text)}


def _spelled(text: str) -> set[str]:
    """Numbers that stand in a text as words, also those that are more often none."""
    words = {word.lower() for word in re.findall(r"[A-Za-z]+", text)}
    return {value for word, value in _WORDS.items() if word in words}
