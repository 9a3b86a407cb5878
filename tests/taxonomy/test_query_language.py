"""The text of a question and its tree: the same either way, and every mistake at its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.query.language import (
    ALONE,
    MOST_CHARACTERS,
    MOST_TERMS,
    And,
    Asks,
    BadQuery,
    Node,
    Not,
    Or,
    Says,
    Word,
    parse,
)
from taxonomy.query.values import moment, number, pattern
from tests.taxonomy.query_case import placeless, trees, written

JOINING = {"and", "or", "not", *ALONE}
LETTERS = st.characters(exclude_categories=("Cs", "Z", "Cc"), exclude_characters="()")
bare = st.text(LETTERS, min_size=1, max_size=8).filter(lambda text: text[0] not in "\"'")
words = bare.filter(lambda text: text.lower() not in JOINING and not set(text) & set("<>=:"))
texts = st.text(st.characters(codec="utf-8"), max_size=12)
terms: st.SearchStrategy[Node] = st.one_of(
    words.map(Word),
    texts.filter(str.strip).map(Says),
    st.builds(
        Asks,
        st.sampled_from(["task", "step.tokens", "held-out", "no_such"]),
        st.sampled_from([":", "=", "<", "<=", ">", ">="]),
        bare.filter(lambda text: text[0] not in "=<>"),
    ),
    st.builds(Asks, st.just("tag"), st.sampled_from([":", "="]), texts, st.just(True)),
    st.sampled_from(sorted(ALONE)).map(lambda name: Asks(name, "", "")),
)


def refusal(query: str) -> BadQuery | None:
    """Why a query cannot be read."""
    try:
        parse(query)
    except BadQuery as refused:
        return refused
    return None


@given(trees(terms))
def test_a_tree_that_is_written_out_is_read_as_itself(tree: Node) -> None:
    refused = refusal(written(tree))
    if refused is not None:  # a generated tree may be deeper than anyone types
        assert "deep" in str(refused)
        return
    read = parse(written(tree))
    assert read is not None
    assert placeless(read) == tree


@given(st.text())
def test_any_text_is_a_tree_or_a_sentence_with_a_place_in_it(text: str) -> None:
    refused = refusal(text)
    if refused is not None:
        assert 0 <= refused.at <= len(text)
        assert f"(at character {refused.at + 1})" in refused.message


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("", None),
        ("  ", None),
        ("a b", And((Word("a"), Word("b")))),
        ("a and b", And((Word("a"), Word("b")))),
        ("a or b c", Or((Word("a"), And((Word("b"), Word("c")))))),
        ("not a b", And((Not(Word("a")), Word("b")))),
        ("NOT (a OR b)", Not(Or((Word("a"), Word("b"))))),
        ("Cost>0.5", Asks("cost", ">", "0.5")),
        ("cost:>=0.5", Asks("cost", ">=", "0.5")),
        ("tag:'wrong tool'", Asks("tag", ":", "wrong tool", quoted=True)),
        (r'"say \"hi\""', Says('say "hi"')),
        ("step.error tool.error:Bash",
         And((Asks("step.error", "", ""), Asks("tool.error", ":", "Bash")))),
        ("don't label:a=b", And((Word("don't"), Asks("label", ":", "a=b")))),
    ],
)  # fmt: skip
def test_terms_join_as_people_read_them(query: str, tree: Node | None) -> None:
    read = parse(query)
    assert (None if read is None else placeless(read)) == tree


@pytest.mark.parametrize(
    ("query", "at", "says"),
    [
        ("task:26 (outcome:failed", 8, "unclosed ("),
        ("task:26)", 7, "unmatched )"),
        ("a or", 4, "missing term at the end"),
        ("a and or b", 6, "missing term before or"),
        ("()", 1, "missing term before )"),
        ('a "b', 2, "unclosed quote"),
        ('a ""', 2, "empty quotes"),
        ("task:", 5, "missing value after task:"),
        ("cost >0.5", 5, "without spaces"),
        ("cost> 0.5", 5, "write no space before the value"),
        ("cost!=1", 4, "write `not cost="),
        ("refund(a)", 6, "unexpected '(' after 'refund'"),
        ('"a"b', 3, "unexpected 'b' after '\"a\"'"),
        ("(" * 20 + "a" + ")" * 20, 9, "8 nested"),
        ("a " * (MOST_TERMS + 1), 2 * MOST_TERMS, "60 terms"),
        ("a" * (MOST_CHARACTERS + 1), MOST_CHARACTERS, "2000 characters"),
        ("a \udcff", 2, "UTF-8"),
    ],
)
def test_a_mistake_is_told_at_its_place(query: str, at: int, says: str) -> None:
    with pytest.raises(BadQuery) as refused:
        parse(query)
    assert refused.value.at == at
    assert says in str(refused.value)


def test_numbers_have_units_and_nothing_else_is_one() -> None:
    units = {"": 1.0, "k": 1e3, "$": 1.0}
    assert [number(text, units) for text in ("2", "1.5k", "2K", ".5", "$3", "7$")] == [
        2, 1500, 2000, 0.5, 3, 7,
    ]  # fmt: skip
    for text in ("", "k", "-1", "1e9", "nan", "inf", "1 k", "1x", "１"):
        assert number(text, units) is None


def test_a_moment_is_as_long_as_it_is_named() -> None:
    day_ns = 86_400 * 10**9
    for text, days in (("2026", 365), ("2026-02", 28), ("2026-12", 31), ("2026-W47", 7),
                       ("2026-11-20", 1), ("2026-11-20T09:30", 1 / 1440)):  # fmt: skip
        found = moment(text)
        assert found is not None
        assert found.until_ns - found.from_ns == days * day_ns
    monday = moment("2026-11-16")
    assert monday is not None
    assert (moment("2026-W47") or monday)[0] == monday.from_ns
    for text in ("26", "2026-13", "2026-02-30", "2026-W54", "0000", "9999", "2026-1-1"):
        assert moment(text) is None
    assert moment("2500") is not None


@given(st.text("ab*%_\\ß", max_size=6), st.text("ab%_\\ß", max_size=6))
def test_a_star_is_any_text_and_without_one_a_pattern_is_found_anywhere(
    wanted: str, text: str
) -> None:
    assert pattern(wanted, quoted=True).fits(text) == (wanted in text)
    assert pattern("*" + wanted.replace("*", "") + "*").fits(text) == (
        wanted.replace("*", "") in text
    )
