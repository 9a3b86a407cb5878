"""Import against plain rows of the same records, and one large log."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec import Struct

from arc_tui import importing
from arc_tui.workers import cores
from replay import formats
from replay.formats.source import Source, Tally
from replay.store.handle import Store
from replay.store.prepare import Prepared, Refused
from replay.store.write import SPANS_TOGETHER, Writer
from taxonomy.judgements.schema import open_ledger
from tests.bench.corpus import WORDS
from tests.bench.measure import Row, best, compare, ms, peak_mb
from tests.replay.otlp_case import span, spans
from tests.replay.reconcile_case import run

Json = dict[str, Any]

CHATS = 1500
EVENTS = 60_000
RUNS = 400
CALLS = 5_500

READ_EVAL_LOG = "read_eval_log 0.3.285: 77-79 times json.loads alone, 14.3 GB (2 runs)"
"""It is too large for every run of this: what it took was measured beside `json.loads`."""


def rows(folder: Path) -> Iterator[Row]:
    """Many chats against `json` and `sqlite-utils` rows; a 60 000-event log, with its memory."""
    chats = folder / "chats.jsonl"
    write_chats(chats)
    ours = best(lambda: take_in(chats, folder / "ours.db"), 3)
    theirs = best(lambda: plain_rows(chats, folder / "plain.db"), 3)
    size = chats.stat().st_size
    yield Row(
        f"import of {CHATS} chats ({size >> 20} MB), masked, verified ids",
        f"{ms(ours)} against {ms(theirs)}: {theirs / ours:.2f}× as fast",
        "json + sqlite-utils rows, which mask and index nothing; no text comes twice here: no goal",
    )
    ours_of, plain_of = ((folder / name).stat().st_size / size for name in ("ours.db", "plain.db"))
    yield Row(
        "the same on disk",
        f"{ours_of:.2f} of the source, plain rows {plain_of:.2f}",
        "no two chats share more than their prompt; goal ≤ 0.2 where contexts repeat",
    )
    yield told_three_ways(folder)
    log = folder / "large.eval"
    write_eval(log)
    cost = measured(log, folder / "log.db")
    parse = best(lambda: parsed(log), 3)
    yield Row(
        f"import of a {EVENTS}-event Inspect .eval, with as many processes as cores",
        f"{ms(cost.imported_s)}, {cost.imported_s / parse:.1f} times json.loads alone;"
        f" the largest process {cost.peak_mb:.0f} MB",
        f"{READ_EVAL_LOG}; goal ≥ 5× as fast, < 300 MB",
    )
    yield Row(
        "the same with its diagnosis",
        f"{ms(cost.diagnosed_s)}, {cost.diagnosed_s / parse:.1f} times json.loads alone",
        "read_eval_log does none: no goal",
    )
    yield long_session(folder)


def told_three_ways(folder: Path) -> Row:
    """Runs of which one instrumentation tells, against the same told by three at once."""
    once, thrice = folder / "once.jsonl", folder / "thrice.jsonl"
    write_told(once, 1)
    write_told(thrice, 3)
    found = compare(
        lambda: take_in(thrice, folder / "thrice.db"), lambda: take_in(once, folder / "once.db"), 3
    )
    return Row(
        f"import of {RUNS} runs of which three instrumentations tell, against one",
        str(found),
        "goal ≤ 2×",
    )


def long_session(folder: Path) -> Row:
    """A session of Claude Code in which no result comes twice, against `json.loads` alone."""
    session = folder / "session.jsonl"
    write_session(session)
    lines = session.read_text().splitlines()
    parse = best(lambda: [json.loads(line) for line in lines], 3)
    cost = measured(session, folder / "session.db")
    return Row(
        f"import of a Claude Code session of {session.stat().st_size / 1e6:.0f} MB, {CALLS} calls",
        f"{ms(cost.imported_s)}, with its diagnosis {ms(cost.diagnosed_s)}:"
        f" {cost.diagnosed_s / parse:.1f} times json.loads alone;"
        f" the largest process {cost.peak_mb:.0f} MB",
        "goal < 300 MB",
    )


def write_told(path: Path, ways: int) -> None:
    with path.open("w") as file:
        for number in range(RUNS):
            raws = run(lambda words: (words[:ways], [True, True]))
            found = [
                span(raw.id, 0, raw.parent, raw.attributes, traceId=f"{number:032x}")
                | {"startTimeUnixNano": str(raw.start_ns), "endTimeUnixNano": str(raw.end_ns)}
                for raw in raws
            ]
            file.write(json.dumps(spans(*found)) + "\n")


def take_in(source: Path, database: Path) -> None:
    """Import one file into a fresh database, as `arc import` does before it diagnoses: in
    transactions of as many spans."""
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    with Store.open(database) as store:
        writer = Writer(store)
        group, spans = list[Prepared | Refused](), 0
        for each in writer.prepare(formats.load(Source(source), Tally())):
            assert isinstance(each, Prepared), each
            group.append(each)
            spans += each.spans
            if spans >= SPANS_TOGETHER:
                writer.keep(group)
                group, spans = [], 0
        writer.keep(group)
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def plain_rows(source: Path, database: Path) -> None:
    """The same records as plain rows: a message a row, its JSON beside it."""
    import sqlite_utils  # here: with pandas it would count to what an import of ours holds
    from sqlite_utils.db import Table

    database.unlink(missing_ok=True)
    db = sqlite_utils.Database(database)

    def messages() -> Iterator[Json]:
        with source.open() as lines:
            for number, line in enumerate(lines):
                for place, message in enumerate(json.loads(line)["messages"]):
                    known = {"chat": number, "place": place, "role": message["role"]}
                    yield {**known, "body": json.dumps(message)}

    table = db["message"]
    assert isinstance(table, Table)
    table.insert_all(messages(), batch_size=1000)
    db.close()


def write_chats(path: Path) -> None:
    """Chats of ten turns, one a line, each turn a question, a call, its result."""
    chance = random.Random(7)
    with path.open("w") as out:
        for number in range(CHATS):
            messages: list[Json] = [{"role": "system", "content": "Be careful. " * 200}]
            for turn in range(10):
                messages += chat_turn(chance, f"c{turn}")
            out.write(json.dumps({"id": f"chat-{number}", "messages": messages}) + "\n")


def chat_turn(chance: random.Random, name: str) -> list[Json]:
    function = {"name": "search", "arguments": json.dumps({"q": words(chance, 4)})}
    call = {"id": name, "type": "function", "function": function}
    return [
        {"role": "user", "content": words(chance, 30)},
        {"role": "assistant", "content": words(chance, 20), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": words(chance, 120)},
    ]


def write_eval(path: Path) -> None:
    """A log of one sample: model events over a pool of messages, tool events between them."""
    chance = random.Random(3)
    pool: list[Json] = [{"id": "m0", "role": "user", "content": words(chance, 50)}]
    events: list[Json] = []
    while len(events) < EVENTS:
        events += eval_turn(chance, pool, len(events))
    sample: Json = {"id": "s1", "epoch": 1, "uuid": "bench", "input": "x", "target": "y"}
    sample |= {"messages": [], "scores": {}, "attachments": {}, "events": events}
    sample["events_data"] = {"messages": pool, "calls": []}
    about: Json = {"eval_id": "b", "run_id": "b", "task": "bench", "created": at(0)}
    about |= {"dataset": {}, "model": "openai/gpt-4o", "config": {}}
    header = json.dumps({"version": 2, "status": "success", "eval": about})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("_journal/start.json", header)
        out.writestr("samples/s1_epoch_1.json", json.dumps(sample))
        out.writestr("header.json", header)


def eval_turn(chance: random.Random, pool: list[Json], second: int) -> list[Json]:
    """A model event and the tool event it asked for; their messages go into the pool."""
    asked = len(pool)
    call: Json = {"id": f"c{asked}", "function": "search", "type": "function"}
    call["arguments"] = {"q": words(chance, 4)}
    said: Json = {"id": f"m{asked}", "role": "assistant", "content": words(chance, 12)}
    said["tool_calls"] = [call]
    seen: Json = {"id": f"m{asked + 1}", "role": "tool", "tool_call_id": call["id"]}
    seen |= {"function": "search", "content": words(chance, 30)}
    usage: Json = {"input_tokens": asked, "output_tokens": 20, "total_tokens": asked + 20}
    choices: list[Json] = [{"message": said, "stop_reason": "tool_calls"}]
    model: Json = {"event": "model", "uuid": f"e{asked}", "span_id": "s", "model": "openai/gpt-4o"}
    model |= {"timestamp": at(second), "completed": at(second + 1), "input": []}
    model |= {"input_refs": [[0, asked]], "tools": [], "tool_choice": "auto", "config": {}}
    model["output"] = {"model": "gpt-4o", "choices": choices, "usage": usage}
    tool: Json = {"event": "tool", "uuid": f"t{asked}", "span_id": "s", **call, "events": []}
    tool |= {"timestamp": at(second + 1), "completed": at(second + 2), "result": seen["content"]}
    pool += [said, seen]
    return [model, tool]


def write_session(path: Path) -> None:
    """One session of Claude Code: a question, then commands and their long outputs."""
    chance = random.Random(5)
    with path.open("w") as out:
        last = session_line(out, None, 0, {"role": "user", "content": words(chance, 30)})
        for number in range(CALLS):
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash"}
            said = {"type": "text", "text": words(chance, 30)}
            usage = {"input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 1_000}
            answer: Json = {"id": f"msg_{number}", "role": "assistant", "model": "claude-opus-5-5"}
            answer |= {"stop_reason": "tool_use", "usage": usage}
            answer["content"] = [said, call | {"input": {"command": words(chance, 10)}}]
            last = session_line(out, last, 2 * number + 1, answer)
            result = {"type": "tool_result", "tool_use_id": call["id"]}
            result["content"] = words(chance, 2_500)
            last = session_line(out, last, 2 * number + 2, {"role": "user", "content": [result]})


def session_line(out: TextIO, parent: str | None, number: int, message: Json) -> str:
    """Write one line of a session; returns its id."""
    line: Json = {"parentUuid": parent, "uuid": f"u{number}", "type": message["role"]}
    line |= {"sessionId": "bench", "timestamp": at(number), "cwd": "/work", "isSidechain": False}
    out.write(json.dumps(line | {"message": message}) + "\n")
    return str(line["uuid"])


class LogCost(Struct):
    """What an import of one log took: seconds until it was written, and until it was diagnosed; the
    most memory that one of its processes held."""

    imported_s: float
    diagnosed_s: float
    peak_mb: float


def measured(log: Path, database: Path) -> LogCost:
    """An import in a process of its own, which nothing was loaded into for others."""
    code = "import sys; from tests.bench.importing import import_log; import_log(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(log), str(database)]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=LogCost)


def import_log(log: str, database: str) -> None:
    """Import a log as `arc import` does and say what it took."""
    start = time.perf_counter()
    imported = 0.0
    forked = importing.fork_for([Path(log)], cores())
    with closing(forked), open_ledger(Path(database)) as store:
        for now in importing.import_paths(store, [Path(log)], jobs=cores(), forked=forked):
            if isinstance(now, importing.Progress) and now.diagnoses and not imported:
                imported = time.perf_counter() - start
    diagnosed = time.perf_counter() - start
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    peak = max(peak_mb(), children)
    found = LogCost(imported_s=imported, diagnosed_s=diagnosed, peak_mb=peak)
    sys.stdout.buffer.write(msgspec.json.encode(found))


def parsed(log: Path) -> object:
    with zipfile.ZipFile(log) as opened:
        return json.loads(opened.read("samples/s1_epoch_1.json"))


def at(second: int) -> str:
    minutes, rest = divmod(second, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"2026-01-{days + 1:02d}T{hours:02d}:{minutes:02d}:{rest:02d}.000000+00:00"


def words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count))
