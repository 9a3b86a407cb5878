"""What a trace says, masked and digested, as rows that refer to each other by number.

Every text is redacted here, before it is hashed and before it reaches a row; each distinct message
once. Memos are kept per trace, so that a step costs only what is new in it. Nothing here knows a
database: the numbers of rows count within their trace and table from 0, and whoever writes them
gives them the ids of the database.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct, structs

from replay import digests
from replay.redact.placeholders import masked_count
from replay.redact.redactor import Redactor
from replay.store import text_index
from replay.store.connection import Row
from replay.trace import Context, Json, Message, Tool

SHORT = 200
"""Texts up to so many characters (names, settings) come again and again: their masks are kept."""

_KEPT_BYTES = 8 * 1024 * 1024
"""So much of what messages say is remembered from trace to trace: prompts come again in each."""


_QUOTES = ('"', "'", "`", "\\")


class Stored(Struct, frozen=True, gc=False):
    """A row of content: its number in the trace, its digest, and how many values in it are
    masked. Two for each message of a long trace are kept up to its end."""

    id: int
    digest: str
    masked: int = 0


class MaskedMessage(NamedTuple):
    """A message as it is stored: the digest and text of its body, and the words it is found by."""

    digest: str
    dialect: str
    role: str
    body: str
    masked: int
    words: str


class Masks:
    """Masks texts and values under one redactor, and remembers what comes again."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._short = lru_cache(4096)(redactor.text)
        self._short_clear = lru_cache(4096)(redactor.clear)
        self._messages: dict[tuple[str, bytes], MaskedMessage] = {}
        self._kept_bytes = 0

    def text(self, value: str | None) -> str | None:
        """A redacted text."""
        if value is None:
            return None
        return self._short(value) if len(value) <= SHORT else self._redactor.text(value)

    def harmless(self, names: Iterable[str | None]) -> bool:
        """Is there surely no secret in any of them? One look at all, each in a line of its own that
        no key goes on after. What is quoted may be cut off at the end of a name, which is no end
        here: that is looked at alone."""
        joined = " \n".join(filter(None, names))
        if any(quote in joined for quote in _QUOTES):
            return False
        return self._clear(joined.encode("utf-8", "replace"))

    def json(self, value: Json) -> str | None:
        """A redacted value as JSON text, None for nothing (None, {} and [])."""
        if value is None or value == {} or value == []:
            return None
        encoded = digests.encode(value)
        if self._clear(encoded):
            return encoded.decode()
        return digests.encode(self._redactor.value(value)).decode()

    def value(self, value: Json) -> Json:
        """A value with every secret in it masked."""
        return self._redactor.value(value)

    def message(self, message: Message) -> MaskedMessage:
        """A message masked, as it is stored."""
        body = digests.encode(message.body)
        known = self._messages.get((message.dialect, body))
        if known is None:
            known = self._new_message(message, body)
            self._kept_bytes += 2 * len(body)
            if self._kept_bytes > _KEPT_BYTES:
                self._messages.clear()
                self._kept_bytes = 2 * len(body)
            self._messages[message.dialect, body] = known
        return known

    def _new_message(self, message: Message, body: bytes) -> MaskedMessage:
        if not self._redactor.clear(body):
            message = structs.replace(message, body=self._redactor.value(message.body))
            body = digests.encode(message.body)
        digest = digests.message_digest(message, body)
        text = body.decode()
        words = text_index.of_message(message)
        count = masked_count(text)
        return MaskedMessage(digest, message.dialect, message.role, text, count, words)

    def _clear(self, encoded: bytes) -> bool:
        if len(encoded) <= SHORT:
            return self._short_clear(encoded)
        return self._redactor.clear(encoded)


class Table(NamedTuple):
    """Rows of one table, without its key, in the order in which they were added."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Rows:
    """Rows of one trace, by table, that are yet to be written. All of a table have the same
    columns. `take` gives those that were added since it was last called."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._known: dict[str, dict[Hashable, int]] = {}
        self._count: dict[str, int] = {}

    def add(self, table: str, row: Row) -> int:
        """Add a row; its number in the trace."""
        number = self._count.get(table, 0)
        self._count[table] = number + 1
        if table not in self._tables:
            self._tables[table] = Table(tuple(row), [])
        self._tables[table].rows.append(tuple(row.values()))
        return number

    def once(self, table: str, row: Row, same: Hashable) -> int:
        """The number of the row that is the same in this, which is added where there is none."""
        rows = self._known.setdefault(table, {})
        known = rows.get(same)
        if known is None:
            known = rows[same] = self.add(table, row)
        return known

    def take(self) -> dict[str, Table]:
        taken, self._tables = self._tables, {}
        return taken


class Content:
    """What one trace says, each thing once, into its rows."""

    def __init__(self, masks: Masks) -> None:
        self.masks = masks
        self.rows = Rows()
        self._stored: dict[int, Stored] = {}
        """Messages, contexts and sets of tools by the ids of the objects."""
        self._held: list[Message | Context | tuple[Tool, ...]] = []
        """These objects: while they are held, no other has their id."""

    def message(self, message: Message | None) -> Stored | None:
        """The row of a message, None for none."""
        if message is None:
            return None
        return self._stored.get(id(message)) or self._keep(message, self._any_message(message))

    def _keep(self, said: Message | Context | tuple[Tool, ...], stored: Stored) -> Stored:
        self._stored[id(said)] = stored
        self._held.append(said)
        return stored

    def _any_message(self, message: Message) -> Stored:
        """The row of a message that may have been said before, as a value of its own."""
        made = self.masks.message(message)
        number = self.rows.once("message", made._asdict(), made.digest)
        return Stored(number, made.digest, made.masked)

    def context(self, context: Context | None) -> Stored | None:
        """The row of a context node, its ancestors with it, None for an empty context."""
        fresh: list[Context] = []
        node = context
        while node is not None and id(node) not in self._stored:
            fresh.append(node)
            node = node.parent
        stored = self._stored[id(node)] if node is not None else None
        for each in reversed(fresh):
            stored = self._keep(each, self._new_node(each, stored))
        return stored

    def _new_node(self, node: Context, parent: Stored | None) -> Stored:
        said = self.message(node.message)
        assert said is not None
        masked = said.masked + (parent.masked if parent else 0)
        digest = digests.node_digest(parent.digest if parent else None, said.digest)
        above = parent.id if parent else None
        row = {
            "digest": digest,
            "parent": above,
            "message": said.id,
            "depth": node.depth,
            "masked": masked,
        }
        return Stored(self.rows.once("context", row, (said.id, above)), digest, masked)

    def toolset(self, tools: tuple[Tool, ...] | None) -> Stored | None:
        """The row of the tools offered together, None where they are unknown."""
        if tools is None:
            return None
        return self._stored.get(id(tools)) or self._keep(tools, self._new_toolset(tools))

    def _new_toolset(self, tools: tuple[Tool, ...]) -> Stored:
        value = self.masks.value([digests.tool_value(tool) for tool in tools])
        digest = digests.digest("toolset", digests.encode_seen(value))
        body = digests.encode(value).decode()
        return Stored(self.rows.once("toolset", {"digest": digest, "body": body}, digest), digest)
