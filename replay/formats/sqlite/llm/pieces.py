"""What a row of `llm` refers to by number or digest: tools, fragments, attachments, schemas; and
what one says of a call beside its messages."""

from __future__ import annotations

import base64
from typing import Any

from replay.errors import BadTrace
from replay.formats.chat import tool
from replay.formats.dialogue import Turn
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Tally, decode
from replay.formats.normal import anthropic_usage, count, ns, stop, total_usage
from replay.formats.sqlite.database import Database, Row
from replay.trace import Fidelity, Json, Level, Place, Response, Tool, Usage

REBUILT = Fidelity(level=Level.REBUILT)
_LONGEST_MS = 10**12
ELSEWHERE = "an attachment lies outside the database"
GONE = "a part of a message is no longer in the database"

CALL = (
    "id", "model", "resolved_model", "options_json", "schema_id", "response_json", "datetime_utc",
    "duration_ms", "input_tokens", "output_tokens", "token_details",
)  # fmt: skip
"""The columns that rows of both kinds have, as far as the file's version knew them."""


class Pieces:
    """Looks up what is referred to. `lost` are reasons why a message could not be made whole."""

    def __init__(self, database: Database, path: str, tally: Tally) -> None:
        self._database = database
        self._path = path
        self._tally = tally
        self._tools: dict[int, Tool] = {}
        self.lost: set[str] = set()

    def value(self, text: Json, where: str) -> Json:
        """The value of a JSON text; None for none, and for a broken one, which is a problem."""
        if not isinstance(text, str) or not text:
            return None
        try:
            return decode(text.encode("utf-8", "replace"), self._path, where)
        except BadTrace as error:
            self._tally.problem(error.where, error.why)
            return None

    def tool(self, key: Json) -> Tool | None:
        if type(key) is not int:
            return None
        if key not in self._tools:
            row = next(self._database.rows("tools", _TOOL, id=key), None)
            if row is None:
                self._tally.problem(f"tool {key}", "is offered and not in the database")
                return None
            schema = self.value(row.get("input_schema"), f"tool {key}")
            declared = {n: row.get(n) for n in ("name", "description") if row.get(n) is not None}
            self._tools[key] = tool({**declared, "parameters": schema})
        return self._tools[key]

    def fragment(self, key: Json) -> str:
        """The text of a fragment, "" for one that was deleted."""
        row = self._one("fragments", ["content"], key)
        content = row.get("content")
        if not isinstance(content, str):
            self.lost.add(GONE)
            return ""
        return content

    def attachment(self, key: Json) -> dict[str, Json]:
        """An attachment as a block of a message's content."""
        row = self._one("attachments", ["type", "path", "url", "content"], key)
        kind, url, content = word(row.get("type")), word(row.get("url")), row.get("content")
        if isinstance(content, bytes) and content:
            packed = base64.b64encode(content).decode()
            url = f"data:{kind or 'application/octet-stream'};base64,{packed}"
        if url is None:
            self.lost.add(ELSEWHERE if row.get("path") else GONE)
            return {"type": "file", "file": known(filename=word(row.get("path")))}
        if (kind or "").startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"file_data": url}}

    def _one(self, table: str, columns: list[str], key: Json) -> Row:
        if not isinstance(key, (int, str)):
            return {}
        return next(self._database.rows(table, columns, id=key), {})

    def params(self, row: Row) -> dict[str, Json]:
        """The options of a call, with the schema its answer was to follow."""
        where = f"call {row.get('id')}"
        options = obj(self.value(row.get("options_json"), where))
        content = self._one("schemas", ["content"], row.get("schema_id")).get("content")
        schema = self.value(content, f"schema of {where}")
        if schema is None:
            return options
        wanted = {"type": "json_schema", "json_schema": {"name": "output", "schema": schema}}
        return {**options, "response_format": wanted}

    def turn(self, row: Row, fidelity: Fidelity) -> Turn:
        """What a row says of its call. The payload of the provider is kept without the texts that
        stand in the message anyway; its words for id and stop are whole."""
        where = f"call {row.get('id')}"
        payload = obj(self.value(row.get("response_json"), where))
        choice = obj(next(iter(listed(payload.get("choices"))), None))
        why = word(
            payload.get("finish_reason")
            or payload.get("stop_reason")
            or choice.get("finish_reason")
        )  # fmt: skip
        start = ns(row.get("datetime_utc"))
        took_ms = count(row.get("duration_ms"))
        if start is None or took_ms is None or took_ms > _LONGEST_MS:
            end = None
        else:
            end = start + took_ms * 1_000_000
        return Turn(
            id=row["id"],
            response=Response(
                id=word(payload.get("id")),
                model=word(row.get("resolved_model")) or word(row.get("model")),
                stop=stop(why),
                stop_raw=why,
            ),
            usage=_usage(row, obj(self.value(row.get("token_details"), where))),
            start_ns=start,
            end_ns=end,
            time_quality="exact" if start is not None else "none",
            place=Place(span=row["id"]),
            fidelity=fidelity,
        )


_TOOL = ("name", "description", "input_schema")


def _usage(row: Row, details: dict[str, Any]) -> Usage | None:
    """Tokens, in the convention of the provider whose details they are."""
    asked, answered = row.get("input_tokens"), row.get("output_tokens")
    if {"cache_read_input_tokens", "cache_creation_input_tokens"} & details.keys():
        return anthropic_usage({**details, "input_tokens": asked, "output_tokens": answered})
    shown = details.get("prompt_tokens_details", details.get("input_tokens_details"))
    said = details.get("completion_tokens_details", details.get("output_tokens_details"))
    read = obj(shown).get("cached_tokens", details.get("cachedContentTokenCount"))
    return total_usage(
        count(asked),
        count(answered),
        reasoning=count(obj(said).get("reasoning_tokens")),
        read=count(read),
    )
