"""Where do two results differ? Said in phrases, the terms first, then place after place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from replay.bundle.results import Result
from replay.free.result import FreeCore

_PARTS = {"control": "the answers of control", "edited": "the answers of the edited arm"}


def differences(kept: Result, made: Result) -> Iterator[str]:
    """A phrase for every place where a result differs from the one that was kept."""
    if type(kept) is not type(made):
        yield "what was replayed"
        return
    held_in = "steps" if isinstance(kept, FreeCore) else "rows"
    yield from (f"its {part}" for part in _parts(kept, made) if part != held_in)
    before, after = _places(kept), _places(made)
    for place in dict.fromkeys((*before, *after)):
        if place not in before or place not in after:
            yield f"{place}, which only one of them has"
        else:
            yield from (f"{place}: {part}" for part in _parts(before[place], after[place]))


def _places(found: Result) -> Mapping[str, Struct]:
    if isinstance(found, FreeCore):
        return {f"answer {index}": step for index, step in enumerate(found.steps)}
    return {f"step {row.step}": row for row in found.rows}


def _parts(kept: Struct, made: Struct) -> Iterator[str]:
    for each in structs.fields(kept):
        if getattr(kept, each.name) != getattr(made, each.name):
            yield _PARTS.get(each.name, each.name)
