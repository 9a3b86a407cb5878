"""Which checks failed, by what a test runner printed: pytest, unittest, go test, cargo test, Jest,
Vitest, Mocha, Node's own runner, TAP.

A runner is known by its closing line or by its lines of results; a text may hold several of them.
Counts are those of the runner's closing line where that is there, else of its lines. Names, values
and places are known only as far as they were printed: a log of which only the end was kept tells
how many checks failed, and not which.

pytest, unittest and Rust print the two sides of a comparison without saying which was expected:
the right one, by their convention, unless the source line has its constant on the left.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from taxonomy.evidence import javascript_checks
from taxonomy.evidence.check_runs import (
    CheckBlock,
    CheckRun,
    add_counts,
    drop_repeats,
    find_sides,
    is_own_file,
    split_blocks,
)
from taxonomy.findings import FailedCheck

_PHRASES = (
    "no tests ran",
    "short test summary",
    "--- FAIL: ",
    "--- PASS: ",
    "[build failed]",
    "[setup failed]",
    "could not compile",
)
_LINES = re.compile(
    r"\n(?:(?:FAILED|ERROR) \S|Ran \d+ tests? in|(?:ok|FAIL)\s+\S+\s+(?:\(cached\)|[\d.]+s)"
    r"|test result: |Tests: +\d| *Tests  ?\d| +\d+ passing|TAP version|(?:not )?ok \d|ℹ tests \d)"
)
_IN_SECONDS = re.compile(r" in \d")
_COUNTED = re.compile(r"\b(?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?)\Z")
_LONGEST_COUNTED = len("deselected")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r(?=\n)")


def read_checks(text: str) -> tuple[CheckRun, ...]:
    """What each runner in a text says, () where none is known to have run."""
    text = _without_marks(text)
    if not may_hold_checks(text):
        return ()
    return tuple(run for read in _READERS for run in read(text))


def may_hold_checks(text: str) -> bool:
    """Is there a word that a runner prints? Most outputs have none, and may be long: what is looked
    for begins with letters that `re` skips to, which one pattern of them all does not."""
    if any(phrase in text for phrase in _PHRASES) or _LINES.search("\n" + text):
        return True
    ends = (found.start() for found in _IN_SECONDS.finditer(text))
    return any(_COUNTED.search(text, max(0, end - _LONGEST_COUNTED), end) for end in ends)


# --- whether any check ran, and what it missed

_BEGAN = re.compile(
    r"\bcollected \d+ item|\b\d+ (?:passed|failed)\b|^Ran \d+ tests?"
    r"|^(?:not )?ok \d|^(?-i:PASS|FAIL)(?-i:ED)?\b|AssertionError|\bassert(?:ion)? failed",
    re.M | re.I,
)
"""What else than a runner's results tells that it ran a check: a log may be cut at either end."""

_NO_NETWORK = re.compile(
    r"^.*(?:curl: \(\d+\)|could ?n(?:o|')t (?:resolve host|connect)"
    r"|failed to (?:connect|download|fetch)|network is unreachable|no route to host"
    r"|temporary failure in name resolution|connection (?:refused|reset|timed out)"
    r"|unable to (?:fetch|locate package)).*$",
    re.M | re.I,
)
_NO_RUNNER = re.compile(
    r"^.*(?:\b\w+: (?:line )?\d+: \S+: (?:command )?not found|: command not found"
    r"|no module named '?(?:pytest|unittest|nose\w*|tox)\b|cannot execute).*$",
    re.M | re.I,
)
_MISSING_FILE = re.compile(
    r"(?:No such file or directory|FileNotFoundError)\W+'(?P<path>[^'\n]+)'"
    r"|\b[Ff]ile '?(?P<file>/\S+?)'? (?:does not exist|not found|was not created)"
)
_MISSING_NAME = re.compile(
    r"(?:undefined: |cannot import name '|has no attribute '|unexpected keyword argument '"
    r"|cannot find \w+ `|is not defined: |name ')(\w+)"
)


def any_ran(text: str) -> bool:
    """Does a text say of any check that it ran?"""
    return _BEGAN.search(text) is not None or bool(read_checks(text))


def network_errors(text: str) -> list[str]:
    """The lines that say that the network was not to be reached."""
    return [match[0].strip() for match in _NO_NETWORK.finditer(text)]


def runner_errors(text: str) -> list[str]:
    """The lines that say that a program, or a runner of checks, is not there."""
    return [match[0].strip() for match in _NO_RUNNER.finditer(text)]


def missing_file(message: str) -> str | None:
    """The file that a failed check says is missing."""
    match = _MISSING_FILE.search(message)
    return None if match is None else match["path"] or match["file"]


def missing_name(message: str) -> str | None:
    """The function, attribute or argument that a failed check says is unknown."""
    match = _MISSING_NAME.search(message)
    return None if match is None else match[1]


# --- pytest

_PYTEST_END = re.compile(
    r"^=*\s?(?P<counts>(?:\d+ [a-z]+(?:, )?)+) in [\d.]+s?\b.*$|^=*\s?no tests ran in .*$", re.M
)
_PYTEST_HEAD = re.compile(r"^_{3,} (?:ERROR (?:at \w+ of|collecting) )?(?P<name>.+?) _{3,}$", re.M)
_PYTEST_RULE = re.compile(r"^={3,} ?\S*", re.M)
_PYTEST_LISTED = re.compile(
    r"^(?P<status>FAILED|ERROR|PASSED) (?P<name>\S+\.py(?:::[^\n]*?)?)(?: - (?P<why>.*))?$", re.M
)
_PYTEST_LIVE = re.compile(
    r"^(?:\[gw\d+\] \[[ \d]+%\] )?(?P<name>\S+\.py::.+?) (?P<status>PASSED|FAILED|ERROR)\b", re.M
)
_E_LINE = re.compile(r"^E(?: {1,7}(.*))?$", re.M)
_PYTEST_PLACE = re.compile(r"^(?P<file>[^\s:>][^\s:]*\.\w+):(?P<line>\d+): ", re.M)
_SOURCE_LINE = re.compile(r"^(?:>\s+| {4,})assert (?P<said>.+)$", re.M)
_COMPARED = re.compile(r"^(?:\w*Error: )?assert (?P<found>.+?) == (?P<expected>.+)$", re.M)
_INDEX_DIFF = re.compile(r"At index \d+ diff: (?P<found>.+?) != (?P<expected>.+)$", re.M)


def _pytest(text: str) -> Iterator[CheckRun]:
    ends = list(_PYTEST_END.finditer(text))
    listed = [match for match in _PYTEST_LISTED.finditer(text) if "::" in match["name"] or ends]
    live = list(_PYTEST_LIVE.finditer(text))
    heads = list(split_blocks(text, _PYTEST_HEAD, _PYTEST_RULE))
    blocks = [each for each in heads if _E_LINE.search(each.body)]
    if not (ends or listed or live):
        return
    red = [m for m in (*listed, *live) if m["status"] != "PASSED"]
    passed_names = dict.fromkeys(m["name"] for m in (*listed, *live) if m["status"] == "PASSED")
    names = dict.fromkeys(match["name"] for match in red)
    failures = [_pytest_block(block, names) for block in blocks]
    known = {each.name for each in failures}
    for match in red:
        if match["name"] not in known:
            why = match.groupdict().get("why") or ""
            expected, found = _pytest_sides(why)
            failures.append(
                FailedCheck(
                    name=match["name"], runner="pytest", message=why, expected=expected,
                    found=found, file=match["name"].partition("::")[0], detail=match[0],
                    at=match.start(),
                )
            )  # fmt: skip
            known.add(match["name"])
    counts = add_counts(end["counts"] or "" for end in ends)
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    named = drop_repeats(failures)
    yield CheckRun(
        runner="pytest",
        failed=max(failed, len(names)) if ends else len(named),
        passed=counts.get("passed", 0) if ends else (len(passed_names) or None),
        failures=named,
        succeeded=tuple(passed_names),
    )


def _pytest_block(block: CheckBlock, names: Iterable[str]) -> FailedCheck:
    short = block.head["name"]
    tail = short.replace(".", "::")
    name = next((n for n in names if n == short or n.endswith(f"::{tail}")), short)
    said = "\n".join(match[1] or "" for match in _E_LINE.finditer(block.body))
    places = list(_PYTEST_PLACE.finditer(block.body))
    place = next((m for m in reversed(places) if is_own_file(m["file"])), None)
    source = _SOURCE_LINE.search(block.body)
    expected, found = _pytest_sides(said, source["said"] if source else "")
    return FailedCheck(
        name=name,
        runner="pytest",
        message=next((line.strip() for line in said.splitlines() if line.strip()), ""),
        expected=expected,
        found=found,
        file=place["file"] if place else None,
        line=int(place["line"]) if place else None,
        detail=block.text,
        at=block.at,
    )


def _pytest_sides(said: str, source: str = "") -> tuple[str | None, str | None]:
    """(expected, found) of the lines that say why."""
    whole = _COMPARED.search(said)
    match = _INDEX_DIFF.search(said) or whole
    if match is None:
        return find_sides(said)
    expected, found = _uncut(match["expected"]), _uncut(match["found"])
    left, _, right = source.partition(" == ")
    if right and _is_constant(left) and not _is_constant(right):
        return found, expected
    return expected, found


def _uncut(value: str) -> str | None:
    """A value as printed, None where the runner cut its end off."""
    return None if value.endswith("...") else value.strip()


def _is_constant(source: str) -> bool:
    try:
        ast.literal_eval(source.strip().rstrip(","))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


# --- unittest

_UNITTEST_END = re.compile(r"^Ran (?P<ran>\d+) tests? in [\d.]+s\s*\n+(?P<said>.*)$", re.M)
_UNITTEST_HEAD = re.compile(
    r"^={20,}\n(?P<status>FAIL|ERROR): (?P<name>\S+)(?: \((?P<where>[^)\n]*)\))?(?P<sub>[^\n]*)\n"
    r"(?:[^\n]*\n)?-{20,}\n",
    re.M,
)
_UNITTEST_STOP = re.compile(r"^-{20,}$", re.M)
_UNITTEST_OK = re.compile(r"^(?P<name>\w+) \((?P<where>[^)\n]*)\)(?:\n[^\n]*)? \.\.\. ok$", re.M)
_FRAME = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)', re.M)
_RAISED = re.compile(r"^(?P<error>[A-Za-z_][\w.]*)(?:: (?P<why>.*))?$", re.M)
_UNEQUAL = re.compile(r"^AssertionError: (?P<found>.+?) != (?P<expected>.+?)(?: : .*)?$", re.M)


def _unittest(text: str) -> Iterator[CheckRun]:
    ends = list(_UNITTEST_END.finditer(text))
    if not ends:
        return
    failures = [
        _unittest_block(each) for each in split_blocks(text, _UNITTEST_HEAD, _UNITTEST_STOP)
    ]
    counted = add_counts(
        " ".join(f"{number} {what}" for what, number in re.findall(r"(\w+)=(\d+)", end["said"]))
        for end in ends
    )
    failed = counted.get("failures", 0) + counted.get("errors", 0)
    ran = sum(int(end["ran"]) for end in ends)
    yield CheckRun(
        runner="unittest",
        failed=failed,
        passed=max(ran - failed - counted.get("skipped", 0), 0),
        failures=tuple(failures),
        succeeded=tuple(_unittest_name(match) for match in _UNITTEST_OK.finditer(text)),
    )


def _unittest_name(match: re.Match[str]) -> str:
    where, name = match["where"] or "", match["name"]
    return where if where.endswith(f".{name}") else f"{where}.{name}" if where else name


def _unittest_block(block: CheckBlock) -> FailedCheck:
    frames = [match for match in _FRAME.finditer(block.body) if is_own_file(match["file"])]
    last = frames[-1] if frames else None
    raised = _RAISED.search(block.body, last.end() if last else 0)
    why = raised[0] if raised else ""
    sides = _UNEQUAL.match(why)
    expected, found = (sides["expected"], sides["found"]) if sides else find_sides(why)
    return FailedCheck(
        name=_unittest_name(block.head) + block.head["sub"].rstrip(),
        runner="unittest",
        message=why,
        expected=expected,
        found=found,
        file=last["file"] if last else None,
        line=int(last["line"]) if last else None,
        detail=block.text,
        at=block.at,
    )


# --- go test

_GO_LINE = re.compile(
    r"^(?:=== (?:RUN|CONT|NAME) +(?P<current>\S+)"
    r"|[ \t]*--- (?P<status>FAIL|PASS|SKIP): (?P<name>\S+)"
    r"|[ \t]+(?P<file>[\w./-]+\.go):(?P<line>\d+): (?P<said>.*)|(?P<panic>panic: .+))$",
    re.M,
)
_GO_NAME = re.compile(
    r"^[ \t]*--- (?P<status>FAIL|PASS|SKIP): (?P<name>\S+)(?: \([\d.]+s\))?$", re.M
)
_GO_PACKAGE = re.compile(
    r"^(?P<status>ok|FAIL)\s+(?P<package>\S+)\s+(?:\(cached\)|[\d.]+s|\[(?P<why>build|setup)"
    r" failed\])",
    re.M,
)
_GO_BUILD = re.compile(r"^(?P<file>[\w./-]+\.go):(?P<line>\d+)(?::\d+)?: (?P<why>.+)$", re.M)
_GO_FRAME = re.compile(r"^[ \t]+(?P<file>\S+_test\.go):(?P<line>\d+)", re.M)


def _go(text: str) -> Iterator[CheckRun]:
    named = list(_GO_NAME.finditer(text))
    packages = list(_GO_PACKAGE.finditer(text))
    if not (named or packages):
        return
    red = [match["name"] for match in named if match["status"] == "FAIL"]
    parents = {name[: match.start()] for name in red for match in re.finditer("/", name)}
    leaves = set(red) - parents
    logs = _go_logs(text)
    failures = [
        _go_check(text, match, logs.get(match["name"], []))
        for match in named
        if match["status"] == "FAIL" and match["name"] in leaves
    ]
    for match in packages:
        if match["why"] is not None:
            built = _GO_BUILD.search(text)
            failures.append(
                FailedCheck(
                    name=f"{match['package']} ({match['why']})",
                    runner="go test",
                    message=built["why"] if built else f"{match['why']} failed",
                    file=built["file"] if built else None,
                    line=int(built["line"]) if built else None,
                    detail=built[0] if built else match[0],
                    at=built.start() if built else match.start(),
                )
            )
    green = [match["name"] for match in named if match["status"] == "PASS"]
    broken = any(match["status"] == "FAIL" for match in packages)
    yield CheckRun(
        runner="go test",
        failed=max(len(failures), 1 if broken else 0),
        passed=len(green) if green or "=== RUN" in text else None,
        failures=drop_repeats(failures),
        succeeded=tuple(green),
    )


def _go_logs(text: str) -> dict[str, list[re.Match[str]]]:
    """What each test logged: before its result where it runs aloud, else below it."""
    found: dict[str, list[re.Match[str]]] = {}
    current = ""
    for line in text.splitlines():
        match = _GO_LINE.match(re.sub(r" \([\d.]+s\)$", "", line))
        if match is None:
            continue
        if match["current"] or match["name"]:
            current = match["current"] or match["name"]
        elif current:
            found.setdefault(current, []).append(match)
    return found


def _go_check(text: str, head: re.Match[str], logs: Sequence[re.Match[str]]) -> FailedCheck:
    said = "\n".join(match["said"] or match["panic"] for match in logs)
    first = next((match for match in logs if match["file"]), None)
    place = first or (_GO_FRAME.search(text, head.end()) if "panic: " in said else None)
    expected, found = find_sides(said)
    return FailedCheck(
        name=head["name"],
        runner="go test",
        message=said.partition("\n")[0],
        expected=expected,
        found=found,
        file=place["file"] if place else None,
        line=int(place["line"]) if place else None,
        detail="\n".join([head[0].strip(), *(match[0].strip() for match in logs)]),
        at=head.start(),
    )


# --- cargo test

_CARGO_END = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.M)
_CARGO_TEST = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<status>ok|FAILED)$", re.M)
_CARGO_HEAD = re.compile(r"^---- (?P<name>.+?) stdout ----$", re.M)
_CARGO_STOP = re.compile(r"^failures:$", re.M)
_PANIC = re.compile(
    r"panicked at (?:'(?P<old>(?s:.*?))', (?P<at>\S+?):(?P<row>\d+):\d+$"
    r"|(?P<file>\S+?):(?P<line>\d+):\d+:\n(?P<why>.*))",
    re.M,
)
_LEFT_RIGHT = re.compile(
    r"^[ \t]*left: `?(?P<found>.+?)`?,?\n[ \t]*right: `?(?P<expected>.+?)`?'?,?$", re.M
)
_RUSTC = re.compile(
    r"^error(?:\[E\d+\])?: (?P<why>.+)\n[ \t]*--> (?P<file>\S+?):(?P<line>\d+)", re.M
)
_NOT_COMPILED = re.compile(r"^error: could not compile `(?P<name>[^`]+)`", re.M)


def _cargo(text: str) -> Iterator[CheckRun]:
    ends = list(_CARGO_END.finditer(text))
    tests = list(_CARGO_TEST.finditer(text)) if ends else []
    broken = _NOT_COMPILED.search(text)
    if not ends and broken is None:
        return
    blocks = {each.head["name"]: each for each in split_blocks(text, _CARGO_HEAD, _CARGO_STOP)}
    failures = [
        _cargo_check(match["name"], match, blocks.get(match["name"]))
        for match in tests
        if match["status"] == "FAILED"
    ]
    failures += [_cargo_check(name, each.head, each) for name, each in blocks.items()]
    if broken is not None and not ends:
        at = _RUSTC.search(text)
        failures.append(
            FailedCheck(
                name=f"compile {broken['name']}",
                runner="cargo test",
                message=at["why"] if at else broken[0],
                file=at["file"] if at else None,
                line=int(at["line"]) if at else None,
                detail=at[0] if at else broken[0],
                at=at.start() if at else broken.start(),
            )
        )
    named = drop_repeats(failures)
    yield CheckRun(
        runner="cargo test",
        failed=sum(int(end[2]) for end in ends) if ends else len(named),
        passed=sum(int(end[1]) for end in ends),
        failures=named,
        succeeded=tuple(match["name"] for match in tests if match["status"] == "ok"),
    )


def _cargo_check(name: str, head: re.Match[str], block: CheckBlock | None) -> FailedCheck:
    bare = FailedCheck(name=name, runner="cargo test", detail=head[0], at=head.start())
    panic = _PANIC.search(block.body) if block is not None else None
    if block is None or panic is None:
        return bare
    sides = _LEFT_RIGHT.search(block.body)
    why = (panic["old"] or panic["why"] or "").partition("\n")[0]
    expected, found = (sides["expected"], sides["found"]) if sides else find_sides(why)
    return structs.replace(
        bare,
        message=why,
        expected=expected,
        found=found,
        file=panic["at"] or panic["file"],
        line=int(panic["row"] or panic["line"]),
        detail=block.text,
        at=block.at,
    )


class FailingPart(Struct, frozen=True, kw_only=True):
    """The lines of an output (from 0, the end not included) from its first to its last failing
    check, and what each runner in it counted."""

    start: int
    end: int
    counts: str


def failing_part(text: str) -> FailingPart | None:
    """Where a text shows checks that failed, None where it shows none."""
    runs = [run for run in read_checks(text) if run.failed]
    checks = [check for run in runs for check in run.failures if check.at is not None]
    if not checks:
        return None
    plain = _without_marks(text)
    lines = [(plain.count("\n", 0, check.at), check.detail.count("\n") + 1) for check in checks]
    return FailingPart(
        start=min(start for start, _ in lines),
        end=min(max(start + many for start, many in lines), plain.count("\n") + 1),
        counts=", ".join(map(_count_words, runs)),
    )


def _count_words(run: CheckRun) -> str:
    """`pytest: 2 of 8 failed`."""
    whole = "" if run.passed is None else f" of {run.passed + run.failed}"
    return f"{run.runner}: {run.failed}{whole} failed"


def _without_marks(text: str) -> str:
    """A text without the marks of colours."""
    return _ANSI.sub("", text) if "\x1b" in text or "\r" in text else text


_READERS: tuple[Callable[[str], Iterator[CheckRun]], ...] = (
    _pytest,
    _unittest,
    _go,
    _cargo,
    *javascript_checks.READERS,
)
