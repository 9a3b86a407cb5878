"""What can be opened here, in words: `arc last --list` and the choices of the runs screen."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from arc_tui import format
from arc_tui.jobs.finding import Offer

TITLE = 60


class OfferWords(Struct, frozen=True, kw_only=True):
    """An offer as text: what it is about, how long ago it was written, how large it is, and its
    file, by its way from the folder where it lies in it."""

    title: str
    age: str
    size: str
    file: str


def offer_words(offer: Offer, folder: Path, now_ns: int) -> OfferWords:
    """The words for an offer of `folder`."""
    path = Path(offer.path)
    file = str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
    return OfferWords(
        title=format.cut(format.one_line(offer.title or path.name), TITLE),
        age=_ago(max(now_ns - offer.changed_ns, 0) // 10**9),
        size=_size(offer.bytes),
        file=format.one_line(file),
    )


def _ago(seconds: int) -> str:
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit:
            return f"{format.count(seconds // unit, name)} ago"
    return "just now"


def _size(bytes_: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if bytes_ >= unit:
            return f"{bytes_ / unit:.1f} {name}"
    return f"{bytes_} B"
