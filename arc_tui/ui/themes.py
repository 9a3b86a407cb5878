"""The themes of the app: which colour stands for what, under one of ours and under any other.

No meaning rests on a colour alone. In ours, good and bad differ in hue and in lightness, so that
they stay apart for colour-blind eyes. The plain one takes the colours of the terminal: it is for
those that know sixteen, where ours would be rounded to black on black.
"""

from __future__ import annotations

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

AUTO = "auto"

READABLE = 4.5
"""The least contrast of a text."""

DARK = Theme(
    name="arc-dark",
    dark=True,
    background="#14161a",
    surface="#1a1d22",
    panel="#1f232a",
    foreground="#d5d9e0",
    primary="#6cb4ee",
    secondary="#c9a0dc",
    success="#6fdcb6",
    warning="#f0b849",
    error="#f5804f",
    accent="#f0b849",
    variables={
        "good": "#6fdcb6",
        "bad": "#f5804f",
        "quiet": "#969eac",
        "faint": "#4b5360",
        "calm": "#7d8a9e",
        "line": "#343a45",
        "focus-line": "#6cb4ee",
        "cursor": "#26364b",
        "cursor-dim": "#22272f",
    },
)

LIGHT = Theme(
    name="arc-light",
    dark=False,
    background="#fcfcfa",
    surface="#f5f5f2",
    panel="#ecedea",
    foreground="#22262c",
    primary="#0a63aa",
    secondary="#7d3c98",
    success="#007555",
    warning="#835900",
    error="#a32f00",
    accent="#835900",
    variables={
        "good": "#007555",
        "bad": "#a32f00",
        "quiet": "#586069",
        "faint": "#b4b9c0",
        "calm": "#67727f",
        "line": "#cfd2d6",
        "focus-line": "#0a63aa",
        "cursor": "#d9e9f8",
        "cursor-dim": "#e6e9ec",
    },
)

_OWN_COLOURS = BUILTIN_THEMES["ansi-dark"]

PLAIN = Theme(
    name="arc-plain",
    ansi=True,
    dark=True,
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    foreground="ansi_default",
    primary="ansi_default",
    secondary="ansi_magenta",
    success="ansi_green",
    warning="ansi_magenta",
    error="ansi_red",
    accent="ansi_magenta",
    variables={
        **_OWN_COLOURS.variables,
        "good": "ansi_green",
        "bad": "ansi_red",
        "quiet": "ansi_default",
        "faint": "ansi_default",
        "calm": "ansi_default",
        "line": "ansi_default",
        "focus-line": "ansi_default",
        "cursor": "ansi_default",
        "cursor-dim": "ansi_default",
    },
)
"""The terminal's own text and ground, bold and reverse for what stands out; a few of the colours
that are readable on black and on white."""

OURS = {theme.name: theme for theme in (DARK, LIGHT, PLAIN)}

NAMES = (AUTO, *OURS, *BUILTIN_THEMES)
"""What may be asked for."""


def choose_theme(name: str, *, few_colours: bool) -> str:
    """The theme that a name means on a terminal."""
    if name != AUTO:
        return name
    return PLAIN.name if few_colours else DARK.name


def roles(theme: Theme) -> dict[str, str]:
    """What the app's own roles look like under a theme: those of a theme that is not ours are made
    of its colours, text as far from the ground as text must be."""
    if theme.name in OURS:
        return theme.variables
    if theme.ansi:
        return PLAIN.variables
    made = theme.to_color_system().generate()
    ground, text = Color.parse(made["background"]), Color.parse(made["foreground"])
    primary = Color.parse(made["primary"])

    def legible(colour: Color) -> str:
        steps = (colour.blend(text, tenth / 10) for tenth in range(11))
        return next((each for each in steps if contrast(each, ground) >= READABLE), text).hex

    return {
        "good": legible(Color.parse(made["success"])),
        "bad": legible(Color.parse(made["error"])),
        "quiet": legible(text.blend(ground, 0.35)),
        "faint": text.blend(ground, 0.65).hex,
        "calm": text.blend(ground, 0.45).hex,
        "line": text.blend(ground, 0.75).hex,
        "focus-line": legible(primary),
        "cursor": ground.blend(primary, 0.25).hex,
        "cursor-dim": ground.blend(text, 0.08).hex,
    }


def contrast(one: Color, two: Color) -> float:
    """How far two colours are apart in lightness, as the WCAG have it: 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(two)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Color) -> float:
    return sum(
        weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        for weight, part in zip((0.2126, 0.7152, 0.0722), colour.normalized, strict=True)
    )
