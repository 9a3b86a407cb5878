"""`arc import --check` says what a reader finds, and of what is missing where it may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from arc_tui.commands import cli
from tests.replay.otlp_case import AGENT, FIRST, LAST, RUN, Value, chat, logs, span, spans

SAYS: Value = {"role": "assistant", "parts": [{"type": "text", "content": "Shipped."}]}
ASKED: Value = {"role": "user", "parts": [{"type": "text", "content": "Where is order 7?"}]}
WHOLE = {
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 90,
    "gen_ai.response.finish_reasons": ["stop"],
}


def checked(*words: object) -> Result:
    runner = CliRunner(catch_exceptions=False)
    return runner.invoke(cli, ["import", "--check", *map(str, words)], standalone_mode=False)


def put(path: Path, *requests: Value) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in requests))
    return path


def parts(result: Result) -> dict[str, dict[str, Any]]:
    (found,) = json.loads(result.output)
    return {part["name"]: part for part in found["parts"]}


def test_a_file_of_which_every_part_is_found_is_complete(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", spans(span("say", 1, None, chat([ASKED], SAYS, **WHOLE))))
    result = checked(path)
    assert "1 trace, 1 model call, 0 tool calls" in result.output
    assert "complete: every part of every call was found" in result.output
    assert "not in the source" not in result.output
    assert result.return_value == 0


def test_what_is_absent_is_told_from_what_is_not_understood(tmp_path: Path) -> None:
    odd = {"acme.usage": {"in": 3}, "acme.why.finish_reason": "done"}
    path = put(tmp_path / "x.jsonl", spans(AGENT, FIRST, RUN, span("say", 3, "agent", {
        **chat([ASKED], SAYS), **odd,
    })))  # fmt: skip
    result = checked(path)
    rows = {line.split("  ")[0]: line for line in result.output.splitlines()}
    assert "1 of 2  not understood: acme.why.finish_reason in 1" in rows["stop reason"]
    assert "1 of 2  not understood: acme.usage in 1" in rows["tokens"]
    assert "1 of 2  not in the source" in rows["cached tokens"]
    assert "incomplete. Often not recorded (otlp): " in result.output
    found = parts(checked(path, "--json"))
    assert found["tokens"] == {
        "name": "tokens", "known": 1, "total": 2, "names": {"acme.usage": 1},
    }  # fmt: skip


def test_a_file_without_model_calls_is_never_complete(tmp_path: Path) -> None:
    result = checked(put(tmp_path / "x.jsonl", spans(AGENT, RUN)))
    assert "1 trace, 0 model calls, 1 tool call" in result.output
    assert "incomplete: it holds no model call, so its steps, tokens and cost are not known" in (
        result.output
    )


def test_nothing_is_imported_and_no_database_is_made(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    path = put(tmp_path / "x.jsonl", spans(AGENT, FIRST, RUN, LAST))
    words = ["import", "--check", str(path), "--db", str(db)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert not db.exists()


def test_what_cannot_be_read_is_said_and_the_others_are_checked(tmp_path: Path) -> None:
    good = put(tmp_path / "good.jsonl", spans(AGENT, FIRST, RUN, LAST))
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no trace")
    result = checked(bad, good, tmp_path / "none.jsonl")
    assert result.return_value == 2
    assert "bad.jsonl" in result.output
    assert "is not in a known format" in result.output
    assert "good.jsonl  otlp: 1 trace, 2 model calls" in result.output


def test_a_file_of_logs_alone_says_what_it_lacks(tmp_path: Path) -> None:
    result = checked(put(tmp_path / "x.jsonl", logs()))
    assert result.return_value == 2
    assert "x.jsonl" in result.output


def test_it_goes_with_nothing_that_writes(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", spans(AGENT, FIRST))
    for option in ("--follow", "--unknown", "--replace"):
        result = CliRunner().invoke(cli, ["import", "--check", option, str(path)])
        assert result.exit_code == 2
        assert "--check imports nothing" in result.output


def test_a_folder_without_traces_says_so(tmp_path: Path) -> None:
    result = checked(tmp_path)
    assert result.return_value == 0
    assert "no file there is in a known format" in result.output
