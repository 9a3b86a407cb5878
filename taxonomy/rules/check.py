"""Other, grader at fault: the grader never ran, or requires what the task does not state.

Reads what the source keeps of the grader beside the run (`replay.formats.sidecars`): its output
and which of its tests failed. A grader never ran where it printed no result of any test and says
why its runner could not start. It requires the unstated where every error it printed is of a file,
a name or an argument that stands nowhere in the task, in what the run saw, or in what it wrote, or
by the names of its tests alone; either is a hint. The value a test expects is no such thing: an
answer need not stand in the question. A prompt edit cannot fix it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from replay.effects import words_of
from replay.trace import Json
from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.check_output import (
    any_ran,
    missing_file,
    missing_name,
    network_errors,
    read_checks,
    runner_errors,
)
from taxonomy.evidence.context_index import plain
from taxonomy.evidence.endings import ending
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "grader at fault"
NEVER_RAN = "grader never ran"
UNSAID = "grader requires the unstated"

RUNNER_MISSING = 0.7
"""Confidence where the runner was not found and nothing says why: the run may have removed it."""

UNSTATED = 0.4
"""Confidence that a grader requires what nobody stated: a hint. What a task leaves open, a reader
may well take for said."""

_OWN = re.compile(r"^/(?:tests?|logs?|tmp)/")
"""Places of the check itself."""

_SAID_OF_TESTS = frozenset(
    "test tests case output outputs check checks verify valid invalid correct correctly exists"
    " exist created create content contents file files format have with error errors raises raise"
    " returns result results structure value values works passes properly expected success"
    " successful basic simple".split()
)
"""Words of a test's name that say how it tests, not what."""


def find(case: RuleContext) -> Iterator[Finding]:
    """At most one finding, at the last step of a failed run."""
    told = _check(case)
    if not case.reading.failed or not told or not case.reading.main:
        return
    printed = told.get("printed")
    text = printed if isinstance(printed, str) else ""
    tests = told.get("tests")
    statuses = tests if isinstance(tests, dict) else {}
    if not statuses and text and not any_ran(text):
        yield from _never_ran(case, text)
    elif _complete(case):
        yield from _unsaid(case, text, statuses)


def _check(case: RuleContext) -> Mapping[str, Json]:
    told = (case.trace.header.reference or {}).get("check")
    return told if isinstance(told, dict) else {}


def _never_ran(case: RuleContext, text: str) -> Iterator[Finding]:
    no_network, no_runner = network_errors(text), runner_errors(text)
    if no_network or no_runner:
        lines = [*no_network[:1], *no_runner[-1:]]
        why = f"grader ran no test: {cut(lines[-1], 60)}"
        sure = None if no_network and no_runner else RUNNER_MISSING
        yield _finding(case, NEVER_RAN, why, lines, sure)


def _unsaid(case: RuleContext, text: str, tests: Mapping[str, Json]) -> Iterator[Finding]:
    """Errors of a check, all of which are of things that nobody named."""
    said = [check.message for run in read_checks(text) for check in run.failures]
    errors = [message for message in said if not message.startswith("assert")]
    wanted = [_wanted(error) for error in errors]
    known = _known(case)
    if not known:
        return
    if errors and all(each and each.lower() not in known for each in wanted):
        what = ", ".join(dict.fromkeys(map(str, wanted)))
        why = f"grader requires {cut(what, 40)}; not in task"
        yield _finding(case, UNSAID, why, errors[:3], UNSTATED)
    elif not text:
        yield from _unsaid_by_name(case, tests, known)


def _wanted(error: str) -> str:
    """The file or name that an error misses, "" where it misses none, or one of the check's."""
    path = missing_file(error)
    if path is None:
        return missing_name(error) or ""
    return "" if _OWN.match(path) else path.rpartition("/")[2]


def _unsaid_by_name(case: RuleContext, tests: Mapping[str, Json], known: str) -> Iterator[Finding]:
    """The only tests that failed, of several, are named for what nobody mentioned."""
    failed = [name for name, status in tests.items() if status == "failed"]
    if not failed or 2 * len(failed) >= len(tests):
        return
    subjects = [_subjects(name, known) for name in failed]
    if all(subjects):
        what = ", ".join(dict.fromkeys(word for words in subjects for word in words))
        why = f"only {cut(failed[0], 40)} failed; the task does not mention {cut(what, 30)}"
        yield _finding(case, UNSAID, why, failed[:3], UNSTATED)


def _subjects(name: str, known: str) -> list[str]:
    """The words of a test's name that nothing known contains, its cases left out."""
    words = words_of(name.partition("[")[0].partition(" ")[0].rpartition("::")[2])
    telling = [word for word in words if len(word) > 3 and word.isalpha()]
    return [w for w in telling if w not in _SAID_OF_TESTS and w.removesuffix("s")[:7] not in known]


def _known(case: RuleContext) -> str:
    """All that the run was told, saw, said and wrote, in small letters; "" without the task."""
    asked = (case.trace.header.reference or {}).get("asked")
    if not isinstance(asked, str) and not case.index.knows_task:
        return ""
    found = [asked if isinstance(asked, str) else ""]
    found += [source.text for source in case.index.sources]
    found += [text for turn in case.reading.turns for text in (turn.said, turn.thought)]
    found += [plain(act.span.arguments) for act in case.reading.acts]
    return "\n".join(found).lower()


def _complete(case: RuleContext) -> bool:
    """Did the run end by itself, and not by giving up?"""
    last = case.reading.main[-1]
    return not last.acts and bool(last.said) and ending(case.reading) is None


def _finding(
    case: RuleContext, sub: str, why: str, lines: Sequence[str], confidence: float | None
) -> Finding:
    last = case.reading.main[-1]
    return Finding(
        failure=FailureClass.OTHER,
        sub=sub,
        attribution=Attribution.GRADER,
        step=last.index,
        span=last.ask.id,
        why=why,
        rule=NAME,
        confidence=confidence,
        evidence=tuple(
            Evidence(role="stated", text=cut(line, 240), place="grader output") for line in lines
        ),
    )


RULE = Rule(name=NAME, find=find)
