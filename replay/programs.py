"""What does a program in a call's arguments do: SQL, GraphQL, an HTTP request, a shell command?

A program is read only as far as it is unmistakable. It `write`s where it says so. It `read`s where
every part of it is known to change nothing and the tool's name leaves no doubt in what language it
is. Everything else is `unknown`, also what cannot be taken apart: it could write. None means that
the arguments hold no program, so that the name of the tool may say what it does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from replay.trace import Effect, Json

KEYS = frozenset({"command", "cmd", "code", "script", "commands", "keystrokes", "shell"})
"""Arguments under these names are programs."""

_SHELL_KEYS = KEYS - {"code", "keystrokes"}
"""Keystrokes go to whatever runs in the terminal, code is of a language that is not said."""

_STATEMENT_KEYS = frozenset(
    {"document", "gql", "graphql", "sql", "sql_query", "statement", "statements", "stmt"}
)
"""Arguments under these names are statements of a language."""

_MAYBE_KEYS = frozenset({"", "query", "queries", "input"})
"""And under these they may be, or prose; "" where there are no names."""

_SHELLS = frozenset({"bash", "shell", "sh", "zsh", "terminal", "command", "cmd", "exec"})
_OTHER_LANGUAGES = frozenset({"python", "ipython", "sql", "node", "javascript", "jupyter", "ruby"})
_DATABASES = frozenset(
    "bigquery clickhouse data database db duckdb exec execute graphql mysql pg postgres postgresql"
    " psql query read redshift run select snowflake sql sqlite statement the warehouse".split()
)
_WEB = frozenset(
    "api call client do fetch get http https make page perform request requests run send tool url"
    " web".split()
)
"""Names made of these words alone are carriers: what they do stands in their arguments."""


def effect(words: Sequence[str], arguments: Json) -> Effect | None:
    """What the programs among the arguments of a call do; `words` are those of the tool's name."""
    if isinstance(arguments, str):
        arguments = {"": arguments}
    if not isinstance(arguments, dict):
        return None
    found = [each for each in (_request(words, arguments), _command(words, arguments)) if each]
    for key, text in _texts(arguments):
        statement = _statement(words, key, text)
        if statement is not None:
            found.append(statement)
    for each in ("write", "unknown", "read"):
        if each in found:
            return each
    return None


def _texts(arguments: Json) -> Iterator[tuple[str, str]]:
    """Every text below, with the name it stands under; that of a list for what is in it."""
    left: list[tuple[str, Json]] = [("", arguments)]
    while left:
        key, at = left.pop()
        if isinstance(at, str):
            yield key, at
        elif isinstance(at, dict):
            left.extend((str(name).lower(), value) for name, value in at.items())
        elif isinstance(at, list):
            left.extend((key, value) for value in at)


# --- statements: SQL and GraphQL


def _statement(words: Sequence[str], key: str, text: str) -> Effect | None:
    """What a text does as a statement, None where it is none or the tool's name says enough.

    Under a name that statements do not have, only what is clearly a change counts: prose may begin
    with "show" or "select".
    """
    if _SQL_CHANGE.match(text):
        return "write"
    if key not in _STATEMENT_KEYS and key not in _MAYBE_KEYS:
        return None
    if _GRAPHQL_CHANGE.search(text):
        return "write"
    carrier = _DATABASES.issuperset(words)
    reads = _GRAPHQL_READ.match(text) or ("graphql" in words and _GRAPHQL_SHORT.match(text))
    if (reads and not _GRAPHQL_OTHER.search(text)) or _sql_reads(text):
        return "read" if carrier else None
    said = key in _STATEMENT_KEYS or "query" in words or carrier
    return "unknown" if said or _SQL_BEGINS.match(text) else None


_GRAPHQL_CHANGE = re.compile(r"(?:\A|[}\s])(?:mutation|subscription)\b\s*\w*\s*[({@]")
_GRAPHQL_OTHER = re.compile(r"\b(?:mutation|subscription)\b")
_GRAPHQL_READ = re.compile(r"\s*query\b\s*\w*\s*(?:[(@]|\{\s*[A-Za-z_])")
_GRAPHQL_SHORT = re.compile(r"\s*\{\s*[A-Za-z_]")
"""A query without its first word; other databases have such texts too (`{drop: "orders"}`)."""

_BEFORE_SQL = r"(?:\s|\(|;|--[^\n]*\n|/\*.*?\*/|explain\b|analyze\b)*"
_SQL_CHANGE = re.compile(
    _BEFORE_SQL + r"(?:update\s+\S+(?:\s+\S+){0,3}\s+set\b|insert\s+(?:or\s+\w+\s+)?into\b"
    r"|delete\s+from\b|merge\s+into\b|replace\s+into\b|truncate\s+(?:table\s+)?\w"
    r"|(?:create|alter|drop)\s+(?:or\s+replace\s+)?(?:temp\w*\s+|unique\s+|materialized\s+)?"
    r"(?:table|view|index|schema|database|trigger|function|procedure|role|user|sequence|type)\b"
    r"|(?:grant|revoke)\s+\w+.*\bon\b|select\b[^;]*\binto\s+(?:outfile|dumpfile)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SQL_READS = ("select", "with", "values", "explain")
_SHOWS = re.compile(r"(?:show|describe|desc)\s+(?:full\s+)?[\w.]+(?:\s+(?:from|like|in)\s+[\w.]+)?")
_SQL_PIECE = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[\w+\]|--(?=[\s])[^\n]*|--\Z|/\*(?![!M+]).*?\*/""",
    re.DOTALL,
)
_SQL_QUOTE = re.compile(r"\bn?q'", re.IGNORECASE)
"""Oracle's own quotation, `q'[…]'`."""
_SQL_DOUBT = re.compile(r"['\"`\\#$@{}]|--|/\*|:=")
"""Left after the pieces: an open quotation, an escape or a variable, whose meaning is the
database's own."""
_SQL_WORD = re.compile(r"[a-z_]\w*(?:\s*\()?")
_SQL_CALLABLE = frozenset(
    # Words of the language that a parenthesis may follow, and functions that change nothing.
    "all and any as between by case cast distinct else except exists explain filter from having in"
    " intersect is join lateral like limit not offset on or order over partition select set some"
    " then union using values when where with within"
    " abs avg ceil ceiling char_length coalesce concat count cume_dist current_date date date_part"
    " date_trunc datetime dense_rank extract first_value floor format glob greatest group_concat"
    " hex ifnull iif instr isnull json_array_length json_extract julianday lag last_value lead"
    " least left length list log lower lpad ltrim max min mod month ntile nullif nvl percent_rank"
    " position pow power quantile quote rank regexp_matches regexp_replace replace reverse right"
    " round row_number rpad rtrim sign split_part sqrt std stddev strftime string_agg strpos"
    " substr substring sum time timestamp to_char to_date to_number to_timestamp total trim trunc"
    " try_cast typeof upper variance year array_agg array_length unnest now char decimal int"
    " integer numeric varchar".split()
)
_SQL_CHANGES = frozenset(
    # Within a statement: changes in a CTE, `INTO`, `FOR UPDATE`, and what a second statement begins
    # with in the dialect that needs no semicolon before it.
    "alter backup begin bulk call checkpoint commit create dbcc delete deny drop dumpfile exec"
    " execute grant insert into kill lock merge outfile reconfigure restore revoke rollback set"
    " shutdown truncate update use waitfor".split()
)
_PRAGMA = re.compile(
    r"pragma\s+(?:\w+\.)?(?:(?:table_x?info|table_list|index_x?info|index_list|foreign_key_list)"
    r"(?:\s*\([^)]*\))?|database_list|compile_options|user_version|schema_version|journal_mode"
    r"|foreign_keys|integrity_check|quick_check|page_count|page_size|encoding)\s*"
)


_SQL_BEGINS = re.compile(r"\s*(?:select\b.*\bfrom\b|with\b.*\bas\s*\(|pragma\s)", re.I | re.S)
"""It looks like SQL, whatever it does: `SELECT … FROM …`, not "select the best"."""


def _sql_reads(text: str) -> bool:
    """Are these statements of SQL that change nothing, in every dialect?"""
    if "\\" in text or _SQL_QUOTE.search(text):
        return False
    bare = _SQL_PIECE.sub(lambda found: " " if found[0][:2] in ("--", "/*") else " quoted ", text)
    if _SQL_DOUBT.search(bare):
        return False
    statements = [each.strip() for each in bare.lower().split(";") if each.strip()]
    return bool(statements) and all(map(_statement_reads, statements))


def _statement_reads(statement: str) -> bool:
    if _PRAGMA.fullmatch(statement) or _SHOWS.fullmatch(statement):
        return True
    first = re.match(r"[(\s]*(\w+)", statement)
    if first is None or first[1] not in _SQL_READS:
        return False
    for found in _SQL_WORD.findall(statement):
        word = found.rstrip("( \t\r\n")
        called = found.endswith("(")
        if (called and word not in _SQL_CALLABLE) or (not called and word in _SQL_CHANGES):
            return False
    return True


# --- HTTP


_METHOD_KEYS = ("method", "http_method", "httpmethod", "verb", "request_method")
_URL_KEYS = ("url", "uri", "endpoint", "href")
_BODY_KEYS = ("body", "data", "json", "payload", "form", "files", "content")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_METHODS = _SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE", "CONNECT"}


def _request(words: Sequence[str], arguments: dict[str, Json]) -> Effect | None:
    """What an HTTP request does: by its method, else by whether it sends a body."""
    found: list[Effect] = []
    left: list[Json] = [arguments]
    while left:
        at = left.pop()
        if isinstance(at, list):
            left.extend(at)
        if not isinstance(at, dict):
            continue
        left.extend(at.values())
        named = {str(name).lower(): value for name, value in at.items()}
        said = next((named[key] for key in _METHOD_KEYS if isinstance(named.get(key), str)), None)
        method = str(said).strip().upper() if said is not None else None
        to = any(isinstance(named.get(key), str) for key in _URL_KEYS)
        if "x-http-method-override" in named:
            found.append("write")
        if method in _METHODS:
            found.append("read" if method in _SAFE_METHODS else "write")
        elif to and (method is not None or any(named.get(key) for key in _BODY_KEYS)):
            found.append("write")
    if "write" in found:
        return "write"
    return "read" if found and _WEB.issuperset(words) else None


# --- shell commands


def _command(words: Sequence[str], arguments: dict[str, Json]) -> Effect | None:
    """What the program under one of `KEYS` does."""
    programs = [value for key, value in arguments.items() if str(key).lower() in KEYS]
    if not programs:
        return None
    if any(str(key).lower() in KEYS - _SHELL_KEYS for key in arguments):
        return "unknown"
    shell = not _SHELLS.isdisjoint(words) and _OTHER_LANGUAGES.isdisjoint(words)
    for each in programs:
        text = _command_line(each)
        if text is None:
            return "unknown"
        named = " ".join(words) == text.split(maxsplit=1)[0] if text.strip() else False
        if not (shell or named) or not shell_reads(text):
            return "unknown"
    return "read"


def _command_line(given: Json) -> str | None:
    """A command as one line of a shell: also `["bash", "-lc", "ls"]` and `["ls", "-l"]`."""
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not given:
        return None
    parts = [each for each in given if isinstance(each, str)]
    if len(parts) != len(given):
        return None
    if parts[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh"):
        return parts[2] if len(parts) == 3 and parts[1] in ("-c", "-lc") else None
    return shlex.join(parts)


_PLAIN = frozenset(
    "basename cat cmp column comm cut df diff dirname du echo egrep expr false fgrep fold free"
    " grep groups head hexdump id join jq ls lscpu md5sum nl nproc od paste pgrep printenv ps pwd"
    " readlink realpath rev seq sha1sum sha256sum sha512sum stat strings tac tail test tr true"
    " tty uname uptime wc which who whoami [".split()
)
"""Programs that change nothing, whatever their options."""

_REFUSED = {
    # Programs that change nothing, unless an argument begins so.
    "file": ("-C", "--com"),
    "find": ("-delete", "-exec", "-ok", "-fprint", "-fls"),
    "rg": ("--pre", "--hostname-bin"),
    "sort": ("-o", "--o", "--com"),
    "tree": ("-o", "--o"),
}
_ALLOWED = {
    # Programs of which only these options are known to change nothing.
    "curl": re.compile(
        r"-[sSLfIivkgN#46]+|-[HAem]|--(?:silent|location|fail|head|include|verbose|insecure"
        r"|show-error|compressed|max-time|connect-timeout|header)|(?!-)(?:https?://.*|(?!.*://).*)",
        re.DOTALL,
    ),
    "date": re.compile(r"\+.*|-[uRI]\w*|--utc", re.DOTALL),
    "git branch": re.compile(r"-[arv]+|--(?:show-current|list|all)"),
    "git remote": re.compile(r"-v"),
    "uniq": re.compile(r"-[cdiu]+|(?!-).*", re.DOTALL),
}

_GIT_READS = frozenset(
    "blame cat-file describe diff grep log ls-files ls-tree rev-list rev-parse shortlog show"
    " status".split()
)
_GIT_REFUSED = ("-o", "-O", "--ou", "--op", "--ext", "--textc")
_SED = re.compile(r"(?:\d+|\$)?(?:,(?:\d+|\$))?p")
_JOINS = frozenset({"", ";", "&&", "||", "|", "|&", "&"})
_OUTPUT = frozenset({">", ">>", ">&", "&>", "&>>", ">|"})
_DOUBTFUL = ("`", "$(", "${", "$'", '$"', "<(", ">(", "<<", "\\\n", "\r", "\0")
"""Commands within words, quotations of other kinds, here-documents: nothing is told of them."""


def shell_reads(command: str) -> bool:
    """Does a shell that runs these commands change nothing, its own state included (`cd`)?"""
    text = re.sub(r"\A(?:\s*#[^\n]*\n)+", "", command.strip())
    if not text or any(each in text for each in _DOUBTFUL):
        return False
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    try:
        tokens = list(lexer)
    except ValueError:
        return False
    words: list[str] = []
    at = iter(tokens)
    for token in at:
        if not token or set(token) - set("();<>|&\n"):
            words.append(token)
        elif token in _OUTPUT:
            target = next(at, "")
            if target != "/dev/null" and not (token == ">&" and target in ("1", "2")):
                return False
        elif token == "<":
            words.append(next(at, ""))  # as an argument: a quoted "<" reads the same here
        elif token.strip("\n") not in _JOINS or (words and not _program_reads(words)):
            return False
        else:
            words = []
    return not words or _program_reads(words)


def _program_reads(words: Sequence[str]) -> bool:
    """Does one program with its arguments change nothing?"""
    name, given = words[0], list(words[1:])
    if name in _PLAIN:
        return True
    if any("$" in each for each in given):
        return False  # it may stand for an option
    if name == "git":
        given = given[1:] if given[:1] == ["--no-pager"] else given
        name, given = " ".join(("git", *given[:1])), given[1:]
        if name.removeprefix("git ") in _GIT_READS:
            return not any(each.startswith(_GIT_REFUSED) for each in given)
    if name in _ALLOWED:
        files = [each for each in given if not each.startswith("-")]
        return all(map(_ALLOWED[name].fullmatch, given)) and (name != "uniq" or len(files) < 2)
    if name in _REFUSED:
        return not any(_refused(name, each) for each in given)
    if name == "sed":
        return given[:1] == ["-n"] and bool(given[1:]) and _sed_reads(given[1], given[2:])
    return name == "command" and given[:1] == ["-v"]


def _refused(name: str, argument: str) -> bool:
    """Is it an option that the program may not have, also among others (`-uo` of sort)?"""
    refused = _REFUSED[name]
    if argument.startswith(refused):
        return True
    together = name != "find" and re.match(r"-\w", argument)
    return bool(together) and any(f"-{letter}" in refused for letter in argument[1:])


def _sed_reads(script: str, files: Sequence[str]) -> bool:
    return _SED.fullmatch(script) is not None and not any(each.startswith("-") for each in files)
