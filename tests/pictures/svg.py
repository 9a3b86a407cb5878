"""From what the app exports to files that are small, stay the same, and can move.

An export names a font to be fetched and bears a random id: neither goes into a picture. A film is
one SVG: each row of the terminal is drawn once for every different thing it shows, and hidden when
another is shown; viewers that do not animate show the first frame.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

CAPTION_HEIGHT = 34.0
_ROW = re.compile(r'<(rect|text)\b[^>]* y="([\d.]+)"[^>]*?(?:/>|>[^<]*</text>)')
_STYLE = re.compile(r"\.[\w-]+-(r\d+) \{ ([^}]*?) ?\}")
_LINE_HEIGHT = 24.4


class Frame(NamedTuple):
    """The screen as it was exported, what was done to come here, and how long it is looked at."""

    svg: str
    caption: str
    seconds: float


def still(svg: str, name: str) -> str:
    """The picture without the fonts it would fetch, and with ids that do not change."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    unique = re.search(r"terminal-(\d+)", svg)
    return svg.replace(unique.group(), f"arc-{name}") if unique else svg


def film(frames: Sequence[Frame]) -> str:
    """The frames one after another, for ever; all of one size."""
    width, height = _size(frames[0].svg)
    rows = [_rows(frame.svg) for frame in frames]
    places = sorted({place for each in rows for place in each})
    times = _shares([frame.seconds for frame in frames])
    total = sum(frame.seconds for frame in frames)
    drawn = [
        part
        for place in places
        for part in _alternating([each.get(place, "") for each in rows], times, total)
    ]
    captions = [
        f'<text class="caption" x="20" y="{height + 22:g}">{html.escape(frame.caption)}</text>'
        for frame in frames
    ]
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width:g} {height + CAPTION_HEIGHT:g}" '
            'xmlns="http://www.w3.org/2000/svg">',
            "<style>text { font: 20px 'Fira Code', monospace; white-space: pre }",
            ".caption { font: bold 20px sans-serif; fill: #f0b849 }</style>",
            f'<rect width="{width:g}" height="{height + CAPTION_HEIGHT:g}" rx="8" fill="#14161a"/>',
            '<g transform="translate(9, 9)">',
            *drawn,
            "</g>",
            *_alternating(captions, times, total),
            "</svg>\n",
        ]
    )


def _size(svg: str) -> tuple[float, float]:
    """Of the terminal in the picture, with a margin."""
    found = re.search(
        r'clip-terminal">\s*<rect x="0" y="0" width="([\d.]+)" height="([\d.]+)"', svg
    )
    assert found, "no export of a terminal"
    return float(found[1]) + 18, float(found[2]) + 18


def _rows(svg: str) -> dict[int, str]:
    """What is drawn in each row, in its order, with the styles written out."""
    styles = {name: _attributes(style) for name, style in _STYLE.findall(svg)}
    found: dict[int, list[str]] = {}
    for match in _ROW.finditer(svg[svg.index('clip-path="url(#') :]):
        place = int((float(match[2]) - (20 if match[1] == "text" else 1.5)) / _LINE_HEIGHT + 0.5)
        found.setdefault(place, []).append(_plain(match[0], styles))
    return {place: "".join(parts) for place, parts in found.items()}


def _plain(element: str, styles: dict[str, str]) -> str:
    element = re.sub(r' clip-path="[^"]*"| shape-rendering="[^"]*"', "", element)
    return re.sub(r'class="[\w-]+-(r\d+)"', lambda found: styles[found[1]], element)


def _attributes(style: str) -> str:
    """`fill: #fff;font-weight: bold` as attributes."""
    pairs = (each.split(":") for each in style.split(";") if each.strip())
    return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in pairs)


def _shares(seconds: Sequence[float]) -> list[float]:
    """When each frame begins, as a share of the whole."""
    total, begun = sum(seconds), 0.0
    shares = []
    for each in seconds:
        shares.append(round(begun / total, 4))
        begun += each
    return shares


def _alternating(shown: Sequence[str], times: Sequence[float], total: float) -> list[str]:
    """Each different thing once, visible in the frames that show it."""
    parts = []
    for content in dict.fromkeys(each for each in shown if each):
        visible = ["visible" if each == content else "hidden" for each in shown]
        if len(set(visible)) == 1:
            parts.append(content)
            continue
        turns = [at for at, each in enumerate(visible) if at == 0 or each != visible[at - 1]]
        parts.append(
            f'<g visibility="{visible[0]}">{content}<animate attributeName="visibility" '
            f'calcMode="discrete" dur="{total:g}s" repeatCount="indefinite" '
            f'values="{";".join(visible[at] for at in turns)}" '
            f'keyTimes="{";".join(f"{times[at]:g}" for at in turns)}"/></g>'
        )
    return parts
