"""Claude Code: session files, stream-json, and the wrapper with a clock."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import claude_code, common
from replay.formats.source import HEAD_BYTES, Head, Source, Tally
from replay.messages import observed, text
from replay.steps import build
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import AgentSpan, Batch, Cost, Level, ModelCall
from tests.replay.kinds import agents, models, tools
from tests.shared import DATA, needs_shared

Json = Any
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90}
ZERO = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0}


class Session:
    """Writes the lines of a session file, a second apart, each the child of the one before."""

    def __init__(self, session: str = "s1", **fields: Json) -> None:
        self.lines: list[Json] = []
        self._session = session
        self._fields = fields
        self._tip: str | None = None

    def add(self, kind: str, uuid: str, parent: Json = ..., **fields: Json) -> None:
        number = len(self.lines)
        line = {
            "parentUuid": self._tip if parent is ... else parent,
            "isSidechain": False,
            "sessionId": self._session,
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z",
        }
        self.lines.append({**line, **self._fields, **fields})
        self._tip = uuid

    def user(self, uuid: str, content: Json, parent: Json = ..., **fields: Json) -> None:
        message = {"role": "user", "content": content}
        self.add("user", uuid, parent, message=message, **fields)

    def answer(
        self,
        uuid: str,
        id: str,
        *blocks: Json,
        parent: Json = ...,
        usage: Json = None,
        **more: Json,
    ) -> None:
        fields = more.pop("fields", {})
        message = {"id": id, "role": "assistant", "model": "claude-x", **more}
        message |= {"content": list(blocks), "usage": usage or USAGE}
        self.add("assistant", uuid, parent, message=message, **fields)


def words(said: str) -> Json:
    return {"type": "text", "text": said}


def call(id: str, name: str = "Bash", **arguments: Json) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, said: Json, **more: Json) -> Json:
    return [{"type": "tool_result", "tool_use_id": id, "content": said, **more}]


def stream(*events: Json, session: str = "r1") -> list[Json]:
    return [
        {"session_id": session, "uuid": f"u{number}", "parent_tool_use_id": None, **event}
        for number, event in enumerate(events)
    ]


def init(**fields: Json) -> Json:
    return {
        "type": "system",
        "subtype": "init",
        "model": "m",
        "cwd": "/w",
        "tools": ["Bash"],
    } | fields


def said(
    id: str, *blocks: Json, usage: Json = None, stop_reason: Json = None, **fields: Json
) -> Json:
    message = {"id": id, "role": "assistant", "model": "m", "stop_reason": stop_reason}
    message |= {"content": list(blocks), "usage": usage or ZERO}
    return {"type": "assistant", "message": message, **fields}


def heard(content: Json, **fields: Json) -> Json:
    return {"type": "user", "message": {"role": "user", "content": content}, **fields}


def written(path: Path, lines: list[Json]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path


def imported(path: Path) -> tuple[list[Batch], Tally]:
    tally = Tally()
    return list(claude_code.read(Source(path), tally)), tally


def only(path: Path) -> tuple[Batch, Tally]:
    batches, tally = imported(path)
    assert [batch.last for batch in batches] == [True]
    return batches[0], tally


def session(tmp_path: Path, *lines: Json) -> tuple[Batch, Tally]:
    return only(written(tmp_path / "s1.jsonl", list(lines)))


def root(batch: Batch) -> AgentSpan:
    span = batch.spans[0]
    assert isinstance(span, AgentSpan)
    return span


def shown(span: ModelCall) -> list[str]:
    """What the model saw: the text of each message of the context, results included."""
    context = span.request.context
    return [text(message) for message in context.messages()] if context else []


def second(number: int) -> int | None:
    return common.ns(f"2026-01-01T00:00:{number:02}Z")


def head(data: bytes) -> Head:
    return Head(name="x", data=data[:HEAD_BYTES])


# Which files are ours


def test_the_three_shapes_are_recognised_by_their_content() -> None:
    own = Session()
    own.user("a", "hello")
    event = stream(init())[0]
    for line in (own.lines[0], event, {"t": 1.5, "event": event}):
        assert claude_code.sniff(head(json.dumps(line).encode()))


def test_leading_lines_of_other_kinds_and_noise_do_not_hide_a_session() -> None:
    own = Session()
    own.user("a", "hello")
    lines: list[Json] = [
        {"type": "summary", "summary": "old", "leafUuid": "z"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        own.lines[0],
    ]
    noisy = "npm warn deprecated\n" + "\n".join(json.dumps(line) for line in lines)
    assert claude_code.sniff(head(noisy.encode()))


def test_a_first_line_longer_than_the_head_is_still_recognised() -> None:
    own = Session()
    own.user("a", "x" * (HEAD_BYTES + 10))
    assert claude_code.sniff(head(json.dumps(own.lines[0]).encode()))


def test_other_json_lines_are_left_to_others() -> None:
    for line in (
        {"role": "user", "content": "hi"},
        {"type": "session", "id": "x", "cwd": "/"},
        {"type": "user", "session_id": "x"},
        {"sessionId": "x", "messages": []},
        ["sessionId", "uuid"],
    ):
        assert not claude_code.sniff(head(json.dumps(line).encode()))


# One answer is several lines


def test_lines_of_one_message_id_are_one_call_with_the_last_usage(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("I look"), usage={"input_tokens": 1, "output_tokens": 1})
    own.answer("c", "m1", call("t1", command="ls"), stop_reason="tool_use")
    batch, _ = session(tmp_path, *own.lines)
    (ask,) = models(batch)
    assert ask.response.message is not None
    assert ask.response.message.body == {
        "role": "assistant",
        "content": [words("I look"), call("t1", command="ls")],
    }
    assert ask.id == ask.response.id == "m1"
    assert ask.response.stop == "tool"
    assert ask.usage is not None
    assert (ask.usage.input_tokens, ask.usage.output_tokens) == (100, 5)
    assert ask.fidelity.level is Level.PARTIAL
    assert ask.fidelity.reasons == (
        "system prompt not recorded",
        "tool definitions not recorded",
    )


def test_a_result_answers_the_nearest_call_of_its_id_before_it(tmp_path: Path) -> None:
    events = stream(
        init(),
        said("m1", call("Bash:0", command="first")),
        heard(result("Bash:0", "one")),
        said("m2", call("Bash:0", command="second")),
        heard(result("Bash:0", "two", is_error=True)),
    )
    batch, tally = session(tmp_path, *events)
    first, other = tools(batch)
    assert first.id != other.id
    assert first.observation is not None
    assert other.observation is not None
    assert observed(first.observation).text == "one"
    assert (other.status, other.error, first.status) == ("error", "two", "ok")
    assert (tally.counts["tool_use"], tally.counts["tool_errors"]) == (2, 1)


def test_a_result_that_comes_while_the_answer_is_written_does_not_split_it(tmp_path: Path) -> None:
    events = stream(
        said("m1", call("t1")), heard(result("t1", "one")), said("m1", call("t2")),
        heard(result("t2", "two")), said("m2", words("done")),
    )  # fmt: skip
    batch, _ = session(tmp_path, *events)
    first, last = models(batch)
    assert [span.asked_by for span in tools(batch)] == ["m1", "m1"]
    assert first.request.context is None
    assert shown(last) == ["", "one", "two"]


def test_an_answer_given_up_for_the_next_is_kept_but_no_later_call_saw_it(tmp_path: Path) -> None:
    events = stream(
        init(),
        heard("go"),
        said("broken", words("let me"), call("t0"), call("t1")),
        said("again", call("t0"), usage=USAGE),
        heard(result("t0", "found")),
        said("end", words("done"), usage=USAGE),
    )
    batch, tally = session(tmp_path, *events)
    broken, again, end = models(batch)
    assert broken.usage is None
    assert broken.extra["given_up_for"] == "again"
    assert shown(broken) == shown(again) == ["go"]
    assert shown(end) == ["go", "", "found"]
    assert [(span.asked_by, span.observation is not None) for span in tools(batch)] == [
        ("broken", False),
        ("broken", False),
        ("again", True),
    ]
    assert [problem.where for problem in tally.problems] == ["line 3"]


def test_old_lines_that_say_what_they_cost_are_believed(tmp_path: Path) -> None:
    line = {"sessionId": "s", "message": {"role": "assistant", "id": "m", "usage": USAGE}}
    batch, _ = session(tmp_path, {**line, "costUSD": 0.25})
    (ask,) = models(batch)
    assert ask.cost == Cost(usd=0.25, source="recorded")
    assert ask.response.message is None


def test_the_same_message_id_in_two_places_makes_two_spans(tmp_path: Path) -> None:
    events = stream(said("m", words("a")), heard("x"), said("n", words("b")), said("m", words("c")))
    batch, _ = session(tmp_path, *events)
    assert [span.id for span in models(batch)] == ["m", "n", "m#2"]


# What is not there stays unknown


def test_a_stream_keeps_the_names_of_its_tools_and_says_what_is_missing(tmp_path: Path) -> None:
    events = stream(init(claude_code_version="2.1"), said("m1", words("hi")))
    batch, _ = session(tmp_path, *events)
    (ask,) = models(batch)
    assert ask.request.tools is None
    assert ask.request.model == "m"
    assert "user prompt not recorded" in ask.fidelity.reasons
    extra = root(batch).extra
    assert extra == {"tool_names": ["Bash"], "model": "m", "cwd": "/w", "version": "2.1"}
    assert (ask.start_ns, ask.end_ns, ask.time_quality, ask.usage) == (None, None, "none", None)


def test_in_a_bare_stream_only_recorded_times_are_used(tmp_path: Path) -> None:
    events = stream(
        said("m1", call("t1")),
        heard(result("t1", "ok"), timestamp="2026-01-01T00:00:05Z"),
        {"type": "system", "subtype": "task_started"},
        said("m2", words("x")),
        said("m3", words("y")),
    )
    batch, _ = session(tmp_path, *events)
    assert [(span.start_ns, span.end_ns) for span in models(batch)] == [
        (None, None),
        (second(5), None),
        (None, None),
    ]
    (tool,) = tools(batch)
    assert (tool.start_ns, tool.end_ns, tool.time_quality) == (None, second(5), "derived")


def test_the_wrappers_seconds_count_from_the_epoch(tmp_path: Path) -> None:
    events = stream(init(), said("m1", call("t1")), heard(result("t1", "ok")))
    lines = [{"t": 60.5 + n, "event": event} for n, event in enumerate(events)]
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    batch, _ = only(path)
    (ask,), (tool,) = models(batch), tools(batch)
    assert (batch.header.start_ns, batch.header.end_ns) == (60_500_000_000, 62_500_000_000)
    assert (ask.start_ns, ask.end_ns, ask.time_quality) == (
        60_500_000_000,
        61_500_000_000,
        "derived",
    )
    assert (tool.start_ns, tool.end_ns) == (61_500_000_000, 62_500_000_000)


def test_the_prompt_of_a_second_turn_of_a_stream_is_missed(tmp_path: Path) -> None:
    events = stream(init(), heard("go"), said("m1", words("a")), init(), said("m2", words("b")))
    batch, _ = session(tmp_path, *events)
    first, later = models(batch)
    assert "user prompt not recorded" not in first.fidelity.reasons
    assert "user prompt not recorded" in later.fidelity.reasons


def test_times_of_a_session_run_from_line_to_line(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")  # :00
    own.answer("b", "m1", call("t1"))  # :01
    own.answer("c", "m1", call("t2"))  # :02
    own.user("d", result("t1", "one"), parent="b")  # :03
    own.user("e", result("t2", "two"), parent="c")  # :04
    own.answer("f", "m2", words("done"))  # :05
    batch, _ = session(tmp_path, *own.lines)
    spans = [*models(batch), *tools(batch)]
    assert [(span.start_ns, span.end_ns) for span in spans] == [
        (second(0), second(2)),
        (second(4), second(5)),
        (second(1), second(3)),
        (second(2), second(4)),
    ]
    assert [span.place.line for span in spans] == [2, 6, 2, 3]
    assert [span.place.message for span in spans] == [1, 5, 1, 2]
    assert {span.time_quality for span in spans} == {"derived"}


# The tree of a session


def test_parallel_tools_fork_the_chain_and_are_put_back(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", call("t1"))
    own.answer("c", "m1", call("t2"))
    own.user("e", result("t2", "two"), parent="c")
    own.user("d", result("t1", "one"), parent="b")
    own.answer("f", "m2", words("done"), parent="e")
    batch, tally = session(tmp_path, *own.lines)
    assert shown(models(batch)[-1]) == ["go", "", "two", "one"]
    assert len(agents(batch)) == 1
    assert not tally.problems


def test_a_rewind_leaves_an_abandoned_branch_with_its_own_context(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("one"))
    own.user("c", "wrong way")
    own.answer("d", "m2", words("lost"), call("t1"))
    own.user("e", result("t1", "seen"))
    own.user("f", "right way", parent="b")
    own.answer("g", "m3", words("kept"))
    batch, _ = session(tmp_path, *own.lines)
    main, branch = agents(batch)
    assert (branch.name, branch.parent, branch.status) == ("abandoned branch", main.id, "ok")
    assert branch.extra["abandoned"] is True
    assert {span.id: span.parent for span in models(batch)} == {
        "m1": main.id,
        "m2": branch.id,
        "m3": main.id,
    }
    by_id = {span.id: shown(span) for span in models(batch)}
    assert by_id["m2"] == ["go", "one", "wrong way"]
    assert by_id["m3"] == ["go", "one", "right way"]
    assert main.extra["signals"] == [{"kind": "rewind", "message": 2, "line": 3}]


def test_a_prompt_taken_back_before_any_answer_is_kept_on_its_branch(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "first try")
    own.user("b", "second try", parent=None)
    own.answer("c", "m1", words("ok"))
    batch, _ = session(tmp_path, *own.lines)
    branch = agents(batch)[1]
    assert branch.extra["unanswered"] == [{"role": "user", "content": "first try"}]
    assert shown(models(batch)[0]) == ["second try"]


def test_a_branch_of_a_branch_goes_on_from_it(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("1"))
    own.user("c", "left")
    own.answer("d", "m2", words("2"))
    own.user("e", "left left")
    own.answer("f", "m3", words("3"))
    own.user("g", "left right", parent="d")
    own.answer("h", "m4", words("4"))
    own.user("i", "right", parent="b")
    own.answer("j", "m5", words("5"))
    batch, _ = session(tmp_path, *own.lines)
    by_id = {span.id: shown(span) for span in models(batch)}
    assert by_id["m3"] == ["go", "1", "left", "2", "left left"]
    assert by_id["m4"] == ["go", "1", "left", "2", "left right"]
    assert by_id["m5"] == ["go", "1", "right"]
    assert [span.name for span in agents(batch)].count("abandoned branch") == 2


def test_after_a_compaction_the_context_begins_with_the_summary(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("one"))
    own.add("system", "c", None, subtype="compact_boundary", logicalParentUuid="b")
    own.user("d", "summary of it all", isCompactSummary=True)
    own.answer("e", "m2", words("two"))
    batch, _ = session(tmp_path, *own.lines)
    assert [shown(span) for span in models(batch)] == [["go"], ["summary of it all"]]
    assert len(agents(batch)) == 1
    assert root(batch).extra["signals"] == [{"kind": "compaction", "message": 2, "line": 3}]


def test_a_compaction_without_its_summary_is_said(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary"}
    events = stream(init(), heard("go"), said("m1", words("a")), boundary, said("m2", words("b")))
    batch, _ = session(tmp_path, *events)
    later = models(batch)[1]
    assert later.request.context is None
    assert "summary after compaction not recorded" in later.fidelity.reasons


def test_lines_that_name_no_parents_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "one", parent=None)
    own.answer("b", "m1", words("two"), parent=None)
    own.user("c", "three", parent=None)
    own.answer("d", "m2", words("four"), parent=None)
    batch, tally = session(tmp_path, *own.lines)
    assert shown(models(batch)[1]) == ["one", "two", "three"]
    assert not tally.problems


def test_a_line_whose_parent_is_lost_follows_the_line_above(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("one"))
    own.user("c", "and then", parent="torn out")
    own.answer("d", "m2", words("two"))
    batch, tally = session(tmp_path, *own.lines)
    assert shown(models(batch)[1]) == ["go", "one", "and then"]
    assert [problem.where for problem in tally.problems] == ["line 3"]


def test_a_history_in_another_file_is_missed(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go on", parent="elsewhere")
    own.answer("b", "m1", words("one"))
    batch, _ = session(tmp_path, *own.lines)
    assert "earlier messages not recorded" in models(batch)[0].fidelity.reasons


def test_a_line_that_comes_twice_counts_once(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", call("t1"))
    own.user("c", result("t1", "ok"))
    batch, tally = session(tmp_path, *own.lines, *own.lines)
    assert len(batch.spans) == 3
    assert tally.counts["events"] == 6
    assert not tally.problems


def test_lines_of_one_answer_may_share_their_uuid(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("first"))
    own.answer("b", "m1", call("t1"), parent="a")
    own.user("c", result("t1", "ok"))
    own.answer("d", "m2", words("done"))
    batch, tally = session(tmp_path, *own.lines)
    assert shown(models(batch)[1]) == ["go", "first", "ok"]
    assert len(agents(batch)) == 1
    assert not tally.problems


def test_attachments_weaken_what_is_known_of_later_requests(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("one"))
    own.add("attachment", "c", attachment={"type": "todo_reminder"})
    own.user("d", "more")
    own.answer("e", "m2", words("two"))
    batch, _ = session(tmp_path, *own.lines)
    known = [len(span.fidelity.reasons) for span in models(batch)]
    assert known == [2, 3]


# Sub-agents


def delegating(own: Session, **fields: Json) -> None:
    own.user("a", "go")
    own.answer("b", "m1", call("t1", "Task", prompt="look", subagent_type="Explore"))
    own.user("c", result("t1", "found"), **fields)
    own.answer("d", "m2", words("done"))


def sidechain(**fields: Json) -> Session:
    side = Session(isSidechain=True, **fields)
    side.user("x1", "look")
    side.answer("x2", "n1", call("t9", "Grep"))
    side.user("x3", result("t9", "here"))
    side.answer("x4", "n2", words("found"))
    return side


def assert_delegated(batch: Batch) -> None:
    main, sub = agents(batch)
    task = next(span for span in tools(batch) if span.name == "Task")
    assert (sub.parent, sub.name) == (task.id, "Explore")
    parents = {span.id: span.parent for span in models(batch)}
    assert parents == {"m1": main.id, "m2": main.id, "n1": sub.id, "n2": sub.id}
    by_id = {span.id: shown(span) for span in models(batch)}
    assert by_id["n2"] == ["look", "", "here"]
    assert by_id["m2"] == ["go", "", "found"]
    steps, loose, plan = build(batch.spans)
    assert len(steps) == 4
    assert not loose
    assert not plan.orphans


def test_a_sub_agents_file_is_read_with_its_session(tmp_path: Path) -> None:
    own = Session()
    delegating(own)
    path = written(tmp_path / "s1.jsonl", own.lines)
    part = written(tmp_path / "s1/subagents/w/agent-ab.jsonl", sidechain(agentId="ab").lines)
    part.with_name("agent-ab.meta.json").write_text('{"toolUseId": "t1", "agentType": "Explore"}')
    batch, tally = only(path)
    assert_delegated(batch)
    sub = agents(batch)[1]
    assert (sub.id, sub.extra["file"]) == ("ab", "s1/subagents/w/agent-ab.jsonl")
    assert (sub.place.line, sub.place.message) == (1, None)
    assert tally.counts["events"] == 8
    assert claude_code.part_of(part) == path
    assert claude_code.part_of(path) is None
    path.unlink()
    assert claude_code.part_of(part) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"toolUseResult": {"agentId": "ab"}},
        {},  # the call with the same prompt
    ],
)
def test_a_sub_agents_file_without_a_sidecar_finds_its_call(
    tmp_path: Path, fields: dict[str, Json]
) -> None:
    own = Session()
    delegating(own, **fields)
    path = written(tmp_path / "s1.jsonl", own.lines)
    written(tmp_path / "s1/subagents/agent-ab.jsonl", sidechain(agentId="ab").lines)
    assert_delegated(only(path)[0])


def test_older_sub_agents_files_lie_beside_the_session(tmp_path: Path) -> None:
    own = Session()
    delegating(own)
    path = written(tmp_path / "s1.jsonl", own.lines)
    part = written(tmp_path / "agent-ab.jsonl", sidechain(agentId="ab").lines)
    stranger = Session("s2", isSidechain=True, agentId="cd")
    stranger.user("y", "other")
    other = written(tmp_path / "agent-cd.jsonl", stranger.lines)
    assert_delegated(only(path)[0])
    assert claude_code.part_of(part) == path
    assert claude_code.part_of(other) is None


def test_sidechains_in_the_main_file_are_sub_agents(tmp_path: Path) -> None:
    own = Session()
    delegating(own)
    side = sidechain().lines
    side[0]["parentUuid"] = None
    batch, tally = session(tmp_path, *own.lines[:2], *side, *own.lines[2:])
    assert_delegated(batch)
    assert not tally.problems


def test_a_sub_agent_of_a_stream_hangs_below_the_call_it_names(tmp_path: Path) -> None:
    inner = {"parent_tool_use_id": "t1"}
    events = stream(
        said("m1", call("t1", "Task", prompt="look", subagent_type="Explore")),
        heard("look", **inner),
        said("n1", call("t9", "Grep"), **inner),
        heard(result("t9", "here"), **inner),
        heard(result("t1", "found")),
        said("m2", words("done")),
        said("m3", call("t1", "Task", prompt="again")),
        heard("again", **inner),
        said("n2", words("ok"), **inner),
    )
    batch, _ = session(tmp_path, *events)
    first, again = (span for span in agents(batch) if span.parent is not None)
    tasks = [span.id for span in tools(batch) if span.name == "Task"]
    assert [first.parent, again.parent] == tasks
    assert shown(next(span for span in models(batch) if span.id == "n2")) == ["again"]
    assert [span.place.line for span in batch.spans[1:]] == [1, 1, 2, 3, 3, 6, 7, 7, 8, 9]


def test_history_that_a_sidechain_repeats_is_context_and_no_calls_of_its_own(
    tmp_path: Path,
) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", call("t0"), fields={"requestId": "r1"})
    own.user("c", result("t0", "zero"))
    own.answer("d", "m2", call("t1", "Task", prompt="fork"))
    side = Session(isSidechain=True, agentId="ab")
    side.user("x1", "go", parent=None)
    side.answer("x2", "m1", call("t0"), fields={"requestId": "r2"})
    side.user("x3", result("t0", "zero"))
    side.user("x4", "fork")
    side.answer("x5", "n1", words("mine"))
    batch, tally = session(tmp_path, *own.lines, *side.lines)
    assert [span.id for span in models(batch)] == ["m1", "m2", "n1"]
    assert shown(models(batch)[2]) == ["go", "", "zero", "fork"]
    assert len(tools(batch)) == 2
    assert [problem.why for problem in tally.problems if "belongs to no call" in problem.why] == []


def test_an_agent_nobody_sent_hangs_off_the_root_and_is_told(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("no"))
    batch, tally = session(tmp_path, *own.lines, *sidechain(agentId="ab").lines)
    assert agents(batch)[1].parent == root(batch).id
    assert [problem.where for problem in tally.problems] == ["line 3"]


def test_a_broken_sub_agents_file_does_not_harm_its_session(tmp_path: Path) -> None:
    own = Session()
    delegating(own)
    path = written(tmp_path / "s1.jsonl", own.lines)
    folder = tmp_path / "s1/subagents"
    folder.mkdir(parents=True)
    (folder / "agent-ab.jsonl").write_text("no json\n")
    batch, tally = only(path)
    assert len(models(batch)) == 2
    assert all(p.where.startswith("s1/subagents/agent-ab.jsonl") for p in tally.problems)
    assert tally.problems


def test_a_sub_agents_file_read_alone_is_an_item_of_its_session(tmp_path: Path) -> None:
    path = written(tmp_path / "agent-ab.jsonl", sidechain(agentId="ab").lines)
    batch, _ = only(path)
    assert (batch.header.source_id, batch.header.item) == ("s1", "ab")
    assert len(models(batch)) == 2


# What happened on the way


def test_an_api_error_is_a_failed_call_that_later_calls_did_not_see(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer(
        "b", "x", words("API Error: 529"), model="<synthetic>", usage=ZERO,
        fields={"isApiErrorMessage": True},
    )  # fmt: skip
    own.user("c", "try again")
    own.answer("d", "m1", words("ok"))
    batch, _ = session(tmp_path, *own.lines)
    failed, worked = models(batch)
    assert (failed.status, failed.error) == ("error", "API Error: 529")
    assert (failed.response.message, failed.response.model) == (None, None)
    assert shown(worked) == ["go", "try again"]


def test_words_put_into_the_models_mouth_are_context_and_no_call(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "x", words("No response requested."), model="<synthetic>", usage=ZERO)
    own.user("c", "now")
    own.answer("d", "m1", words("ok"))
    batch, _ = session(tmp_path, *own.lines)
    (ask,) = models(batch)
    assert shown(ask) == ["go", "No response requested.", "now"]


def test_interrupts_rejections_and_denials_are_kept_and_marked(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", call("t1"))
    no = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    own.user("c", result("t1", no, is_error=True))
    own.user("d", [words("[Request interrupted by user for tool use]")])
    own.answer("e", "m2", call("t2"))
    denied = "Claude requested permissions to use Web, but you haven't granted it yet."
    own.user("f", result("t2", denied, is_error=True))
    own.user("g", [words("[Request interrupted by user]")])
    batch, _ = session(tmp_path, *own.lines)
    assert [(s["kind"], s["message"]) for s in root(batch).extra["signals"]] == [
        ("rejected", 2),
        ("interrupt", 3),
        ("denied", 5),
        ("interrupt", 6),
    ]
    assert shown(models(batch)[1])[-1] == "[Request interrupted by user for tool use]"
    assert root(batch).extra["unanswered"] == [
        {"role": "user", "content": [words("[Request interrupted by user]")]}
    ]


def test_how_a_run_ended_is_kept_and_is_no_outcome(tmp_path: Path) -> None:
    end = {
        "type": "result", "subtype": "error_max_turns", "is_error": True, "num_turns": 3,
        "duration_ms": 900, "terminal_reason": "max_turns", "total_cost_usd": 0.5,
    }  # fmt: skip
    batch, _ = session(tmp_path, *stream(init(), said("m1", words("a")), end))
    extra = root(batch).extra
    assert (extra["result_subtype"], extra["num_turns"]) == ("error_max_turns", 3)
    assert (extra["terminal_reason"], extra["duration_ms"]) == ("max_turns", 900)
    assert (root(batch).status, root(batch).error) == ("error", "error_max_turns")
    assert batch.header.reported_cost_usd == 0.5
    assert batch.header.outcome.status == "unknown"


def test_a_killed_run_is_read_to_where_it_ends(tmp_path: Path) -> None:
    events = stream(init(), said("m1", call("t1")))
    path = written(tmp_path / "run.txt", events)
    path.write_text(path.read_text() + '{"type":"user","mess')
    batch, tally = only(path)
    assert (len(models(batch)), len(tools(batch))) == (1, 1)
    assert root(batch).status == "unset"
    assert [problem.where for problem in tally.problems] == ["line 3", "line 2"]


def test_a_result_without_a_call_is_kept_as_an_orphan(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("x"))
    own.user("c", result("gone", "late"))
    batch, tally = session(tmp_path, *own.lines)
    (orphan,) = tools(batch)
    assert (orphan.asked_by, orphan.extra) == (None, {"orphan": "result"})
    assert len(tally.problems) == 1


# What a session says of itself


def test_a_session_is_titled_by_its_last_title(tmp_path: Path) -> None:
    own = Session(cwd="/w", version="2", gitBranch="main")
    own.user("a", "go")
    own.answer("b", "m1", words("x"))
    titles = [{"type": "ai-title", "aiTitle": t, "sessionId": "s1"} for t in ("Old", "New")]
    summary = {"type": "summary", "summary": "Sum", "leafUuid": "b"}
    batch, _ = session(tmp_path, *own.lines, *titles, summary)
    assert batch.header.title == "New"
    assert batch.header.labels == {"cwd": "/w", "version": "2", "git_branch": "main"}
    batch, _ = session(tmp_path, *own.lines, summary)
    assert batch.header.title == "Sum"
    batch, _ = session(tmp_path, *own.lines, {**summary, "leafUuid": "elsewhere"})
    assert batch.header.title == "go"


def test_the_harness_speaking_is_no_title(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "Caveat: The messages below were generated", isMeta=True)
    own.user("b", "<command-name>/clear</command-name>")
    own.user("c", [words("<system-reminder>be kind</system-reminder>")])
    own.user("d", "x" * 200 + "\nsecond line")
    own.answer("e", "m1", words("ok"))
    batch, _ = session(tmp_path, *own.lines)
    assert batch.header.title == "x" * 79 + "…"


def test_each_session_of_a_file_is_a_trace(tmp_path: Path) -> None:
    one, two = Session("s1"), Session("s2")
    for own in (one, two):
        own.user("a", "go")
        own.answer("b", "m", words("ok"))
    batches, _ = imported(written(tmp_path / "f.jsonl", [*one.lines, *two.lines]))
    assert [batch.header.source_id for batch in batches] == ["s1", "s2"]
    assert [len(batch.spans) for batch in batches] == [2, 2]


def test_a_session_that_grows_says_the_same_of_what_was_there(tmp_path: Path) -> None:
    own = Session()
    delegating(own)
    own.user("e", "more")
    own.answer("f", "m3", call("t3"))
    own.user("g", result("t3", "ok"))
    own.user("h", "other way", parent="d")
    own.answer("i", "m4", words("x"))
    whole = {span.id: span for span in session(tmp_path, *own.lines)[0].spans}
    for length in range(2, len(own.lines)):
        early, _ = session(tmp_path, *own.lines[:length])
        for span in early.spans:
            assert span.id in whole
            if isinstance(span, ModelCall):
                later = whole[span.id]
                assert isinstance(later, ModelCall)
                assert shown(later) == shown(span)


def test_a_stream_is_the_same_run_at_every_line_of_its_growth(tmp_path: Path) -> None:
    lines = stream(
        init(),
        heard("go"),
        said("m1", words("let me see"), stop_reason="tool_use"),
        said("m1", call("t1"), stop_reason="tool_use"),
        heard(result("t1", "ok")),
        said("m2", words("done"), stop_reason="end_turn"),
        {"type": "result", "subtype": "success", "is_error": False},
    )
    store = Store.open(tmp_path / "arc.db")
    verdicts = set()
    for length in range(2, len(lines) + 1):
        writer = Writer(store)
        batch, _ = session(tmp_path, *lines[:length])
        verdicts.add(writer.finish(writer.write(batch)).verdict)
    assert verdicts == {"new", "grown"}
    assert [span.response.stop for span in models(batch)] == ["tool", "end"]
    unfinished, _ = session(tmp_path, *lines[:3])
    assert models(unfinished)[0].response.stop is None


# Hostile sources


@pytest.mark.parametrize(
    "lines",
    [
        [{"type": "user", "message": {}}],
        [{"type": "queue-operation", "sessionId": "s"}],
        [{"type": "user", "sessionId": "s", "uuid": "u", "message": "text"}],
    ],
)
def test_a_file_without_a_message_of_a_session_is_refused(
    tmp_path: Path, lines: list[Json]
) -> None:
    with pytest.raises(BadTrace, match="contains no message"):
        imported(written(tmp_path / "f.jsonl", lines))


def test_a_message_nested_too_deeply_is_left_out(tmp_path: Path) -> None:
    deep: Json = words("x")
    for _ in range(120):
        deep = {"type": "tool_result", "tool_use_id": "t", "content": [deep]}
    own = Session()
    own.user("a", "go")
    own.user("b", [deep])
    own.answer("c", "m1", words("ok"))
    batch, tally = session(tmp_path, *own.lines)
    assert shown(models(batch)[0]) == ["go"]
    assert [problem.where for problem in tally.problems] == ["line 2"]


_SCRAP = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@st.composite
def _spoilt(draw: st.DrawFn) -> list[Json]:
    """A session with fields dropped, replaced or pointed elsewhere."""
    own = Session()
    delegating(own)
    own.user("e", "again", parent="b")
    own.answer("f", "m3", words("x"))
    lines: list[Json] = [*own.lines, *sidechain(agentId="ab").lines]
    for _ in range(draw(st.integers(1, 6))):
        line = draw(st.sampled_from(lines))
        target = draw(st.sampled_from([line, line.get("message")]))
        if not isinstance(target, dict) or not target:
            continue
        name = draw(st.sampled_from(sorted(target)))
        if name == "parentUuid":
            target[name] = draw(st.sampled_from(["a", "b", "d", "x2", None]))
        else:
            target[name] = draw(_SCRAP)
    return draw(st.permutations(lines)) if draw(st.booleans()) else lines


def test_a_sub_agent_without_a_message_is_an_empty_thread(tmp_path: Path) -> None:
    lines = [
        {"type": "user", "uuid": "a", "parentUuid": None, "sessionId": "s1",
         "message": {"role": "user", "content": "go"}},
        {"type": "system", "uuid": "x", "parentUuid": None, "sessionId": "s1",
         "isSidechain": True, "agentId": "ab"},
        {"type": "system", "uuid": "y", "parentUuid": "x", "sessionId": "s1",
         "isSidechain": True, "agentId": "ab"},
    ]  # fmt: skip
    batch, _ = session(tmp_path, *lines)
    assert models(batch) == []
    assert len(agents(batch)) == 2


@settings(deadline=None)
@given(lines=_spoilt())
def test_a_spoilt_session_gives_a_sound_tree_or_a_bad_trace(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Json]
) -> None:
    path = written(tmp_path_factory.mktemp("spoilt") / "s1.jsonl", lines)
    try:
        batches, _ = imported(path)
    except BadTrace:
        return
    for batch in batches:
        names = [span.id for span in batch.spans]
        assert len(names) == len(set(names))
        assert not build(batch.spans)[2].orphans


# Real files


def _expected() -> list[tuple[str, dict[str, Json]]]:
    if not DATA.is_dir():
        return []
    rows = json.loads((DATA / "expected.json").read_text())
    return [(name, row) for name, row in rows.items() if row["format"].startswith("claude-code")]


@needs_shared
@pytest.mark.parametrize(("name", "row"), _expected(), ids=lambda value: str(value)[:60])
def test_real_streams_hold_what_was_counted_in_them(name: str, row: dict[str, Json]) -> None:
    path = DATA / name
    assert claude_code.sniff(Source(path).head)
    batch, tally = only(path)
    events = row["events"]
    if isinstance(events, dict):
        assert {kind: tally.counts[f"events.{kind}"] for kind in events} == events
        events = sum(events.values())
    assert tally.counts["events"] == events
    assert (tally.counts["tool_use"], tally.counts["tool_errors"]) == (
        row["tool_use"],
        row["tool_errors"],
    )
    assert len(tools(batch)) == row["tool_use"]
    header, extra = batch.header, root(batch).extra
    for figure in ("duration_ms", "num_turns"):
        if figure in row:
            assert extra.get(figure) == row[figure]
    if "total_cost_usd" in row:
        assert header.reported_cost_usd == row["total_cost_usd"]
    if "duration_s" in row:
        assert header.start_ns is not None
        assert header.end_ns is not None
        duration = (header.end_ns - header.start_ns) / 1e9
        assert duration == pytest.approx(row["duration_s"], abs=0.051)
    steps, loose, plan = build(batch.spans)
    assert [step.ask.place.line for step in steps] == sorted(
        s.place.line or 0 for s in models(batch)
    )
    assert not loose
    assert not plan.orphans


@needs_shared
def test_fix_git_repeats_its_tool_ids_and_gives_up_its_first_answer() -> None:
    batch, _ = only(DATA / "terminal_bench/fix-git__cCozJVA/agent/claude-code.txt")
    calls = tools(batch)
    assert (len(calls), len({span.call_id for span in calls})) == (59, 56)
    assert sum(1 for span in calls if span.observation is None) == 3
    first, second_ask, third, *_ = models(batch)
    assert first.usage is None
    assert first.extra["given_up_for"] == second_ask.id
    assert second_ask.request.context is None
    assert [message.role for message in _context(third)] == ["assistant", "user"]
    assert second_ask.usage is not None
    assert second_ask.usage.input_tokens == 3368 + 18016


def _context(span: ModelCall) -> list[Json]:
    return span.request.context.messages() if span.request.context else []


@needs_shared
@pytest.mark.parametrize("folder", ["claude_code_jsonl", "formats/claude-code"])
def test_every_other_real_file_is_read_or_refused_with_a_reason(folder: str) -> None:
    paths = [p for p in (DATA / folder).rglob("*") if p.suffix in {".jsonl", ".json"}]
    refused = set()
    for path in paths:
        try:
            batches, _ = imported(path)
        except BadTrace:
            refused.add(path.name)
            assert not claude_code.sniff(Source(path).head)
        else:
            assert any(models(batch) for batch in batches)
            assert claude_code.sniff(Source(path).head)
    assert refused <= {
        "ccusage_transcript.jsonl",
        "agent-ab12cd34.meta.json",
    }


@needs_shared
def test_the_sample_project_nests_its_sub_agent_and_begins_again_after_compaction() -> None:
    folder = DATA / "formats/claude-code/config/projects/-work-app"
    (path,) = folder.glob("*.jsonl")
    batch, tally = only(path)
    main, sub = agents(batch)
    names = {span.id: span.name for span in tools(batch)}
    assert names[str(sub.parent)] == "Agent"
    assert (main.id, sub.name) == (path.stem, "general-purpose")
    assert [span.id for span in models(batch)] == [
        "msg_A",
        "msg_B",
        "msg_C",
        "x",
        "msg_S1",
        "msg_S2",
    ]
    assert [len(shown(span)) for span in models(batch)] == [1, 4, 6, 1, 1, 3]
    assert batch.header.title == "Fix failing test"
    assert not tally.problems
    (part,) = folder.rglob("agent-*.jsonl")
    assert claude_code.part_of(part) == path


@pytest.mark.data
@needs_shared
def test_no_other_real_file_is_claimed() -> None:
    claimed = set()
    for path in DATA.rglob("*"):
        if path.is_file() and "claude" not in path.name and path.suffix in {".json", ".jsonl"}:
            source = Source(path)
            try:
                found = claude_code.sniff(source.head)
            except (BadTrace, zlib.error):
                continue
            if found and "claude" not in str(path.relative_to(DATA)):
                claimed.add(path)
    assert not claimed
