"""How the app ends when it does not end by itself: told from outside, or by a bug of its own.

Either way the terminal is as it was. Of a bug the places are told and what it said of itself, cut,
masked, as text that a terminal can only show; never the values it met, among which are words of a
run and keys of a person.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import signal
import threading
import traceback
from collections.abc import Callable
from secrets import token_bytes

from arc_tui.ui.format import cut, plain

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Asked to end, and the terminal is gone."""

GRACE_S = 20.0
"""For what is being written and for the terminal to be restored."""

MOST_LINES, MOST_COLUMNS = 60, 300

REPORT = (
    "This is a bug in arc. Everything stored before it is safe. The lines above show where it is."
)


def on_signal(end: Callable[[int], None]) -> None:
    """Have `end` called with the code of the process when it is told to end: 128 and the signal."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, _end, end, 128 + number)


def _end(end: Callable[[int], None], code: int) -> None:
    """Whoever draws may wait for ever for a terminal that is gone: after a while it ends anyhow."""
    last = threading.Timer(GRACE_S, os._exit, [code])
    last.daemon = True
    last.start()
    end(code)


def keep(error: Exception, doing: str) -> str:
    """Keep the traceback of a bug that ended only what was being done, in `bugs` of the data
    folder; a bug of the same places takes the place of what was kept before. Returns a sentence."""
    from arc_tui import __version__, places

    what = f"{doing}: a bug in arc ({type(error).__name__})"
    at = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    name = hashlib.sha256("\n".join([type(error).__name__, *at]).encode()).hexdigest()[:12]
    path = places.data_folder() / "bugs" / f"{name}.txt"
    about = f"arc {__version__}, Python {platform.python_version()}, {platform.system()}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(f"{about}\n{bug_report(error)}\n".encode())
    except OSError as refused:
        why = refused.strerror or type(refused).__name__
        return f"{what}; its traceback cannot be saved in {path.parent}: {why.lower()}"
    return f"{what}; please report it with the traceback in {path}"


def bug_report(error: BaseException) -> str:
    """What is printed of a bug after the app has left the screen."""
    from replay.redact.redactor import (
        Redactor,  # compiles its rules: only where there is something to mask
    )

    masked = Redactor(token_bytes(32)).text("".join(traceback.format_exception(error)))
    lines = masked.splitlines()
    left_out = len(lines) - MOST_LINES
    if left_out > 0:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"  … {left_out} lines", *lines[-half:]]
    return "\n".join([*(cut(plain(line), MOST_COLUMNS) for line in lines), "", REPORT])
