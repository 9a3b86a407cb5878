"""The scripted model on loopback, and a sink that keeps what exporters post.

with CaptureServers() as servers:
    ...                            # a client asks servers.model.url, exports to servers.sink.url
    servers.served                 # every answer, in order
    servers.posts                  # every body posted to the sink, as it came
"""

from __future__ import annotations

import json
import re
import threading
from types import TracebackType

from msgspec import Struct
from msgspec.structs import replace

from tests.captures import wires
from tests.captures.script import Turn, prose_turn_after, turn_after
from tests.captures.wires import Answer, Body, Question
from tests.upstream import Asked, Reply, Upstream

_GEMINI = re.compile(r"/models/([^/:]+):(stream)?[gG]enerateContent")


class ServedAnswer(Struct, frozen=True, kw_only=True):
    """An answer that went out, and the request it answers."""

    question: Question
    turn: Turn
    stop: str | None
    prefix: str | None


class Post(Struct, frozen=True, kw_only=True):
    """A body that an exporter posted, still packed as it was."""

    path: str
    content_type: str
    encoding: str | None
    body: bytes


class CaptureServers:
    """Both servers, a context manager."""

    def __init__(self) -> None:
        self.served: list[ServedAnswer] = []
        self.posts: list[Post] = []
        self.model = Upstream(self._answer)
        self.sink = Upstream(self._keep)
        self._asked: dict[str, Question] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> CaptureServers:
        self.model.__enter__()
        self.sink.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.sink.__exit__(kind, error, at)
        self.model.__exit__(kind, error, at)

    def _answer(self, asked: Asked) -> Reply:
        if asked.method != "POST":
            return Reply(pieces=[b'{"object": "list", "data": []}'])
        with self._lock:
            return self._spoken(asked.path.partition("?")[0], json.loads(asked.body))

    def _spoken(self, path: str, body: Body) -> Reply:
        at = len(self.served)
        found = _GEMINI.search(path)
        if found is not None:
            question = wires.gemini_question(body, found[1])
            turn = turn_after(question.results, question.offered)
            spoken = wires.gemini(turn, found[1], at, streamed=bool(found[2]))
        elif path.endswith("/chat/completions"):
            question = wires.chat_question(body)
            turn = turn_after(question.results, question.offered)
            if question.fields:
                turn = prose_turn_after(question.results, question.fields)
            spoken = wires.chat(turn, body, at)
        elif path.endswith("/responses"):
            before = body.get("previous_response_id")
            question = self._continued(wires.responses_question(body), before, f"resp_{at}")
            turn = turn_after(question.results, question.offered)
            spoken = wires.responses(turn, body, at)
        elif path.endswith("/messages"):
            before = (body.get("thread") or {}).get("previous_message_id")
            question = self._continued(wires.messages_question(body), before, f"msg_{at}")
            turn = turn_after(question.results, question.offered)
            spoken = wires.messages(turn, body, at)
        else:
            return Reply(status=404, pieces=[b'{"error": {"message": "no such path"}}'])
        self._note(question, turn, spoken)
        return spoken.reply

    def _note(self, question: Question, turn: Turn, spoken: Answer) -> None:
        self.served.append(
            ServedAnswer(question=question, turn=turn, stop=spoken.stop, prefix=spoken.prefix)
        )

    def _continued(self, question: Question, before: str | None, answer: str) -> Question:
        """The question with what was asked before the answer that it continues, where it does."""
        earlier = self._asked.get(before or "")
        if earlier is not None:
            question = replace(
                question,
                system=question.system or earlier.system,
                task=earlier.task,
                results=earlier.results + question.results,
                offered=question.offered or earlier.offered,
            )
        self._asked[answer] = question
        return question

    def _keep(self, asked: Asked) -> Reply:
        kind = (asked.header("content-type") or "").partition(";")[0]
        with self._lock:
            self.posts.append(
                Post(
                    path=asked.path,
                    content_type=kind,
                    encoding=asked.header("content-encoding"),
                    body=asked.body,
                )
            )
        empty = b"{}" if kind == "application/json" else b""
        return Reply(pieces=[empty], headers=(("Content-Type", kind),))
