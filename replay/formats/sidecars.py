"""What lies beside a trace: task, trial, outcome and check that the trace itself does not carry.

`result.json`, rewards, rows of an `index.jsonl`, verifier output; for SWE-bench instances
whether the patch was right.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay import files
from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.common import known, listed, number, obj, word
from replay.formats.source import Source, Tally
from replay.patterns import Pattern, TooLong, Unusable
from replay.trace import Batch, Header, Json, Outcome

_FIELDS = ("task", "trial", "variant", "agent")
_ALL_FIELDS = (*_FIELDS, "version")

_PRINTED = 20_000
"""Characters kept of what a check printed: its end, where the failures stand."""


class Sidecar(Struct, frozen=True, kw_only=True):
    """What was found; `fill` puts it where the source was silent.

    `reference` joins the trace's own, name by name: `check` holds what the check of the run
    `printed` and its `tests` (name to status), `ended_by` the exception that ended the trial,
    `asked` the task's text.
    """

    task: str | None = None
    trial: str | None = None
    variant: str | None = None
    agent: str | None = None
    version: str | None = None
    outcome: Outcome = Outcome()
    reference: dict[str, Json] = {}

    @classmethod
    def find(cls, source: Source, task_from: str | None = None) -> Sidecar:
        """The sidecars of a file. Raises BadTrace where `task_from` is no regular expression."""
        found = cls()
        if source.display != "-":
            # "." has no folder above it: from within a folder, a file is named without one.
            named = Path(os.path.abspath(source.path))
            for path in dict.fromkeys((named, named.resolve())):
                for later in (_harbor(path), _terminal_bench(path), _index(path)):
                    found = found.under(later)
        return found.under(_from_path(source.display, task_from)) if task_from else found

    def under(self, other: Sidecar) -> Sidecar:
        """This one, with `other` where this one is silent."""
        fields = {name: getattr(self, name) or getattr(other, name) for name in _ALL_FIELDS}
        outcome = self.outcome if self.outcome.status != "unknown" else other.outcome
        reference = {**other.reference, **self.reference}
        return Sidecar(**fields, outcome=outcome, reference=reference)

    def fill(self, batch: Batch) -> Batch:
        header = batch.header
        fields = {name: getattr(header, name) or getattr(self, name) for name in _FIELDS}
        silent = header.outcome.status == "unknown" and self.outcome.status != "unknown"
        outcome = self.outcome if silent else header.outcome
        reference = {**self.reference, **(header.reference or {})} or None
        labels = known(version=self.version) | header.labels
        filled: Header = structs.replace(
            header, **fields, outcome=outcome, reference=reference, labels=labels
        )
        return structs.replace(batch, header=filled)


def _harbor(path: Path) -> Sidecar:
    """`<trial>/result.json` and `<trial>/verifier/reward.txt` for `<trial>/agent/<file>`."""
    for folder in (path.parent, path.parent.parent):
        result = _object(folder / "result.json")
        reward = _reward(folder)
        if not result and reward is None:
            continue
        # Where the trial's own record says that the verifier gave no verdict (it timed out), a
        # reward file left behind is none.
        rewards = (result.get("verifier_result") or {}).get("rewards") or {}
        value = rewards.get("reward") if result else reward
        info = result.get("agent_info") or {}
        return Sidecar(
            task=_text(result.get("task_name")),
            trial=_text(result.get("trial_name")),
            agent=_text(info.get("name")),
            version=_text(info.get("version")),
            outcome=rewarded(value, "verifier"),
            reference=known(
                check=known(printed=_printed(folder), tests=_tests(folder)),
                ended_by=_exception(obj(result.get("exception_info"))),
            ),
        )
    return Sidecar()


def _terminal_bench(path: Path) -> Sidecar:
    """`results.json` of a trial of the first Terminal-Bench, up to two folders above, with the
    status that its parser gave each test; what the tests printed is in `panes/post-test.txt`."""
    for folder in (path.parent, path.parent.parent):
        result = _object(folder / "results.json")
        tests, resolved = obj(result.get("parser_results")), result.get("is_resolved")
        if not tests and not isinstance(resolved, bool):
            continue
        mode = result.get("failure_mode")
        return Sidecar(
            task=_text(result.get("task_id")),
            trial=_text(result.get("trial_name")),
            outcome=_resolved(resolved, "results.json"),
            reference=known(
                check=known(printed=_printed(folder), tests=tests),
                ended_by=_text(mode) if mode not in ("unset", "none") else None,
                asked=_text(result.get("instruction")),
            ),
        )
    return Sidecar()


def _resolved(value: Any, by: str) -> Outcome:
    """The outcome of a yes or no, unknown where it is neither."""
    if not isinstance(value, bool):
        return Outcome()
    return Outcome(status="passed" if value else "failed", value=float(value), by=by)


_OUTPUTS = ("verifier/test-stdout.txt", "test-stdout.txt", "panes/post-test.txt")
"""Where verifiers leave what they printed."""


def _printed(folder: Path) -> str | None:
    """What the verifier printed, its beginning left out where that is long."""
    for place in _OUTPUTS:
        try:
            text = files.read(folder / place).decode(errors="replace")
        except OSError:
            continue
        over = len(text) - _PRINTED
        return text if over <= 0 else f"[{over} characters before this left out]\n{text[over:]}"
    return None


def _tests(folder: Path) -> dict[str, Json]:
    """The tests of the verifier's report by name, with their status."""
    for place in (folder / "verifier" / "ctrf.json", folder / "ctrf.json"):
        tests = listed(obj(_object(place).get("results")).get("tests"))
        found = {str(obj(test).get("name")): _text(obj(test).get("status")) for test in tests}
        if found:
            return dict(found)
    return {}


def _exception(info: dict[str, Any]) -> str | None:
    """`AgentTimeoutError: Agent execution timed out after 900.0 seconds`."""
    parts = (_text(info.get("exception_type")), _text(info.get("exception_message")))
    return ": ".join(part for part in parts if part) or None


def _reward(folder: Path) -> float | None:
    for place in (folder / "verifier" / "reward.txt", folder / "reward.txt"):
        try:
            return float(files.read(place).strip())
        except (OSError, ValueError):
            continue
    return None


def rewarded(value: Any, by: str) -> Outcome:
    """The outcome of a reward: passed at 1.0, unknown where there is none."""
    reward = None if isinstance(value, bool) else number(value)
    if reward is None:
        return Outcome()
    return Outcome(status="passed" if reward >= 1.0 else "failed", value=reward, by=by)


def _index(path: Path) -> Sidecar:
    """The row of an `index.jsonl`, in the file's folder or the one above, that names the file."""
    for folder in (path.parent, path.parent.parent):
        index = folder / "index.jsonl"
        try:
            known = index.stat()
        except OSError:
            continue
        if S_ISREG(known.st_mode):
            row = _Index.read(index, (known.st_mtime_ns, folder.stat().st_mtime_ns)).row(path)
            if row is not None:
                return _row(row)
    return Sidecar()


class _Index:
    """The rows of an `index.jsonl` by the `file` each names: a path from its own folder, a whole
    one, or a name alone. A name that stands for several files tells of none of them."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._rows: dict[str, dict[str, Any] | None] = {}
        self._below: Counter[str] | None = None
        for row in _rows(path):
            name = row.get("file")
            if isinstance(name, str):
                name = str(PurePosixPath(name.replace("\\", "/")))
                self._rows[name] = row if self._rows.get(name, row) == row else None

    @classmethod
    @lru_cache(maxsize=4)
    def read(cls, path: Path, _changed_ns: tuple[int, int]) -> _Index:
        """The index, as of its and its folder's last change: many runs read it once."""
        return cls(path)

    def row(self, path: Path) -> dict[str, Any] | None:
        """The row that names the file, None where none does or where it could be another's."""
        for name in (path.relative_to(self._folder).as_posix(), path.as_posix()):
            if name in self._rows:
                return self._rows[name]
        row = self._rows.get(path.name)
        return row if row is not None and self._is_only(path.name) else None

    def _is_only(self, name: str) -> bool:
        """Is there one file of that name here and one folder below?"""
        if self._below is None:
            self._below = Counter(each.name for each in self._folder.glob("*/*"))
        return self._below[name] + (self._folder / name).exists() == 1


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; none where it cannot be read."""
    try:
        lines = files.read(path).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            row = from_text(line)
        except msgspec.DecodeError:
            continue
        if isinstance(row, dict):
            yield row


def _row(row: dict[str, Any]) -> Sidecar:
    resolved, mode = row.get("is_resolved"), row.get("failure_mode")
    outcome = _resolved(resolved, "index.jsonl")
    if outcome.status == "unknown":
        outcome = rewarded(row.get("reward"), "index.jsonl")
    return Sidecar(
        task=_text(row.get("task")),
        trial=_text(row.get("trial")),
        variant=_text(row.get("variant") or row.get("model")),
        outcome=outcome,
        reference=known(
            check=known(tests=obj(row.get("tests"))),
            ended_by=_text(mode) if mode not in ("unset", "none") else None,
            asked=_text(row.get("instruction")),
        ),
    )


def _from_path(path: str, pattern: str) -> Sidecar:
    try:
        found = Pattern(pattern).search(path)
    except Unusable as error:
        raise BadTrace("--task-from", "", str(error), error.hint) from error
    except TooLong as error:
        raise BadTrace("--task-from", "", f"might take too long for {path}") from error
    groups = found.groupdict() if found else {}
    return Sidecar(
        task=groups.get("task"),
        trial=groups.get("trial"),
        variant=groups.get("variant"),
        agent=groups.get("agent"),
    )


def _object(path: Path) -> dict[str, Any]:
    try:
        value = from_text(files.read(path))
    except (OSError, msgspec.DecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, (dict, list)) else str(value)


MAX_REPORT_BYTES = 64 * 1024 * 1024

_REPORTS = ("report.json", "results.json", "results/results.json")
_PREDICTIONS = ("preds.json", "all_preds.jsonl")
_RUN = (
    ("resolved_ids", "resolved"), ("resolved", "resolved"),
    ("empty_patch_ids", "empty patch"), ("no_generation", "empty patch"),
    ("unresolved_ids", "unresolved"), ("unresolved", "unresolved"),
    ("error_ids", "error"),
)  # fmt: skip
"""Lists of a run's report, and the word for the instances in them."""

_WORDS = {"resolved": "passed", "unresolved": "failed", "empty patch": "failed"}

_MARKS = re.compile(
    r"<(?:pr_description|issue_description|issue|task)>\s*"
    r"(?:Consider the following PR description:\s*)?|^ISSUE:\s*$|Please solve this issue: ",
    re.M,
)
_LOOKED_AT = 200_000


class Verdict(Struct, frozen=True, kw_only=True):
    """What was found of one instance. `reference` holds its `check` as other sidecars do."""

    outcome: Outcome = Outcome()
    variant: str | None = None
    reference: dict[str, Json] = {}


def verdict_of(source: Source, instance: str | None) -> Verdict:
    """The verdict on an instance from the files beside its run; nothing of standard input."""
    if instance is None or source.display == "-":
        return Verdict()
    folders = _folders(source.path)
    said = next(_verdicts(folders, instance), Verdict())
    return msgspec.structs.replace(said, variant=_variant(folders, source.path, instance))


def reported(report: dict[str, Any], by: str) -> Verdict:
    """The verdict of one instance's own report: `resolved`, and the status of its tests."""
    resolved = report.get("resolved")
    if not isinstance(resolved, bool):
        return Verdict()
    outcome = Outcome(status="passed" if resolved else "failed", value=float(resolved), by=by)
    tests = _swe_bench_tests(obj(report.get("tests_status")))
    return Verdict(outcome=outcome, reference=known(check=known(tests=tests)))


def first_line(text: str) -> str | None:
    """A title of the words an instance is given with: the issue's first line, prefaces left out."""
    found = _MARKS.search(text, 0, _LOOKED_AT)
    told = text[found.end() :] if found is not None else text
    return title_line(told[:_LOOKED_AT])


def _folders(path: Path) -> list[Path]:
    try:
        here = path.resolve().parent
    except OSError:
        return []
    return list(dict.fromkeys((here, here.parent, here.parent.parent)))


def _verdicts(folders: list[Path], instance: str) -> Iterator[Verdict]:
    for folder in folders:
        for name in _REPORTS:
            report = obj(_document(folder / name))
            own = reported(obj(report.get(instance)), name)
            if own.outcome.status != "unknown":
                yield own
            for listing, verdict in _RUN:
                if instance in (each for each in listed(report.get(listing)) if each):
                    yield _of_run(verdict, name)


def _of_run(verdict: str, by: str) -> Verdict:
    status = _WORDS.get(verdict)
    if status is None:
        return Verdict(outcome=Outcome(value=verdict, by=by))
    passed = status == "passed"
    return Verdict(
        outcome=Outcome(
            status="passed" if passed else "failed",
            value=1.0 if passed else 0.0,
            by=by,
        )
    )


def _swe_bench_tests(status: dict[str, Any]) -> dict[str, Json]:
    """`FAIL_TO_PASS` and `PASS_TO_PASS` as name to status."""
    return {
        str(test): word_of
        for group in status.values()
        for listing, word_of in (("success", "passed"), ("failure", "failed"))
        for test in listed(obj(group).get(listing))
    }


def _variant(folders: list[Path], path: Path, instance: str) -> str | None:
    """The name of the run that the patch of the instance was handed in under."""
    own = [path.parent / f"{instance}.pred"]
    for place in own + [folder / name for folder in folders for name in _PREDICTIONS]:
        found = _document(place)
        rows = [found, obj(found).get(instance)] if isinstance(found, dict) else listed(found)
        for row in map(obj, rows):
            if row.get("instance_id") == instance:
                return word(row.get("model_name_or_path"))
    return None


def _document(path: Path) -> Json:
    """A JSON file, or the rows of a JSON Lines file; None where it is not there or too large."""
    try:
        about = path.stat()
    except (OSError, ValueError):
        return None
    if about.st_size > MAX_REPORT_BYTES:
        return None
    return _read(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, _changed_ns: int, _size: int) -> Json:
    """Read once for all the runs that lie beside it."""
    try:
        data = files.read(path)
        if path.suffix == ".jsonl":
            rows = (line for line in data.splitlines() if line.strip())
            return from_text(b"[" + b",".join(rows) + b"]")
        return from_text(data)
    except (OSError, msgspec.DecodeError):
        return None


class FileTally(Tally):
    """The tally of such a file: its counts are the main file's, its problems bear its name."""

    def __init__(self, main: Tally, name: str) -> None:
        super().__init__()
        self.counts, self.unknown = main.counts, main.unknown
        self._main, self._name = main, name

    def problem(self, where: str, why: str) -> None:
        self._main.problem(f"{self._name}: {where}", why)
