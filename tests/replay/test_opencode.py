"""opencode sessions: an export, a storage folder and a database say the same.

These are written after opencode's own types, its storage layouts and the tables of its database;
a real export is among `tests/replay/recorded`.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.convert import Converter
from replay.errors import BadTrace
from replay.formats import load, opencode, part_of, sniff
from replay.formats.opencode.thread import CLEARED, KEPT, usage
from replay.formats.source import Source, Tally
from replay.messages import observed, text, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch
from tests.replay.foreign_case import SOME, mutated, stored
from tests.replay.kinds import agents, models, seen, tools

Value = dict[str, Any]
T0 = 1_767_348_000_000
ID, SUB = "ses_4f2a", "ses_5b31"


def session(name: str = ID, **more: Any) -> Value:
    return {
        "id": name, "projectID": "p1", "directory": "/w", "title": "Mend the test",
        "version": "1.0.1", "time": {"created": T0, "updated": T0 + 60_000}, **more,
    }  # fmt: skip


def part(message: str, number: int, kind: str, **more: Any) -> Value:
    name = f"prt_{message}_{number:02}"
    return {"id": name, "sessionID": ID, "messageID": message, "type": kind, **more}


def user(name: str, second: int, *parts: Value) -> Value:
    info = {
        "id": name, "sessionID": ID, "role": "user", "time": {"created": T0 + second * 1000},
        "agent": "build", "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"},
    }  # fmt: skip
    return {"info": info, "parts": [*parts]}


def answer(name: str, second: int, *parts: Value, **more: Any) -> Value:
    at = T0 + second * 1000
    info = {
        "id": name, "sessionID": ID, "role": "assistant", "parentID": "msg_1", "cost": 0.5,
        "time": {"created": at, "completed": at + 4000}, "modelID": "claude-sonnet-4-5",
        "providerID": "anthropic", "mode": "build", "agent": "build", "finish": "stop",
        "tokens": tokens(900, 40, 0), "path": {"cwd": "/w", "root": "/w"}, **more,
    }  # fmt: skip
    return {"info": info, "parts": [*parts]}


def tokens(given: int, out: int, reasoning: int, total: int | None = None) -> Value:
    figures = {"input": given, "output": out, "reasoning": reasoning,
               "cache": {"read": 100, "write": 10}}  # fmt: skip
    return figures if total is None else {**figures, "total": total}


def words(message: str, number: int, words: str, **more: Any) -> Value:
    return part(message, number, "text", text=words, **more)


def tool(message: str, number: int, call_id: str, name: str = "read", **state: Any) -> Value:
    told = {
        "status": "completed", "input": {"filePath": "a.py"}, "output": "print(1)", "title": "a.py",
        "metadata": {}, "time": {"start": T0 + 5000, "end": T0 + 6000}, **state,
    }  # fmt: skip
    return part(message, number, "tool", callID=call_id, tool=name, state=told)


def finish(message: str, number: int, reason: str, used: Value) -> Value:
    return part(message, number, "step-finish", reason=reason, cost=0.25, tokens=used)


TALK = [
    user("msg_1", 1, words("msg_1", 0, "Mend a.py"), words("msg_1", 1, "[a.py]", synthetic=True)),
    answer(
        "msg_2", 2,
        part("msg_2", 0, "step-start"),
        part("msg_2", 1, "reasoning", text="I read it.", time={"start": T0, "end": T0 + 4000}),
        tool("msg_2", 2, "c1"),
        tool("msg_2", 3, "c2", status="error", error="no such file", output=None),
        finish("msg_2", 4, "tool-calls", tokens(900, 40, 0)),
        finish="tool-calls",
    ),
    answer("msg_3", 9, part("msg_3", 0, "step-start"), words("msg_3", 1, "Mended."),
           finish("msg_3", 2, "stop", tokens(1000, 12, 0))),
]  # fmt: skip


def exported(*messages: Value, **more: Any) -> Value:
    return {"info": session(**more), "messages": [*messages]}


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def read(path: Path) -> tuple[Batch, Tally]:
    source, tally = Source(path), Tally()
    assert sniff(source) is opencode
    (batch,) = load(source, tally)
    return batch, tally


def told(tmp_path: Path, *messages: Value, **more: Any) -> tuple[Batch, Tally]:
    return read(written(tmp_path / "export.json", exported(*messages, **more)))


def folder(root: Path, info: Value, messages: list[Value], *, old: bool = False) -> Path:
    """The files of a session in a storage folder, in the layout of that release."""
    name = info["id"]
    sessions = root / "session" / "info" if old else root / "session" / "p1"
    base = root / "session" if old else root
    for message in messages:
        about = {**message["info"], "sessionID": name}
        written(base / "message" / name / f"{about['id']}.json", about)
        inner = base / "part" / name if old else base / "part"
        for each in message["parts"]:
            path = inner / about["id"] / f"{each['id']}.json"
            written(path, {**each, "sessionID": name})
    return written(sessions / f"{name}.json", info)


def database(path: Path, *sessions: tuple[Value, list[Value]]) -> Path:
    """The tables of the later releases that hold conversations."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text, `parent_id` text,"
            " `directory` text, `title` text, `version` text, `cost` real,"
            " `time_created` integer, `time_updated` integer)"
        )
        for name, above in (("message", "session_id"), ("part", "message_id")):
            db.execute(
                f"CREATE TABLE `{name}` (`id` text PRIMARY KEY, `{above}` text,"
                " `time_created` integer, `data` text)"
            )
        for info, messages in sessions:
            row = (info["id"], "p1", info.get("parentID"), "/w", info["title"], "1.1", 0.0, T0, T0)
            db.execute("INSERT INTO session VALUES (?,?,?,?,?,?,?,?,?)", row)
            for message in messages:
                about = dict(message["info"])
                name, at = about.pop("id"), about["time"]["created"]
                db.execute(
                    "INSERT INTO message VALUES (?,?,?,?)",
                    (name, info["id"], at, json.dumps(about)),
                )
                for each in message["parts"]:
                    kept = (each["id"], name, T0, json.dumps({**each, "id": None}))
                    db.execute("INSERT INTO part VALUES (?,?,?,?)", kept)
    return path


def test_an_answer_its_calls_and_what_came_back_are_told(tmp_path: Path) -> None:
    batch, tally = told(tmp_path, *TALK)
    first, last = models(batch)
    assert first.response.message is not None
    assert thinking(first.response.message) == "I read it."
    assert (first.response.stop, last.response.stop) == ("tool", "end")
    fine, failed = tools(batch)
    assert fine.observation is not None
    assert (fine.arguments, observed(fine.observation).text) == ({"filePath": "a.py"}, "print(1)")
    assert (fine.duration_ns, fine.time_quality) == (1_000_000_000, "exact")
    assert (failed.status, failed.error) == ("error", "no such file")
    assert [role for role, _ in seen(last)] == ["user", "assistant", "user", "user"]
    assert last.cost is not None
    assert last.cost.usd == 0.25
    assert last.fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert batch.header.title == "Mend the test"
    assert tally.problems == []


def test_a_title_that_opencode_made_up_gives_way_to_the_question(tmp_path: Path) -> None:
    made_up = "New session - 2026-01-02T10:00:00.000Z"
    assert told(tmp_path, *TALK, title=made_up)[0].header.title == "Mend a.py"


@pytest.mark.parametrize(
    ("figures", "given", "out"),
    [
        (tokens(900, 40, 0), 1010, 40),
        (tokens(900, 40, 30, total=1080), 1010, 70),
        (tokens(900, 40, 30, total=1050), 1010, 40),
        (tokens(900, 40, 30), 1010, 40),
        (tokens(900, 10, 30), 1010, 40),
    ],
)
def test_the_cache_is_part_of_the_input_and_reasoning_of_the_output(
    figures: Value, given: int, out: int
) -> None:
    used = usage(figures)
    assert used is not None
    assert (used.input_tokens, used.output_tokens) == (given, out)


def test_several_calls_in_one_message_are_told_apart(tmp_path: Path) -> None:
    steps = [
        part("msg_2", 0, "step-start"), tool("msg_2", 1, "c1"),
        finish("msg_2", 2, "tool-calls", tokens(900, 40, 0)),
        part("msg_2", 3, "step-start"), words("msg_2", 4, "Mended."),
        finish("msg_2", 5, "stop", tokens(1000, 12, 0)),
    ]  # fmt: skip
    batch, _ = told(tmp_path, TALK[0], answer("msg_2", 2, *steps, system=["You are opencode."]))
    used = [ask.usage.output_tokens for ask in models(batch) if ask.usage]
    assert used == [40, 12]
    assert [role for role, _ in seen(models(batch)[1])] == ["user", "assistant", "user"]
    system = models(batch)[0].request.system
    assert system is not None
    assert text(system) == "You are opencode."
    assert models(batch)[0].fidelity.reasons == (NO_TOOLS,)


def test_a_compaction_begins_again_with_its_summary(tmp_path: Path) -> None:
    batch, _ = told(
        tmp_path,
        *TALK,
        user("msg_4", 20, words("msg_4", 0, "Sum up"), part("msg_4", 1, "compaction", auto=True)),
        answer("msg_5", 21, words("msg_5", 0, "They mended a.py."), summary=True),
        user("msg_6", 30, words("msg_6", 0, "And b.py?")),
        answer("msg_7", 31, words("msg_7", 0, "Fine.")),
    )
    last = models(batch)[-1]
    assert [words for _, words in seen(last)] == ["Sum up", "They mended a.py.", "And b.py?"]
    assert KEPT in last.fidelity.reasons
    assert [each["kind"] for each in agents(batch)[0].extra["signals"]] == ["compaction"]


def test_a_request_after_old_results_were_cleared_says_so(tmp_path: Path) -> None:
    cleared = tool("msg_2", 2, "c1", time={"start": T0, "end": T0, "compacted": T0 + 15_000})
    late = answer("msg_8", 20, words("msg_8", 0, "Yes."))
    batch, _ = told(tmp_path, TALK[0], answer("msg_2", 2, cleared), TALK[2], late)
    assert [CLEARED in ask.fidelity.reasons for ask in models(batch)] == [False, False, True]


def test_an_answer_that_failed_was_not_sent_again(tmp_path: Path) -> None:
    error = {"name": "APIError", "data": {"message": "overloaded", "isRetryable": True}}
    broken = answer("msg_4", 12, words("msg_4", 0, "Half"), error=error)
    batch, _ = told(tmp_path, *TALK, broken, answer("msg_5", 13, words("msg_5", 0, "Whole.")))
    assert models(batch)[2].error == "overloaded"
    assert seen(models(batch)[3])[-1] == ("assistant", "Mended.")
    assert [each["kind"] for each in agents(batch)[0].extra["signals"]] == ["failed_call"]


def test_a_call_that_never_came_back_is_open(tmp_path: Path) -> None:
    batch, tally = told(
        tmp_path, TALK[0], answer("msg_2", 2, tool("msg_2", 0, "c", status="running"))
    )
    assert tools(batch)[0].observation is None
    assert [problem.why for problem in tally.problems] == ["'c' has no result"]


def test_a_request_is_rebuilt_and_asks_for_the_tools_alone(tmp_path: Path) -> None:
    sent = Converter("m").sent(models(told(tmp_path, *TALK)[0])[-1].request)
    assert sent.refusal is not None
    assert "arc attach" in sent.refusal
    turns = sent.conversation.messages()
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block.get("is_error") for block in turns[2]["content"]] == [None, True]


# --- the three places


SENT = tool("msg_2", 5, "c3", name="task", input={"prompt": "Look"}, metadata={"sessionId": SUB})
ABOVE = [TALK[0], answer("msg_2", 2, SENT), TALK[2]]
BELOW = [
    user("msg_a", 4, words("msg_a", 0, "Look")),
    answer("msg_b", 5, words("msg_b", 0, "Short."), agent="explore"),
]


def shape(batch: Batch) -> list[Any]:
    return [(span.id, span.name, span.parent) for span in batch.spans]


@pytest.mark.parametrize("old", [False, True])
def test_a_storage_folder_says_what_an_export_says(old: bool, tmp_path: Path) -> None:
    batch, tally = read(folder(tmp_path / "storage", session(), TALK, old=old))
    assert shape(batch) == shape(told(tmp_path, *TALK)[0])
    assert tally.problems == []


def test_a_database_says_what_an_export_says(tmp_path: Path) -> None:
    batch, tally = read(database(tmp_path / "x.db", (session(), TALK)))
    assert shape(batch) == shape(told(tmp_path, *TALK)[0])
    assert tally.problems == []


@pytest.mark.parametrize("old", [False, True])
def test_every_file_of_a_folder_belongs_to_a_session(old: bool, tmp_path: Path) -> None:
    main = folder(tmp_path / "s", session(), ABOVE, old=old)
    folder(tmp_path / "s", session(SUB, parentID=ID), BELOW, old=old)
    files = [path for path in (tmp_path / "s").rglob("*.json") if path != main]
    assert len(files) == 5 + 8 + 1
    below = main.with_name(f"{SUB}.json")
    assert {part_of(path) for path in files} == {main, below}
    assert part_of(below) == main
    assert part_of(main) is None


def test_a_sub_agent_is_a_thread_below_the_call_that_sent_it(tmp_path: Path) -> None:
    below = session(SUB, parentID=ID)
    main = folder(tmp_path / "s", session(), ABOVE)
    folder(tmp_path / "s", below, BELOW)
    batch, _ = read(main)
    _, sub = agents(batch)
    assert (sub.id, sub.name, sub.parent) == (SUB, "explore", tools(batch)[0].id)
    assert [ask.parent for ask in models(batch)] == [ID, ID, SUB]
    same, _ = read(database(tmp_path / "x.db", (session(), ABOVE), (below, BELOW)))
    assert shape(same) == shape(batch)


def test_sessions_that_sent_each_other_are_told_once(tmp_path: Path) -> None:
    ring = [(session(ID, parentID=SUB), TALK), (session(SUB, parentID=ID), BELOW)]
    batch, _ = read(database(tmp_path / "x.db", *ring))
    assert len(agents(batch)) == 2
    for info, messages in ring:
        path = folder(tmp_path / "s", info, messages)
        assert part_of(path) is None
        assert len(agents(read(path)[0])) <= 2


def test_a_database_gives_a_trace_a_session(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", (session(), TALK), (session("ses_x"), []),
                    (session("ses_y"), [{**m, "info": {**m["info"], "id": m["info"]["id"] + "y"},
                     "parts": []} for m in TALK[:1]]))  # fmt: skip
    tally = Tally()
    found = list(load(Source(path), tally))
    assert [batch.header.source_id for batch in found] == [ID, "ses_y"]
    assert [problem.where for problem in tally.problems] == ["ses_x"]


def test_a_database_of_another_kind_is_not_claimed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as db, db:
        db.execute("CREATE TABLE message (id text)")
    assert sniff(Source(tmp_path / "other.db")) is None
    with pytest.raises(BadTrace, match="has no table"):
        list(load(Source(tmp_path / "other.db"), Tally(), format=opencode))


def test_a_view_in_a_table_s_name_is_not_read(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", (session(), TALK))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE part")
        db.execute("CREATE VIEW part AS SELECT 1 AS id, 'msg_1' AS message_id, '{}' AS data")
    with pytest.raises(BadTrace, match="has no table 'part'"):
        list(load(Source(path), Tally(), format=opencode))


@pytest.mark.parametrize("keep", [100, 5000, 9000])
def test_a_database_cut_short_is_refused_with_a_sentence(keep: int, tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", (session(), TALK))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadTrace, match=r"not a complete SQLite|cannot be read|has no table"):
        list(load(Source(path), Tally(), format=opencode))


# --- odd files


def test_broken_files_of_a_folder_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    main = folder(tmp_path / "s", session(), TALK)
    (tmp_path / "s" / "part" / "msg_2" / "prt_msg_2_02.json").write_text("{")
    (tmp_path / "s" / "message" / ID / "msg_3.json").write_text("[]")
    batch, tally = read(main)
    assert len(tools(batch)) == 1
    assert {problem.where for problem in tally.problems} == {"prt_msg_2_02.json", "msg_3.json"}


def test_an_id_leads_to_no_other_folder(tmp_path: Path) -> None:
    path = written(tmp_path / "s" / "session" / "p1" / "x.json", session("ses_/../../../x"))
    with pytest.raises(BadTrace, match="no opencode session"):
        list(load(Source(path), Tally()))


def test_kinds_that_are_not_known_are_counted(tmp_path: Path) -> None:
    _, tally = told(tmp_path, *TALK, user("msg_9", 30, part("msg_9", 0, "hologram")))
    assert tally.unknown == {"hologram": 1}


def test_ids_that_stand_twice_give_spans_of_their_own(tmp_path: Path) -> None:
    batch, _ = told(tmp_path, *TALK, *TALK)
    assert len({span.id for span in batch.spans}) == len(batch.spans)


@pytest.mark.parametrize("value", [exported(), session(), {"info": {}}, [1]])
def test_a_file_without_a_conversation_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(BadTrace):
        list(load(Source(written(tmp_path / "x.json", value)), Tally(), format=opencode))


WHOLE = exported(*ABOVE)


@given(value=mutated(WHOLE))
@SOME
def test_a_session_with_anything_anywhere_is_kept_or_refused_with_a_sentence(
    value: Any, tmp_path: Path
) -> None:
    found = stored(written(tmp_path / "x.json", value), opencode)
    assert all(trace.header.format == "opencode" for trace in found)


@given(data=mutated([json.dumps(TALK[1]["info"]), 7, None, "x"]))
@SOME
@pytest.mark.slow
def test_any_value_in_a_row_is_kept_or_refused_with_a_sentence(data: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.unlink(missing_ok=True)
    database(path, (session(), TALK))
    with closing(sqlite3.connect(path)) as db, db:
        for number, value in enumerate(data):
            plain = value if isinstance(value, (str, float)) else json.dumps(value)
            db.execute("INSERT INTO message VALUES (?,?,?,?)", (f"z{number}", ID, plain, plain))
            db.execute("INSERT INTO part VALUES (?,?,?,?)", (f"z{number}", "msg_2", T0, plain))
    assert all(trace.header.source_id == ID for trace in stored(path, opencode))


@given(size=st.integers(0, len(json.dumps(WHOLE))))
@SOME
def test_an_export_cut_anywhere_is_refused(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(WHOLE)[: size - 1])
    assert len(stored(path, opencode)) == 0
