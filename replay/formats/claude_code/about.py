"""What does a Claude Code session say of itself: its title, where it ran, how it ended?

None of it is an outcome: a run that ends with `success` has ended, not succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from replay.formats.chat import cut
from replay.formats.claude_code.line import Line, first_text, is_noise
from replay.formats.normal import usd
from replay.trace import Json, Status

_RESULT = ("is_error", "terminal_reason", "num_turns", "duration_ms", "duration_api_ms")


def is_init(line: Line) -> bool:
    """Is this the line a stream begins a run with?"""
    return line.subtype == "init"


def beginning(main: list[Line]) -> dict[str, Json]:
    """What the last beginning of a stream says; of the tools it gives the names alone."""
    record = next((line.record for line in reversed(main) if is_init(line)), {})
    tools = record.get("tools")
    names = [tool for tool in tools if isinstance(tool, str)] if isinstance(tools, list) else []
    found = {
        "model": record.get("model"),
        "cwd": record.get("cwd"),
        "version": record.get("claude_code_version"),
    }
    return ({"tool_names": names} if names else {}) | _plain(found)


def ending(ends: list[dict[str, Json]]) -> dict[str, Json]:
    """What the result lines of a stream say, the last one first; none of it is an outcome."""
    told = [
        _plain({"result_subtype": end.get("subtype"), **{name: end.get(name) for name in _RESULT}})
        for end in ends
    ]
    if not told:
        return {}
    return told[-1] | ({"earlier_results": told[:-1]} if told[1:] else {})


def status(ends: list[dict[str, Json]]) -> tuple[Status, str | None]:
    if not ends:
        return "unset", None
    subtype = first_text(ends[-1], "subtype") or ""
    if ends[-1].get("is_error") is True or subtype.startswith("error"):
        return "error", first_text(ends[-1], "result") or subtype or "error"
    return "ok", None


def reported_cost(ends: list[dict[str, Json]]) -> float | None:
    """The last total: it counts on from one result line to the next."""
    return usd(ends[-1].get("total_cost_usd")) if ends else None


def labels(main: list[Line]) -> dict[str, str]:
    fields = {
        "cwd": ("cwd",),
        "version": ("version", "claude_code_version"),
        "git_branch": ("gitBranch",),
    }
    found = {
        label: next((word for line in main if (word := line.word(*names))), None)
        for label, names in fields.items()
    }
    return {label: word for label, word in found.items() if word is not None}


def summaries(found: Iterable[Line]) -> dict[str, str]:
    """Summaries by the line they end at: they stand in any session's file."""
    summaries = (line for line in found if line.kind == "summary")
    return {line.word("leafUuid") or "": line.word("summary") or "" for line in summaries}


def title(own: list[Line], main: list[Line], summaries: dict[str, str]) -> str | None:
    """The title a person or the model gave, else the summary, else what the user first asked."""
    candidates = chain(
        (line.word("customTitle") for line in reversed(own) if line.kind == "custom-title"),
        (line.word("aiTitle") for line in reversed(own) if line.kind == "ai-title"),
        (summaries.get(line.uuid) for line in reversed(own) if line.uuid),
        (line.prompt for line in main if _is_asked(line)),
    )
    shown = (text.strip().splitlines()[0] for text in candidates if text and text.strip())
    return next(map(cut, shown), None)


def _is_asked(line: Line) -> bool:
    """Did a person write this prompt?"""
    if line.flag("isMeta") or line.flag("isCompactSummary"):
        return False
    return bool(line.prompt) and not is_noise(line.prompt)


def _plain(found: dict[str, Json]) -> dict[str, Json]:
    """The fields that are known and no containers."""
    return {name: value for name, value in found.items() if isinstance(value, (str, int, float))}
