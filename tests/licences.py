"""The licence of everything that an installation of `arc` brings along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution

from packaging.requirements import Requirement

EXTRAS = ("crypt", "parquet", "serve", "suggest", "mcp")
"""The extras that users install."""

UNSTATED = {"python-dateutil": "BSD-3-Clause", "sqlcipher3": "zlib"}
"""Of packages whose metadata names none: what their licence file says."""

_PREFIX = re.compile(r"^License :: (OSI Approved :: )?")


def licences() -> dict[str, tuple[str, str]]:
    """By name of a package: its licence as its metadata says it, and the extra that brings it
    first, "" for what every installation has."""
    found: dict[str, tuple[str, str]] = {}
    for extra in ("", *EXTRAS):
        for name in _needed("arc-tui", frozenset(filter(None, [extra])), set()):
            found.setdefault(name, (_licence(name), extra))
    del found["arc-tui"]
    return dict(sorted(found.items()))


def _needed(
    name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]
) -> Iterator[str]:
    """The package, and what it needs on this machine with these extras. Raises
    PackageNotFoundError for one that is not installed."""
    name = re.sub("[-_.]+", "-", name).lower()
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    yield name
    for text in distribution(name).requires or ():
        need = Requirement(text)
        marker = need.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in ("", *extras)):
            yield from _needed(need.name, frozenset(need.extras), seen)


def _licence(name: str) -> str:
    about = distribution(name).metadata
    stated = [about[key] for key in ("License-Expression", "License") if key in about]
    classified = [each for each in about.get_all("Classifier", []) if _PREFIX.match(each)]
    text = next(iter([*stated, *classified]), "").strip().partition("\n")[0]
    return UNSTATED.get(name) or _PREFIX.sub("", text)
