"""The app in a browser of this machine: who is let in, what the page is, and the process of a tab.

The page's terminal and its fonts are those of the package `textual-serve`, whose files are read and
whose server is not used: it asks nobody who they are, loads a font from elsewhere, and starts its
apps by a shell.
"""

from __future__ import annotations

from importlib.util import find_spec

from replay.errors import ArcError

SERVE_PORT = 4380
"""Where the app is served unless told."""


def require_server() -> None:
    """Raises ArcError with what to install where a package is lacking."""
    lacking = [name for name in ("aiohttp", "textual_serve") if find_spec(name) is None]
    if lacking:
        raise ArcError(
            f"serving needs the package {lacking[0].replace('_', '-')}, which is not installed",
            "install arc with its extra: uv tool install 'arc-tui[serve]'",
        )
