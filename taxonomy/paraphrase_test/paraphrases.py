"""A paraphrase of what a user asked: its text, who wrote it, and whether it may be tried.

People write paraphrases down by task or by trace; the demo model has frames around the same
words in place of them. What a paraphrase must keep is checked without a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from replay import messages
from replay.errors import ArcError
from replay.trace import Trace
from replay.written import toml_problem


class NothingAsked(ArcError):
    """A run in which no user asks for anything: there is nothing to say in other words."""


class Request(Struct, frozen=True, kw_only=True):
    """What a user asked: the text, and the index of its message in the thread of step 0."""

    text: str
    message: int
    thread: str


class Paraphrase(Struct, frozen=True, kw_only=True):
    """The request in other words. `by` is a file's name, a model's, or `by rule`.

    `refusal` says why it is not tried, None where it is; `names` it may have lost.
    """

    text: str
    by: str
    refusal: str | None = None
    names: tuple[str, ...] = ()


def request_of(trace: Trace, message: int | None = None) -> Request:
    """What the user asked first, or in message `message` (counted from 0, no system prompt).

    Raises NothingAsked where the run has no such words of a user.
    """
    if not trace.steps:
        raise NothingAsked("the run has no steps")
    thread = trace.steps[0].thread
    own = [step for step in trace.steps if step.thread == thread]
    longest = max((step.ask.request.context for step in own), key=lambda c: c.depth if c else 0)
    first = own[0].ask.request.context
    context = longest if message is not None else first
    for index, said in enumerate(context.messages() if context else ()):
        spoken = said.role == "user" and not messages.results(said)
        text = messages.text(said).strip() if spoken else ""
        if text and message in (None, index):
            return Request(text=text, message=index, thread=thread)
    where = "before its first step" if message is None else f"in message {message}"
    raise NothingAsked(f"no user says anything {where}", "--message N names another message")


def tried(original: str, texts: Iterable[str], by: str) -> tuple[Paraphrase, ...]:
    """The texts as paraphrases, those that do not ask for the same with the reason."""
    found: list[Paraphrase] = []
    seen = {_plain(original)}
    for text in texts:
        same = sameness(original, text)
        refusal = "it is empty" if not text.strip() else same.refusal
        if _plain(text) in seen:
            refusal = refusal or "it is the request itself, or another paraphrase of it"
        seen.add(_plain(text))
        found.append(Paraphrase(text=text.strip(), by=by, refusal=refusal, names=same.names))
    return tuple(found)


def _plain(text: str) -> str:
    return " ".join(text.split())


_HINT = "a [[task]] has `match` (a task's name) or `trace` (an id), and `texts`"


class BadParaphrases(ArcError):
    """A file of paraphrases that cannot be used; the message names the file and the place in it."""


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The paraphrases of the tasks that `match`, or of one trace."""

    texts: tuple[str, ...]
    match: str | None = None
    trace: str | None = None

    def means(self, trace: Trace) -> bool:
        if self.trace is not None:
            return trace.id.startswith(self.trace)
        name = (trace.header.task or "").lower()
        return self.match is not None and fnmatchcase(name, self.match.lower())


class Paraphrases(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of paraphrases."""

    task: tuple[Entry, ...]

    def of(self, trace: Trace) -> tuple[str, ...]:
        """Those of a trace, in the order of the file."""
        return tuple(text for entry in self.task if entry.means(trace) for text in entry.texts)


def read(file: Path) -> Paraphrases:
    """The paraphrases in a file. Raises BadParaphrases naming the file and the place."""
    try:
        found = msgspec.toml.decode(file.read_bytes(), type=Paraphrases)
    except OSError as error:
        raise BadParaphrases(f"{file}: cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadParaphrases(f"{file}: {toml_problem(error)}", _HINT) from error
    for at, entry in enumerate(found.task, 1):
        if (entry.match is None) == (entry.trace is None):
            raise BadParaphrases(f"{file}: task {at}: give `match` or `trace`", _HINT)
        if not entry.texts:
            raise BadParaphrases(f"{file}: task {at}: `texts` is empty", _HINT)
    return found


NAME = "by rule"
NOTICE = "wordings made by rule: the frame and the formatting change, the words do not"

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")


def framed(text: str, count: int) -> tuple[str, ...]:
    """Up to `count` texts; there are as many as there are frames."""
    return tuple(frame(text) for frame in FRAMES[:count])


def _sentences(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in _SENTENCE.split(line) if part]


def _courteous(text: str) -> str:
    return f"Good day, I hope you can help me with this.\n\n{text}\n\nThank you very much!"


def _listed(text: str) -> str:
    return "\n".join(f"- {part}" for part in _sentences(text))


def _as_a_letter(text: str) -> str:
    paragraphs = "\n\n".join(_sentences(text))
    return f"Subject: my request\n\n{paragraphs}\n\nKind regards"


def _forwarded(text: str) -> str:
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    return f"A customer wrote to us, please see to it:\n\n{quoted}"


FRAMES: tuple[Callable[[str], str], ...] = (_courteous, _listed, _as_a_letter, _forwarded)


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
