"""What did a tool say back: did the call fail, and what kind of failure does its text describe?

Most sources record only a text, and many runtimes return their errors as ordinary results. One
table holds the words by which runtimes are known to refuse; every rule reads its answer here.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from replay.effects import takes_program
from replay.messages import observed
from replay.trace import Json, ToolCall


class Kind(StrEnum):
    """Why a call failed, as far as its text tells."""

    NO_TOOL = "no such tool"
    OTHER_TOOL = "asks for another tool"
    ARGUMENTS = "arguments refused"
    SYNTAX = "syntax error"
    MISSING = "not found"
    DENIED = "not allowed"
    TIMEOUT = "timed out"
    OTHER = "failed"


class Reply(Struct, frozen=True, kw_only=True):
    """A result as rules read it. `failed` is None where no result was recorded."""

    text: str = ""
    failed: bool | None = None
    kind: Kind | None = None

    @property
    def gist(self) -> str:
        """The line that says most, cut to a phrase: the last of a traceback, else the first."""
        return gist(self.text)


_TOOL_NAME = r"[`'\"]?[\w.:-]+[`'\"]?"

RUNTIME_WORDS: tuple[tuple[Kind, str], ...] = (
    (
        Kind.NO_TOOL,
        rf"no such (?:tool|function)|(?:unknown|unrecognized|invalid|undefined) (?:tool|function)\b"
        rf"|(?:tool|function) {_TOOL_NAME} (?:was |is )?(?:not (?:found|available|registered"
        r"|offered|recognized|a valid)|unknown|does(?: not|n't) exist)"
        r"|is not a (?:valid|known|registered) (?:tool|function)",
    ),
    (
        Kind.OTHER_TOOL,
        rf"(?:please|must|should|instead,?) use (?:the )?{_TOOL_NAME} (?:tool|function|instead)"
        rf"|use (?:the )?{_TOOL_NAME} (?:tool )?instead",
    ),
    (
        Kind.ARGUMENTS,
        r"inputvalidationerror|validation errors? |invalid (?:argument|parameter|input|value|option"
        r"|type|json|format|date|request)|missing (?:\d+ )?(?:required )?(?:argument|parameter"
        r"|positional|property|field|value|input)|(?:argument|parameter|property|field|value|input)s?"
        r"[^.\n]{0,40} (?:is|are) (?:missing|required|invalid|empty)|is a required property"
        r"|required (?:argument|parameter|property|field)|field required|is not of type"
        r"|is not one of|additional propert|unexpected (?:keyword )?(?:argument|parameter|property)"
        r"|takes (?:no|\d+) (?:positional )?argument|unrecognized (?:option|argument|parameter)"
        r"|(?:unknown|illegal) (?:option|argument|parameter)|^usage: |has not been read yet"
        r"|string to replace not found|no changes to make|matches of the string to replace"
        r"|not valid json|(?:could not|cannot|can't|failed to|unable to) (?:parse|decode) "
        r"(?:the )?(?:argument|input|json|parameter|tool)|expected \S+,? (?:but )?(?:got|received)"
        r"|must (?:be (?:a|an|one of|of type|between|at least|provided|specified|greater|less)"
        r"|not be (?:empty|null))|cannot be (?:empty|null|blank)"
        r"|does(?: not|n't) (?:add up|match|equal)|(?:is|are) (?:more|greater|less|larger|higher"
        r"|lower|longer|shorter) than|exceeds? the|out of range"
        r"|too (?:large|long|small|short|many)",
    ),
    (
        Kind.SYNTAX,
        r"syntax error|unexpected (?:eof|token|end of file|character|indent)|syntaxerror"
        r"|indentationerror|unterminated (?:string|quoted)|unmatched ['\"`(){}\[\]]",
    ),
    (
        Kind.DENIED,
        r"permission denied|not (?:allowed|permitted|authori[sz]ed)|access denied|forbidden"
        r"|unauthori[sz]ed|requires? (?:approval|permission)|requested permissions|rejected by"
        r"|eacces",
    ),
    (Kind.TIMEOUT, r"timed? ?out|deadline exceeded"),
    (
        Kind.MISSING,
        r"no such file|not found|does(?: not|n't) exist|(?:cannot|could not|couldn't|can't) "
        r"(?:find|access|locate|open)|filenotfounderror|enoent|no [\w -]{1,40} (?:found|with (?:id"
        r"|that))|unknown (?:id|user|order|key|name|path|resource)|not a valid (?:id|path)|\b404\b",
    ),
)
"""How runtimes word a failure, most specific first; matched without case on an error's text."""

_WORDS = tuple((kind, re.compile(words, re.I | re.M)) for kind, words in RUNTIME_WORDS)

_FAILS = re.compile(
    r"\s*(?:<tool_use_error>|error\b|errors?:|\w*(?:error|exception)\s*[:(]|traceback \(most|fatal:"
    r"|usage: |exit code:? [1-9]|(?:/bin/)?(?:ba|z|da)?sh: |failed to |failure\b|invalid \w+"
    r"|no such |unknown (?:tool|function)|(?:tool|function) \S+ (?:not|does|is not)|cannot "
    r"|could not |permission denied|access denied|requesterror)",
    re.I,
)
_SHELL_FAILS = re.compile(r"^\S*(?:ba|z|da)?sh: .*(?:command not found|no such file)", re.M)
_ENVIRONMENT = re.compile(
    r"command not found|no module named|modulenotfounderror|importerror", re.I
)
_PROGRAM = re.compile(r"traceback \(most recent call last\)", re.I)
_SHELL_SYNTAX = re.compile(r"^\S*(?:ba|z|da)?sh: .*(?:syntax error|unexpected|unmatched)", re.M)
_SHELL_OPTION = re.compile(
    r"^\S+: (?:invalid|unrecognized|unknown|illegal) option|^\S+: error: unrecognized arg", re.M
)

_HEAD, _TAIL = 600, 300
"""Where in a long text an error says what it is: at its head, or in a traceback's last lines."""

_SHORT = 2_000


def read(span: ToolCall) -> Reply:
    """The reply to a call. A text decides only where the source does not say that it failed."""
    if span.observation is None:
        failed = True if span.error else None
        text = span.error or ""
    else:
        text = observed(span.observation).text or (span.error or "")
        failed = span.status == "error" or bool(span.error) or says_failed(text)
    kind = kind_of(text, shell=takes_program(span.arguments)) if failed else None
    return Reply(text=text, failed=failed, kind=kind)


def says_failed(text: str) -> bool:
    """Does a result's text say that the call failed?"""
    if _FAILS.match(text) or (len(text) < _SHORT and _SHELL_FAILS.search(text)):
        return True
    head = text.lstrip()[:1]
    return head == "{" and _object_failed(text)


def _object_failed(text: str) -> bool:
    value = decoded(text)
    return isinstance(value, dict) and _denies(value)


def decoded(text: str) -> Json | None:
    """The JSON value a result's text is, None where it is none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _denies(value: dict[str, Any]) -> bool:
    if any(value.get(name) for name in ("error", "errors", "exception", "isError", "is_error")):
        return True
    if value.get("success") is False or value.get("ok") is False:
        return True
    code = value.get("statusCode", value.get("status_code"))
    if isinstance(code, int) and code >= 400:
        return True
    return str(value.get("status")).lower() in {"error", "failed", "failure"}


def kind_of(text: str, *, shell: bool = False) -> Kind:
    """What an error's text describes. In a shell only the shell's own words count."""
    shown = text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    if shell and "<tool_use_error>" not in shown:
        return _shell_kind(shown)
    for kind, words in _WORDS:
        if words.search(shown):
            return kind
    return Kind.OTHER


def _shell_kind(text: str) -> Kind:
    if _SHELL_SYNTAX.search(text):
        return Kind.SYNTAX
    if _SHELL_OPTION.search(text):
        return Kind.ARGUMENTS
    if _ENVIRONMENT.search(text):
        return Kind.OTHER
    named = dict(_WORDS)
    order = [Kind.TIMEOUT] if _PROGRAM.search(text) else [Kind.DENIED, Kind.TIMEOUT, Kind.MISSING]
    return next((kind for kind in order if named[kind].search(text)), Kind.OTHER)


def gist(text: str, width: int = 90) -> str:
    """One line of a text: the last of a traceback, else the first that says something."""
    plain = re.sub(r"</?tool_use_error>", "", text).strip()
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    if not lines:
        return ""
    line = lines[-1] if _PROGRAM.search(plain) else lines[0]
    if re.fullmatch(r"exit code:? \d+", line, re.I) and len(lines) > 1:
        line = lines[1]
    return cut(line, width)


def cut(text: str, width: int = 90) -> str:
    """A phrase's width, whitespace folded, the cut marked."""
    folded = " ".join(text[: 20 * width].split())
    return folded if len(folded) <= width and len(text) <= 20 * width else folded[: width - 1] + "…"
