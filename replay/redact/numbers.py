"""Numbers with a checksum: payment cards and bank accounts."""

from __future__ import annotations

import re

from replay.redact.rule import Rule


def luhn(text: str) -> bool:
    """Does the digit string pass the checksum that payment cards carry?"""
    digits = [int(char) for char in text if char.isdecimal()]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return sum(digits[-1::-2], sum(doubled)) % 10 == 0


def iban(text: str) -> bool:
    """Is it a bank account by its length and its remainder of 97? (ISO 13616)"""
    compact = re.sub(r"[ -]", "", text)
    if IBAN_LENGTHS.get(compact[:2]) != len(compact):
        return False
    turned = compact[4:] + compact[:4]
    return int("".join(str(int(char, 36)) for char in turned)) % 97 == 1


IBAN_LENGTHS = {
    each[:2]: int(each[2:])
    for each in (
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18"
        " DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23"
        " IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19"
        " MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24"
        " SM27 ST25 SV28 TN24 TR26 UA29 VA22 VG24 XK20"
    ).split()
}
"""How many characters an account has, by country."""

LEAST = 15
"""The shortest card and the shortest account have so many characters."""

_ALONE = r"(?:(?<![\w.-]\d{4})|(?<=\\[nrtbf]\d{4}))"
"""No word and no number goes on before the four digits that were read."""

NUMBERS: tuple[Rule, ...] = (
    Rule(
        "payment_card",
        ("0" * 15, "0000-0000-0000-0", "0000-000000-0000"),
        # What stands before is looked at last: a pattern that begins with digits is found faster.
        re.compile(
            rf"(?:4\d{{3}}|5[1-5]\d\d|2[2-7]\d\d|6011|65\d\d|35[2-8]\d){_ALONE}"
            r"(?:(?:[ -]\d{4}){3}|\d{11,12})(?![\w.-])"
            rf"|3[47]\d\d{_ALONE}(?:[ -]\d{{6}}[ -]\d{{5}}|\d{{11}})(?![\w.-])"
        ),
        luhn,
        digits=LEAST,
    ),
    Rule(
        "iban",
        ("AA00",),
        re.compile(
            r"[A-Z]{2}\d{2}(?:(?<![\w.-][A-Z]{2}\d{2})|(?<=\\[nrtbf][A-Z]{2}\d{2}))"
            r"(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
        ),
        iban,
        digits=LEAST,
    ),
)
