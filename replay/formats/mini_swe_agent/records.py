"""What is each message of a mini-swe-agent run: an answer, a result, or the harness speaking?

A run is the conversation itself, with notes of the harness under `extra`. Three generations of
models write it: commands in a fenced block of text (v1, and text models since), tool calls of a
chat completion (v2), and objects of the Responses API, which have no role.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from replay.formats import litellm
from replay.formats.fields import listed, obj, word
from replay.formats.normal import seconds_ns
from replay.messages import Call, calls, content_text
from replay.trace import Json, Message, Response

_OPENS = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n|<mswea_bash_command>")
_CODE = re.compile(r"\s*<returncode>(-?\d+)</returncode>")
_NOTES = {"extra", "timestamp", "type"}
TOOL = "bash"


class Record(Struct, frozen=True, kw_only=True, eq=False):
    """One message: its place, the source's object, and what was sent of it."""

    index: int
    raw: dict[str, Any]

    @property
    def extra(self) -> dict[str, Any]:
        return obj(self.raw.get("extra"))

    @property
    def is_response(self) -> bool:
        return self.raw.get("object") == "response"

    @property
    def answers(self) -> bool:
        """Is it the model's?"""
        return self.is_response or self.raw.get("role") == "assistant"

    @property
    def ends(self) -> bool:
        return self.raw.get("role") == "exit"

    @property
    def at_ns(self) -> int | None:
        stamp = self.extra.get("timestamp", self.raw.get("timestamp"))
        return seconds_ns(stamp)

    @property
    def message(self) -> Message:
        """The message as the model was sent it, or as it answered."""
        if self.is_response:
            return litellm.said(self.raw)
        if self.raw.get("type") == "function_call_output":
            return litellm.returned(self.raw)
        body = {name: value for name, value in self.raw.items() if name not in _NOTES}
        return Message(dialect="openai", body=body)

    @property
    def answer(self) -> dict[str, Any]:
        """The provider's whole answer, {} where it was not kept."""
        return self.raw if self.is_response else obj(self.extra.get("response"))

    @property
    def response(self) -> Response:
        return litellm.response(self.answer)

    @property
    def unusable(self) -> Message | None:
        """The answer that this message tells the model it cannot use; it joins no conversation."""
        if self.extra.get("interrupt_type") != "FormatError":
            return None
        if self.answer.get("object") == "response" or listed(self.answer.get("output")):
            return litellm.said(self.answer)
        told = obj(litellm.choice(self.answer).get("message"))
        words = self.extra.get("model_response")
        if not told and not isinstance(words, str):
            return None
        return Message(dialect="openai", body={"role": "assistant", "content": words, **told})

    @property
    def written(self) -> tuple[Call, ...]:
        """The commands of an answer that are text and no tool calls."""
        if calls(self.message):
            return ()
        noted = [obj(each) for each in listed(self.extra.get("actions"))]
        found = [command for each in noted if (command := word(each.get("command")))]
        if not noted:
            fenced = _fenced(content_text(self.raw.get("content")))
            found = fenced if len(fenced) == 1 else []
        return tuple(
            Call(id=None, name=TOOL, arguments={"command": command}, position=position)
            for position, command in enumerate(found)
        )

    @property
    def failure(self) -> str | None:
        """Why the command whose result this is failed, None where it did not."""
        raised = word(self.extra.get("exception_info"))
        code: Json = self.extra.get("returncode")
        if code is None and (found := _CODE.match(content_text(self.raw.get("content")))):
            code = int(found[1][:9])
        failed = isinstance(code, int) and not isinstance(code, bool) and code != 0
        return raised or (f"exit code {code}" if failed else None)


def _fenced(words: str) -> list[str]:
    """The commands between the fences of a text, an unclosed one left out. One pass."""
    found: list[str] = []
    opened = _OPENS.search(words)
    while opened is not None:
        close = "</mswea_bash_command>" if opened[0].startswith("<") else "\n```"
        end = words.find(close, opened.end())
        if end < 0:
            return found
        found.append(words[opened.end() : end].strip())
        opened = _OPENS.search(words, end + len(close))
    return found
