"""What did a tool say back, and what kind of failure does its text describe?

Whether it is an error, `replay.tool_errors` decides. The words by which runtimes are known to
refuse are the table in `runtimes`; every rule reads its answer here.
"""

from __future__ import annotations

import re
from itertools import groupby

from msgspec import Struct

from replay import tool_errors
from replay.effects import takes_program
from replay.trace import ToolCall
from taxonomy.evidence.runtimes import RUNTIMES, Kind

__all__ = ["Kind", "Reply", "cut", "gist", "kind_of", "read", "report"]


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

_HEADING = re.compile(r"\s*(?:errors?|exception|stderr|stdout|output)?\s*:?\s*", re.I)
"""A line that only announces the next one, or is blank."""

_AT_LINE = re.compile(r"code execution failed at line .* due to:\s*(?=\S)", re.I)
"""Where in a program an error stands: that is not what it says."""

_HEAD, _TAIL = 600, 300
"""Where in a long text an error says what it is: at its head, or in a traceback's last lines."""


def read(span: ToolCall) -> Reply:
    """The reply to a call."""
    text = tool_errors.result_text(span) or span.error or ""
    failed = tool_errors.is_error(span)
    kind = kind_of(text, shell=takes_program(span.arguments)) if failed else None
    return Reply(text=text, failed=failed, kind=kind)


def report(words: str) -> Reply:
    """What a terminal shows in a chat, as the reply to the code it ran."""
    text = tool_errors.unwrapped(words)
    failed = tool_errors.report_says_error(text)
    return Reply(text=text, failed=failed, kind=kind_of(text, shell=True) if failed else None)


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
