"""Batches of OpenAI's two APIs: a file of requests goes up, one of answers and one of errors come
down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from replay import digests
from replay.errors import ModelRefused, RequestRefused
from replay.formats.common import obj, word
from replay.models.batches import Batches, Batching, NeverTaken, json_object, objects_of
from replay.models.line import Body, Line
from replay.models.openai import OpenAI
from replay.models.protocol import Result, Sending, Unanswered, flaw
from replay.models.wire import NoMessage, ServerFailed, Upload

FILES = "/files"
WINDOW = "24h"
_ENDS = {"completed", "failed", "expired", "cancelled"}
_MARK = "arc"
"""The field of a batch's metadata that says which requests it holds."""


class BatchingOpenAI(Batching):
    """A live model behind one of OpenAI's APIs, at a server that takes batches."""

    def __init__(self, name: str, *, wire: OpenAI, **beside: Any) -> None:
        super().__init__(name, wire=wire, **beside)
        self._files = FileBatches(self._line, wire)
        self._batches = self._files

    def batch_status(self, id: str) -> str | None:
        """How far a batch is, in the server's word; None where it has no such batch."""
        return self._loop.run(self._files.status("GET", id))

    def cancel_batch(self, id: str) -> str | None:
        """Have a batch cancelled; how far it is then, None where it has no such batch."""
        return self._loop.run(self._files.status("POST", f"{id}/cancel"))


class FileBatches(Batches):
    """Batches whose requests stand in a file, one a line."""

    path = "/batches"

    def __init__(self, line: Line, wire: OpenAI) -> None:
        super().__init__(line)
        self._wire = wire
        self._endpoint = f"/v1{wire.path}"

    async def creation(self, requests: Mapping[str, Body], sending: Sending) -> Body:
        """The file goes up first: that is free, and nothing is asked by it."""
        lines = [
            {
                "custom_id": name,
                "method": "POST",
                "url": self._endpoint,
                "body": self._wire.whole_body(body),
            }
            for name, body in requests.items()
        ]
        content = b"".join(digests.pack(each) + b"\n" for each in lines)
        upload = Upload("requests.jsonl", content, {"purpose": "batch"})
        try:
            reply = await self._line.fetch("POST", FILES, upload)
        except ModelRefused as error:
            raise NeverTaken(error.message, error.hint) from error
        if reply is None:
            refused = self.none_taken()
            raise NeverTaken(refused.message, refused.hint)
        given = (json_object(reply) or {}).get("id")
        if not isinstance(given, str) or not given:
            raise NeverTaken("the server accepted a file without giving an id")
        return {
            "input_file_id": given,
            "endpoint": self._endpoint,
            "completion_window": WINDOW,
            "metadata": {_MARK: sending.mark},
        }

    async def status(self, method: Literal["GET", "POST"], path: str) -> str | None:
        reply = await self._line.fetch(method, f"{self.path}/{path}")
        return word((json_object(reply) or {}).get("status"))

    def is_meant(self, batch: Body, sending: Sending) -> bool:
        return obj(batch.get("metadata")).get(_MARK) == sending.mark

    def created_ns(self, batch: Body) -> int:
        created = batch.get("created_at")
        return created * 10**9 if type(created) is int else 0

    def has_ended(self, batch: Body) -> bool:
        return batch.get("status") in _ENDS

    async def read(self, batch: Body, asked: Collection[str]) -> dict[str, Result] | None:
        if batch["status"] == "failed":
            return dict(self._read_refusal(batch, asked))
        found: dict[str, Result] = {}
        for name in ("output_file_id", "error_file_id"):
            if not word(batch.get(name)):
                continue
            reply = await self._line.fetch("GET", f"{FILES}/{batch[name]}/content")
            if reply is None:
                return None
            found |= dict(map(self._result, objects_of(reply.body)))
        if batch["status"] == "completed":
            return found
        # The files of a batch that was ended early need not speak of every request.
        return {name: Unanswered(batch["status"]) for name in asked} | found

    def _read_refusal(self, batch: Body, asked: Collection[str]) -> Iterator[tuple[str, Result]]:
        """A batch that was refused as a whole: nothing of it was asked."""
        errors = [obj(each) for each in obj(batch.get("errors")).get("data") or ()]
        first = errors[0] if errors else {}
        why = word(first.get("message")) or word(first.get("code")) or "the batch was refused"
        refused = {each.get("line"): word(each.get("message")) for each in errors}
        for line, name in enumerate(asked, 1):
            said = refused.get(line)
            if said is None:
                yield name, Unanswered(f"because the batch was refused ({why})")
            else:
                yield name, self._refusal(said)

    def _result(self, line: Body) -> tuple[str, Result]:
        error, response = obj(line.get("error")), obj(line.get("response"))
        body, status = response.get("body"), response.get("status_code")
        if error or not response:
            code = word(error.get("code")) or "failed"
            return line["custom_id"], Unanswered(code.removeprefix("batch_"))
        if status == 200:
            return line["custom_id"], self._answer(body)
        inner = obj(obj(body).get("error"))
        said = word(inner.get("message")) or "declined"
        if status in {400, 413, 422}:
            return line["custom_id"], self._refusal(said)
        return line["custom_id"], Unanswered(word(inner.get("code")) or f"HTTP {status}")

    def _answer(self, body: Any) -> Result:
        try:
            answer = self._wire.read(body)
        except NoMessage:
            return Unanswered("broken")
        except ServerFailed as error:
            return Unanswered(error.kind)
        return Unanswered("broken") if flaw(answer) is not None else answer

    def _refusal(self, said: str) -> RequestRefused:
        where = f"{self._line.model}: {said} (in a batch)"
        return RequestRefused(where, self._wire.request_hint(said))
