"""One key, one meaning: over every binding of every screen, widget and dialog."""

from __future__ import annotations

import string
from collections import defaultdict

from textual.binding import Binding

from arc_tui.ui.bindings import MEANINGS
from arc_tui.ui.keymap import Place, parse_keys, places
from taxonomy.classes import CLASSES

DIGITS = frozenset(string.digits)
"""They choose an entry: of a list, a page, a text, a probe, a side."""

CLASS_LETTERS = frozenset(entry.key for entry in CLASSES)
"""They choose a failure class in the tag picker, and nothing else there."""

BEHIND_ALTGR = frozenset(
    {
        "left_square_bracket", "right_square_bracket", "left_curly_bracket", "right_curly_bracket",
        "number_sign", "at", "vertical_line", "tilde", "backslash", "euro_sign",
    }
)  # fmt: skip
"""What some keyboards, as the German one, have only with AltGr."""

BACK = ("escape", "q")

LINES = frozenset({"PromptLine"})
"""Where only letters are typed: q is one of them."""


def meanings(place: Place) -> list[tuple[str, Binding]]:
    """A key at a time, with its binding."""
    return [(key, each) for each in place.bindings for key in parse_keys(each.key)]


def is_exception(place: Place, key: str, binding: Binding) -> bool:
    """Does the key choose an entry?"""
    picks = place.cls.__name__ == "TagPicker" and binding.action == f"pick('{key}')"
    return key in DIGITS or (key in CLASS_LETTERS and picks)


def test_every_key_means_one_thing_on_all_screens() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for place in places():
        for key, binding in meanings(place):
            if not is_exception(place, key, binding):
                found[key].add(binding.description)
    assert {key: said for key, said in found.items() if len(said) > 1} == {}


def test_every_key_is_one_of_the_table() -> None:
    table = {key: each.words for each in MEANINGS.values() for key in parse_keys(each.keys)}
    for place in places():
        for key, binding in meanings(place):
            if not is_exception(place, key, binding):
                assert table[key] == binding.description, (place.cls, key)


def test_no_two_keys_of_the_table_are_one() -> None:
    keys = [key for each in MEANINGS.values() for key in parse_keys(each.keys)]
    assert len(keys) == len(set(keys))


def test_a_key_does_one_thing_where_it_is() -> None:
    """A widget may take a key from its base, for what the same key means."""
    for place in places():
        own = vars(place.cls).get("BINDINGS", ())
        keys = [key for each in own for key in parse_keys(each.key)]
        assert len(keys) == len(set(keys)), place.cls


def test_escape_and_q_are_the_same_action_on_every_screen() -> None:
    screens = [place for place in places() if place.is_screen]
    assert len(screens) > 15
    for place in screens:
        escape, q = (
            {(each.id, each.action) for key, each in meanings(place) if key == wanted}
            for wanted in BACK
        )
        assert escape == q, place.cls
        assert len(escape) == 1, place.cls


def test_escape_and_q_do_nothing_else_in_a_widget_or_the_app() -> None:
    for place in places():
        if not place.is_screen and place.cls.__name__ not in LINES:
            assert not any(key in BACK for key, _ in meanings(place)), place.cls


def test_no_key_needs_altgr() -> None:
    assert parse_keys("[,#,@") == ("left_square_bracket", "number_sign", "at")
    for place in places():
        for key, binding in meanings(place):
            assert key not in BEHIND_ALTGR, binding.id
