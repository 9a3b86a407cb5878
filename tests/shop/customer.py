"""The person on the other side: opens with a wish, answers questions, comes back with more."""

from __future__ import annotations

import re


class Customer:
    """`knows` answers the agent's questions, each answer once; `later` follows closed turns."""

    def __init__(
        self, opening: str, knows: dict[str, str] | None = None, later: tuple[str, ...] = ()
    ) -> None:
        self.opening = opening
        self._knows = dict(knows or {})
        self._later = list(later)

    def reply(self, words: str) -> str | None:
        """What the customer writes after the agent closed its turn, None to leave."""
        if words.endswith("?"):
            for question, answer in list(self._knows.items()):
                if re.search(question, words):
                    del self._knows[question]
                    return answer
        return self._later.pop(0) if self._later else None
