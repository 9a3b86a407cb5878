from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.tool_errors import unwrapped
from taxonomy.evidence.results import RUNTIMES, Kind, Words, gist, kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<tool_use_error>InputValidationError: Read failed: missing parameter", Kind.ARGUMENTS),
        ("<tool_use_error>File has not been read yet. Read it first", Kind.ARGUMENTS),
        ("<tool_use_error>String to replace not found in file.", Kind.ARGUMENTS),
        ("TypeError: book() got an unexpected keyword argument 'seats'", Kind.ARGUMENTS),
        ("TypeError: book() missing 1 required positional argument: 'user'", Kind.ARGUMENTS),
        ("'page' is a required property", Kind.ARGUMENTS),
        ("5 is not of type 'string'", Kind.ARGUMENTS),
        ("Error: payment amount does not add up", Kind.ARGUMENTS),
        ("No such tool available: Search", Kind.NO_TOOL),
        ("Unknown function lookup_customer", Kind.NO_TOOL),
        ("Error: tool 'search' not found", Kind.NO_TOOL),
        ("Please use the edit_file tool for this", Kind.OTHER_TOOL),
        ("Error: order 1099 not found", Kind.MISSING),
        ("File does not exist.", Kind.MISSING),
        ("Permission denied", Kind.DENIED),
        ("Command timed out after 120 s", Kind.TIMEOUT),
        ("Error: gift card balance is not enough", Kind.OTHER),
    ],
)
def test_runtimes_words_are_known(text: str, kind: Kind) -> None:
    assert kind_of(text) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/bin/bash: eval: line 1: syntax error near unexpected token `}'", Kind.SYNTAX),
        ("cat: /etc/nothing: No such file or directory", Kind.MISSING),
        ("/bin/bash: line 1: 7z: command not found", Kind.OTHER),
        ("Traceback (most recent call last):\nTypeError: f() missing 1 required", Kind.OTHER),
        ("ModuleNotFoundError: No module named 'pandas'", Kind.OTHER),
    ],
)
def test_a_program_s_own_error_is_not_the_call_s(text: str, kind: Kind) -> None:
    assert kind_of(text, shell=True) is kind


@pytest.mark.parametrize("row", RUNTIMES, ids=lambda row: f"{row.kind.value}-{row.runtime}")
def test_every_row_of_the_table_is_what_its_example_is_taken_for(row: Words) -> None:
    assert kind_of(row.example) is row.kind


def test_rows_of_one_kind_stand_together() -> None:
    kinds = [row.kind for row in RUNTIMES]
    assert len(set(kinds)) == sum(a is not b for a, b in zip([None, *kinds], kinds, strict=False))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("HTTP 400 Bad Request", Kind.ARGUMENTS),
        ("Error: Request failed with status code 422", Kind.ARGUMENTS),
        ('ERROR: column "pricee" does not exist', Kind.ARGUMENTS),
        ("sqlite3.OperationalError: no such table: orders", Kind.ARGUMENTS),
        ('near "FORM": syntax error', Kind.SYNTAX),
        ("data/limit must be integer", Kind.ARGUMENTS),
        ('strconv.Atoi: parsing "ten": invalid syntax', Kind.ARGUMENTS),
        ("unknown variant `slow`, expected `fast`", Kind.ARGUMENTS),
        ("MCP error -32602: Invalid params", Kind.ARGUMENTS),
        ("MCP error -32601: Method not found", Kind.NO_TOOL),
        ("429 Too Many Requests", Kind.TRANSIENT),
        ("ECONNRESET", Kind.TRANSIENT),
        ("404 Not Found", Kind.MISSING),
    ],
)
def test_services_and_languages_are_told_apart(text: str, kind: Kind) -> None:
    assert kind_of(text) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cp: missing file operand\nTry 'cp --help'", Kind.ARGUMENTS),
        ("tool: error: the following arguments are required: path", Kind.ARGUMENTS),
        ("curl: (7) connection refused", Kind.TRANSIENT),
        ("1 validation error for Config\nField required", Kind.OTHER),
    ],
)
def test_in_a_shell_only_the_shell_s_words_blame_the_call(text: str, kind: Kind) -> None:
    assert kind_of(text, shell=True) is kind


def test_a_runner_s_wrapping_is_no_part_of_the_reply() -> None:
    wrapped = (
        "Call id: call_7\nObservation:\nExecution logs:\nFound it.\nNow let's retry: be careful"
    )
    assert unwrapped(wrapped) == "Found it."
    assert gist(
        "Error:\nCode execution failed at line 'x = 1 / 0' due to: ZeroDivisionError: x"
    ) == ("ZeroDivisionError: x")


def test_the_gist_of_a_traceback_is_its_last_line() -> None:
    assert gist("Traceback (most recent call last):\n  File x\nKeyError: 'a'") == "KeyError: 'a'"
    assert gist("Exit code 127\nsh: xxd: not found") == "sh: xxd: not found"


@given(st.text(max_size=400))
def test_any_text_has_a_kind_and_a_gist(text: str) -> None:
    assert kind_of(text) in Kind
    assert kind_of(text, shell=True) in Kind
    assert "\n" not in gist(text)
