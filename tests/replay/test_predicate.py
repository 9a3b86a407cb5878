"""What is expected of an answer: read from a text, and tried on what it does."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.action import Act, Action
from replay.predicate import BadPredicate, Unmet, predicate

LOOKS = Act(
    tool="get_order",
    arguments={"order_id": "1049", "n": 1.0, "items": [{"sku": "a b"}, {"sku": "c", "n": 3}]},
)
REFUNDS = Act(tool="refund_order", arguments={"amount": 50, "late": True})
BOTH = Action(calls=(LOOKS, REFUNDS), text="I look, then refund.")
SPEAKS = Action(text="Which order do you mean?")


def met(text: str, action: Action = BOTH) -> bool | None:
    return predicate(text).met(action)


class TestFields:
    @pytest.mark.parametrize(
        ("text", "both", "speaks"),
        [
            ("tool=get_order", True, False),
            ("tool~^get_", True, False),
            ("tool=none", False, True),
            ("not tool=none", True, False),
            ('tool="none"', False, False),
            ("tool!=refund_order", False, True),
            ("not tool=cancel", True, True),
            ("calls=2", True, False),
            ("calls<1 or calls>1", True, True),
            ("text~/look, /", True, False),
            ("text~which", False, False),
            ("text~(?i)which", False, True),
        ],
    )
    def test_each_says_what_it_seems_to_say(self, text: str, both: bool, speaks: bool) -> None:
        assert (met(text), met(text, SPEAKS)) == (both, speaks)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("args.order_id=1049", True),
            ('args.order_id="1049"', True),
            ("args.n=1", True),
            ('args.n="1"', False),
            ("args.late=1", False),
            ("args.late=true", True),
            ('args.items[0].sku="a b"', True),
            ("args.items[*].sku=c", True),
            ("args.**.sku=c", True),
            ("args.**.n=3", True),
            ('args.items=[{"sku":"a b"},{"n":3.0,"sku":"c"}]', True),
            ('args={"late":true,"amount":50.0}', True),
            ("args.order_id~^10", True),
            ("args.amount<=50", True),
            ("args.amount>50", False),
            ("args.order_id<2000", False),
            ("args.gone=1", False),
            ("args.gone!=1", True),
        ],
    )
    def test_arguments_are_found_by_path_and_compared_as_json(
        self, text: str, expected: bool
    ) -> None:
        assert met(text) is expected

    def test_the_value_of_a_masked_place_is_not_known(self) -> None:
        masked = Act(tool="login", arguments={"key": "[[SECRET:key:0a1b2c3d]]"})
        assert met("args.key=1", Action(calls=(masked,))) is None
        assert met("tool=login", Action(calls=(masked,))) is True

    def test_arguments_that_did_not_parse_hold_no_value(self) -> None:
        broken = Act(tool="get_order", arguments=None, raw="{order")
        assert met("tool=get_order", Action(calls=(broken,))) is True
        assert met("args.order_id=1049", Action(calls=(broken,))) is False


class TestJoined:
    def test_arguments_are_those_of_the_tool_before_them(self) -> None:
        assert met("tool=refund_order, args.amount=50") is True
        assert met("tool=get_order, args.amount=50") is False
        assert met("tool=get_order, args.n=1 and tool=refund_order, args.amount=50") is True

    def test_what_is_not_said_of_one_call_holds_for_that_call(self) -> None:
        assert met("tool=refund_order, args.amount!=50") is False
        assert met("tool=get_order, args.amount!=50") is True

    def test_alone_it_holds_for_all_calls(self) -> None:
        assert met("args.amount!=50") is False
        assert met("args.amount!=51") is True

    def test_of_rows_one_is_enough(self) -> None:
        assert met("tool=cancel or tool=none or tool=get_order and args.n=1") is True
        assert met("tool=cancel or tool=none") is False

    def test_a_run_that_is_not_over_may_still_do_what_it_has_not_done(self) -> None:
        def so_far(text: str) -> bool | None:
            return predicate(text).met(BOTH, whole=False)

        assert so_far("tool=get_order") is True
        assert so_far("tool!=refund_order") is False
        assert so_far("tool=cancel") is None
        assert so_far("tool!=cancel") is None
        assert so_far("text~look") is None
        assert so_far("tool=none") is False


class TestReading:
    @pytest.mark.parametrize(
        ("text", "place", "said"),
        [
            ("", 1, "condition missing"),
            ("tol=x", 1, "did you mean 'tool'?"),
            ("order_id=5", 1, "known: tool, args.PATH, text, calls"),
            ("tool", 5, "no condition"),
            ("tool=", 6, "value missing"),
            ("tool=a tool=b", 8, "does not follow an operator"),
            ("tool=a and", 11, "condition missing"),
            ("args.a~/(/", 8, "not a regular expression"),
            ("calls=x", 7, "'x' is not a number"),
            ("args.n<z", 8, "'z' is not a number"),
            ('text="a', 6, "has no closing quote"),
            ("args.a=[1", 8, "is not valid JSON"),
            ("args.a..b=1", 7, "no condition"),
        ],
    )
    def test_what_cannot_be_read_is_told_with_its_place(
        self, text: str, place: int, said: str
    ) -> None:
        with pytest.raises(BadPredicate) as caught:
            predicate(text)
        assert f"character {place}:" in str(caught.value)
        assert said in str(caught.value)

    @given(st.text(max_size=40))
    def test_any_text_is_read_or_told_why_not(self, text: str) -> None:
        with suppress(BadPredicate):
            assert predicate(text).met(BOTH) in (True, False, None)

    @given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
    def test_arguments_meet_their_own_json(self, arguments: dict[str, int | str]) -> None:
        said = f"args={msgspec.json.encode(arguments).decode()}"
        assert met(said, Action(calls=(Act(tool="any", arguments=arguments),))) is True

    def test_a_tool_that_is_not_offered_is_a_slip(self) -> None:
        predicate("tool=get_order, tool~other").check({"get_order"})
        with pytest.raises(BadPredicate, match="did you mean 'get_order'"):
            predicate("tool=get_oder").check({"get_order", "refund_order"})


def test_as_a_detector_what_is_not_met_is_bad_and_a_cut_answer_tells_nothing() -> None:
    detector = Unmet(predicate("tool=get_order"), 3)
    assert (detector.shows(BOTH), detector.shows(SPEAKS)) == (False, True)
    assert detector.shows(Action(cut="cut at the token limit")) is None
    assert (detector.step, detector.name) == (3, "does not meet tool=get_order")
