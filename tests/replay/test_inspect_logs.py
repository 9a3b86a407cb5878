"""Inspect logs as files: cut, in chunks, with numbers that are none, retried, hostile.

Samples in chunks are written here as Inspect's own converter writes them (0.3.285).
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import common, inspect
from replay.formats.inspect import archive
from replay.formats.inspect import sample as inspect_sample
from replay.formats.source import MAX_DOCUMENT_BYTES, Source, Tally
from replay.steps import build
from replay.trace import Batch, Json, Level, OtherSpan
from tests.replay.kinds import models, tools
from tests.replay.test_inspect import (
    CONVERSATION,
    NS,
    SYSTEM,
    USER,
    answers,
    asks,
    at,
    begin,
    load,
    model,
    named,
    newest,
    only,
    sample,
    says,
    shown,
    tool,
    write_eval,
    write_log,
)
from tests.shared import DATA, needs_shared
from tests.tries import often

TURN = [model(0, [USER], asks("c1"), uuid="m1"), tool(2, "c1", "here", uuid="t1")]


def cut(path: Path, kept: int) -> Path:
    path.write_bytes(path.read_bytes()[:kept])
    return path


def begin_of(path: Path, member: str) -> int:
    """Where a member's data begin to be cut: its name in its own header."""
    return path.read_bytes().index(member.encode())


# --- zips without their end


@pytest.mark.parametrize("method", [0, 8, 93])
def test_a_log_that_lost_its_end_gives_the_samples_that_are_whole(
    tmp_path: Path, method: int
) -> None:
    members = {f"samples/s_epoch_{n}.json": sample(TURN, epoch=n, uuid=f"u{n}") for n in (1, 2, 3)}
    path = write_eval(tmp_path, members, method=method)
    cut(path, begin_of(path, "samples/s_epoch_3.json") + 60)
    batches, tally = load(path)
    assert [batch.header.item for batch in batches] == ["s/1", "s/2"]
    assert batches[0].header.agent == "demo"
    assert [(each.where, each.why) for each in tally.problems] == [
        ("the zip", "is truncated; its 3 complete members are read")
    ]


def test_a_log_cut_before_its_first_member_ends_is_refused(tmp_path: Path) -> None:
    path = cut(write_eval(tmp_path, {"samples/s.json": sample([])}), 40)
    with pytest.raises(BadTrace, match="cannot be opened"):
        load(path)


@given(share=st.floats(0, 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_log_cut_anywhere_gives_whole_traces_or_a_sentence(share: float, tmp_path: Path) -> None:
    members = {f"samples/s_epoch_{n}.json": sample(TURN, epoch=n, uuid=f"u{n}") for n in (1, 2)}
    path = write_eval(tmp_path, members)
    cut(path, int(share * path.stat().st_size))
    for batch in read(path):
        assert [span.id for span in batch.spans] == [batch.header.source_id, "m1", "t1"]


def test_a_run_that_was_killed_says_so(tmp_path: Path) -> None:
    members = {"samples/s_epoch_1.json": sample([])}
    (batch,), _ = load(write_eval(tmp_path, members, header="_journal/start.json"))
    assert batch.spans[0].extra["log_status"] == "started"


def test_a_member_that_holds_more_than_it_says_is_refused(tmp_path: Path) -> None:
    members = {"samples/a.json": "0" * 10_000, "samples/b.json": sample([])}
    path = write_eval(tmp_path, members, method=93)
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"samples/a.json"))
    data[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    batches, tally = load(path)
    assert len(batches) == 1
    assert tally.problems[0].where == "samples/a.json"
    assert "CRC" in tally.problems[0].why


# --- samples in chunks


def in_chunks(
    folder: Path, events: list[Json], pool: list[Json], size: int, **more: Any
) -> dict[str, Any]:
    """The members of one sample in chunks of `size` entries."""
    shell = {**sample(events), "uuid": "u", "message_refs": [[0, len(pool)]], **more}
    del shell["events"]
    home = "samples/a/b_epoch_1"
    members: dict[str, Any] = {f"{home}/sample.json": shell, f"{home}/events/stats.json": {}}
    for name, entries in (("events", events), ("messages", pool), ("attachments", ["long"])):
        for start in range(0, len(entries), size):
            members[f"{home}/{name}/{start}.json"] = entries[start : start + size]
    members[f"{home}/metadata.json"] = {"k": "v"}
    return members


SPOKEN = [SYSTEM, {"role": "user", "content": "attachment://0"}, asks("c1"), answers("c1", "here")]


def refers(second: float, end: int, **more: Json) -> dict[str, Any]:
    return model(second, [], says("x"), input_refs=[[0, end]], **more)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_sample_in_chunks_reads_as_one_in_one_piece(tmp_path: Path, size: int) -> None:
    events: list[Json] = [refers(0, 2), *TURN, refers(4, 4)]
    (one,), tally = load(write_eval(tmp_path, in_chunks(tmp_path, events, SPOKEN, size)))
    whole = only(
        tmp_path,
        events,
        events_data={"messages": SPOKEN},
        attachments={"0": "long"},
        metadata={"k": "v"},
    )
    assert [shown(call) for call in models(one)] == [shown(call) for call in models(whole)]
    assert shown(models(one)[0])[1]["content"] == "long"
    assert [span.id for span in one.spans] == [span.id for span in whole.spans]
    assert one.spans[0].extra == whole.spans[0].extra
    assert one.header.item == "s/1"
    assert tally.counts == {"samples": 1, "events": 4, "tool_events": 1}
    assert (tally.problems, dict(tally.unknown)) == ([], {})


def test_messages_after_a_lost_chunk_are_not_taken_for_others(tmp_path: Path) -> None:
    members = in_chunks(tmp_path, [refers(0, 2), refers(4, 4)], SPOKEN, 2)
    members["samples/a/b_epoch_1/messages/2.json"] = "{"
    (batch,), tally = load(write_eval(tmp_path, members))
    whole, partial = models(batch)
    assert (whole.fidelity.level, partial.fidelity.level) == (Level.EXACT, Level.NONE)
    assert [each.where for each in tally.problems] == ["samples/a/b_epoch_1/messages/2.json"]


def test_a_sample_without_events_is_read_from_the_messages_its_shell_names(tmp_path: Path) -> None:
    members = in_chunks(tmp_path, [], [*SPOKEN, says("done")], 2)
    (batch,), _ = load(write_eval(tmp_path, members))
    assert [len(shown(call)) for call in models(batch)] == [2, 4]


def test_a_chunk_named_strangely_is_read_under_its_own_name(tmp_path: Path) -> None:
    members = in_chunks(tmp_path, list(TURN), SPOKEN, 100)
    home = "samples/a/b_epoch_1/events"
    members[f"{home}/000.json"] = members.pop(f"{home}/0.json")
    members[f"{home}/{'9' * 5000}.json"] = []
    (batch,), tally = load(write_eval(tmp_path, members))
    assert [span.id for span in batch.spans] == ["u", "m1", "t1"]
    assert [each.why for each in tally.problems] == ["is not an object"]


def test_chunks_that_are_too_much_together_are_refused(tmp_path: Path) -> None:
    members = in_chunks(tmp_path, list(TURN), SPOKEN, 1)
    path = write_eval(tmp_path, {**members, "samples/x.json": sample([])})
    data = bytearray(path.read_bytes())
    for name in (b"events/0.json", b"events/1.json"):
        entry = data.rindex(b"PK\x01\x02", 0, data.rindex(name))
        data[entry + 24 : entry + 28] = (MAX_DOCUMENT_BYTES - 1).to_bytes(4, "little")
    path.write_bytes(data)
    batches, tally = load(path)
    assert len(batches) == 1
    assert [each.why for each in tally.problems] == ["is larger than 1 GiB decompressed"]


# --- JSON that is odd


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("times", [1, 3, 60])
def test_numbers_that_are_none_cost_no_event(tmp_path: Path, number: str, times: int) -> None:
    told = {"note": "a score of NaN, or -Infinity"}
    text = json.dumps(
        sample(TURN, scores={"s": {"value": 0}}, metadata={"n": [1.5] * times, **told})
    )
    path = write_eval(tmp_path, {"samples/s.json": text.replace("1.5", number)})
    (batch,), tally = load(path)
    assert len(models(batch)) == 1
    assert batch.spans[0].extra["metadata"] == {"n": [None] * times, **told}
    assert tally.problems == []


def test_broken_text_in_an_event_is_mended(tmp_path: Path) -> None:
    text = json.dumps(sample([model(0, [USER], says("??"), uuid="m1"), tool(2, "c1", "??")]))
    path = tmp_path / "log.eval"
    write_eval(tmp_path, {"samples/s.json": text.replace("??", "é")})
    with_latin = json.dumps(sample([model(0, [USER], says("?"), uuid="m1")])).encode()
    document = b'{"version": 2, "eval": {"eval_id": "e"}, "samples": [%s]}' % with_latin
    path.write_bytes(document.replace(b'"?"', b'"\xe9"'))
    (batch,), _ = load(path)
    (call,) = models(batch)
    assert call.response.message is not None
    assert call.response.message.body["content"] == "\ufffd"


def test_an_event_nested_too_deeply_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    deep: Json = 1
    for _ in range(400):
        deep = {"a": deep}
    odd = model(2, [USER], says("x"), uuid="m2", metadata=deep)
    (batch,), tally = load(write_log(tmp_path, sample([*TURN, odd])))
    assert [span.id for span in batch.spans] == ["u", "m1", "t1"]
    assert [(each.where, each.why) for each in tally.problems] == [
        ("samples[0] event 2", "is nested too deeply to be read")
    ]


def test_fields_that_are_not_understood_are_counted(tmp_path: Path) -> None:
    events = [
        model(0, [USER], asks("c1"), uuid="m1", brand_new=1),
        tool(2, "c1", "x", brand_new=1),
        {"event": "review", "timestamp": at(3), "decision": "continue", "uuid": "r"},
    ]
    (batch,), tally = load(write_log(tmp_path, sample(events, brand_new=2)))
    assert dict(tally.unknown) == {
        "model brand_new": 1,
        "tool brand_new": 1,
        "sample brand_new": 1,
    }
    assert named(batch, "review continue").id == "r"
    assert len(models(batch)) == 1


# --- what a sample went through


def test_attempts_that_failed_are_told_and_are_no_steps(tmp_path: Path) -> None:
    retries = [
        {"message": "boom", "traceback": "Traceback: boom", "traceback_ansi": "…", "events": TURN},
        {"message": "bang", "traceback": "", "traceback_ansi": ""},
    ]
    batch = only(tmp_path, [model(30, [USER], says("x"), uuid="m9")], error_retries=retries)
    first, second = (span for span in batch.spans if isinstance(span, OtherSpan))
    assert (first.name, first.error, first.operation) == ("attempt 1 failed", "boom", "retry")
    assert (first.start_ns, first.end_ns) == (NS, NS + 2 * 10**9)
    assert first.extra == {"traceback": "Traceback: boom", "events": 2}
    assert (second.error, second.start_ns) == ("bang", None)
    steps, _, plan = build(batch.spans)
    assert [step.ask.id for step in steps] == ["m9"]
    assert plan.orphans == ()


def test_an_answer_is_known_by_the_id_the_provider_gave_it(tmp_path: Path) -> None:
    event = model(0, [USER], says("x"), requested_model="p/asked")
    event["output"] |= {"response_id": "msg_1", "fallback": {"model": "a", "fallback_model": "b"}}
    (call,) = models(only(tmp_path, [event]))
    assert call.response.id == "msg_1"
    assert call.extra["requested_model"] == "p/asked"
    assert call.extra["fallback"] == {"model": "a", "fallback_model": "b"}


# --- large samples


def test_a_large_sample_comes_in_batches_with_every_answer_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_sample, "SPANS", 7)
    pool, events = [USER], []
    for n in range(20):
        pool += [asks(f"c{n}"), answers(f"c{n}", f"r{n}")]
        events += [
            model(0, [], asks(f"c{n}"), uuid=f"m{n}", input_refs=[[0, 1 + 2 * n]]),
            tool(1, f"c{n}", f"from the event {n}", uuid=f"t{n}"),
        ]
    batches, _ = load(write_log(tmp_path, sample(events, events_data={"messages": pool})))
    assert [len(batch.spans) for batch in batches] == [7, 7, 7, 7, 7, 6]
    assert [batch.last for batch in batches] == [False] * 5 + [True]
    spans = [span for batch in batches for span in batch.spans]
    assert [span.id for span in spans] == ["u", *(f"{k}{n}" for n in range(20) for k in "mt")]
    found = [call.observation for batch in batches for call in tools(batch)]
    said = [each.message.body["content"] for each in found if each is not None]
    assert said == [f"r{n}" for n in range(19)] + ["from the event 19"]


@pytest.mark.slow
def test_a_large_sample_is_let_go_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_sample, "SPANS", 500)
    long, turns = "word " * 1_000, 1_000
    pool = [USER, *(says(str(n)) for n in range(2 * turns))]
    events = [
        model(0, [], says("y"), uuid=f"m{n}", input_refs=[[0, 1 + 2 * n]], request_ids=[long])
        for n in range(turns)
    ]
    whole = sample(events, events_data={"messages": pool}, attachments={"unused": "x"})
    path = write_eval(tmp_path, {"samples/s_epoch_1.json": whole})
    size = turns * len(long)
    tracemalloc.start()
    try:
        batches = inspect.read(Source(path), Tally())
        next(batches)
        half = tracemalloc.get_traced_memory()[0]
        next(batches)
        read = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert half < 1.2 * size
    assert read < 0.6 * half, (half, read)


@given(
    st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds") + "+00:00")
    | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d", fullmatch=True)
    | st.text(max_size=34)
    | st.integers()
)
def test_the_fast_clock_tells_the_time_of_the_other(time: Json) -> None:
    assert archive.ns(time) == common.ns(time)


# --- hostile logs


def read(path: Path) -> list[Batch]:
    """What a log gives; nothing where it is refused with a sentence."""
    try:
        return list(inspect.read(Source(path), Tally()))
    except BadTrace:
        return []


WRONG: st.SearchStrategy[Json] = st.sampled_from(
    [None, True, -1, 1e300, "", "x", [], [[]], {}, {"a": []}, "attachment://z"]
)


def places(value: Json, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside."""
    inside: list[tuple[Any, Json]] = []
    if isinstance(value, (dict, list)):
        inside = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [here, *(path for key, each in inside for path in places(each, (*here, key)))]


HARD = sample(
    [*newest(), refers(12, 4, span_id="agent"), {"event": "state", "span_id": "t1", "changes": []}],
    events_data={"messages": CONVERSATION},
    attachments={"z": "text"},
    scores={"s": {"value": "C", "explanation": "why"}},
    error_retries=[{"message": "boom", "events": TURN}],
    model_usage={"m": {"total_cost": 1}},
)


@given(path=st.sampled_from(places(HARD)[1:]), wrong=WRONG, other=st.integers(0, 10**6))
@settings(
    max_examples=often(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@pytest.mark.slow
def test_a_log_with_any_field_of_another_type_gives_traces_or_a_sentence(
    path: tuple[Any, ...], wrong: Json, other: int, tmp_path: Path
) -> None:
    changed = json.loads(json.dumps(HARD))
    home = changed
    for key in path[:-1]:
        home = home[key]
    home[path[-1]] = wrong
    for batch in read(write_log(tmp_path, changed)):
        ids = [span.id for span in batch.spans]
        assert len(set(ids)) == len(ids)
        build(batch.spans)


@given(data=st.data())
@settings(
    max_examples=often(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
def test_a_log_with_any_bytes_changed_gives_traces_or_a_sentence(
    data: st.DataObject, tmp_path: Path
) -> None:
    members = {"samples/s_epoch_1.json": HARD, **in_chunks(tmp_path, list(TURN), SPOKEN, 2)}
    path = write_eval(tmp_path, members, method=data.draw(st.sampled_from([0, 8, 93])))
    changed = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(changed)
    for batch in read(path):
        assert batch.header.source_id


@needs_shared
def test_a_real_log_cut_in_half_gives_the_samples_before_the_cut(tmp_path: Path) -> None:
    log = (DATA / "docent/log.eval").read_bytes()
    path = tmp_path / "half.eval"
    path.write_bytes(log[: len(log) // 2])
    batches, tally = load(path)
    assert 0 < len(batches) < 15
    assert all(batch.header.outcome.by for batch in batches)
    assert "is truncated" in tally.problems[0].why


# --- what the check said

PRINTED = "/tests/run.sh: line 3: pytest: command not found"


def reference(folder: Path, events: list[Json], **score: Json) -> dict[str, Json]:
    batch = only(
        folder,
        events,
        scores={"tests": {"value": "I", **score}},
        output={"completion": "I ran pytest: command not found, so I stopped."},
    )
    return batch.header.reference or {}


def test_the_explanation_of_a_scorer_is_what_its_check_printed(tmp_path: Path) -> None:
    assert reference(tmp_path, TURN, explanation=PRINTED) == {"check": {"printed": PRINTED}}


@pytest.mark.parametrize(
    "score",
    [
        {"explanation": "pytest: command not found"},  # of the run's own words
        {"explanation": f"got {PRINTED}", "answer": PRINTED},
        {"explanation": PRINTED, "metadata": {"grading": []}},
        {"explanation": None},
    ],
)
def test_the_words_of_the_run_or_of_a_judge_are_no_check_s(
    tmp_path: Path, score: dict[str, Json]
) -> None:
    assert reference(tmp_path, TURN, **score) == {}


def test_what_a_scorer_says_after_it_asked_a_model_is_no_check_s(tmp_path: Path) -> None:
    judge = [begin(3, "s", "scorer", "graded"), model(4, [USER], says("x"), span_id="s")]
    assert reference(tmp_path, [*TURN, *judge], explanation=PRINTED) == {}


def test_of_a_long_print_the_end_is_kept(tmp_path: Path) -> None:
    found = reference(tmp_path, TURN, explanation="x" * 30_000 + PRINTED)["check"]
    assert isinstance(found, dict)
    assert found["printed"].startswith("[10048 characters before this left out]\nx")
    assert found["printed"].endswith(PRINTED)
