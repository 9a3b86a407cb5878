"""What is told of a file that is read along with another one."""

from __future__ import annotations

from replay.formats.intake import Tally


class FileTally(Tally):
    """The tally of such a file: its counts are the main file's, its problems bear its name."""

    def __init__(self, main: Tally, name: str) -> None:
        super().__init__()
        self.counts, self.unknown = main.counts, main.unknown
        self._main, self._name = main, name

    def problem(self, where: str, why: str) -> None:
        self._main.problem(f"{self._name}: {where}", why)
