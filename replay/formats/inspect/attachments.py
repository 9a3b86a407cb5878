"""What stands elsewhere in a sample put back where it is used, as its events are decoded.

Inspect moves long texts and images out of messages and events into the sample's `attachments`,
each once under a hash (or its number, in samples kept in chunks), with a reference in its place.
The oldest logs kept them in the transcript, under another scheme.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_not

from msgspec import Raw

from replay.depth import TOO_DEEP, is_deep, may_be_deep
from replay.errors import BadTrace
from replay.formats.inspect.record import plain
from replay.trace import Json, Message

_REFERENCES = ("attachment://", "tc://")
_REMOVED = "<base64-data-removed>"
_MARKS = (b'"attachment:', b'"tc:', b'"<base64')
"""How a text begins that is one of those, in JSON."""

NO_ATTACHMENT = "an attachment is not in the log"
NO_MEDIA = "images were not logged"


class Attachments:
    """The texts of one sample that stand elsewhere in it; decodes what refers to them."""

    def __init__(self, raws: Mapping[str, Raw], path: str, where: str) -> None:
        self._raws = raws
        self._path, self._where = path, where
        self._texts: dict[str, Json] = {}
        self._flaw: str | None = None

    def read(self, raw: Raw) -> Json:
        """The value of some JSON with its attachments. Raises BadTrace where it is none."""
        data = bytes(raw)
        return self.put_back(plain(data, self._path, self._where), data)

    def put_back(self, value: Json, data: bytes) -> Json:
        """A value that was decoded out of `data`, with its attachments.

        Raises BadTrace where it is nested too deeply.
        """
        if self.as_written(data):
            return value
        if is_deep(value):
            raise BadTrace(self._path, self._where, TOO_DEEP)
        return self.resolve(value)

    def as_written(self, data: bytes) -> bool:
        """Can what is in there be taken as it is? False only means: look closer."""
        for mark in _MARKS:  # a plain loop: every event of a log comes by
            if mark in data:
                return False
        return not may_be_deep(data)

    def message(self, raw: Raw) -> tuple[Message | None, str | None]:
        """A message as the model saw it (None: there is none), and what is missing from it."""
        self._flaw = None
        body = self.read(raw)
        return Message(dialect="inspect", body=body) if isinstance(body, dict) else None, self._flaw

    def resolve(self, value: Json) -> Json:
        """The value with every reference replaced by its text; one without a text stays.

        What holds no reference is the same object, so that a sample is not held twice.
        """
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            made = [self.resolve(entry) for entry in value]
            return made if any(map(is_not, made, value)) else value
        if isinstance(value, dict):
            new = {name: self.resolve(entry) for name, entry in value.items()}
            return new if any(map(is_not, new.values(), value.values())) else value
        return value

    def _text(self, text: str) -> Json:
        if text == _REMOVED:
            self._flaw = NO_MEDIA
        elif text.startswith(_REFERENCES):
            name = text.partition("://")[2]
            found = self._texts.get(name)
            if found is None and name in self._raws:
                found = self._texts[name] = self._attached(self._raws[name])
            if found is not None:
                return found
            self._flaw = NO_ATTACHMENT
        return text

    def _attached(self, raw: Raw) -> Json:
        try:
            return plain(raw, self._path, self._where)
        except BadTrace:
            return None
