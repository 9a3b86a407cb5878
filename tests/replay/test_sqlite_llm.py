"""The logs of `llm` read as traces: a row a call, and the store of messages since."""

from __future__ import annotations

from pathlib import Path

from replay.formats.llm_logs import ELSEWHERE, GONE
from replay.messages import observed, text, thinking
from replay.trace import Batch, Level, Usage
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.sqlite_case import (
    LLM,
    STORE,
    TOOL,
    Entry,
    made,
    message,
    read,
    response,
    said,
    turn,
)

# --- a row a call

CONVERSATION = ("conversations", {"id": "c1", "name": "Where is order 7?", "model": "gpt-4o"})
FIRST = response(
    "r1", 1, prompt="Where is order 7?", system="Be brief.", response="",
    options_json={"temperature": 0.5}, resolved_model="gpt-4o-2024",
    response_json={"id": "resp-1", "finish_reason": "tool_calls"},
    input_tokens=100, output_tokens=20,
    token_details={"prompt_tokens_details": {"cached_tokens": 90}},
)  # fmt: skip
SECOND = response("r2", 5, prompt="", response="Shipped.", reasoning="It is shipped.")
BESIDE: list[Entry] = [
    TOOL,
    ("tool_responses", {"tool_id": 1, "response_id": "r1"}),
    ("tool_calls", {"response_id": "r1", "tool_id": 1, "name": "get_order",
                    "arguments": '{"id": 7}', "tool_call_id": "a"}),
    ("tool_calls", {"response_id": "r1", "name": "boom", "arguments": "{nope",
                    "tool_call_id": "b"}),
    ("tool_results", {"response_id": "r2", "name": "get_order", "output": "shipped",
                      "tool_call_id": "a"}),
    ("tool_results", {"response_id": "r2", "name": "boom", "output": "Error: nope",
                      "tool_call_id": "b", "exception": "ValueError: nope"}),
]  # fmt: skip
OLD: list[Entry] = [CONVERSATION, FIRST, SECOND, *BESIDE]


def of(folder: Path, *rows: Entry, schema: str = LLM) -> Batch:
    (batch,), tally = read(made(folder / "logs.db", schema + PADDING, rows))
    assert tally.problems == []
    return batch


PADDING = "".join(f"CREATE TABLE unrelated_{at} (a TEXT);" for at in range(20))
"""Real files are larger than the head, and known by their name."""


def test_a_row_is_a_call_with_the_conversation_before_it(tmp_path: Path) -> None:
    batch = of(tmp_path, *OLD)
    first, second = models(batch)
    assert seen(first) == [("user", "Where is order 7?")]
    assert [role for role, _ in seen(second)] == ["user", "assistant", "tool", "tool"]
    assert first.request.system is not None
    assert text(first.request.system) == "Be brief."
    assert second.request.system is first.request.system
    assert first.request.params == {"temperature": 0.5}
    assert [tool.schema for tool in first.request.tools or ()] == [{"type": "object"}]
    assert second.request.tools == ()
    assert {call.fidelity.level for call in models(batch)} == {Level.REBUILT}
    response_ = first.response
    assert (response_.id, response_.model, response_.stop) == ("resp-1", "gpt-4o-2024", "tool")
    assert second.response.message is not None
    assert thinking(second.response.message) == "It is shipped."
    assert (first.place.span, first.duration_ns) == ("r1", 10**9)
    header = batch.header
    assert (header.format, header.source_id, header.title) == ("llm", "c1", "Where is order 7?")
    assert agents(batch)[0].duration_ns == 5 * 10**9


def test_calls_have_their_results_and_a_failed_one_its_error(tmp_path: Path) -> None:
    found, broken = tools(of(tmp_path, *OLD))
    assert (found.call_id, found.asked_by, found.arguments) == ("a", "r1", {"id": 7})
    assert found.observation is not None
    assert observed(found.observation).text == "shipped"
    assert (broken.arguments, broken.arguments_raw) == (None, "{nope")
    assert (broken.status, broken.error) == ("error", "Error: nope")


def test_tokens_are_counted_as_the_provider_counts_them(tmp_path: Path) -> None:
    anthropic = response(
        "r3", 9, prompt="Thanks", response="Bye.", input_tokens=10, output_tokens=5,
        token_details={"cache_read_input_tokens": 50, "cache_creation_input_tokens": 7},
    )  # fmt: skip
    first, _, third = models(of(tmp_path, *OLD, anthropic))
    assert first.usage == Usage(input_tokens=100, output_tokens=20, cache_read_tokens=90)
    assert third.usage == Usage(
        input_tokens=67, output_tokens=5, cache_read_tokens=50, cache_write_tokens=7
    )


def test_fragments_and_attachments_stand_in_the_message_they_were_sent_in(tmp_path: Path) -> None:
    rows: list[Entry] = [
        response("r1", 1, prompt="What is this?", response="A dot.", system="Be brief."),
        ("fragments", {"id": 1, "content": "A very long novel."}),
        ("fragments", {"id": 2, "content": "You know books."}),
        ("prompt_fragments", {"response_id": "r1", "fragment_id": 1, "order": 0}),
        ("system_fragments", {"response_id": "r1", "fragment_id": 2, "order": 0}),
        ("attachments", {"id": "p", "type": "image/png", "content": b"\x89PNG"}),
        ("attachments", {"id": "u", "type": "audio/mpeg", "url": "http://x.invalid/a.mp3"}),
        ("prompt_attachments", {"response_id": "r1", "attachment_id": "p", "order": 1}),
        ("prompt_attachments", {"response_id": "r1", "attachment_id": "u", "order": 0}),
    ]
    (call,) = models(of(tmp_path, *rows))
    assert call.request.system is not None
    assert text(call.request.system) == "You know books.\nBe brief."
    assert call.request.context is not None
    words, audio, image = call.request.context.messages()[0].body["content"]
    assert words["text"] == "A very long novel.\nWhat is this?"
    assert audio == {"type": "file", "file": {"file_data": "http://x.invalid/a.mp3"}}
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw=="
    assert call.fidelity.level is Level.REBUILT


def test_what_is_not_in_the_database_makes_a_request_partial(tmp_path: Path) -> None:
    rows: list[Entry] = [
        response("r1", 1, prompt="What is this?", response="A dot."),
        ("attachments", {"id": "p", "type": "image/png", "path": "/home/me/dot.png"}),
        ("prompt_attachments", {"response_id": "r1", "attachment_id": "p", "order": 0}),
        ("prompt_fragments", {"response_id": "r1", "fragment_id": 9, "order": 0}),
    ]
    (call,) = models(of(tmp_path, *rows))
    assert call.fidelity.level is Level.PARTIAL
    assert set(call.fidelity.reasons) == {ELSEWHERE, GONE}


def test_a_system_prompt_that_changes_stands_where_it_changed(tmp_path: Path) -> None:
    rows = [
        response("r1", 1, prompt="Hi", response="Hello.", system="Be brief."),
        response("r2", 2, prompt="And?", response="So.", system="Be long."),
        response("r3", 3, prompt="And?", response="So.", system="Be long."),
    ]
    calls = models(of(tmp_path, *rows))
    assert {text(call.request.system) for call in calls if call.request.system} == {"Be brief."}
    assert [role for role, _ in seen(calls[2])] == [
        "user", "assistant", "system", "user", "assistant", "user",
    ]  # fmt: skip


def test_an_answer_outside_a_conversation_is_a_trace_of_its_own(tmp_path: Path) -> None:
    rows = [
        response("r1", 1, prompt="Hi", response="Hello."),
        response("r9", 2, prompt="Ho", response="Hello.", conversation_id=None),
    ]
    batches, _ = read(made(tmp_path / "logs.db", LLM + PADDING, rows))
    assert [batch.header.source_id for batch in batches] == ["c1", "r9"]


def test_the_table_of_the_first_versions_is_reported(tmp_path: Path) -> None:
    schema = LLM + PADDING + "CREATE TABLE logs (id INTEGER PRIMARY KEY, prompt TEXT);"
    rows = [response("r1", 1, prompt="Hi", response="Hello."), ("logs", {"prompt": "x"})]
    _, tally = read(made(tmp_path / "logs.db", schema, rows))
    assert [problem.why for problem in tally.problems] == [
        "1 responses of llm before 0.5 are not read"
    ]


# --- a store of messages

CALL = {"name": "get_order", "arguments": {"id": 7}, "tool_call_id": "a"}
RESULT = {"name": "get_order", "output": "shipped", "tool_call_id": "a"}
THREAD = ("threads", {"id": "c1", "name": "Where is order 7?", "datetime_utc": "2026-07-09"})
CHAIN: list[Entry] = [
    *message("h1", None, "system", said("Be brief.")),
    *message("h2", "h1", "user", said("Where is order 7?")),
    *message("h3", "h2", "assistant", {"type": "reasoning", "text": "Look it up."},
             {"type": "tool_call", "tool_name": "get_order", "payload": CALL}),
    *message("h4", "h3", "tool", {"type": "tool_result", "payload": RESULT}),
    *message("h5", "h4", "assistant", said("Shipped.")),
]  # fmt: skip
NEW: list[Entry] = [
    THREAD,
    TOOL,
    *CHAIN,
    turn("t1", "h2", "h3", 1, input_tokens=10, output_tokens=5),
    turn("t2", "h4", "h5", 5),
    ("turn_tools", {"turn_id": "t1", "tool_id": 1}),
]


def stored(folder: Path, *rows: Entry) -> Batch:
    return of(folder, *rows, schema=LLM + STORE)


def test_a_turn_is_a_call_shown_the_way_back_from_its_parent(tmp_path: Path) -> None:
    batch = stored(tmp_path, *NEW)
    first, second = models(batch)
    assert seen(first) == [("user", "Where is order 7?")]
    assert [role for role, _ in seen(second)] == ["user", "assistant", "tool"]
    for call in (first, second):
        assert call.request.system is not None
        assert text(call.request.system) == "Be brief."
        assert call.fidelity.level is Level.REBUILT
    assert [tool.name for tool in first.request.tools or ()] == ["get_order"]
    assert first.response.message is not None
    assert thinking(first.response.message) == "Look it up."
    (ran,) = tools(batch)
    assert (ran.asked_by, ran.arguments, ran.status) == ("t1", {"id": 7}, "ok")
    assert ran.observation is not None
    assert observed(ran.observation).text == "shipped"


def test_a_conversation_begun_in_the_old_tables_goes_on_in_the_new_ones(tmp_path: Path) -> None:
    history: list[Entry] = [
        *message("g1", None, "system", said("Be brief.")),
        *message("g2", "g1", "user", said("Where is order 7?")),
        *message("g3", "g2", "assistant", said("Shipped.")),
        *message("g4", "g3", "user", said("Thanks")),
        *message("g5", "g4", "assistant", said("Bye.")),
    ]
    old = response("r1", 1, prompt="Where is order 7?", system="Be brief.", response="Shipped.")
    batch = stored(tmp_path, CONVERSATION, old, THREAD, *history, turn("t1", "g4", "g5", 1))
    assert [call.id for call in models(batch)] == ["r1", "t1"]
    assert [role for role, _ in seen(models(batch)[1])] == ["user", "assistant", "user"]


def test_a_fork_shows_its_own_history_and_makes_no_call_twice(tmp_path: Path) -> None:
    fork: list[Entry] = [
        ("threads", {"id": "c2", "forked_from": "c1", "datetime_utc": "2026-07-10"}),
        *message("f6", "h5", "user", said("Sure?")),
        *message("f7", "f6", "assistant", said("Yes.")),
        turn("t3", "f6", "f7", 9, thread_id="c2"),
    ]
    (one, two), _ = read(made(tmp_path / "logs.db", LLM + STORE + PADDING, [*NEW, *fork]))
    assert [len(models(one)), len(tools(one))] == [2, 1]
    (call,) = models(two)
    assert [role for role, _ in seen(call)] == ["user", "assistant", "tool", "assistant", "user"]
    assert tools(two) == []
    assert agents(two)[0].extra["forked_from"] == "c1"


def test_a_turn_that_went_back_is_shown_what_it_went_back_to(tmp_path: Path) -> None:
    again: list[Entry] = [
        *message("b3", "h1", "user", said("And order 8?")),
        *message("b4", "b3", "assistant", said("No.")),
        turn("t3", "b3", "b4", 9),
    ]
    calls = models(stored(tmp_path, *NEW, *again))
    assert seen(calls[2]) == [("user", "And order 8?")]


def test_texts_borrow_fragments_and_what_a_provider_ran_stays_a_part(tmp_path: Path) -> None:
    pieces = {"text_ref": [{"fragment": 1}, {"literal": "\nWhat is it?"}]}
    search = {"name": "web_search", "arguments": {"q": "x"}, "server_executed": True}
    rows: list[Entry] = [
        THREAD,
        ("fragments", {"id": 1, "content": "A very long novel."}),
        ("attachments", {"id": "p", "type": "image/png", "content": b"\x89PNG"}),
        *message("h1", None, "user", {"type": "text", "payload": pieces},
                 {"type": "attachment", "payload": {"attachment": {"id": "p"}}}),
        *message("h2", "h1", "assistant", {"type": "tool_call", "payload": search}),
        *message("h3", "h2", "assistant", said("A novel.")),
        turn("t1", "h1", "h3", 1),
    ]  # fmt: skip
    batch = stored(tmp_path, *rows)
    (call,) = models(batch)
    assert seen(call) == [("user", "A very long novel.\nWhat is it?\n[image_url]")]
    assert tools(batch) == []
    assert call.response.message is not None
    ran, words = call.response.message.body["content"]
    assert (ran["type"], ran["name"], words["text"]) == ("tool_call", "web_search", "A novel.")


def test_a_chain_that_bites_its_tail_or_breaks_off_is_partial(tmp_path: Path) -> None:
    rows: list[Entry] = [
        THREAD,
        *message("h1", "h2", "user", said("Hi")),
        *message("h2", "h1", "assistant", said("Ho")),
        turn("t1", "h1", "h2", 1),
        *message("k1", "gone", "user", said("Hi")),
        *message("k2", "k1", "assistant", said("Ho")),
        turn("t2", "k1", "k2", 2),
        turn("t3", "nowhere", "k2", 3),
    ]
    calls = models(stored(tmp_path, *rows))
    assert [call.id for call in calls] == ["t1", "t2", "t3"]
    assert [call.fidelity.reasons for call in calls[1:]] == [(GONE,), (GONE,)]
