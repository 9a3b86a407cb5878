"""One JSON document of any size, read piece by piece: spans as they come, not the whole tree.

Only three of its names matter here (`spans`, `logRecords`, `resource`), and no text of a
JSON document can look like a name: its quotes are escaped. So the text between two pieces is
searched for names, and each piece is decoded where it stands.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from replay.depth import TOO_DEEP
from replay.errors import BadTrace
from replay.formats.intake import Source, Tally, decode
from replay.trace import Json

CHUNK_BYTES = 1024 * 1024
MAX_PIECE_CHARS = 128 * 1024 * 1024
MAX_GLUE_CHARS = 4096
"""The longest text that can stand before a piece without its name being in it."""

_OPENS = re.compile(r'"(spans|logRecords)"\s*:\s*\[|"(resource)"\s*:\s*(?=\{)')
_SPACE = re.compile(r"\s*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Piece(NamedTuple):
    """`name` is where it stands: one of the spans, a resource, …; `size` its characters."""

    name: str
    value: Json
    size: int


class _Text:
    """The text of a source, of which what was read is let go. `at` is the place in `held`."""

    def __init__(self, source: Source, stream: IO[bytes]) -> None:
        self._source = source
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self.held = ""
        self.at = 0
        self.done = False

    def more(self) -> bool:
        """Read on, twice as far as last time while one piece wants it; False at the end."""
        if self.done:
            return False
        self.held = self.held[self.at :]
        self.at = 0
        try:
            data = self._stream.read(max(CHUNK_BYTES, len(self.held)))
        except (OSError, EOFError, ValueError) as error:
            raise BadTrace(self._source.display, "", f"ends before its end: {error}") from error
        self.done = not data
        self.held += self._decode(data, self.done)
        return not self.done


def pieces(source: Source, tally: Tally) -> Iterator[Piece]:
    """The pieces of a document in their order.

    Where it breaks, what came before stays good and the break is a problem; BadTrace where
    nothing came before.
    """
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    found = 0
    with source.open() as stream:
        text = _Text(source, stream)
        try:
            for name in _named(text):
                for piece in _each(text, name, decoder):
                    found += name in ("spans", "logRecords")
                    yield piece
        except (ValueError, RecursionError) as error:
            why = _reason(error, text)
            if not found:
                raise BadTrace(source.display, "", why) from error
            tally.problem(f"after {found} records", why)


def _reason(error: Exception, text: _Text) -> str:
    if isinstance(error, RecursionError):
        return TOO_DEEP
    return "is not JSON: it ends too early" if text.done else f"is not JSON: {error}"


def _named(text: _Text) -> Iterator[str]:
    """The names of the pieces that follow; the place is then that of the first of them."""
    while True:
        match = _OPENS.search(text.held, text.at)
        if match is not None:
            text.at = match.end()
            yield match[1] or match[2]
            continue
        text.at = max(text.at, len(text.held) - MAX_GLUE_CHARS)
        if not text.more():
            return


def _each(text: _Text, name: str, decoder: json.JSONDecoder) -> Iterator[Piece]:
    """The one object of a name, or all of its list."""
    if name == "resource":
        yield _one(text, name, decoder)
        return
    while True:
        end = _SPACE.match(text.held, text.at)
        assert end is not None
        text.at = end.end()
        if text.at == len(text.held):
            if not text.more():
                raise ValueError("it ends too early")
        elif text.held[text.at] == "]":
            return
        elif text.held[text.at] == ",":
            text.at += 1
        else:
            yield _one(text, name, decoder)


def _one(text: _Text, name: str, decoder: json.JSONDecoder) -> Piece:
    """The value at the place, read on for until it is whole."""
    while True:
        try:
            value, end = decoder.raw_decode(text.held, text.at)
        except ValueError:
            # Not whole yet, or never: only the end of the source can tell.
            if len(text.held) - text.at > MAX_PIECE_CHARS:
                raise ValueError(f"a piece is longer than {MAX_PIECE_CHARS >> 20} MiB") from None
            if not text.more():
                raise
            continue
        written = text.held[text.at : end]
        if _SURROGATE.search(written):  # half of a pair may stand alone, which no text can hold
            value = decode(written.encode(), "", "")
        piece = Piece(name, value, len(written))
        text.at = end
        return piece
