"""A comparison as Markdown, to paste into an issue or a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.compare.folding import Line, lines
from arc_tui.views.compare.pair import PairView, Part
from arc_tui.views.compare.view import CompareView
from arc_tui.views.compare.words import MARKS, facts, figures, place, prompts_line


def compare_markdown(view: CompareView) -> str:
    """Who they are, how they differ, and the rows, what is the same folded."""
    parts = [f"## {_code(view.a.name)} against {_code(view.b.name)}", format.plain(view.sentence)]
    parts.append(f"({view.note})")
    parts.append(
        "\n".join(
            f"- {letter}: {_code(who.key)}, {'; '.join(map(_code, facts(who)))}"
            for letter, who in (("A", view.a), ("B", view.b))
        )
    )
    parts.append("\n".join(f"- {_code(each)}" for each in figures(view)))
    told = prompts_line(view.prompts)
    if told:
        parts.append(_code(told))
    parts += [f"- {_code(each)}" for each in view.lacks]
    parts.append(_fenced("\n".join(_line(view, each) for each in lines(view))))
    return "\n\n".join(parts) + "\n"


def _line(view: CompareView, line: Line) -> str:
    if line.kind != "row":
        return f"    {format.one_line(line.text)}"
    row = view.rows[line.first]
    sign = "◆" if line.first == view.departure else " "
    did = row.did_a if row.mark == "same" else f"A: {row.did_a or '–'} | B: {row.did_b or '–'}"
    what = f"  ({row.what})" if row.what else ""
    return f"{sign}{MARKS[row.mark]} {place(row)}: {format.one_line(did)}{format.one_line(what)}"


def pair_markdown(pair: PairView) -> str:
    """A row in full, each part as a diff where both have it."""
    title = "what they were told" if pair.row is None else place(pair.row)
    return "\n\n".join([f"### {title}", *(text for each in pair.parts for text in _part(each))])


def _part(part: Part) -> Iterator[str]:
    yield f"**{format.one_line(part.title)}**"
    if part.diff is not None:
        yield _fenced("\n".join(line.text for line in part.diff), "diff")
    elif part.same:
        yield _fenced(part.a or "")
    else:
        for letter, text in (("A", part.a), ("B", part.b)):
            if text is not None:
                yield f"only {letter}:" if None in (part.a, part.b) else f"{letter}:"
                yield _fenced(text)


def _code(text: str) -> str:
    return format.one_line(text)


def _fenced(text: str, language: str = "") -> str:
    """A fence longer than any run of backticks inside, so that nothing in the text can end it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{format.plain(text)}\n{fence}"
