"""OTLP files: a document, lines, protobuf in its framings; broken ones; large ones in pieces.

The captures in the shared data are read in every encoding they have and give the same traces. What
no capture shows is written here after the protocol's own schema.
"""

from __future__ import annotations

import base64
import gc
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay import formats
from replay.errors import BadTrace
from replay.formats import otlp
from replay.formats.genai import records
from replay.formats.otlp import exports
from replay.formats.otlp import json as otlp_json
from replay.formats.otlp.exports import Ends
from replay.formats.source import Head, Source, Tally
from replay.messages import text
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Level
from tests.replay.kinds import models, seen
from tests.replay.otlp_case import (
    AGENT,
    ANSWER,
    FIRST,
    LAST,
    RUN,
    TRACE,
    USER,
    Value,
    chat,
    hexed,
    logs,
    read,
    record,
    span,
    spans,
    written,
)
from tests.shared import DATA, needs_shared

SAMPLES = DATA / "formats" / "otlp"
QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def told(batches: list[Batch]) -> Any:
    """What traces say, but for where it stood."""
    return [
        [
            (type(each).__name__, each.id, each.parent, each.name, each.start_ns, each.end_ns,
                 each.status, each.error, each.extra)
            for each in batch.spans
        ]
        + [
            (seen(ask), ask.usage, ask.cost, ask.request.params, ask.request.tools, ask.fidelity,
             ask.response.message and text(ask.response.message))
            for ask in models(batch)
        ]
        for batch in batches
    ]  # fmt: skip


def in_trace(trace: int, *found: Value) -> list[Value]:
    return [{**each, "traceId": f"{trace:032x}"} for each in found]


# --- encodings


@needs_shared
@pytest.mark.parametrize(
    "name",
    [
        "genai_v1.36_events", "genai_v1.41", "genai_next_cache_write", "openinference_flat",
        "traceloop_openllmetry_flat", "anthropic_sdk_2.11_tool_runner",
    ],
)  # fmt: skip
def test_a_capture_says_the_same_in_every_encoding(name: str) -> None:
    pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="opentelemetry-proto")
    lines, tally = read(SAMPLES / f"{name}.jsonl")
    assert tally.problems == []
    for suffix in ("pretty.json", "pb", "framed.pb"):
        path = SAMPLES / f"{name}.{suffix}"
        if path.exists():
            assert told(read(path)[0]) == told(lines), suffix


@needs_shared
@pytest.mark.parametrize(
    ("name", "spans", "calls", "tokens"),
    [
        ("genai_v1.36_events", 1, 1, (120, 17)),
        ("genai_v1.41", 4, 2, (3000, 100)),
        ("genai_next_cache_write", 4, 2, (3000, 100)),
        ("openinference_flat", 3, 1, (1500, 50)),
        ("traceloop_openllmetry_flat", 1, 1, (120, 17)),
        ("anthropic_sdk_2.11_tool_runner", 5, 2, (3102, 72)),
    ],
)
def test_captures_are_read_whole(
    name: str, spans: int, calls: int, tokens: tuple[int, int]
) -> None:
    (batch,), tally = read(SAMPLES / f"{name}.jsonl")
    counts = tally.counts
    assert (counts["traces"], counts["spans"], counts["model_calls"]) == (1, spans, calls)
    assert (counts["input_tokens"], counts["output_tokens"]) == tokens
    assert (dict(tally.unknown), tally.problems) == ({}, [])
    assert all(ask.request.context is not None for ask in models(batch))


@needs_shared
def test_the_anthropic_sdk_s_second_request_is_put_after_its_first() -> None:
    (batch,), _ = read(SAMPLES / "anthropic_sdk_2.11_tool_runner.jsonl")
    first, second = models(batch)
    assert [role for role, _ in seen(second)] == ["user", "assistant", "tool", "tool"]
    assert second.request.system is first.request.system
    assert first.usage is not None
    assert (first.usage.cache_write_tokens, first.usage.cache_write_1h_tokens) == (1500, 0)


@needs_shared
def test_every_capture_is_claimed_by_this_format_alone() -> None:
    for path in sorted(SAMPLES.iterdir()):
        head = Source(path).head
        assert [found.NAME for found in formats.formats() if found.sniff(head)] == ["otlp"]


@needs_shared
@pytest.mark.slow
def test_files_of_other_tools_are_not_claimed() -> None:
    others = (p for p in DATA.rglob("*") if p.is_file() and "otlp" not in p.parts[len(DATA.parts)])
    claimed = [
        str(path) for path in others if "otlp" not in path.parts and otlp.sniff(Source(path).head)
    ]
    assert claimed == []


def test_metrics_alone_and_records_of_no_agent_are_said_to_be_nothing(tmp_path: Path) -> None:
    metrics = b'{"resourceMetrics": [{"scopeMetrics": []}]}\n'
    assert not otlp.sniff(Head(name="m.json", data=metrics))
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(logs(record("browser.page_view", {}))) + "\n")
    with pytest.raises(BadTrace, match="none of a model call"):
        read(path)
    with pytest.raises(BadTrace, match="none of its spans is of a model, a tool or an agent"):
        written(path, spans(span("http", 1)))


def test_traces_metrics_and_logs_may_share_a_file_and_other_services_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    http = in_trace(9, span("http", 1))
    (batch,) = written(path, {"resourceMetrics": []}, spans(AGENT, FIRST, *http), spans(RUN, LAST))
    _, tally = read(path)
    assert len(models(batch)) == 2
    assert (tally.counts["traces_of_no_agent"], tally.counts["metrics_exports"]) == (1, 1)


def test_ids_are_one_in_any_case_and_in_base64(tmp_path: Path) -> None:
    upper = {**RUN, "traceId": TRACE.upper(), "spanId": hexed("run").upper()}
    in_base64 = base64.b64encode(bytes.fromhex(TRACE)).decode()  # as generic encoders write it
    generic = {**LAST, "traceId": in_base64}
    zeros = {**FIRST, "parentSpanId": "0000000000000000"}
    (batch,) = written(tmp_path / "x.jsonl", spans(zeros, upper, generic))
    assert [each.id for each in batch.spans] == [hexed("ask"), hexed("run"), hexed("say")]
    assert batch.spans[0].parent is None


def test_numbers_may_be_numbers_or_texts(tmp_path: Path) -> None:
    lax = {
        **FIRST,
        "startTimeUnixNano": int(FIRST["startTimeUnixNano"]),
        "kind": "SPAN_KIND_CLIENT",
        "attributes": [
            *FIRST["attributes"],
            {"key": "n", "value": {"intValue": 5}},
            {"key": "f", "value": {"doubleValue": "NaN"}},
            {"key": "big", "value": {"intValue": str(2**70)}},
            {"key": "empty", "value": {}},
        ],
    }
    (batch,) = written(tmp_path / "x.jsonl", spans(lax))
    (ask,) = models(batch)
    assert ask.start_ns == int(FIRST["startTimeUnixNano"])
    assert ask.extra["attributes"] == {"n": 5, "f": None, "big": str(2**70), "empty": None}


# --- documents of many lines


def test_a_document_is_read_piece_by_piece_however_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = spans(AGENT, FIRST, RUN, LAST, service="größer 🦉 ]}{")
    path = tmp_path / "x.json"
    path.write_text(json.dumps(request, indent=2, ensure_ascii=False), encoding="utf-8")
    whole = told(written(tmp_path / "lines.jsonl", request))
    for size in (7, 64, 1000):
        monkeypatch.setattr(otlp_json, "CHUNK_BYTES", size)
        found, tally = read(path)
        assert told(found) == whole
        assert found[0].header.labels["service"] == "größer 🦉 ]}{"
        assert tally.problems == []


def test_a_document_that_breaks_off_keeps_the_spans_before(tmp_path: Path) -> None:
    text = json.dumps(spans(AGENT, FIRST, RUN, LAST), indent=1)
    path = tmp_path / "x.json"
    path.write_text(text[: text.index('"say"')])
    (batch,), tally = read(path)
    assert len(batch.spans) == 3
    assert [(each.where, each.why) for each in tally.problems] == [
        ("after 3 records", "is not JSON: it is truncated")
    ]
    path.write_text(text[: text.index('"agent"')])
    with pytest.raises(BadTrace, match="it is truncated"):
        read(path)


# --- lines


def test_fields_the_protocol_does_not_have_are_counted_and_cost_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    written(path, {**spans({**FIRST, "novel": {"x": 1}}, RUN), "extra": 1}, spans(AGENT))
    (batch,), tally = read(path)
    assert len(batch.spans) == 3
    assert tally.unknown == {"Span novel": 1, "Request extra": 1}
    assert tally.problems == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({**RUN, "name": 5}, "is not valid OTLP: .*name"),
        ({**RUN, "attributes": {"a": 1}}, "is not valid OTLP: .*attributes"),
        ({**RUN, "attributes": [{"key": "x", "value": {"arrayValue": 5}}]}, "arrayValue"),
        ({**RUN, "spanId": ""}, "a span has no id"),
        ({**RUN, "traceId": None}, "a span has no id"),
        (7, "is not valid OTLP"),
    ],
)
def test_a_span_of_another_shape_is_a_problem_and_the_others_are_read(
    value: Any, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(spans(AGENT, value, FIRST)) + "\n")
    (batch,), tally = read(path)
    assert len(models(batch)) == 1
    assert [each.where for each in tally.problems] == ["line 1"]
    assert re.search(why, tally.problems[0].why)


def test_a_line_still_being_written_is_a_problem_and_a_file_of_none_else_is_bad(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    line = json.dumps(spans(AGENT, FIRST))
    path.write_text(f"{line}\n{line[:200]}")
    (batch,), tally = read(path)
    assert (len(batch.spans), tally.problems[0].where) == (3, "line 2")


def test_odd_texts_are_mended(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    line = json.dumps(spans(span("ask", 1, None, chat([USER], ANSWER, odd="LONE"))))
    path.write_text(line.replace("LONE", "\\ud800") + "\n")
    (batch,), _ = read(path)
    assert models(batch)[0].extra["attributes"] == {"odd": "\ufffd"}
    path.write_text(json.dumps(json.loads(line), indent=1).replace("LONE", "\\ud800"))
    (batch,), _ = read(path)
    assert models(batch)[0].extra["attributes"] == {"odd": "\ufffd"}


@pytest.mark.parametrize("depth", [150, 400, 5000])
def test_depth_beyond_reason_is_a_problem_not_a_crash(depth: int, tmp_path: Path) -> None:
    value = '{"arrayValue":{"values":[' * depth + "]}}" * depth
    line = json.dumps(spans(AGENT, FIRST, span("deep", 2, "agent", {"x": "DEEP"})))
    path = tmp_path / "x.jsonl"
    path.write_text(line.replace('{"stringValue": "DEEP"}', value) + "\n" + line + "\n")
    (batch,), tally = read(path)
    stored([batch])
    assert [each.name for each in models(batch)] == ["ask"]
    assert any("deep" in each.why for each in tally.problems) == (depth > 150)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("gen_ai.output.messages", Level.EXACT),  # an answer is no part of what was asked
        ("gen_ai.tool.definitions", Level.PARTIAL),
        ("gen_ai.input.messages", Level.NONE),
    ],
)
@pytest.mark.parametrize("depth", [250, 5000])
def test_a_text_of_json_beyond_reason_is_a_text(
    name: str, level: Level, depth: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    given = {**chat([USER], ANSWER), name: "[" * depth + "]" * depth}
    written(path, spans(AGENT, FIRST, span("deep", 4, "agent", given)))
    (batch,), tally = read(path)
    stored([batch])
    first, deep = models(batch)
    assert (first.fidelity.level, deep.fidelity.level) == (Level.EXACT, level)
    assert tally.problems == []


def test_parents_that_go_in_circles_end_somewhere(tmp_path: Path) -> None:
    circle = [span("a", 1, "b", chat([USER], ANSWER)), span("b", 1, "a"), span("c", 2, "c")]
    (batch,) = written(tmp_path / "x.jsonl", spans(*circle))
    with Store.open(":memory:") as store:
        writer = Writer(store)
        assert writer.finish(writer.write(batch)).steps == 1


# --- streaming


def test_a_trace_is_handed_on_once_no_later_line_names_it(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = [
        spans(*in_trace(1, FIRST), *in_trace(2, FIRST)),
        spans(*in_trace(1, AGENT)),
        spans(*in_trace(3, AGENT, FIRST)),
        spans(*in_trace(2, AGENT)),
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    tally = Tally()
    order = []
    for batch in formats.load(Source(path), tally):
        order.append((int(batch.header.source_id, 16), tally.counts["spans"]))
        assert len(batch.spans) == 3
    assert order == [(1, 2), (3, 4), (2, 6)]


def test_text_that_looks_like_the_name_of_a_trace_delays_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    trap = json.dumps({"traceId": f"{1:032x}"})
    lines = [spans(*in_trace(1, FIRST)), spans(*in_trace(2, span("a", 1, None, {"x": trap})))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ends = Ends(Source(path))
    assert [*ends.reached(1)] == [f"{1:032x}"]


def test_traces_that_do_not_fit_in_memory_wait_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    found = [in_trace(number, FIRST, RUN, LAST, AGENT) for number in range(1, 9)]
    lines = [spans(*several) for several in zip(*found, strict=True)]
    whole = written(path, *lines)
    told_whole = told(whole)
    monkeypatch.setattr(records.Held.__init__, "__defaults__", (3000,))
    again, tally = read(path)
    assert told(again) == told_whole
    assert len(again) == 8
    assert tally.problems == []


def test_a_long_line_is_read_span_by_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    request = spans(AGENT, {**FIRST, "novel": 1}, {**RUN, "name": 5}, LAST)
    line = json.dumps({**request, **logs(record("gen_ai.choice", {}, "ask"))})
    path.write_text(line + "\n")
    monkeypatch.setattr(exports, "LINE_BYTES", len(line) + 2)
    short, short_tally = read(path)
    monkeypatch.setattr(exports, "LINE_BYTES", len(line) - 2)
    monkeypatch.setattr(exports, "RECORDS", 1)
    monkeypatch.setattr(exports, "by_line", lambda source: True)
    long, long_tally = read(path)
    assert told(long) == told(short)
    assert long_tally.unknown == short_tally.unknown == {"Span novel": 1}
    assert len(long_tally.problems) == len(short_tally.problems) == 1


def test_compressed_files_are_read_as_they_are(tmp_path: Path) -> None:
    plain = written(tmp_path / "x.jsonl", spans(AGENT, FIRST, RUN, LAST))
    data = (tmp_path / "x.jsonl").read_bytes()
    for name, packed in (("x.gz", gzip.compress(data)), ("x.zst", zstd.compress(data))):
        (tmp_path / name).write_bytes(packed)
        assert told(read(tmp_path / name)[0]) == told(plain)


# --- protobuf


def varint(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def text_value(value: str) -> bytes:
    return field(1, value.encode())


def pair(name: str, value: bytes) -> bytes:
    return field(1, name.encode()) + field(2, value)


def binary(name: str = "ask", trace: bytes = b"\x01" * 16, size: int = 0) -> bytes:
    """A request with one model span in protobuf, its fields by their numbers in the schema."""
    value = (
        field(1, trace)
        + field(2, name.encode().rjust(8, b"\0"))
        + field(5, name.encode())
        + b"\x39" + (5 * 10**9).to_bytes(8, "little")
        + b"\x41" + (6 * 10**9).to_bytes(8, "little")
        + field(9, pair("gen_ai.operation.name", text_value("chat")))
        + field(9, pair("gen_ai.input.messages", text_value(json.dumps([USER]))))
        + field(9, pair("pad", text_value("x" * size)))
    )  # fmt: skip
    resource = field(1, pair("service.name", text_value("shop")))
    return field(1, field(1, resource) + field(2, field(1, field(1, b"lib")) + field(2, value)))


def big(*found: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in found)


FRAMED = [
    pytest.param(lambda *f: b"".join(f), id="bare"),
    pytest.param(big, id="big"),
    pytest.param(lambda *f: b"".join(len(e).to_bytes(4, "little") + e for e in f), id="little"),
    pytest.param(lambda *f: b"".join(varint(len(e)) + e for e in f), id="delimited"),
    pytest.param(lambda *f: big(*map(zstd.compress, f)), id="compressed"),
]


@pytest.mark.parametrize("framed", FRAMED)
@pytest.mark.parametrize("size", [0, 300, 90_000])
def test_messages_are_found_in_every_framing(framed: Any, size: int, tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="opentelemetry-proto")
    path = tmp_path / "x.pb"
    path.write_bytes(framed(binary("ask", size=size), binary("say"), binary("b", b"\x02" * 16)))
    found, tally = read(path)
    assert [[each.name for each in models(batch)] for batch in found] == [["ask", "say"], ["b"]]
    assert tally.problems == []
    assert found[0].header.labels == {"service": "shop"}
    assert models(found[0])[0].duration_ns == 10**9
    assert seen(models(found[0])[0]) == [("user", "Where is order 7?")]


def test_json_behind_lengths_is_what_a_compressing_collector_writes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="opentelemetry-proto")
    lines = [json.dumps(each).encode() for each in (spans(FIRST, RUN), spans(LAST, AGENT))]
    path.write_bytes(big(*map(zstd.compress, lines)))
    (batch,), _ = read(path)
    assert len(batch.spans) == 4


@pytest.mark.parametrize("framed", FRAMED)
def test_a_binary_file_that_breaks_off_keeps_what_was_whole(framed: Any, tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="opentelemetry-proto")
    path = tmp_path / "x.pb"
    path.write_bytes(framed(binary("ask"), binary("say"))[:-5])
    (batch,), tally = read(path)
    assert [each.name for each in models(batch)] == ["ask"]
    assert [each.where for each in tally.problems] == ["after the last whole message"]


@pytest.mark.slow
def test_a_message_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="opentelemetry-proto")
    path = tmp_path / "x.pb"
    bomb = zstd.compress(b"\0" * (200 << 20))
    path.write_bytes(big(zstd.compress(binary()), bomb))
    (batch,), tally = read(path)
    assert len(batch.spans) == 1
    assert "decompresses to more than 1000 times its size" in tally.problems[0].why


@given(
    text=st.text('\n\n\n {}[]":,a', max_size=400),
    start=st.sampled_from(["", "\n", "\n\n\n", "\n{\n"]),
)
def test_a_text_is_never_taken_for_protobuf(text: str, start: str) -> None:
    head = Head(name="x", data=(start + text).encode())
    assert not otlp.sniff(head)
    assert not otlp.sniff(Head(name="x", data=head.data * 200))


# --- whatever comes


def given_back(path: Path) -> list[Batch]:
    """What a file gives; nothing where it is refused with a sentence."""
    try:
        return list(formats.load(Source(path), Tally(), format=otlp))
    except BadTrace:
        return []


def stored(found: list[Batch]) -> None:
    with Store.open(":memory:") as store:
        writer = Writer(store)
        for batch in found:
            writer.finish(writer.write(batch))


SEEDS = [
    json.dumps(spans(AGENT, FIRST, RUN, LAST)).encode(),
    json.dumps(spans(AGENT, FIRST, RUN, LAST), indent=1).encode(),
    binary() + binary("say"),
    big(binary(), binary("say")),
    big(zstd.compress(binary())),
]


@given(data=st.binary(max_size=200), seed=st.sampled_from([b"", b"\n", b"\x0a\x20\x0a", *SEEDS]))
@QUIET
def test_any_bytes_give_traces_or_a_sentence(data: bytes, seed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(seed + data)
    given_back(path)
    path.write_bytes(data + seed)
    given_back(path)


@given(
    seed=st.sampled_from(SEEDS),
    at=st.integers(0, 10**6),
    byte=st.integers(0, 255),
    end=st.integers(0, 10**6),
)
@QUIET
def test_a_file_with_a_byte_changed_or_cut_short_gives_traces_or_a_sentence(
    seed: bytes, at: int, byte: int, end: int, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    at %= len(seed)
    changed = seed[:at] + bytes([byte]) + seed[at + 1 :]
    path.write_bytes(changed)
    stored(given_back(path))
    path.write_bytes(seed[: end % len(seed)])
    stored(given_back(path))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "[", "[{"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["role", "parts", "type", "content", "id", "name", "arguments", "response",
             "tool_calls", "function", "key", "value", "stringValue", "kvlistValue", "values"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
NAMES = st.sampled_from(
    ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
     "gen_ai.tool.definitions", "gen_ai.tool.call.id", "gen_ai.tool.call.arguments",
     "gen_ai.tool.call.result", "gen_ai.usage.input_tokens", "gen_ai.response.finish_reasons",
     "gen_ai.prompt", "gen_ai.prompt.0.role", "gen_ai.prompt.0.content",
     "gen_ai.prompt.0.tool_calls.0.name", "gen_ai.completion.0.content", "gen_ai.request.model",
     "llm.input_messages.0.message.role", "llm.tools.0.tool.json_schema", "input.value",
     "annotations.0.annotation.name", "traceloop.entity.input", "gen_ai.agent.name",
     "gen_ai.response.id", "gen_ai.prompt.version", "session.id", "ai.prompt.messages",
     "llm.invocation_parameters", "gen_ai.usage.cost", "error.type", "input_tokens",
     "cache_creation_tokens"]
)  # fmt: skip
KINDS = st.sampled_from(["chat", "execute_tool", "invoke_agent", "retrieval", "plan"])


@given(
    found=st.lists(
        st.tuples(KINDS, st.dictionaries(NAMES, JSON | JSON.map(json.dumps), max_size=5)),
        min_size=1,
        max_size=4,
    ),
    events=st.dictionaries(
        st.sampled_from(["gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt",
                         "gen_ai.evaluation.result", "exception"]), JSON, max_size=3,
    ),
)  # fmt: skip
@QUIET
def test_attributes_of_any_type_give_traces_that_can_be_stored(
    found: list[tuple[str, Value]], events: Value, tmp_path: Path
) -> None:
    made = []
    for at, (kind, attributes) in enumerate(found):
        happened = [
            {"name": name, "attributes": [{"key": key, "value": _typed(value)}]}
            for name, value in events.items()
            for key in ("content", "message", "tool_calls", "gen_ai.prompt")
        ]
        given = {"gen_ai.operation.name": kind, **attributes}
        pairs = [{"key": name, "value": _typed(value)} for name, value in given.items()]
        parent = f"s{at - 1}" if at else None
        made.append({**span(f"s{at}", at, parent), "attributes": pairs, "events": happened})
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(spans(*made)) + "\n")
    stored(given_back(path))


def _typed(value: Any) -> Value:
    """A value with its type beside it, None as an empty one."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": value}
    if isinstance(value, float):
        return {"doubleValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_typed(each) for each in value]}}
    if isinstance(value, dict):
        return {
            "kvlistValue": {"values": [{"key": k, "value": _typed(v)} for k, v in value.items()]}
        }
    return {"stringValue": value}


@pytest.mark.slow
@given(value=JSON, where=st.sampled_from(["span", "attributes", "events", "status", "scopeSpans"]))
@QUIET
def test_any_json_in_any_place_gives_traces_or_a_sentence(
    value: Any, where: str, tmp_path: Path
) -> None:
    request = spans(AGENT, FIRST)
    if where == "span":
        request["resourceSpans"][0]["scopeSpans"][0]["spans"].append(value)
    elif where == "scopeSpans":
        request["resourceSpans"].append({"scopeSpans": value})
    else:
        request["resourceSpans"][0]["scopeSpans"][0]["spans"].append({**LAST, where: value})
    text = json.dumps(request)
    for path, written_ in (
        (tmp_path / "x.jsonl", text),
        (tmp_path / "x.json", "\n" + text[:1] + "\n" + text[1:]),
    ):
        path.write_text(written_ + "\n")
        stored(given_back(path))


def test_spans_as_they_were_read_are_dropped_before_their_run_is_written(tmp_path: Path) -> None:
    lines = [json.dumps(spans(each)) + "\n" for each in (AGENT, FIRST, RUN, LAST)]
    (tmp_path / "one.jsonl").write_text("".join(lines))
    batches = formats.load(Source(tmp_path / "one.jsonl"), Tally())
    batch = next(batches)
    gc.collect()
    held = (each for each in gc.get_objects() if isinstance(each, records.RawSpan))
    assert len(batch.spans) == 4
    assert len([each for each in held if each.trace == TRACE]) <= 1, "that of the line just read"
