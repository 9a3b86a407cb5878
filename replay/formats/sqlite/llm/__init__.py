"""The `logs.db` of `llm`: conversations on the command line, one trace each.

It has had two ways of keeping them: a row a prompt and its answer (`responses`), and since 0.36 a
store of messages that conversations share, with a row a call (`turns`). A conversation that was
begun in the one way and goes on in the other is one trace. Requests are put together from messages
that are whole, with the system prompt and the tools that were sent.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.formats.chat import cut, user_label
from replay.formats.dialogue import Thread
from replay.formats.fields import known, word
from replay.formats.intake import Tally
from replay.formats.sqlite.database import Database, Row
from replay.formats.sqlite.llm.pieces import REBUILT, Pieces
from replay.formats.sqlite.llm.responses import Responses
from replay.formats.sqlite.llm.turns import Turns
from replay.trace import AgentSpan, AnySpan, Batch, Header, ModelCall, Request

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
        tally.problem(f"table {_OLDEST}", f"{oldest} answers of llm before 0.5 are not read")
    for name in dict.fromkeys((*responses.conversations(), *turns.conversations())):
        thread = Thread(parent=name, request=Request(), fidelity=REBUILT, tally=tally)
        responses.tell(name, thread)
        turns.tell(name, thread)
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
