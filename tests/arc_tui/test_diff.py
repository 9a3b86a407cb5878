"""Diffs: which lines and which words were changed."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from arc_tui.experiments.edits import diff_page
from arc_tui.ui.diff import changed_words, diff_lines, diff_texts, word_counts
from arc_tui.ui.document import Block

TEXTS = st.text(alphabet=st.sampled_from("ab c.\n"), max_size=60)


def cut_out(text: str, spans: tuple[tuple[int, int], ...]) -> str:
    """The text without some stretches."""
    for start, end in reversed(spans):
        text = text[:start] + text[end:]
    return text


def words(line: str, spans: tuple[tuple[int, int], ...]) -> list[str]:
    return [line[start:end] for start, end in spans]


@given(TEXTS, TEXTS)
def test_what_is_not_marked_stands_in_both_texts(before: str, after: str) -> None:
    gone, new = changed_words(before, after)
    if gone or new or before == after:
        assert cut_out(before, gone).split() == cut_out(after, new).split()


@given(TEXTS)
def test_a_text_is_no_other_text_than_itself(text: str) -> None:
    assert changed_words(text, text) == ((), ())
    assert diff_texts(text, text) == []
    assert word_counts(text, text) == (0, 0)


@given(TEXTS, TEXTS)
@example("a", "\n\na.")
def test_every_line_of_a_diff_is_shown_as_it_stands(before: str, after: str) -> None:
    made = diff_texts(before, after)
    gone = [line.text[1:] for line in made if line.kind in ("gone", "same")]
    assert all(line in before.splitlines() for line in gone)
    for line in made:
        assert all(1 <= start < end <= len(line.text) for start, end in line.words)


def test_only_the_words_that_were_changed_are_marked() -> None:
    gone, new = diff_lines(
        ["-Cancel within 24 hours of its booking.", "+Cancel within 12 hours of booking."]
    )
    assert (gone.kind, words(gone.text, gone.words)) == ("gone", ["24", " its"])
    assert (new.kind, words(new.text, new.words)) == ("new", ["12"])


def test_a_line_that_was_broken_in_two_marks_the_words_that_came_in() -> None:
    made = diff_lines(["-Look it up first.", "+Look it up first.", "+Then ask."])
    assert [words(line.text, line.words) for line in made] == [[], [], ["Then ask."]]


def test_texts_with_nothing_in_common_have_no_words_marked() -> None:
    made = diff_lines(["-Cancel it.", "+Never make up what nobody gave you, whoever asks."])
    assert [line.words for line in made] == [(), ()]


def test_heads_and_places_of_a_diff_are_no_changes() -> None:
    made = diff_lines(["--- system", "+++ system", "@@ -1 +1 @@", " a", "-b c", "+b d", " e"])
    assert [line.kind for line in made] == ["name", "name", "place", "same", "gone", "new", "same"]
    assert words(made[5].text, made[5].words) == ["d"]


def test_words_put_in_and_taken_out_are_counted() -> None:
    assert word_counts("a b c", "a x c d") == (2, 1)


def test_a_page_of_a_diff_marks_the_words_that_were_changed() -> None:
    lines = ["--- system", "+++ system", "@@ -1 +1 @@", "-within 24 hours", "+within 12 hours"]
    name, _, gone, new = diff_page(lines)
    assert isinstance(name, Block)
    assert name.text == "system"
    assert isinstance(gone, Block)
    assert isinstance(new, Block)
    assert words(gone.text, tuple(gone.strong)) == ["24"]
    assert words(new.text, tuple(new.strong)) == ["12"]
