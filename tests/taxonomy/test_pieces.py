"""Shortcuts of the evidence find what the plain way finds."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from taxonomy.evidence.claims import Sums, columns, splitter, totals, without_case
from taxonomy.evidence.context_index import TextsByWord

LETTERS = st.text(
    st.sampled_from([*"abIiſıKKsS019_ \n\t\x1b\x1c,.;:()’é\u2003…", "\ud800", "İ", "Σ"]),
    max_size=30,
)


@given(LETTERS)
def test_a_splitter_finds_what_lies_between_its_signs(text: str) -> None:
    assert splitter(",;:()")(text) == re.findall(r"[^\s,;:()]+", text)


@given(LETTERS, st.sampled_from(["is", "sik", "kis", "ai", "s"]))
def test_what_is_found_whatever_the_case_stands_in_the_text_without_case(
    text: str, word: str
) -> None:
    small = without_case(text)
    assert len(small) == len(text)
    assert (word in small) == (re.search(word, text, re.I) is not None)


@given(st.lists(LETTERS, max_size=6), LETTERS)
def test_no_text_that_holds_a_phrase_is_left_out(texts: list[str], phrase: str) -> None:
    holding = TextsByWord(len(texts), texts.__getitem__)
    held = {at for at, text in enumerate(texts) if phrase in text}
    assert held <= set(holding.phrase(phrase, len(texts)))
    alone = re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")
    held = {at for at, text in enumerate(texts) if alone.search(text)}
    assert held <= set(holding.words(phrase, len(texts)))


def test_texts_after_the_end_are_not_named() -> None:
    holding = TextsByWord(3, ["to be red", "blue", "not to be red"].__getitem__)
    assert list(holding.words("be red", 3)) == [0, 2]
    assert list(holding.words("be red", 2)) == [0]


NUMBERS = st.lists(st.integers(0, 30).map(lambda cents: cents / 8), min_size=3, max_size=7)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5), st.integers(0, 999), st.booleans())
def test_a_sum_is_found_at_its_first_place_told_beforehand_or_not(
    shown: list[tuple[list[float], list[float]]], cents: int, told: bool
) -> None:
    target = cents / 40
    named = [
        (2 * at, columns([{"fee": fee} for fee in fees] + [{"tax": tax} for tax in taxes]))
        for at, (fees, taxes) in enumerate(shown)
    ]
    for end in (0, 3, 99):
        plainly = (
            (at, formula)
            for at, each in named
            if at < end and (formula := totals(target, each)) is not None
        )
        assert Sums(named, [target, 7.0] if told else []).first(target, end) == next(plainly, None)
