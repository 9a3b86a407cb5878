"""A bisection as Markdown, to paste into an issue or a commit: what was found, and its bounds."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.bisect.view import BisectView, VersionRow


def bisect_markdown(view: BisectView) -> str:
    """The verdict, a row a version, the diff, what it does not say."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: BisectView) -> Iterator[str]:
    yield f"**{format.one_line(view.sentence)}**"
    yield ""
    for notice in view.notices:
        yield f"- ! {format.one_line(notice)}"
    yield "| version | bad | first bad? | |"
    yield "|---|---|---|---|"
    yield from map(_row, view.rows)
    if view.unchanged is not None:
        yield f"| nothing changed | | {view.unchanged:.2f} | |"
    yield ""
    if view.diff:
        fence = "`" * max(3, 1 + max(_ticks(line) for line in view.diff))
        yield from (f"{fence}diff", *map(format.plain, view.diff), fence, "")
    where = "" if view.step is None else f" at step {view.step}"
    yield f"Bad: {format.one_line(view.oracle)}{where}, of trace {view.trace[:8]}. Asked:"
    yield (
        f"{format.one_line(view.model)}, {view.samples} + {view.checks} answers."
        f" {'Not finished.' if view.digest is None else f'Digest {view.digest}.'}"
    )
    yield from (f"- {format.one_line(each)}" for each in view.says_not)


def _row(row: VersionRow) -> str:
    name = format.one_line(row.name).replace("|", "\\|")
    note = format.one_line(row.note).replace("|", "\\|")
    likely = "" if row.likely is None else f"{row.likely:.2f}"
    lost = f" · {row.censored} lost" if row.censored else ""
    shown = f"**{name}**" if row.among else name
    return f"| {shown} | {row.hits}/{row.bad.n}{lost} | {likely} | {note} |"


def _ticks(line: str) -> int:
    """The longest run of backticks in a line."""
    longest = run = 0
    for character in line:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
