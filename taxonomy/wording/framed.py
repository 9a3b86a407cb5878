"""Other frames around the same words, by rule: what the demo model has in place of paraphrases.

The words stay, so nothing can be lost; only the formatting and the courtesies change. That is less
than a paraphrase, and where it stands it says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

NAME = "by rule"
NOTICE = "wordings made by rule: the frame and the formatting change, the words do not"

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")


def framed(text: str, count: int) -> tuple[str, ...]:
    """Up to `count` texts; there are as many as there are frames."""
    return tuple(frame(text) for frame in FRAMES[:count])


def _sentences(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in _SENTENCE.split(line) if part]


def _courteous(text: str) -> str:
    return f"Good day, I hope you can help me with this.\n\n{text}\n\nThank you very much!"


def _listed(text: str) -> str:
    return "\n".join(f"- {part}" for part in _sentences(text))


def _as_a_letter(text: str) -> str:
    paragraphs = "\n\n".join(_sentences(text))
    return f"Subject: my request\n\n{paragraphs}\n\nKind regards"


def _forwarded(text: str) -> str:
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    return f"A customer wrote to us, please see to it:\n\n{quoted}"


FRAMES: tuple[Callable[[str], str], ...] = (_courteous, _listed, _as_a_letter, _forwarded)
