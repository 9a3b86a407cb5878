"""A page as one HTML file: no request, no script but the one whose hash it names, no text but as
text, and every text masked once more.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from collections.abc import Container, Iterator
from importlib.resources import files
from typing import Any

import msgspec

from arc_tui.features.report.view import STEPS_TOGETHER, Page
from arc_tui.ui import format
from replay.formats.report import GENERATOR, embed
from replay.redact.redactor import Redactor
from replay.redact.text import restored

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{generator}
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>
<main><p>This page shows more with JavaScript on. It loads nothing from anywhere.</p>
<pre>{brief}</pre></main>
</noscript>
<header id="head"></header>
<main id="main"></main>
"""


def render(page: Page, redactor: Redactor) -> bytes:
    """The file. The same page gives the same bytes."""
    ids = frozenset(run.held.trace for run in page.runs)
    recorded = _recorded_texts(b"".join(run.lines for run in page.runs))
    mask = _Mask(redactor, ids, recorded)
    style, script = _asset("report.css"), _asset("report.js")
    head = _HEAD.format(
        generator=GENERATOR,
        policy=_policy(style, script),
        title=html.escape(format.one_line(mask.text(f"{page.title} · arc report"))),
        style=style,
        brief=html.escape(format.plain(mask.text(page.brief))),
    )
    parts = [head.encode(), _data("arc-page", mask.value(_index(page)))]
    for place, run in enumerate(page.runs):
        for at in range(0, len(run.pages), STEPS_TOGETHER):
            some = mask.value(msgspec.to_builtins(run.pages[at : at + STEPS_TOGETHER]))
            shared = msgspec.json.encode(_share_texts(some, recorded))
            packed = base64.b64encode(gzip.compress(shared, mtime=0))
            name = f"arc-steps-{place}-{at // STEPS_TOGETHER}"
            tag = f'<script type="application/gzip" id="{name}">'
            parts.append(tag.encode() + packed + b"</script>\n")
    if page.runs:
        held = [run.held for run in page.runs]
        parts += [embed(held, b"".join(run.lines for run in page.runs)), b"\n"]
    parts.append(f"<script>{script}</script>\n</body>\n</html>\n".encode())
    return b"".join(parts)


def _index(page: Page) -> Any:
    """Everything but the documents of steps and the recordings."""
    made = msgspec.to_builtins(page)
    del made["brief"]
    for run, packed in zip(page.runs, made["runs"], strict=True):
        del packed["lines"], packed["pages"]
        packed["steps"] = len(run.pages)
    return {**made, "together": STEPS_TOGETHER}


LEAST_SHARED = 80
"""Characters of a text that stands once in the file, however often it is shown."""

MOST_RECORDED_BYTES = 16 << 20
"""Of a larger recording no text is taken for the documents: to show one step all of it would have
to be unpacked."""


def _recorded_texts(lines: bytes) -> dict[str, int]:
    """The texts of the recordings as they are shown, by their place among all texts there: line by
    line, members in the order of their names."""
    found: dict[str, int] = {}
    if len(lines) > MOST_RECORDED_BYTES:
        return found
    place = 0
    for line in lines.splitlines():
        stack = [msgspec.json.decode(line)]
        while stack:
            value = stack.pop()
            if isinstance(value, str):
                if len(value) >= LEAST_SHARED:
                    found.setdefault(value.replace("\r\n", "\n").replace("\t", "    "), place)
                place += 1
            elif isinstance(value, dict):
                stack += [value[name] for name in sorted(value, key=_utf16, reverse=True)]
            elif isinstance(value, list):
                stack += reversed(value)
    return found


def _utf16(name: str) -> bytes:
    """What JavaScript sorts by."""
    return name.encode("utf-16-be", "surrogatepass")


def _share_texts(pages: Any, recorded: dict[str, int]) -> Any:
    """Documents with a number in place of each long text: its place among the `texts` that stand
    beside them, or, below zero, among those of the recordings."""
    places: dict[str, int] = {}
    stack = [pages]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            text = value.get("text")
            if isinstance(text, str) and len(text) >= LEAST_SHARED:
                at = recorded.get(text)
                value["text"] = places.setdefault(text, len(places)) if at is None else -1 - at
            stack += value.values()
        elif isinstance(value, (list, tuple)):
            stack += value
    return {"texts": list(places), "pages": pages}


def _data(name: str, value: Any) -> bytes:
    """JSON in an element that nothing runs, without a character that could end it."""
    encoded = msgspec.json.encode(value).decode()
    for sign in "<>&\u2028\u2029":
        encoded = encoded.replace(sign, f"\\u{ord(sign):04x}")
    tag = f'<script type="application/json" id="{name}">'
    return f"{tag}{encoded}</script>\n".encode()


def _policy(style: str, script: str) -> str:
    """What the page may do: its own style and script, and nothing else."""
    allowed = [
        f"{what}-src '{_hash(text)}'" for what, text in (("script", script), ("style", style))
    ]
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return files("arc_tui.features.report").joinpath(name).read_text("utf-8")


class _Mask:
    """The rules for secrets as they are now; `ids` of runs are none. Each distinct text is looked
    at once, and not again what was masked in the recordings, as `recorded` texts were."""

    def __init__(self, redactor: Redactor, ids: frozenset[str], recorded: Container[str]) -> None:
        self._redactor, self._ids, self._recorded = redactor, ids, recorded
        self._clear: set[str] = set()

    def value(self, value: Any) -> Any:
        """The value masked. The names in it are ours: only its texts are looked at."""
        texts = {text for text in _texts(value) if text not in self._recorded} - self._clear
        if not texts or self._redactor.clear(msgspec.json.encode(sorted(texts))):
            self._clear |= texts
            return value
        return restored(value, self._redactor.value(value), self._ids.__contains__)

    def text(self, text: str) -> str:
        return str(self.value([text])[0])


def _texts(value: Any) -> Iterator[str]:
    """The texts in lists and objects."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, (list, tuple)):
            stack += value
