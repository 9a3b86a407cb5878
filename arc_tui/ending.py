"""How the app ends when it does not end by itself: told from outside, or by a bug of its own.

Either way the terminal is as it was. Of a bug the places are told and what it said of itself, cut,
masked, as text that a terminal can only show; never the values it met, among which are words of a
run and keys of a person.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import traceback
from collections.abc import Callable
from secrets import token_bytes

from arc_tui.format import cut, plain

TOLD = (signal.SIGTERM, signal.SIGHUP)
"""Asked to end, and the terminal is gone."""

GRACE_S = 20.0
"""For what is being written and for the terminal to be restored."""

MOST_LINES, MOST_COLUMNS = 60, 300

REPORT = "This is a bug in arc. What was stored before it is kept; the lines above say where it is."


def when_told(end: Callable[[int], None]) -> None:
    """Have `end` called with the code of the process when it is told to end: 128 and the signal."""
    loop = asyncio.get_running_loop()
    for number in TOLD:
        loop.add_signal_handler(number, _end, end, 128 + number)


def _end(end: Callable[[int], None], code: int) -> None:
    """Whoever draws may wait for ever for a terminal that is gone: after a while it ends anyhow."""
    last = threading.Timer(GRACE_S, os._exit, [code])
    last.daemon = True
    last.start()
    end(code)


def told(error: BaseException) -> str:
    """What is printed of a bug after the app has left the screen."""
    from replay.redact import Redactor  # compiles its rules: only where there is something to mask

    masked = Redactor(token_bytes(32)).text("".join(traceback.format_exception(error)))
    lines = masked.splitlines()
    left_out = len(lines) - MOST_LINES
    if left_out > 0:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"  … {left_out} lines", *lines[-half:]]
    return "\n".join([*(cut(plain(line), MOST_COLUMNS) for line in lines), "", REPORT])
