"""Which rules wrote a diagnosis? Those whose sources have this digest.

A diagnosis is made anew once anything has changed that it follows from, be it only a comment: to
look again is cheap, and a version that somebody must think of is forgotten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from hashlib import sha256

SOURCES = {
    "taxonomy": (
        "classes.py",
        "diagnosis.py",
        "evidence",
        "findings.py",
        "localiser",
        "rules",
        "shapes.py",
        "step_scores.py",
    ),
    "replay": (
        "depth.py",
        "digests.py",
        "effects.py",
        "messages.py",
        "programs.py",
        "tool_errors.py",
        "trace.py",
    ),
}
"""All that `taxonomy.diagnosis` imports: files, and folders with every file in them."""


@cache
def version() -> str:
    """The version of what writes diagnoses: the same however `arc` was installed."""
    found = sha256()
    for name, file in _sources():
        with open(file, "rb") as source:
            lines = source.read().replace(b"\r\n", b"\n")
        found.update(f"{name} {len(lines)}\n".encode() + lines)
    return f"arc rules {found.hexdigest()[:16]}"


def _sources() -> Iterator[tuple[str, str]]:
    """Every source by its name, in the order of these; by plain paths, as every start does it."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for package, names in SOURCES.items():
        for name in names:
            place = os.path.join(root, package, name)
            if name.endswith(".py"):
                yield f"{package}/{name}", place
                continue
            for own in sorted(each for each in os.listdir(place) if each.endswith(".py")):
                yield f"{package}/{name}/{own}", os.path.join(place, own)
