"""Formats in general: sniffing, native round trips, chat lists, tau-bench, bad files."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay import formats
from replay.errors import BadTrace
from replay.formats import arc, common
from replay.formats.source import Source, Tally, decode
from replay.trace import Batch, Message, ModelCall, ToolCall
from tests.replay.test_store import batch, spans
from tests.shared import DATA, needs_shared


def load(path: Path, **options: Any) -> tuple[list[Batch], Tally]:
    tally = Tally()
    return list(formats.load(Source(path), tally, **options)), tally


def written(path: Path, value: Any) -> Path:
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is order 7?\nThanks"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get", "arguments": '{"id": 7}'}},
            {"id": "b", "type": "function", "function": {"name": "get", "arguments": "{nope"}},
        ],
    },
    {"role": "tool", "tool_call_id": "b", "content": "bad arguments"},
    {"role": "tool", "tool_call_id": "a", "content": "shipped"},
    {"role": "tool", "tool_call_id": "z", "content": "who asked?"},
    {"role": "assistant", "content": "Shipped."},
]


def test_arc_1_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = b"".join(arc.write([batch(*spans()), batch(*spans(), source_id="second")]))
    found, tally = load(written(tmp_path / "x.jsonl", text))
    assert b"".join(arc.write(found)) == text
    assert tally.counts["traces"] == 2
    assert [one.header.source_id for one in found] == ["run-1", "second"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace(b"arc/1", b"arc/2"), "this arc reads arc/1"),
        (lambda text: text.replace(b'"kind":"end"', b'"kind":"end","x":1'), "unknown field"),
        (lambda text: text[:-20], "not closed|not arc/1"),
        (lambda text: re.sub(rb'"context":\d+', b'"context":99', text), "refers to"),
    ],
)
def test_arc_1_that_cannot_be_read_whole_is_refused(change: Any, why: str, tmp_path: Path) -> None:
    text = change(b"".join(arc.write([batch(*spans())])))
    with pytest.raises(BadTrace, match=why):
        load(written(tmp_path / "x.jsonl", text))


def test_a_chat_is_one_call_an_answer_and_results_find_their_calls(tmp_path: Path) -> None:
    (one,), tally = load(written(tmp_path / "chat.json", CHAT))
    models = [span for span in one.spans if isinstance(span, ModelCall)]
    tools = [span for span in one.spans if isinstance(span, ToolCall)]
    assert [call.place.message for call in models] == [2, 6]
    assert models[0].request.system is not None
    assert [call.request.context.depth for call in models if call.request.context] == [1, 5]
    assert [(call.call_id, call.arguments, call.arguments_raw) for call in tools] == [
        ("a", {"id": 7}, None),
        ("b", None, "{nope"),
        ("z", None, None),
    ]
    assert [call.asked_by for call in tools] == [models[0].id, models[0].id, None]
    assert tools[2].extra == {"orphan": "result"}
    assert one.header.title == "Where is order 7?"
    assert tally.problems[0].why == "a result of 'z' belongs to no call"


def test_a_file_may_hold_several_chats_in_a_list_or_one_a_line(tmp_path: Path) -> None:
    chats = [CHAT, {"id": "named", "messages": CHAT[:2] + CHAT[-1:], "model": "gpt-4o"}]
    whole, _ = load(written(tmp_path / "a.json", chats))
    lines, _ = load(written(tmp_path / "b.jsonl", "\n".join(map(json.dumps, chats)).encode()))
    assert [one.header.source_id for one in whole] == [one.header.source_id for one in lines]
    assert whole[1].header.source_id == "named"


GROUP = [
    {"content": "When did it first cost 50?", "role": "human"},
    {"content": "Plan: search {first}.", "role": "Orchestrator (thought)"},
    {"content": "Please search.", "role": "Orchestrator (-> WebSurfer)"},
    {"content": "I typed it.", "role": "WebSurfer"},
]


def lines(*values: Any) -> bytes:
    return "\n".join(map(json.dumps, values)).encode()


@pytest.mark.parametrize("chat", [CHAT, GROUP], ids=["assistant", "group"])
@pytest.mark.parametrize(
    ("many", "value"),
    [
        (1, lambda chat: chat),
        (1, lambda chat: json.dumps(chat, indent=2).encode()),
        (1, lambda chat: b"\xef\xbb\xbf" + json.dumps(chat).encode()),
        (1, lambda chat: lines(chat)),
        (1, lambda chat: lines(*chat)),
        (1, lambda chat: {"model": "m", "messages": chat}),
        (1, lambda chat: {"task": {"n": [1]}, "messages": chat}),
        (2, lambda chat: [chat, chat[:-1]]),
        (2, lambda chat: [{"messages": chat}, {"messages": chat[:-1]}]),
        (2, lambda chat: lines(chat, chat[:-1])),
        (2, lambda chat: lines({"messages": chat}, {"id": "b", "messages": chat[:-1]})),
    ],
    ids=[
        "list", "indented", "marked", "one line", "a message a line", "object", "after a list",
        "lists", "objects", "lists by line", "objects by line",
    ],
)  # fmt: skip
def test_a_bare_list_of_messages_is_read_in_every_wrapping(
    tmp_path: Path, chat: Any, many: int, value: Any
) -> None:
    source = Source(written(tmp_path / "chat.json", value(chat)))
    claims = [found.NAME for found in formats.formats() if found.sniff(source.head)]
    assert claims == ["chat"]
    found, tally = load(source.path)
    assert len(found) == many == tally.counts["traces"]
    (bare,), _ = load(written(tmp_path / "bare.json", chat))
    assert [span.id for span in found[0].spans] == [span.id for span in bare.spans]
    assert found[0].header.title == bare.header.title is not None


@pytest.mark.parametrize("name", ["history", "conversation", "trajectory"])
def test_a_list_of_messages_under_a_name_of_its_own_is_read(tmp_path: Path, name: str) -> None:
    (one,), _ = load(written(tmp_path / "one.json", {"model": "gpt-4o", name: CHAT}))
    assert next(span for span in one.spans if isinstance(span, ModelCall)).request.model == "gpt-4o"
    two, _ = load(written(tmp_path / "two.json", {"model": "m", "a": CHAT, "b": CHAT[:3]}))
    assert [len(each.spans) for each in two] == [6, 4]


def test_a_first_message_may_be_longer_than_what_a_sniffer_sees(tmp_path: Path) -> None:
    long = {"content": 'You "help". ' * 10_000, "role": "system"}
    (one,), _ = load(written(tmp_path / "chat.json", [long, *CHAT[1:]]))
    assert len(one.spans) == 6


def test_in_a_group_chat_every_message_is_a_step_of_its_speaker(tmp_path: Path) -> None:
    (one,), tally = load(written(tmp_path / "group.json", GROUP))
    calls = [span for span in one.spans if isinstance(span, ModelCall)]
    assert [call.agent for call in calls] == [each["role"] for each in GROUP]
    assert [call.place.message for call in calls] == [0, 1, 2, 3]
    assert [call.request.context.depth if call.request.context else 0 for call in calls] == [
        0, 1, 2, 3,
    ]  # fmt: skip
    assert one.header.title == "When did it first cost 50?"
    assert tally.problems == []


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "admin", "user": "ann"}],
        {"role": "admin", "content": "all"},
        [{"content": "a page", "source": "x"}],
        {"messages": [{"text": "hi", "from": "ann"}]},
        [[1, 2], {"role": "admin"}],
    ],
)
def test_what_is_no_list_of_messages_is_left_alone(tmp_path: Path, value: Any) -> None:
    assert formats.sniff(Source(written(tmp_path / "other.json", value))) is None


def test_compressed_files_and_standard_names_do_not_matter(tmp_path: Path) -> None:
    plain, _ = load(written(tmp_path / "chat.whatever", CHAT))
    packed, _ = load(written(tmp_path / "c.gz", gzip.compress(json.dumps(CHAT).encode())))
    assert plain[0].header.source_id == packed[0].header.source_id


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"  \n ", "is empty"),
        (b"\x00\x01\x02\x03" * 50, "is binary"),
        (b"hello there", "not in a known format"),
        (b'{"a": 1}', "not in a known format"),
        (json.dumps(CHAT).encode()[:-40], "it is truncated"),
        (gzip.compress(json.dumps(CHAT).encode() * 200)[:-30], "is truncated|decompressed"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_and_where(
    data: bytes, why: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "x.json", data)
    with pytest.raises(BadTrace, match=why) as caught:
        load(path)
    assert str(path) in caught.value.message


@pytest.mark.slow
def test_a_gigabyte_on_one_line_is_refused_before_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as out:
        out.write(b'{"kind":"trace","format":"arc/1","x":"')
        out.truncate(1 << 30)
    with pytest.raises(BadTrace, match="line 1: is longer than 128 MiB"):
        load(path)


def test_odd_json_is_mended_not_refused() -> None:
    assert decode(b'{"a": NaN, "b": "\\ud800x", "c": 1e999}', "x", "") == {
        "a": None,
        "b": "\ufffdx",
        "c": None,
    }


def test_depth_beyond_reason_is_an_error_not_a_crash() -> None:
    with pytest.raises(BadTrace, match=r"nested too deeply|not JSON"):
        decode(b"[" * 100_000 + b"]" * 100_000, "x", "")


@given(
    data=st.binary(max_size=300)
    | st.sampled_from([b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_traces_or_a_sentence(data: bytes, tmp_path: Path) -> None:
    assert all(one.header.source_id for one in given_back(written(tmp_path / "x", data)))


def given_back(path: Path, **options: Any) -> list[Batch]:
    """What a file gives; nothing where it is refused with a sentence. Anything else is a crash."""
    try:
        return load(path, **options)[0]
    except BadTrace:
        return []


TEMPLATES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["x", "assistant", "tool"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "tool_calls", "function", "type", "traj", "info"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(value=TEMPLATES, name=st.sampled_from(["arc", "tau-bench", "chat"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_forced_into_a_format_gives_traces_or_a_sentence(
    value: Any, name: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "x.json", [value, {"role": "user", "content": value}])
    found = given_back(path, format=formats.named(name))
    assert all(one.header.source_id for one in found)


def test_task_from_reads_the_path(tmp_path: Path) -> None:
    (tmp_path / "shop-7").mkdir()
    path = written(tmp_path / "shop-7" / "t2.json", CHAT)
    (one,), _ = load(path, task_from=r"(?P<task>shop-\d+)/t(?P<trial>\d)")
    assert (one.header.task, one.header.trial) == ("shop-7", "2")
    with pytest.raises(BadTrace, match="not a regular expression"):
        load(path, task_from="(")


@needs_shared
def test_tau_bench_runs_carry_task_trial_reward_and_gold_actions() -> None:
    found, tally = load(DATA / "tau_bench" / "gpt-4o-airline.json")
    expected = json.loads((DATA / "expected.json").read_text())["tau_bench/gpt-4o-airline.json"]
    assert {name: tally.counts[name] for name in expected if name != "format"} == {
        name: value for name, value in expected.items() if name != "format"
    }
    airline = next(one for one in found if one.header.item == "26/1")
    assert airline.header.outcome.status == "failed"
    assert airline.header.reference is not None
    assert sum(isinstance(span, ModelCall) for span in airline.spans) == 20


# --- stop reasons


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("stop", "end"), ("STOP", "end"), ("FinishReason.STOP", "end"), ("end-turn", "end"),
        ("<FinishReason.MAX_TOKENS: 'MAX_TOKENS'>", "length"), ("max_output_tokens", "length"),
        ("toolUse", "tool"), ("TOOL_USE", "tool"), ("tool-calls", "tool"), ("ToolCalls", "tool"),
        ("types.FinishReason.SAFETY", "filter"), ("content-filter", "filter"),
        ("FINISH_REASON_STOP", "end"), ("completed", "end"), ("MALFORMED_FUNCTION_CALL", "error"),
        ("unknown", None), ("other", None), ("FINISH_REASON_UNSPECIFIED", None), ("", None),
        (1, None), (None, None), ("stop" * 99, None), ("a sentence. stop", None),
    ],
)  # fmt: skip
def test_a_stop_reason_is_known_however_it_is_written(raw: Any, found: str | None) -> None:
    assert common.stop(raw) == found


def test_an_answer_that_calls_a_tool_did_not_end_there() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asks = Message(dialect="openai", body={"role": "assistant", "tool_calls": [call]})
    says = Message(dialect="openai", body={"role": "assistant", "content": "Done."})
    assert (common.stop("STOP", asks), common.stop("STOP", says)) == ("tool", "end")
    assert (common.stop("MAX_TOKENS", asks), common.stop(None, asks)) == ("length", None)
    item = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    told = common.response({"object": "response", "status": "completed", "output": [item]})
    assert (told.stop, told.stop_raw) == ("tool", "completed")
