"""What did checks say of a run, and which step wrote what they name?

Two kinds of checks: that of the outcome (what the verifier printed, the status of its tests, the
explanation of a scorer), and those that the run started itself, of which the last run of each
counts. A check is joined to the last call before it that wrote what it names: first the files of
its message, then the innermost file that it failed in, then the value that it found, then the other
files and the functions that it shows. A file that it misses and that nobody wrote joins it to
nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, structs

from replay.effects import takes_program
from replay.trace import Json, SourceScore
from taxonomy.evidence.check_output import missing_name, read_checks
from taxonomy.evidence.check_runs import CheckRun, is_own_file
from taxonomy.evidence.file_edits import FileWrite, file_name, is_same_file, is_test_file
from taxonomy.evidence.reading import Act, Reading, mutates
from taxonomy.evidence.results import cut
from taxonomy.findings import ANSWER_SCORERS, CheckReport, Evidence, FailedCheck, RedEdit


class StepChecks(Struct, frozen=True, eq=False, kw_only=True):
    """What one call's output says of checks. `command` tells the same check in another call."""

    act: Act
    command: str
    run: CheckRun


def check_runs(reading: Reading) -> tuple[StepChecks, ...]:
    """Every run of checks that the run itself started, in step order."""
    programs = [act for act in reading.programs.values() if not reading.turns[act.step].acts]
    acts = [act for act in reading.acts if _runs_program(act)]
    return tuple(
        StepChecks(act=act, command=_command(act, run.runner), run=run)
        for act in sorted((*acts, *programs), key=lambda act: act.step)
        for run in read_checks(act.reply.text)
    )


def _runs_program(act: Act) -> bool:
    return isinstance(act.span.arguments, str) or takes_program(act.span.arguments)


_RUNNERS = re.compile(
    r"\b(?:pytest|py\.test|unittest|nosetests|tox|runtests|manage\.py test|go test|cargo (?:test"
    r"|nextest)|jest|vitest|mocha|ava|tap|node --test|(?:npm|pnpm|yarn|bun)(?: run)? test\S*|make"
    r"|ctest|prove)\b"
)
_JOINED = re.compile(r"&&|\|\||[;|\n]|\d?>&?\d?\S*")


def _command(act: Act, runner: str) -> str:
    """The command that started a check, without its options and what stands around it."""
    given = act.span.arguments
    words = given if isinstance(given, dict) else {"": given}
    texts = (text for value in words.values() for text in _texts(value))
    for text in texts:
        for part in _JOINED.split(text):
            if _RUNNERS.search(part):
                kept = [word for word in part.split() if not word.startswith("-") and
                        not re.fullmatch(r"\w+=\S*", word)]  # fmt: skip
                return " ".join(kept)
    return runner


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def report_checks(
    reading: Reading,
    runs: Sequence[StepChecks],
    writes: Sequence[FileWrite],
    scores: Sequence[SourceScore] = (),
) -> CheckReport:
    """The checks that failed, each joined to what wrote it; nothing of a run that passed."""
    if reading.passed:
        return CheckReport()
    link = _Links(reading, writes)
    outcome, unnamed = _of_outcome(reading, scores)
    ended = _last_runs(runs)
    own = [
        structs.replace(check, read_at=each.act.step, span=each.act.span.id, place=each.command)
        for each in ended
        for check in each.run.failures
    ]
    unnamed += sum(max(each.run.failed - len(each.run.failures), 0) for each in ended)
    return CheckReport(
        failed=tuple(link.join(check) for check in (*outcome, *own)),
        unnamed=unnamed,
        red_edit=_red_edit(runs, writes),
    )


def _last_runs(runs: Sequence[StepChecks]) -> list[StepChecks]:
    """The last run of each check, where it failed and no later one of its runner passed whole."""
    last = {(each.run.runner, each.command): place for place, each in enumerate(runs)}
    green = {each.run.runner: place for place, each in enumerate(runs) if each.run.is_green}
    return [
        runs[place]
        for (runner, _), place in last.items()
        if runs[place].run.failed and green.get(runner, -1) < place
    ]


# --- the check of the outcome


def _of_outcome(reading: Reading, scores: Sequence[SourceScore]) -> tuple[list[FailedCheck], int]:
    """Its failing checks, and how many more there are without a name."""
    told = (reading.trace.header.reference or {}).get("check")
    check: Mapping[str, Json] = told if isinstance(told, dict) else {}
    printed = check.get("printed")
    runs = read_checks(printed) if isinstance(printed, str) else ()
    found = [structs.replace(each, place="grader output") for run in runs for each in run.failures]
    known = {_short(each.name) for each in found}
    tests = check.get("tests")
    for name, status in (tests if isinstance(tests, dict) else {}).items():
        if str(status).lower() in ("failed", "failure", "error") and _short(name) not in known:
            found.append(FailedCheck(name=name, runner="test", place="grader's list of tests"))
    unnamed = sum(max(run.failed - len(run.failures), 0) for run in runs)
    return [*found, *_of_scores(reading, scores)], unnamed


def _short(name: str) -> str:
    """A test's name without its file: lists and output may name it differently."""
    return name.rpartition("::")[2]


_WRONG = {"i", "incorrect", "fail", "failed", "false", "wrong", "no"}


def _of_scores(reading: Reading, scores: Sequence[SourceScore]) -> Iterator[FailedCheck]:
    """What scores of the whole run explain, where they say that it failed."""
    for score in scores:
        failed = score.value == 0 or (score.label or "").strip().lower() in _WRONG
        if score.span is not None or not failed or not (score.explanation or "").strip():
            continue
        text = str(score.explanation)
        found = [check for run in read_checks(text) for check in run.failures]
        place = f"explanation of {score.name}"
        if score.name.lower() in ANSWER_SCORERS:
            target = (reading.trace.header.reference or {}).get("target")
            wanted = [target] if isinstance(target, str) else target
            yield FailedCheck(
                name=score.name,
                runner=score.name.lower(),
                expected=" or ".join(str(each).strip() for each in wanted)
                if isinstance(wanted, list)
                else None,
                found=cut(text, 240),
                message=cut(text, 240),
                place=place,
            )
            continue
        if found:
            yield from (structs.replace(check, place=place) for check in found)
            continue
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        yield FailedCheck(
            name=score.name, runner=score.by, message=cut(lines[0], 240), detail=text, place=place
        )


# --- joined to what wrote it

_PATH = re.compile(
    r"(?<![\w./~@-])(?:~?/|\.{1,2}/)?(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,7}(?![\w/])"
    r"|(?<![\w.:/])/(?:[\w.@+-]+/)+[\w.@+-]+"
)
_MISSING = re.compile(
    r"No such file|FileNotFoundError|NotFound|ENOENT|does not exist|not found|was not created"
)
_CALLED = re.compile(r"\b([A-Za-z_]\w{2,})\s*\(")
_IMPORTED = re.compile(r"\bfrom (\w+) import (\w+)")
_COMMON = frozenset(
    "assert assertEqual assertTrue assertIn assertRaises expect describe test len str int list dict"
    " open print range join loads dumps load dump isinstance repr sorted sum set tuple equal toBe"
    " toEqual raises read readlines exists unwrap".split()
)
_SHORTEST = 4
"""Letters of the shortest value that says where it comes from."""


class _Links:
    """Which call wrote what a check names. What the writes hold is looked up, not searched for each
    check: a run may write and fail thousands of times."""

    def __init__(self, reading: Reading, writes: Sequence[FileWrite]) -> None:
        self._reading = reading
        self._writes = [each for each in writes if not each.edit.restored]
        self._tests = [each for each in self._writes if is_test_file(each.edit.path)]
        wrote = {id(each.act) for each in self._writes}
        self._changes = [
            act
            for act in reading.acts
            if not act.reply.failed
            and (id(act) in wrote or (mutates(act.span) and not _runs_program(act)))
        ]

    def join(self, check: FailedCheck) -> FailedCheck:
        """The check with its cause, and without the text it was read from."""
        until = len(self._reading.turns) if check.read_at is None else check.read_at
        return structs.replace(check, cause=self._cause(check, until), detail="", at=None)

    def _cause(self, check: FailedCheck, until: int) -> Evidence | None:
        if check.runner in ANSWER_SCORERS:
            return self._say(check.found or "")
        said = " ".join(filter(None, (check.message, check.expected, check.found)))
        named = _PATH.findall(said)
        found = self._last_of(named, until)
        if found is not None:
            return _wrote(found, found.edit.path)
        if named and _MISSING.search(said):
            return None
        if check.file is not None and not is_test_file(check.file):
            found = self._last_of([check.file], until)
            if found is not None:
                return _wrote(found, found.edit.path)
        value = (check.found or "").strip().strip("'\"`,")
        if len(value) >= _SHORTEST and not value.isalpha():
            acts = (act for act in reversed(self._changes) if act.step <= until)
            act = next((act for act in acts if value in act.key), None)
            if act is not None:
                return Evidence(role="wrote", text=cut(value, 120), step=act.step,
                                span=act.span.id, place=act.name)  # fmt: skip
        shown = [path for path in _PATH.findall(check.detail) if is_own_file(path)]
        found = self._last_of([path for path in shown if not is_test_file(path)], until)
        if found is not None:
            return _wrote(found, found.edit.path)
        imported = _IMPORTED.findall(check.detail)
        found = self._last_of([f"{module}.py" for module, _ in imported], until)
        if found is not None:
            return _wrote(found, found.edit.path)
        names = [missing_name(said), *_CALLED.findall(check.detail), _subject(check.name)]
        return (
            self._definition([name for name in names if name and name not in _COMMON], until)
            or self._own_test(check, until)
            or self._named_for(check, until)
        )

    @cached_property
    def _files(self) -> Mapping[str, Sequence[int]]:
        """The places of the writes, by the name of the file without its folder."""
        return _places((file_name(each.edit.path),) for each in self._writes)

    @cached_property
    def _definitions(self) -> Mapping[str, Sequence[int]]:
        """The places of the writes outside of tests, by the names that they define."""
        return _places(
            () if is_test_file(each.edit.path) else _definitions_in(each) for each in self._writes
        )

    @cached_property
    def _stems(self) -> Mapping[str, Sequence[int]]:
        """The places of the writes, by the words of the file's name without its ending."""
        return _places((_words_of_file(each.edit.path),) for each in self._writes)

    def _last_of(self, paths: Sequence[str], until: int) -> FileWrite | None:
        """The last write of any of some files."""
        places = [self._place(path, until) for path in dict.fromkeys(paths)]
        last = max((place for place in places if place is not None), default=None)
        return None if last is None else self._writes[last]

    def _place(self, path: str, until: int) -> int | None:
        for place in reversed(self._files.get(file_name(path), ())):
            each = self._writes[place]
            if each.step <= until and is_same_file(each.edit.path, path):
                return place
        return None

    def _last_in(self, places: Sequence[int], until: int) -> FileWrite | None:
        writes = (self._writes[place] for place in reversed(places))
        return next((each for each in writes if each.step <= until), None)

    def _definition(self, names: Sequence[str], until: int) -> Evidence | None:
        """The last write that defines one of some names, the first name before the others."""
        for name in dict.fromkeys(names):
            found = self._last_in(self._definitions.get(name, ()), until)
            if found is not None:
                return _wrote(found, f"{name} in {found.edit.path}")
        return None

    def _own_test(self, check: FailedCheck, until: int) -> Evidence | None:
        """The last write of the test itself, where the run wrote it."""
        short = re.split(r"::|›| > |\.", check.name)[-1].partition("[")[0].strip()
        for each in reversed(self._tests):
            if each.step <= until and short and short in (each.edit.after or ""):
                return _wrote(each, f"{short} in {each.edit.path}")
        return None

    def _named_for(self, check: FailedCheck, until: int) -> Evidence | None:
        """The last write of a file whose name stands in the test's: `test_solution_file` is of
        `solution.txt`."""
        words = [word for word in _subject(check.name).lower().split("_") if word not in _OF_FILES]
        found = self._last_in(self._stems.get(" ".join(words), ()), until) if any(words) else None
        return None if found is None else _wrote(found, found.edit.path)

    def _say(self, answer: str) -> Evidence | None:
        """Where the run said the answer that a scorer found."""
        for turn in reversed(self._reading.main):
            said = cut(turn.said, 240)
            if said and not turn.observer and (answer in said or said in answer):
                return Evidence(
                    role="says", text=cut(answer, 120), step=turn.index, span=turn.ask.id
                )
        return None


def _wrote(found: FileWrite, text: str) -> Evidence:
    role = "deleted" if found.edit.removed else "wrote"
    return Evidence(
        role=role, text=text, step=found.step, span=found.act.span.id, place=found.act.name
    )


def _places(keys: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Where each key stands in a list of sets of keys."""
    found: dict[str, list[int]] = {}
    for place, of_one in enumerate(keys):
        for key in of_one:
            found.setdefault(key, []).append(place)
    return found


_DEFINED = re.compile(
    r"\b(?:def|class|function|fn|func|const|let|var) (\w+)|\bfunc \([^)]*\) (\w+)\("
    r"|^[ \t]*([\w.]+) *[:=]",
    re.M,
)


def _definitions_in(write: FileWrite) -> set[str]:
    """The names that a write defines, or that it edits where they are defined."""
    texts = filter(None, (write.edit.after, write.edit.before))
    return {"".join(found) for text in texts for found in _DEFINED.findall(text)}


def _words_of_file(path: str) -> str:
    stem = path.rstrip("/").rpartition("/")[2].partition(".")[0].lower()
    return " ".join(re.split(r"[-_]", stem)) if len(stem) >= _SHORTEST else ""


_OF_FILES = frozenset(
    "file files content contents exists exist output format value created correct valid data is"
    " the".split()
)
"""Words of a test's name that say what it looks at, not at which file."""


def _subject(name: str) -> str:
    """What a test is of, by its name: `test_open_async` is of `open_async`."""
    short = re.split(r"::|\.", name)[-1].partition("[")[0]
    return short.removeprefix("test_") if short.startswith("test_") else ""


# --- from green to red


def _red_edit(runs: Sequence[StepChecks], writes: Sequence[FileWrite]) -> RedEdit | None:
    """The edit after which a check that had passed failed to the end."""
    last = {key: place for place, each in enumerate(runs) for key in _passed_keys(each)}
    before: dict[_Key, int] = {}
    for place, red in enumerate(runs):
        if red.run.failed:
            failed = _failed_keys(red)
            green = max((before[key] for key in failed if key in before), default=None)
            if green is not None and all(last.get(key, -1) <= place for key in failed):
                edit = _last_between(writes, runs[green], red)
                if edit is not None:
                    return edit
        before |= dict.fromkeys(_passed_keys(red), place)
    return None


def _last_between(
    writes: Sequence[FileWrite], green: StepChecks, red: StepChecks
) -> RedEdit | None:
    """The last edit between a run of checks that passed and one that failed."""
    for place in range(bisect_right(writes, red.act.step, key=lambda each: each.step) - 1, -1, -1):
        last = writes[place]
        if last.step <= green.act.step:
            return None
        if last.act is not green.act:
            return RedEdit(
                step=last.step,
                span=last.act.span.id,
                path=last.edit.path,
                tool=last.act.name,
                check=cut(red.command, 60),
                green=green.act.step,
                red=red.act.step,
            )
    return None


_Key = tuple[str, str, str]
"""A runner, and either the name of a check or the command that ran all of them."""


def _passed_keys(checks: StepChecks) -> list[_Key]:
    runner = checks.run.runner
    names = [(runner, name, "") for name in checks.run.succeeded]
    return [*names, (runner, "", checks.command)] if checks.run.is_green else names


def _failed_keys(checks: StepChecks) -> list[_Key]:
    """What a run that passed it would have to name: one of its checks, or the whole command."""
    runner = checks.run.runner
    names = [(runner, check.name, "") for check in checks.run.failures]
    return [*names, (runner, "", checks.command)]
