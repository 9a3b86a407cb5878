"""A gate for other programs: JUnit XML for a test report, Markdown for the summary of a CI run.

Names of tasks are foreign text: in XML they are attributes without a character that XML 1.0 lacks,
in Markdown code spans, in which nothing is a link, a mention or markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from arc_tui.ui import format
from arc_tui.ui import markdown as md
from arc_tui.views.gate import (
    GateView,
    basis,
    cells,
    facts,
    notices,
    power_line,
    reasons,
    sentence,
    sides,
    verdict_of,
)
from arc_tui.views.matrix import trials_text
from taxonomy.gate import TaskPair

# --- JUnit

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write."""

VERDICT = "verdict"
"""The test case that fails wherever the gate blocks."""


def junit(view: GateView) -> bytes:
    """JUnit XML: the verdict and each task as a test case.

    Tasks fail only where the gate blocks, so that a report is red when the exit code is; those that
    cannot be compared are skipped.
    """
    suite = ElementTree.Element("testsuite", name="arc gate")
    given = ElementTree.SubElement(suite, "properties")
    for name, query in (("baseline", view.baseline.query), ("candidate", view.candidate.query)):
        ElementTree.SubElement(given, "property", name=name, value=_xml(format.one_line(query)))
    suite.append(_verdict_case(view))
    suite.extend(_task_case(view, pair) for pair in view.rows)
    for why, tasks in (
        ("in baseline only", view.only_baseline),
        ("in candidate only", view.only_candidate),
        ("no outcome in one of the groups", view.no_outcome),
    ):
        for task in tasks:
            case = _case(task)
            ElementTree.SubElement(case, "skipped", message=f"not compared: {why}")
            suite.append(case)
    cases = suite.findall("testcase")
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    suites = ElementTree.Element("testsuites", name="arc gate")
    suites.append(suite)
    ElementTree.indent(suites)
    return (
        b'<?xml version="1.0" encoding="UTF-8"?>\n%s\n'
        % ElementTree.tostring(suites, encoding="unicode").encode()
    )


def _case(task: str, of: str = "arc.gate.task") -> ElementTree.Element:
    return ElementTree.Element("testcase", name=_xml(format.one_line(task)), classname=of)


def _verdict_case(view: GateView) -> ElementTree.Element:
    case = _case(VERDICT, "arc.gate")
    said = "\n".join(_lines(view))
    status = view.decision.status
    if status == "green":
        ElementTree.SubElement(case, "system-out").text = _xml(said)
        return case
    tag = "failure" if status == "regression" else "error"
    problem = ElementTree.SubElement(case, tag, message=_xml(sentence(view)), type=status)
    problem.text = _xml(said)
    return case


def _task_case(view: GateView, pair: TaskPair) -> ElementTree.Element:
    case = _case(pair.task)
    said = f"{trials_text(pair.baseline)} → {trials_text(pair.candidate)}"
    if view.decision.status == "regression" and pair.change < 0:
        message = f"worse than the baseline: {said}"
        ElementTree.SubElement(case, "failure", message=message, type="worse")
    else:
        ElementTree.SubElement(case, "system-out").text = said
    return case


def _xml(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _lines(view: GateView) -> Iterator[str]:
    yield sentence(view)
    yield from reasons(view)
    yield from filter(None, [power_line(view)])
    yield from notices(view)
    yield from basis(view)


# --- Markdown

LISTED = 50
"""Tasks of a Markdown table at most; the others are counted."""

_NAME = 40


def markdown(view: GateView) -> str:
    """Markdown for a summary: verdict, figures, and the tasks that changed, in narrow tables."""
    return "\n".join(_markdown(view)) + "\n"


def _markdown(view: GateView) -> Iterator[str]:
    yield f"### arc gate: {verdict_of(view)}"
    yield ""
    yield md.escape(sentence(view))
    for line in filter(None, (*reasons(view), power_line(view))):
        yield ""
        yield md.escape(line)
    yield ""
    before, after = (
        _side(name, each.query)
        for name, each in zip(sides(view), (view.baseline, view.candidate), strict=True)
    )
    yield f"| | {before} | {after} |"
    yield "| --- | --- | --- |"
    for name, before, after in facts(view):
        yield f"| {md.escape(name)} | {md.escape(before)} | {md.escape(after)} |"
    changed = [pair for pair in view.rows if pair.change]
    if changed:
        yield ""
        yield f"| task | {' | '.join(sides(view))} | change |"
        yield "| --- | --- | --- | --- |"
        for pair in changed[:LISTED]:
            task, before, after, change = cells(pair)
            yield f"| {md.cell(task, _NAME)} | {before} | {after} | {md.escape(change)} |"
    unchanged = len(view.rows) - len(changed)
    more = [
        f"{format.count(len(changed) - LISTED, 'more task')} changed"
        if len(changed) > LISTED
        else "",
        f"{format.count(unchanged, 'task')} unchanged" if unchanged else "",
    ]
    if any(more):
        yield ""
        yield f"{'; '.join(filter(None, more))}."
    for line in notices(view):
        yield ""
        yield md.escape(line)
    yield ""
    yield "<details><summary>How this is decided</summary>"
    yield ""
    yield from (f"* {md.escape(line)}" for line in basis(view))
    yield ""
    yield "</details>"


def _side(name: str, query: str) -> str:
    return f"{name}<br>{md.cell(query, _NAME)}" if query else name
