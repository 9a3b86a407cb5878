"""The `logs.db` of `llm`: conversations on the command line, one trace each.

It has had two ways of keeping them: a row a prompt and its answer (`responses`), and since 0.36
a store of messages that conversations share, with a row a call (`turns`). A conversation that
was begun in the one way and goes on in the other is one trace. Requests are put together from
messages that are whole, with the system prompt and the tools that were sent.

Since 0.36 a message names the one before it, a call the last one it was shown and the last one it
gave. Messages are shared by conversations; what a call was shown is the way back from its parent to
the first message.

Before 0.36 the tools, calls, results, fragments and attachments of a row stand in tables beside it.
A call was shown the whole conversation before it. The system prompt of its first call stood
before all of them; one that changed on the way stands where it changed.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from replay.formats.chat import cut, tool, user_label
from replay.formats.common import (
    anthropic_usage,
    count,
    known,
    listed,
    ns,
    obj,
    stop,
    total_usage,
    word,
)
from replay.formats.database import Database, Row
from replay.formats.dialogue import Thread, Turn
from replay.formats.genai.messages import call_part
from replay.formats.source import Tally, decoded_text
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    ModelCall,
    Place,
    Request,
    Response,
    Tool,
    Usage,
)

TABLES = frozenset({"_llm_migrations", "conversations", "responses"})

NAME = "llm"

_OLDEST = "logs"
"""The table of the first versions, kept where somebody had used them."""


def traces(database: Database, path: str, tally: Tally) -> Iterator[Batch]:
    """One trace a conversation, in the order they were begun."""
    pieces = Pieces(database, path, tally)
    responses, turns = Responses(database, pieces), Turns(database, pieces)
    oldest = sum(1 for _ in database.rows(_OLDEST, ["id"]))
    if oldest:
        tally.problem(f"table {_OLDEST}", f"{oldest} responses of llm before 0.5 are not read")
    for name in dict.fromkeys((*responses.conversations(), *turns.conversations())):
        thread = Thread(parent=name, request=Request(), fidelity=REBUILT, tally=tally)
        responses.build(name, thread)
        turns.build(name, thread)
        if thread.spans():
            yield _batch(name, thread.spans(), database, path, tally)


def _batch(
    name: str, spans: tuple[AnySpan, ...], database: Database, path: str, tally: Tally
) -> Batch:
    calls = [span for span in spans if isinstance(span, ModelCall)]
    tally.counts["traces"] += 1
    tally.counts["model_calls"] += len(calls)
    starts = [span.start_ns for span in calls if span.start_ns is not None]
    ends = [span.end_ns for span in calls if span.end_ns is not None]
    about = _about(database, name)
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=min(starts, default=None),
        end_ns=max(ends, default=None),
        time_quality="derived" if starts else "none",
        extra=known(name=about.get("name"), forked_from=about.get("forked_from")),
    )
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=_title(calls) or cut(word(about.get("name")) or name),
        agent=NAME,
    )
    return Batch(header=header, spans=(root, *spans), last=True)


def _about(database: Database, name: str) -> Row:
    """What stands beside a conversation, in the newer table first."""
    found = [
        next(database.rows(table, ["name", "forked_from"], id=name), {})
        for table in ("conversations", "threads")
    ]
    return {n: value for row in found for n, value in row.items() if value is not None}


def _title(calls: list[ModelCall]) -> str | None:
    for call in calls:
        context = call.request.context
        title = user_label([each.body for each in context.messages()]) if context else None
        if title is not None:
            return title
    return None


REBUILT = Fidelity(level=Level.REBUILT)
_LONGEST_MS = 10**12
ELSEWHERE = "an attachment is outside the database"
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
        return decoded_text(text or None, self._path, where, self._tally)

    def tool(self, key: Json) -> Tool | None:
        if type(key) is not int:
            return None
        if key not in self._tools:
            row = next(self._database.rows("tools", _TOOL, id=key), None)
            if row is None:
                self._tally.problem(f"tool {key}", "is offered, but not in the database")
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


Body = dict[str, Json]


class _Message(NamedTuple):
    """A message of the store; `lost` are the reasons why it is not whole."""

    role: str
    parent: str | None
    bodies: tuple[Message, ...]
    lost: frozenset[str]


class Turns:
    """The calls of one database, by their conversations."""

    def __init__(self, database: Database, pieces: Pieces) -> None:
        self._database = database
        self._pieces = pieces
        self._said: dict[str, _Message | None] = {}
        self._turns_of: defaultdict[str, list[str]] = defaultdict(list)
        columns = ("id", "thread_id")  # which has no index
        for row in database.rows("turns", columns, order=("datetime_utc", "id")):
            if isinstance(row["id"], str) and isinstance(row.get("thread_id"), str):
                self._turns_of[row["thread_id"]].append(row["id"])

    def conversations(self) -> Iterator[str]:
        for row in self._database.rows("threads", ["id"], order=["datetime_utc", "id"]):
            if isinstance(row["id"], str):
                yield row["id"]

    def build(self, conversation: str, thread: Thread) -> None:
        """Tell the thread the calls of a conversation, in time order."""
        self._said.clear()
        told: list[str] = []
        for name in self._turns_of.get(conversation, ()):
            row = next(self._database.rows("turns", _TURN, id=name), {}) | {"id": name}
            told = self._add_call(row, told, thread)

    def _add_call(self, row: Row, told: list[str], thread: Thread) -> list[str]:
        """Tell one call after those messages; gives the messages told then."""
        shown = self._chain(row.get("parent_message_hash"))
        gave = self._chain(row.get("tip_message_hash"), until=row.get("parent_message_hash"))
        lost = self._lost(row, [*shown, *gave])
        system = self._system(shown)
        rest = shown[1:] if system is not None else shown
        if told and rest[: len(told)] == told:
            known_ = len(told)
        else:  # a fork, or a conversation that another program kept: only what is last is new
            known_ = 1 + max((at for at, name in enumerate(rest) if self._asks(name)), default=-1)
            thread.reset(*self._messages(rest[:known_]))
        turn = self._pieces.turn(row, _fidelity(lost))
        for message in self._messages(rest[known_:]):
            thread.add_message(message, place=turn.place, at_ns=turn.start_ns)
        thread.request = Request(
            model=word(row.get("model")),
            system=system,
            tools=self._tools(turn.id),
            params=self._pieces.params(row),
        )
        thread.add_model_call(_joined(self._messages(gave)), turn)
        return [*rest, *gave]

    def _chain(self, tip: Json, until: Json = None) -> list[str]:
        """The messages from the first one to `tip`, or from the one after `until`."""
        found: dict[str, None] = {}
        name = tip
        while isinstance(name, str) and name != until and name not in found:
            found[name] = None
            said = self._message(name)
            name = said.parent if said is not None else None
        return [*reversed(found)]

    def _message(self, name: str) -> _Message | None:
        """A message by its digest, None where it is not in the database."""
        if name not in self._said:
            columns = ["parent_hash", "role"]
            row = next(self._database.rows("messages", columns, hash=name), None)
            self._said[name] = self._read(name, row) if row is not None else None
        return self._said[name]

    def _read(self, name: str, row: Row) -> _Message:
        before, self._pieces.lost = self._pieces.lost, set()
        parts = [*self._database.rows("parts", _PART, order=["position"], message_hash=name)]
        role = word(row.get("role")) or ""
        made = [*_bodies(role, [self._part(part, name) for part in parts], self._pieces)]
        lost, self._pieces.lost = frozenset(self._pieces.lost), before
        parent = row.get("parent_hash")
        return _Message(
            role,
            parent if isinstance(parent, str) else None,
            tuple(Message(dialect="openai", body=body) for body in made),
            lost,
        )

    def _part(self, row: Row, name: str) -> dict[str, Any]:
        """A part whose text is whole: its own, or joined from literals and fragments."""
        part = obj(self._pieces.value(row.get("payload"), f"message {name}"))
        text = row.get("text")
        pieces = part.pop("text_ref", None)
        if pieces is not None:
            text = "".join(
                str(obj(each).get("literal", ""))
                if "fragment" not in obj(each)
                else self._pieces.fragment(obj(each)["fragment"])
                for each in listed(pieces)
            )
        return {**part, "type": word(row.get("type")) or "", **known(text=text)}

    def _messages(self, names: list[str]) -> list[Message]:
        found = (self._message(name) for name in names)
        return [message for said in found if said is not None for message in said.bodies]

    def _system(self, names: list[str]) -> Message | None:
        first = self._message(names[0]) if names else None
        return first.bodies[0] if first and first.role == "system" and first.bodies else None

    def _asks(self, name: str) -> bool:
        said = self._message(name)
        return said is not None and said.role == "assistant"

    def _lost(self, row: Row, names: list[str]) -> set[str]:
        found = [self._message(name) for name in names]
        whole = all(found) and (names or row.get("parent_message_hash") is None)
        reasons = {reason for said in found if said is not None for reason in said.lost}
        return reasons if whole else {GONE, *reasons}

    def _tools(self, turn: str) -> tuple[Tool, ...]:
        rows = self._database.rows("turn_tools", ["tool_id"], turn_id=turn)
        found = (self._pieces.tool(row.get("tool_id")) for row in rows)
        return tuple(each for each in found if each is not None)


_TURN = (*CALL, "parent_message_hash", "tip_message_hash")
_PART = ("type", "text", "payload")


def _fidelity(lost: set[str]) -> Fidelity:
    return Fidelity(level=Level.PARTIAL, reasons=tuple(sorted(lost))) if lost else REBUILT


def _bodies(role: str, parts: list[dict[str, Any]], pieces: Pieces) -> Iterator[Body]:
    """One message, and one for each result in it; what a provider ran itself stays a part."""
    content: list[Body] = []
    calls: list[Body] = []
    for part in parts:
        kind, own = part["type"], part.get("server_executed") is not True
        if kind == "tool_call" and own:
            calls.append(
                call_part(part.get("tool_call_id"), part.get("name"), part.get("arguments"))
            )
        elif kind == "tool_result" and own:
            yield _result(part, pieces)
        elif kind == "reasoning":
            shown = {n: v for n, v in part.items() if n != "text"}
            content.append({**shown, "reasoning": word(part.get("text")) or ""})
        elif kind == "attachment":
            content.append(pieces.attachment(obj(part.get("attachment")).get("id")))
        else:
            content.append(part)
    if content or calls:
        yield {"role": role, "content": _simple(content), **known(tool_calls=calls)}


def _result(part: dict[str, Any], pieces: Pieces) -> Body:
    shown: Json = word(part.get("output")) or ""
    files = [pieces.attachment(obj(each).get("id")) for each in listed(part.get("attachments"))]
    if files:
        shown = [{"type": "text", "text": shown}, *files]
    body = {"role": "tool", "tool_call_id": part.get("tool_call_id"), "content": shown}
    failed = {"is_error": True} if part.get("exception") else {}
    return {**body, **known(name=part.get("name")), **failed}


def _simple(content: list[Body]) -> Json:
    """The text alone, where a text is all there is."""
    if not content:
        return None
    alone = len(content) == 1 and content[0].keys() == {"type", "text"}
    return content[0]["text"] if alone and content[0]["type"] == "text" else content


def _joined(messages: list[Message]) -> Message | None:
    """The answer; one that came as several messages is one with all they hold."""
    if len(messages) < 2:
        return messages[0] if messages else None
    content: list[Json] = []
    calls: list[Json] = []
    for message in messages:
        said = message.body.get("content")
        content += said if isinstance(said, list) else [{"type": "text", "text": said}] * bool(said)
        calls += listed(message.body.get("tool_calls"))
    body = {"role": "assistant", "content": content or None, **known(tool_calls=calls)}
    return Message(dialect="openai", body=body)


ResponsesBody = dict[str, Json]


class Responses:
    """The calls of one database, by their conversations.

    Only numbers are held of tables that no index leads into; the rows themselves are read when
    they are told.
    """

    def __init__(self, database: Database, pieces: Pieces) -> None:
        self._database = database
        self._pieces = pieces
        self._calls_of: dict[str, list[str]] = {}
        for row in database.rows("responses", _OF, order=["datetime_utc", "id"]):
            if isinstance(row["id"], str):
                conversation = word(row.get("conversation_id")) or row["id"]
                self._calls_of.setdefault(conversation, []).append(row["id"])
        self._tools_of = self._by_response("tool_responses", "tool_id")
        self._asked_of = self._by_response("tool_calls", "id")
        self._results_of = self._by_response("tool_results", "id")

    def _by_response(self, table: str, column: str) -> dict[str, list[int]]:
        """A column of a table by the response that its rows belong to."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for row in self._database.rows(table, ["response_id", column], order=[column]):
            if type(row[column]) is int and isinstance(row.get("response_id"), str):
                found[row["response_id"]].append(row[column])
        return dict(found)

    def conversations(self) -> Iterator[str]:
        yield from self._calls_of

    def build(self, conversation: str, thread: Thread) -> None:
        """Tell the thread the calls of a conversation, in time order."""
        first: Message | None = None
        latest: str | None = None
        for at, name in enumerate(self._calls_of.get(conversation, ())):
            row = next(self._database.rows("responses", _RESPONSE, id=name), {}) | {"id": name}
            self._pieces.lost = set()
            system = self._text(name, "system_fragments", row.get("system"))
            changed = system if system and system != latest else None
            latest = system or latest
            if changed and at == 0:
                first = Message(dialect="openai", body={"role": "system", "content": changed})
                changed = None
            asked = [*self._inputs(name, row, changed)]
            lost = tuple(sorted(self._pieces.lost))
            turn = self._pieces.turn(row, _responses_fidelity(lost))
            for body in asked:
                message = Message(dialect="openai", body=body)
                thread.add_message(message, place=turn.place, at_ns=turn.start_ns)
            thread.request = Request(
                model=word(row.get("model")),
                system=first,
                tools=self._tools(name),
                params=self._pieces.params(row),
            )
            thread.add_model_call(Message(dialect="openai", body=self._answer(name, row)), turn)

    def _inputs(self, name: str, row: Row, system: str | None) -> Iterator[ResponsesBody]:
        """What a call adds to the conversation: results of the tools, then the prompt."""
        if system:
            yield {"role": "system", "content": system}
        for key in self._results_of.get(name, ()):
            yield self._result(key)
        text = self._text(name, "prompt_fragments", row.get("prompt"))
        rows = self._database.rows(
            "prompt_attachments", ["attachment_id"], order=["order"], response_id=name
        )
        files = [self._pieces.attachment(each.get("attachment_id")) for each in rows]
        if files:
            yield {"role": "user", "content": [{"type": "text", "text": text}, *files]}
        elif text or name not in self._results_of:
            yield {"role": "user", "content": text}

    def _text(self, name: str, table: str, own: Json) -> str:
        """Fragments and the row's own words, as they are joined before they are sent."""
        rows = self._database.rows(table, ["fragment_id"], order=["order"], response_id=name)
        texts = [self._pieces.fragment(row.get("fragment_id")) for row in rows]
        return "\n".join([*texts, *([own] if isinstance(own, str) and own else [])])

    def _result(self, key: int) -> ResponsesBody:
        row = next(self._database.rows("tool_results", _RESULT, id=key), {})
        about = known(name=word(row.get("name")))
        failed = {"is_error": True} if row.get("exception") else {}
        shown: Json = word(row.get("output")) or ""
        rows = self._database.rows(
            "tool_results_attachments",
            ["attachment_id"],
            order=["order"],
            tool_result_id=key,
        )
        files = [self._pieces.attachment(each.get("attachment_id")) for each in rows]
        if files:
            shown = [{"type": "text", "text": shown}, *files]
        call_id = word(row.get("tool_call_id"))
        return {"role": "tool", "tool_call_id": call_id, "content": shown, **about, **failed}

    def _answer(self, name: str, row: Row) -> ResponsesBody:
        calls = []
        for key in self._asked_of.get(name, ()):
            found = next(self._database.rows("tool_calls", _ASKED, id=key), {})
            arguments = word(found.get("arguments")) or ""
            calls.append(call_part(word(found.get("tool_call_id")), found.get("name"), arguments))
        about = known(reasoning_content=word(row.get("reasoning")), tool_calls=calls)
        return {"role": "assistant", "content": word(row.get("response")), **about}

    def _tools(self, name: str) -> tuple[Tool, ...]:
        found = (self._pieces.tool(key) for key in self._tools_of.get(name, ()))
        return tuple(each for each in found if each is not None)


_OF = ("id", "conversation_id")
_RESPONSE = (*CALL, "prompt", "system", "response", "reasoning")
_RESULT = ("name", "output", "tool_call_id", "exception")
_ASKED = ("name", "arguments", "tool_call_id")


def _responses_fidelity(lost: tuple[str, ...]) -> Fidelity:
    return Fidelity(level=Level.PARTIAL, reasons=lost) if lost else REBUILT
