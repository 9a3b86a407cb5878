"""A unified diff applied to the letter."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.edit.texts import patched
from replay.errors import BadEdit

TEXT = "You refund orders.\nBe kind.\n\nRefund at once.\nBe kind.\n"


def test_a_patch_is_applied_wherever_its_lines_stand_whatever_its_numbers_say() -> None:
    patch = (
        "--- a\n+++ b\n@@ -90,2 +90,3 @@ heading\n \n-Refund at once.\n+Verify.\n+Then refund.\n"
    )
    assert patched(TEXT, patch, "step 0") == (
        "You refund orders.\nBe kind.\n\nVerify.\nThen refund.\nBe kind.\n"
    )


def test_a_blank_line_that_lost_its_blank_is_still_context() -> None:
    patch = "@@ -3,2 +3,2 @@\n\n-Refund at once.\n+Wait.\n"
    assert "\n\nWait.\n" in patched(TEXT, patch, "step 0")


def test_how_the_text_ends_is_kept() -> None:
    patch = "@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file"
    assert patched("old", patch, "x") == "new"
    assert patched("old\n", patch, "x") == "new\n"
    assert patched("a\r\nold\r\n", "@@ -2 +2 @@\n-old\r\n+new\r\n", "x") == "a\r\nnew\r\n"


def test_an_empty_text_takes_a_patch_that_only_adds() -> None:
    assert patched("", "@@ -0,0 +1,2 @@\n+Be kind.\n+Be quick.\n", "x") == "Be kind.\nBe quick."


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("", "step 4: no hunk in the patch"),
        ("Be kind.", "step 4: hunk 1 of the patch: 'Be kind.' is not a hunk of a unified diff"),
        (
            "@@ -1 +1 @@\n-Be rude.\n+x\n",
            "step 4: hunk 1 of the patch: lines from 'Be rude.' on not found in the text",
        ),
        (
            "@@ -1 +1 @@\n-Refund at once.\n+x\n@@ -2 +2 @@\n-Be kind.\n+x\n",
            "step 4: hunk 2 of the patch: lines from 'Be kind.' on found 2 times in the text",
        ),
        (
            "@@ -2 +2 @@\n-Refund at once.\n+x\n@@ -1 +1 @@\n-You refund orders.\n+x\n",
            "step 4: hunk 2 of the patch overlaps hunk 1",
        ),
        (
            "@@ -1,2 +1 @@\n-Be kind.\n",
            "step 4: hunk 1 of the patch: 1 old and 0 new lines, but its header gives 2 and 1",
        ),
        (
            "@@ -2,0 +3 @@\n+Be quick.\n",
            "step 4: hunk 1 of the patch: no context lines",
        ),
        (
            "@@ -4 +4 @@\n-Refund at once.\n+x\n--- c\n+++ d\n",
            "step 4: hunk 2 of the patch: '--- c' is not a hunk of a unified diff",
        ),
    ],
)
def test_a_patch_that_does_not_fit_names_the_step_and_the_hunk(patch: str, said: str) -> None:
    with pytest.raises(BadEdit) as error:
        patched(TEXT, patch, "step 4")
    assert error.value.message.startswith(said)


_LINES = st.lists(st.text("abc -+@\\", max_size=4), max_size=8)


@given(_LINES, _LINES, st.integers(1, 3))
def test_a_patch_made_of_two_texts_leads_from_one_to_the_other_or_is_refused(
    old: list[str], new: list[str], context: int
) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=context)
    patch = "".join(lines)
    if not patch or not before or not after:  # how an empty text ends is nothing to keep
        return
    try:
        made = patched(before, patch, "x")
    except BadEdit as error:
        made = error.message
    # Lines that stand there twice are the only reason to refuse it.
    assert made == after or " times" in made or "no line to find" in made


@pytest.mark.slow
@given(st.lists(st.text("abcd", min_size=1), unique=True, min_size=1, max_size=9), st.data())
def test_a_patch_of_lines_that_differ_always_fits(old: list[str], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from([*old, "X", "Y"]), min_size=1))
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, kept))
    patch = "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=1))
    if patch:
        assert patched(before, patch, "x") == after
