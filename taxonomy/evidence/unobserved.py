"""What does a run say of the world that it never looked at?

Readings of a turn's own words: that it assumes or makes up its data, that it has looked something
up or plans to, and the names and numbers it states that nothing shown to it holds. All but the
first count only before anything of the world was shown at all: no tool, terminal or page had
answered. Plans, conditions and questions claim nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.effects import PROGRAM_KEYS, takes_program
from taxonomy.evidence.claims import sentences, without_case
from taxonomy.evidence.context_index import Index
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

_PLANS = re.compile(r"\bplan\b|\blook(?:ed)? up\b|educated guess|next speaker", re.I)
"""Words of a turn that says what is to be found out: it may guess at it."""

_ERROR = re.compile(r"\s*(?:error\b|\w*(?:error|exception)\b)", re.I)
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):.*?\n(?=\S*(?:Error|Exception)\b)", re.S
)
_SHOWN = 200
"""So many characters of a failed program's output show something beside its error."""


def shows_page(turn: Turn) -> bool:
    """Is a turn a browser's, which shows a page rather than says anything?"""
    return bool(_PAGE.search(turn.said))


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


def find_invention(text: str, told: str) -> str | None:
    """The sentence in which a text says that it makes up its data, None where it does not; `told`
    is what others said before, in small letters."""
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


_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
_NAME = re.compile(r"(?<=[a-z,;(] )[A-Z][\w'’-]{2,}")
_NUMBER = re.compile(r"(?<![\w.,])[$€£]?\d[\d,]*(?:\.\d+)?(?![\w])")
_FIGURES = 2

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


def list_unseen_facts(index: Index, turn: Turn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(names, numbers) that a turn states outside code and that stood in nothing shown to it; none
    of a plan, or of a page that the turn shows."""
    if shows_page(turn) or _PLANS.search(turn.said):
        return (), ()
    prose = _CODE.sub(" ", turn.said)
    names = dict.fromkeys(_NAME.findall(prose))
    numbers = dict.fromkeys(_long_numbers(prose))
    return (
        tuple(index.unseen(turn.index, list(names))),
        tuple(index.unseen(turn.index, list(numbers))),
    )


def _long_numbers(prose: str) -> Iterator[str]:
    """Numbers of several figures, without their signs."""
    for found in _NUMBER.findall(prose):
        digits = found.strip("$€£,")
        if sum(mark.isdecimal() for mark in digits) >= _FIGURES:
            yield digits
