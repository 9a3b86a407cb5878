"""The two themes of the app: which colour stands for what."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="arc-dark",
    dark=True,
    background="#14161a",
    surface="#1a1d22",
    panel="#1f232a",
    foreground="#d5d9e0",
    primary="#6cb4ee",
    secondary="#c9a0dc",
    success="#45c4a0",
    warning="#f0b849",
    error="#ff8a5c",
    accent="#f0b849",
    variables={
        "good": "#45c4a0",
        "bad": "#ff8a5c",
        "quiet": "#8b93a1",
        "faint": "#4b5360",
        "calm": "#7d8a9e",
        "line": "#343a45",
        "focus-line": "#6cb4ee",
        "cursor": "#2b3b50",
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
    primary="#0a67b0",
    secondary="#7d3c98",
    success="#00775a",
    warning="#8c5f00",
    error="#b83a00",
    accent="#8c5f00",
    variables={
        "good": "#00775a",
        "bad": "#b83a00",
        "quiet": "#5c6470",
        "faint": "#b4b9c0",
        "calm": "#7b8794",
        "line": "#cfd2d6",
        "focus-line": "#0a67b0",
        "cursor": "#cfe3f5",
        "cursor-dim": "#e6e9ec",
    },
)
"""Good and bad differ in hue and in lightness, so that they stay apart for colour-blind eyes; no
meaning rests on them alone."""
