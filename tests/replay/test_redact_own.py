"""Rules of a person: taken, or refused with the reason."""

from __future__ import annotations

import pytest

from replay.redact.placeholders import masked_count
from replay.redact.redactor import Redactor
from replay.redact.rules import BadPattern, Policy, rule, rules
from replay.store import handle
from replay.store.handle import Store


def _redactor(**patterns: str) -> Redactor:
    return Redactor(b"test", Policy(rules=rules(patterns), keys=("employee_no",), allow=("E-7",)))


def test_a_pattern_masks_all_of_a_match_or_its_group() -> None:
    redactor = _redactor(badge=r"E-\d{1,6}", desk=r"desk (?P<secret>\d+)")
    masked = redactor.text("E-7 and E-8 at desk 12\nE-9")
    assert masked.startswith("E-7 and [[SECRET:badge:")
    assert "at desk [[SECRET:desk:" in masked
    assert masked_count(masked) == 3
    assert redactor.text(masked) == masked
    assert not redactor.clear(b'"E-8"')


def test_a_field_of_a_person_is_masked_however_it_is_written() -> None:
    redactor = _redactor()
    for name in ("employee_no", "EmployeeNo", "employee-no"):
        assert masked_count(str(redactor.value({name: "x y"}))) == 1
        assert not redactor.clear(f'{{"{name}": "x y"}}'.encode())
    assert redactor.value({"employee_no": "E-7"}) == {"employee_no": "E-7"}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "is not a regular expression"),
        ("(a+)+b", "may never end"),
        ("(a|aa)*b", "may never end"),
        ("x(?:(?:ab?){2}c)*", "may never end"),
        ("a*", "matches the empty string"),
        ("xa*a*b", "side by side"),
        ("a{0,500}a{0,500}b", "side by side"),
    ],
)
def test_a_pattern_that_may_hang_is_refused_in_a_sentence(pattern: str, why: str) -> None:
    with pytest.raises(BadPattern, match=why):
        rule("mine", pattern)


def test_a_name_that_no_placeholder_can_have_is_refused() -> None:
    with pytest.raises(BadPattern, match="not a valid rule name"):
        rule("My rule", "x")


def test_a_database_is_told_what_the_program_provides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_sources", [])
    handle.mask_with(lambda: Policy(rules=rules({"badge": r"E-\d{1,6}"})))
    with Store.open(":memory:") as store:
        assert store.redactor.text("E-8").startswith("[[SECRET:badge:")


@pytest.mark.parametrize("before", [0, 990, 997, 1_745, 1_749])
def test_a_match_is_found_wherever_it_stands_in_a_long_line(before: int) -> None:
    redactor = _redactor(badge=r"E-\d{1,6}(?!\d)")
    masked = redactor.text("x" * before + "E-123456" + "y" * 3_000)
    assert "123" not in masked
    assert masked_count(masked) == 1


def test_what_one_records_is_masked_as_he_says_and_others_as_the_program_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handle, "_sources", [])
    handle.mask_with(lambda: Policy(keys=("desk",)))
    with handle.masked_by(Policy(keys=("badge",))), Store.open(":memory:") as store:
        assert masked_count(str(store.redactor.value({"badge": "a b", "desk": "c d"}))) == 1
    with Store.open(":memory:") as store:
        assert "c d" not in str(store.redactor.value({"desk": "c d"}))
