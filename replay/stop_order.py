"""The kill file of a database: while it is there, its recorders refuse calls of models.

It stands beside the database, as `arc.db.stop`, and is looked at before every call: a recorder in
any process sees it with its next one. A file that cannot be read stops as well, and at once. The
file that `ARC_KILL` names, which stops what arc itself asks, stops recorders too.
"""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from replay import files
from replay.errors import ArcError
from replay.models import protocol
from replay.store.handle import now_ns
from replay.written import refuse_halves

SUFFIX = ".stop"

MOST_BYTES = 64 * 1024
"""A longer file was not written by `arc stop`."""


class StopOrder(Struct, frozen=True, kw_only=True):
    """An order to stop: who gave it, when and why, as far as it says so.

    `at_once`: also runs under way get no further call; without it they go on to their end. Calls in
    flight always do. `broken` is what is wrong with its file, which then stops at once.
    """

    by: str | None = None
    at_ns: int | None = None
    because: str | None = None
    at_once: bool = True
    broken: str | None = None

    @property
    def text(self) -> str:
        """`stopped by ann at 2026-11-28 12:00:00 UTC: refunds went out twice`."""
        if self.broken is not None:
            return f"stopped, at once: {self.broken}"
        by = f" by {self.by}" if self.by else ""
        at = f" at {time_text(self.at_ns)}" if self.at_ns is not None else ""
        because = f": {self.because}" if self.because else ""
        return f"stopped{by}{at}{because}"

    @property
    def scope(self) -> str:
        """What it refuses, as a sentence."""
        if self.at_once:
            return "Every new call is refused; calls in flight finish."
        return "New runs are refused; runs under way finish."


class _Written(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in the file."""

    by: str
    at: datetime
    because: str | None = None
    stops: Literal["new runs", "every call"]


def stop_file(database: Path) -> Path:
    """Where the kill file of a database is, or would be; one by whatever link it is called."""
    found = database.resolve()
    return found.with_name(found.name + SUFFIX)


def time_text(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def stop_order(database: Path) -> StopOrder | None:
    """The order that holds for recorders of a database, None where they may go on."""
    killed = protocol.killed()
    if killed is not None:
        return StopOrder(because=killed.removeprefix("stopped "))
    return _own_order(database)


def _own_order(database: Path) -> StopOrder | None:
    """What the file beside a database says, whatever `ARC_KILL` names."""
    file = stop_file(database)
    try:
        with files.opened(file) as opened:
            data = opened.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return StopOrder(broken=f"{file} cannot be read: {error.strerror or error}")
    if not data.strip():  # made by hand: touch arc.db.stop
        return StopOrder(because=f"{file} is there")
    try:
        found = msgspec.json.decode(data, type=_Written)
        at_ns = round(found.at.timestamp() * 1e9)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError) as error:
        return StopOrder(broken=f"{file} is not an order of arc stop ({error})")
    return StopOrder(
        by=found.by,
        at_ns=at_ns,
        because=found.because,
        at_once=found.stops == "every call",
    )


def stop(database: Path, *, by: str, because: str | None, at_once: bool) -> StopOrder:
    """Stop the recorders of a database; the order as it is then there.

    Who stopped first stays in the file, unless the new order stops more. Raises ArcError where it
    cannot be written.
    """
    refuse_halves(by, *filter(None, [because]))
    file = stop_file(database)
    found = _own_order(database)
    if found is not None and (found.at_once or not at_once):
        return found
    order = StopOrder(by=by, at_ns=now_ns(), because=because, at_once=at_once)
    written = _Written(
        by=by,
        at=datetime.fromtimestamp((order.at_ns or 0) / 1e9, UTC),
        because=because,
        stops="every call" if at_once else "new runs",
    )
    try:
        data = msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n"
        files.put(io.BytesIO(data), file)
    except OSError as error:
        raise ArcError(
            f"{file}: cannot be written: {error.strerror or error}",
            f"Try: set {protocol.VARIABLE} to a file, which stops what is recorded from then on",
        ) from error
    return order


def resume(database: Path) -> StopOrder | None:
    """Let recorders of a database go on; the order that ends, None where there was none.

    Raises ArcError where the file cannot be removed, and where another one stops them still.
    """
    found = _own_order(database)
    file = stop_file(database)
    try:
        file.unlink(missing_ok=True)
    except NotADirectoryError:
        pass
    except OSError as error:
        raise ArcError(
            f"{file}: cannot be removed: {error.strerror or error}", "Recorders stay stopped"
        ) from error
    still = protocol.killed()
    if still is not None:
        named = os.environ.get(protocol.VARIABLE)
        raise ArcError(f"recorders are still {still}", f"Try: rm {named}")
    return found
