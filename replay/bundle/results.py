"""What a bundle may hold the result of: a locked replay, or a free one.

Both name their trace, edit, model and server, and the keys of the answers they used; each says by
its `format` what it is, and depends on the versions of other rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from replay import canon, compare, convert, effects
from replay.convert import API
from replay.free import result as free_run
from replay.free import tape
from replay.free.result import FreeCore
from replay.locked import result
from replay.locked.result import Core
from replay.locked.sampling import RANGE

Result: TypeAlias = Core | FreeCore

TYPES: dict[str, type[Core] | type[FreeCore]] = {
    result.FORMAT: Core,
    free_run.FORMAT: FreeCore,
}
"""The type of a result by its format."""

_BOTH = {
    "canon": canon.SCHEMA,
    "api": API,
    "convert": convert.VERSION,
    "rules": compare.VERSION,
}
ENGINES: dict[str, dict[str, Any]] = {
    result.FORMAT: {"result": result.FORMAT, **_BOTH},
    free_run.FORMAT: {
        "result": free_run.FORMAT,
        **_BOTH,
        "tape": tape.VERSION,
        "effects": effects.VERSION,
    },
}
"""By format: the versions of all that its digest depends on."""

_MAX_RANGES = 10**9


def servers(found: Result) -> set[str]:
    """Whose answers a result rests on."""
    return {found.server, found.edited_server} if isinstance(found, Core) else {found.server}


def engine_of(found: Result) -> dict[str, Any]:
    """The versions a result says it was made by."""
    said = {"result": found.format, **_BOTH, "api": found.api, "rules": found.rules}
    if isinstance(found, FreeCore):
        return {**said, "tape": found.tape, "effects": found.effects}
    return said


def keys(found: Result) -> dict[str, str]:
    """The key of every answer that was used, each with the place it was first used at."""
    named: dict[str, str] = {}
    for key, place in _uses(found):
        named.setdefault(key, place)
    return named


def _uses(found: Result) -> Iterator[tuple[str, str]]:
    if isinstance(found, FreeCore):
        for index, step in enumerate(found.steps):
            if step.key is not None:
                yield step.key, f"answer {index}"
        return
    for row in found.rows:
        for answer in (*row.control, *row.edited):
            yield answer.key, f"step {row.step}"


def stubs_used(found: Result) -> set[str]:
    """The digests of the stubs that answered a call; a locked replay needs none."""
    if isinstance(found, Core):
        return set()
    return {use.stub for step in found.steps for use in step.uses if use.stub is not None}


def can_be_run(found: Result) -> bool:
    """Are its terms such as a replay can have had?"""
    if isinstance(found, FreeCore):
        return 0 <= found.sample < _MAX_RANGES * RANGE and found.start >= 0
    ascend = list(found.levels) == sorted(set(found.levels)) != []
    bounded = all(0 < level <= RANGE for level in found.levels)
    return ascend and bounded and 0 <= found.range < _MAX_RANGES
