"""What did a tool say back: did the call fail, and what kind of failure does its text describe?

Most sources record only a text, and many runtimes return their errors as ordinary results. The
words by which runtimes are known to refuse are the table in `runtimes`; every rule reads its answer
here.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.effects import takes_program
from replay.messages import observed
from replay.trace import Json, ToolCall
from taxonomy.evidence.runtimes import RUNTIMES, Kind

__all__ = ["Kind", "Reply", "cut", "decoded", "gist", "kind_of", "read", "says_failed", "unwrapped"]


class Reply(Struct, frozen=True, kw_only=True):
    """A result as rules read it. `failed` is None where no result was recorded."""

    text: str = ""
    failed: bool | None = None
    kind: Kind | None = None

    @property
    def gist(self) -> str:
        """The line that says most, cut to a phrase: the last of a traceback, else the first."""
        return gist(self.text)


_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile("|".join(row.pattern for row in rows), re.I | re.M))
    for kind, rows in groupby(RUNTIMES, lambda row: row.kind)
)

_FAILS = re.compile(
    r"\s*(?:<tool_use_error>|error\b|errors?:|[\w.]*(?:error|exception)\s*[:(]|traceback \(most"
    r"|fatal:|mcp error|http(?:/[\d.]+)?(?: error| status)?:? [45]\d\d\b"
    r"|[45]\d\d (?:client|server) error|panic: |thread '[^']*' panicked"
    r"|usage: |exit code:? [1-9]|(?:/bin/)?(?:ba|z|da)?sh: |failed to |failure\b|invalid \w+"
    r"|no such |unknown (?:tool|function)|(?:tool|function) \S+ (?:not|does|is not)|cannot "
    r"|could not |permission denied|access denied|requesterror)",
    re.I,
)
_CUT_OBJECT_FAILS = re.compile(r"\s*\{\s*[\"'](?:error|exception)[\"']\s*:\s*[\"'][^\"']")
"""An object whose first field is an error, also where the source cut its end off."""

_SHELL_FAILS = re.compile(r"^\S*(?:ba|z|da)?sh: .*(?:command not found|no such file)", re.M)
_ENVIRONMENT = re.compile(
    r"command not found|no module named|modulenotfounderror|importerror", re.I
)
_PROGRAM = re.compile(r"traceback \(most recent call last\)", re.I)
_SHELL_SYNTAX = re.compile(r"^\S*(?:ba|z|da)?sh: .*(?:syntax error|unexpected|unmatched)", re.M)
_SHELL_OPTION = re.compile(
    r"^\S+: (?:invalid|unrecognized|unknown|illegal|ambiguous) option|^\S+: error: unrecognized arg"
    r"|^\S+: (?:missing (?:file )?operand|option requires an argument|too (?:few|many) arguments)"
    r"|^\S+: error: the following arguments are required|^error: unexpected argument '",
    re.M,
)

_WRAPPING = re.compile(
    r"\s*(?:(?:call id: \S+|observation:|execution logs:)(?:\s|\Z)"
    r"|(?:output:|<output>)[ \t]*(?:\n|\Z))",
    re.I,
)
"""Lines that a runner puts before what a call returned; a call's id would make every reply new."""

_MASKED = re.compile(
    r"\s*[\[<](?:tool )?(?:results?|outputs?|redacted|omitted|masked|removed|content)"
    r"(?: \w+){0,3}[\]>]\s*|redacted",
    re.I,
)
"""What a source puts where it does not show what came back."""

_HEADING = re.compile(r"\s*(?:errors?|exception|stderr|stdout|output)?\s*:?\s*", re.I)
"""A line that only announces the next one, or is blank."""

_AT_LINE = re.compile(r"code execution failed at line .* due to:\s*(?=\S)", re.I)
"""Where in a program an error stands: that is not what it says."""

_ADVICE = re.compile(r"\n\s*now let(?:'|’)s retry: .*", re.I | re.S)

_HEAD, _TAIL = 600, 300
"""Where in a long text an error says what it is: at its head, or in a traceback's last lines."""

_SHORT = 2_000


def read(span: ToolCall) -> Reply:
    """The reply to a call. A text decides only where the source does not say that it failed."""
    shown = None if span.observation is None else observed(span.observation).text
    if shown is None or (_MASKED.fullmatch(shown) and span.status != "error"):
        failed = True if span.error else None
        text = span.error or ""
    else:
        text = unwrapped(shown) or (span.error or "")
        failed = span.status == "error" or bool(span.error) or says_failed(text)
    kind = kind_of(text, shell=takes_program(span.arguments)) if failed else None
    return Reply(text=text, failed=failed, kind=kind)


def unwrapped(text: str) -> str:
    """What a call returned, without the lines that a runner puts around it."""
    while (line := _WRAPPING.match(text)) is not None:
        text = text[line.end() :]
    return _ADVICE.sub("", text)


def says_failed(text: str) -> bool:
    """Does a result's text say that the call failed?"""
    if _FAILS.match(text) or _CUT_OBJECT_FAILS.match(text):
        return True
    if len(text) < _SHORT and _SHELL_FAILS.search(text):
        return True
    head = text.lstrip()[:1]
    return head == "{" and _object_failed(text)


def _object_failed(text: str) -> bool:
    value = decoded(text)
    return isinstance(value, dict) and _denies(value)


def decoded(text: str) -> Json | None:
    """The JSON value a result's text is, None where it is none."""
    try:
        return from_text(text)
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
    order = [Kind.TRANSIENT, Kind.TIMEOUT]
    if not _PROGRAM.search(text):
        order += [Kind.DENIED, Kind.MISSING]
    return next((kind for kind in order if named[kind].search(text)), Kind.OTHER)


def gist(text: str, width: int = 90) -> str:
    """One line of a text: the last of a traceback, else the first that says something."""
    plain = re.sub(r"</?tool_use_error>", "", text).strip()
    lines = [line.strip() for line in plain.splitlines() if not _HEADING.fullmatch(line)]
    if not lines:
        return ""
    line = lines[-1] if _PROGRAM.search(plain) else lines[0]
    if re.fullmatch(r"exit code:? \d+", line, re.I) and len(lines) > 1:
        line = lines[1]
    return cut(_AT_LINE.sub("", line), width)


def cut(text: str, width: int = 90) -> str:
    """A phrase's width, whitespace folded, the cut marked."""
    folded = " ".join(text[: 20 * width].split())
    return folded if len(folded) <= width and len(text) <= 20 * width else folded[: width - 1] + "…"
