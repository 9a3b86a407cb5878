"""Calls of `llm` before 0.36: a row a prompt and its answer, with its tools, calls, results,
fragments and attachments in tables beside it.

A call was shown the whole conversation before it. The system prompt of its first call stood before
all of them; one that changed on the way stands where it changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from replay.formats.dialogue import Thread
from replay.formats.fields import known, word
from replay.formats.otlp.messages import call
from replay.formats.sqlite.database import Database, Row
from replay.formats.sqlite.llm.pieces import CALL, REBUILT, Pieces
from replay.trace import Fidelity, Json, Level, Message, Request, Tool

Body = dict[str, Json]


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
        self._tools_of = self._beside("tool_responses", "tool_id")
        self._asked_of = self._beside("tool_calls", "id")
        self._results_of = self._beside("tool_results", "id")

    def _beside(self, table: str, column: str) -> dict[str, list[int]]:
        """A column of a table by the response that its rows belong to."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for row in self._database.rows(table, ["response_id", column], order=[column]):
            if type(row[column]) is int and isinstance(row.get("response_id"), str):
                found[row["response_id"]].append(row[column])
        return dict(found)

    def conversations(self) -> Iterator[str]:
        yield from self._calls_of

    def tell(self, conversation: str, thread: Thread) -> None:
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
            asked = [*self._asked(name, row, changed)]
            lost = tuple(sorted(self._pieces.lost))
            turn = self._pieces.turn(row, _fidelity(lost))
            for body in asked:
                message = Message(dialect="openai", body=body)
                thread.heard(message, place=turn.place, at_ns=turn.start_ns)
            thread.request = Request(
                model=word(row.get("model")),
                system=first,
                tools=self._tools(name),
                params=self._pieces.params(row),
            )
            thread.said(Message(dialect="openai", body=self._answer(name, row)), turn)

    def _asked(self, name: str, row: Row, system: str | None) -> Iterator[Body]:
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

    def _result(self, key: int) -> Body:
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

    def _answer(self, name: str, row: Row) -> Body:
        calls = []
        for key in self._asked_of.get(name, ()):
            found = next(self._database.rows("tool_calls", _ASKED, id=key), {})
            arguments = word(found.get("arguments")) or ""
            calls.append(call(word(found.get("tool_call_id")), found.get("name"), arguments))
        about = known(reasoning_content=word(row.get("reasoning")), tool_calls=calls)
        return {"role": "assistant", "content": word(row.get("response")), **about}

    def _tools(self, name: str) -> tuple[Tool, ...]:
        found = (self._pieces.tool(key) for key in self._tools_of.get(name, ()))
        return tuple(each for each in found if each is not None)


_OF = ("id", "conversation_id")
_RESPONSE = (*CALL, "prompt", "system", "response", "reasoning")
_RESULT = ("name", "output", "tool_call_id", "exception")
_ASKED = ("name", "arguments", "tool_call_id")


def _fidelity(lost: tuple[str, ...]) -> Fidelity:
    return Fidelity(level=Level.PARTIAL, reasons=lost) if lost else REBUILT
