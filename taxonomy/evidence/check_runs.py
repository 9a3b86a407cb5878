"""What a test runner printed of its checks, as values, and how its output is taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from taxonomy.findings import FailedCheck


class CheckRun(Struct, frozen=True, kw_only=True):
    """What one runner printed. `passed` None: it does not say how many; `succeeded` are the names
    of checks that passed, where they were printed."""

    runner: str
    failed: int
    passed: int | None
    failures: tuple[FailedCheck, ...] = ()
    succeeded: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        """Did checks run, and all of them pass?"""
        return not self.failed and self.passed != 0


_COUNT = re.compile(r"(\d+) (\w+)")


def add_counts(lines: Iterable[str]) -> dict[str, int]:
    """The numbers of closing lines, by what they count."""
    found: dict[str, int] = {}
    for line in lines:
        for number, what in _COUNT.findall(line):
            found[what] = found.get(what, 0) + int(number)
    return found


def find_sides(text: str) -> tuple[str | None, str | None]:
    """(expected, found) as a message says it in words."""
    for pattern in _WORDED:
        match = pattern.search(text)
        if match is not None:
            return match["expected"].strip(), match["found"].strip()
    return None, None


_WORDED = (
    re.compile(
        r"\bexpected:? (?P<expected>[^\n]{1,200}?)[,;.]? (?:but )?(?:it )?"
        r"(?:got|found|was|received|actual(?:ly)?):? (?P<found>[^\n]{1,200}?)\.?$",
        re.I | re.M,
    ),
    re.compile(
        r"\b(?:got|found)[:=]? (?P<found>[^\n]{1,200}?)[,;]? (?:but )?"
        r"(?:want(?:ed)?|expected)[:=]? (?P<expected>[^\n]{1,200}?)\.?$",
        re.I | re.M,
    ),
    re.compile(r"\) ?=? (?P<found>[^\n]{1,200}?)[,;] want (?P<expected>[^\n]{1,200})$", re.M),
    re.compile(
        r"^[ \t]*expected *: (?P<expected>[^\n]*)\n[ \t]*actual *: (?P<found>[^\n]*)$", re.M
    ),
)


def split_blocks(text: str, header: re.Pattern[str], end: re.Pattern[str]) -> Iterator[CheckBlock]:
    """Each header with what follows it, up to the next one or to what ends all of them."""
    found = list(header.finditer(text))
    for place, match in enumerate(found):
        until = found[place + 1].start() if place + 1 < len(found) else len(text)
        stop = end.search(text, match.end(), until)
        yield CheckBlock(match, text[match.end() : stop.start() if stop else until])


class CheckBlock:
    def __init__(self, head: re.Match[str], body: str) -> None:
        self.head, self.body = head, body

    @property
    def at(self) -> int:
        return self.head.start()

    @property
    def text(self) -> str:
        return (self.head[0].strip("\n") + self.body).rstrip()


def drop_repeats(found: Iterable[FailedCheck]) -> tuple[FailedCheck, ...]:
    """Each check once: runners repeat them in a closing list. What was printed first is kept."""
    return tuple({(each.name, each.file): each for each in reversed(list(found))}.values())[::-1]


_FOREIGN = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|node_modules|lib/python[\d.]+|usr/lib)/|^<|^node:"
    r"|^/rustc/"
)


def is_own_file(path: str) -> bool:
    """Is a file of the project, rather than of a library?"""
    return not _FOREIGN.search(path)
