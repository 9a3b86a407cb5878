"""Which results are errors: by their words, wherever a call is counted, and in older databases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from arc_tui.views.tree import branches
from replay.care import check
from replay.store import read, rows
from replay.store.handle import Store
from replay.store.write import Writer
from replay.tool_errors import (
    decoded,
    is_error,
    report_says_error,
    result_text,
    says_error,
    unwrapped,
)
from replay.trace import Batch, Header, Message, ModelCall, Observation, Response, ToolCall, Trace
from tests.build import call, error, step, trace

TRACEBACK = "Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 'a'"

ERRORS = (
    "Error: not enough seats on flight HAT213",
    "ERROR: No data found",
    "Error",
    "Error 404: no such page",
    "Error executing tool get_order: timed out",
    "error TS2304: Cannot find name 'a'.",
    "error[E0425]: cannot find value `a`",
    "An error occurred while reading the file",
    "ValueError: bad literal",
    "requests.exceptions.HTTPError: 404",
    "<tool_use_error>String to replace not found in file.</tool_use_error>",
    TRACEBACK,
    "MCP error -32602: Invalid params",
    "HTTP 503: try later",
    "500 Server Error: Internal",
    "fatal: not a git repository",
    "Exit code 2\noops",
    "Exit code: 1",
    "<returncode>1</returncode>\n<output>\nno\n</output>",
    "ls: cannot access 'memory': No such file\n\n(Command exited with code 2)",
    "2 tests failed\nexit status 1",
    "\nEXECUTION TIMED OUT\n",
    "Your proposed edit has introduced new syntax error(s). Please understand the fixes",
    "No such tool available: Search",
    "unsupported call: shell_command",
    "unsupported custom tool call: apply_patch",
    "aborted by user after 3.2s",
    "Could not find the order",
    "Invalid date: 31 February",
    "Observation:\nError: no such page",
    '{"error": "no such user"}',
    '{"error": {"code": 7, "message": "gone"}}',
    '{"error": true, "message": "gone"}',
    '{"errors": [{"message": "no field of that name"}], "data": null}',
    '{"error": "Message error...", "response": "{\'cut',
    "{'error': 'no such user'}",
    '{"success": false}',
    '{"isError": true, "content": []}',
    '{"statusCode": 404, "message": "gone"}',
    '{"status": "error", "message": "gone"}',
    '{"response_status": "Error", "message": "no data"}',
    '{"status": "failed", "reason": "no such key"}',
    '{"stdout": "", "stderr": "no", "exit_code": 2}',
    '{"returncode": -9}',
)  # fmt: skip

NO_ERRORS = (
    "",
    "[]",
    "ok",
    "Exit code 0",
    "exit status 0",
    "The error rate fell to 2 %",
    "Error rate: 2 %",
    "Errors: 0, warnings: 2",
    "error: none",
    "error: null\nresult: 5",
    "No errors found.",
    # a file that was read, source code, a log
    "     1\timport sys\n     2\traise ValueError('no')",
    "def parse(text):\n    raise ValueError(text)\n",
    "class ParseError(Exception):\n    pass",
    "# Errors\n\nWhat to do when `Error: no such file` is shown.",
    "2025-08-12 13:32:46 [ERROR] File not found\n2025-08-12 13:32:47 [INFO] Retrying",
    "ERROR: disk full\nINFO: retrying\nINFO: done",
    "[INFO] started\n[ERROR] lost the connection",
    "started\nTraceback (most recent call last):\n  the log goes on\nand on",
    # search results about errors
    "Error handling in Python - a tutorial\nHow to catch an exception",
    "Error detection and correction\nIn information theory, it enables reliable delivery.",
    "1. Error 404 explained\n2. What is a traceback?",
    '[{"title": "Error: cannot open", "url": "https://example.com"}]',
    '{"results": [{"title": "TypeError: what it means"}], "count": 1}',
    # objects
    '{"error": null, "data": 1}',
    '{"error": ""}',
    '{"error": false}',
    '{"error": "None"}',
    '{"error": 0.03, "fit": [1, 2]}',
    '{"order": 1, "errors": []}',
    '{"errors": 3, "passed": 10}',
    '{"errors": [{"line": 3}], "warnings": []}',
    '{"error": "", "response": "[]"}',
    '{"error": "…',
    '{"error": "", "respo…',
    "{'error': None, 'data': 1}",
    '{"status": "failed", "payment_id": "p1", "amount": 5}',
    '{"status": 200, "message": "ok"}',
    '{"success": true, "errors": []}',
    '{"stdout": "Error: x", "exit_code": 0}',
    # what could not be done, in a long text, is only a part of it
    "Could not find it in the index; here is all there is instead.\n" + "shop row\n" * 100,
    "Function main not found! Instead, here is the listing:\n" + "mov eax, 1\n" * 100,
)  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_that_is_returned_as_an_ordinary_result_is_seen(text: str) -> None:
    assert says_error(unwrapped(text))


@pytest.mark.parametrize("text", NO_ERRORS)
def test_a_result_that_only_speaks_of_errors_is_none(text: str) -> None:
    assert not says_error(text)
    assert not says_error(text, program=True)


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("bash: line 1: xxd: command not found", True),
        ("EXIT:127\n/bin/bash: line 1: /app/a.sh: cannot execute: required file not found", True),
        ("cat: /etc/nothing: No such file or directory", True),
        ("/root/*: cannot open `/root/*' (No such file or directory)\n(Open file: n/a)\nbash-$",
         True),
        ("tool: error: unrecognized arguments: --fast", True),
        ("a.txt\ncat: b.txt: No such file or directory\nc.txt", False),
        ("Could not check shared library dependencies", False),
        ("Invalid rows: 3", False),
        ("usage: tool [-h] [--fast]\n\noptions:\n  -h  show this help", False),
    ],
)  # fmt: skip
def test_what_a_program_prints_is_its_own_affair_but_for_its_end(text: str, failed: bool) -> None:
    assert says_error(text, program=True) is failed


def test_a_terminal_s_report_of_failed_code_is_an_error() -> None:
    assert report_says_error("exitcode: 1 (execution failed)\nCode output: no")
    assert not report_says_error("exitcode: 0 (execution succeeded)\nCode output: Error: no")


@given(st.text(max_size=400))
def test_any_text_is_an_error_or_none(text: str) -> None:
    for program in (False, True):
        assert says_error(text, program=program) in (True, False)
    decoded(text)


# --- of a call


def made(text: str | None, status: str = "ok", **known: object) -> ToolCall:
    body = {"role": "tool", "content": text}
    seen = Observation(message=Message(dialect="openai", body=body)) if text is not None else None
    plain = ToolCall(id="t1", name="get_order", status=status, observation=seen)  # type: ignore[arg-type]
    return structs.replace(plain, **known)


@pytest.mark.parametrize(
    ("span", "failed"),
    [
        (made("Error: no such order"), True),
        (made("Error: no such order", "unset"), True),
        (made("shipped"), False),
        (made("shipped", "error", error="shipped"), True),
        (made(None), None),
        (made(None, "error", error="lost"), True),
        (made("[tool result omitted]"), None),
        (made("Could not check it", arguments={"command": "ldd a || echo"}), False),
        (made("Could not check it", arguments="print('Could not check it')"), False),
        (made("Could not check it", arguments={"order": 7}), True),
    ],
)
def test_a_call_is_an_error_by_its_status_or_else_by_its_words(
    span: ToolCall, failed: bool | None
) -> None:
    assert is_error(span) is failed


def test_a_model_s_answer_is_no_result_but_a_terminal_s_is() -> None:
    said = Message(dialect="openai", body={"role": "assistant", "content": "exitcode: 1 (failed)"})
    answer = ModelCall(id="m1", name="chat", response=Response(message=said))
    assert result_text(structs.replace(answer, agent="Coder")) is None
    assert is_error(structs.replace(answer, agent="Coder")) is None
    assert is_error(structs.replace(answer, agent="Computer_terminal (output)"))


# --- in the database

REFUSED = "Error: payment amount does not add up"

RUN = trace(
    [
        step(call("book", REFUSED, paid=299)),
        step(call("book", error("no such flight"), flight="HAT1")),
        step(call("book", '{"error": null, "booked": true}', paid=375)),
        "Booked.",
    ]
)


def kept(store: Store, run: Trace = RUN) -> str:
    given = Batch(header=Header(format="chat", source_id="r"), spans=run.spans, last=True)
    writer = Writer(store)
    return writer.finish(writer.write(given)).id


def counted(store: Store, key: str) -> tuple[int, list[int], list[str]]:
    """The errors of a trace, of its steps, and the marks in its tree."""
    (row,) = rows.trace_rows(store)
    marks = [branch.status for branch in branches(rows.span_rows(store, key))]
    return row.errors, [each.errors for each in rows.step_rows(store, key)], marks


COUNTED = (2, [1, 1, 0, 0], ["error", "error", "ok", "ok"])


def test_an_error_by_its_words_is_counted_and_marked_as_any_other() -> None:
    with Store.open(":memory:") as store:
        key = kept(store)
        assert counted(store, key) == COUNTED
        acts = [act for each in read.load(store, key).steps for act in each.acts]
        assert [(act.status, act.error) for act in acts[:2]] == [
            ("error", REFUSED),
            ("error", "no such flight"),
        ]


def test_what_the_source_said_is_what_is_vouched_for_and_given_away() -> None:
    with Store.open(":memory:") as store:
        key = kept(store)
        assert [span.status for span in read.recorded(store, key).spans] == [
            span.status for span in RUN.spans
        ]
        assert not [*check.trace_digests(store, key)]
        again = Writer(store)
        assert again.finish(again.write(read.recorded(store, key))).verdict == "duplicate"
