"""The kill file: `ARC_KILL` names a path; when a file is there, nothing more is asked.

It reaches a replay that has no terminal and whose process nobody knows: `touch` ends it.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ARC_KILL"
POLL_S = 0.25
"""How often to look while calls are in flight."""


def killed() -> str | None:
    """Why no call may be made, None where one may."""
    named = os.environ.get(VARIABLE)
    if named and Path(named).exists():
        return f"stopped by the file {named} ({VARIABLE})"
    return None
