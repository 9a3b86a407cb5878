"""Where did a person or the harness step in?"""

from __future__ import annotations

from collections.abc import Iterator

from replay.formats.claude_code.line import Line
from replay.trace import Json

_SIGNALS = {
    "[Request interrupted by user": "interrupt",
    "The user doesn't want to proceed with this tool use": "rejected",
    "The user doesn't want to take this action right now": "rejected",
    "Claude requested permissions": "denied",
}


def stepped_in(line: Line) -> Iterator[str]:
    """The kinds of signal that the words of a line are."""
    for text in [line.prompt, *(each.text for each in line.results if each.is_error)]:
        kind = next((kind for start, kind in _SIGNALS.items() if text.startswith(start)), None)
        if kind is not None:
            yield kind


def signal(kind: str, line: Line) -> dict[str, Json]:
    """A signal with its place: message index and line in the main file, line alone elsewhere."""
    place = {"message": line.place.message, "line": line.place.line}
    return {"kind": kind, **{name: value for name, value in place.items() if value is not None}}
