"""What lies beside the run of a SWE-bench instance: was its patch right, and under which name?

The harness writes `report.json`, one for an instance or one for a whole run; submissions keep
`results.json`; agents write their patches to `preds.json`, under the name of the run. They are
looked for in the folder of the run's file, the two above it and a `results` folder there, and
nowhere else. Which tests failed is kept as reference, where no judge looks: it tells the outcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from replay import files
from replay.depth import from_text
from replay.formats.chat import cut
from replay.formats.fields import known, listed, obj, word
from replay.formats.intake import Source
from replay.trace import Json, Outcome

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


def beside(source: Source, instance: str | None) -> Verdict:
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
    tests = _tests(obj(report.get("tests_status")))
    return Verdict(outcome=outcome, reference=known(check=known(tests=tests)))


def first_line(text: str) -> str | None:
    """A title of the words an instance is given with: the issue's first line, prefaces left out."""
    found = _MARKS.search(text, 0, _LOOKED_AT)
    told = text[found.end() :] if found is not None else text
    lines = told[:_LOOKED_AT].strip().splitlines()
    return cut(lines[0]) if lines else None


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


def _tests(status: dict[str, Any]) -> dict[str, Json]:
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
