"""Texts and images that Inspect moved out of its messages and events, put back where they are used.

Each stands once in the sample's `attachments` under a hash; in its place stands a reference. The
oldest logs kept them in the transcript, under another scheme.
"""

from __future__ import annotations

from operator import is_not
from typing import Any

from replay.formats.fields import obj
from replay.trace import Json, Message

_REFERENCES = ("attachment://", "tc://")
_REMOVED = "<base64-data-removed>"

NO_ATTACHMENT = "an attachment is not in the log"
NO_MEDIA = "images were not logged"


class Attachments:
    """The texts of one sample that stand elsewhere in it."""

    def __init__(self, sample: dict[str, Any]) -> None:
        oldest = obj(obj(sample.get("transcript")).get("content"))
        self._texts = {**oldest, **obj(sample.get("attachments"))}
        self._flaw: str | None = None

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

    def message(self, body: dict[str, Any]) -> tuple[Message, str | None]:
        """A message as the model saw it, and what is missing from it, None for nothing."""
        self._flaw = None
        message = Message(dialect="inspect", body=self.resolve(body))
        return message, self._flaw

    def _text(self, text: str) -> Json:
        if text == _REMOVED:
            self._flaw = NO_MEDIA
        elif text.startswith(_REFERENCES):
            found = self._texts.get(text.partition("://")[2])
            if found is not None:
                return found
            self._flaw = NO_ATTACHMENT
        return text
