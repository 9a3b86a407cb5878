"""How do runtimes word a refusal? One table: the kind of failure, whose words, an example of each.

Rows of one kind stand together, the most specific kind first; the first row that matches an
error's text names its kind. The patterns are matched without case, `^` at each line. Adding a
runtime is adding a row: a test holds every example against the table.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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
