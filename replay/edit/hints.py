"""What to say to someone whose edit names something that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

RECORD = (
    "Try: `arc attach` adds what the source did not record to this run;"
    " `arc record` records it with the next one"
)
ATTACH = "add what the source did not record with `arc attach`, then edit that"


def meant(word: str, known: Iterable[str]) -> str:
    """The hint for a word that is none of the known ones."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
