"""The files that a run writes: which of them it made itself, and which it put back as they were.

However many there are, each is found by its path in the same time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from math import inf
from operator import itemgetter

from taxonomy.evidence.file_edits import FileWrite, plain_path
from taxonomy.evidence.reading import Act

_CREATED = re.compile(r"file created|created successfully|created file|new file", re.I)


class WrittenFiles:
    """The files that a run writes, found by path however many there are: paths name one file where
    one of them ends as the whole other one is (`is_same_file`)."""

    def __init__(self, writes: Sequence[FileWrite], acts: Sequence[Act]) -> None:
        self._acts = acts
        self._writes = writes
        restored = [place for place, each in enumerate(writes) if each.edit.restored]
        self._first = _Paths(writes, range(len(writes) - 1, -1, -1))
        self._restored = _Paths(self._writes, restored)

    def are_own(self, write: FileWrite) -> bool:
        """Did the run make the file itself? Where nothing says that it was there before, a file
        that is written whole may be new. A write that was refused may be asked about too."""
        if write.edit.restored:
            return True
        path = write.edit.path
        place = min(self._first.places(path), default=None)
        first = write
        if place is not None and self._writes[place].step < write.step:
            first = self._writes[place]
        if first.edit.before or first.edit.removed:
            return False
        if _CREATED.search(first.act.reply.text[:300]):
            return True
        return first.edit.whole and self._first_shown(_last_part(path)) >= first.step

    def is_put_back(self, path: str, place: int) -> bool:
        """Is a file restored by that write or a later one?"""
        return max(self._restored.places(path), default=-1) >= place

    def _first_shown(self, name: str) -> float:
        if name not in self._shown:
            self._shown |= self._look_for({name})
        return self._shown[name]

    @cached_property
    def _shown(self) -> dict[str, float]:
        """The first step whose calls or their replies have the name of a file, by that name."""
        return self._look_for({_last_part(each.edit.path) for each in self._writes})

    def _look_for(self, names: set[str]) -> dict[str, float]:
        return first_steps(names, ((act.step, (act.key, act.reply.text)) for act in self._acts))


class _Paths:
    """The last of some places in which each file is written, in the order that they are given."""

    def __init__(self, writes: Sequence[FileWrite], places: Iterable[int]) -> None:
        self._whole: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        for place in places:
            path = plain_path(writes[place].edit.path)
            self._whole[path] = place
            for end in _ends(path):
                self._ends[end] = place

    def places(self, path: str) -> Iterator[int]:
        """One or several, among which the last is."""
        path = plain_path(path)
        found = (self._ends.get(path), *map(self._whole.get, _ends(path)))
        yield from (place for place in found if place is not None)


MOST_PARTS, MOST_LETTERS = 64, 1_000
"""A path of more is no other one's end, and none is its."""


def _ends(path: str) -> Iterator[str]:
    """The path and all that it ends with from the beginning of a part."""
    yield path
    if path.count("/") > MOST_PARTS or len(path) > MOST_LETTERS:
        return
    while "/" in path:
        path = path.partition("/")[2]
        yield path


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]


_TOKEN = re.compile(r"[\w.+-]+")
FEW = 32
"""So many names are looked for one by one: sooner done than to take texts apart."""


def first_steps(
    names: Collection[str], texts: Iterable[tuple[int, Sequence[str]]]
) -> dict[str, float]:
    """The least step whose texts hold each name, infinite where none does. Of many names every
    different word is looked through once, by their lengths: not every text for every name."""
    found = dict.fromkeys(names, inf)
    plain = {name for name in names if _TOKEN.fullmatch(name)} if len(names) > FEW else set[str]()
    others = [name for name in names if name not in plain]
    lengths = sorted({len(name) for name in plain})
    seen: set[str] = set()
    for step, said in sorted(texts, key=itemgetter(0)):
        for text in said:
            for name in others:
                if found[name] > step and name in text:
                    found[name] = step
            new = {*_TOKEN.findall(text)} - seen if plain else set[str]()
            seen |= new
            for word in new:
                for length in takewhile(len(word).__ge__, lengths):
                    for at in range(len(word) - length + 1):
                        name = word[at : at + length]
                        if name in plain and found[name] > step:
                            found[name] = step
    return found
