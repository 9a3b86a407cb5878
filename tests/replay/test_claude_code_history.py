"""Claude Code sessions that say again what was said before, and what the model saw beside it.

The lines are written here as recent versions write them: forks (`forkedFrom`), resumed sessions in
files of their own, compactions that keep messages, queued prompts, results cut for the model.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from arc_tui import importing
from replay.formats import claude_code
from replay.formats.claude_code.lines import lines
from replay.formats.source import Source, Tally
from replay.messages import observed
from replay.store.rows import trace_rows
from replay.trace import Batch
from taxonomy.judgements.schema import open_ledger
from tests.replay.kinds import agents, models, tools
from tests.replay.test_claude_code import (
    Session,
    call,
    imported,
    only,
    result,
    root,
    session,
    shown,
    words,
    written,
)

Json = Any


def first() -> Session:
    own = Session("s1")
    own.user("a", "go")
    own.answer("b", "m1", call("t1"))
    own.user("c", result("t1", "found"))
    own.answer("d", "m2", words("done"))
    return own


def going_on(before: Session, name: str, **fields: Json) -> Session:
    """Another session that begins with the lines of the one before."""
    own = Session(name)
    for line in copy.deepcopy(before.lines):
        own.lines.append({**line, "sessionId": name, **fields})
    own._tip = own.lines[-1]["uuid"]
    return own


def said_more(own: Session) -> Session:
    own.user("e", "and now?")
    own.answer("f", "m3", words("more"))
    return own


def names(batch: Batch) -> list[str]:
    return [span.id for span in models(batch)]


# Sessions that go on from others


def test_what_a_fork_took_over_is_context_and_no_step_of_its_own(tmp_path: Path) -> None:
    origin = {"sessionId": "s1", "messageUuid": "x"}
    fork = said_more(going_on(first(), "s2", forkedFrom=origin))
    batch, _ = only(written(tmp_path / "s2.jsonl", fork.lines))
    (ask,) = models(batch)
    assert ask.id == "m3"
    assert shown(ask) == ["go", "", "found", "done", "and now?"]
    assert tools(batch) == []
    assert batch.header.labels["goes_on_from"] == "s1"
    assert batch.header.start_ns == batch.spans[0].start_ns
    assert ask.fidelity.reasons == ("system prompt not recorded", "tool definitions not recorded")


def test_a_fork_that_was_never_gone_on_with_is_told_whole(tmp_path: Path) -> None:
    fork = going_on(first(), "s2", forkedFrom={"sessionId": "s1", "messageUuid": "x"})
    batch, _ = only(written(tmp_path / "s2.jsonl", fork.lines))
    assert names(batch) == ["m1", "m2"]
    assert "goes_on_from" not in batch.header.labels


def test_a_resumed_session_repeats_no_steps_of_the_file_it_came_from(tmp_path: Path) -> None:
    resumed = said_more(going_on(first(), "s2"))
    path = written(tmp_path / "s2.jsonl", resumed.lines)
    assert names(only(path)[0]) == ["m1", "m2", "m3"]  # the earlier file is not there
    written(tmp_path / "s1.jsonl", first().lines)
    batch, tally = only(path)
    assert names(batch) == ["m3"]
    assert shown(models(batch)[0]) == ["go", "", "found", "done", "and now?"]
    assert batch.header.labels["goes_on_from"] == "s1"
    assert not tally.problems
    assert names(only(tmp_path / "s1.jsonl")[0]) == ["m1", "m2"]


def test_a_folder_with_a_resumed_session_counts_every_call_once(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    written(folder / "s1.jsonl", first().lines)
    written(folder / "s2.jsonl", said_more(going_on(first(), "s2")).lines)
    mixed = [*first().lines, *said_more(going_on(first(), "s3")).lines[4:]]
    for line, uuid, parent in zip(mixed[4:], ("g", "h"), ("d", "g"), strict=True):
        line |= {"uuid": uuid, "parentUuid": parent}
        line["message"]["id"] = "m9"
    written(folder / "s3.jsonl", mixed)
    with open_ledger(tmp_path / "arc.db") as store:
        *_, report = importing.import_paths(store, [folder])
        assert isinstance(report, importing.ImportReport)
        assert [file.error for file in report.files] == [None, None, None]
        assert sorted(row.steps for row in trace_rows(store)) == [1, 1, 2]


def test_a_file_that_holds_two_sessions_links_the_later_to_the_earlier(tmp_path: Path) -> None:
    later = Session("s2")
    later.user("e", "and now?", parent="d")
    later.answer("f", "m3", words("more"))
    batches, tally = imported(written(tmp_path / "both.jsonl", [*first().lines, *later.lines]))
    assert [names(batch) for batch in batches] == [["m1", "m2"], ["m3"]]
    assert shown(models(batches[1])[0]) == ["go", "", "found", "done", "and now?"]
    assert not tally.problems


def test_a_session_with_a_file_of_its_own_is_told_there(tmp_path: Path) -> None:
    later = Session("s2")
    later.user("e", "and now?", parent="d")
    later.answer("f", "m3", words("more"))
    written(tmp_path / "s1.jsonl", first().lines)
    path = written(tmp_path / "s2.jsonl", [*first().lines, *later.lines])
    batch, _ = only(path)
    assert (batch.header.source_id, names(batch)) == ("s2", ["m3"])


def test_a_copied_branch_is_not_told_again(tmp_path: Path) -> None:
    before = first()
    before.user("x", "another way", parent="b")
    before.answer("y", "m5", words("lost"))
    before.lines.append(before.lines.pop(2))  # the result comes late, the branch before it
    fork = going_on(before, "s2", forkedFrom={"sessionId": "s1", "messageUuid": "x"})
    fork.user("e", "and now?", parent="d")
    fork.answer("f", "m6", words("more"))
    batch, _ = only(written(tmp_path / "s2.jsonl", fork.lines))
    assert names(batch) == ["m6"]
    assert len(agents(batch)) == 1
    assert "signals" not in root(batch).extra


def test_a_copied_sub_agent_is_not_told_again(tmp_path: Path) -> None:
    before = first()
    before.user("x", "look", parent=None, isSidechain=True, agentId="ab")
    before.answer("y", "n1", words("seen"), fields={"isSidechain": True, "agentId": "ab"})
    resumed = going_on(before, "s2")
    resumed.user("e", "and now?", parent="d")
    resumed.answer("f", "m3", words("more"))
    written(tmp_path / "s1.jsonl", before.lines)
    batch, tally = only(written(tmp_path / "s2.jsonl", resumed.lines))
    assert names(batch) == ["m3"]
    assert len(agents(batch)) == 1
    assert not tally.problems


def test_an_exported_session_is_read_like_its_file(tmp_path: Path) -> None:
    own = first()
    kept = ("type", "timestamp", "message")
    bare = [{name: line[name] for name in kept} for line in own.lines]
    for name, exported in (("whole.json", own.lines), ("bare.json", bare)):
        path = tmp_path / name
        path.write_text(json.dumps({"loglines": [*exported, 5]}, indent=1))
        assert claude_code.sniff(Source(path).head)
        batch, tally = only(path)
        assert names(batch) == ["m1", "m2"]
        assert shown(models(batch)[1]) == ["go", "", "found"]
        assert (models(batch)[1].place.message, models(batch)[1].place.line) == (3, None)
        assert tally.counts["events"] == 4
    assert batch.header.title == "go"


# Compactions


def compacted(**kept: Json) -> Session:
    own = first()
    own.add(
        "system", "e", None, subtype="compact_boundary", logicalParentUuid="d",
        compactMetadata={"trigger": "auto", "preTokens": 9, **kept},
    )  # fmt: skip
    own.user("f", "summary of it all", isCompactSummary=True)
    return own


def test_messages_that_a_compaction_kept_follow_its_summary(tmp_path: Path) -> None:
    own = compacted(preservedSegment={"headUuid": "c", "tailUuid": "d", "anchorUuid": "f"})
    own.user("g", "go on", parent="d")
    own.answer("h", "m3", words("more"))
    batch, _ = session(tmp_path, *own.lines)
    assert shown(models(batch)[-1]) == ["summary of it all", "found", "done", "go on"]
    assert len(agents(batch)) == 1
    kinds = [each["kind"] for each in root(batch).extra["signals"]]
    assert kinds == ["compaction"]


def test_a_summary_may_follow_the_messages_that_were_kept(tmp_path: Path) -> None:
    own = compacted(preservedMessages={"uuids": ["a", "b", "c"], "anchorUuid": "e"})
    own.answer("h", "m3", words("more"))
    batch, _ = session(tmp_path, *own.lines)
    assert shown(models(batch)[-1]) == ["go", "", "found", "summary of it all"]


def test_messages_kept_that_are_not_in_the_file_are_missed(tmp_path: Path) -> None:
    own = compacted(preservedSegment={"headUuid": "y", "tailUuid": "z", "anchorUuid": "f"})
    own.answer("h", "m3", words("more"))
    batch, _ = session(tmp_path, *own.lines)
    assert shown(models(batch)[-1]) == ["summary of it all"]
    reasons = models(batch)[-1].fidelity.reasons
    assert "messages kept through a compaction not recorded" in reasons


def test_lines_written_again_under_new_ids_are_no_branch(tmp_path: Path) -> None:
    own = first()
    for old, new, parent in (("c", "c2", "b"), ("d", "d2", "c2")):
        line = next(line for line in own.lines if line["uuid"] == old)
        own.lines.append({**line, "uuid": new, "parentUuid": parent})
    own.user("e", "and now?", parent="d2")
    own.answer("f", "m3", words("more"))
    batch, tally = session(tmp_path, *own.lines)
    assert names(batch) == ["m1", "m2", "m3"]
    assert shown(models(batch)[-1]) == ["go", "", "found", "done", "and now?"]
    assert len(agents(batch)) == 1
    assert not tally.problems


# What the model saw beside the conversation


def test_words_written_while_the_model_was_at_work_are_in_its_context(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", call("t1"))
    own.user("c", result("t1", "found"))
    queued = {"type": "queued_command", "prompt": "and the tests", "commandMode": "prompt"}
    own.add("attachment", "d", attachment=queued)
    own.answer("e", "m2", words("done"))
    batch, _ = session(tmp_path, *own.lines)
    later = models(batch)[-1]
    assert shown(later) == ["go", "", "found", "and the tests"]
    assert "attachments not recorded as the model saw them" in later.fidelity.reasons
    assert "unanswered" not in root(batch).extra


def test_what_a_local_command_printed_is_in_the_context_and_no_branch(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", words("ok"))
    printed = "<local-command-stdout>two files</local-command-stdout>"
    own.add("system", "c", subtype="local_command", content=printed)
    own.user("d", "and now?")
    own.answer("e", "m2", words("done"))
    own.add("system", "f", "b", subtype="local_command", content=printed)
    batch, _ = session(tmp_path, *own.lines)
    assert shown(models(batch)[-1]) == ["go", "ok", printed, "and now?"]
    assert len(agents(batch)) == 1


def test_a_result_cut_for_the_model_is_told_as_the_model_saw_it(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", call("t1"))
    own.user("c", result("t1", "a very long text"))
    own.lines.append(
        {
            "type": "content-replacement",
            "sessionId": "s1",
            "replacements": [
                {"kind": "tool-result", "toolUseId": "t1", "replacement": "a very…"},
                {"kind": "persisted", "toolUseId": "t2"},
                5,
            ],
        }
    )
    own.answer("d", "m2", words("done"))
    batch, tally = session(tmp_path, *own.lines)
    assert shown(models(batch)[-1]) == ["go", "", "a very…"]
    (tool,) = tools(batch)
    assert tool.observation is not None
    assert observed(tool.observation).text == "a very…"
    assert tally.unknown == {}


def test_a_tool_says_how_it_ended(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m1", call("t1"), call("t2"))
    rich = {"stdout": "x" * 1000, "exitCode": 2, "interrupted": True}
    own.user("c", result("t1", "x" * 1000), toolUseResult=rich)
    own.user("d", result("t2", "ok"), toolUseResult={"exitCode": True, "interrupted": False})
    batch, _ = session(tmp_path, *own.lines)
    assert [span.extra for span in tools(batch)] == [{"exit_code": 2, "interrupted": True}, {}]


def test_lines_made_up_for_the_screen_are_left_out(tmp_path: Path) -> None:
    own = Session()
    own.user("a", "go")
    own.answer("b", "m0", call("t0"), fields={"isVirtual": True})
    own.answer("c", "m1", words("done"))
    batch, _ = session(tmp_path, *own.lines)
    assert names(batch) == ["m1"]
    assert tools(batch) == []


def test_of_a_line_only_what_is_read_is_held(tmp_path: Path) -> None:
    bulk = "x" * 10_000
    own = Session()
    own.user("a", result("t", "short"), toolUseResult={"originalFile": bulk, "agentId": "ab"})
    own.add("progress", "b", data={"output": bulk})
    own.add("attachment", "c", attachment={"type": "edited_text_file", "snippet": bulk})
    own.lines.append({"type": "file-history-snapshot", "messageId": "c", "snapshot": {"f": bulk}})
    path = written(tmp_path / "s1.jsonl", own.lines)
    tally = Tally()
    held = list(lines(Source(path).records(tally), tally))
    assert all(bulk not in json.dumps(line.record) for line in held)
    assert held[0].rich == {"agentId": "ab"}
    assert tally.counts["events"] == 4
    assert tally.unknown == {}
    assert claude_code.sniff(Source(path).head)
