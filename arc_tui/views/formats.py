"""The formats that are read: one table, for `arc formats` and the README."""

from __future__ import annotations

from msgspec import Struct

from replay.formats import formats
from replay.trace import Level

HEAD = ("format", "reads", "files", "replayed from", "not recorded")


class FormatRow(Struct, frozen=True, kw_only=True):
    """One format: its word in `--format`, what it reads, kinds of files, how completely the
    requests read from them can be known (best first), and what keeps them from being better."""

    name: str
    reads: str
    files: str
    fidelity: tuple[Level, ...]
    lacks: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, under `HEAD`."""
        return self.name, self.reads, self.files, ", ".join(self.fidelity), self.lacks


def build_formats() -> tuple[FormatRow, ...]:
    """Every format, in the order they are asked whether a file is theirs."""
    return tuple(
        FormatRow(
            name=each.NAME,
            reads=each.TITLE,
            files=each.FILES,
            fidelity=each.FIDELITY,
            lacks=each.LACKS,
        )
        for each in formats()
    )
