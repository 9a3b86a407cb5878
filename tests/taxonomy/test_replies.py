from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.replies import Kind, gist, kind_of, says_failed


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


@pytest.mark.parametrize(
    "text",
    [
        "Error: not enough seats",
        '{"error": "no such user"}',
        '{"success": false}',
        '{"statusCode": 404, "message": "gone"}',
        "Exit code 2\noops",
        "bash: line 1: xxd: command not found",
    ],
)
def test_an_error_returned_as_an_ordinary_result_is_seen(text: str) -> None:
    assert says_failed(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"error": "", "response": "[]"}',
        '{"order": 1, "errors": []}',
        "The error rate fell to 2 %",
        "[]",
        "Exit code 0",
    ],
)
def test_a_result_that_only_speaks_of_errors_has_not_failed(text: str) -> None:
    assert not says_failed(text)


def test_the_gist_of_a_traceback_is_its_last_line() -> None:
    assert gist("Traceback (most recent call last):\n  File x\nKeyError: 'a'") == "KeyError: 'a'"
    assert gist("Exit code 127\nsh: xxd: not found") == "sh: xxd: not found"


@given(st.text(max_size=400))
def test_any_text_has_a_kind_and_a_gist(text: str) -> None:
    assert kind_of(text) in Kind
    assert kind_of(text, shell=True) in Kind
    assert "\n" not in gist(text)
    says_failed(text)
