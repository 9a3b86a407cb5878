"""Secrets of no shape of their own: known by what stands before them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from replay.redact.rules import (
    EQUALS,
    GAP,
    HEADERS,
    QUOTE,
    SPACE,
    VALUE,
    Rule,
    Span,
    password,
    plain,
    real,
    start,
    user_and_password,
    varied,
)

_BETWEEN = ("", "_", "-", " ", ".")

_NAMES: dict[str, str] = {
    "key": "api access account secret private signing encryption subscription master service"
    " sharedaccess shared_access storage",
    "token": "auth access api refresh bearer session security private personal deploy bot id oauth"
    " admin npm github gitlab gh hf slack vault discord telegram webhook service secret",
    "secret": "",
    "_auth": "",
    "password": "",
    "passwd": "",
    "passphrase": "",
    "pwd": "",
    "pass": "_ -",
    "dockerconfigjson": "",
    "cookie": "",
    "authorization": "",
}
"""How names of secrets end, and the words of which one has to stand before ("": none)."""

_TYPE_WORD = re.compile(
    r"(?:string|str|text|password|passwd|secret|hidden|required|optional|number|integer|boolean"
    r"|object|any|invalid|incorrect|missing|unknown|basic|bearer|token|key|api[_-]?key|value)\Z",
    re.I,
)


def _ends(words: Iterable[str]) -> str:
    """A pattern for names that end so, in lower case, with a value behind them."""
    return "(?:" + "|".join(f"{re.escape(word)}(?={EQUALS}){_after(word)}" for word in words) + ")"


def _after(word: str) -> str:
    before = [each + gap + word for each in _NAMES[word].split() for gap in _BETWEEN]
    return "(?:" + "|".join(f"(?<={re.escape(each)})" for each in before) + ")" if before else ""


def _after_name(text: str) -> bool:
    """What stands quoted behind a quoted name: any value but the name of a type."""
    return real(text) and not _TYPE_WORD.match(text) and (not text.isupper() or varied(text))


def _long(text: str) -> bool:
    return len(text) >= 16 and varied(text)


def _query(text: str) -> bool:
    return varied(text) or (len(text) >= 16 and real(text))


def _mixed(text: str) -> bool:
    """Capitals, small letters and digits: no hash in hexadecimal has them all."""
    return all(re.search(each, text) for each in ("[A-Z]", "[a-z]", "[0-9]"))


def _cookie(text: str) -> bool:
    return "=" in text and real(text)


def _session(text: str) -> bool:
    values = [each.partition("=")[2] for each in text.split(";")]
    return any(len(value) >= 6 and real(value) for value in values)


def _login(text: str) -> bool:
    return password(text) and not re.fullmatch(r"\d{1,6}", text)


def _flagged(text: str, match: re.Match[str]) -> Span | None:
    """The value of an option: one that could be a password, or letters of no word's length."""
    start, end = match.span("secret")
    given = text[start:end]
    letters = len(given) >= 16 and given.isalpha() and not given.isupper() and real(given)
    return (start, end) if letters or password(given) else None


def _of(*programs: str) -> Callable[[str, re.Match[str]], Span | None]:
    """What a match masks where one of these stands before it in its line."""
    named = re.compile(r"(?:" + "|".join(programs) + r")\b[^\n|;]*\Z")

    def extent(text: str, match: re.Match[str]) -> Span | None:
        before = text[max(match.start() - 300, 0) : match.start() + 1]
        return match.span("secret") if named.search(before) else None

    return extent


def _parameter(text: str, match: re.Match[str]) -> Span | None:
    """The value of a parameter of an address."""
    named = re.search(r"[?&;][\w.-]*\Z", text[max(match.start() - 60, 0) : match.start()])
    return match.span("secret") if named is not None else None


_PAIRED = re.compile(
    r"(?i)(?:api[_-]?key|secret[\w.-]{0,20}|password|passwd|token|authorization|cookie"
    rf"|dockerconfigjson){QUOTE}{SPACE}{{0,40}},{SPACE}{{0,40}}{QUOTE}\Z"
)


def _paired(text: str, match: re.Match[str]) -> Span | None:
    """The value that stands behind a name of a secret, each said as a field."""
    before = text[max(match.start() - 120, 0) : match.start()]
    return match.span("secret") if _PAIRED.search(before) else None


def _header(text: str, match: re.Match[str]) -> Span | None:
    """The value that stands behind the name of a header, both in a list or given to a call."""
    before = text[max(match.start() - 30, 0) : match.end("word")]
    name = re.search(r"[A-Za-z_-]*\Z", before)
    return match.span("secret") if name is not None and plain(name[0]) in HEADERS else None


_FIELD = re.compile(r"[A-Za-z]+\d{0,3}(?:-[A-Za-z]+\d{0,3})+\Z")
"""A name of a header, of which others stand in a list."""


def _value(text: str) -> bool:
    return varied(text) and not _FIELD.match(text)


def _element(text: str, match: re.Match[str]) -> Span | None:
    """What an element holds that ends here."""
    end = match.start()
    begin = text.rfind(">", max(end - 300, 0), end) + 1
    return (begin, end) if begin and re.fullmatch(r"[^<>\s\"\\]{4,}", text[begin:end]) else None


def _named(name: str, words: str, tail: str, check: Callable[[str], bool], *hints: str) -> Rule:
    pattern = re.compile(_ends(words.split()) + tail)
    return Rule(name, hints or (words,), pattern, check, lower=True)


_SECRET = rf"(?P<secret>{VALUE}{{8,}})"
_PASSWORD = rf"(?P<secret>{VALUE}{{4,}})"
_ASSIGNED = rf"{EQUALS}{QUOTE}?{_SECRET}"
_QUOTED = (
    rf"{QUOTE}{GAP}(?::|=>){GAP}{QUOTE}"
    r"(?P<secret>[^\s\"'\\]{4,}+)(?=\\{0,63}[\"'`]|\\{1,63}u002[27]|\Z)"
)

_LISTED = (
    rf"{QUOTE}{GAP}(?::|=>){GAP}\[{SPACE}{{0,40}}{QUOTE}"
    rf"(?P<secret>[^\]\[]{{4,}}?)(?={QUOTE}{SPACE}{{0,40}}\]|\Z)"
)
"""All that stands in a list, as one."""
_GIVEN = (
    rf"{QUOTE}{SPACE}{{0,40}},{SPACE}{{0,40}}{QUOTE}(?:[a-z-]{{3,12}}{SPACE}{{1,3}})?"
    r"(?P<secret>[^\s\"'\\]{8,})"
)

_WORDS = ("key", "token", "secret", "pwd")
_HEADED = (("cookie", "cookie"), ("authorization", "auth"), ("key", "key"), ("token", "token"))
_PASS = "password passwd passphrase pass"

CONTEXT: tuple[Rule, ...] = (
    Rule(
        "aws_secret_key",
        ("secret",),
        re.compile(
            rf"secret.{{0,20}}?{QUOTE}?[=:\s]{{1,5}}{QUOTE}?"
            r"(?P<secret>[a-z0-9/+=]{40})(?![a-z0-9/+=])"
        ),
        _mixed,
        lower=True,
    ),
    Rule(
        "slack_webhook",
        ("://",),
        re.compile(
            r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}"
        ),
    ),
    Rule(
        "webhook",
        ("://",),
        re.compile(
            r"://(?:[a-z.]{0,20}discord(?:app)?\.com/api/webhooks/\d{10,25}/[\w-]{40,}"
            r"|[\w.-]{1,80}\.webhook\.office\.com/webhookb2/[\w@/-]{40,})"
        ),
    ),
    Rule(
        "url_password",
        ("://",),
        re.compile(r"://[^\s:/@\"'<>?#]{0,64}:(?P<secret>[^\s/@\"'<>]{3,200})@"),
        real,
    ),
    Rule(
        "url_password",
        ("%3",),
        re.compile(r"%3a%2f%2f[\w.-]{0,64}(?:%3a|:)(?P<secret>[\w.~!$*+%-]{3,200}?)(?:%40|@)"),
        real,
        lower=True,
    ),
    Rule(
        "url_password",
        ("://",),
        re.compile(r"://(?P<secret>[A-Za-z0-9_.-]{20,200})@"),
        varied,
    ),
    Rule(
        "url_query",
        ("=",),
        re.compile(
            r"=(?:(?<=key=)|(?<=token=)|(?<=sig=)|(?<=signature=)|(?<=secret=)|(?<=password=)"
            r"|(?<=passwd=)|(?<=pwd=)|(?<=credential=)|(?<=auth=))(?P<secret>[^\s&\"'<>#\\;]{8,})"
        ),
        _query,
        lower=True,
        extent=_parameter,
    ),
    Rule(
        "url_query",
        ("%3",),
        re.compile(
            r"%(?:3f|26)[\w.-]{0,40}?(?:key|token|sig|signature|secret|password|passwd|pwd"
            r"|credential|auth)%3d(?P<secret>[^\s&\"'<>#\\;]{8,})"
        ),
        _query,
        lower=True,
    ),
    Rule(
        "bearer",
        ("bearer",),
        re.compile(
            rf"{start('bearer')}(?:{SPACE}|\+|:|{QUOTE}){{1,4}}(?P<secret>[a-z0-9._~+/=-]{{16,}})"
        ),
        varied,
        lower=True,
    ),
    Rule(
        "basic_auth",
        ("basic",),
        re.compile(rf"{start('basic')}(?:{SPACE}|\+){{1,4}}(?P<secret>[a-z0-9+/]{{8,}}={{0,2}})"),
        user_and_password,
        lower=True,
    ),
    Rule(
        "authorization",
        ("auth",),
        re.compile(rf"authorization{EQUALS}{QUOTE}?(?:[a-z-]{{3,12}}{SPACE}{{1,3}})?{_SECRET}"),
        varied,
        lower=True,
    ),
    Rule(
        "basic_auth",
        ("auth",),
        re.compile(rf"auth{EQUALS}{QUOTE}?(?P<secret>[a-z0-9+/]{{8,}}={{0,2}})"),
        user_and_password,
        lower=True,
    ),
    Rule(
        "curl_user",
        ("-u",),
        re.compile(
            rf"-(?<=[\s\"'nt]-)(?:u|-user|-proxy-user)(?:{SPACE}|=|{QUOTE}){{0,4}}"
            r"[^\s:\"'\\-][^\s:\"'\\]{0,63}:(?P<secret>[^\s\"'\\]{3,})"
        ),
        _login,
        extent=_of("curl", "wget", "https?"),
    ),
    Rule(
        "cookie",
        ("-b", "--cookie"),
        re.compile(
            rf"-(?<=[\s\"'nt]-)(?:b|-cookie)(?:{SPACE}|=|{QUOTE}|,){{0,4}}"
            r"(?P<secret>[\w.-]{1,80}=[^\s\"'\\|;]*(?:;\s?[\w.-]{1,80}=[^\s\"'\\|;]*)*)"
        ),
        _session,
        extent=_of("curl"),
    ),
    Rule(
        "login",
        ("-p",),
        re.compile(
            rf"-p(?<=[\s\"'nt]-p)(?:{SPACE}|{QUOTE}){{0,3}}(?P<secret>[^\s\"'\\=-][^\s\"'\\]{{3,}})"
        ),
        _login,
        extent=_of("login", "sshpass", "mysql", "mysqldump", "mysqladmin", "mariadb"),
    ),
    Rule(
        "netrc",
        ("login",),
        re.compile(
            rf"login{SPACE}{{1,8}}[^\s\\]{{1,100}}{SPACE}{{1,8}}password{SPACE}{{1,8}}"
            r"(?P<secret>[^\s\"'\\]{3,})"
        ),
        real,
    ),
    Rule(
        "xml",
        ("</",),
        re.compile(r"</[\w:.-]{0,40}?(?:password|passwd|passphrase|secret|token|api_?key)>"),
        _after_name,
        lower=True,
        extent=_element,
    ),
    Rule(
        "flag",
        ("--",),
        re.compile(
            r"--[a-z_-]{0,30}?(?:password|passwd|passphrase|token|secret|api[_-]?key"
            rf"|(?:access|secret|account|auth)[_-]key)(?:(?:{SPACE}|=){{1,3}}{QUOTE}?"
            rf"|{QUOTE},{SPACE}{{0,40}}{QUOTE})(?P<secret>(?![-<]){VALUE}{{6,}})"
        ),
        extent=_flagged,
        lower=True,
    ),
    Rule(
        "quoted",
        ("value",),
        re.compile(rf"value{QUOTE}\s?:\s?{QUOTE}(?P<secret>[^\s\"'\\]{{4,}})"),
        _after_name,
        lower=True,
        extent=_paired,
    ),
    *(_named("quoted", word, _QUOTED, _after_name) for word in _WORDS),
    _named("quoted", _PASS, _QUOTED, _after_name, "pass"),
    _named("quoted", "cookie", _QUOTED, varied),
    *(_named("quoted", word, _LISTED, varied) for word in (*_WORDS, "cookie", "dockerconfigjson")),
    _named("quoted", _PASS, _LISTED, varied, "pass"),
    _named("quoted", "authorization", _LISTED, varied, "auth"),
    *(
        Rule(
            "header",
            (hint,),
            re.compile(rf"(?P<word>{word}){_GIVEN}"),
            _value,
            lower=True,
            extent=_header,
        )
        for word, hint in _HEADED
    ),
    *(
        _named("assigned", word, _ASSIGNED, varied)
        for word in ("key", "token", "secret", "dockerconfigjson")
    ),
    _named("assigned", "_auth", _ASSIGNED, varied, "auth"),
    Rule(
        "assigned",
        ("token",),
        re.compile(
            rf"token(?={EQUALS})(?<=[a-z][_-]token)(?<!page_token)(?<!page-token){_ASSIGNED}"
        ),
        _long,
        lower=True,
    ),
    _named("password", _PASS, rf"{EQUALS}{QUOTE}?{_PASSWORD}", password, "pass"),
    _named("password", "pwd", rf"{EQUALS}{QUOTE}?{_PASSWORD}", password),
)

_DOCUMENT = re.compile(r"(?m)^---")
_KIND = re.compile(r"(?m)^(?:- )?[ \t]*kind:[ \t]*[\"']?Secret[\"']?[ \t]*\r?$")
_DATA = re.compile(
    r"(?m)^(?P<indent>[ \t]*)(?:data|stringData):[ \t]*\r?\n"
    r"(?P<lines>(?:(?P=indent)[ \t][^\n]*(?:\n|\Z)|[ \t]*\r?\n)*)"
)


@lru_cache(2)
def _secret_data(text: str) -> list[tuple[int, int]]:
    """Where the blocks `data` and `stringData` stand of YAML documents whose kind is Secret."""
    cuts = [0, *(each.start() for each in _DOCUMENT.finditer(text)), len(text)]
    return [
        block.span("lines")
        for begin, end in pairwise(cuts)
        if _KIND.search(text, begin, end) is not None
        for block in _DATA.finditer(text, begin, end)
    ]


_OBJECT = re.compile(
    r"\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\}"  # as deep as a Secret with its metadata
)
_JSON_KIND = re.compile(r'"kind"\s*:\s*"Secret"')
_JSON_DATA = re.compile(r'"(?:data|stringData)"\s*:\s*\{(?P<lines>[^{}]*)\}')


@lru_cache(2)
def _json_data(text: str) -> list[tuple[int, int]]:
    """As `_secret_data`, of objects of JSON that stand among other words."""
    if _JSON_KIND.search(text) is None:
        return []
    return [
        block.span("lines")
        for each in _OBJECT.finditer(text)
        if _JSON_KIND.search(text, each.start(), each.end()) is not None
        for block in _JSON_DATA.finditer(text, each.start(), each.end())
    ]


def _within(text: str, match: re.Match[str], blocks: Sequence[tuple[int, int]]) -> Span | None:
    """A value in one of these blocks."""
    at = bisect_right(blocks, (match.start(), len(text))) - 1
    return match.span("secret") if at >= 0 and match.start() < blocks[at][1] else None


KUBERNETES: tuple[Rule, ...] = (
    Rule(
        "kubernetes_secret",
        ("kind: ",),
        re.compile(
            r"(?m)^[ \t]+[\w.-]{1,253}:[ \t]+[\"']?"
            r"(?P<secret>[^\s\"'|>&*{\[#][^\r\n\"']{3,})"
        ),
        real,
        extent=lambda text, match: _within(text, match, _secret_data(text)),
    ),
    Rule(
        "kubernetes_secret",
        ('"kind"',),
        re.compile(r'"[\w.-]{1,253}"\s*:\s*"(?P<secret>[^"\\]{4,})"'),
        real,
        extent=lambda text, match: _within(text, match, _json_data(text)),
    ),
)
"""Before all others, for a value that is masked parts the document."""

COOKIES = Rule(
    "cookie",
    ("cookie",),
    re.compile(rf"cookie{QUOTE}?{GAP}[:=]{GAP}{QUOTE}?(?P<secret>[^\r\n\"'\\]{{8,}})"),
    _cookie,
    lower=True,
)
"""Before all others: what a cookie holds is masked with it."""
