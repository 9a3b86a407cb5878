"""Which checks failed, by what Jest, Vitest, Mocha, Node's runner and TAP printed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import structs

from taxonomy.evidence.check_runs import (
    CheckBlock,
    CheckRun,
    add_counts,
    drop_repeats,
    is_own_file,
    split_blocks,
)
from taxonomy.findings import FailedCheck

# --- JavaScript: Jest, Vitest, Mocha

_JEST_END = re.compile(r"^Tests: +(?P<counts>.*\d+ total)$", re.M)
_JEST_HEAD = re.compile(r"^ {2}● (?P<name>(?!Console$|.*suppressed).+)$", re.M)
_JEST_FILE = re.compile(r"^(?:FAIL|PASS) +(?P<file>\S+)", re.M)
_JEST_STOP = re.compile(r"^(?:(?:FAIL|PASS) |Test Suites: |Summary of all failing)", re.M)
_JS_FRAME = re.compile(
    r"^[ \t]*(?:at |❯ )(?:.*? )?\(?(?:file://)?(?P<file>[^\s():]+\.\w+):(?P<line>\d+):\d+\)?", re.M
)
_EXPECTED = re.compile(r"^[ \t]*Expected(?: \w+)*(?: to [\w ]+?)?:\s*(?P<said>\S.*)$", re.M)
_RECEIVED = re.compile(r"^[ \t]*Received(?: \w+)*:\s*(?P<said>\S.*)$", re.M)
_DIFFERS = re.compile(r"^[ \t]*- Expected.*\n[ \t]*\+ Received.*\n(?P<lines>(?:.*\n?)*)", re.M)


def jest(text: str) -> Iterator[CheckRun]:
    ends = list(_JEST_END.finditer(text))
    if not ends:
        return
    files = list(_JEST_FILE.finditer(text))
    failures = []
    for block in split_blocks(text, _JEST_HEAD, _JEST_STOP):
        above = [match["file"] for match in files if match.start() < block.at]
        failures.append(_js_check(block, "jest", above[-1] if above else None))
    counts = add_counts(end["counts"] for end in ends)
    named = drop_repeats(failures)
    yield CheckRun(
        runner="jest",
        failed=max(counts.get("failed", 0), len(named)),
        passed=counts.get("passed", 0),
        failures=named,
    )


def _js_check(block: CheckBlock, runner: str, file: str | None = None) -> FailedCheck:
    frames = (match for match in _JS_FRAME.finditer(block.body) if is_own_file(match["file"]))
    place = next(frames, None)
    lines = [line.strip() for line in block.body.splitlines()]
    expected, received = _EXPECTED.search(block.body), _RECEIVED.search(block.body)
    if expected and received:
        sides: tuple[str | None, str | None] = (expected["said"], received["said"])
    else:
        sides = _differing(block.body)
    return FailedCheck(
        name=block.head["name"].strip(),
        runner=runner,
        message=next((line for line in lines if line), ""),
        expected=sides[0],
        found=sides[1],
        file=place["file"] if place else file,
        line=int(place["line"]) if place else None,
        detail=block.text,
        at=block.at,
    )


def _differing(text: str) -> tuple[str | None, str | None]:
    """(expected, found): the first lines that differ in a diff of the two."""
    match = _DIFFERS.search(text)
    if match is None:
        return None, None
    lines = [line.strip() for line in match["lines"].splitlines()]
    gone = next((line[1:].strip() for line in lines if line.startswith("-")), None)
    come = next((line[1:].strip() for line in lines if line.startswith("+")), None)
    return gone, come


_VITEST_END = re.compile(r"^ *Tests  +(?P<counts>\d+ .*\(\d+\))$", re.M)
_VITEST_HEAD = re.compile(r"^ FAIL  +(?P<name>\S.*)$", re.M)
_VITEST_STOP = re.compile(r"^⎯{6,}.*$", re.M)
_VITEST_OK = re.compile(r"^ *✓ (?P<name>\S+ > .+?)(?: \d+ms)?$", re.M)


def vitest(text: str) -> Iterator[CheckRun]:
    ends = list(_VITEST_END.finditer(text))
    if not ends:
        return
    blocks = split_blocks(text, _VITEST_HEAD, _VITEST_STOP)
    counts = add_counts(end["counts"] for end in ends)
    named = drop_repeats(_js_check(each, "vitest", each.head["name"].split()[0]) for each in blocks)
    yield CheckRun(
        runner="vitest",
        failed=max(counts.get("failed", 0), len(named)),
        passed=counts.get("passed", 0),
        failures=named,
        succeeded=tuple(match["name"] for match in _VITEST_OK.finditer(text)),
    )


_MOCHA_END = re.compile(r"^ +(?P<passed>\d+) passing\b.*$(?:\n^ +\d+ pending$)?"
                        r"(?:\n^ +(?P<failed>\d+) failing$)?", re.M)  # fmt: skip
_MOCHA_HEAD = re.compile(r"^ {2}\d+\) (?P<name>(?:.+\n){1,6}?)(?=\n|^ +\w*Error)", re.M)
_MOCHA_DIFF = re.compile(r"^[ \t]*\+ expected - actual\n+\s*-(?P<found>.*)\n\s*\+(?P<expected>.*)$",
                         re.M)  # fmt: skip


def mocha(text: str) -> Iterator[CheckRun]:
    for end in _MOCHA_END.finditer(text):
        below = text[end.end() :]
        blocks = split_blocks(below, _MOCHA_HEAD, _MOCHA_END) if end["failed"] else iter(())
        yield CheckRun(
            runner="mocha",
            failed=int(end["failed"] or 0),
            passed=int(end["passed"]),
            failures=drop_repeats(_mocha_check(each, end.end()) for each in blocks),
        )


def _mocha_check(block: CheckBlock, before: int) -> FailedCheck:
    check = _js_check(block, "mocha")
    sides = _MOCHA_DIFF.search(block.body)
    return structs.replace(
        check,
        name=" › ".join(line.strip().rstrip(":") for line in check.name.splitlines()),
        expected=sides["expected"].strip() if sides else check.expected,
        found=sides["found"].strip() if sides else check.found,
        at=before + block.at,
    )


# --- TAP, and what Node's runner prints for people

_TAP_PLAN = re.compile(r"^(?:TAP version \d+|1\.\.\d+)", re.M)
_TAP_LINE = re.compile(
    r"^(?P<indent> *)(?P<no>not )?ok(?: (?P<number>\d+))?(?: -)?(?: (?P<name>[^#\n]*?))?"
    r"(?: # ?(?P<directive>SKIP|TODO)\b[^\n]*)?$",
    re.M | re.I,
)
_TAP_STOP = re.compile(r"^ *\.\.\.$|^# ", re.M)
_YAML = re.compile(r"^(?P<pad> *)(?P<key>expected|actual|found|wanted|got|location|at|file|line"
                   r"|message|error|failureType): *(?P<value>.*)$"
                   r"(?P<more>(?:\n(?P=pad) +.*|\n *$)*)", re.M)  # fmt: skip
_SUBTESTS = "subtestsFailed"


def tap(text: str) -> Iterator[CheckRun]:
    lines = list(_TAP_LINE.finditer(text)) if _TAP_PLAN.search(text) else []
    if not any(match["number"] for match in lines):
        return
    failures: list[FailedCheck] = []
    good: list[str] = []
    for block in split_blocks(text, _TAP_LINE, _TAP_STOP):
        if block.head["directive"]:
            continue
        if not block.head["no"]:
            good.append((block.head["name"] or "").strip())
            continue
        said = {match["key"]: _yaml(match) for match in _YAML.finditer(block.body)}
        if said.get("failureType") != _SUBTESTS:
            failures.append(_tap_check(block, said))
    yield CheckRun(
        runner="TAP",
        failed=len(failures),
        passed=len(good),
        failures=tuple(failures),
        succeeded=tuple(filter(None, good)),
    )


def _yaml(match: re.Match[str]) -> str:
    """A scalar of the few that matter: a quoted one, a plain one, or the lines of a block."""
    value = match["value"].strip()
    if value in ("|-", "|", ">-", ">"):
        return "\n".join(line.strip() for line in match["more"].splitlines()).strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


_AT = re.compile(r"(?:file://)?(?P<file>[^\s():]+):(?P<line>\d+)(?::\d+)?")


def _tap_check(block: CheckBlock, said: dict[str, str]) -> FailedCheck:
    at = _AT.search(said.get("location") or said.get("at") or "")
    line = said.get("line", "")
    lines = (said.get("error") or said.get("message") or "").splitlines()
    return FailedCheck(
        name=(block.head["name"] or f"test {block.head['number']}").strip(),
        runner="TAP",
        message=next((each for each in lines if each.strip()), ""),
        expected=said.get("expected") or said.get("wanted"),
        found=said.get("actual") or said.get("found") or said.get("got"),
        file=at["file"] if at else said.get("file"),
        line=int(at["line"]) if at else int(line) if line.isdecimal() else None,
        detail=block.text,
        at=block.at,
    )


_SPEC_END = re.compile(r"^ℹ pass (?P<passed>\d+)$", re.M)
_SPEC_HEAD = re.compile(
    r"^test at (?P<file>\S+?):(?P<line>\d+):\d+\n✖ (?P<name>.+?) \([\d.]+ms\)$", re.M
)
_SPEC_SIDE = re.compile(r"^[ \t]*(?P<key>actual|expected): (?P<said>.+?),?$", re.M)
_SPEC_OK = re.compile(r"^ *✔ (?P<name>.+?) \([\d.]+ms\)$", re.M)
_SPEC_FAILED = re.compile(r"^ℹ fail (\d+)$", re.M)


def node_spec(text: str) -> Iterator[CheckRun]:
    ends = list(_SPEC_END.finditer(text))
    if not ends:
        return
    named = drop_repeats(map(_spec_check, split_blocks(text, _SPEC_HEAD, _SPEC_END)))
    counted = sum(int(match[1]) for match in _SPEC_FAILED.finditer(text))
    yield CheckRun(
        runner="node --test",
        failed=len(named) or counted,
        passed=sum(int(end["passed"]) for end in ends),
        failures=named,
        succeeded=tuple(match["name"] for match in _SPEC_OK.finditer(text)),
    )


def _spec_check(block: CheckBlock) -> FailedCheck:
    check = _js_check(block, "node --test")
    sides = {match["key"]: match["said"] for match in _SPEC_SIDE.finditer(block.body)}
    return structs.replace(
        check,
        expected=sides.get("expected", check.expected),
        found=sides.get("actual", check.found),
        file=block.head["file"],
        line=int(block.head["line"]),
    )


READERS = (jest, vitest, mocha, tap, node_spec)
