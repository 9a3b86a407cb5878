"""What does a run say of the world that it never looked at?

Readings of a turn's own words: that it assumes or makes up its data, that it has looked something
up or plans to, and the facts it states that nothing before it holds. A look-up is missing only
before anything of the world was shown at all: no tool, terminal or page had answered. Plans,
conditions and questions claim nothing.

A fact is a number of two figures or more, or a name: a capitalised word that does not open a
sentence. It is new where no message, result or prompt before contains its word, nor the run's own
words. Code is left out, and what a turn reads out: a page, or the text of a file behind the words
that announce it. A new fact may be true: it only shows that the model spoke from memory.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from replay.effects import PROGRAM_KEYS, takes_program
from taxonomy.evidence.claims import sentences, splitter, without_case
from taxonomy.evidence.context_index import Source, number
from taxonomy.evidence.endings import closes
from taxonomy.evidence.reading import WRITTEN, Act, Reading, Turn, leaves

_DATA = (
    r"(?:data ?sets?|data|file|list|values?|results?|responses?|prices?|pricing|outputs?|contents?"
    r"|records?|numbers|paper|page|image|video|article|details|information|sample|function|code"
    r"|path|pdf|csv|api|text|addresses|schedule|entries|script|scenario)"
)
_INVENTS = re.compile(
    r"\b(?:let(?:'|’)?s|let us|(?:we|i)(?:(?:'|’)ll| will| can| must| could)?)"
    r"(?: now| also| hypothetically| just| simply)* "
    rf"(?:assume|suppose|pretend|simulate|mock)\b[^.\n]{{0,80}}?\b{_DATA}\b"
    r"|\b(?:assuming|supposing|pretending) (?:that )?(?:we|i|you)(?:(?:'|’)ve| have| had)\b"
    r"|\bfor (?:the sake of |the purposes? of )?(?:this |the )?(?:demonstration|illustration"
    r"|simulation)(?: purposes)?,? (?:i|we|let) (?:\w+ )?(?:assume|use|suppose)\b"
    r"|\b(?:simulated|mock(?:ed|-?up)?|dummy|fake|hypothetical|fictional|fictitious|made-up"
    rf"|invented) (?:[\w']+ )?{_DATA}\b",
    re.I,
)
_STEMS = (
    "assum", "suppos", "pretend", "simulat", "mock", "dummy", "fake", "hypothe", "ficti", "made-up",
    "invent", "demonstrat", "illustrat",
)  # fmt: skip
"""Of these one stands in every such sentence. A task that has it asked for it."""

_IF = re.compile(r"\b(?:if|whether|unless|should|not|avoid|instead of|rather than)\b[^,;]*$", re.I)

_LOOKED = (
    r"verified|(?:double-|cross-)?checked|searched|reviewed|confirmed|consulted|examined|watched"
    r"|looked up|found|accessed|visited|retrieved|cross-referenced|inspected|gathered|collected"
    r"|located|obtained|researched"
)
_SOURCE = (
    r"(?:web ?sites?|web ?pages?|pages?|articles?|videos?|databases?|wikipedia|papers?|sources?"
    r"|records|documentation|transcripts?|images?|maps?|menus?|changelog|listings?|search results?"
    r"|reviews?|lyrics|scenes?|google|youtube|imdb|github|schedules?|prices?|costs?|figures"
    r"|archives?|publications?|literature|catalog(?:ue)?s?)"
)
_LOOKS_UP = re.compile(
    r"\b(?:i|we)(?:(?:'|’)ve| have)? (?:(?:now|also|already|just|\w+ly) ){0,3}"
    rf"(?:{_LOOKED})\b[^.;]{{0,80}}?\b{_SOURCE}\b"
    r"|\b(?:after|upon|having) (?:\w+ly )?(?:verifying|(?:cross-)?checking|searching|reviewing"
    r"|reviewed|consulting|examining|examined|watching|watched|accessing|visiting|inspecting"
    rf"|cross-referencing)\b[^.;]{{0,80}}?\b{_SOURCE}\b"
    rf"|\b(?:has|have) been (?:\w+ly )?(?:{_LOOKED})\b[^.;]{{0,40}}"
    rf"\b(?:from|on|with|against|through|via|using) [^.;]{{0,30}}?\b{_SOURCE}\b",
    re.I,
)
_RESTS_ON = re.compile(
    r"\b(?:(?:based on|as per|according to) (?:the |my |our |its |this |their )?"
    r"|from (?=multiple|several|various|official|reliable|published|verified))"
    rf"(?:[\w'’-]+ ){{0,3}}{_SOURCE}\b",
    re.I,
)
_OPEN = re.compile(
    r"\b(?:will|shall|need to|should|must|let(?:'|’)?s|let me|if|once|to be|please|can|could|would"
    r"|going to|unable|not|\w+n(?:'|’)t|when|until|next|then|provided|given|ensure|assum\w+)\b",
    re.I,
)
"""Words before a claim that make it none: a plan, a condition, a denial."""

_PAGE = re.compile(
    r"^(?:address|title):.*\n(?:.*\n){0,3}.*viewport position"
    r"|\b(?:ocr of the page|the viewport shows|screenshot of (?:the |that )?(?:web ?)?page)\b",
    re.I | re.M,
)
"""How a browser that speaks in a chat shows a page."""

_OF_PAGES = ("viewport", "ocr of the page", "screenshot of")
"""Of these one stands in every such text."""

_ERROR = re.compile(r"\s*(?:error\b|\w*(?:error|exception)\b)", re.I)
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):.*?\n(?=\S*(?:Error|Exception)\b)", re.S
)
_SHOWN = 200
"""So many characters of a failed program's output show something beside its error."""


def shows_page(turn: Turn) -> bool:
    """Is a turn a browser's, which shows a page rather than says anything?"""
    small = without_case(turn.said)
    return any(words in small for words in _OF_PAGES) and _PAGE.search(turn.said) is not None


def first_observation(reading: Reading) -> int | None:
    """The first step at which anything of the world had been shown, by a tool, a program or a
    page; None: nothing ever was. A call whose result is unknown may have shown it."""
    acts = (
        act.step + 1
        for act in reading.acts
        if not closes(act)
        and (act.reply.failed is None or _shows(act.reply.text, act.reply.failed))
    )
    told = (turn.index + 1 for turn, reply in reading.reports() if _shows(reply.text, reply.failed))
    pages = (turn.index + 1 for turn in reading.turns if shows_page(turn))
    return min([*acts, *told, *pages], default=None)


def _shows(text: str, failed: bool | None) -> bool:
    """Does a result show anything? One that failed does where much stands beside its error."""
    if not failed:
        return bool(text.strip())
    return not _ERROR.match(text) and len(_TRACEBACK.sub("", text)) > _SHOWN


class SeenTexts:
    """What others told a run so far; a text is looked through once for each part of a word."""

    def __init__(self, task: str) -> None:
        self._texts = [task.lower()]
        self._looked: dict[str, int] = {}
        self._held: set[str] = set()

    def add(self, texts: Iterable[str]) -> None:
        self._texts += map(str.lower, texts)

    def __contains__(self, part: str) -> bool:
        if part not in self._held:
            if any(part in each for each in self._texts[self._looked.get(part, 0) :]):
                self._held.add(part)
            self._looked[part] = len(self._texts)
        return part in self._held


def find_invention(text: str, told: SeenTexts) -> str | None:
    """The sentence in which a text says that it makes up its data, None where it does not; `told`
    is what others said before."""
    small = without_case(text)
    stems = [stem for stem in _STEMS if stem in small and stem not in told]
    for match in _INVENTS.finditer(text) if stems else ():
        start = max(text.rfind(mark, 0, match.start()) for mark in ".!?\n") + 1
        words = match[0].lower()
        if any(stem in words for stem in stems) and not _IF.search(text[start : match.start()]):
            return text[start : match.end() + 60].strip()
    return None


def find_look_up(turn: Turn, *, last: bool) -> str | None:
    """The sentence in which a turn says that it has looked something up; the `last` turn, and one
    that closes the run, may also say what its answer rests on."""
    answers = last or any(map(closes, turn.acts))
    for sentence in sentences(turn.said):
        claim = _LOOKS_UP.search(sentence) or (_RESTS_ON.search(sentence) if answers else None)
        if claim is None or sentence.rstrip().endswith("?"):
            continue
        if not _OPEN.search(sentence[: claim.end()]):
            return sentence.strip()
    return None


_PLANNED = re.compile(
    r"^\W*(?:(?:\d+[.)]|step \d+:?)\W*)?(?:\w+ly )?(?:(?:identify|find|verify|confirm) and )?"
    r"(?:use|call|ask|perform|conduct|search|look up|retrieve|locate|access|consult|download|fetch"
    r"|browse|obtain|gather|research)\b.{0,200}?"
    r"\b(?:search\w*|wikipedia|web|pages?|articles?|websites?|online|sources?|papers?|databases?"
    r"|videos?|records?|archives?|documentation|dumps?|literature|texts?)\b[^.\n]*",
    re.I | re.M,
)


def find_plan(turn: Turn) -> str | None:
    """The line of a turn's plan that is to look something up; None where it plans no such thing."""
    found = None if turn.acts or "\n" not in turn.said else _PLANNED.search(turn.said)
    return found[0].strip() if found is not None else None


_PLANS = re.compile(r"\bplan\b|\blook(?:ed)? up\b|educated guess|next speaker", re.I)


def is_plan(turn: Turn) -> bool:
    """Does a turn speak of what is to be found out? It may guess at it."""
    return _PLANS.search(turn.said) is not None


NAMES, NUMBERS, FACTS = 2, 3, 7
"""Fewest names, numbers, and both together that a turn states from memory to be named for it: a
plan names places to look, a sum has a few figures of its own."""


def placeholder(act: Act) -> str | None:
    """The placeholder that a program was run with where a key or a path belongs."""
    if takes_program(act.span.arguments) and act.name != WRITTEN and not act.reply.failed:
        return None  # a shell may have written it into a file that others fill in
    for path, value in leaves(act.span.arguments):
        is_program = path in PROGRAM_KEYS or not path
        found = _STANDS_FOR.search(value) if is_program and isinstance(value, str) else None
        if found is not None:
            return found[0]
    return None


_STANDS_FOR = re.compile(
    r"\bYOUR_[A-Z0-9_]*(?:KEY|TOKEN|SECRET|ID)\b|(?<=['\"])your[-_ ](?:\w+[-_ ]){0,2}(?:key|token)"
    r"|<your[-_ ][^<>\n]{1,30}>|(?<=['\"])/?path/to/[\w./-]+"
)


# --- facts

_WORD = re.compile(r"[^\W\d_][\w'’-]+|\d[\d,.]*\d|\d")
_pieces = splitter('!"#$%&()*+/:;<=>?@[\\]^`{|}~')
"""Split at every ASCII sign that no word and no number holds."""

_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.S)
_BULLET = re.compile(r"^\s*(?:#+|\d+[.)]|[-*•])\s*")
_MARKUP = re.compile(r"[*_`]+")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+")

_READS_OUT = re.compile(
    r"^.{0,80}\b(?:screenshot|viewport|metadata|ocr|page (?:text|content)|contents? of"
    r"|(?:following|full) text|search results?|observation"
    r"|(?:tool|command|execution|console) (?:output|result))\b"
    r".{0,120}:",
    re.M | re.I,
)
"""How a step announces what it shows rather than says: a page, a file, a result."""

_SHOWS = (
    "screenshot", "viewport", "metadata", "ocr", "text", "content", "search", "observation",
    "output", "result",
)  # fmt: skip
"""Words of which one stands in every such announcement."""

_I = re.compile(r"I['’]")
"""How "I'll" and its like begin: capitalised, and no name."""

_SHORTEST = 2
"""A name has more letters than this, a number at least as many figures."""


def new_facts(reading: Reading, shown: Iterable[Source]) -> Iterator[tuple[Turn, tuple[str, ...]]]:
    """Each turn with the facts it says that are new, terminals left out; `shown` is all that the
    run was shown, in the order in which it came into view."""
    seen = _Read()
    seen.add(reading.trace.header.task or "")
    sources = deque(shown)
    for turn in reading.turns:
        while sources and sources[0].visible <= turn.index:
            seen.add(sources.popleft().text)
        if not turn.observer:
            yield turn, tuple(fact for fact in facts(_own(turn)) if fact.lower() not in seen)
        seen.add(turn.said)


class _Read:
    """The words of the texts that were added, which are read once somebody asks for a word: many a
    run states no fact. A piece that came before is not read again."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._pieces: set[str] = set()
        self._words: set[str] = set()

    def __contains__(self, word: str) -> bool:
        for text in self._texts:
            self._read(text)
        self._texts.clear()
        return _plain(word) in self._words

    def add(self, text: str) -> None:
        self._texts.append(text)

    def _read(self, text: str) -> None:
        fresh = set(_pieces(text.lower()))
        fresh -= self._pieces
        self._pieces |= fresh
        for piece in fresh:
            if not piece.isalpha():
                self._words.update(map(_plain, _WORD.findall(piece)))
            elif len(piece) > 1:
                self._words.add(piece)


def _own(turn: Turn) -> str:
    """The words of a turn up to what it reads out."""
    text = "" if shows_page(turn) else turn.said
    small = without_case(text)
    announces = ":" in text and any(word in small for word in _SHOWS)
    read_out = _READS_OUT.search(text) if announces else None
    return text[: read_out.start()] if read_out else text


def facts(text: str) -> tuple[str, ...]:
    """The numbers and names in a text, each once, in order; `1,234` is `1234`."""
    found: dict[str, None] = {}
    for line in _CODE_BLOCK.sub(" ", text).splitlines():
        for sentence in _SENTENCE.split(_MARKUP.sub("", _BULLET.sub("", line))):
            for place, word in enumerate(_WORD.findall(sentence)):
                if word[0].isdecimal():
                    word = word.replace(",", "").rstrip(".")
                    is_fact = len(word) >= _SHORTEST
                else:
                    is_fact = place > 0 and word[0].isupper() and len(word) > _SHORTEST
                    is_fact = is_fact and _I.match(word) is None
                if is_fact:
                    found.setdefault(word)
    return tuple(found)


def _plain(word: str) -> str:
    """A word, a number in one spelling: `1,234.50` is `1234.5`, and `20.00` is `20`."""
    return (number(word.rstrip(".,")) or word) if word[0].isdecimal() else word
