"""Secrets become placeholders; what only looks like one survives."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.redact.personal import PERSONAL
from replay.redact.placeholders import PLACEHOLDER, masked_count
from replay.redact.redactor import Redactor
from replay.redact.rules import DENIED_KEYS, Policy

REDACT = Redactor(b"test key")
ALL = Redactor(b"test key", Policy(rules=PERSONAL))

SECRETS = [
    "sk-ant-api03-" + "Ab1" * 12,
    "sk-proj-" + "a1B2" * 10,
    "ghp_" + "a1" * 18,
    "github_pat_" + "A1b2" * 8,
    "AKIA" + "ABCD1234EFGH5678",
    "AIza" + "a" * 35,
    "xoxb-1234567890-abcdefghij",
    "hf_" + "AbCd1234" * 4,
    "glpat-" + "a1b2c3d4e5f6g7h8i9j0",
    "npm_" + "a1B2" * 9,
    "SG." + "a" * 20 + "." + "b" * 20,
    "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2QT4",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("frame", ["{}", "key: {} end", "https://x.example/?t={}", '{{"a": "{}"}}'])
def test_a_secret_is_masked_wherever_it_stands(secret: str, frame: str) -> None:
    masked = REDACT.text(frame.format(secret))
    assert secret not in masked
    assert masked_count(masked) == 1


@pytest.mark.parametrize(
    "text",
    [
        "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "DB_PASSWORD=hunter2hunter2",
        "curl -H 'Authorization: Bearer abc123def456ghi789'",
        "postgres://admin:s3cr3tpw@db.example/x",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nabc\n-----END RSA PRIVATE KEY-----",
        "card 4242 4242 4242 4242 charged",
    ],
)
def test_a_secret_in_its_setting_is_masked_and_the_setting_stays(text: str) -> None:
    masked = REDACT.text(text)
    assert masked_count(masked) == 1
    assert masked != text


@pytest.mark.parametrize(
    "text",
    [
        "d41d8cd98f00b204e9800998ecf8427e",
        "9b74c9897bac770ffc029102a200c5de2e5f3b2b3a1f",
        "123e4567-e89b-12d3-a456-426614174000",
        "toolu_01A09q90qw90lq917835lq9",
        "call_3aJY9NyxpAVNialR5MKJkqY4",
        "password = get_password(user)",
        "api_key: str | None = None",
        "the task-based risk-free ask-me-anything approach",
        "secret_manager.access(name)",
        "input_tokens: 12345678",
        "2024-05-12T10:15:00",
        "order 4242424242424241 placed",
    ],
)
def test_what_only_looks_like_a_secret_survives(text: str) -> None:
    assert REDACT.text(text) == text


def test_equal_secrets_stay_equal_and_keys_differ() -> None:
    token = "ghp_" + "a1" * 18
    assert REDACT.text(token) == REDACT.text(f"{token}")
    assert Redactor(b"another").text(token) != REDACT.text(token)


@pytest.mark.parametrize("name", ["api_key", "X-Api-Key", "Authorization", "clientSecret"])
def test_a_denied_key_is_masked_whole_also_inside_json_text(name: str) -> None:
    value = {"headers": {name: "anything"}, "text": json.dumps({name: "anything", "n": 1})}
    masked = REDACT.value(value)
    assert PLACEHOLDER.fullmatch(masked["headers"][name])
    inner = json.loads(masked["text"])
    assert PLACEHOLDER.fullmatch(inner[name])
    assert inner["n"] == 1
    assert not REDACT.clear(json.dumps(value).encode())


def test_a_schema_with_a_denied_name_is_no_secret() -> None:
    schema = {"properties": {"password": {"type": "string"}, "token_count": 3}}
    assert REDACT.value(schema) is schema


@pytest.mark.parametrize(
    "after",
    ["a9993e364706816aba3e25717850c26c9cd0d89d", "123e4567-e89b-12d3-a456-426614174000",
     "and then it went on", "implementation", "OTHER=1", "- name: two"],
)  # fmt: skip
def test_a_line_after_a_whole_key_is_no_part_of_it(after: str) -> None:
    key = SECRETS[0]
    masked = REDACT.text(f"{'x' * 40} {key}\n{after}\n")
    assert masked.endswith(f"]]\n{after}\n")
    assert masked_count(masked) == 1


def test_a_key_over_several_full_lines_is_masked_as_one() -> None:
    key = "sk-ant-api03-" + "Ab1" * 62
    lines = "\r\n".join(key[at : at + 64] for at in range(0, len(key), 64))
    assert REDACT.text(f"key:\n{lines}\nend") == f"key:\n{REDACT.text(key)}\nend"
    assert json.loads(REDACT.text(json.dumps({"k": lines}))) == {"k": REDACT.text(key)}


YAML = "apiVersion: v1\nkind: {}\nstringData:\n  license: AGBeOuRRyZ9b25\n"
OBJECT = json.dumps(
    {"data": {"license": "AGBeOuRRyZ9b25="}, "kind": "{}", "metadata": {"name": "x"}}
)


@pytest.mark.parametrize("document", [YAML, OBJECT])
@pytest.mark.parametrize("times", range(4))
def test_a_secret_of_kubernetes_is_known_however_often_it_is_quoted(
    document: str, times: int
) -> None:
    def quoted(kind: str) -> str:
        text = document.replace("{}", kind)
        for _ in range(times):
            text = json.dumps(text)
        return f"I say {text} and go on" if times else f"{text}\nand go on"

    assert "AGBeOuRRyZ9b25" not in REDACT.text(quoted("Secret"))
    assert REDACT.text(quoted("ConfigMap")) == quoted("ConfigMap")
    said = f"KeyError: {quoted('Secret')!r}"
    assert "AGBeOuRRyZ9b25" not in REDACT.text(said)


def test_what_stands_beside_a_secret_of_kubernetes_stays() -> None:
    other = OBJECT.replace("{}", "ConfigMap")
    said = f"Both: {other}, {OBJECT.replace('{}', 'Secret')}."
    masked = REDACT.text(said)
    assert masked.startswith(f"Both: {other}, ")
    assert masked_count(masked) == 1


UNHURRIED = {
    "views": f"{'a1' * 40}\n%61\x1b[0mb",
    "yaml": "  kind: ConfigMap\n  data:\n    one: two\n",
    "objects": '{"kind": "Secret", "data": {',
    "closed objects": '{"kind": "Secret", "data": {}} ',
    "quoted": 'kind: Secret\\n  a: \\"b\\" ',
    "dots": ".aB3dEf.aB3dEf" * 4,
    "base64": "QUJDREVG" * 50 + " ",
    "codes": "a\x1b[0m" * 9,
    "option": "--token-token ",
    "cookie": " -b a=b; c=d;",
}
"""What new rules look at longest, and find nothing in."""


@pytest.mark.slow
@pytest.mark.parametrize("many", [10, 400, 20_000])
@pytest.mark.parametrize("name", UNHURRIED)
def test_what_finds_nothing_costs_no_more_than_the_length_of_the_text(name: str, many: int) -> None:
    text = UNHURRIED[name] * many
    began = time.process_time()
    assert REDACT.text(text) == text
    assert time.process_time() - began < 0.5 + len(text) / 500_000


@given(st.text(max_size=60))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = REDACT.text(text + SECRETS[0])
    assert REDACT.text(once) == once


@given(st.recursive(st.text(max_size=20), lambda s: st.lists(s) | st.dictionaries(st.text(), s)))
def test_clear_never_clears_what_masking_would_change(value: Any) -> None:
    encoded = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    if REDACT.clear(encoded):
        assert REDACT.value(value) == value


def test_what_clears_a_text_early_knows_every_denied_key() -> None:
    for name in DENIED_KEYS:
        assert not REDACT.clear(json.dumps({name: "anything"}).encode())
        assert not REDACT.clear(json.dumps({"text": json.dumps({name.upper(): 1})}).encode())


@pytest.mark.parametrize("before", ["", "card ", "(", "\n"])
@pytest.mark.parametrize("glued", ["x", ".", "-", "7"])
def test_a_card_is_found_from_the_start_on_and_not_within_a_longer_number(
    before: str, glued: str
) -> None:
    assert masked_count(REDACT.text(before + "4242 4242 4242 4242")) == 1
    assert REDACT.text(before + glued + "4242 4242 4242 4242").endswith("4242 4242 4242 4242")


@pytest.mark.parametrize("depth", [1, 90, 400, 20_000])
@pytest.mark.slow
def test_secrets_are_found_at_any_depth_and_what_holds_none_is_the_same_object(depth: int) -> None:
    value: Any = {"password": "hunter22", "said": "fine"}
    plain: Any = {"said": "fine"}
    for _ in range(depth):
        value, plain = {"a": [value, 1]}, {"a": [plain, 1]}
    assert REDACT.value(plain) is plain
    masked = REDACT.value(value)
    for _ in range(depth):
        masked = masked["a"][0]
    assert PLACEHOLDER.fullmatch(masked["password"])
    assert masked["said"] == "fine"


def test_json_in_texts_in_json_is_masked_however_often_it_is_nested() -> None:
    value: Any = {"password": "hunter22"}
    for _ in range(8):
        value = json.dumps([[[value]]])
    assert "hunter22" not in REDACT.text(value)


HOSTILE = [
    "eyJaaaaaaaa-eyJ", "eyJaaaaaaaa.", "sk-", "sk-a-", "github_pat_", "SG.aaaaaaaaaaaaaaaaa",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\nVersion: ",
    "-----END PRIVATE KEY-----", "AAAAAAAAAAAAAAAAAAAA\n", "password=", '"password":"', "api_key",
    "secret ", "aws secret ", "://", "://a:b", "%3a%2f%2fa", "?key=", "authorization: ",
    "bearer ", "basic ", "curl -u a:b", " login -p", "login x password", "--password", "--",
    "</password>", "<password>", "cookie=a", "4242 ", "4242", "DE89 3704 ", "DE89", "\\", '\\"',
    "aQ~", ":AA", "1//0", "LS0tLS1CRUdJTi", "key \\", "password \\", '{"a":', "[[SECRET:",
    "[[SECRET:key:01234567]]", "\\u0073", "a@a.aa", "a.a@", "@a.", "+1", "+1 2", "1.1.", "93.94.",
    "2a00:", "415-", "415-415-", "+1(", '{"a":1,"a":',
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.slow
def test_a_text_four_times_as_long_takes_no_more_than_a_few_times_as_long(unit: str) -> None:
    def spent(many: int) -> float:
        text, times = (unit * (many // len(unit) + 1))[:many], list[float]()
        for _ in range(3):
            start = time.process_time()
            ALL.text(text)
            times.append(time.process_time() - start)
        return min(times)

    # Linear is 4, quadratic 16; what is over before a clock ticks twice says nothing.
    assert spent(80_000) < 10 * max(spent(20_000), 0.01)


@pytest.mark.parametrize("before", ["\n", "\t", "\x1b[31m", '"', "\\n", "%3D"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_secret_behind_an_escaped_character_is_not_cleared(before: str, depth: int) -> None:
    text = f"see{before}{SECRETS[0]}"
    for _ in range(depth):
        text = json.dumps({"a": text})
    assert not REDACT.clear(text.encode())
    assert SECRETS[0] not in REDACT.text(text)


def test_names_of_fields_and_pairs_of_name_and_value_are_masked() -> None:
    value = {SECRETS[2]: 1, "headers": [["Cookie", "a"], {"name": "X-Api-Key", "value": "b c"}]}
    masked = REDACT.value(value)
    assert SECRETS[2] not in masked
    assert PLACEHOLDER.fullmatch(masked["headers"][0][1])
    assert PLACEHOLDER.fullmatch(masked["headers"][1]["value"])
    assert REDACT.value({"required": ["password", "email"]}) == {"required": ["password", "email"]}


TWICE = [
    '{"key_of": {"password": "correct horse", "password": ""}}',
    '{"a": 1, "password": "x y", "a": 2, "password": "string"}',
    json.dumps({"a": SECRETS[2], "b": "b"}).replace('"b":', '"a":'),
    f'{{"a": "\\u0067{SECRETS[2][1:]}", "a": "b"}}',
    '{"a": [{"api_key": "b c", "api_key": null}]}',
]


@pytest.mark.parametrize("text", TWICE)
def test_the_first_of_two_values_of_a_name_is_masked_too(text: str) -> None:
    masked = REDACT.text(text)
    assert masked_count(masked) == 1
    assert not any(word in masked for word in ("correct", "x y", "hp_", "b c"))
    json.loads(masked)
    assert REDACT.text(masked) == masked
    assert json.loads(text).keys() == json.loads(masked).keys()


@pytest.mark.parametrize("text", ["say %s.", '{"a": "%s"}', '[{"b": "x %s"'])
@pytest.mark.parametrize("slashes", [1, 2, 4])
def test_a_key_with_letters_written_as_numbers_is_masked(text: str, slashes: int) -> None:
    hidden = "\\" * slashes + "u0067" + SECRETS[2][1:]
    masked = REDACT.text(text % hidden)
    assert SECRETS[2][4:] not in masked
    assert REDACT.text(masked) == masked
    assert not REDACT.clear(json.dumps({"a": text % hidden}).encode())
    plain = text % "\\u0061 \\u001b[31m"
    assert REDACT.text(plain) == plain


def test_numbers_of_cards_and_under_denied_names_are_masked_in_json() -> None:
    value = {"card": 4242424242424242, "password": 12345678, "n": 4242424242424241, "secret": 3}
    masked = REDACT.value(value)
    assert PLACEHOLDER.fullmatch(masked["card"])
    assert PLACEHOLDER.fullmatch(masked["password"])
    assert (masked["n"], masked["secret"]) == (4242424242424241, 3)
    assert json.loads(REDACT.text(json.dumps(value))) == masked
    pin = REDACT.text('{"db_pass": 123456, "a": [1]}')
    assert masked_count(pin) == 1
    assert json.loads(pin)["a"] == [1]


def test_what_tells_who_somebody_is_stays_unless_it_is_asked_for() -> None:
    text = "ada@mail.de called +49 30 901820 from 93.184.216.34 about 219-09-9999"
    assert REDACT.text(text) == text
    masked = ALL.text(text)
    assert [each.split(":")[1] for each in PLACEHOLDER.findall(masked)] == [
        "email", "phone", "ip_address", "ssn",
    ]  # fmt: skip
    assert ALL.text(masked) == masked
