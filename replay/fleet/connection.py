"""One connection to ClickHouse: bounded, read-only questions, and what goes wrong in sentences.
What is written goes through a connection of another kind, which is opened for that alone.

The client is `clickhouse-connect` (extra `fleet`), imported here and nowhere else, when the first
question is asked. Certificates are always verified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from typing_extensions import override

from replay.errors import ArcError
from replay.fleet.stores import Address, variable

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


class FleetError(ArcError):
    """A store that did not answer: why, and what to do."""


class Bounds(Struct, frozen=True, kw_only=True):
    """What one question may take: seconds, bytes read, and rows returned."""

    seconds: int = 30
    bytes_read: int = 20_000_000_000
    rows: int = 1_000_000

    def settings(self) -> dict[str, int | str]:
        """The same in words of ClickHouse. A question cut short is an error, never half an
        answer. `readonly` 2 lets a question set bounds of its own, and nothing else."""
        return {
            "readonly": 2,
            "max_execution_time": self.seconds,
            "max_bytes_to_read": self.bytes_read,
            "max_result_rows": self.rows,
            "result_overflow_mode": "throw",
            "read_overflow_mode": "throw",
            "timeout_overflow_mode": "throw",
        }


class Read(Struct, kw_only=True):
    """How many queries were answered so far, and what they read as the store counts it."""

    queries: int = 0
    bytes_read: int = 0


Rows = Sequence[Sequence[Any]]

_FORMATS = {"FixedString": "string"}
"""Ids of a fixed length are texts like others."""


class Connection:
    """Questions to one database of one store."""

    def __init__(
        self, name: str, address: Address, password: str, bounds: Bounds, ca: Path | None = None
    ) -> None:
        """Raises FleetError where the store cannot be reached or turns the user away."""
        import clickhouse_connect

        self.name = name
        self.address = address
        self.bounds = bounds
        self.read = Read()
        with self._sentences():
            self._client: Client = clickhouse_connect.get_client(
                host=address.host,
                port=address.port,
                username=address.user,
                password=password,
                database=address.database,
                secure=address.encrypted,
                verify=True,
                ca_cert=None if ca is None else str(ca),
                connect_timeout=10,
                send_receive_timeout=bounds.seconds + 10,
                query_retries=1,
                client_name="arc",
                autogenerate_session_id=False,
                settings=self.settings(),
            )

    def settings(self) -> dict[str, int | str]:
        """What is asked of the store with each question."""
        return self.bounds.settings()

    def rows(self, sql: str, values: Mapping[str, Any] | None = None) -> Rows:
        """All rows that a question is answered with; `values` fill its {name:Type}.

        Raises FleetError.
        """
        with self._sentences():
            found = self._client.query(sql, parameters=dict(values or {}), query_formats=_FORMATS)
        self.read.queries += 1
        self.read.bytes_read += int(found.summary.get("read_bytes", 0))
        return found.result_rows

    def blocks(self, sql: str, values: Mapping[str, Any] | None = None) -> Iterator[Rows]:
        """The same a block at a time, for what does not fit in memory."""
        with self._sentences():
            found = self._client.query_row_block_stream(
                sql, parameters=dict(values or {}), query_formats=_FORMATS
            )
            self.read.queries += 1
            with found as stream:
                yield from stream

    def _reason(self, code: int) -> tuple[str | None, str]:
        """Why something failed and what to do, for a code of ClickHouse's errors."""
        return _KNOWN.get(code, (None, ""))

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """What the client raises as a FleetError."""
        from clickhouse_connect.driver.exceptions import Error

        try:
            yield
        except Error as error:
            raise self._error(str(error)) from error

    def _error(self, said: str) -> FleetError:
        """The sentence for what a server or the client said."""
        where = f"{self.name} ({self.address.host}:{self.address.port})"
        code = _CODE.search(said)
        why, hint = self._reason(int(code[1]) if code else 0)
        if why is None and "CERTIFICATE_VERIFY_FAILED" in said:
            why, hint = (
                "its certificate is not trusted",
                f"Try: arc fleet add {self.name} URL --ca FILE",
            )
        elif why is None and _UNREACHED.search(said):
            why, hint = "cannot be reached", f"Try: arc fleet add {self.name} URL"
        hint = hint.format(
            seconds=self.bounds.seconds,
            bytes=f"{self.bounds.bytes_read / 1e9:g} GB",
            rows=self.bounds.rows,
            variable=variable(self.name),
        )
        return FleetError(f"{where}: {why or _first_line(said)}", hint)


_CODE = re.compile(r"Code: (\d+)")
_UNREACHED = re.compile(
    r"Connection refused|Name or service not known|timed out|Max retries|NewConnectionError"
    r"|Temporary failure|SSL|Errno"
)
_KNOWN: dict[int, tuple[str, str]] = {
    159: (
        "the question took longer than it may",
        "Try: a later --since, or a higher --max-seconds ({seconds} now)",
    ),
    160: (
        "the question would take longer than it may",
        "Try: a later --since, or a higher --max-seconds ({seconds} now)",
    ),
    307: ("the question reads more than it may", "Try: a later --since ({bytes} may be read)"),
    158: ("the question reads more rows than it may", "Try: a later --since"),
    396: ("the answer has more rows than it may", "Try: a smaller --limit ({rows} rows may come)"),
    241: ("the question needs more memory than the store gives", "Try: a later --since"),
    516: ("user or password is wrong", "Try: set {variable}, or arc fleet add NAME URL --password"),
    192: ("there is no such user", "Try: arc fleet add NAME URL, with its user in it"),
    497: ("the user may not read this", "Try: a user with SELECT on its tables"),
    81: ("there is no such database", "Try: arc fleet add NAME URL, with its database in it"),
    164: (
        "the user may not set the bounds of a question",
        "Try: a user whose profile has readonly = 2",
    ),
}
"""By the code of ClickHouse's error."""


class WritingConnection(Connection):
    """A connection that may write too: rows into a table, and the table itself."""

    @override
    def settings(self) -> dict[str, int | str]:
        """Rows are there once they were sent, also where the profile puts them together later."""
        return {"max_execution_time": self.bounds.seconds, "async_insert": 0}

    @override
    def _reason(self, code: int) -> tuple[str | None, str]:
        if code in (164, 497):
            return "the user may not write there", "Try: --into NAME/TABLE, NAME of a user who may"
        return super()._reason(code)

    def create(self, sql: str) -> None:
        """A statement that makes a table. Raises FleetError."""
        with self._sentences():
            self._client.command(sql)

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows, each by the names of columns. Raises FleetError."""
        block = b"\n".join(map(msgspec.json.encode, rows))
        if block:
            with self._sentences():
                self._client.raw_insert(identifier(table), insert_block=block, fmt="JSONEachRow")


def _first_line(said: str) -> str:
    """What a server says, without where in its source it says so."""
    line = next(iter(said.strip().splitlines()), "did not answer")
    return re.sub(r"^.*DB::Exception: |\(version [^)]*\)|\s*\(for url [^)]*\)", "", line)[
        :300
    ].strip()


def identifier(name: str) -> str:
    """A name of a table or a column, as SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
