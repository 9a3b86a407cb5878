"""What was read of the rules' findings, and what was counted: kept beside this file, for the docs.

A row is one finding that a person read with the outcome hidden: whether what it says is true and
names a failure of its class, and why, in our own words. Nothing of the runs themselves is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from replay.statistics import rate

FILE = Path(__file__).with_name("precision.json")

Sample = Literal["development", "fresh"]
Verdict = Literal["true", "false", "unclear"]


class Row(Struct, frozen=True, kw_only=True):
    """One finding that was read. Rows of the `development` sample led to repairs; the `fresh` ones
    were drawn after them."""

    sample: Sample
    rule: str
    source: str
    run: str
    step: int
    verdict: Verdict
    reason: str


class Share(Struct, frozen=True, kw_only=True):
    """Of a source: runs that passed and that failed, and those that are given a class."""

    source: str
    runs: int = 0
    passed: int = 0
    alarms: int = 0
    failed: int = 0
    classed: int = 0
    classed_hidden: int = 0
    classed_before: int | None = None
    alarms_before: int | None = None
    by_rule: dict[str, int] = {}


class Agreement(Struct, frozen=True, kw_only=True):
    """Findings on runs that people annotated: those at a step with an error, next to one, with its
    class too; and how many random steps of the same runs would have one."""

    findings: int = 0
    step: int = 0
    near: int = 0
    classed: int = 0
    chance: float = 0.0


class ProbeShare(Struct, frozen=True, kw_only=True):
    """What a probe of `arc audit` found over the runs of all agents: of the `checks` they held,
    `failed`; of the `runs` with any, `runs_failed`; of those of these that `passed`, `alarms`."""

    probe: str
    unit: str
    checks: int = 0
    failed: int = 0
    runs: int = 0
    runs_failed: int = 0
    passed: int = 0
    alarms: int = 0
    unread: int = 0


class Precision(Struct, frozen=True, kw_only=True):
    """Everything read and counted. `engine` is the version of the rules that were counted."""

    date: str = ""
    engine: str = ""
    shares: tuple[Share, ...] = ()
    agreement: Agreement = Agreement()
    rows: tuple[Row, ...] = ()
    probes: tuple[ProbeShare, ...] = ()
    audited: tuple[Row, ...] = ()


def shipped() -> Precision:
    """What was last published; empty where nothing was."""
    if not FILE.exists():
        return Precision()
    return msgspec.json.decode(FILE.read_bytes(), type=Precision)


def save(results: Precision) -> None:
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def tables(results: Precision) -> str:
    """The tables of the page, in Markdown."""
    return "\n\n".join(
        (
            f"Measured {results.date}, with version {results.engine.split()[-1]} of the rules.",
            "## Precision by reading",
            _precision(results.rows),
            "## Runs that are given a class",
            _shares(results.shares),
            _alarms(results.shares),
            "## Against people's annotations",
            _agreed(results.agreement),
            "## What was read",
            *(f"### {rule}\n\n{_read(results.rows, rule)}" for rule in _rules(results.rows)),
            "## What `arc audit` finds",
            IN_SAMPLE,
            _probes(results.probes),
            _precision(results.audited, ("first version", "now")),
            *(f"### {rule}\n\n{_read(results.audited, rule)}" for rule in _rules(results.audited)),
        )
    )


IN_SAMPLE = """The probes of `arc audit`, on the runs of all agents with their outcome hidden. What
is checked is what a rule could look for; what is not read is in no rate. Every finding was read, of
the first version of a probe (`development`) and of the present one (`fresh`). These are the same
runs: the rule for faithfulness was mended by what was false in the first, so its precision now is
in-sample and, with so few findings, says little of other agents. That few are found does not say
that few are there."""


def precision(rows: Sequence[Row], rule: str, sample: Sample = "fresh") -> tuple[int, int]:
    """(true, read) of a rule; what is unclear is read and not true."""
    verdicts = Counter(row.verdict for row in rows if row.rule == rule and row.sample == sample)
    return verdicts["true"], verdicts.total()


def _rules(rows: Sequence[Row]) -> list[str]:
    return sorted({row.rule for row in rows})


def _precision(
    rows: Sequence[Row], samples: tuple[str, str] = ("first sample", "fresh sample")
) -> str:
    found = [("rule", *samples, "precision", "95 % interval")]
    for rule in _rules(rows):
        before, after = precision(rows, rule, "development"), precision(rows, rule)
        share = rate(*after)
        interval = "–" if share.value is None else f"{share.low:.2f} to {share.high:.2f}"
        found.append((rule, _of(*before), _of(*after), _value(share.value), interval))
    return _table(found)


def _shares(shares: Sequence[Share]) -> str:
    found = [
        ("source", "runs", "passed, given a class", "share, 95 % interval", "before",
         "failed, given a class", "outcome hidden", "before"),
    ]  # fmt: skip
    for each in shares:
        share = rate(each.alarms, each.passed)
        interval = f"{share.value:.1%}, {share.low:.1%} to {share.high:.1%}" if share.n else "–"
        found.append(
            (
                each.source,
                str(each.runs),
                _of(each.alarms, each.passed),
                interval,
                _known(each.alarms_before, each.passed),
                _of(each.classed, each.failed),
                _of(each.classed_hidden, each.failed),
                _known(each.classed_before, each.failed),
            )
        )
    return _table(found)


def _probes(probes: Sequence[ProbeShare]) -> str:
    found = [
        ("probe", "checked", "failed", "runs that failed, 95 % interval",
         "passed runs that failed, 95 % interval", "not read"),
    ]  # fmt: skip
    found += [
        (
            each.probe,
            each.unit,
            _of(each.failed, each.checks),
            _share_of(each.runs_failed, each.runs),
            _share_of(each.alarms, each.passed),
            str(each.unread),
        )
        for each in probes
    ]
    return _table(found)


def _share_of(hits: int, n: int) -> str:
    share = rate(hits, n)
    return f"{_of(hits, n)}, {share.low:.1%} to {share.high:.1%}" if n else "–"


def _alarms(shares: Sequence[Share]) -> str:
    """Which rules name the runs that passed."""
    found = Counter[str]()
    for each in shares[-1:]:
        found.update(each.by_rule)
    named = ", ".join(f"{rule} {count}" for rule, count in sorted(found.items()))
    return f"Runs of the last row that passed, by rule: {named or 'none'}."


def _agreed(agreed: Agreement) -> str:
    return _table(
        [
            ("findings", "at a step with an error", "at such a step by chance", "next to one",
             "with its class"),
            (str(agreed.findings), str(agreed.step), f"{agreed.chance:.1f}", str(agreed.near),
             str(agreed.classed)),
        ]
    )  # fmt: skip


def _read(rows: Sequence[Row], rule: str) -> str:
    found = [("sample", "run", "step", "verdict", "reason")]
    for row in rows:
        if row.rule == rule:
            run = f"{row.source}: {row.run}"
            found.append((row.sample, run, str(row.step), row.verdict, row.reason))
    return _table(found)


def _of(hits: int, n: int) -> str:
    return f"{hits} of {n}" if n else "–"


def _known(hits: int | None, n: int) -> str:
    return "–" if hits is None else _of(hits, n)


def _value(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    dashes = " | ".join("---" for _ in rows[0])
    return "\n".join(f"| {line} |" for line in (lines[0], dashes, *lines[1:]))
