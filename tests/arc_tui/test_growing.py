"""Which traces are under way: when one is over, and what is let go where too much is held."""

from __future__ import annotations

from arc_tui.features.record.live import QUIET_S, SILENT_S, Traces
from replay.formats.genai.records import Event, Log, RawSpan


def child(trace: str, name: str = "1") -> RawSpan:
    return RawSpan(trace=trace, id=name, parent="a", name="chat", start_ns=1, end_ns=2)


def root(trace: str) -> RawSpan:
    return RawSpan(trace=trace, id="a", name="agent", start_ns=1, end_ns=3)


def test_a_trace_is_over_a_while_after_its_root_and_not_before() -> None:
    traces = Traces()
    traces.add([child("t"), root("t")], 0.0)
    assert traces.over(QUIET_S - 1) == []
    (grown,) = traces.over(QUIET_S)
    assert (grown.name, grown.over) == ("t", True)
    assert traces.over(10 * SILENT_S) == []


def test_a_late_span_makes_it_wait_again() -> None:
    traces = Traces()
    traces.add([root("t")], 0.0)
    traces.add([child("t")], QUIET_S - 1)
    assert traces.over(QUIET_S) == []
    assert [len(each.records()[0]) for each in traces.over(2 * QUIET_S)] == [2]


def test_a_trace_without_a_root_is_over_after_a_long_silence_alone() -> None:
    traces = Traces()
    traces.add([child("t")], 0.0)
    assert traces.over(SILENT_S - 1) == []
    assert [each.name for each in traces.over(SILENT_S)] == ["t"]


def test_only_what_got_something_new_is_handed_out_and_always_whole() -> None:
    traces = Traces()
    traces.add([child("s"), child("t")], 0.0)
    assert sorted(each.name for each in traces.arrived()) == ["s", "t"]
    assert traces.arrived() == []
    traces.add([child("t", "2")], 1.0)
    (grown,) = traces.arrived()
    assert [span.id for span in grown.records()[0]] == ["1", "2"]


def test_what_was_done_with_the_records_does_not_change_them() -> None:
    traces = Traces()
    traces.add([child("t")], 0.0)
    (grown,) = traces.arrived()
    grown.records()[0][0].attributes["more"] = 1
    assert grown.records()[0][0].attributes == {}


def test_where_too_much_is_held_the_most_silent_trace_is_let_go() -> None:
    traces = Traces(budget_bytes=1)
    traces.add([child("old")], 0.0)
    assert [each.name for each in traces.over(0.5)] == ["old"]
    roomy = Traces(budget_bytes=200)
    roomy.add([child("old")], 0.0)
    for number in range(5):
        roomy.add([child("new", str(number))], 1.0 + number)
    assert next(each.name for each in roomy.over(7.0)) == "old"


def test_an_event_of_a_session_belongs_to_it_and_one_of_nothing_is_left_out() -> None:
    traces = Traces()
    event = Event("claude_code.api_request", {"session.id": "s-1"})
    traces.add([Log(event=event), Log(event=Event("other"))], 0.0)
    (grown,) = traces.all_over()
    assert grown.name == "session:s-1"
    assert len(grown.records()[1]) == 1
