"""Is a tool result an error? The one place that decides it, for the store and for every judgement.

A source that says so is believed. Most sources record only a text, and many runtimes return their
errors as ordinary results: there the words decide. They are read where a runtime puts them, at the
head of a text, in a line that is nothing but an exit code, in the fields of a JSON object; what a
result merely contains (a file, a log, search results, source code) may speak of errors without
being one. The words of a refusal ("could not …", "invalid …") open many a text that is none: they
count in a short result, and not in what a program printed.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from replay.depth import from_text
from replay.effects import takes_program
from replay.messages import observed
from replay.messages import text as text_of
from replay.trace import AnySpan, Json, ModelCall, ToolCall

SHORT = 600
"""Characters up to which a result can be a refusal: what is longer shows something."""

_LONGEST = 2_000
"""Characters up to which what a shell printed is looked through for its own complaints."""

_DOING = (
    "accessing|building|calling|compiling|connecting|creating|decoding|deleting|downloading"
    "|evaluating|executing|fetching|finding|getting|importing|ingesting|initiali[sz]ing|installing"
    "|invoking|loading|making|opening|parsing|performing|processing|reading|retrieving|running"
    "|saving|searching|sending|updating|writing"
)
"""What an error may befall: `Error executing tool`, but not `Error handling in Python`."""

_NOTHING = r"(?!\s*[\"']?(?:0\b|none\b|null\b|false\b|no errors?\b|ok\b|\[\]|\{\}|[\"']))"
"""What says after `error:` that there is none."""

_HEAD = re.compile(
    rf"\s*(?:<(?:tool_use_)?error>|errors?\s*[:!]{_NOTHING}|errors?\s*\.?\s*\Z"
    rf"|error(?: code| number| message)?[ :]+\d{{1,5}}\b(?![-/.\d])(?!\s*%)"
    rf"|error\[|error ts\d|error (?:{_DOING})\b"
    r"|error (?:while|when|during|occurred|at line|in line)\b"
    r"|an? (?:\w+ )?error (?:has )?occurred\b"
    r"|[\w.]*\w(?:error|exception)\s*(?::|\([\"'])"
    r"|exception\s*:|traceback \(most recent call last\)"
    r"|fatal: |mcp error\b|npm err!|requesterror\b"
    r"|http(?:/[\d.]+)?(?: error| status)?:? [45]\d\d\b|[45]\d\d (?:client|server) error"
    r"|unsupported (?:\w+ ){0,2}call: |aborted by (?:the )?user\b"
    r"|(?:exec_command|write_stdin) failed\b"
    r"|panic: |thread '[^']*' panicked|(?:code )?execution failed\b|<returncode>[1-9]"
    r"|(?:the )?(?:tool(?: call)?|command|execution|request|operation|script|process)"
    r" (?:has |was )?timed ?out\b"
    r"|\[?your proposed edit has introduced new syntax error)",
    re.I,
)
"""How a result begins that says that it is an error."""

_REFUSES = re.compile(
    r"\s*(?:failed to |failure\b|invalid \w+|no such |unknown (?:tool|function)"
    r"|(?:tool|function) \S+ (?:not|does not|doesn't|is not|isn't) "
    r"|cannot |can't |could not |couldn't |unable to |permission denied|access denied"
    r"|(?:tool|function|call|request|query|operation)(?: \S+)? failed\b|usage: )",
    re.I,
)
"""How a short result begins that refuses a call."""

_EXIT = re.compile(
    r"\(?(?:(?:the )?(?:command|process|script|program) )?(?:exited|finished|failed|terminated"
    r"|returned)?(?: with)?(?: non-?zero)? ?(?:exit ?)?(?:code|status)[:= ]+-?[1-9]\d*\)?\.?"
    r"|exit:? ?[1-9]\d*",
    re.I,
)
"""A line that is nothing but an exit code other than 0."""

_SHELL = re.compile(
    r"^\S*(?:ba|z|da)?sh: .*(?:command not found|no such file|cannot execute|permission denied"
    r"|syntax error)",
    re.M | re.I,
)
_COMPLAINT = re.compile(
    r"[^\s\"'{}\[\],]+: .*(?:no such file or directory|permission denied|not a directory"
    r"|is a directory|command not found|cannot open|cannot access|(?:invalid|unrecognized) option)"
    r".*|.+: error: (?:the following arguments|unrecognized arguments|argument ).*",
    re.I,
)
"""A line in which a program says that it could not do its work."""

_PROMPT = re.compile(r"\((?:open file|current directory): .*\)|\S*[$#>]", re.I)
"""What a runner shows after what a program printed."""

_LOG_LINE = re.compile(
    r"\[?(?:\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d|(?:info|debug|warn|warning|notice|trace)\b\]?[: ])",
    re.I,
)
"""A line of a log other than an error's."""

_CUT_OBJECT = re.compile(
    r"\s*\{\s*(?:[\"'](?:error|exception)[\"']\s*:\s*[\"'](?!none\b|null\b|ok\b|no error)[^\"'…]"
    r"|[\"'](?:success|ok)[\"']\s*:\s*false\b)",
    re.I,
)
"""An object whose first field is an error, also where the source cut its end off."""

_REPORT = re.compile(
    r"exit ?code:? [1-9]|execution failed|<returncode>[1-9]|^error:|traceback \(most", re.I | re.M
)

_TERMINAL = re.compile(r"terminal|console|executor|sandbox|environment", re.I)
ASIDE = re.compile(r"\s*\(.*\)\s*$", re.S)
"""What follows a speaker's name: `Orchestrator (thought)`, `Orchestrator (-> WebSurfer)`."""

_WRAPPING = re.compile(
    r"\s*(?:(?:call id: \S+|observation:|execution logs:)(?:\s|\Z)"
    r"|(?:output:|<output>)[ \t]*(?:\n|\Z))",
    re.I,
)
"""Lines that a runner puts before what a call returned; a call's id would make every reply new."""

_ADVICE = re.compile(r"\n\s*now let(?:'|’)s retry: .*", re.I | re.S)

_MASKED = re.compile(
    r"\s*[\[<](?:tool )?(?:results?|outputs?|redacted|omitted|masked|removed|content)"
    r"(?: \w+){0,3}[\]>]\s*|redacted(?: (?:input|output|arguments?|results?|content))?",
    re.I,
)
"""What a source puts where it does not show what was asked or came back."""


def is_error(span: AnySpan) -> bool | None:
    """Did a call end in an error? None where no result was recorded and nothing says so.

    A text decides only where the source does not say that the call failed: the result of a tool,
    or what a terminal shows in a chat of the code that it ran.
    """
    if span.status == "error" or span.error:
        return True
    text = result_text(span)
    if text is None:
        return None
    if not isinstance(span, ToolCall):
        return report_says_error(text)
    # Arguments that are one text are a program too: no other tool takes its input so.
    program = isinstance(span.arguments, str) or takes_program(span.arguments)
    return says_error(text, program=program)


def result_text(span: AnySpan) -> str | None:
    """What a call returned, without the lines that a runner puts around it; None where no result
    was recorded, the source does not show it, or the span is no call of a tool or a terminal."""
    shown = None
    if isinstance(span, ToolCall):
        shown = None if span.observation is None else observed(span.observation).text
    elif isinstance(span, ModelCall) and is_terminal(span.agent) and span.response.message:
        shown = text_of(span.response.message)
    return None if shown is None or is_masked(shown) else unwrapped(shown)


def is_masked(text: str) -> bool:
    """Is a text only a mark of the source for what it does not show?"""
    return bool(_MASKED.fullmatch(text))


def is_terminal(speaker: str | None) -> bool:
    """Is a speaker of a chat a terminal, which runs the code that others write?"""
    return bool(_TERMINAL.search(ASIDE.sub("", speaker or "")))


def unwrapped(text: str) -> str:
    """A result's text without the lines that a runner puts around it."""
    while (line := _WRAPPING.match(text)) is not None:
        text = text[line.end() :]
    return _ADVICE.sub("", text)


def says_error(text: str, *, program: bool = False) -> bool:
    """Does a result's text say that the call failed? `program`: a program printed it."""
    if _HEAD.match(text):
        return not _is_log(text)
    if text.lstrip()[:1] == "{":
        return bool(_CUT_OBJECT.match(text)) or _object_fails(text)
    if _exit_line(text):
        return True
    if program:
        return len(text) < _LONGEST and bool(_SHELL.search(text) or _only_complains(text))
    return len(text) <= SHORT and bool(_REFUSES.match(text))


def report_says_error(text: str) -> bool:
    """Does what a terminal shows in a chat say that the code it ran failed?"""
    return says_error(text, program=True) or bool(_REPORT.search(text[:_LONGEST]))


def _is_log(text: str) -> bool:
    """Do other lines look like those of a log?"""
    lines = text.strip().splitlines()[1:20]
    return any(_LOG_LINE.match(line.lstrip()) for line in lines)


def _exit_line(text: str) -> bool:
    """Is the first or the last line an exit code other than 0?"""
    shown = text.strip()
    first, last = shown[:80].partition("\n")[0], shown[-80:].rpartition("\n")[2]
    return any(_EXIT.fullmatch(line.strip()) for line in (first, last))


def _only_complains(text: str) -> bool:
    """Is a program's complaint all that it printed?"""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not _PROMPT.fullmatch(line)]
    return bool(lines) and all(map(_COMPLAINT.fullmatch, lines))


def decoded(text: str) -> Json | None:
    """The JSON value a result's text is, None where it is none."""
    try:
        return from_text(text)
    except msgspec.DecodeError:
        return None


def _object_fails(text: str) -> bool:
    value = decoded(text)
    return isinstance(value, dict) and _denies(value)


_EXIT_NAMES = ("exit_code", "exitCode", "exit_status", "exitStatus", "returncode", "return_code")
_STATUS_NAMES = ("statusCode", "status_code", "status")
_WHY = ("message", "msg", "error", "reason", "detail")


def _denies(value: dict[str, Any]) -> bool:
    """Do the fields of a JSON object say that the call that returned it failed?"""
    if any(_names_error(value.get(name)) for name in ("error", "exception")):
        return True
    if any(value.get(name) is True for name in ("isError", "is_error")):
        return True
    if _names_error(value.get("errors")) and "warnings" not in value:  # a linter's report has both
        return True
    if value.get("success") is False or value.get("ok") is False:
        return True
    if any(_number(value.get(name)) != 0 for name in _EXIT_NAMES):
        return True
    if any(_number(value.get(name)) >= 400 for name in _STATUS_NAMES):
        return True
    if any(
        str(value[name]).lower() == "error" for name in value if name.lower().endswith("status")
    ):
        return True
    failed = str(value.get("status")).lower() in {"failed", "failure"}
    return failed and any(name in value for name in _WHY) and not any(map(_is_id, value))


def _names_error(value: Json) -> bool:
    """Is the value of a field named `error` one? A number counts something, or measures it."""
    if isinstance(value, str):
        return value.strip().lower() not in {
            "",
            "none",
            "null",
            "ok",
            "no error",
            "false",
            "success",
        }
    return value is True or (isinstance(value, (dict, list)) and bool(value))


def _number(value: Json) -> int:
    """A whole number, 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _is_id(name: str) -> bool:
    """Is a field an identifier? An object with one is a record, whose status is its own."""
    return name == "id" or name.endswith(("_id", "Id"))
