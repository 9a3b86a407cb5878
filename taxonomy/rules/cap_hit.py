"""Other, cap hit or serving error: the run was stopped by something else than itself.

Reads what the source says of its end: a limit, a subtype, an exit status on the run's own span, an
error that names one, the stop reason of the last answer, the exception that ended its trial, a cap
of the recorder's that refused a call. Where
the last call of the model came back as an error of its service, the failure is attributed to the
environment. That a run merely ends after a call says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.trace import CAP_LABEL, STOP_LABEL, AgentSpan, Json, ModelCall
from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.reading import Turn, leaves
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "cap hit"

_TOLD_BY = (
    "limit",
    "result_subtype",
    "terminal_reason",
    "termination_reason",
    "exit_status",
    "stop_reason",
    "exception",
)
CAP_WORDS = re.compile(
    r"max[ _]?(?:imum)?[ _]?(?:turn|step|iteration|message|token|call)|limit|budget|timed?[ _-]?out"
    r"|deadline|exit_(?:cost|context|total)|context[ _]window|too[ _]many|exceeded|length",
    re.I,
)
SERVING_WORDS = re.compile(
    r"overloaded|rate.?limit|too many requests|internal server error|service unavailable"
    r"|bad gateway|api (?:connection |status )?error|connection (?:error|reset|refused|aborted)"
    r"|\b(?:5\d\d|429|529)\b|authentication|invalid (?:x-)?api.?key|insufficient.quota|credit"
    r"|apiconnectionerror|internalservererror|upstream",
    re.I,
)
"""How a service of models words that it, not the run, failed."""

_SERVED_WORDS = re.compile(r"\s*(?:api error|request failed)\b[: (]", re.I)
"""An answer that is no answer: the runner put the service's error into the model's mouth."""

SERVING = "serving error"

_CHECKS = re.compile(r"verif|test|grad|scor", re.I)
"""Exceptions of the check, which came after the run."""

STOPS = {
    "length": "response truncated at the token limit",
    "context": "context window full",
}


def find(case: RuleContext) -> Iterator[Finding]:
    """One finding at the last step of a run that did not pass and was stopped."""
    turns = case.reading.main
    if case.reading.passed or not turns:
        return
    last = turns[-1]
    refused = refused_here(case, last)
    failed = None if refused else served_badly(case, last)
    told = refused or failed or cap(case, last)
    if told is None:
        return
    why, evidence = told
    yield Finding(
        failure=FailureClass.OTHER,
        sub=SERVING if failed else NAME,
        attribution=Attribution.ENVIRONMENT if failed else None,
        step=last.index,
        span=last.ask.id,
        why=why,
        rule=NAME,
        evidence=(evidence,),
    )


def refused_here(case: RuleContext, last: Turn) -> tuple[str, Evidence] | None:
    """The cap at which, or the order by which, the recorder refused a call of the run."""
    labels = case.trace.header.labels
    for label, why in ((CAP_LABEL, "stopped by a cap of arc record: "), (STOP_LABEL, "")):
        if label in labels:
            return why + cut(labels[label], 100), _evidence_of(labels[label], last.ask.id, label)
    return None


def served_badly(case: RuleContext, last: Turn) -> tuple[str, Evidence] | None:
    """The error of the model's service that ended the run, None where there was none."""
    root = next((span for span in case.trace.spans if isinstance(span, AgentSpan)), None)
    for span in (_last_model_call(last), root):
        if span is not None and span.error and SERVING_WORDS.search(span.error):
            words = cut(span.error, 60)
            return f"model API failed: {words}", _evidence_of(words, span.id, "error")
    words = cut(last.said, 80)
    if not last.acts and _SERVED_WORDS.match(last.said):
        return f"model API failed: {cut(last.said, 60)}", _evidence_of(words, last.ask.id, "said")
    return None


def cap(case: RuleContext, last: Turn) -> tuple[str, Evidence] | None:
    """Which limit stopped the run, and what says so; None where nothing does."""
    root = next((span for span in case.trace.spans if isinstance(span, AgentSpan)), None)
    if root is not None:
        for name in _TOLD_BY:
            value = root.extra.get(name)
            if value and (name == "limit" or CAP_WORDS.search(str(value))):
                words = _words(value)
                return f"stopped by a limit: {words}", _evidence_of(words, root.id, name)
    for span in (root, _last_model_call(last)):
        if span is not None and span.error and CAP_WORDS.search(span.error):
            words = cut(span.error, 60)
            return f"stopped: {words}", _evidence_of(words, span.id, "error")
    ended_by = (case.trace.header.reference or {}).get("ended_by")
    if isinstance(ended_by, str) and CAP_WORDS.search(ended_by) and not _CHECKS.match(ended_by):
        return f"stopped: {cut(ended_by, 60)}", _evidence_of(cut(ended_by), None, "trial record")
    stop = last.ask.response.stop
    if stop in STOPS:
        return STOPS[stop], _evidence_of(stop, last.ask.id, "stop reason")
    if root is not None and "tool_names" in root.extra and "result_subtype" not in root.extra:
        return "truncated: no end marker", _evidence_of("no result", root.id, "stream")
    return None


def _last_model_call(last: Turn) -> ModelCall | None:
    """The last call of a model; None where a terminal spoke, whose errors are those of the code."""
    return None if last.observer else last.ask


def _words(value: Json) -> str:
    """`message 50` of `{"type": "message", "limit": 50}`."""
    if not isinstance(value, dict):
        return cut(str(value), 60)
    return cut(" ".join(str(leaf) for _, leaf in leaves(value) if leaf is not None), 60)


def _evidence_of(words: str, span: str | None, place: str) -> Evidence:
    return Evidence(role="stated", text=words, span=span, place=place)


RULE = Rule(name=NAME, find=find, denies="ended", counts_as=FailureClass.GAVE_UP, share=0.4)
