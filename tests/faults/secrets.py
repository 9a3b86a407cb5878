"""Secrets of every shape in every place, and what only looks like one: made by a seed.

No text here looks like a key to whoever looks through the sources; what is made looks like one.
"""

from __future__ import annotations

import json
import random
import string
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from urllib.parse import quote

from msgspec import Struct

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


class Planted(Struct, frozen=True):
    """A text with a secret in it, and the parts of it that nothing may keep."""

    name: str
    text: str
    secrets: tuple[str, ...]


Maker = Callable[[random.Random], str]
Value = str | Sequence["Value"] | Mapping[str, "Value"]


def _some(chars: str, many: int) -> Maker:
    """So many of these characters, the last three of them a letter and two digits."""

    def make(dice: random.Random) -> str:
        made = "".join(dice.choice(chars) for _ in range(many - 3))
        return made + dice.choice("abcdef") + "".join(dice.choice(string.digits) for _ in "12")

    return make


def _with(*parts: str | Maker) -> Maker:
    return lambda dice: "".join(each if isinstance(each, str) else each(dice) for each in parts)


def _upper(many: int) -> Maker:
    return lambda dice: "".join(dice.choice(string.ascii_uppercase + "234567") for _ in range(many))


def _digits(many: int) -> Maker:
    return lambda dice: "".join(dice.choice(string.digits[1:]) for _ in range(many))


def _jwt(dice: random.Random) -> str:
    parts = (
        json.dumps({"alg": "HS256", "typ": "JWT"}),
        json.dumps({"sub": _some(ALNUM, 12)(dice)}),
    )
    encoded = [b64encode(each.encode()).decode().rstrip("=") for each in parts]
    return ".".join([*encoded, _some(ALNUM, 43)(dice)])


def _a(many: int) -> Maker:
    return _some(ALNUM, many)


def _h(many: int) -> Maker:
    return _some(HEX, many)


KEYS: dict[str, Maker] = {
    "anthropic": _with("sk-", "ant-", "api03-", _a(80)),
    "openai": _with("sk-", _a(48)),
    "openai project": _with("sk-", "proj-", _a(74)),
    "openrouter": _with("sk-", "or-v1-", _h(64)),
    "langfuse": lambda dice: "sk-" + "lf-" + "-".join(_h(many)(dice) for many in (8, 4, 4, 4, 12)),
    "github": _with("gh", "p_", _a(36)),
    "github server": _with("gh", "s_", _a(36)),
    "github fine": _with("github", "_pat_", _a(22), "_", _a(59)),
    "gitlab": _with("gl", "pat-", _a(20)),
    "gitlab runner": _with("gl", "rt-", _a(20)),
    "aws id": _with("AK", "IA", _upper(16)),
    "aws temporary id": _with("AS", "IA", _upper(16)),
    "google": _with("AI", "za", _a(35)),
    "google oauth": _with("ya", "29.", _a(60)),
    "google secret": _with("GOC", "SPX-", _a(28)),
    "google refresh": _with("1/", "/0", _a(40)),
    "slack bot": _with("xo", "xb-", _digits(12), "-", _digits(12), "-", _a(24)),
    "slack app": _with("xa", "pp-1-", _upper(11), "-", _digits(13), "-", _h(64)),
    "stripe": _with("sk_", "live_", _a(24)),
    "stripe restricted": _with("rk_", "test_", _a(24)),
    "stripe webhook": _with("wh", "sec_", _a(32)),
    "hugging face": _with("h", "f_", _some(string.ascii_letters, 34)),
    "npm": _with("np", "m_", _a(36)),
    "pypi": _with("py", "pi-AgE", _a(90)),
    "sendgrid": _with("S", "G.", _a(22), ".", _a(43)),
    "telegram": _with(_digits(10), ":A", "A", _a(33)),
    "jwt": _jwt,
    "groq": _with("gs", "k_", _a(52)),
    "xai": _with("xa", "i-", _a(80)),
    "perplexity": _with("pp", "lx-", _a(48)),
    "replicate": _with("r", "8_", _a(37)),
    "nvidia": _with("nv", "api-", _a(64)),
    "langsmith": _with("ls", "v2_pt_", _h(32), "_", _h(10)),
    "tavily": _with("tv", "ly-", _a(32)),
    "pinecone": _with("pc", "sk_", _a(60)),
    "digitalocean": _with("do", "p_v1_", _h(64)),
    "databricks": _with("da", "pi", _h(32)),
    "shopify": _with("sh", "pat_", _h(32)),
    "linear": _with("li", "n_api_", _a(40)),
    "notion": _with("nt", "n_", _a(46)),
    "figma": _with("fi", "gd_", _a(40)),
    "postman": _with("PM", "AK-", _h(24), "-", _h(34)),
    "grafana": _with("gl", "sa_", _a(32), "_", _h(8)),
    "newrelic": _with("NR", "AK-", _upper(27)),
    "sentry": _with("sn", "tryu_", _h(64)),
    "vault": _with("hv", "s.", _a(90)),
    "terraform": _with(_a(14), ".at", "lasv1.", _a(67)),
    "docker": _with("dc", "kr_pat_", _a(27)),
    "atlassian": _with("AT", "ATT3", _a(180)),
    "square": _with("sq", "0atp-", _a(22)),
    "rubygems": _with("ruby", "gems_", _h(48)),
    "supabase": _with("sb", "p_", _h(40)),
    "mailgun": _with("ke", "y-", _h(32)),
    "azure client": _with(_some(ALNUM, 3), "8", "Q~", _a(34)),
    "twilio": _with("S", "K", _h(32)),
    "discord": lambda dice: ".".join((_b64(_digits(18)(dice)), _a(6)(dice), _a(38)(dice))),
    "1password": _with("op", "s_", "eyJ", _a(300)),
    "cloudflare": _with("cf", "ut_", _a(40), _h(8)),
    "cloudflare account": _with("cf", "at_", _a(40), _h(8)),
}
"""Keys that their makers gave a shape."""

FRAMES: dict[str, Callable[[str], str]] = {
    "alone": lambda key: key,
    "prose": lambda key: f"The key is {key}, use it.",
    "after a line": lambda key: f"done\n{key}\nnext",
    "after a tab": lambda key: f"key\t{key}\tend",
    "JSON": lambda key: json.dumps({"a": ["x", key]}),
    "JSON in JSON": lambda key: json.dumps({"a": json.dumps({"b": f"found\n{key}"})}),
    "JSON in JSON in prose": lambda key: "got " + json.dumps(json.dumps({"b": f"is\n{key}"})) + ".",
    "name of a field": lambda key: json.dumps({"headers": {key: 1}}),
    ".env": lambda key: f"A=1\nTHING={key}\nB=2\n",
    "YAML": lambda key: f"thing:\n  - {key}\n",
    "shell": lambda key: f"$ export THING='{key}'; echo",
    "header": lambda key: f"GET / HTTP/1.1\r\nX-Thing: {key}\r\n\r\n",
    "query": lambda key: f"https://shop.example/?t={key}&page=2",
    "user of an address": lambda key: f"https://{key}@git.example/a.git",
    "percent": lambda key: f"https://shop.example/?u=a%3D{quote(key, safe='')}%26b",
    "escaped quotes": lambda key: f"{{\\u0022a\\u0022:\\u0022{key}\\u0022}}",
    "coloured": lambda key: f"\x1b[31m{key}\x1b[0m",
    "cut JSON": lambda key: json.dumps({"a": f"b\n{key}"})[:-2],
    "file name": lambda key: f"/srv/{key}/notes.txt",
}


def _word(dice: random.Random) -> str:
    return _a(14)(dice)


def _b64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _pem(dice: random.Random, kind: str, lines: int = 12) -> tuple[str, list[str]]:
    body = [_a(64)(dice) for _ in range(lines)]
    begin, end = f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----"
    return "\n".join([begin, *body, end]), body


def _card(dice: random.Random, begin: str, many: int) -> str:
    body = begin + "".join(dice.choice(string.digits) for _ in range(many - len(begin) - 1))
    total = 0
    for at, char in enumerate(reversed(body)):
        doubled = int(char) * (2 if at % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return body + str(-total % 10)


def _iban(dice: random.Random, country: str, many: int) -> str:
    body = "".join(dice.choice(string.digits) for _ in range(many - 4))
    value = int(body + "".join(str(int(char, 36)) for char in country) + "00")
    return f"{country}{98 - value % 97:02}{body}"


def _halves(key: str) -> tuple[str, str]:
    cut = len(key) * 3 // 5
    return key[:cut], key[cut:]


def _in_colour(key: str) -> tuple[str, tuple[str, ...]]:
    first, second = _halves(key)
    return f"./a.env:T={first}\x1b[01;31m\x1b[K{second}\x1b[m\x1b[K", (first, second)


def _over_lines(key: str) -> tuple[str, tuple[str, ...]]:
    first, second = _halves(key)
    begin = "export THING=".rjust(80 - len(first[-66:]), ".")
    return f"{begin}{first}\n{second}\n$ ", (first, second)


def _as_numbers(key: str) -> tuple[str, tuple[str, ...]]:
    written = "".join(f"%{ord(char):02X}" for char in key)
    return f"GET /?t={written}&page=2", (written,)


def _in_base64(key: str) -> tuple[str, tuple[str, ...]]:
    return f"  thing: {_b64(key)}\n  other: 1", (_b64(key),)


WRAPPED: dict[str, Callable[[str], tuple[str, tuple[str, ...]]]] = {
    "in colour": _in_colour,
    "over lines": _over_lines,
    "as numbers": _as_numbers,
    "in base64": _in_base64,
}
"""A key that is not written as it is: the text, and what of it nothing may keep."""

SETTINGS: dict[str, str] = {
    "password of .env": "DB_PASSWORD={}",
    "password of YAML": "database:\n  password: {}\n  port: 5432",
    "password of TOML": 'password = "{}"',
    "password of Python": "connect(user='a', password='{}')",
    "password of a connection": "Server=db;User Id=sa;Password={};Encrypt=yes",
    "postgres": "postgres://admin:{}@db.example:5432/shop",
    "redis": "redis://:{}@cache.example:6379/0",
    "mongo": "mongodb+srv://app:{}@cluster.example/?w=1",
    "git remote": "origin\thttps://oauth2:{}@git.example/a.git (fetch)",
    "bearer": "curl -H 'Authorization: Bearer {}XYZ123' https://shop.example",
    "bare bearer": "sent bearer {}XYZ123 to it",
    "authorization": "Authorization: Token {}",
    "X-Api-Key": "X-Api-Key: {}",
    "curl -u": "curl -u admin:{} https://shop.example",
    "curl --user": 'curl --user "admin:{}" https://shop.example',
    "mysql -p": "mysql -u root -p{} shop",
    "docker login": "docker login -u me -p {} registry.example",
    "sshpass": "sshpass -p '{}' ssh root@host.example",
    "netrc": "machine git.example\n  login me\n  password {}\n",
    "npmrc": "//registry.example/:_authToken={}",
    "pypirc": "[pypi]\nusername = me\npassword = {}\n",
    "terraform": 'variable "x" {{\n  secret_key = "{}"\n}}',
    "api key": "api_key: {}",
    "api-key in prose": "my API key: {} thanks",
    "flag": "deploy --api-key {} --region eu",
    "flag =": "deploy --password={} --region eu",
    "query": "https://shop.example/a?api_key={}&page=2",
    "signed query": "https://store.example/b?sv=2022&sig={}%3D&se=2026",
    "cookie": "Cookie: session={}; theme=dark",
    "set-cookie": "Set-Cookie: sid={}; HttpOnly",
    "xml": "<server><password>{}</password></server>",
    "azure storage": "AccountName=a;AccountKey={}1234567890abcdefgh==;EndpointSuffix=x",
    "escaped JSON": '{{\\"user\\": \\"a\\", \\"password\\": \\"{}\\"}}',
    "twice escaped": 'x {{\\\\\\"client_secret\\\\\\": \\\\\\"{}\\\\\\"}}',
    "\\u0022": "{{\\u0022api_key\\u0022: \\u0022{}\\u0022}}",
    "percent": "body=password%3D{}",
    "camel case": "accessToken: '{}'",
    "env token": "export DEPLOY_TOKEN={}42abcd",
    "ruby": ":password => '{}'",
    "curl -b": "curl -s -b 'session={}' https://shop.example",
    "curl -b bare": "curl https://shop.example -b session={} -o page.html",
    "curl --cookie": 'curl --cookie "theme=dark; session={}" https://shop.example',
    "flag with underscore": "deploy --secret_key {} --region eu",
    "flag in a list": '["deploy", "--api-key", "{}"]',
    "secret of kubernetes": "apiVersion: v1\nkind: Secret\nstringData:\n  license: {}\n",
    "secret of kubernetes, data first": (
        "apiVersion: v1\ndata:\n  a: YQ==\n  license: {}=\nkind: Secret\nmetadata:\n  name: shop\n"
    ),
}
"""Secrets that only their setting tells."""


def secrets(seed: int = 7) -> Iterator[Planted]:
    """Every key in every frame, and every secret that has a setting."""
    for name, make in KEYS.items():
        for place, frame in FRAMES.items():
            key = make(random.Random(f"{seed}/{name}/{place}"))
            yield Planted(f"{name}, {place}", frame(key), (key,))
        for place, wrap in WRAPPED.items():
            text, parts = wrap(make(random.Random(f"{seed}/{name}/{place}")))
            yield Planted(f"{name}, {place}", text, parts)
    for name, setting in SETTINGS.items():
        word = _word(random.Random(f"{seed}/{name}"))
        yield Planted(name, setting.format(word), (word,))
        yield Planted(f"{name}, in JSON", json.dumps({"a": f"x\n{setting.format(word)}"}), (word,))
    for name in ("flag", "flag =", "flag in a list"):
        word = "".join(
            random.Random(f"{seed}/{name}").choice(string.ascii_letters) for _ in "a" * 20
        )
        yield Planted(f"letters of a {name}", SETTINGS[name].format(word), (word,))
    dice = random.Random(seed)
    yield from _fields(dice)
    yield from _private_keys(dice)
    yield from _numbers(dice)


def _fields(dice: random.Random) -> Iterator[Planted]:
    for name in ("api_key", "X-Api-Key", "Authorization", "dbPassword", "OPENAI_API_KEY",
                 "clientSecret", "_authToken", "http.request.header.authorization",
                 "aws.secret.access.key", "Set-Cookie", ".dockerconfigjson"):  # fmt: skip
        for kind, values in VALUES.items():
            yield from _told(f"{kind} {name}", dice, partial(values, name))
    for name in ("Authorization", "Set-Cookie", "X-Api-Key", "PRIVATE-TOKEN"):
        yield from _told(f"header {name} in a list", dice, partial(_both, name))
        word = _word(dice)
        yield Planted(f"header {name} in a call", f"r.set('{name}', 'Token {word}')", (word,))
    for name in ("docker config", "npmrc", "header"):
        word = _word(dice)
        both = _b64(f"admin:{word}")
        text = {
            "docker config": json.dumps({"auths": {"r.example": {"auth": both}}}),
            "npmrc": f"//registry.example/:_auth={both}",
            "header": f"Authorization: Basic {both}",
        }[name]
        yield Planted(f"user:password, {name}", text, (both,))
    word = _word(dice)
    told = {
        "items": [{"data": {"license": f"{word}="}, "kind": "Secret", "metadata": {"name": "x"}}]
    }
    for indent in (None, 2):
        text = json.dumps(told, indent=indent)
        yield Planted(f"secret of kubernetes, JSON {indent}", text, (word,))
    secret = _a(40)(dice)
    yield Planted("aws secret", f"aws_secret_access_key = {secret}", (secret,))
    secret = _a(40)(dice)
    yield Planted("aws JSON", json.dumps({"SecretAccessKey": secret}), (secret,))


VALUES: dict[str, Callable[[str, str], Value]] = {
    "field": lambda name, word: {"x": {name: word}},
    "pair": lambda name, word: [{"name": name, "value": word}],
    "values": lambda name, word: {name: [word, "b"]},
}
"""How a value says a name and what stands under it."""


def _both(name: str, word: str) -> Value:
    return [[name, word]]


def _told(name: str, dice: random.Random, told: Callable[[str], Value]) -> Iterator[Planted]:
    """A secret in a value: written as JSON, among other words, over several lines, by Python."""
    for place, frame in TOLD.items():
        word = _word(dice)
        yield Planted(f"{name}, {place}", frame(told(word)), (word,))


TOLD: dict[str, Callable[[Value], str]] = {
    "JSON": json.dumps,
    "JSON in prose": lambda value: f"It sent {json.dumps(value)}, then stopped.",
    "indented": lambda value: f"It sent\n{json.dumps(value, indent=2)}\nthen stopped.",
    "JSON in JSON in prose": lambda value: f"It sent {json.dumps(json.dumps(value))}.",
    "Python": lambda value: f"It sent {value!r}.",
    "cut": lambda value: f"It sent {json.dumps(value)}"[:-2],
}
"""How a value is told."""


def _private_keys(dice: random.Random) -> Iterator[Planted]:
    for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "):
        key, body = _pem(dice, kind)
        yield Planted(f"{kind}key", f"cat key\n{key}\nok", tuple(body))
        key, body = _pem(dice, kind)
        yield Planted(f"{kind}key in JSON", json.dumps({"private": key, "n": 1}), tuple(body))
        key, body = _pem(dice, kind)
        yield Planted(f"{kind}key in cut JSON", json.dumps({"k": key})[:-3], tuple(body))
        key, body = _pem(dice, kind)
        yield Planted(f"{kind}key without its end", key[:400], tuple(body[:4]))
        key, body = _pem(dice, kind)
        yield Planted(f"{kind}key without its begin", key[120:], tuple(body[3:]))
    key, _ = _pem(dice, "")
    yield Planted("key in base64", f"tls.key: {_b64(key)}", (_b64(key)[60:],))


def _numbers(dice: random.Random) -> Iterator[Planted]:
    for name, begin, many in (("visa", "4", 16), ("mastercard", "53", 16), ("two", "2221", 16),
                              ("amex", "37", 15), ("discover", "6011", 16)):  # fmt: skip
        for gap in ("", " ", "-"):
            card = _card(dice, begin, many)
            cuts = (0, 4, 10, 15) if many == 15 else (0, 4, 8, 12, 16)
            parts = [card[a:b] for a, b in pairwise(cuts)]
            said = gap.join(parts)
            yield Planted(f"{name} {gap!r}", f"paid with {said} today", (said,))
            yield Planted(f"{name} {gap!r} after a line", json.dumps(f"card\n{said}"), (said,))
    for country, many in (("DE", 22), ("FR", 27), ("ES", 24), ("NL", 18), ("GB", 22)):
        if country in ("NL", "GB"):
            continue  # these have letters, which the maker of numbers does not
        account = _iban(dice, country, many)
        spaced = " ".join(account[at : at + 4] for at in range(0, many, 4))
        yield Planted(f"iban {country}", f"to {account} today", (account,))
        yield Planted(f"iban {country} spaced", f"to {spaced}.", (spaced,))


def personal(seed: int = 7) -> Iterator[Planted]:
    """Addresses and numbers of nobody in particular, as somebody's are written."""
    dice = random.Random(f"{seed}/personal")
    for end in ("com", "de", "co.uk", "io", "org"):
        name = f"{_word(dice)}.{_word(dice)}".lower()
        for place, frame in MAILS.items():
            mail = f"{name}@mail-{_h(4)(dice)}.{end}"
            yield Planted(f"mail, {place}", frame(mail), (name,))
    for pattern in TELEPHONES:
        for place, frame in FRAMES.items():
            if place not in NO_NUMBER:
                said = "".join(dice.choice("234567") if char == "n" else char for char in pattern)
                yield Planted(f"telephone {pattern}, {place}", frame(said), (said,))
    for place in ("prose", "JSON", "after a line", "JSON in JSON", "YAML"):
        said = f"2{dice.randrange(10, 99)}-{dice.randrange(10, 99)}-{dice.randrange(1000, 9999)}"
        yield Planted(f"person, {place}", FRAMES[place](said), (said,))
    for place in ("prose", "JSON", "after a line", "JSON in JSON", "coloured", "shell"):
        said = ".".join(["93", *(str(dice.randrange(40, 250)) for _ in range(3))])
        yield Planted(f"machine, {place}", FRAMES[place](said), (said,))
        yield Planted(f"machine in {place}", FRAMES[place](f"http://{said}:80/a"), (said,))
        said = f"2a00:1450:{_h(4)(dice)}:{_h(3)(dice)}::{_h(4)(dice)}"
        yield Planted(f"machine 6, {place}", FRAMES[place](said), (said,))


NO_NUMBER = frozenset({"query", "user of an address", "percent", "file name", "name of a field"})
"""Where no telephone number stands."""

MAILS: dict[str, Callable[[str], str]] = {
    **{place: FRAMES[place] for place in (
        "alone", "prose", "after a line", "after a tab", "JSON", "JSON in JSON", "YAML",
        "JSON in JSON in prose", "name of a field", "escaped quotes", "coloured", "header",
    )},
    "angles": lambda mail: f"From: A <{mail}>",
    "link": lambda mail: f"mailto:{mail}?subject=x",
    "percent": lambda mail: f"https://shop.example/?to={quote(mail, safe='')}&page=2",
    "git": lambda mail: f"Author: A <{mail}>\nDate: Mon",
}  # fmt: skip

TELEPHONES = (
    "+49 30 nnnnnn", "+44 20 nnnn nnnn", "+1 (415) nnn-nnnn", "+1415nnnnnnn", "+33 1 nn nn nn nn",
    "(415) nnn-nnnn", "415-nnn-nnnn", "415.nnn.nnnn", "1-415-nnn-nnnn",
)  # fmt: skip


def impersonal() -> tuple[str, ...]:
    """Texts that look like somebody's address or number and are not."""
    return (
        "git@github.com:owner/repo.git", "a@example.com, b@shop.example", "noreply@anthropic.com",
        "1+ada@users.noreply.github.com", "@app.route('/x')", "logo@2x.png", "y = x@w.T",
        "a = b@c.to(device)", "package@1.2.3", "@scope/pkg.io", "user@host.internal",
        "1.2.3.4", "v91.93.94.95", "version 93.184.216.34", "nginx/41.45.46.47",
        "pkg==42.44.100.101", "127.0.0.1:8080", "192.168.1.4", "10.0.0.1", "172.16.33.44",
        "0.0.0.0", "255.255.255.255", "8.8.8.8", "203.0.113.7", "169.254.169.254", "2.5.29.17",
        "1.3.6.1.4.1.311", "00:1a:2b:3c:4d:5e", "std::abc::dead", "2001:db8::1", "::1", "fe80::1",
        "order 123-456-7890", "(212) 555-0123", "ISBN 978-3-16-148410-0", "1,234.567.8901",
        "2024-05-12T10:15:00+0100", "12:34:56 +00:00", "@@ -12,7 +12,8 @@", "+1700000000",
        "1700000000000", "x+12345678901", "3.14159265 +3.5e10", "000-12-3456", "666-12-3456",
        "2024-10-1234", "12345678901234567890", "id 415-222-33334", "A415-222-3333",
    )  # fmt: skip


def look_alikes(seed: int = 7) -> list[str]:
    """Texts that no rule may touch."""
    dice = random.Random(f"{seed}/alike")
    made = ["".join(dice.choice(HEX) for _ in range(many)) for many in (32, 40, 64, 16, 128)]
    made += [
        f"commit {_h(40)(dice)}",
        f"sha256:{_h(64)(dice)}",
        f"index {_h(7)(dice)}..{_h(7)(dice)}",
    ]
    made += ["-".join(_h(many)(dice) for many in (8, 4, 4, 4, 12)) for _ in range(3)]
    made += [
        f"{kind}{_a(24)(dice)}"
        for kind in ("toolu_", "call_", "msg_", "req_", "chatcmpl-", "run_", "resp_", "fc_")
    ]
    word, line = _word(dice), "x" * 50
    made += [
        _b64("The quick brown fox jumps over the lazy dog, twice in 2024."),
        _b64(json.dumps({"page": 2, "sort": "price", "after": _h(40)(dice)})),
        f"kind: ConfigMap\ndata:\n  license: {word}\n",
        f"kind: Secret\nmetadata:\n  name: {word}\n  namespace: {word}\ntype: Opaque\n",
        f"kind: Secret\nmetadata:\n  name: a\n---\nkind: ConfigMap\ndata:\n  license: {word}\n",
        json.dumps({"kind": "ConfigMap", "data": {"license": word}}),
        f"{line} and nothing here is one\n{_h(40)(dice)}\n{word}\n",
        f"{line} shelf_life_of_products\n{word} goes on",
        f"\x1b[31mred{word}\x1b[0mgreen{word}\x1b[32m",
        f"https://shop.example/?q=%66%6F%6F%20{word}&r=caf%C3%A9%2F{word}",
        f"{_b64('a name, not a number 1')}.{_h(6)(dice)}.{_h(30)(dice)}",
        f"v1.{_h(6)(dice)}.{_h(30)(dice)}",
    ]
    made += ["data:image/png;base64," + _b64(_a(300)(dice)), _b64(_a(90)(dice))]
    return made + list(WRITTEN)


WRITTEN: tuple[str, ...] = (
    "your-api-key",
    "api_key=your-api-key-1234",
    "OPENAI_API_KEY=<your key>",
    "api_key: sk-…",
    "use a key like sk-... here",
    "password = get_password(user)",
    "api_key: str | None = None",
    "the task-based risk-free ask-me-anything approach",
    "secret_manager.access(name)",
    "max_tokens: 12345678",
    "input_tokens=12345678 output_tokens=4096",
    "2024-05-12T10:15:00",
    "password=$DB_PASSWORD1",
    "password: ${{ secrets.DB_PASSWORD_2 }}",
    "token = os.environ['TOKEN1']",
    "api_key = process.env.OPENAI_API_KEY2",
    "if not password: raise ValueError",
    "order 4242424242424241",
    "docker run -u 1000:1000 image",
    "chown -R www:www /srv/a1",
    "mkdir -p src/app2/main",
    "tar -xzf a1.tar.gz",
    "ssh -p 2222 host.example",
    "next_page_token=CAUQAA12345678abcd",
    "http://localhost:8080/@scope/name",
    "https://shop.example/a?page=2&sort=price",
    "git@github.com:owner/repo.git",
    "def f(a,b){return a.key-b.key}",
    "for(var k in o)t[k]=o[k];",
    "PWD=/home/user1/project",
    "-----BEGIN CERTIFICATE-----",
    "grep -r 'BEGIN RSA PRIVATE KEY' .",
    'if "-----BEGIN PRIVATE KEY-----" in text: return 1',
    '{"type": "password", "name": "pw"}',
    '{"properties": {"password": {"type": "string"}}}',
    "the basic idea of bearer shares",
    "basic understanding of authentication",
    "a cookie: chocolate",
    "key: value",
    "primary key: id",
    "sort_key=user_id1",
    "GB is a unit, DE00 is not an account",
    "span_id=00f067aa0ba902b7",
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "shelf_life_of_products_in_2024",
    "npm_config_registry",
    "hf_hub_download",
    "secret santa: 24 people",
    "passwords: 3",
    "password policy: strong",
    'let them through: ["Authorization", "Content-MD5"]',
    "of ['X-Api-Key', 'x-amz-content-sha256', 'Cookie'] none",
    'headers.get("Authorization", "missing")',
    'row.get("key", "value1234")',
    'may {"secret": ["get", "list", "watch"]} in v1',
    'a {"cookie": "chocolate"} in 2024',
    "sort.key = b1",
    "deploy --api-key VALUE",
    "deploy --api-key YOUR_API_KEY --token <token>",
    "deploy --api-key $API_KEY1 --password-file /run/a1",
    'parser.add_argument("--hf-token", type=str, required=True, help="a token of 2024")',
    "add_argument('--api-key', default=None)",
    "curl -b cookies2.txt -c cookies2.txt https://shop.example",
    'curl -b "session=$SESSION1" https://shop.example',
    "git log -b main=release1",
    "ops_count cfut_example discord.py",
    "kind: Secret\ndata: {}\n",
    "the kind: Secret\n  of thing: that has no data1\n",
    "self.api.key = make2()",
    "rfc6265 says what the Set-Cookie header is",
)
"""Code, prose and identifiers."""
