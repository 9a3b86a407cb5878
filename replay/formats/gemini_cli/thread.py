"""The records of a Gemini CLI session told as spans.

An answer and the calls that it asked for are one record, what came back with them. A record is
taken to be one call of the model; early releases added the calls of an answer without words to the
record before it, which cannot be told apart.
"""

from __future__ import annotations

from msgspec import structs

from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import listed, obj, word
from replay.formats.gemini_cli import messages
from replay.formats.gemini_cli.records import HISTORY, Record
from replay.formats.intake import Tally
from replay.formats.normal import count, derived_id, ns, total_usage
from replay.messages import results as found_results
from replay.messages import text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AnySpan,
    Context,
    Fidelity,
    Json,
    Level,
    Message,
    Place,
    Request,
    Response,
    Usage,
)

_KNOWN = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))
_HARNESS = ("This is the Gemini CLI.", "<session_context>", "<state_snapshot>")
"""How contents begin that the harness writes in the user's name."""


class Teller:
    """Tells a strand record by record, from what was seen before its first.

    `after` is what had been seen behind each record, by its object.
    """

    def __init__(
        self, parent: str, seen: Context | None, after: dict[int, Context | None], tally: Tally
    ) -> None:
        self.signals: list[dict[str, Json]] = []
        self.unanswered: list[Message] = []
        self.asked: str | None = None
        self._parent, self._after, self._tally = parent, after, tally
        self._thread = Thread(
            parent=parent, request=Request(context=seen), fidelity=_KNOWN, tally=tally
        )
        self._heard_ns: int | None = None

    def tell(self, record: Record, name: str) -> None:
        """The next record; `name` is what its span is called."""
        if record.kind == "gemini":
            self._said(record, name)
        elif record.kind == "user":
            self._heard(record)
        elif record.kind == HISTORY:
            self._replaced(record)
        elif record.kind == "error":
            self.signals.append(signal("failed_call", record.place))
        self._after[id(record)] = self._thread.context

    def spans(self) -> tuple[AnySpan, ...]:
        for call in self._thread.open_calls():
            where = f"message {call.place.message}"
            self._tally.problem(where, f"{call.call_id or call.name!r} has no result")
        return self._thread.spans()

    def _heard(self, record: Record) -> None:
        content = record.value.get("content")
        for result in messages.responses(content):
            self._returned(result, record.place, record.at_ns)
        message = messages.user(content)
        self._heard_ns = record.at_ns or self._heard_ns
        if message.body["content"] == "":
            return
        self._thread.heard(message, place=record.place)
        shown = text(message)
        if not shown.startswith(_HARNESS):
            self.unanswered.append(message)
            self.asked = self.asked or shown

    def _returned(self, result: Message, place: Place, at_ns: int | None) -> None:
        """A result of the history, unless it was told with its call."""
        open_ids = {call.call_id for call in self._thread.open_calls()}
        named = found_results(result)[0].call_id
        if named is None or named in open_ids:
            self._thread.heard(result, place=place, at_ns=at_ns)

    def _said(self, record: Record, name: str) -> None:
        value = record.value
        model = word(value.get("model"))
        self._thread.request = structs.replace(self._thread.request, model=model)
        end_ns = record.at_ns
        turn = Turn(
            id=name,
            response=Response(model=model),
            usage=usage(value.get("tokens")),
            start_ns=self._heard_ns,
            end_ns=end_ns,
            time_quality="none" if end_ns is None else "derived",
            place=record.place,
        )
        self._thread.said(messages.gemini(value), turn)
        self.unanswered.clear()
        self._heard_ns = end_ns or self._heard_ns
        for call, result in messages.results(value):
            call_id, why, at_ns = (
                word(call.get("id")),
                messages.failure(call),
                ns(call.get("timestamp")),
            )
            errors = {call_id: why} if call_id is not None and why is not None else None
            self._thread.heard(result, place=record.place, at_ns=at_ns, errors=errors)
            self._heard_ns = max(at_ns or 0, self._heard_ns or 0) or None

    def _replaced(self, record: Record) -> None:
        """The history was compressed: what follows was asked with the new one."""
        told: list[Message] = []
        for each in map(obj, listed(record.value.get("messages"))):
            if each.get("type") == "gemini":
                message = messages.gemini(each)
                told += [message] if message is not None else []
                told += [result for _, result in messages.results(each)]
            elif each.get("type") == "user":
                told += messages.responses(each.get("content"))
                said = messages.user(each.get("content"))
                told += [said] if said.body["content"] != "" else []
        self._thread.reset(*told)
        self.signals.append(signal("compaction", record.place))


def usage(raw: Json) -> Usage | None:
    """The figures of an answer. `input` holds the cache; thoughts stand beside the output."""
    figures = {name: count(value) for name, value in obj(raw).items()}
    given, tools = figures.get("input"), figures.get("tool")
    out, thoughts = figures.get("output"), figures.get("thoughts")
    return total_usage(
        None if given is None else given + (tools or 0),
        None if out is None else out + (thoughts or 0),
        reasoning=thoughts,
        read=figures.get("cached"),
    )


def signal(kind: str, place: Place) -> dict[str, Json]:
    known = {"message": place.message, "line": place.line}
    return {"kind": kind, **{name: value for name, value in known.items() if value is not None}}


def span_name(root: str, record: Record) -> str:
    """The same for the same message, however often the file is read."""
    return derived_id(root, record.place.span, record.place.message)
