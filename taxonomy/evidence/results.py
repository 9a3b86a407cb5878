"""What did a tool give back: did the call fail, and what kind of failure does its text describe?

`RUNTIMES` is one table of how runtimes word a refusal: the kind of failure, whose words, and an
example of each.
"""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import groupby

from msgspec import Struct

from replay import tool_errors
from replay.effects import takes_program
from replay.trace import ToolCall


class Kind(StrEnum):
    """Why a call failed, as far as its text tells."""

    NO_TOOL = "no such tool"
    OTHER_TOOL = "asks for another tool"
    TRANSIENT = "for the moment only"
    ARGUMENTS = "arguments refused"
    SYNTAX = "syntax error"
    MISSING = "not found"
    DENIED = "not allowed"
    TIMEOUT = "timed out"
    OTHER = "failed"


class Words(Struct, frozen=True):
    """One runtime's words for one kind of failure, as a pattern, and an example it matches."""

    kind: Kind
    runtime: str
    pattern: str
    example: str


_TOOL = r"[`'\"]?[\w.:-]+[`'\"]?"
_ARGUMENT = r"(?:argument|parameter|property|field|value|input)"

RUNTIMES: tuple[Words, ...] = (
    # --- no such tool
    Words(
        Kind.NO_TOOL,
        "agent loops",
        r"no such (?:tool|function)|(?:unknown|unrecognized|invalid|undefined) (?:tool|function)\b"
        rf"|(?:tool|function) {_TOOL} (?:was |is )?(?:not (?:found|available|registered|offered"
        r"|recognized|a valid)|unknown|does(?: not|n't) exist)"
        r"|is not a (?:valid|known|registered) (?:tool|function)",
        "Error: tool 'search' not found",
    ),
    Words(Kind.NO_TOOL, "JSON-RPC, MCP", r"-32601\b", "MCP error -32601: Method not found"),
    # --- asks for another tool
    Words(
        Kind.OTHER_TOOL,
        "agent loops",
        rf"(?:please|must|should|instead,?) use (?:the )?{_TOOL} (?:tool|function|instead)"
        rf"|use (?:the )?{_TOOL} (?:tool )?instead",
        "Binary file. Please use the Bash tool instead.",
    ),
    # --- for the moment only: the same call may work a little later
    Words(
        Kind.TRANSIENT,
        "HTTP",
        r"\b(?:429|502|503|504|529)\b[:,]? (?:too many|bad gateway|service|gateway|server error"
        r"|client error|overloaded)|(?:http|status|error)(?: code)?[: ]+(?:429|502|503|504|529)\b"
        r"|too many requests|service (?:is )?(?:temporarily )?unavailable|bad gateway",
        "503 Service Unavailable",
    ),
    Words(
        Kind.TRANSIENT,
        "APIs",
        r"rate.?limit(?:ed| (?:exceeded|reached|hit))|temporar(?:y|ily) (?:failure|unavailable"
        r"|overloaded|blocked)|overloaded_error|server is (?:overloaded|busy)"
        r"|(?:please )?(?:try again|retry) (?:later|in \d+ ?(?:s|m|sec|min))",
        "RateLimitError: rate limit exceeded, try again in 20 s",
    ),
    Words(
        Kind.TRANSIENT,
        "sockets",
        r"econnreset|econnrefused|eai_again|etimedout|connection (?:reset|aborted|refused)"
        r"|temporary failure in name resolution|remote end closed|database is locked",
        "ConnectionResetError: connection reset by peer",
    ),
    # --- arguments refused
    Words(
        Kind.ARGUMENTS,
        "agent loops",
        r"inputvalidationerror|has not been read yet|string to replace not found"
        r"|no changes to make|matches of the string to replace|not valid json"
        r"|(?:could not|cannot|can't|failed to|unable to) (?:parse|decode) "
        r"(?:the )?(?:argument|input|json|parameter|tool)",
        "InputValidationError: Read failed: missing parameter",
    ),
    Words(Kind.ARGUMENTS, "JSON-RPC, MCP", r"-3260[02]\b", "MCP error -32602: bad request"),
    Words(
        Kind.ARGUMENTS,
        "Python",
        r"unexpected (?:keyword )?(?:argument|parameter|property)|multiple values for "
        r"(?:keyword )?argument|takes (?:no|\d+|from \d+ to \d+) (?:positional )?argument"
        r"|missing \d+ required (?:positional|keyword)|invalid literal for int"
        r"|could not convert string to float|time data .* does not match format",
        "TypeError: book() got an unexpected keyword argument 'seats'",
    ),
    Words(
        Kind.ARGUMENTS,
        "pydantic",
        r"validation errors? |field required|input should be|extra inputs are not permitted",
        "1 validation error for Booking\nseat\n  Field required [type=missing]",
    ),
    Words(
        Kind.ARGUMENTS,
        "JSON Schema",
        r"is a required property|is not of types?|is not one of|additional propert"
        r"|does not match '|is not valid under any|has non-unique elements|is too (?:short|long)$",
        "'page' is a required property",
    ),
    Words(
        Kind.ARGUMENTS,
        "JavaScript validators",
        r"must have required property|must not have additional|must match (?:pattern|exactly)"
        r"|must be (?:equal to one of|string|number|integer|boolean|object|array)\b"
        r"|expected \S+,? (?:but )?(?:got|received)|\"\w+\" is (?:required|not allowed)"
        r"|invalid_type|invalid_enum_value|unrecognized_keys|rangeerror: invalid",
        "data must have required property 'id'",
    ),
    Words(
        Kind.ARGUMENTS,
        "Go",
        r"json: cannot unmarshal|strconv\.\w+: parsing|flag provided but not defined"
        r"|unknown (?:shorthand )?flag|required flag\(s\)|accepts \d+ arg\(s\)",
        "json: cannot unmarshal string into Go struct field Order.id of type int",
    ),
    Words(
        Kind.ARGUMENTS,
        "Rust",
        r"missing field `|unknown (?:field|variant) `|invalid type: [^\n]{1,60}, expected"
        r"|unexpected argument '|required arguments were not provided|invalid value '[^']*' for",
        "missing field `order_id` at line 1 column 20",
    ),
    Words(
        Kind.ARGUMENTS,
        "HTTP",
        r"\b(?:400|422)\b[:,]? (?:bad request|unprocessable|client error)"
        r"|(?:http|status)(?: code| error)?[: ]+(?:400|422)\b|^bad request|unprocessable entity",
        "HTTP 422 Unprocessable Entity",
    ),
    Words(
        Kind.ARGUMENTS,
        "SQL",
        r"no such (?:table|column)|unknown column|ambiguous column|invalid column name"
        r"|(?:relation|column|table) \S+ (?:of relation \S+ )?does not exist|invalid input syntax"
        r"|constraint failed|violates \S+(?: \S+)? constraint|datatype mismatch"
        r"|incorrect \w+ value: |doesn't have a default value|data too long for column",
        "sqlite3.OperationalError: no such column: price",
    ),
    Words(
        Kind.ARGUMENTS,
        "command lines",
        r"unrecognized (?:option|argument|parameter)|(?:unknown|illegal|invalid) option"
        r"|unknown (?:argument|parameter)|^usage: |missing (?:file )?operand"
        r"|requires an argument|following arguments are required",
        "tool: error: unrecognized arguments: --fast",
    ),
    Words(
        Kind.ARGUMENTS,
        "many",
        r"invalid (?:argument|parameter|input|value|type|json|format|date|request)"
        rf"|missing (?:required )?(?:{_ARGUMENT}|positional)"
        rf"|{_ARGUMENT}s?[^.\n]{{0,40}} (?:is|are) (?:missing|required|invalid|empty)"
        r"|required (?:argument|parameter|property|field)|illegalargumentexception"
        r"|must (?:be (?:a|an|one of|of type|between|at least|provided|specified|greater|less)"
        r"|not be (?:empty|null))|cannot be (?:empty|null|blank)"
        r"|does(?: not|n't) (?:add up|match|equal)|(?:is|are) (?:more|greater|less|larger|higher"
        r"|lower|longer|shorter) than|exceeds? the|out of range"
        r"|too (?:large|long|small|short|many)",
        "Error: payment amount does not add up",
    ),
    # --- syntax
    Words(
        Kind.SYNTAX,
        "many",
        r"syntax ?error|unexpected (?:eof|token|end of (?:file|input)|character|indent)"
        r"|indentationerror|unterminated (?:string|quoted)|unmatched ['\"`(){}\[\]]",
        "bash: syntax error near unexpected token `}'",
    ),
    Words(Kind.SYNTAX, "JSON-RPC, MCP", r"-32700\b", "MCP error -32700: Parse error"),
    # --- not allowed
    Words(
        Kind.DENIED,
        "many",
        r"permission denied|not (?:allowed|permitted|authori[sz]ed)|access denied|forbidden"
        r"|unauthori[sz]ed|requires? (?:approval|permission)|requested permissions|rejected by"
        r"|eacces",
        "EACCES: permission denied, open '/etc/shadow'",
    ),
    Words(
        Kind.DENIED,
        "HTTP",
        r"\b(?:401|403)\b[:,]? (?:unauthorized|forbidden|client error)"
        r"|(?:http|status)(?: code| error)?[: ]+(?:401|403)\b|invalid api.?key",
        "HTTP 403",
    ),
    # --- timed out
    Words(
        Kind.TIMEOUT,
        "many",
        r"timed? ?out|deadline exceeded|-32001\b|context deadline",
        "Command timed out after 120 s",
    ),
    # --- not found
    Words(
        Kind.MISSING,
        "files",
        r"no such file|filenotfounderror|enoent|not a directory|os error 2\b",
        "ENOENT: no such file or directory, open 'a.txt'",
    ),
    Words(
        Kind.MISSING,
        "many",
        r"not found|does(?: not|n't) exist|(?:cannot|could not|couldn't|can't) be found"
        r"|(?:cannot|could not|couldn't|can't) (?:find|access|locate|open)"
        r"|no [\w -]{1,40} (?:found|with (?:id|that))"
        r"|unknown (?:id|user|order|key|name|path|resource)|not a valid (?:id|path)|-32002\b",
        "Error: order 1099 not found",
    ),
    Words(Kind.MISSING, "HTTP", r"\b404\b|\b410 gone", "404 Client Error"),
)
"""How runtimes word a failure, the most specific kind first."""


class Reply(Struct, frozen=True, kw_only=True):
    """A result as rules read it. `failed` is None where no result was recorded."""

    text: str = ""
    failed: bool | None = None
    kind: Kind | None = None

    @property
    def gist(self) -> str:
        """The line that says most, cut to a phrase: the last of a traceback, else the first."""
        return gist(self.text)


KIND_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile("|".join(row.pattern for row in rows), re.I | re.M))
    for kind, rows in groupby(RUNTIMES, lambda row: row.kind)
)

ENVIRONMENT = re.compile(r"command not found|no module named|modulenotfounderror|importerror", re.I)
_PROGRAM = re.compile(r"traceback \(most recent call last\)", re.I)
SHELL_SYNTAX = re.compile(r"^\S*(?:ba|z|da)?sh: .*(?:syntax error|unexpected|unmatched)", re.M)
SHELL_OPTION = re.compile(
    r"^\S+: (?:invalid|unrecognized|unknown|illegal|ambiguous) option|^\S+: error: unrecognized arg"
    r"|^\S+: (?:missing (?:file )?operand|option requires an argument|too (?:few|many) arguments)"
    r"|^\S+: error: the following arguments are required|^error: unexpected argument '",
    re.M,
)

_HEADING = re.compile(r"\s*(?:errors?|exception|stderr|stdout|output)?\s*:?\s*", re.I)
"""A line that only announces the next one, or is blank."""

_AT_LINE = re.compile(r"code execution failed at line .* due to:\s*(?=\S)", re.I)
"""Where in a program an error stands: that is not what it says."""

HEAD, TAIL = 600, 300
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
    shown = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"
    if shell and "<tool_use_error>" not in shown:
        return _shell_kind(shown)
    for kind, words in KIND_WORDS:
        if words.search(shown):
            return kind
    return Kind.OTHER


def _shell_kind(text: str) -> Kind:
    if SHELL_SYNTAX.search(text):
        return Kind.SYNTAX
    if SHELL_OPTION.search(text):
        return Kind.ARGUMENTS
    if ENVIRONMENT.search(text):
        return Kind.OTHER
    named = dict(KIND_WORDS)
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
