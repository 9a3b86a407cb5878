"""Files and batches: a file of requests is taken whole, looked through later, answered in files.

No time passes here: a batch is looked through at its first poll, and ends after as many polls more
as its fate says. What is wrong with its file makes the whole batch fail then, not before.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from email import message_from_bytes
from typing import Any

from msgspec import Struct

from tests.messages_api.batches import LIFETIME_S, Fate
from tests.messages_api.handler import Reply
from tests.openai_servers.chat_request import METADATA
from tests.openai_servers.shape import (
    Body,
    Choice,
    Fields,
    Refused,
    Text,
    Whole,
    flaw,
    may,
    need,
)

MOST_BYTES = 200_000_000
MOST_REQUESTS = 50_000
ENDPOINTS = (
    "/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions",
    "/v1/moderations", "/v1/images/generations", "/v1/images/edits", "/v1/videos",
)  # fmt: skip
PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")

CREATE = Fields({
    "input_file_id": need(Text(1)),
    "endpoint": need(Choice(ENDPOINTS)),
    "completion_window": need(Choice(("24h",))),
    "metadata": may(METADATA, nullable=True),
    "output_expires_after": may(Fields({
        "anchor": need(Choice(("created_at",))), "seconds": need(Whole(3600, 2_592_000)),
    })),
})  # fmt: skip


class File(Struct, frozen=True, kw_only=True):
    """A file that went up, or that a batch made."""

    id: str
    name: str
    purpose: str
    content: bytes
    created_s: int

    @property
    def shown(self) -> Body:
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_s,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
            "expires_at": self.created_s + 30 * 24 * 3600,
        }


class Batch(Struct, kw_only=True):
    """A batch and how far it is."""

    id: str
    asked: Body
    fate: Fate
    created_s: int
    polls_left: int
    status: str = "validating"
    lines: list[Body] = []
    errors: list[Body] = []
    output: str | None = None
    error: str | None = None
    at: dict[str, int] = {}

    def shown(self, done: int, failed: int) -> Body:
        moments = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling",
                   "cancelled")  # fmt: skip
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.asked["endpoint"],
            "model": self.lines[0]["body"]["model"] if self.lines else None,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.asked["input_file_id"],
            "completion_window": self.asked["completion_window"],
            "status": self.status,
            "output_file_id": self.output,
            "error_file_id": self.error,
            "created_at": self.created_s,
            "expires_at": self.created_s + int(LIFETIME_S),
            **{f"{each}_at": self.at.get(each) for each in moments},
            "request_counts": {"total": len(self.lines), "completed": done, "failed": failed},
            "metadata": self.asked.get("metadata"),
        }


class Batches:
    """Every file and batch a server was given. `answer` answers a line as its path would;
    `clock` gives seconds since the epoch. Limits may be lowered."""

    def __init__(self, answer: Callable[[str, Body], Reply], clock: Callable[[], float]) -> None:
        self.fate = Fate()
        self.most_bytes, self.most_requests = MOST_BYTES, MOST_REQUESTS
        self._answer = answer
        self._clock = clock
        self._files: dict[str, File] = {}
        self._batches: dict[str, Batch] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        self._lock = threading.RLock()

    # --- files

    def upload(self, kind: str, raw: bytes) -> Body | Refused:
        """A file from a form."""
        form: Any = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + raw)
        if not form.is_multipart():
            return Refused("Could not parse multipart form")
        parts: dict[str, Any] = {
            str(each.get_param("name", header="content-disposition")): each
            for each in form.get_payload()
        }
        if "file" not in parts or "purpose" not in parts:
            lacking = "file" if "file" not in parts else "purpose"
            return Refused(f"'{lacking}' is a required property", lacking)
        purpose = parts["purpose"].get_payload(decode=True).decode()
        if purpose not in PURPOSES:
            return Refused(f"'{purpose}' is not one of {list(PURPOSES)} - 'purpose'", "purpose")
        content = parts["file"].get_payload(decode=True)
        name = parts["file"].get_filename() or "upload"
        if purpose == "batch" and not name.endswith(".jsonl"):
            return Refused("Invalid file format for Batch API. Must be .jsonl")
        if len(content) > self.most_bytes:
            return Refused("File is too large.")
        return self._keep(name, purpose, content).shown

    def content(self, id: str) -> str | Refused:
        with self._lock:
            found = self._files.get(id)
        if found is None:
            return Refused(f"No such File object: {id}", "id", status=404)
        return found.content.decode()

    def forget_files(self) -> None:
        """All files are older than they are kept."""
        with self._lock:
            self._files.clear()

    def _keep(self, name: str, purpose: str, content: bytes) -> File:
        with self._lock:
            made = File(
                id=f"file-{len(self._files) + 1:06d}",
                name=name,
                purpose=purpose,
                content=content,
                created_s=int(self._clock()),
            )
            self._files[made.id] = made
            return made

    # --- batches

    def create(self, body: Body) -> Body | Refused:
        wrong = flaw(body, CREATE)
        if wrong is not None:
            return wrong
        with self._lock:
            made = Batch(
                id=f"batch_{len(self._batches) + 1}",
                asked=body,
                fate=self.fate,
                created_s=int(self._clock()),
                polls_left=self.fate.polls,
            )
            self._batches[made.id] = made
            return self._shown(made)

    def retrieve(self, id: str) -> Body | Refused:
        """A poll. It may be the one that finds the batch ended."""
        with self._lock:
            batch = self._batches.get(id)
            if batch is None:
                return _no_batch(id)
            self._go_on(batch)
            return self._shown(batch)

    def cancel(self, id: str) -> Body | Refused:
        with self._lock:
            batch = self._batches.get(id)
            if batch is None:
                return _no_batch(id)
            if batch.status not in {"validating", "in_progress", "finalizing"}:
                return Refused(f"Cannot cancel a batch with status '{batch.status}'.", status=409)
            self._becomes(batch, "cancelling")
            return self._shown(batch)

    def page(self, after: str | None, limit: int) -> Body:
        """The batches, the newest first."""
        with self._lock:
            newest = list(reversed(self._batches.values()))
            ids = [each.id for each in newest]
            start = ids.index(after) + 1 if after in ids else 0
            page = [self._shown(each) for each in newest[start : start + limit]]
        return {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": start + limit < len(newest),
        }

    def _shown(self, batch: Batch) -> Body:
        return batch.shown(*self._counts.get(batch.id, (0, 0)))

    def _becomes(self, batch: Batch, status: str) -> None:
        batch.status = status
        batch.at[status] = int(self._clock())

    def _go_on(self, batch: Batch) -> None:
        if batch.status == "validating":
            file = self._files.get(batch.asked["input_file_id"])
            batch.errors = list(_file_errors(file, batch.asked, self.most_requests))
            if batch.errors:
                self._becomes(batch, "failed")
                return
            assert file is not None
            batch.lines = [json.loads(each) for each in file.content.splitlines()]
            self._becomes(batch, "in_progress")
        if batch.status == "cancelling":
            self._end(batch, "cancelled")
        elif batch.status == "in_progress":
            if self._clock() >= batch.created_s + LIFETIME_S:
                self._end(batch, "expired")
            elif batch.polls_left > 0:
                batch.polls_left -= 1
            else:
                self._end(batch, "completed")

    def _end(self, batch: Batch, status: str) -> None:
        """Write what came of every line. One that was cancelled before it was asked is in no file;
        results are never in the order that was asked unless there is only one."""
        ends = [] if status == "cancelled" else [
            self._ended(line, "expired" if status == "expired" else batch.fate.of(at, _id(line)))
            for at, line in enumerate(batch.lines)
        ]  # fmt: skip
        good = [end for end in ends if (end["response"] or {}).get("status_code") == 200]
        bad = [end for end in ends if end not in good]
        self._counts[batch.id] = (len(good), len(bad))
        batch.output = self._written("output", good)
        batch.error = self._written("error", bad)
        self._becomes(batch, status)

    def _written(self, name: str, ends: list[Body]) -> str | None:
        if not ends:
            return None
        content = "".join(json.dumps(each) + "\n" for each in reversed(ends))
        return self._keep(f"batch_{name}.jsonl", "batch_output", content.encode()).id

    def _ended(self, line: Body, fate: str | None) -> Body:
        made: Body = {"id": f"batch_req_{_id(line)[:8]}", "custom_id": _id(line)}
        if fate == "expired":
            why = "This request could not be executed before the completion window expired."
            return {**made, "response": None, "error": {"code": "batch_expired", "message": why}}
        if fate == "failed":
            failed = Refused("Internal server error", None, None, 500, "server_error")
            reply = Reply(status=500, body=json.dumps(failed.body))
        elif line["body"].get("stream"):
            why = "Streaming is not supported in the Batch API."
            reply = Reply(status=400, body=json.dumps(Refused(why, "stream").body))
        else:
            reply = self._answer(line["url"], line["body"])
        response = {
            "status_code": reply.status,
            "request_id": f"req_{_id(line)[:8]}",
            "body": json.loads(reply.body),
        }
        return {**made, "response": response, "error": None}


def _id(line: Body) -> str:
    return str(line["custom_id"])


def _no_batch(id: str) -> Refused:
    return Refused(f"No batch found with id '{id}'.", None, status=404)


def _file_errors(file: File | None, asked: Body, most: int) -> Iterator[Body]:
    """What is wrong with the file of a batch, in its order."""
    if file is None or file.purpose != "batch":
        yield _error("invalid_file", "The input file was not found, or is not one for batches.")
        return
    lines = file.content.splitlines()
    if not lines:
        yield _error("empty_file", "The input file is empty.")
    if len(lines) > most:
        yield _error(
            "too_many_tasks",
            f"The batch input file contains too many requests. The limit is {most}.",
        )
        return
    seen: set[str] = set()
    models: set[str] = set()
    for number, raw in enumerate(lines, 1):
        yield from _line_errors(raw, number, asked, seen, models)


def _line_errors(
    raw: bytes, number: int, asked: Body, seen: set[str], models: set[str]
) -> Iterator[Body]:
    try:
        line = json.loads(raw)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        why = "This line is not parseable as valid JSON."
        yield _error("invalid_json_line", why, number)
        return
    for name in ("custom_id", "method", "url", "body"):
        if name not in line:
            yield _error(
                "missing_required_parameter", f"Missing required parameter: '{name}'.", number, name
            )
            return
    if line["method"] != "POST":
        yield _error("invalid_method", "The method of a request must be POST.", number, "method")
    if line["url"] != asked["endpoint"]:
        why = "The URL provided for this request does not match the batch endpoint."
        yield _error("url_mismatch", why, number, "url")
    if line["custom_id"] in seen:
        why = f"The custom_id '{line['custom_id']}' is duplicated across multiple requests."
        yield _error("duplicate_custom_id", why, number, "custom_id")
    seen.add(line["custom_id"])
    models.add(str(line["body"].get("model")))
    if len(models) > 1:
        why = "The model of this request does not match that of the others in the batch."
        yield _error("model_mismatch", why, number, "body.model")


def _error(code: str, message: str, line: int | None = None, param: str | None = None) -> Body:
    return {"code": code, "message": message, "param": param, "line": line}
