"""Texts as people write them: in files, on the command line, in an editor.

A lone surrogate is half of a character: Python can hold one, and nothing that is stored or sent
can. In a trace it becomes U+FFFD (`replay.formats.source`); what a person wrote is never changed
without a word, but refused with its place.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from replay.errors import ArcError, BadEdit
from replay.trace import Json

WRITE_UTF8 = "Try: write it in UTF-8"

_HALF = re.compile("[\ud800-\udfff]")


def half(value: Json) -> str | None:
    """What is wrong where a text, or any text in a value, holds half of a character, else None."""
    if isinstance(value, str):
        found = _HALF.search(value)
        if found is None:
            return None
        return f"is not UTF-8: half of a character (U+{ord(found[0]):04X}) at {found.start() + 1}"
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        return next((wrong for wrong in map(half, value) if wrong is not None), None)
    return None


def called(name: str) -> str:
    """A file's name as a text: a byte of it that is not UTF-8 becomes U+FFFD."""
    return _HALF.sub("\ufffd", name)


def refuse_halves(*texts: str | None) -> None:
    """Raises ArcError naming the first of some texts that can be neither stored nor sent."""
    for text in texts:
        wrong = half(text)
        if wrong is not None:
            raise ArcError(f"{text!r} {wrong}", WRITE_UTF8)


def from_file(file: Path) -> str:
    """The text of a file. Raises BadEdit where it cannot be read, or is not UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadEdit(f"{file}: cannot be read: {why}") from error
    except UnicodeDecodeError as error:
        raise BadEdit(
            f"{file}: cannot be read: byte {error.start + 1} is not UTF-8",
            "Try: save it as UTF-8",
        ) from error


def from_json(text: str | bytes) -> Json:
    """A value written as JSON. Raises ValueError in words."""
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            wrong = half(json.loads(text))  # which msgspec only calls truncated
        except (ValueError, RecursionError):
            wrong = None
        raise ValueError(wrong or str(error)) from error


def toml_problem(error: msgspec.DecodeError | UnicodeDecodeError) -> str:
    """What is wrong with a file that was to be TOML of some form: no TOML, or of another form."""
    return str(error) if isinstance(error, msgspec.ValidationError) else f"invalid TOML: {error}"
