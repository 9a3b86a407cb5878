"""Rules for places in the arguments: how they are written, and what counts under each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay import digests
from replay.compare import likeness
from replay.compare.likeness import Counted, Near, alike, counted
from replay.compare.rules import (
    BadRule,
    PathRule,
    Rules,
    arguments_of,
    dated,
    joined,
    quoted,
    rules_from,
)
from replay.trace import Json


def same(rule: str, ours: Json, theirs: Json) -> bool:
    """Are two values of the argument `x` of the tool `a` alike, either way round?"""
    place = arguments_of("a", rules_from([f"a.x={rule}"]))
    there, back = (
        alike({"x": ours}, {"x": theirs}, place),
        alike({"x": theirs}, {"x": ours}, place),
    )
    assert there == back
    return there


# --- how they are written


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "refund_order.amount=tolerance:0.01",
            PathRule(tool="refund_order", path="amount", how="tolerance", value="0.01"),
        ),
        ("*.query=casefold", PathRule(tool="*", path="query", how="casefold")),
        ("*=ignore", PathRule(tool="*", path="", how="ignore")),
        (
            " get_order.items[*].id = trim ",
            PathRule(tool="get_order", path="items[*].id", how="trim"),
        ),
        ("a[0]=date", PathRule(tool="a", path="[0]", how="date")),
        ('"shop.find"."a.b"=set', PathRule(tool="shop.find", path='"a.b"', how="set")),
        ("a.x=regex: b=(c):d", PathRule(tool="a", path="x", how="regex", value=" b=(c):d")),
    ],
)
def test_a_rule_is_one_text(text: str, rule: PathRule) -> None:
    assert rules_from([text]) == Rules((rule,))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("refund_order.amount", "comparison missing", "tolerance:0.01"),
        ("a.x=tolerence:1", "unknown comparison 'tolerence'", "did you mean 'tolerance'?"),
        ("a.x=tolerance", "tolerance needs a value", "tolerance:0.01"),
        ("a.x=tolerance:", "'' is not a tolerance such as 0.01 or 1%", ""),
        ("a.x=tolerance:-1", "'-1' is not a tolerance", ""),
        ("a.x=tolerance:101%", "exceeds 100 %", ""),
        ("a.x=regex:(", "is not a regular expression", ""),
        ("a.x=ignore:1", "ignore takes no value", "HOW"),
        ("a.=ignore", "'a.' is not TOOL or TOOL.PATH", "TOOL.PATH"),
        ("get_*.x=ignore", "is not TOOL or TOOL.PATH", "TOOL.PATH"),
        ("=ignore", "'' is not TOOL or TOOL.PATH", "TOOL.PATH"),
        ("a.x[y]=ignore", "'[y]' is not a valid path part", ""),
        ("a..x=ignore", "'..x' is not a valid path part", ""),
        ('"\\q".x=ignore', "the tool is not a valid JSON string", ""),
    ],
)
def test_a_text_that_is_no_rule_says_what_is_wrong(text: str, message: str, hint: str) -> None:
    with pytest.raises(BadRule) as refused:
        rules_from(["*.fine=trim", text])
    assert repr(text) in refused.value.message
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_a_rule_made_by_hand_is_held_to_the_same() -> None:
    with pytest.raises(BadRule, match="not a valid path part"):
        PathRule(tool="a", path="x[", how="trim")
    with pytest.raises(BadRule, match="takes no value"):
        PathRule(tool="a", path="x", how="trim", value="1")
    with pytest.raises(BadRule, match="not a tolerance"):
        msgspec.json.decode(b'{"tool":"a","path":"x","how":"tolerance"}', type=PathRule)


_NAME = st.text(max_size=4) | st.sampled_from(["a.b", " x", '"', "[0]", "=", "**"])
_PATH = st.lists(st.sampled_from(["*", "**", "[*]", "[3]"]) | _NAME.map(quoted), max_size=3).map(
    lambda steps: "".join(map(joined, steps)).removeprefix(".")
)
_RULE = st.one_of(
    st.builds(
        PathRule,
        tool=_NAME.filter(lambda name: name != "*"),
        path=_PATH,
        how=st.sampled_from(["ignore", "casefold", "trim", "path", "set", "date", "json"]),
    ),
    st.builds(
        PathRule,
        tool=st.just("*"),
        path=_PATH,
        how=st.just("tolerance"),
        value=st.sampled_from(["0", "0.5", "1%"]),
    ),
)


@given(_RULE)
def test_a_rule_is_read_as_it_is_written(rule: PathRule) -> None:
    assert rules_from([rule.text]).paths == (rule,)
    assert msgspec.json.decode(digests.encode(rule), type=PathRule) == rule


def test_every_rule_is_printed_as_a_line_of_its_own() -> None:
    rules = rules_from(["refund_order.amount=tolerance:1%", "*.items=set", "think=ignore"])
    assert rules.lines == (
        "refund_order.amount: numbers within 1% are equal",
        "*.items: list order ignored",
        "think: ignored",
    )


# --- which places they are about


@pytest.mark.parametrize(
    ("path", "place", "reached"),
    [
        ("", (), True),
        ("x", ("x",), True),
        ("x", ("x", "y"), False),
        ("x.*", ("x", "y"), True),
        ("x.*", ("x", 0), False),
        ("x[*].id", ("x", 7, "id"), True),
        ("x[*]", ("x", "0"), False),
        ("x[1]", ("x", 1), True),
        ("x[1]", ("x", 2), False),
        ("**.id", ("id",), True),
        ("**.id", ("x", 0, "id"), True),
        ("**.id", ("x", 0, "id", "y"), False),
        ("x.**", ("x",), True),
        ("x.**.id.**.name", ("x", "id", "id", 3, "name"), True),
        ('"a.b"', ("a.b",), True),
    ],
)
def test_a_path_names_places(path: str, place: tuple[str | int, ...], reached: bool) -> None:
    found = arguments_of("a", Rules((PathRule(tool="a", path=path, how="trim"),)))
    for step in place:
        found = found.inner(step)
    assert bool(found.rules) is reached


def test_a_rule_is_about_its_tool_alone() -> None:
    rules = rules_from(["a.x=ignore"])
    assert alike({"x": 1}, {"x": 2}, arguments_of("a", rules))
    assert not alike({"x": 1}, {"x": 2}, arguments_of("b", rules))


# --- what they do


@pytest.mark.parametrize(
    ("rule", "ours", "theirs", "is_same"),
    [
        ("ignore", 1, [2], True),
        ("casefold", "Straße", "STRASSE", True),
        ("casefold", "a ", "A", False),
        ("trim", " two\n words", "two words ", True),
        ("trim", "twowords", "two words", False),
        ("path", "./src//a/../b/", "src/b", True),
        ("path", "/../a", "/a", True),
        ("path", "../a", "a", False),
        ("path", "../../a", "../b/../../a", True),
        ("path", "/a", "a", False),
        ("path", "a/..", ".", True),
        ("path", "", ".", False),
        ("set", [1, 2, 2], [2, 1.0, 2], True),
        ("set", [1, 2, 2], [2, 1, 1], False),
        ("set", [{"a": 1}, "b"], ["b", {"a": 1}], True),
        ("set", [[1, 2]], [[2, 1]], False),
        ("tolerance:0.01", 1.0, 1.01, True),
        ("tolerance:0.01", 1, 1.0100001, False),
        ("tolerance:0", 42, 42.0, True),
        ("tolerance:0.01", "1.00", 1, False),
        ("tolerance:1", True, 1, False),
        ("tolerance:1", 2**60, 2**60 + 2, False),
        ("tolerance:1%", 100, 99, True),
        ("tolerance:1%", 99, 100.5, False),
        ("tolerance:1%", -100, 100, False),
        ("tolerance:1%", 0, 0, True),
        ("regex:ORD-[0-9]+", "ORD-1", "ORD-22", True),
        ("regex:ORD-[0-9]+", "ORD-1", "ORD-1 now", False),
        ("regex:0*([0-9]+)", "0042", "42", True),
        ("regex:0*([0-9]+)", "0042", "43", False),
        ("regex:(a)?b*", "b", "", True),
        ("regex:.*", "1", 1, False),
        ("date", "2026-11-21", "21 November 2026", True),
        ("date", "Nov. 21st, 2026", "20261121", True),
        ("date", "2026/11/1", "2026-11-01", True),
        ("date", "2026-11-21T10:00:00Z", "2026-11-21 12:00+02:00", True),
        ("date", "20261121T100000.50Z", "2026-11-21T10:00:00.5+00:00", True),
        ("date", "2026-11-21T10:00:00.000000001Z", "2026-11-21T10:00:00Z", False),
        ("date", "2026-11-21T10:00", "2026-11-21 10:00:00", True),
        ("date", "2026-11-21T10:00", "2026-11-21T10:00Z", False),
        ("date", "2026-11-21", "2026-11-21T00:00", False),
        ("date", "0001-01-01T00:00+05:00", "0001-01-01T01:00+06:00", True),
        ("date", "9999-12-31T23:59-05:00", "9999-12-31T22:59-06:00", True),
        ("date", "01/02/2026", "2026-02-01", False),
        ("date", "2026-02-30", "2026-02-31", False),
        ("date", "2026-11-21T25:00", "2026-11-21T26:00", False),
        ("date", "soon", "soon", True),
        ("json", '{"a": 1, "b": [2]}', '{"b":[2.0],"a":1}', True),
        ("json", '{"a": 1}', {"a": 1}, True),
        ("json", '{"a": 1}', '{"a": 2}', False),
        ("json", "{a: 1}", "{a:1}", False),
        ("json", "NaN", "nan", False),
        ("json", "[" * 100_000, "[" * 99_999, False),
    ],
)
def test_what_counts_under_a_rule(rule: str, ours: Json, theirs: Json, is_same: bool) -> None:
    assert same(rule, ours, theirs) is is_same
    assert same(rule, ours, ours)


def test_an_ignored_argument_need_not_be_given() -> None:
    place = arguments_of("a", rules_from(["a.order.note=ignore", "a.tags[*]=ignore"]))
    ours = {"order": {"id": 1, "note": "x"}, "tags": [1, 2]}
    assert alike(ours, {"order": {"id": 1}, "tags": []}, place)
    assert not alike(ours, {"order": {"id": 1}}, place)


def test_rules_for_one_place_are_applied_in_their_order() -> None:
    rules = rules_from(
        ["a.x=json", "a.x=tolerance:1", "a.y=trim", "a.y=casefold", "a.y=regex:(b).*"]
    )
    place = arguments_of("a", rules)
    assert alike({"x": "41", "y": " B  one"}, {"x": 42, "y": "b two"}, place)
    backwards = arguments_of("a", rules_from(["a.x=tolerance:1", "a.x=json"]))
    assert not alike({"x": "41"}, {"x": 42}, backwards)


def test_places_inside_a_text_of_json_can_have_rules() -> None:
    place = arguments_of("a", rules_from(["a.x=json", "a.x.ids=set", "a.x.at=ignore"]))
    assert alike({"x": '{"ids": [1, 2], "at": 5}'}, {"x": '{"ids": [2, 1]}'}, place)


def test_the_entries_of_a_set_are_matched_near_numbers_too() -> None:
    place = arguments_of("a", rules_from(["a.x=set", "a.x[*].price=tolerance:0.5"]))
    ours = [{"id": 1, "price": 10}, {"id": 2, "price": 20}]
    assert alike({"x": ours}, {"x": [{"id": 2, "price": 20.5}, {"id": 1, "price": 9.5}]}, place)
    assert not alike({"x": ours}, {"x": [{"id": 1, "price": 20}, {"id": 2, "price": 10}]}, place)


def test_near_numbers_are_held_against_those_of_the_same_key() -> None:
    place = arguments_of("a", rules_from(["a.*=tolerance:1"]))
    assert alike({"x": 1, "y": 9}, {"y": 8, "x": 2}, place)
    assert not alike({"x": 1, "y": 9}, {"x": 9, "y": 1}, place)


def test_the_form_of_a_value_is_never_taken_for_a_value() -> None:
    lookalikes: list[tuple[str, Json, list[Json]]] = [
        ("date", "2026-11-21", [["2026-11-21"], ["date", ["2026-11-21"]]]),
        ("tolerance:1", 5, ["1", ["tolerance", "1"]]),
        ("regex:.", "x", [[], ["regex", []]]),
    ]
    for rule, value, others in lookalikes:
        assert not any(same(rule, value, other) for other in others)


# --- properties


_SCALAR = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.5, 2.25])
_TEXT = st.sampled_from(["", "a", "A ", "./a", "[1, 2]", '{"x": 1}', "2026-11-21", "20261121"])
_JSON = st.recursive(
    _SCALAR | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2)
    ),
    max_leaves=6,
)
_RULES = st.lists(
    st.builds(
        "{}={}".format,
        st.sampled_from(["*", "*.x", "*[0]", "*[*]", "*.**", "*.x.**.y", "*.x[*]", "*.**[*]"]),
        st.sampled_from(
            "ignore casefold trim path set date json tolerance:1 tolerance:50% regex:(.?).*".split()
        ),
    ),
    max_size=4,
).map(rules_from)


@given(_RULES, _JSON, _JSON)
@example(rules_from(["*.x=tolerance:1"]), {"x": 1}, {"x": ["tolerance", "1"]})
def test_a_rule_only_ever_takes_differences_away(rules: Rules, ours: Json, theirs: Json) -> None:
    place = arguments_of("a", rules)
    assert alike(ours, ours, place)
    assert alike(ours, theirs, place) == alike(theirs, ours, place)
    if digests.same(ours, theirs):
        assert alike(ours, theirs, place)


@given(st.permutations([0.5, 1, "a", "A", [2], {"x": 1}]), st.permutations(["x", "y"]))
def test_the_order_of_keys_and_of_sets_does_not_matter(values: list[Json], keys: list[str]) -> None:
    place = arguments_of("a", rules_from(["a.*=set", "a.**=tolerance:0.1"]))
    given_as = counted(dict.fromkeys(keys, values), place)
    assert given_as.like(counted({"x": sorted(values, key=repr), "y": values}, place))


_WHEN = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))
_ZONE = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(_WHEN, _WHEN, _ZONE, _ZONE)
def test_an_instant_is_the_same_in_whatever_zone_it_is_told(
    at: datetime, other: datetime, here: timezone, there: timezone
) -> None:
    told = dated(at.astimezone(here).isoformat())
    assert told is not None
    assert told == dated(str(at.astimezone(there)))
    assert (told == dated(other.astimezone(there).isoformat())) is (at == other)


_NUMBERS = st.lists(st.integers(0, 6), max_size=5)


@given(_NUMBERS, _NUMBERS)
def test_as_many_near_values_as_can_be_find_a_partner(ours: list[int], theirs: list[int]) -> None:
    def near(numbers: list[int]) -> list[Counted]:
        return [Counted("", (Near(Fraction(each), "1"),)) for each in numbers]

    def most(left: tuple[int, ...], right: tuple[int, ...]) -> int:
        if not left:
            return 0
        options = (at for at, each in enumerate(right) if abs(each - left[0]) <= 1)
        seated = (1 + most(left[1:], right[:at] + right[at + 1 :]) for at in options)
        return max([most(left[1:], right), *seated])

    pairs = likeness.pairs(near(ours), near(theirs))
    assert len(pairs) == most(tuple(ours), tuple(theirs))
    assert all(abs(ours[row] - theirs[column]) <= 1 for row, column in pairs)
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
