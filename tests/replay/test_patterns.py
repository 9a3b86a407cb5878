"""Patterns of somebody else's file: each place that takes one refuses what may take for ever, and
no text makes one that is taken take long."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_tui.config import BadConfig, read_redaction
from replay.action import Act, Action
from replay.compare.actions import compare
from replay.compare.rules import BadRule, PathRule, rules_from
from replay.errors import ArcError, BadTrace
from replay.formats.sidecars import _from_path
from replay.patterns import STEPS, Pattern, TooLong, Unusable
from replay.predicate import BadPredicate, Condition, rows
from taxonomy.query.values import pattern

ENDLESS = (
    "(a+)+$", "(a|aa)*b", "(?:a*)*b", "x(?:(?:ab?){2}c)*", "(a{1,9}){1,9}b", "((a|b)c?)+x",
    "(?:a?){40}b", "(?=(a+)+b)a", "(.*)*", "(?:(?:x+x+)+y)?z",
)  # fmt: skip


def _config(pattern: str, folder: Path) -> None:
    file = folder / "config.toml"
    file.write_text(f"[redact.patterns]\nmine = '{pattern}'\n")
    read_redaction(file)


def _rule_of_a_bundle(pattern: str, _: Path) -> None:
    said = {"tool": "t", "path": "a", "how": "regex", "value": pattern}
    msgspec.convert(said, PathRule)


PLACES: dict[str, tuple[type[ArcError], Callable[[str, Path], object]]] = {
    "[redact]": (BadConfig, _config),
    "a rule of a bundle": (BadRule, _rule_of_a_bundle),
    "--compare": (BadRule, lambda pattern, _: rules_from([f"t.a=regex:{pattern}"])),
    "--expect": (BadPredicate, lambda pattern, _: rows(f"text~/{pattern}/")),
    "--task-from": (BadTrace, lambda pattern, _: _from_path("aaaa", pattern)),
}


@pytest.mark.parametrize("pattern", ENDLESS)
@pytest.mark.parametrize("place", PLACES)
def test_a_pattern_that_may_take_for_ever_is_refused_wherever_one_is_taken(
    place: str, pattern: str, tmp_path: Path
) -> None:
    error, take = PLACES[place]
    with pytest.raises(error, match="repeats a choice or a part of variable width"):
        take(pattern, tmp_path)


CHOICES = "(?:ab|ab)" * 40 + "c"


@pytest.mark.parametrize("pattern", ["a*a*a*a*a*c", ".*a.*a.*a.*c", "a?" * 40 + "c", CHOICES])
def test_what_is_taken_ends_soon_whatever_the_text(pattern: str) -> None:
    """Repeats and choices side by side share a text out in ever more ways as it grows."""
    found = Pattern(pattern)
    for text in ("ab" * 40, "a" * 200, "a" * 20_000, "ab" * 1_000_000):
        began = time.monotonic()
        for search in (found.search, found.fullmatch):
            try:
                assert search(text) is None
            except TooLong:
                assert len(text) * found.ways(len(text)) > STEPS
        assert time.monotonic() - began < 10


def test_a_choice_side_by_side_is_counted() -> None:
    assert Pattern(CHOICES).ways(100) == 2**40
    assert Pattern("(?:ab|cd)x*").ways(100) == 2 * 101


def test_a_rule_that_might_take_too_long_for_a_text_leaves_it_as_it_is() -> None:
    rules = rules_from(["t.a=regex:a*a*a*(b)?.*"])
    short, other, long, longer = (
        Action(calls=(Act(tool="t", arguments={"a": text}),))
        for text in ("aab", "aaab", "a" * 50_000, "a" * 50_001)
    )
    assert compare(short, other, [], rules).same
    began = time.monotonic()
    assert not compare(long, longer, [], rules).same
    assert time.monotonic() - began < 10


def test_an_expectation_that_might_take_too_long_for_a_text_cannot_tell() -> None:
    [[condition]] = rows("text~/.*a.*a.*b/")
    assert isinstance(condition, Condition)
    assert condition.of_text("xaab") is True
    assert condition.of_text("xab") is False
    assert condition.of_text("a" * 100_000) is None


@given(
    st.lists(st.sampled_from(["a", "B", "*", "ß", "\n", "**"]), min_size=1, max_size=7),
    st.text(st.sampled_from("abBxß\n"), max_size=12),
)
def test_a_star_of_a_query_stands_for_any_characters(pieces: list[str], text: str) -> None:
    asked = "".join(pieces)
    found = pattern(asked)
    expected = re.compile(".*".join(map(re.escape, asked.split("*"))), re.IGNORECASE | re.DOTALL)
    fits = expected.fullmatch(text) if "*" in asked else expected.search(text)
    assert found.fits(text) is (fits is not None)


def test_many_stars_of_a_query_are_no_work() -> None:
    began = time.monotonic()
    assert not pattern("*a" * 40 + "*b").fits("a" * 100_000)
    assert time.monotonic() - began < 2


def test_what_is_no_pattern_is_told() -> None:
    for wrong in ("(", "[", "a{9999999999999}", "(?P<a>x)(?P<a>y)"):
        with pytest.raises(Unusable, match="is not a regular expression"):
            Pattern(wrong)
