"""What the terminal can show, as far as a program can tell without asking it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console

from replay.doctor.checks import Check, Health

LEAST_COLUMNS, LEAST_ROWS = 80, 24
"""What the app is laid out for; it opens in less, and cuts."""

RULER = "✓ ◆ ▁▇ – 日本"
"""Marks the app uses, and two wide letters."""


def terminal_checks(out: Console) -> Iterator[Check]:
    """Size, colour, letters, and what stands between the app and the screen."""
    yield _output(out)
    if out.is_terminal:
        yield _size(out)
    yield _colour(out)
    yield from _letters(out)
    if os.environ.get("TMUX"):
        yield _tmux()


def _check(name: str, status: Health, finding: str, advice: str = "") -> Check:
    return Check(area="terminal", name=name, status=status, finding=finding, advice=advice)


def _output(out: Console) -> Check:
    term = os.environ.get("TERM") or "not set"
    if not out.is_terminal or not sys.stdin.isatty():
        said = f"input or output is no terminal (TERM {term}); commands work, the app needs one"
        return _check("terminal", "unknown", said)
    if term in {"dumb", "not set"} and os.name == "posix":
        return _check("terminal", "fail", f"TERM is {term}", "export TERM=xterm-256color")
    return _check("terminal", "ok", f"TERM {term}")


def _size(out: Console) -> Check:
    columns, rows = out.size
    said = f"{columns} × {rows}"
    if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
        return _check("size", "warn", said, f"the app wants {LEAST_COLUMNS} × {LEAST_ROWS}")
    return _check("size", "ok", said)


def _colour(out: Console) -> Check:
    if "NO_COLOR" in os.environ:
        return _check("colour", "ok", "NO_COLOR is set: none is used, marks tell the same")
    if not out.is_terminal:
        return _check("colour", "unknown", "cannot be told without a terminal")
    if out.color_system is None:
        return _check("colour", "warn", "none; marks tell the same", "set TERM to what it is")
    said = {"standard": "16 colours", "256": "256 colours", "truecolor": "16 million colours"}
    return _check("colour", "ok", said.get(out.color_system, out.color_system))


def _letters(out: Console) -> Iterator[Check]:
    if not out.encoding.lower().startswith("utf"):
        advice = "use a UTF-8 locale, as in LANG=C.UTF-8"
        yield _check("letters", "fail", f"{out.encoding} cannot write the app's marks", advice)
        return
    yield _check("letters", "ok", out.encoding)
    if out.is_terminal:
        dots = "·" * cell_len(RULER)
        said = f"|{RULER}| must be as wide as |{dots}|, else try another font"
        yield _check("widths", "unknown", said)


def _tmux() -> Check:
    if not os.environ.get("TERM", "").startswith(("tmux", "screen")):
        advice = "set -g default-terminal tmux-256color"
        return _check("tmux", "warn", "TERM is not tmux's, which blurs keys and colours", advice)
    return _check("tmux", "ok", "in between")
