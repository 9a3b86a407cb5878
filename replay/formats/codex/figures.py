"""Whose tokens are these? The running counts of a rollout, given to the calls they are of.

A `token_count` event tells the usage of the answer that has just ended and the total so far; it
is repeated when only the rate limits moved. Today it stands behind the answer's items, in the
first releases before them. Which of both a rollout does shows when the first count meets an open
answer, or none.
"""

from __future__ import annotations

from replay.formats.fields import obj
from replay.formats.normal import count, total_usage
from replay.trace import Json, Usage


class Figures:
    """Reads the counts in their order. `leading` is a count that waits for the answer it is of."""

    def __init__(self) -> None:
        self.leading: Usage | None = None
        self._total: Json = None
        self._before: dict[str, int] = {}
        self._stands_before: bool | None = None

    def told(self, info: Json) -> Usage | None:
        """The usage of one more answer, None where the event says nothing new."""
        total, last = obj(info).get("total_token_usage"), obj(obj(info).get("last_token_usage"))
        if not isinstance(total, dict) or total == self._total:
            return None
        earlier, self._before = self._before, _counts(total)
        self._total = total
        if not last:
            last = {name: value - earlier.get(name, 0) for name, value in self._before.items()}
        return total_usage(
            count(last.get("input_tokens")),
            count(last.get("output_tokens")),
            reasoning=count(last.get("reasoning_output_tokens")),
            read=count(last.get("cached_input_tokens")),
        )

    def stands_before(self, *, answering: bool) -> bool:
        """Is a count met now that of the answer to come? `answering`: one is open without any."""
        if self._stands_before is None:
            self._stands_before = not answering
        return self._stands_before

    def lead(self, *, answer: bool) -> Usage | None:
        """The count that waited for what begins now: an answer, or the note of a compaction.

        Where counts stand behind, a waiting one can only be of a compaction.
        """
        if answer and not self._stands_before:
            return None
        leading, self.leading = self.leading, None
        return leading


def _counts(total: dict[str, Json]) -> dict[str, int]:
    known = {name: count(value) for name, value in total.items()}
    return {name: value for name, value in known.items() if value is not None}
