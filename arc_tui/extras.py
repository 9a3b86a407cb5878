"""What recording, listening and serving need beyond the package itself: the extra `serve`."""

from __future__ import annotations

from importlib.util import find_spec

from replay.errors import ArcError


def require(command: str, *packages: str) -> None:
    """Raises ArcError with what to install where a package that a command needs is lacking."""
    for package in packages:
        if find_spec(package) is None:
            raise ArcError(
                f"{command} needs {package.replace('_', '-')}, which is not installed",
                "Try: pip install 'arc-tui[serve]'",
            )
