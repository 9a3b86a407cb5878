"""Does an edit make a test demand less? By the lines that it takes out and puts in.

Read are pytest, unittest, Jest, Vitest, Mocha, go test, cargo test and JUnit, by how they write
assertions and skips. A skip with a condition is left alone: it says where a test cannot run. Lines
that stand in comments demand nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from taxonomy.evidence.results import cut

ChangeKind: TypeAlias = Literal["skipped", "always passes", "loosened", "deleted", "expected"]


class CheckChange(Struct, frozen=True, kw_only=True):
    """One way in which an edit makes a test demand less.

    `line` is what the edit puts in, or takes out where it deletes. `expected` is set of an
    assertion that now expects another value: the new one.
    """

    kind: ChangeKind
    line: str
    expected: str | None = None

    @property
    def phrase(self) -> str:
        """`skips a test: @pytest.mark.skip`."""
        said = {
            "skipped": "skips a test",
            "always passes": "makes an assertion that always passes",
            "loosened": "loosens an assertion",
            "deleted": "deletes an assertion",
            "expected": "changes what a test expects",
        }[self.kind]
        return f"{said}: {cut(self.line, 70)}"


_NUMBERED = re.compile(r"^ *\d+(?:→|\t|\| ?|: )", re.M)
"""How tools that show a file number its lines."""

_COMMENT = re.compile(r"^\s*(?:#(?!\[)|//|/\*|\*)")

_ASSERTION = re.compile(
    r"assert\b(?!ion)|self\.(?:assert|fail)\w*\(|with (?:self\.assertRaises|pytest\.raises)"
    r"|(?:await |return )?expect\(|(?:debug_)?assert(?:_eq|_ne|_matches)?!"
    r"|(?:assert|require|Assert|Assertions|should)\.\w+\(|assert[A-Z_]\w*\("
    r"|t\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\("
)
_SKIP = re.compile(
    r"@pytest\.mark\.(?:skip\b(?!if)|xfail\b(?!\((?!reason|strict|raises|run|\))))"
    r"|pytestmark\s*=\s*pytest\.mark\.skip\b(?!if)"
    r"|@(?:unittest\.)?(?:skip\b(?!If|Unless)|expectedFailure\b)"
    r"|\bcollect_ignore(?:_glob)?\b|\b(?:it|test|describe|context|suite)\.(?:skip|todo|failing)\b"
    r"|\b(?:xit|xtest|xdescribe)\(|#\[ignore\b|@(?:Disabled|Ignore)\b(?!If|Unless|d?On)"
)
_SKIP_CALL = re.compile(
    r"pytest\.(?:skip|xfail)\(|self\.skipTest\(|raise (?:unittest\.)?SkipTest"
    r"|t\.Skip(?:Now|f)?\("
)
_UNDER_CONDITION = re.compile(r"\s*(?:\}\s*)?(?:if|elif|else|except|try|case|switch|when)\b")

_ALWAYS = re.compile(
    r"assert (?:True|1)\s*(?:,|#|$)|assert .+ or True\b|self\.assertTrue\(True\b"
    r"|expect\((?:true|1)\)\.to(?:Be|Equal)\((?:true|1)\)|expect\(true\)\.toBeTruthy\("
    r"|assert!\(true\b|assert(?:\.ok|\.isTrue|True)?\(true\)"
)
_EQUAL = (
    re.compile(r"assert (?P<of>.+?) == (?P<value>.+)$"),
    re.compile(r"self\.assert(?:Almost)?Equals?\((?P<of>.+?), (?P<value>.+?)\)\s*;?$"),
    re.compile(
        r"expect\((?P<of>.+?)\)\.to(?:Be|Equal|StrictEqual|HaveLength|MatchObject)"
        r"\((?P<value>.+)\)\s*;?$"
    ),
    re.compile(
        r"assert\.(?:equal|strictEqual|deepEqual|deepStrictEqual)"
        r"\((?P<of>.+?), (?P<value>.+)\)\s*;?$"
    ),
    re.compile(r"assert_eq!\((?P<of>.+?), (?P<value>.+)\)\s*;?$"),
)
_LOOSE = (
    re.compile(r"assert (?P<of>.+?)(?: is not None| != .+|(?: >=? | <=? | in ).+)?$"),
    re.compile(r"assert isinstance\((?P<of>.+?), .+\)$"),
    re.compile(r"self\.assert(?:True|IsNotNone|IsInstance|NotEqual|In|Greater\w*|Less\w*)"
               r"\((?P<of>[^,]+?)(?:, .+)?\)$"),
    re.compile(r"expect\((?P<of>.+?)\)\.(?:toBeDefined|toBeTruthy|toBeInstanceOf|toContain"
               r"|toBeGreater\w+|toBeLess\w+|not\.\w+)\(.*\)\s*;?$"),
    re.compile(r"assert(?:\.ok)?!?\((?P<of>.+?)(?:\.is_(?:ok|some)\(\))?\)\s*;?$"),
)  # fmt: skip


def changes_of(before: str, after: str) -> tuple[CheckChange, ...]:
    """What an edit does to the assertions of a test, () where it demands as much as before."""
    old, new = _lines(before), _lines(after)
    gone, come = Counter(old), Counter(new)
    gone, come = gone - come, come - gone
    return (*_skips(new, come), *_assertions(list(gone.elements()), list(come.elements())))


def assertions(text: str) -> int:
    """How many lines of a text assert something."""
    return sum(bool(_ASSERTION.match(line)) for line in _lines(text))


def without_numbers(text: str) -> str:
    """A file as a tool shows it, without the numbers of its lines."""
    return _NUMBERED.sub("", text)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not _COMMENT.match(line)]


def _skips(new: list[str], come: Counter[str]) -> Iterator[CheckChange]:
    for place, line in enumerate(new):
        if not come[line]:
            continue
        before = new[place - 1] if place else ""
        called = _SKIP_CALL.match(line) and not _UNDER_CONDITION.match(before)
        if called or _SKIP.search(line):
            yield CheckChange(kind="skipped", line=line)


def _assertions(gone: list[str], come: list[str]) -> Iterator[CheckChange]:
    """What becomes of the assertions that an edit takes out; one that is only moved or rewritten to
    say as much is not told of."""
    lost = [line for line in gone if _ASSERTION.match(line)]
    won = [line for line in come if _ASSERTION.match(line)]
    always = [line for line in won if _ALWAYS.search(line)]
    yield from (CheckChange(kind="always passes", line=line) for line in always)
    won = [line for line in won if line not in always]
    for line in list(lost):
        match = _first(_EQUAL, line)
        if match is None:
            continue
        found = next(_weaker(match, won), None)
        if found is not None:
            lost.remove(line)
            won.remove(found.line)
            yield found
    if len(lost) > len(won) + len(always):
        yield CheckChange(kind="deleted", line=lost[0])


def _weaker(strict: re.Match[str], won: list[str]) -> Iterator[CheckChange]:
    """The assertions about the same thing that expect another value, or none."""
    for line in won:
        same = _first(_EQUAL, line)
        if same is not None:
            if same["of"] == strict["of"] and same["value"] != strict["value"]:
                yield CheckChange(kind="expected", line=line, expected=same["value"])
            continue
        loose = _first(_LOOSE, line)
        if loose is not None and loose["of"].strip() == strict["of"]:
            yield CheckChange(kind="loosened", line=line)


def _first(patterns: tuple[re.Pattern[str], ...], line: str) -> re.Match[str] | None:
    return next((found for each in patterns if (found := each.match(line))), None)
