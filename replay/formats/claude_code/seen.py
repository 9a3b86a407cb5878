"""What had the model seen behind a line of a Claude Code session, and how well is that known?"""

from __future__ import annotations

from msgspec import Struct

from replay.trace import NO_SYSTEM, NO_TOOLS, Context, Fidelity, Level

NO_PROMPT = "user prompt not recorded"
NO_EARLIER = "earlier messages not recorded"
NO_SUMMARY = "summary after compaction not recorded"
NO_KEPT = "messages kept through a compaction not recorded"
NO_ANSWER = "content of an answer not recorded"
ATTACHED = "attachments not recorded as the model saw them"
CLEARED = "old tool results cleared at an unknown point"


class Seen(Struct, frozen=True, kw_only=True, eq=False):
    """What the model had seen behind a line, and how well that is known."""

    context: Context | None = None
    fidelity: Fidelity = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))


NOTHING = Seen()
